//! Collections that are divided among nodes: a request is asked of the shards that it is about, and their answers become one.
//!
//! A shard is a group of nodes over a log of its own, and knows nothing of the others ([`crate::nodes::node`]). All that knows of several stands here. It works on
//! requests and answers in JSON, as REST has them; a node asks its own shard in process, and another one by HTTP, with the client's key and a header that
//! says which shard alone is meant. Reading order: [`ask`], [`writes`], [`points`], [`query`], [`groups`], [`settings`].

mod answers;
mod ask;
mod cluster;
mod facets;
mod filters;
mod groups;
mod highlights;
mod ids;
mod keys;
pub(crate) mod known;
mod lanes;
mod map;
mod mmr;
mod points;
mod projection;
mod query;
mod raw;
mod samples;
mod settings;
mod statistics;
mod told;
mod writes;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::ask::Divided;
pub use self::known::Shards;
pub use self::map::ShardMap;
use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};
use crate::nodes::changes;
use crate::nodes::keys::by_own_route as keys_changed;
use crate::nodes::node::{ALL_SHARDS, Node};
use crate::request::call::Call;
use crate::request::route::Route;

/// What becomes of a route where collections are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// About this node, or about nothing that is divided.
    Here,
    /// Told by shard 0, which has what is true of settings.
    First,
    Settings(Setting),
    Write(Writing),
    Read(Reading),
    /// Refused by name.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    Create,
    Delete,
    Aliases,
    CreateKey,
    DropKey,
    /// May be done again where it is done already.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// Points by the ids that they have.
    Points,
    /// Points by a list of ids, or by a filter.
    Selected,
    Batch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Info,
    Point,
    Points,
    Scroll,
    Count,
    Facet,
    Query(Form, Number),
    Groups(Form),
    /// Whether as coordinates.
    Matrix(bool),
    Projection,
    Shards,
    Cluster,
}

/// In whose words a query comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Query,
    Search,
    Recommend,
    Discover,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    One,
    Batch,
}

fn way_of(route: &Route) -> Way {
    use Form::{Discover, Query, Recommend, Search};
    use Number::{Batch, One};
    let Some(rest) = route.path.strip_prefix("/collections/{collection}") else {
        return match (route.method, route.path) {
            ("GET", "/collections" | "/aliases") => Way::First,
            ("POST", "/collections/aliases") => Way::Settings(Setting::Aliases),
            ("GET", "/cluster") => Way::Read(Reading::Cluster),
            (_, path) if path.starts_with("/snapshots") => Way::Never,
            _ => Way::Here,
        };
    };
    match (route.method, rest) {
        ("GET", "") => Way::Read(Reading::Info),
        ("PUT", "") => Way::Settings(Setting::Create),
        ("DELETE", "") => Way::Settings(Setting::Delete),
        ("PATCH", "") | (_, "/index" | "/index/{field}" | "/vectors/{vector}") => {
            Way::Settings(Setting::Other)
        }
        ("GET", "/exists" | "/aliases" | "/shards") => Way::First,
        ("GET", "/cluster") => Way::Read(Reading::Shards),
        ("PUT", "/shards") => Way::Settings(Setting::CreateKey),
        ("POST", "/shards/delete") => Way::Settings(Setting::DropKey),
        // But for the two above, which come by it too: refused, in its words.
        ("POST", "/cluster") => Way::First,
        ("GET", "/optimizations" | "/memory") => Way::Here,
        ("PUT", "/points" | "/points/vectors") => Way::Write(Writing::Points),
        (
            _,
            "/points/delete"
            | "/points/payload"
            | "/points/payload/delete"
            | "/points/payload/clear"
            | "/points/vectors/delete",
        ) => Way::Write(Writing::Selected),
        (_, "/points/batch") => Way::Write(Writing::Batch),
        ("POST", "/points") => Way::Read(Reading::Points),
        ("GET", "/points/{id}") => Way::Read(Reading::Point),
        (_, "/points/scroll") => Way::Read(Reading::Scroll),
        (_, "/points/count") => Way::Read(Reading::Count),
        (_, "/facet") => Way::Read(Reading::Facet),
        (_, "/points/query") => Way::Read(Reading::Query(Query, One)),
        (_, "/points/query/batch") => Way::Read(Reading::Query(Query, Batch)),
        (_, "/points/query/groups") => Way::Read(Reading::Groups(Query)),
        (_, "/points/search") => Way::Read(Reading::Query(Search, One)),
        (_, "/points/search/batch") => Way::Read(Reading::Query(Search, Batch)),
        (_, "/points/search/groups") => Way::Read(Reading::Groups(Search)),
        (_, "/points/recommend") => Way::Read(Reading::Query(Recommend, One)),
        (_, "/points/recommend/batch") => Way::Read(Reading::Query(Recommend, Batch)),
        (_, "/points/recommend/groups") => Way::Read(Reading::Groups(Recommend)),
        (_, "/points/discover") => Way::Read(Reading::Query(Discover, One)),
        (_, "/points/discover/batch") => Way::Read(Reading::Query(Discover, Batch)),
        ("GET", "/projection") => Way::Read(Reading::Projection),
        (_, "/points/search/matrix/pairs") => Way::Read(Reading::Matrix(false)),
        (_, "/points/search/matrix/offsets") => Way::Read(Reading::Matrix(true)),
        _ => Way::Never,
    }
}

