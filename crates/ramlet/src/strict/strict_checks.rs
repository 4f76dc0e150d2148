//! Strict mode: requests that a collection's settings refuse, with the API's messages.
//!
//! The checks are on the engine's own requests, so that every way in asks the same. Rates are counted outside: nothing here
//! reads a clock; [`Strict::cost_of_filter`] and [`Strict::cost_of`] say what an operation costs.

use std::fmt::Display;
use std::sync::Arc;

use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::filter::{AnyOf, Condition, FieldCheck, FieldCondition, Filter, Match, Scalar};
use crate::query::Scratch;
use crate::read::view::View;
use crate::request::{Idf, PointsSelector, SearchParams, SearchRequest, UpdateOp};
use crate::schema::{Abilities, PayloadField, Schema, VectorField, VectorKind};
use crate::settings::StrictMode;
use crate::types::vector::Vector;
use crate::types::{FieldKind, NamedVectors, PointId};

/// The strict mode of a collection that has it, as it is now.
pub struct Strict {
    mode: Arc<StrictMode>,
    view: Arc<View>,
}

impl Collection {
    /// `None`: not enabled. One atomic load.
    pub fn strict_mode(&self) -> Option<Strict> {
        let mode = self.core().view.load().schema.strict.clone()?;
        let view = self.whole_view();
        Some(Strict { mode, view })
    }
}

/// A field that a filter asks about and no index answers for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnindexedField {
    /// Its path from the root of the payload.
    pub key: String,
    /// Kinds of index that would answer, by the API's names.
    pub kinds: Vec<&'static str>,
}

impl Collection {
    /// Fields of a filter for which payloads must be read: each once, in the order of the filter.
    pub fn unindexed_fields(&self, filter: &Filter) -> Vec<UnindexedField> {
        let mut all = Vec::new();
        for_each_unindexed(&self.core().view.load().schema, filter, "", &mut |field| {
            if !all.contains(&field) {
                all.push(field);
            }
            true
        });
        all
    }
}

/// Tells the fields without an index that would do, until `tell` wants no more; whether it wants more.
fn for_each_unindexed(
    schema: &Schema,
    filter: &Filter,
    prefix: &str,
    tell: &mut dyn FnMut(UnindexedField) -> bool,
) -> bool {
    filter.conditions().all(|condition| {
        let (key, kinds) = match condition {
            Condition::Field(FieldCondition { key, check }) => (key, kinds_for(check)),
            Condition::IsEmpty(key) | Condition::IsNull(key) => (key, ANY_KIND.to_vec()),
            Condition::Nested { key, filter } => {
                let array = key.strip_suffix("[]").filter(|k| !k.is_empty()).unwrap_or(key);
                return for_each_unindexed(schema, filter, &format!("{prefix}{array}[]."), tell);
            }
            Condition::Filter(filter) => return for_each_unindexed(schema, filter, prefix, tell),
            Condition::HasId(_) | Condition::HasVector(_) | Condition::Slice { .. } => return true,
        };
        let key = format!("{prefix}{key}");
        let is_met = |field: &PayloadField| {
            kinds.contains(&name_of(field.kind)) && is_able(field.abilities, condition)
        };
        let met = kinds.is_empty() || schema.field(&key).is_some_and(is_met);
        met || tell(UnindexedField { key, kinds })
    })
}

fn refused(what: impl Display, help: impl Display) -> Error {
    Error::bad_input(format!("Bad request: {what}. Help: {help}"))
}

fn at_most<T: PartialOrd + Display>(value: T, limit: Option<T>, name: &str) -> Result<()> {
    match limit {
        Some(limit) if value > limit => Err(refused(
            format!("Limit exceeded {value} > {limit} for \"{name}\""),
            format!("Reduce the \"{name}\" parameter to or below {limit}."),
        )),
        _ => Ok(()),
    }
}

impl Strict {
    pub fn settings(&self) -> &StrictMode {
        &self.mode
    }

    /// The `timeout` of a request, seconds.
    pub fn timeout(&self, seconds: u64) -> Result<()> {
        at_most(seconds, self.mode.max_timeout, "timeout")
    }

    /// Searches of one batch.
    pub fn batch(&self, searches: usize) -> Result<()> {
        at_most(
            searches as u64,
            self.mode.search_max_batchsize,
            "search batch size",
        )
    }

