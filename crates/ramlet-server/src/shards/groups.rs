//! Hits of all shards grouped by the values of a payload field: as the engine does it, over merged lists.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use bytes::Bytes;
use ramlet::limits::{GROUP_POINTS_MAX, LIMIT_MAX};
use ramlet::payload::Path;
use ramlet::{
    GROUPS_GROWTH, GroupId, PointId, QueryGroupsRequest, ShardSelection, group_ids, widen_for_groups,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::answers::{Point, write_list};
use super::ask::Divided;
use super::keys::one_key;
use super::points::{dress, retrieve};
use super::query::{Run, found_for_lookup};
use super::raw::{Query, in_words_of_query};
use super::{Form, refused, settings};
use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::wire::explain::beside_result;
use crate::wire::query::{IntoGroups, WireQueryGroups, WireRecommendGroups, WireSearchGroups};

struct Group {
    id: GroupId,
    points: Vec<Point>,
}

struct Table {
    groups: Vec<Group>,
    /// There are no more points than were looked at.
    exhausted: bool,
}

fn typed<'a, T: IntoGroups + Deserialize<'a>>(
    json: &'a [u8],
) -> ApiResult<(QueryGroupsRequest, ShardSelection)> {
    let wire: T = serde_json::from_slice(json).map_err(ApiError::format)?;
    let keys = wire.shards();
    Ok((wire.into_groups()?, keys))
}

/// `POST /points/query/groups`, and the older routes.
pub async fn groups(asked: &Divided, form: Form, body: &Bytes) -> ApiResult<Answer> {
    let _tree = asked.hold(body.len() as u64 * limits::TREE_OF_JSON)?;
    let (mut request, keys) = match form {
        Form::Query => typed::<WireQueryGroups>(body)?,
        Form::Search => typed::<WireSearchGroups>(body)?,
        Form::Recommend => typed::<WireRecommendGroups>(body)?,
        Form::Discover => return Err(refused("groups of a discovery")),
    };
    let raw: Map<String, Value> = serde_json::from_slice(body).map_err(ApiError::format)?;
    let mut raw = in_words_of_query(form, raw);
    let lookup = raw.remove("with_lookup");
    let mut given = |name: &str| raw.remove(name).filter(|value| !value.is_null());
    let shown = (given("with_payload"), given("with_vector"));
    // Groups don't show them.
    given("highlight");
    request.query.highlight = None;
    raw.insert("with_payload".to_owned(), payload_of(&request.group_by));
    let collection = asked.app.collection(asked.collection()).await?;
    one_key(&collection, &keys, "groups")?;
    let shard_key = raw.get("shard_key").cloned();
    let path =
        Path::parse(&request.group_by).map_err(|e| ApiError::wrong_input(format_args!("group_by: {e}")))?;
    let size = request.group_size;
    if request.query.limit.saturating_mul(size) > LIMIT_MAX {
        // As many groups as there are points.
        let points = settings::points_count(asked).await?;
        request.query.limit = request.query.limit.min(points).max(1);
    }
    let limit = request.query.limit;
    let wanted = limit.saturating_mul(size);
    if wanted > LIMIT_MAX {
        return Err(ApiError::wrong_input(format_args!(
            "limit * group_size is {wanted}, at most {LIMIT_MAX} is possible"
        )));
    }
    // A filter would change the ranks that are merged, and so the scores: more points of all are asked for instead.
    let beside = request.query.params.explain;
    let steps = asked.steps(beside);
    let merges = widen_for_groups(&mut request.query, size);
    let run = Run::new(
        asked,
        Query {
            typed: request.query,
            raw,
            keys,
        },
    )
    .await?;
    let gather = Gather {
        run,
        path,
        key: request.group_by,
        size,
    };
    let mut table = gather.first(limit, (wanted.max(1), merges)).await?;
    table.groups.truncate(limit);
    if !merges {
        gather.fill(&mut table).await?;
    }
    let mut dressed = HashMap::new();
    let mut points: Vec<Point> = Vec::new();
    for point in table.groups.iter().flat_map(|group| &group.points) {
        if dressed.insert(point.id, None).is_none() {
            points.push(point.clone());
        }
    }
    let begun = Instant::now();
    for point in dress(
        asked,
        points,
        shard_key.as_ref(),
        (shown.0.as_ref(), shown.1.as_ref()),
    )
    .await?
    {
        let id = point.id;
        dressed.insert(id, Some(point));
    }
    let mut lookups = look_up(asked, lookup, &table.groups).await?;
    if steps.is_some() {
        gather.run.note_fetch(begun);
        gather.run.tell(steps.as_ref(), &collection);
    }
    let mut out = asked.points_out();
    out.raw("{\"groups\":");
    let mut list = out.open_list();
    for group in table.groups {
        let hits = group.points.into_iter().filter_map(|point| {
            let parts = dressed.get(&point.id)?.as_ref()?;
            Some(Point {
                payload: parts.payload.clone(),
                vector: parts.vector.clone(),
                shard_key: parts.shard_key.clone(),
                // Groups don't show it.
                order_value: None,
                ..point
            })
        });
        let hits: Vec<Point> = hits.collect();
        list.item(|out| -> ApiResult<()> {
            out.raw("{\"id\":");
            out.value(&group.id);
            out.raw(",\"hits\":");
            write_list(hits, out, Point::write_hit)?;
            if let Some(lookup) = group.id.point_id().and_then(|id| lookups.remove(&id)) {
                out.raw(",\"lookup\":");
                lookup.write_record(out)?;
            }
            out.raw("}");
            Ok(())
        })?;
    }
    list.close();
    out.raw("}");
    if let Some(steps) = steps.filter(|_| beside) {
        out.raw(&beside_result(&steps, false));
    }
    Ok(Answer::Json(out))
}

/// What is to be read of payloads to know the groups: the key at the top, or all where it isn't plain.
fn payload_of(group_by: &str) -> Value {
    match group_by.contains('"') {
        true => json!(true),
        false => json!([group_by.split(['.', '[']).next().unwrap_or_default()]),
    }
}

struct Gather<'a> {
    run: Run<'a>,
    path: Path,
    key: String,
    size: usize,
}

