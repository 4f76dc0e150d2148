//! The table of all methods: each one's REST route, request and response.

use std::collections::HashMap;
use std::sync::OnceLock;

use bytes::Bytes;
use ramlet_proto::{Message, Shaped, qdrant as q};

use super::node::Node;
use super::requests::{self, DecodedRequest, Request};
use super::responses::{self, Encode};
use crate::error::{ApiError, ApiResult};
use crate::request::route::Route;
use crate::routes::routes;

/// Where points stand in a method's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Points {
    None,
    /// As elements of the answer's list, its field of this number.
    Listed(u32),
    /// In lists of the answer's parts, fields of this number: written once more.
    Inside(u32),
}

impl Points {
    pub fn field(self) -> u32 {
        match self {
            Points::None => 1,
            Points::Listed(field) | Points::Inside(field) => field,
        }
    }
}

/// A method of the API.
pub struct Method {
    /// `/service/method`.
    pub path: &'static str,
    /// Method and path of the route in REST.
    pub route: (&'static str, &'static str),
    pub(super) request: Request,
    pub(super) points: Points,
    pub(super) encode: Encode,
}

/// A method and its route.
pub struct Bound {
    pub method: &'static Method,
    pub route: &'static Route,
}

/// The method of a path.
pub fn find(path: &str) -> Option<&'static Bound> {
    static ALL: OnceLock<HashMap<&'static str, Bound>> = OnceLock::new();
    let all = ALL.get_or_init(|| methods().iter().filter_map(bind).collect());
    all.get(path)
}

fn bind(method: &'static Method) -> Option<(&'static str, Bound)> {
    let (verb, path) = method.route;
    let route = routes().iter().find(|r| r.method == verb && r.path == path)?;
    Some((method.path, Bound { method, route }))
}

fn decoded<M: Message + Default>(
    bytes: Bytes,
    to_request: fn(M) -> ApiResult<DecodedRequest>,
) -> ApiResult<DecodedRequest> {
    to_request(M::decode(bytes).map_err(ApiError::wrong_input)?)
}

macro_rules! method {
    ($path:literal = $verb:literal $route:literal: $message:ident $to_request:expr => $points:expr, $encode:path) => {
        Method {
            path: $path,
            route: ($verb, $route),
            request: Request {
                shape: <q::$message as Shaped>::SHAPE,
                decode: |bytes| decoded::<q::$message>(bytes, $to_request),
            },
            points: $points,
            encode: $encode,
        }
    };
}

/// The table.
pub fn methods() -> &'static [Method] {
    static METHODS: OnceLock<Vec<Method>> = OnceLock::new();
    METHODS.get_or_init(|| {
        let mut all = collection_methods();
        all.extend(shard_methods());
        all.extend(change_methods());
        all.extend(index_methods());
        all.extend(read_methods());
        all.extend(older_methods());
        all.extend(snapshot_methods());
        all
    })
}

fn plain<M>(_: M) -> ApiResult<DecodedRequest> {
    Ok(DecodedRequest::plain(Node::Null))
}

#[rustfmt::skip]
fn collection_methods() -> Vec<Method> {
    use requests::collections as a;
    use responses::collections as t;
    use Points::None;
    vec![
        method!("/qdrant.Qdrant/HealthCheck" = "GET" "/": HealthCheckRequest plain => None, responses::version),
        method!("/qdrant.Collections/List" = "GET" "/collections": ListCollectionsRequest plain => None, t::list),
        method!("/qdrant.Collections/Get" = "GET" "/collections/{collection}": GetCollectionInfoRequest |m| a::named(m.collection_name) => None, t::info),
        method!("/qdrant.Collections/Create" = "PUT" "/collections/{collection}": CreateCollection a::create => None, t::done),
        method!("/qdrant.Collections/Update" = "PATCH" "/collections/{collection}": UpdateCollection a::update => None, t::done),
        method!("/qdrant.Collections/Delete" = "DELETE" "/collections/{collection}": DeleteCollection a::delete => None, t::done),
        method!("/qdrant.Collections/CollectionExists" = "GET" "/collections/{collection}/exists": CollectionExistsRequest |m| a::named(m.collection_name) => None, t::exists),
        method!("/qdrant.Collections/UpdateAliases" = "POST" "/collections/aliases": ChangeAliases a::aliases => None, t::done),
        method!("/qdrant.Collections/ListAliases" = "GET" "/aliases": ListAliasesRequest plain => None, t::aliases),
        method!("/qdrant.Collections/ListCollectionAliases" = "GET" "/collections/{collection}/aliases": ListCollectionAliasesRequest |m| a::named(m.collection_name) => None, t::aliases),
        method!("/qdrant.Collections/CollectionClusterInfo" = "GET" "/collections/{collection}/cluster": CollectionClusterInfoRequest |m| a::named(m.collection_name) => None, t::cluster),
    ]
}