    pub fn limit(&self, limit: usize) -> Result<()> {
        at_most(limit as u64, self.mode.max_query_limit, "limit")
    }

    pub fn exact(&self, exact: bool) -> Result<()> {
        match self.mode.search_allow_exact {
            Some(false) if exact => Err(refused("Exact search disabled!", "Set exact=false.")),
            _ => Ok(()),
        }
    }

    pub fn params(&self, params: &SearchParams) -> Result<()> {
        if let Some(oversampling) = params.quantization.oversampling {
            at_most(
                f64::from(oversampling),
                self.mode.search_max_oversampling,
                "oversampling",
            )?;
        }
        if let Some(ef) = params.hnsw_ef {
            at_most(ef as u64, self.mode.search_max_hnsw_ef, "hnsw_ef")?;
        }
        if let Some(Idf::Corpus(corpus)) = &params.idf {
            self.filter(Some(corpus))?;
        }
        self.exact(params.exact)
    }

    /// A search for the nearest among all points, of a vector that no index is wanted for (`hnsw_config.m` = 0): it compares
    /// all of them, unless there is an index for the parts that its filter is about (`payload_m`, a payload index).
    pub fn full_scan(&self, using: &str, filter: Option<&Filter>) -> Result<()> {
        if self.mode.search_allow_exact != Some(false) {
            return Ok(());
        }
        let field = self.view.schema.vectors.iter().find(|v| v.name == using);
        let Some(hnsw) = field
            .filter(|v| v.kind != VectorKind::Sparse)
            .map(|v| v.settings.hnsw)
        else {
            return Ok(());
        };
        let is_indexed = |key: &str| self.view.schema.field(key).is_some();
        let has_parts = || hnsw.payload_m != Some(0) && hnsw.payload_m.is_some();
        if hnsw.m != Some(0) || has_parts() && filter.is_some_and(|f| names_any(f, &is_indexed)) {
            return Ok(());
        }
        Err(refused(
            format!(
                "Request is forbidden on '{using}' because global vector indexing is disabled (hnsw_config.m = 0)"
            ),
            "Use tenant-specific filter, enable global vector indexing or enable strict mode `search_allow_exact` option",
        ))
    }

    /// The filter of a request that reads.
    pub fn filter(&self, filter: Option<&Filter>) -> Result<()> {
        self.check_filter(filter, self.mode.unindexed_filtering_retrieve)
    }

    pub fn search(&self, request: &SearchRequest) -> Result<()> {
        self.limit(request.limit)?;
        self.filter(request.filter.as_ref())?;
        self.full_scan(&request.using, request.filter.as_ref())?;
        self.params(&request.params)
    }

    /// The field by which hits are grouped.
    pub fn group_by(&self, key: &str) -> Result<()> {
        if self.mode.unindexed_filtering_retrieve != Some(false) {
            return Ok(());
        }
        let what = match self.view.schema.field(key) {
            Some(field) if can_match(field.kind) => return Ok(()),
            Some(field) => format!("Index of type \"{:?}\" found for \"{key}\"", field.kind),
            None => format!("Index required but not found for \"{key}\""),
        };
        Err(refused(what, "Create an index supporting `match` for this key."))
    }

    /// A field that a formula reads.
    pub fn formula_key(&self, key: &str) -> Result<()> {
        if self.mode.unindexed_filtering_retrieve != Some(false) || self.view.schema.field(key).is_some() {
            return Ok(());
        }
        Err(refused(
            format!("Index required but not found for \"{key}\""),
            "Create an index for this key or use a different formula expression.",
        ))
    }

    /// One payload index more.
    pub fn new_index(&self) -> Result<()> {
        match self.mode.max_payload_index_count {
            Some(most) if self.view.schema.fields.len() as u64 >= most => Err(refused(
                format!("Collection already has the maximum number of payload indices ({most})"),
                "Please delete an existing index before creating a new one.",
            )),
            _ => Ok(()),
        }
    }