/// What isn't there where collections are divided: named, never answered wrongly.
fn refused(what: impl std::fmt::Display) -> ApiError {
    ApiError::wrong_input(format!(
        "{what} isn't possible where collections are divided into shards (see docs/scale-out.md)"
    ))
}

/// Answers a request that may, where collections are divided from the shards that it is about.
pub(crate) async fn handle(route: &'static Route, call: Call) -> ApiResult<Answer> {
    let (route, call) = match &call.app.node {
        Some(_) => keys_changed(route, call)?,
        None => (route, call),
    };
    let headers = &call.request.incoming.headers;
    let node = match call.app.node.as_ref() {
        Some(node)
            if let Some(shards) = &node.shards
                && !shards.is_asked_alone(headers)? =>
        {
            node.clone()
        }
        _ => return changes::handle(route, call).await,
    };
    of_shards(&node, route, call).await
}

async fn of_shards(node: &Arc<Node>, route: &'static Route, call: Call) -> ApiResult<Answer> {
    let way = way_of(route);
    match way {
        Way::Here => return changes::handle(route, call).await,
        Way::Never => return Err(refused(format_args!("{} {}", route.method, route.path))),
        _ => {}
    }
    let written = call.request.incoming.written.clone();
    written.store(ALL_SHARDS, Ordering::Release);
    let (divided, body) = Divided::new(node, route, call).await?;
    match way {
        Way::Here | Way::Never => Err(ApiError::internal("a route of no shards")),
        Way::First => divided.first(body).await,
        Way::Settings(setting) => {
            // To its end, also when the client leaves.
            let done = tokio::spawn(async move { settings::change(&divided, setting, body).await }).await;
            done.map_err(ApiError::internal)?
        }
        Way::Write(writing) => writes::write(&divided, writing, body).await,
        Way::Read(reading) => match reading {
            Reading::Info => settings::info(&divided).await,
            Reading::Point => points::one(&divided).await,
            Reading::Points => points::several(&divided, &body).await,
            Reading::Scroll => points::scroll(&divided, body).await,
            Reading::Count => points::count(&divided, body).await,
            Reading::Facet => facets::facet(&divided, &body).await,
            Reading::Query(form, Number::One) => query::one(&divided, form, &body).await,
            Reading::Query(form, Number::Batch) => query::batch(&divided, form, &body).await,
            Reading::Groups(form) => groups::groups(&divided, form, &body).await,
            Reading::Matrix(offsets) => facets::matrix(&divided, &body, offsets).await,
            Reading::Projection => projection::plane(&divided).await,
            Reading::Shards => cluster::of_collection(&divided).await,
            Reading::Cluster => cluster::status(&divided).await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::routes;

    #[test]
    fn every_route_of_a_collection_has_its_way() {
        let of = |wanted: Way| {
            let found = routes().iter().filter(move |route| way_of(route) == wanted);
            found
                .map(|route| format!("{} {}", route.method, route.path))
                .collect::<Vec<_>>()
        };
        let here = of(Way::Here);
        let within: Vec<_> = here.iter().filter(|path| path.contains("/collections")).collect();
        assert_eq!(
            within,
            [
                "GET /collections/{collection}/optimizations",
                "GET /collections/{collection}/memory"
            ]
        );
        let never = of(Way::Never);
        let others: Vec<_> = never.iter().filter(|path| !path.contains("snapshot")).collect();
        assert_eq!(others, ["POST /collections/{collection}/statistics",]);
    }
}