#[rustfmt::skip]
fn shard_methods() -> Vec<Method> {
    use requests::collections as a;
    use responses::collections as t;
    use Points::None;
    vec![
        method!("/qdrant.Collections/UpdateCollectionClusterSetup" = "POST" "/collections/{collection}/cluster": UpdateCollectionClusterSetupRequest a::change_cluster => None, t::done),
        method!("/qdrant.Collections/CreateShardKey" = "PUT" "/collections/{collection}/shards": CreateShardKeyRequest a::create_shard_key => None, t::done),
        method!("/qdrant.Collections/DeleteShardKey" = "POST" "/collections/{collection}/shards/delete": DeleteShardKeyRequest a::delete_shard_key => None, t::done),
        method!("/qdrant.Collections/ListShardKeys" = "GET" "/collections/{collection}/shards": ListShardKeysRequest |m| a::named(m.collection_name) => None, t::shard_keys),
    ]
}

#[rustfmt::skip]
fn change_methods() -> Vec<Method> {
    use requests::{points as p, updates as u};
    use responses::{updated, updated_all};
    use Points::None;
    vec![
        method!("/qdrant.Points/Upsert" = "PUT" "/collections/{collection}/points": UpsertPoints p::upsert => None, updated),
        method!("/qdrant.Points/Delete" = "POST" "/collections/{collection}/points/delete": DeletePoints u::delete => None, updated),
        method!("/qdrant.Points/UpdateVectors" = "PUT" "/collections/{collection}/points/vectors": UpdatePointVectors u::update_vectors => None, updated),
        method!("/qdrant.Points/DeleteVectors" = "POST" "/collections/{collection}/points/vectors/delete": DeletePointVectors u::delete_vectors => None, updated),
        method!("/qdrant.Points/SetPayload" = "POST" "/collections/{collection}/points/payload": SetPayloadPoints u::set_payload => None, updated),
        method!("/qdrant.Points/OverwritePayload" = "PUT" "/collections/{collection}/points/payload": SetPayloadPoints u::set_payload => None, updated),
        method!("/qdrant.Points/DeletePayload" = "POST" "/collections/{collection}/points/payload/delete": DeletePayloadPoints u::delete_payload => None, updated),
        method!("/qdrant.Points/ClearPayload" = "POST" "/collections/{collection}/points/payload/clear": ClearPayloadPoints u::clear_payload => None, updated),
        method!("/qdrant.Points/UpdateBatch" = "POST" "/collections/{collection}/points/batch": UpdateBatchPoints u::batch => None, updated_all),
    ]
}

#[rustfmt::skip]
fn index_methods() -> Vec<Method> {
    use requests::collections as a;
    use responses::updated;
    use Points::None;
    vec![
        method!("/qdrant.Points/CreateFieldIndex" = "PUT" "/collections/{collection}/index": CreateFieldIndexCollection a::create_index => None, updated),
        method!("/qdrant.Points/DeleteFieldIndex" = "DELETE" "/collections/{collection}/index/{field}": DeleteFieldIndexCollection a::delete_index => None, updated),
        method!("/qdrant.Points/CreateVectorName" = "PUT" "/collections/{collection}/vectors/{vector}": CreateVectorNameRequest a::create_vector => None, updated),
        method!("/qdrant.Points/DeleteVectorName" = "DELETE" "/collections/{collection}/vectors/{vector}": DeleteVectorNameRequest a::delete_vector => None, updated),
    ]
}