    /// A change: its size, its filter, and whether the collection may grow.
    pub fn update(&self, op: &UpdateOp) -> Result<()> {
        match op {
            UpdateOp::Upsert { points, .. } => {
                at_most(
                    points.len() as u64,
                    self.mode.upsert_max_batchsize,
                    "upsert limit",
                )?;
                self.size()?;
                points.iter().try_for_each(|point| self.vectors(&point.vectors))
            }
            UpdateOp::UpdateVectors { points, .. } => {
                at_most(
                    points.len() as u64,
                    self.mode.upsert_max_batchsize,
                    "update limit",
                )?;
                self.size()?;
                points.iter().try_for_each(|(_, vectors)| self.vectors(vectors))
            }
            UpdateOp::SetPayload { points, .. } | UpdateOp::OverwritePayload { points, .. } => {
                self.payload_size()?;
                self.selector(points)
            }
            UpdateOp::Delete(points)
            | UpdateOp::ClearPayload(points)
            | UpdateOp::DeletePayload { points, .. }
            | UpdateOp::DeleteVectors { points, .. } => self.selector(points),
        }
    }

    fn selector(&self, points: &PointsSelector) -> Result<()> {
        match points {
            PointsSelector::Ids(_) => Ok(()),
            PointsSelector::Filter(filter) => {
                self.check_filter(Some(filter), self.mode.unindexed_filtering_update)
            }
        }
    }

    fn size(&self) -> Result<()> {
        let points = self.view.points();
        if let Some(most) = self.mode.max_collection_vector_size_bytes
            && vector_bytes(&self.view) >= most
        {
            return Err(full("vector", most));
        }
        self.payload_size()?;
        match self.mode.max_points_count {
            Some(most) if points >= most => {
                let what = format!("Bad request: Max points count limit of {most} reached!");
                Err(Error::bad_input(what))
            }
            _ => Ok(()),
        }
    }

    fn payload_size(&self) -> Result<()> {
        match self.mode.max_collection_payload_size_bytes {
            Some(most) if payload_bytes(&self.view) >= most => Err(full("payload", most)),
            _ => Ok(()),
        }
    }

    fn vectors(&self, vectors: &NamedVectors) -> Result<()> {
        for (name, vector) in vectors {
            let (what, unit, most, given) = match vector {
                Vector::Dense(_) => continue,
                Vector::Multi(multi) => {
                    let limit = self.mode.multivector_config.as_ref().and_then(|c| c.get(name));
                    (
                        "Multivector",
                        "vectors",
                        limit.and_then(|l| l.max_vectors),
                        multi.parts().len(),
                    )
                }
                Vector::Sparse(sparse) => {
                    let limit = self.mode.sparse_config.as_ref().and_then(|c| c.get(name));
                    let given = sparse.indices.len().max(sparse.values.len());
                    (
                        "Sparse vector",
                        "indices",
                        limit.and_then(|l| l.max_length),
                        given,
                    )
                }
            };
            if let Some(most) = most.filter(|most| given as u64 > *most) {
                return Err(Error::bad_input(format!(
                    "Bad request: {what} '{name}' has a limit of {most} {unit}, but {given} were provided!"
                )));
            }
        }
        Ok(())
    }

    fn check_filter(&self, filter: Option<&Filter>, unindexed: Option<bool>) -> Result<()> {
        let Some(filter) = filter else { return Ok(()) };
        if unindexed == Some(false)
            && let Some(UnindexedField { key, kinds }) = self.unindexed(filter)
        {
            return Err(refused(
                format!(
                    "Index required but not found for \"{key}\" of one of the following types: [{}]",
                    kinds.join(", ")
                ),
                "Create an index for this key or use a different filter.",
            ));
        }
        let (count, most) = (conditions(filter), self.mode.filter_max_conditions);
        if let Some(most) = most.filter(|most| count > *most) {
            return Err(refused(
                format!("Filter condition limit reached ({count} > {most})"),
                "Reduce the amount of conditions of your filter.",
            ));
        }
        let (size, most) = (largest(filter), self.mode.condition_max_size);
        if let Some(most) = most.filter(|most| size > *most) {
            return Err(refused(
                format!("Condition size limit reached ({size} > {most})"),
                "Reduce the size of your condition.",
            ));
        }
        Ok(())
    }

    /// A key without an index that would do, and the kinds of index that would.
    fn unindexed(&self, filter: &Filter) -> Option<UnindexedField> {
        let mut first = None;
        for_each_unindexed(&self.view.schema, filter, "", &mut |field| {
            first = Some(field);
            false
        });
        first
    }

