//! Hits grouped by the values of a payload field.

use std::collections::BTreeMap;
use std::sync::Arc;

use ramlet_memory::Reservation;

use super::found::{Found, FoundList};
use super::others::OtherCollections;
use super::request::*;
use super::run::Run;
use super::{Scratch, Spent, collect_found};
use crate::error::{Error, Result};
use crate::filter::{AnyOf, Condition, FieldCheck, FieldCondition, Filter, Match, Range};
use crate::limits::{GROUP_POINTS_MAX, LIMIT_MAX};
use crate::payload::{Json, JsonRef, Number, Path};
use crate::read::view::View;
use crate::request::{Explained, SearchCost};
use crate::state::core::Core;

/// Points looked at again and again until there are groups enough: each time so many times more.
pub const GROWTH: usize = 4;
/// What a group and a hit of it take beside the text of the group's id.
const GROUP_BYTES: usize = 160;
const HIT_BYTES: usize = 64;

/// Runs a query and gathers its hits.
///
/// The first groups are those of the best points; then more points are asked for of those groups that aren't full. Both go on
/// until it is done or [`GROUP_POINTS_MAX`] points were looked at.
pub(crate) fn query_groups(
    (core, view): (&Arc<Core>, &Arc<View>),
    request: &QueryGroupsRequest,
    others: &dyn OtherCollections,
    scratch: &mut Scratch,
) -> Result<GroupsResponse> {
    let before = Spent::so_far(&scratch.lookup.io);
    let path = Path::parse(&request.group_by)
        .map_err(|e| Error::bad_input(format!("Wrong input: group_by: {e}")))?;
    let (limit, size) = (request.query.limit, request.group_size);
    let wanted = limit.saturating_mul(size);
    if wanted > LIMIT_MAX {
        return Err(Error::bad_input(format!(
            "limit * group_size is {wanted}, at most {LIMIT_MAX} is possible"
        )));
    }
    let mut inner = request.query.clone();
    inner.offset = 0;
    let merges = widen_for_groups(&mut inner, size);
    let mut gather = Gather {
        core,
        view,
        others,
        inner,
        path: &path,
        size,
        cost: SearchCost::default(),
        explained: Vec::new(),
    };
    // A filter would change the ranks that are merged, and so the scores: more points of all are asked for instead.
    let mut table = gather.first_groups(limit, (wanted.max(1), merges), scratch)?;
    table.groups.truncate(limit);
    if !merges {
        gather.fill(&request.group_by, &mut table, scratch)?;
    }
    let found = scratch.lookup.io.now();
    let plain = matches!(
        request.query.query,
        None | Some(QueryKind::OrderBy(_) | QueryKind::SampleRandom)
    );
    let mut groups = Vec::with_capacity(table.groups.len());
    for Gathered { id, found } in table.groups {
        let mut list = FoundList::with_room(0, &scratch.lookup.rare)?;
        list.found = found;
        let mut group = PointGroup {
            id,
            hits: Vec::with_capacity(list.found.len()),
            lookup: None,
        };
        let parts = (&request.query.with_payload, &request.query.with_vectors);
        collect_found(view, &list, 0, parts, plain, scratch, &mut group.hits)?;
        groups.push(group);
    }
    if let Some(lookup) = &request.with_lookup {
        look_up(lookup, &mut groups, others, scratch)?;
    }
    Ok(GroupsResponse {
        groups,
        cost: before.until_now(&scratch.lookup.io, found, gather.cost),
        explain: gather.explained,
    })
}

/// Has each stage of a query find enough for groups of this size; whether a point's score depends on which others are found.
pub fn widen_for_groups(query: &mut QueryRequest, size: usize) -> bool {
    widen(&mut query.prefetch, size);
    query.query.as_ref().is_some_and(is_fusion) || merges(&query.prefetch)
}

fn is_fusion(query: &QueryKind) -> bool {
    matches!(query, QueryKind::Fusion(_))
}

/// Whether a point's score depends on which others are found.
fn merges(prefetch: &[Prefetch]) -> bool {
    let one = |p: &Prefetch| p.query.as_ref().is_some_and(is_fusion) || merges(&p.prefetch);
    prefetch.iter().any(one)
}