#[rustfmt::skip]
fn read_methods() -> Vec<Method> {
    use requests::{points as p, query as a};
    use responses::group_messages as g;
    use Points::{Inside, Listed, None};
    vec![
        method!("/qdrant.Points/Get" = "POST" "/collections/{collection}/points": GetPoints p::get => Listed(1), responses::got),
        method!("/qdrant.Points/Scroll" = "POST" "/collections/{collection}/points/scroll": ScrollPoints a::scroll => Listed(2), responses::scrolled),
        method!("/qdrant.Points/Count" = "POST" "/collections/{collection}/points/count": CountPoints a::count => None, responses::counted),
        method!("/qdrant.Points/Query" = "POST" "/collections/{collection}/points/query": QueryPoints a::points => Listed(1), responses::hits),
        method!("/qdrant.Points/QueryBatch" = "POST" "/collections/{collection}/points/query/batch": QueryBatchPoints a::batch => Inside(1), responses::batches),
        method!("/qdrant.Points/QueryGroups" = "POST" "/collections/{collection}/points/query/groups": QueryPointGroups a::groups => Inside(2), g::groups),
        method!("/qdrant.Points/Facet" = "POST" "/collections/{collection}/facet": FacetCounts a::facet => None, g::facet),
        method!("/qdrant.Points/SearchMatrixPairs" = "POST" "/collections/{collection}/points/search/matrix/pairs": SearchMatrixPoints a::matrix => None, g::pairs),
        method!("/qdrant.Points/SearchMatrixOffsets" = "POST" "/collections/{collection}/points/search/matrix/offsets": SearchMatrixPoints a::matrix => None, g::offsets),
    ]
}

#[rustfmt::skip]
fn older_methods() -> Vec<Method> {
    use requests::search as a;
    use responses::group_messages as g;
    use Points::{Inside, Listed};
    vec![
        method!("/qdrant.Points/Search" = "POST" "/collections/{collection}/points/search": SearchPoints a::search => Listed(1), responses::hits),
        method!("/qdrant.Points/SearchBatch" = "POST" "/collections/{collection}/points/search/batch": SearchBatchPoints a::search_batch => Inside(1), responses::batches),
        method!("/qdrant.Points/SearchGroups" = "POST" "/collections/{collection}/points/search/groups": SearchPointGroups a::search_groups => Inside(2), g::groups),
        method!("/qdrant.Points/Recommend" = "POST" "/collections/{collection}/points/recommend": RecommendPoints a::recommend => Listed(1), responses::hits),
        method!("/qdrant.Points/RecommendBatch" = "POST" "/collections/{collection}/points/recommend/batch": RecommendBatchPoints a::recommend_batch => Inside(1), responses::batches),
        method!("/qdrant.Points/RecommendGroups" = "POST" "/collections/{collection}/points/recommend/groups": RecommendPointGroups a::recommend_groups => Inside(2), g::groups),
        method!("/qdrant.Points/Discover" = "POST" "/collections/{collection}/points/discover": DiscoverPoints a::discover => Listed(1), responses::hits),
        method!("/qdrant.Points/DiscoverBatch" = "POST" "/collections/{collection}/points/discover/batch": DiscoverBatchPoints a::discover_batch => Inside(1), responses::batches),
    ]
}

#[rustfmt::skip]
fn snapshot_methods() -> Vec<Method> {
    use requests::collections as a;
    use responses::snapshots as t;
    use Points::None;
    vec![
        method!("/qdrant.Snapshots/Create" = "POST" "/collections/{collection}/snapshots": CreateSnapshotRequest |m| a::named(m.collection_name) => None, t::created),
        method!("/qdrant.Snapshots/List" = "GET" "/collections/{collection}/snapshots": ListSnapshotsRequest |m| a::named(m.collection_name) => None, t::list),
        method!("/qdrant.Snapshots/Delete" = "DELETE" "/collections/{collection}/snapshots/{snapshot}": DeleteSnapshotRequest |m| a::snapshot(m.collection_name, m.snapshot_name) => None, t::deleted),
        method!("/qdrant.Snapshots/CreateFull" = "POST" "/snapshots": CreateFullSnapshotRequest plain => None, t::created),
        method!("/qdrant.Snapshots/ListFull" = "GET" "/snapshots": ListFullSnapshotsRequest plain => None, t::list),
        method!("/qdrant.Snapshots/DeleteFull" = "DELETE" "/snapshots/{snapshot}": DeleteFullSnapshotRequest |m| Ok(DecodedRequest::plain(Node::Null).param("snapshot", m.snapshot_name)) => None, t::deleted),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_its_route() {
        for method in methods() {
            assert!(
                find(method.path).is_some(),
                "{} stands for {:?}",
                method.path,
                method.route
            );
        }
        assert!(find("/qdrant.Points/Nothing").is_none());
    }
}
