//! Resolves updates that depend on state: filters become ids, partial changes become whole points.
//!
//! What comes out is physical (see `change`). An update of many points goes through several groups: each is atomic, the whole isn't.

use std::sync::Arc;

use ramlet_memory::Reservation;
use roaring::RoaringBitmap;

use crate::error::{Error, Result};
use crate::filter::{CompiledFilter, Filter, PointAccess};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::payload::{self, Path, validate};
use crate::read::matching;
use crate::read::view::{Place, View};
use crate::request::{PointsSelector, UpdateMode, UpdateOp};
use crate::segment::Segment;
use crate::types::{NamedVectors, Point, PointId};
use crate::write::change::{Change, encode_delete, encode_put};
use crate::write::encoding::encode_vectors;
use crate::write::group_commit::Turn;

/// Rows of a segment whose ids are read at once.
const BATCH: usize = 256;

/// Turns `op` into changes and adds them to the turn's groups, of which the last one stays open. Of an error what is in the open group is
/// the caller's to take back.
pub fn resolve(turn: &mut Turn<'_>, operation: u64, op: UpdateOp) -> Result<()> {
    match op {
        UpdateOp::Upsert { points, filter, mode } => upsert(turn, operation, points, filter, mode),
        UpdateOp::Delete(points) => each_point(turn, operation, points, false, &mut |point, _, out| {
            encode_delete(out, point.id);
            Ok(())
        }),
        UpdateOp::SetPayload {
            payload: patch,
            key,
            points,
        } => {
            let key = key.as_deref().map(parse_path).transpose()?;
            edit_payloads(turn, operation, points, &mut |old| {
                payload::set(old, &patch, key.as_ref()).map_err(bad)
            })
        }
        UpdateOp::OverwritePayload { payload: new, points } => {
            edit_payloads(turn, operation, points, &mut |_| {
                payload::overwrite(&new).map_err(bad)
            })
        }
        UpdateOp::DeletePayload { keys, points } => {
            let keys = keys.iter().map(|k| parse_path(k)).collect::<Result<Vec<_>>>()?;
            edit_payloads(turn, operation, points, &mut |old| {
                payload::delete_keys(old, &keys).map_err(bad)
            })
        }
        UpdateOp::ClearPayload(points) => edit_payloads(turn, operation, points, &mut |_| Ok(Vec::new())),
        UpdateOp::UpdateVectors { points, filter } => update_vectors(turn, operation, points, filter),
        UpdateOp::DeleteVectors { names, points } => delete_vectors(turn, operation, &names, points),
    }
}

fn bad(e: impl std::fmt::Display) -> Error {
    Error::bad_input(e.to_string())
}

fn parse_path(key: &str) -> Result<Path> {
    Path::parse(key).map_err(|e| Error::bad_input(e.to_string()))
}

/// A point as all before it have left it: in the view, or in the open group, which isn't in the view yet.
struct Current<'v> {
    id: PointId,
    view: &'v View,
    row: CurrentRow,
}

enum CurrentRow {
    Stored(Place),
    Open(StoredVectors, Vec<u8>),
}

/// The encoded vectors of a point, by slot, ascending.
type StoredVectors = Vec<(u16, Vec<u8>)>;

impl<'v> Current<'v> {
    /// `None`: there is no such point.
    fn find(turn: &mut Turn<'_>, view: &'v View, id: PointId) -> Result<Option<Current<'v>>> {
        let row = match turn.last_change(id) {
            Some(Change::Delete(_)) => return Ok(None),
            Some(Change::Put(_, row)) => {
                // A vector may have been dropped meanwhile.
                let is_there = |slot: u16| view.schema.vectors.iter().any(|vector| vector.slot == slot);
                let vectors = row.vectors().filter(|(slot, _)| is_there(*slot));
                let vectors = vectors.map(|(slot, bytes)| (slot, bytes.to_vec())).collect();
                Some(CurrentRow::Open(vectors, row.payload.to_vec()))
            }
            None => view.find(id, turn.lookup)?.map(CurrentRow::Stored),
        };
        Ok(row.map(|row| Current { id, view, row }))
    }

    fn take_payload(&mut self, turn: &mut Turn<'_>) -> Result<Vec<u8>> {
        match &mut self.row {
            CurrentRow::Stored(place) => self.view.payload_of(*place, turn.lookup),
            CurrentRow::Open(_, payload) => Ok(std::mem::take(payload)),
        }
    }

    fn take_vectors(&mut self, turn: &mut Turn<'_>) -> Result<StoredVectors> {
        match &mut self.row {
            CurrentRow::Stored(place) => stored_vectors(turn, self.view, *place),
            CurrentRow::Open(vectors, _) => Ok(std::mem::take(vectors)),
        }
    }

    /// Asked before its payload and vectors are taken.
    fn matches(&self, filter: Option<&CompiledFilter>, turn: &mut Turn<'_>) -> Result<bool> {
        let Some(filter) = filter else { return Ok(true) };
        match &self.row {
            CurrentRow::Stored(place) => {
                let (io, buf) = (&mut turn.lookup.io, &mut turn.lookup.buf);
                matching::place_matches(self.view, *place, filter, io, buf)
            }
            CurrentRow::Open(..) => Ok(filter.matches(self)),
        }
    }
}