/// Each stage finds enough for groups of this size.
fn widen(prefetch: &mut [Prefetch], size: usize) {
    for prefetch in prefetch {
        prefetch.limit = prefetch.limit.saturating_mul(size);
        widen(&mut prefetch.prefetch, size);
    }
}

struct Gather<'a> {
    core: &'a Arc<Core>,
    view: &'a Arc<View>,
    others: &'a dyn OtherCollections,
    inner: QueryRequest,
    path: &'a Path,
    size: usize,
    /// Of all queries that were made for the groups.
    cost: SearchCost,
    explained: Vec<Explained>,
}

#[derive(Default)]
struct Table {
    groups: Vec<Gathered>,
    /// There are no more points than were looked at.
    exhausted: bool,
    _held: Vec<Reservation>,
}

struct Gathered {
    id: GroupId,
    found: Vec<Found>,
}

impl Gather<'_> {
    /// So many groups; `whole`: until they are full.
    fn first_groups(
        &mut self,
        limit: usize,
        (wanted, whole): (usize, bool),
        scratch: &mut Scratch,
    ) -> Result<Table> {
        let mut points = wanted;
        loop {
            let table = self.table(points, &[], scratch)?;
            let full = |groups: &[Gathered]| groups.iter().all(|group| group.found.len() >= self.size);
            let enough = table
                .groups
                .get(..limit)
                .is_some_and(|groups| !whole || full(groups));
            if enough || table.exhausted || points >= GROUP_POINTS_MAX {
                return Ok(table);
            }
            points = points.saturating_mul(GROWTH).min(GROUP_POINTS_MAX.max(wanted));
        }
    }

    /// Asks for points of the groups that could have more.
    fn fill(&mut self, key: &str, table: &mut Table, scratch: &mut Scratch) -> Result<()> {
        let mut exhausted = table.exhausted;
        let open = |table: &Table, size: usize| -> Vec<GroupId> {
            let open = table.groups.iter().filter(|group| group.found.len() < size);
            open.map(|group| group.id.clone()).collect()
        };
        let mut points = 0;
        while !exhausted && points < GROUP_POINTS_MAX {
            let ids = open(table, self.size);
            if ids.is_empty() {
                return Ok(());
            }
            points = (points * GROWTH)
                .max(2 * ids.len().saturating_mul(self.size))
                .min(LIMIT_MAX);
            let more = self.table(points, &[&any_of(key, &ids)], scratch)?;
            exhausted = more.exhausted;
            let mut more: BTreeMap<GroupId, Vec<Found>> =
                more.groups.into_iter().map(|g| (g.id, g.found)).collect();
            for group in &mut table.groups {
                if let Some(found) = more.remove(&group.id).filter(|f| f.len() > group.found.len()) {
                    group.found = found;
                }
            }
        }
        Ok(())
    }

    /// The groups of so many points.
    fn table(&mut self, points: usize, more: &[&Filter], scratch: &mut Scratch) -> Result<Table> {
        self.inner.limit = points.min(LIMIT_MAX);
        let (mut run, list) = Run::over(self.core, self.view, &self.inner, more, self.others, scratch)?;
        self.cost.add_all(&run.cost);
        self.explained.extend(run.explained.take().unwrap_or_default());
        let scratch = run.scratch;
        let mut table = Table {
            exhausted: list.found.len() < self.inner.limit,
            ..Table::default()
        };
        let mut held = scratch.lookup.rare.reserve(0)?;
        let mut numbers: BTreeMap<GroupId, usize> = BTreeMap::new();
        for found in &list.found {
            let payload = self.view.payload_of(found.place, &mut scratch.lookup)?;
            for id in group_ids(self.path, &payload) {
                let number = match numbers.get(&id) {
                    Some(number) => *number,
                    None => {
                        held.grow((GROUP_BYTES + 3 * id.text_bytes()) as u64)?;
                        numbers.insert(id.clone(), table.groups.len());
                        table.groups.push(Gathered {
                            id,
                            found: Vec::new(),
                        });
                        table.groups.len() - 1
                    }
                };
                let group = &mut table.groups[number].found;
                if group.len() < self.size && group.last().is_none_or(|last| last.place != found.place) {
                    held.grow(HIT_BYTES as u64)?;
                    group.push(*found);
                }
            }
        }
        table._held.push(held);
        Ok(table)
    }
}

