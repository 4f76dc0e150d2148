//! All routes, in one table.

use std::sync::OnceLock;

use crate::access::auth::Access::{Manage, Public, Read, ReadFiles, ReadSome, Write, WriteFiles};
use crate::answers::answer::Answer;
use crate::bodies::body_rule::BodyRule;
use crate::error::ApiResult;
use crate::handlers::{
    aliases, cluster, collections, dashboard, facet, indexes, issues, logger, metrics, optimizations, plan,
    points, profiler, projection, quotas, search, service, snapshots, stairs, telemetry, updates,
    vector_names,
};
use crate::openapi;
use crate::request::call::Call;
pub use crate::request::route::Route;

macro_rules! route {
    ($method:literal $path:literal $access:ident $body:ident => $($handler:ident)::+ $(as $name:ident)?) => {
        Route {
            method: $method,
            path: $path,
            name: [$(stringify!($name))?].first().copied(),
            access: $access,
            body: BodyRule::$body,
            handler: |call| Box::pin($($handler)::+(call)),
        }
    };
}

/// The table.
pub fn routes() -> &'static [Route] {
    static ROUTES: OnceLock<Vec<Route>> = OnceLock::new();
    ROUTES.get_or_init(|| {
        let mut all = service_routes();
        all.extend(collection_routes());
        all.extend(point_routes());
        all.extend(snapshot_routes());
        all
    })
}

fn service_routes() -> Vec<Route> {
    vec![
        route!("GET" "/" Public NONE => service::version),
        route!("GET" "/healthz" Public NONE => service::healthz),
        route!("GET" "/livez" Public NONE => service::livez),
        route!("GET" "/readyz" Public NONE => service::readyz),
        route!("GET" "/openapi.json" Public NONE => described),
        route!("GET" "/dashboard" Public NONE => dashboard::page),
        route!("GET" "/dashboard/dashboard.js" Public NONE => dashboard::script),
        route!("GET" "/dashboard/base.js" Public NONE => dashboard::base),
        route!("GET" "/dashboard/manage.js" Public NONE => dashboard::manage),
        route!("GET" "/dashboard/nodes.js" Public NONE => dashboard::nodes),
        route!("GET" "/dashboard/points.js" Public NONE => dashboard::points),
        route!("GET" "/dashboard/dashboard.css" Public NONE => dashboard::style),
        route!("GET" "/metrics" Read NONE => metrics::metrics),
        route!("GET" "/telemetry" ReadSome NONE => telemetry::telemetry),
        route!("GET" "/memory" Read NONE => service::memory as get_memory),
        route!("POST" "/plan" Read CONFIG => plan::make as plan_collection),
        route!("GET" "/plan" Read NONE => stairs::stored as plan_stored),
        route!("GET" "/cluster" Read NONE => cluster::status as cluster_status),
        route!("GET" "/cluster/telemetry" ReadSome NONE => cluster::telemetry),
        route!("POST" "/cluster/recover" Manage NONE => cluster::recover as recover_current_peer),
        route!("DELETE" "/cluster/peer/{peer}" Manage NONE => cluster::remove_peer as remove_peer),
        route!("GET" "/issues" ReadSome NONE => issues::list as get_issues),
        route!("DELETE" "/issues" Manage NONE => issues::clear as clear_issues),
        route!("GET" "/profiler/slow_requests" Manage NONE => profiler::slow_requests as get_slow_requests),
        route!("GET" "/quotas" Read NONE => quotas::get as get_quotas),
        route!("PUT" "/quotas" Manage CONFIG => quotas::set as update_quotas),
        route!("GET" "/logger" Read NONE => logger::get as get_logger_config),
        route!("POST" "/logger" Manage CONFIG => logger::set as update_logger_config),
    ]
}