    /// What a change by this filter costs of `write_rate_limit` without counting its points, where only a look at all of them
    /// could tell: half of the collection, as the API reckons. `None`: the indexes can count them.
    pub fn cost_unindexed(&self, filter: &Filter) -> Option<u64> {
        self.unindexed(filter).map(|_| (self.view.points() / 2).max(1))
    }

    pub(crate) fn has_multivectors(&self) -> bool {
        self.view
            .schema
            .vectors
            .iter()
            .any(|v| v.kind == VectorKind::Multi)
    }

    /// The multivector of a point, if it has one of this name.
    pub(crate) fn stored(&self, using: &str, id: PointId, scratch: &mut Scratch) -> Result<Option<Vector>> {
        let is_multi = |v: &&VectorField| v.name == using && v.kind == VectorKind::Multi;
        let Some(field) = self.view.schema.vectors.iter().find(is_multi) else {
            return Ok(None);
        };
        let Some(place) = self.view.find(id, &mut scratch.lookup)? else {
            return Ok(None);
        };
        let name = std::slice::from_ref(&field.name);
        let found = self.view.vectors_of(place, Some(name), &mut scratch.lookup)?;
        Ok(found.into_iter().next().map(|(_, vector)| vector))
    }

    /// What a read with this filter costs of `read_rate_limit`.
    pub fn cost_of_filter(filter: Option<&Filter>) -> u64 {
        1 + filter.map_or(0, conditions)
    }

    /// What a change costs of `write_rate_limit`, where that can be told without looking: the points it names.
    /// `Err`: the filter whose points must be counted.
    pub fn cost_of(op: &UpdateOp) -> std::result::Result<u64, &Filter> {
        let n = match op {
            UpdateOp::Upsert { points, .. } => points.len(),
            UpdateOp::UpdateVectors { points, .. } => points.len(),
            UpdateOp::SetPayload { points, .. }
            | UpdateOp::OverwritePayload { points, .. }
            | UpdateOp::DeletePayload { points, .. }
            | UpdateOp::DeleteVectors { points, .. }
            | UpdateOp::Delete(points)
            | UpdateOp::ClearPayload(points) => match points {
                PointsSelector::Ids(ids) => ids.len(),
                PointsSelector::Filter(filter) => return Err(filter),
            },
        };
        Ok(n.max(1) as u64)
    }
}

fn full(what: &str, most: u64) -> Error {
    let megabytes = most as f32 / (1 << 20) as f32;
    Error::bad_input(format!(
        "Bad request: Max {what} storage size limit of {megabytes}MB reached!"
    ))
}

/// About what the vectors of all points take, as they are stored.
fn vector_bytes(view: &View) -> u64 {
    let fixed: usize = view.schema.vectors.iter().filter_map(|v| v.fixed_bytes()).sum();
    let mut bytes = view.points() * fixed as u64;
    for field in view.schema.vectors.iter().filter(|v| v.fixed_bytes().is_none()) {
        let stored = view
            .segments
            .iter()
            .map(|s| s.segment.vector_disk_bytes(field.slot));
        bytes += stored.sum::<u64>();
    }
    bytes
}

/// Payloads as they are stored: in segments, and in memtables, where those that were replaced stay until they are flushed.
fn payload_bytes(view: &View) -> u64 {
    let mut bytes = 0;
    for segment in &view.segments {
        let tables = segment.segment.tables(&view.schema);
        bytes += tables
            .iter()
            .filter(|(name, ..)| name == "payload")
            .map(|(.., disk)| disk)
            .sum::<u64>();
    }
    for memtable in &view.memtables {
        let stored = |row| (memtable.memtable.row(row).payload.len() as u64).next_multiple_of(PAYLOAD_BLOCK);
        bytes += (0..memtable.len).map(stored).sum::<u64>();
    }
    bytes
}

/// What a payload outside of segments takes at least, and in steps of: as in the API's storage.
const PAYLOAD_BLOCK: u64 = 128;

/// Conditions of a filter, those of nested filters instead of the nesting.
fn conditions(filter: &Filter) -> u64 {
    let of = |condition: &Condition| match condition {
        Condition::Nested { filter, .. } | Condition::Filter(filter) => conditions(filter),
        _ => 1,
    };
    filter.conditions().map(of).sum()
}