fn any_of(key: &str, ids: &[GroupId]) -> Filter {
    let field = |any| {
        Condition::Field(FieldCondition {
            key: key.to_owned(),
            check: FieldCheck::Match(Match::Any(any)),
        })
    };
    // Integers that no match takes: by what is around them, the groups themselves are told apart.
    let beyond = ids.iter().filter_map(|id| match id {
        GroupId::Unsigned(n) if i64::try_from(*n).is_err() => Some(*n as f64),
        _ => None,
    });
    let ints = ids.iter().filter_map(|id| match id {
        GroupId::Unsigned(n) => i64::try_from(*n).ok(),
        GroupId::Signed(n) => Some(*n),
        GroupId::Str(_) => None,
    });
    let strs = ids.iter().filter_map(|id| match id {
        GroupId::Str(text) => Some(text.clone()),
        _ => None,
    });
    let (ints, strs): (Vec<i64>, Vec<String>) = (ints.collect(), strs.collect());
    let around = |n| {
        Condition::Field(FieldCondition {
            key: key.to_owned(),
            check: FieldCheck::Range(Range {
                gte: Some(n),
                lte: Some(n),
                ..Range::default()
            }),
        })
    };
    let mut should: Vec<Condition> = beyond.map(around).collect();
    if !ints.is_empty() {
        should.push(field(AnyOf::Ints(ints)));
    }
    if !strs.is_empty() {
        should.push(field(AnyOf::Strs(strs)));
    }
    let any = Filter {
        should,
        ..Filter::default()
    };
    // Merged with other filters, alternatives would join theirs.
    Filter {
        must: vec![Condition::Filter(any)],
        ..Filter::default()
    }
}

/// The groups of a point, each once. None where one of its values can't name a group.
pub fn group_ids(path: &Path, payload: &[u8]) -> Vec<GroupId> {
    let mut ids = Vec::new();
    let Some(root) = JsonRef::new(payload) else {
        return ids;
    };
    let unfit = path.any_value(root, &mut |value| {
        let id = match value.read() {
            Some(Json::Str(text)) => GroupId::Str(text.into_owned()),
            Some(Json::Number(Number::I64(n))) => {
                u64::try_from(n).map_or(GroupId::Signed(n), GroupId::Unsigned)
            }
            Some(Json::Number(Number::U64(n))) => GroupId::Unsigned(n),
            _ => return true,
        };
        if !ids.contains(&id) {
            ids.push(id);
        }
        false
    });
    if unfit {
        ids.clear();
    }
    ids
}

fn look_up(
    lookup: &WithLookup,
    groups: &mut [PointGroup],
    others: &dyn OtherCollections,
    scratch: &mut Scratch,
) -> Result<()> {
    let parts = (&lookup.with_payload, &lookup.with_vectors);
    for group in groups {
        let Some(id) = group.id.point_id() else { continue };
        group.lookup = others.point_of(&lookup.collection, id, parts, scratch)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_s_groups() {
        let check = |payload: &str, expected: &[GroupId]| {
            let path = Path::parse("a").unwrap();
            assert_eq!(group_ids(&path, payload.as_bytes()), expected, "{payload}");
        };
        let text = |t: &str| GroupId::Str(t.to_owned());
        check(r#"{"a":"x"}"#, &[text("x")]);
        check(
            r#"{"a":["x",3,"x",-1]}"#,
            &[text("x"), GroupId::Unsigned(3), GroupId::Signed(-1)],
        );
        check(r#"{"a":["x",true]}"#, &[]);
        check(r#"{"a":1.5}"#, &[]);
        check(r#"{"a":[]}"#, &[]);
        check(r#"{"b":1}"#, &[]);
    }
}