fn collection_routes() -> Vec<Route> {
    vec![
        route!("GET" "/collections" ReadSome NONE => collections::list as list_collections),
        route!("POST" "/collections/aliases" Manage CONFIG => aliases::change as change_aliases),
        route!("GET" "/aliases" ReadSome NONE => aliases::all as list_aliases),
        route!("GET" "/collections/{collection}" Read NONE => collections::info as get_collection),
        route!("PUT" "/collections/{collection}" Manage CONFIG => collections::create as create_collection),
        route!("PATCH" "/collections/{collection}" Manage CONFIG => collections::update as update_collection),
        route!("DELETE" "/collections/{collection}" Manage NONE => collections::delete as delete_collection),
        route!("GET" "/collections/{collection}/exists" Read NONE => collections::exists as collection_exists),
        route!("GET" "/collections/{collection}/aliases" Read NONE => aliases::of_collection as list_collection_aliases),
        route!("GET" "/collections/{collection}/cluster" Read NONE => cluster::of_collection as get_collection_cluster),
        route!("POST" "/collections/{collection}/cluster" Manage CONFIG => cluster::change as update_collection_cluster),
        route!("GET" "/collections/{collection}/shards" Read NONE => cluster::shard_keys as get_collection_shard_keys),
        route!("PUT" "/collections/{collection}/shards" Manage CONFIG => cluster::create_shard_key as create_shard_key),
        route!("POST" "/collections/{collection}/shards/delete" Manage CONFIG => cluster::delete_shard_key as drop_shard_key),
        route!("GET" "/collections/{collection}/optimizations" Read NONE => optimizations::list as get_optimizations),
        route!("GET" "/collections/{collection}/memory" Read NONE => collections::memory as get_collection_memory),
        route!("PUT" "/collections/{collection}/index" WriteFiles CONFIG => indexes::create as create_payload_index),
        route!("DELETE" "/collections/{collection}/index/{field}" WriteFiles NONE => indexes::delete as drop_payload_index),
        route!("PUT" "/collections/{collection}/vectors/{vector}" WriteFiles CONFIG => vector_names::create as create_named_vector),
        route!("DELETE" "/collections/{collection}/vectors/{vector}" WriteFiles NONE => vector_names::delete as delete_named_vector),
    ]
}

fn point_routes() -> Vec<Route> {
    vec![
        route!("PUT" "/collections/{collection}/points" Write VECTORS => updates::upsert as upsert_points),
        route!("POST" "/collections/{collection}/points" Read QUERY => points::retrieve as retrieve),
        route!("GET" "/collections/{collection}/points/{id}" Read NONE => points::get as retrieve),
        route!("POST" "/collections/{collection}/points/delete" Write QUERY => updates::delete as delete_points),
        route!("POST" "/collections/{collection}/points/payload" Write QUERY => updates::set_payload as set_payload),
        route!("PUT" "/collections/{collection}/points/payload" Write QUERY => updates::overwrite_payload as overwrite_payload),
        route!("POST" "/collections/{collection}/points/payload/delete" Write QUERY => updates::delete_payload as delete_payload),
        route!("POST" "/collections/{collection}/points/payload/clear" Write QUERY => updates::clear_payload as clear_payload),
        route!("PUT" "/collections/{collection}/points/vectors" Write VECTORS => updates::update_vectors as update_vectors),
        route!("POST" "/collections/{collection}/points/vectors/delete" Write QUERY => updates::delete_vectors as delete_vectors),
        route!("POST" "/collections/{collection}/points/batch" Write VECTORS => updates::batch as update_batch),
        route!("POST" "/collections/{collection}/points/scroll" Read QUERY => points::scroll as scroll),
        route!("POST" "/collections/{collection}/points/count" Read QUERY => points::count as count),
        route!("POST" "/collections/{collection}/points/query" Read QUERY => search::query as query),
        route!("POST" "/collections/{collection}/points/query/batch" Read QUERY => search::query_batch as query_batch),
        route!("POST" "/collections/{collection}/points/search" Read QUERY => search::search as search),
        route!("POST" "/collections/{collection}/points/query/groups" Read QUERY => search::query_groups as query_groups),
        route!("POST" "/collections/{collection}/points/search/batch" Read QUERY => search::search_batch as search_batch),
        route!("POST" "/collections/{collection}/points/search/groups" Read QUERY => search::search_groups as search_groups),
        route!("POST" "/collections/{collection}/points/recommend" Read QUERY => search::recommend as recommend),
        route!("POST" "/collections/{collection}/points/recommend/batch" Read QUERY => search::recommend_batch as recommend_batch),
        route!("POST" "/collections/{collection}/points/recommend/groups" Read QUERY => search::recommend_groups as recommend_groups),
        route!("POST" "/collections/{collection}/points/discover" Read QUERY => search::discover as discover),
        route!("POST" "/collections/{collection}/points/discover/batch" Read QUERY => search::discover_batch as discover_batch),
        route!("POST" "/collections/{collection}/statistics" Read QUERY => search::statistics as get_statistics),
        route!("POST" "/collections/{collection}/facet" Read QUERY => facet::facet as facet),
        route!("POST" "/collections/{collection}/points/search/matrix/pairs" Read QUERY => facet::pairs as search_points_matrix),
        route!("POST" "/collections/{collection}/points/search/matrix/offsets" Read QUERY => facet::offsets as search_points_matrix),
    ]
}