/// Whether a condition that must be met is about a key that `is_one` knows.
fn names_any(filter: &Filter, is_one: &dyn Fn(&str) -> bool) -> bool {
    filter.must.iter().any(|condition| match condition {
        Condition::Field(field) => is_one(&field.key),
        Condition::Filter(filter) => names_any(filter, is_one),
        _ => false,
    })
}

/// Elements of the longest list of a condition.
fn largest(filter: &Filter) -> u64 {
    let any = |any: &AnyOf| match any {
        AnyOf::Ints(ints) => ints.len() as u64,
        AnyOf::Strs(strs) => strs.len() as u64,
    };
    let of = |condition: &Condition| match condition {
        Condition::Field(FieldCondition {
            check: FieldCheck::Match(Match::Any(list) | Match::Except(list)),
            ..
        }) => any(list),
        Condition::HasId(ids) => ids.len() as u64,
        Condition::Nested { filter, .. } | Condition::Filter(filter) => largest(filter),
        _ => 0,
    };
    filter.conditions().map(of).max().unwrap_or(0)
}

const ANY_KIND: [&str; 8] = [
    "bool", "datetime", "float", "geo", "integer", "keyword", "text", "uuid",
];

fn name_of(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Keyword => "keyword",
        FieldKind::Integer => "integer",
        FieldKind::Float => "float",
        FieldKind::Bool => "bool",
        FieldKind::Geo => "geo",
        FieldKind::Datetime => "datetime",
        FieldKind::Uuid => "uuid",
        FieldKind::Text => "text",
    }
}

/// Whether an index of the right kind was made for a condition too.
fn is_able(abilities: Abilities, condition: &Condition) -> bool {
    let Condition::Field(FieldCondition { check, .. }) = condition else {
        return true;
    };
    match check {
        FieldCheck::Match(Match::Prefix(_)) => abilities.prefix,
        FieldCheck::Match(Match::Phrase(_)) => abilities.phrase,
        FieldCheck::Match(_) => abilities.lookup,
        FieldCheck::Range(_) => abilities.range,
        _ => true,
    }
}

fn can_match(kind: FieldKind) -> bool {
    matches!(
        kind,
        FieldKind::Keyword | FieldKind::Integer | FieldKind::Bool | FieldKind::Uuid
    )
}

/// The kinds of index that answer a check, by name, in order; none: it needs no index.
fn kinds_for(check: &FieldCheck) -> Vec<&'static str> {
    let texts = |are_uuids: bool| match are_uuids {
        true => vec!["keyword", "uuid"],
        false => vec!["keyword"],
    };
    let is_uuid = |text: &String| uuid::Uuid::try_parse(text).is_ok();
    match check {
        FieldCheck::Match(Match::Value(Scalar::Str(text))) => texts(is_uuid(text)),
        FieldCheck::Match(Match::Value(Scalar::Int(_))) => vec!["integer"],
        FieldCheck::Match(Match::Value(Scalar::Bool(_))) => vec!["bool"],
        FieldCheck::Match(Match::Any(list) | Match::Except(list)) => match list {
            AnyOf::Ints(ints) if ints.is_empty() => Vec::new(),
            AnyOf::Strs(strs) if strs.is_empty() => Vec::new(),
            AnyOf::Ints(_) => vec!["integer"],
            AnyOf::Strs(strs) => texts(strs.iter().all(is_uuid)),
        },
        FieldCheck::Match(Match::Prefix(_) | Match::Substring(_)) => vec!["keyword"],
        FieldCheck::Match(Match::Text(_) | Match::TextAny(_) | Match::Phrase(_)) => vec!["text"],
        FieldCheck::Range(_) => vec!["float", "integer"],
        FieldCheck::DatetimeRange(_) => vec!["datetime"],
        FieldCheck::GeoBoundingBox(_) | FieldCheck::GeoRadius(_) | FieldCheck::GeoPolygon(_) => vec!["geo"],
        FieldCheck::ValuesCount(_) | FieldCheck::IsEmpty(_) | FieldCheck::IsNull(_) => ANY_KIND.to_vec(),
    }
}