/// A point of the open group, as filters see it.
impl PointAccess for Current<'_> {
    fn id(&self) -> PointId {
        self.id
    }
    fn payload(&self) -> &[u8] {
        match &self.row {
            CurrentRow::Open(_, payload) => payload,
            CurrentRow::Stored(_) => &[],
        }
    }
    fn has_vector(&self, name: &str) -> bool {
        let CurrentRow::Open(vectors, _) = &self.row else {
            return false;
        };
        let slot = self.view.schema.vector(name).map(|vector| vector.slot);
        slot.is_ok_and(|slot| vectors.iter().any(|(has, _)| *has == slot))
    }
}

/// Writes one point's change.
type Rewrite<'f> = dyn FnMut(&mut Current<'_>, &mut Turn<'_>, &mut Vec<u8>) -> Result<()> + 'f;

/// Calls `rewrite` for every point that the selector names. Missing ids: an error after all others are done, if `strict`.
fn each_point(
    turn: &mut Turn<'_>,
    operation: u64,
    points: PointsSelector,
    strict: bool,
    rewrite: &mut Rewrite<'_>,
) -> Result<()> {
    turn.core.check_open()?;
    match points {
        PointsSelector::Ids(ids) => rewrite_ids(turn, operation, &ids, strict, rewrite),
        PointsSelector::Filter(filter) => {
            for source in matching_sources(turn, &filter)? {
                match source {
                    Source::Ids(ids, _held) => rewrite_ids(turn, operation, &ids, false, rewrite)?,
                    Source::Segment(segment, rows, _held) => {
                        let mut ids = Vec::with_capacity(BATCH);
                        let mut rows = rows.iter().peekable();
                        while rows.peek().is_some() {
                            ids.clear();
                            for row in rows.by_ref().take(BATCH) {
                                ids.push(segment.row_id(row, &mut turn.lookup.io, &mut turn.lookup.buf)?.0);
                            }
                            rewrite_ids(turn, operation, &ids, false, rewrite)?;
                        }
                    }
                }
            }
            Ok(())
        }
    }
}

fn rewrite_ids(
    turn: &mut Turn<'_>,
    operation: u64,
    ids: &[PointId],
    strict: bool,
    rewrite: &mut Rewrite<'_>,
) -> Result<()> {
    let (mut missing, mut rest) = (None, ids);
    let mut out = Vec::new();
    while !rest.is_empty() {
        if turn.is_group_long() {
            turn.finish_waiting()?;
        }
        // The view is dropped before the commit: it keeps memtables alive that a flush is to free.
        let view = turn.core.view.load_full();
        let mut taken = 0;
        for &id in rest {
            taken += 1;
            match Current::find(turn, &view, id)? {
                Some(mut point) => {
                    out.clear();
                    rewrite(&mut point, turn, &mut out)?;
                    turn.add_uncommitted(operation, &out)?;
                }
                None => missing = missing.or(Some(id)),
            }
            if turn.is_group_long() {
                break;
            }
        }
        rest = &rest[taken..];
    }
    // What is short of a group may share it with what comes next.
    if turn.is_group_long() {
        turn.finish_waiting()?;
    }
    match missing {
        Some(id) if strict => all_but(turn, id),
        _ => Ok(()),
    }
}

/// An id is missing: all others were changed, which stays.
fn all_but(turn: &mut Turn<'_>, id: PointId) -> Result<()> {
    turn.finish_waiting()?;
    Err(no_point(id))
}

fn no_point(id: PointId) -> Error {
    Error::not_found(format!("Not found: No point with id {id} found"))
}

/// Points that match a filter, from a view that is let go again.
enum Source {
    Ids(Vec<PointId>, Reservation),
    Segment(Arc<Segment>, RoaringBitmap, Reservation),
}

fn matching_sources(turn: &mut Turn<'_>, filter: &Filter) -> Result<Vec<Source>> {
    let view = turn.core.view.load_full();
    let filter = CompiledFilter::on(&view.schema.fields, filter).map_err(bad)?;
    let mut sources = Vec::new();
    for memtable in &view.memtables {
        let matching = || {
            let rows = memtable.live_rows().map(|row| memtable.memtable.row(row));
            rows.filter(|row| filter.matches(row))
        };
        // Counted first: there may be as many as the memtables hold.
        let count = matching().count();
        let held = turn.core.updates.reserve((count * size_of::<PointId>()) as u64)?;
        let mut ids = Vec::with_capacity(count);
        ids.extend(matching().map(|row| row.id));
        sources.push(Source::Ids(ids, held));
    }
    for segment in &view.segments {
        let (rows, held) = matching::matching_rows(&view.schema, segment, Some(&filter), turn.lookup)?;
        sources.push(Source::Segment(segment.segment.clone(), rows, held));
    }
    Ok(sources)
}

