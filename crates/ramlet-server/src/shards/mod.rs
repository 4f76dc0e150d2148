//! Collections that are divided among nodes: a request is asked of the shards that it is about, and their answers become one.
//!
//! A shard is a group of nodes over a log of its own, and knows nothing of the others ([`crate::node`]). All that knows of several stands here. It works on
//! requests and answers in JSON, as REST has them; a node asks its own shard in process, and another one by HTTP, with the client's key and a header that
//! says which shard alone is meant. Reading order: [`ask`], [`writes`], [`points`], [`query`], [`groups`], [`settings`].

mod answers;
mod ask;
mod cluster;
mod facets;
mod filters;
mod groups;
mod ids;
mod lanes;
mod map;
mod mmr;
mod points;
mod query;
mod samples;
mod settings;
mod statistics;
mod writes;

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ramlet_memory::{Consumer, OverBudget, Reservation};

use self::ask::Divided;
use self::lanes::Lane;
pub use self::map::{ShardMap, ShardNode};
use crate::answer::Answer;
use crate::call::Call;
use crate::changes::alone;
use crate::error::{ApiError, ApiResult};
use crate::forwarder::SendOn;
use crate::limits;
use crate::node::{ALL_SHARDS, Node};
use crate::route::Route;

/// Of a request: the number of the shard that it is about alone.
pub const SHARD: HeaderName = HeaderName::from_static("ramlet-shard");

/// The shards, as a node that holds one of them sees them.
pub struct Shards {
    own: u32,
    map: Arc<dyn ShardMap>,
    /// Of each shard but the own one: for reads, and for writes.
    lanes: Vec<Option<[Lane; 2]>>,
    /// The highest slot of each shard that was written through this node: who reads through it sees that.
    written: Vec<AtomicU64>,
    /// Nodes take turns.
    turn: AtomicUsize,
    /// Nodes that didn't answer, and when.
    silent: Mutex<Vec<(String, Instant)>>,
    /// Account of answers that are gathered.
    gathered: Consumer,
    _connections: Reservation,
}

impl Shards {
    /// `own` of so many. `gathered`: the account of connections and of answers of other shards.
    pub fn new(
        (own, count): (u32, u32),
        map: Arc<dyn ShardMap>,
        send: &SendOn,
        gathered: Consumer,
    ) -> Result<Shards, NotDivided> {
        let bytes = u64::from(count - 1) * limits::SHARD_CONNECTIONS_BYTES;
        let connections = gathered.reserve(bytes).map_err(NotDivided::Memory)?;
        let mut lanes = Vec::with_capacity(count as usize);
        for shard in 0..count {
            lanes.push(match shard == own {
                true => None,
                false => {
                    let lane = |threads| Lane::new(send, threads).map_err(NotDivided::Threads);
                    let [reads, writes] = limits::SHARD_LANE_THREADS;
                    Some([lane(reads)?, lane(writes)?])
                }
            });
        }
        Ok(Shards {
            own,
            map,
            lanes,
            written: (0..count).map(|_| AtomicU64::new(0)).collect(),
            turn: AtomicUsize::new(0),
            silent: Mutex::default(),
            gathered,
            _connections: connections,
        })
    }

    fn count(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// Whether a request is about the shard that is here, and nothing else.
    pub(crate) fn is_asked_alone(&self, headers: &HeaderMap) -> ApiResult<bool> {
        let Some(asked) = headers.get(SHARD) else {
            // A write that another node of the shard sends to its owner.
            return Ok(headers.contains_key(crate::forward::FORWARDED));
        };
        let asked = asked.to_str().ok().and_then(|text| text.parse::<u32>().ok());
        match asked {
            Some(asked) if asked == self.own => Ok(true),
            _ => {
                let what = format!("this node holds shard {} of {}", self.own, self.count());
                Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, what))
            }
        }
    }

    /// Slots of all shards that were written through this node, as headers have them.
    pub(crate) fn slots(&self) -> HeaderValue {
        let slots = self.written.iter().map(|slot| slot.load(Ordering::Acquire).to_string());
        let text = slots.collect::<Vec<_>>().join(",");
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("0"))
    }

    fn note_written(&self, shard: u32, slot: u64) {
        self.written[shard as usize].fetch_max(slot, Ordering::AcqRel);
    }

    fn note_silent(&self, url: &str) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.retain(|(other, at)| other != url && at.elapsed() < limits::SHARD_AVOIDED);
        silent.push((url.to_owned(), Instant::now()));
        drop(silent);
        self.map.look();
    }

    /// The nodes of another shard in the order in which they are asked.
    fn nodes(&self, shard: u32, is_read: bool) -> Vec<ShardNode> {
        let mut nodes = self.map.nodes(shard);
        nodes.retain(|node| !node.url.is_empty());
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        if !nodes.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % nodes.len();
            nodes.rotate_left(turn);
        }
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_silent = |node: &ShardNode| {
            let known = silent.iter().find(|(url, _)| *url == node.url);
            known.is_some_and(|(_, at)| at.elapsed() < limits::SHARD_AVOIDED)
        };
        nodes.sort_by_key(|node| (is_silent(node), !is_read && !node.owns));
        nodes
    }

    /// Until another node owns the shard's log: the one before may be stopped, and its answer far away. Never for reads.
    async fn replaced(&self, shard: u32, node: &ShardNode, is_read: bool) -> String {
        if is_read {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(limits::OWNER_POLL).await;
            let nodes = self.map.nodes(shard);
            if nodes.iter().any(|other| other.owns && other.node != node.node) {
                return "another node took over".to_owned();
            }
        }
    }

    /// How many nodes hold other shards.
    pub(crate) fn nodes_elsewhere(&self) -> usize {
        let others = (0..self.count()).filter(|shard| *shard != self.own);
        others.map(|shard| self.map.nodes(shard).len()).sum()
    }

    /// The shards that no node is known to hold.
    pub(crate) fn without_nodes(&self) -> Vec<u32> {
        let others = (0..self.count()).filter(|shard| *shard != self.own);
        others.filter(|shard| self.nodes(*shard, true).is_empty()).collect()
    }
}

/// Why a node can't hold a shard.
#[derive(Debug)]
pub enum NotDivided {
    Memory(OverBudget),
    Threads(io::Error),
}

impl std::fmt::Display for NotDivided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotDivided::Memory(e) => e.fmt(f),
            NotDivided::Threads(e) => write!(f, "starting threads: {e}"),
        }
    }
}

impl std::error::Error for NotDivided {}

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
        ("PATCH", "") | (_, "/index" | "/index/{field}" | "/vectors/{vector}") => Way::Settings(Setting::Other),
        ("GET", "/exists" | "/aliases" | "/shards") => Way::First,
        ("GET", "/cluster") => Way::Read(Reading::Shards),
        ("GET", "/optimizations" | "/memory") => Way::Here,
        ("PUT", "/points" | "/points/vectors") => Way::Write(Writing::Points),
        (
            _,
            "/points/delete" | "/points/payload" | "/points/payload/delete" | "/points/payload/clear"
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

/// Answers a request that may be about several shards.
pub(crate) async fn handle(node: &Arc<Node>, route: &'static Route, call: Call) -> ApiResult<Answer> {
    let way = way_of(route);
    match way {
        Way::Here => return alone(node, route, call).await,
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
        assert_eq!(
            others,
            [
                "POST /collections/{collection}/cluster",
                "PUT /collections/{collection}/shards",
                "POST /collections/{collection}/shards/delete",
                "POST /collections/{collection}/statistics",
                "GET /collections/{collection}/projection",
            ]
        );
    }
}
