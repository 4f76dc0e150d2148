//! All that an engine says of its collections; its answers must agree with each other.

use std::collections::{BTreeMap, BTreeSet};

use ramlet::*;

use crate::support::*;

/// Numbers of the first vector: sixteen rows are a kilobyte, from which a segment may get an approximate index.
pub const WIDE: usize = 16;
/// Numbers of the second vector, which comes and goes.
pub const DIM: usize = 4;
pub const EXTRA: &str = "extra";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub collections: BTreeMap<String, Held>,
    pub aliases: Vec<(String, String)>,
    /// Names of snapshots of the collection that has some.
    pub snapshots: BTreeSet<String>,
}

/// A collection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    pub points: Contents,
    /// Points by shard key, of a collection that has such.
    pub shards: Option<BTreeMap<String, Contents>>,
    /// With a payload index.
    pub fields: BTreeSet<String>,
    pub has_extra: bool,
    pub on_disk_payload: Option<bool>,
}

/// Has snapshots taken of it.
pub const COLLECTION: &str = "c";
pub const TAKEN: SnapshotScope<'static> = SnapshotScope::Collection(COLLECTION);

/// Reads everything.
pub fn look(engine: &Engine) -> State {
    let mut scratch = engine.scratch().expect("enough memory");
    let names = engine.collection_names().into_iter();
    let held = |name: String| {
        let collection = engine.collection(&name);
        let collection = collection.unwrap_or_else(|e| panic!("collection {name} is closed: {e}"));
        let held = held(engine, &collection, &mut scratch);
        (name, held)
    };
    State {
        collections: names.map(held).collect(),
        aliases: engine.aliases(),
        snapshots: snapshots(engine),
    }
}

/// The directory of snapshots is made when it is first asked for: there may have been none.
fn snapshots(engine: &Engine) -> BTreeSet<String> {
    let directories = engine.storage().list_subdirs().expect("lists");
    if !directories.iter().any(|name| name == "snapshots") {
        return BTreeSet::new();
    }
    let listed = engine.list_snapshots(TAKEN).expect("lists").into_iter();
    listed.map(|snapshot| snapshot.name).collect()
}

fn held(engine: &Engine, collection: &std::sync::Arc<Collection>, scratch: &mut Scratch) -> Held {
    let config = collection.config();
    let mut held = Held {
        fields: config.payload_schema.keys().cloned().collect(),
        has_extra: config.vectors.contains_key(EXTRA),
        on_disk_payload: config.on_disk_payload,
        ..Held::default()
    };
    let Some(shards) = collection.shard_infos() else {
        held.points = points(engine, collection, &held, scratch);
        return held;
    };
    let of_key = |info: ShardInfo| {
        let selection = ShardSelection::Keys(vec![info.key.clone()]);
        let shard = collection.within(&selection).expect("is there");
        (info.key.to_string(), points(engine, &shard, &held, scratch))
    };
    let shards = shards.into_iter().map(of_key).collect();
    held.shards = Some(shards);
    held
}

/// Scrolls, counts and searches.
fn points(engine: &Engine, collection: &Collection, held: &Held, scratch: &mut Scratch) -> Contents {
    let found = contents(collection, scratch);
    let with = |texts: &[&str]| {
        let has = |(_, payload): &&(Vec<f32>, String)| texts.iter().any(|text| payload.contains(text));
        found.values().filter(has).count()
    };
    for n in [0, 3, 104] {
        let there = with(&[&format!("{{\"n\":{n},"), &format!("{{\"n\":{n}}}")]);
        check_count(collection, scratch, "n", &n.to_string(), there);
    }
    check_count(collection, scratch, "k", "\"k1\"", with(&["\"k\":\"k1\""]));
    if held.fields.contains("t") {
        for word in ["w0", "w2"] {
            let hits = ranked(engine, collection, word, scratch);
            assert_eq!(hits, with(&[word]), "points with {word}");
        }
    }
    let mut exact = search_request(vec![1.0; WIDE], 100);
    exact.params.exact = true;
    let mut hits =
        |request: &SearchRequest| collection.search(request, scratch).expect("searches").hits.len();
    assert_eq!(hits(&exact), found.len(), "points with a vector");
    if held.has_extra {
        let more = found.values().filter(|(vector, _)| vector.len() > WIDE).count();
        let request = SearchRequest {
            using: EXTRA.into(),
            ..search_request(vec![1.0; DIM], 100)
        };
        assert_eq!(hits(&request), more, "points with the second vector");
    }
    found
}

fn check_count(collection: &Collection, scratch: &mut Scratch, field: &str, value: &str, expected: usize) {
    let filter = format!("{{\"must\":[{{\"key\":\"{field}\",\"match\":{{\"value\":{value}}}}}]}}");
    let filter = serde_json::from_str(&filter).expect("a filter");
    let count = collection.count(Some(&filter), true, scratch).expect("counts");
    assert_eq!(count, expected as u64, "{field} = {value}");
}

fn ranked(engine: &Engine, collection: &Collection, word: &str, scratch: &mut Scratch) -> usize {
    let ranked = QueryRequest {
        query: Some(QueryKind::Text(TextQuery {
            text: word.into(),
            ..TextQuery::default()
        })),
        using: "t".into(),
        limit: 100,
        ..QueryRequest::default()
    };
    collection
        .query(ranked, engine, scratch)
        .expect("ranks")
        .hits
        .len()
}

impl State {
    /// Short enough for a message.
    pub fn summary(&self) -> String {
        let collections = self.collections.iter().map(|(name, held)| {
            let ids = |points: &Contents| {
                points
                    .keys()
                    .map(|id| id.to_string())
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let shards = held.shards.iter().flatten();
            let shards: Vec<_> = shards
                .map(|(key, points)| format!("{key}: {}", ids(points)))
                .collect();
            format!(
                "{name} [{}] {shards:?} fields {:?}, second vector {}, payload on disk {:?}",
                ids(&held.points),
                held.fields,
                held.has_extra,
                held.on_disk_payload
            )
        });
        let collections: Vec<_> = collections.collect();
        format!(
            "{collections:?}, aliases {:?}, snapshots {:?}",
            self.aliases, self.snapshots
        )
    }
}