fn stored_vectors(turn: &mut Turn<'_>, view: &View, place: Place) -> Result<StoredVectors> {
    let mut vectors = Vec::new();
    for vector in &view.schema.vectors {
        let mut bytes = Vec::with_capacity(vector.fixed_bytes().unwrap_or_default());
        if view.encoded_vector_of(place, vector.slot, turn.lookup, &mut bytes)? {
            vectors.push((vector.slot, bytes));
        }
    }
    Ok(vectors)
}

fn put(out: &mut Vec<u8>, id: PointId, vectors: &[(u16, Vec<u8>)], payload: &[u8]) {
    encode_put(
        out,
        id,
        vectors.iter().map(|(slot, v)| (*slot, v.as_slice())),
        payload,
    );
}

fn edit_payloads(
    turn: &mut Turn<'_>,
    operation: u64,
    points: PointsSelector,
    change: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>,
) -> Result<()> {
    turn.check_disk()?;
    each_point(turn, operation, points, true, &mut |point, turn, out| {
        let new = change(&point.take_payload(turn)?)?;
        if !new.is_empty() {
            let at = |e| bad(format!("point {}: {e}", point.id));
            validate(&new, PAYLOAD_BYTES_MAX).map_err(at)?;
        }
        put(out, point.id, &point.take_vectors(turn)?, &new);
        Ok(())
    })
}

fn upsert(
    turn: &mut Turn<'_>,
    operation: u64,
    points: Vec<Point>,
    filter: Option<Filter>,
    mode: UpdateMode,
) -> Result<()> {
    turn.check_disk()?;
    let filter = compiled(turn, filter.as_ref())?;
    let mut out = Vec::new();
    for point in points {
        let view = next_view(turn)?;
        let current = Current::find(turn, &view, point.id)?;
        let wanted = match (&current, mode) {
            (Some(_), UpdateMode::InsertOnly) | (None, UpdateMode::UpdateOnly) => false,
            (Some(current), _) => current.matches(filter.as_ref(), turn)?,
            (None, _) => true,
        };
        if wanted {
            if current.is_none() {
                turn.check_points(std::iter::once(point.id))?;
            }
            out.clear();
            let vectors = encode_vectors(&view.schema, &point.vectors)?;
            put(&mut out, point.id, &vectors, &point.payload);
            turn.add_uncommitted(operation, &out)?;
        }
    }
    Ok(())
}

/// As the payload indexes are now. Only payloads are asked, so that others may come meanwhile.
fn compiled(turn: &Turn<'_>, filter: Option<&Filter>) -> Result<Option<CompiledFilter>> {
    let schema = turn.core.view.load().schema.clone();
    let compile = |filter| CompiledFilter::on(&schema.fields, filter);
    filter.map(compile).transpose().map_err(bad)
}

/// What an op's next point is looked up in, beside the open group, which is closed first where it is long.
fn next_view(turn: &mut Turn<'_>) -> Result<Arc<View>> {
    if turn.is_group_long() {
        turn.finish_waiting()?;
    }
    Ok(turn.core.view.load_full())
}

fn update_vectors(
    turn: &mut Turn<'_>,
    operation: u64,
    points: Vec<(PointId, NamedVectors)>,
    filter: Option<Filter>,
) -> Result<()> {
    turn.check_disk()?;
    let filter = compiled(turn, filter.as_ref())?;
    let (mut out, mut missing) = (Vec::new(), None);
    for (id, vectors) in points {
        let view = next_view(turn)?;
        let Some(mut point) = Current::find(turn, &view, id)? else {
            missing = missing.or(Some(id));
            continue;
        };
        if !point.matches(filter.as_ref(), turn)? {
            continue;
        }
        let mut stored = point.take_vectors(turn)?;
        for (slot, bytes) in encode_vectors(&view.schema, &vectors)? {
            stored.retain(|(s, _)| *s != slot);
            stored.push((slot, bytes));
        }
        stored.sort_unstable_by_key(|(slot, _)| *slot);
        out.clear();
        put(&mut out, id, &stored, &point.take_payload(turn)?);
        turn.add_uncommitted(operation, &out)?;
    }
    missing.map_or(Ok(()), |id| all_but(turn, id))
}

fn delete_vectors(
    turn: &mut Turn<'_>,
    operation: u64,
    names: &[String],
    points: PointsSelector,
) -> Result<()> {
    turn.check_disk()?;
    let schema = turn.core.view.load().schema.clone();
    let slots = names
        .iter()
        .map(|n| schema.vector(n).map(|v| v.slot))
        .collect::<Result<Vec<_>>>()?;
    each_point(turn, operation, points, true, &mut |point, turn, out| {
        let mut stored = point.take_vectors(turn)?;
        stored.retain(|(slot, _)| !slots.contains(slot));
        put(out, point.id, &stored, &point.take_payload(turn)?);
        Ok(())
    })
}