impl Gather<'_> {
    /// So many groups; `whole`: until they are full.
    async fn first(&self, limit: usize, (wanted, whole): (usize, bool)) -> ApiResult<Table> {
        let mut points = wanted;
        loop {
            let table = self.table(points, None).await?;
            let full = |groups: &[Group]| groups.iter().all(|group| group.points.len() >= self.size);
            let enough = table
                .groups
                .get(..limit)
                .is_some_and(|groups| !whole || full(groups));
            if enough || table.exhausted || points >= GROUP_POINTS_MAX {
                return Ok(table);
            }
            points = points
                .saturating_mul(GROUPS_GROWTH)
                .min(GROUP_POINTS_MAX.max(wanted));
        }
    }

    /// Asks for points of the groups that could have more.
    async fn fill(&self, table: &mut Table) -> ApiResult<()> {
        let mut exhausted = table.exhausted;
        let mut points = 0;
        while !exhausted && points < GROUP_POINTS_MAX {
            let open = table.groups.iter().filter(|group| group.points.len() < self.size);
            let ids: Vec<GroupId> = open.map(|group| group.id.clone()).collect();
            if ids.is_empty() {
                return Ok(());
            }
            points = (points * GROUPS_GROWTH)
                .max(2 * ids.len().saturating_mul(self.size))
                .min(LIMIT_MAX);
            let more = self.table(points, Some(any_of(&self.key, &ids))).await?;
            exhausted = more.exhausted;
            let mut more: BTreeMap<GroupId, Vec<Point>> =
                more.groups.into_iter().map(|g| (g.id, g.points)).collect();
            for group in &mut table.groups {
                if let Some(points) = more.remove(&group.id).filter(|p| p.len() > group.points.len()) {
                    group.points = points;
                }
            }
        }
        Ok(())
    }

    /// The groups of so many points.
    async fn table(&self, points: usize, more: Option<Value>) -> ApiResult<Table> {
        let limit = points.min(LIMIT_MAX);
        let found = self.run.again(limit, more).points().await?;
        let mut table = Table {
            exhausted: found.len() < limit,
            groups: Vec::new(),
        };
        let mut numbers: BTreeMap<GroupId, usize> = BTreeMap::new();
        for mut point in found {
            let payload = point.payload.take();
            let Some(payload) = &payload else { continue };
            for id in group_ids(&self.path, payload.get().as_bytes()) {
                let number = *numbers.entry(id.clone()).or_insert_with(|| {
                    table.groups.push(Group {
                        id,
                        points: Vec::new(),
                    });
                    table.groups.len() - 1
                });
                let group = &mut table.groups[number].points;
                if group.len() < self.size && group.last().is_none_or(|last| last.id != point.id) {
                    group.push(point.clone());
                }
            }
        }
        Ok(table)
    }
}

fn any_of(key: &str, ids: &[GroupId]) -> Value {
    let (mut ints, mut texts, mut should) = (Vec::new(), Vec::new(), Vec::new());
    for id in ids {
        match id {
            GroupId::Str(text) => texts.push(text),
            GroupId::Signed(n) => ints.push(*n),
            GroupId::Unsigned(n) => match i64::try_from(*n) {
                Ok(n) => ints.push(n),
                // No match takes it: by what is around it, the groups themselves are told apart.
                Err(_) => should.push(json!({"key": key, "range": {"gte": *n as f64, "lte": *n as f64}})),
            },
        }
    }
    if !ints.is_empty() {
        should.push(json!({"key": key, "match": {"any": ints}}));
    }
    if !texts.is_empty() {
        should.push(json!({"key": key, "match": {"any": texts}}));
    }
    // Within a condition of its own: alternatives of filters that are merged would join.
    json!({"must": [{"should": should}]})
}

/// Points of another collection whose ids are those of the groups.
async fn look_up(
    asked: &Divided,
    lookup: Option<Value>,
    groups: &[Group],
) -> ApiResult<HashMap<PointId, Point>> {
    let (collection, payload, vector) = match lookup {
        None | Some(Value::Null) => return Ok(HashMap::new()),
        Some(Value::Object(mut fields)) => {
            let collection = fields.remove("collection");
            let vector = fields
                .remove("with_vectors")
                .or_else(|| fields.remove("with_vector"));
            (
                collection.unwrap_or_default(),
                fields.remove("with_payload"),
                vector,
            )
        }
        Some(name) => (name, None, None),
    };
    let collection = collection.as_str().unwrap_or_default().to_owned();
    let raw = |value: Option<Value>, default: bool| {
        let value = value.filter(|value| !value.is_null());
        let text = value.unwrap_or_else(|| json!(default)).to_string();
        RawValue::from_string(text).map_err(ApiError::internal)
    };
    let (payload, vector) = (raw(payload, true)?, raw(vector, false)?);
    found_for_lookup(asked, &collection).await?;
    let ids: Vec<PointId> = groups.iter().filter_map(|group| group.id.point_id()).collect();
    let found = retrieve(
        asked,
        (&collection, None::<&Value>),
        &ids,
        (Some(&payload), Some(&vector)),
    )
    .await?;
    Ok(found.into_iter().map(|point| (point.id, point)).collect())
}