/// Those of shard 0 of a collection without shard keys are those of the collection. Uploads are read by their handler.
fn snapshot_routes() -> Vec<Route> {
    vec![
        route!("GET" "/snapshots" Read NONE => snapshots::list as list_full_snapshots),
        route!("POST" "/snapshots" Manage NONE => snapshots::create as create_full_snapshot),
        route!("GET" "/snapshots/{snapshot}" Read NONE => snapshots::download as get_full_snapshot),
        route!("DELETE" "/snapshots/{snapshot}" Manage NONE => snapshots::delete as delete_full_snapshot),
        route!("GET" "/collections/{collection}/projection" Read NONE => projection::plane as project_points),
        route!("GET" "/collections/{collection}/snapshots" ReadFiles NONE => snapshots::list as list_snapshots),
        route!("POST" "/collections/{collection}/snapshots" WriteFiles NONE => snapshots::create as create_snapshot),
        route!("POST" "/collections/{collection}/snapshots/upload" Manage NONE => snapshots::upload as upload_snapshot),
        route!("PUT" "/collections/{collection}/snapshots/recover" Manage CONFIG => snapshots::recover as recover_from_snapshot),
        route!("GET" "/collections/{collection}/snapshots/{snapshot}" ReadFiles NONE => snapshots::download as get_snapshot),
        route!("DELETE" "/collections/{collection}/snapshots/{snapshot}" WriteFiles NONE => snapshots::delete as delete_collection_snapshot),
        route!("GET" "/collections/{collection}/shards/{shard}/snapshot" WriteFiles NONE => snapshots::stream as stream_shard_snapshot),
        route!("GET" "/collections/{collection}/shards/{shard}/snapshot/partial/manifest" Manage NONE => snapshots::manifest as get_partial_snapshot_manifest),
        route!("POST" "/collections/{collection}/shards/{shard}/snapshot/partial/create" Manage CONFIG => snapshots::create_partial as create_partial_snapshot),
        route!("POST" "/collections/{collection}/shards/{shard}/snapshot/partial/recover" Manage NONE => snapshots::upload as recover_partial_snapshot),
        route!("POST" "/collections/{collection}/shards/{shard}/snapshot/partial/recover_from" Manage CONFIG => snapshots::recover_from as recover_partial_snapshot_from),
        route!("GET" "/collections/{collection}/shards/{shard}/snapshots" ReadFiles NONE => snapshots::list as list_shard_snapshots),
        route!("POST" "/collections/{collection}/shards/{shard}/snapshots" WriteFiles NONE => snapshots::create as create_shard_snapshot),
        route!("POST" "/collections/{collection}/shards/{shard}/snapshots/upload" Manage NONE => snapshots::upload as upload_shard_snapshot),
        route!("PUT" "/collections/{collection}/shards/{shard}/snapshots/recover" Manage CONFIG => snapshots::recover as recover_shard_snapshot),
        route!("GET" "/collections/{collection}/shards/{shard}/snapshots/{snapshot}" ReadFiles NONE => snapshots::download as download_shard_snapshot),
        route!("DELETE" "/collections/{collection}/shards/{shard}/snapshots/{snapshot}" WriteFiles NONE => snapshots::delete as delete_shard_snapshot),
    ]
}

/// `GET /openapi.json`: the description of this table.
async fn described(_: Call) -> ApiResult<Answer> {
    openapi::describe(routes())
}
