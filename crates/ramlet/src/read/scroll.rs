//! Scrolling by id or by the values of an indexed payload field, and counting.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

use ramlet_memory::Reservation;
use roaring::RoaringBitmap;

use crate::error::{Error, Result};
use crate::filter::index::{KeyRange, order_range, order_value, order_values_of};
use crate::filter::{CompiledFilter, Filter};
use crate::limits::LIMIT_MAX;
use crate::payload::{Path, Selector};
use crate::query::{compile, selected_payload, selected_vectors, selector};
use crate::read::lookup::Lookup;
use crate::read::matching::{self, Candidates};
use crate::read::view::{Place, View};
use crate::request::{Direction, OrderBy, ScrollPage, ScrollRequest};
use crate::schema::PayloadField;
use crate::segment::{SegmentView, TableFile};
use crate::sharding::is_once;
use crate::types::{FieldKind, OrderValue, PointId, Record, VectorSelector};

/// Ids taken from one source at a time.
const RUN: usize = 256;

/// Rows in order that are gone through in about the time in which one row is read by itself.
const WALKED_PER_READ: u64 = 256;

pub fn scroll(view: &View, request: &ScrollRequest, lookup: &mut Lookup) -> Result<ScrollPage> {
    check_limit(request.limit)?;
    let filter = compile(view, request.filter.as_ref())?;
    match &request.order_by {
        None => by_id(view, request, filter.as_ref(), lookup),
        Some(_) if request.offset.is_some() => Err(Error::bad_input(
            "Wrong input: Cannot use an `offset` when using `order_by`. The alternative for paging is to use `order_by.start_from` and a filter to exclude already seen points",
        )),
        Some(order) => by_value(view, request, order, filter.as_ref(), lookup),
    }
}

fn check_limit(limit: usize) -> Result<()> {
    if limit == 0 || limit > LIMIT_MAX {
        return Err(Error::bad_input(format!(
            "limit is {limit}, it must be in 1..={LIMIT_MAX}"
        )));
    }
    Ok(())
}

/// The ids of a page in their order, without payloads and vectors, and the id to go on from.
pub fn ids(
    view: &View,
    request: &ScrollRequest,
    lookup: &mut Lookup,
) -> Result<(Vec<PointId>, Option<PointId>)> {
    check_limit(request.limit)?;
    // Refused here, as in a page with payloads.
    selector(&request.with_payload)?;
    let filter = compile(view, request.filter.as_ref())?;
    let mut ids = Vec::new();
    let next = places_by_id(
        view,
        (request.offset, request.limit),
        filter.as_ref(),
        lookup,
        &mut |id, _, _| {
            ids.push(id);
            Ok(())
        },
    )?;
    Ok((ids, next))
}

/// A segment's part of a filter, resolved once for the whole page.
struct SegmentFilter<'a> {
    view: &'a SegmentView,
    candidates: Candidates,
}

impl SegmentFilter<'_> {
    /// The candidates, where to read each by itself is less than to go through all rows in order until `limit` of them are found.
    fn few(&self, limit: usize) -> Option<&RoaringBitmap> {
        let rows = self.candidates.rows.as_ref()?;
        let wanted = rows.len().min((limit as u64).saturating_add(1));
        let walked = u64::from(self.view.segment.rows()) * wanted / rows.len().max(1);
        (rows.len() <= walked / WALKED_PER_READ).then_some(rows)
    }

    fn admits(
        &self,
        view: &View,
        row: u32,
        filter: Option<&CompiledFilter>,
        lookup: &mut Lookup,
    ) -> Result<bool> {
        let Candidates { rows, recheck, .. } = &self.candidates;
        if self.view.deletes.contains(row) || rows.as_ref().is_some_and(|rows| !rows.contains(row)) {
            return Ok(false);
        }
        match filter.filter(|_| *recheck) {
            None => Ok(true),
            Some(f) => {
                lookup.payloads_checked += 1;
                matching::row_matches(&view.schema, self.view, row, f, &mut lookup.io, &mut lookup.buf)
            }
        }
    }
}

fn segment_filters<'a>(
    view: &'a View,
    filter: Option<&CompiledFilter>,
    lookup: &mut Lookup,
) -> Result<Vec<SegmentFilter<'a>>> {
    let of = |segment: &'a SegmentView| {
        let Lookup { io, buf, rare, .. } = &mut *lookup;
        let candidates = matching::candidates(&view.schema, segment, filter, io, buf, rare)?;
        Ok(SegmentFilter {
            view: segment,
            candidates,
        })
    };
    view.segments.iter().map(of).collect()
}

/// Ids of one source in ascending order, fetched in runs.
struct IdRun {
    source: usize,
    ids: Vec<(PointId, u32)>,
    next: usize,
    /// Where the next run starts; `None`: this was the last.
    resume: Option<Bound<PointId>>,
    /// For ids that were fetched all at once.
    _held: Option<Reservation>,
}

impl IdRun {
    fn new(source: usize, start: Bound<PointId>) -> IdRun {
        IdRun {
            source,
            ids: Vec::new(),
            next: 0,
            resume: Some(start),
            _held: None,
        }
    }

    /// Of a segment with few candidates: their ids, each read by itself. `None`: there is no memory for them.
    fn listed(
        source: usize,
        (view, rows): (&SegmentView, &RoaringBitmap),
        start: Bound<PointId>,
        lookup: &mut Lookup,
    ) -> Result<Option<IdRun>> {
        let bytes = rows.len() * size_of::<(PointId, u32)>() as u64;
        let Ok(held) = lookup.rare.reserve(bytes) else {
            return Ok(None);
        };
        let mut ids = Vec::with_capacity(rows.len() as usize);
        for row in rows.iter().filter(|row| !view.deletes.contains(*row)) {
            let (id, _) = view.segment.row_id(row, &mut lookup.io, &mut lookup.buf)?;
            if (start, Bound::Unbounded).contains(&id) {
                ids.push((id, row));
            }
        }
        ids.sort_unstable();
        Ok(Some(IdRun {
            source,
            ids,
            next: 0,
            resume: None,
            _held: Some(held),
        }))
    }

    fn refill(&mut self, view: &View, lookup: &mut Lookup) -> Result<()> {
        let Some(from) = self.resume.take() else {
            return Ok(());
        };
        self.ids.clear();
        self.next = 0;
        match self.source.checked_sub(view.segments.len()) {
            Some(memtable) => view.memtables[memtable].ids_from(from, RUN, &mut self.ids),
            None => {
                let (start, skip) = match from {
                    Bound::Unbounded => (None, None),
                    Bound::Included(id) => (Some(id), None),
                    Bound::Excluded(id) => (Some(id), Some(id)),
                };
                let ids = &mut self.ids;
                let segment = &view.segments[self.source].segment;
                segment.ids_from(start, &mut lookup.io, &mut lookup.buf, &mut |id, row| {
                    if skip != Some(id) {
                        ids.push((id, row));
                    }
                    ids.len() < RUN
                })?;
            }
        }
        if self.ids.len() == RUN {
            self.resume = self.ids.last().map(|(id, _)| Bound::Excluded(*id));
        }
        Ok(())
    }

    /// The smallest id not taken yet.
    fn peek(&mut self, view: &View, lookup: &mut Lookup) -> Result<Option<(PointId, u32)>> {
        if self.next == self.ids.len() {
            self.refill(view, lookup)?;
        }
        Ok(self.ids.get(self.next).copied())
    }
}

fn by_id(
    view: &View,
    request: &ScrollRequest,
    filter: Option<&CompiledFilter>,
    lookup: &mut Lookup,
) -> Result<ScrollPage> {
    let payload = selector(&request.with_payload)?;
    let mut page = ScrollPage::default();
    page.next = places_by_id(
        view,
        (request.offset, request.limit),
        filter,
        lookup,
        &mut |id, place, lookup| {
            let found = record(view, id, place, &payload, &request.with_vectors, lookup)?;
            page.points.push(found);
            Ok(())
        },
    )?;
    Ok(page)
}

/// Calls `each` for up to `limit` matching points in the order of their ids, from one on; returns the next one's id.
pub(crate) fn places_by_id(
    view: &View,
    (from, limit): (Option<PointId>, usize),
    filter: Option<&CompiledFilter>,
    lookup: &mut Lookup,
    each: &mut dyn FnMut(PointId, Place, &mut Lookup) -> Result<()>,
) -> Result<Option<PointId>> {
    let filters = segment_filters(view, filter, lookup)?;
    let start = from.map_or(Bound::Unbounded, Bound::Included);
    let sources = view.segments.len() + view.memtables.len();
    let mut runs = Vec::with_capacity(sources);
    for source in 0..sources {
        let filter = filters.get(source);
        let few = filter.and_then(|filter| Some((filter.view, filter.few(limit)?)));
        let listed = few
            .map(|few| IdRun::listed(source, few, start, lookup))
            .transpose()?;
        runs.push(listed.flatten().unwrap_or_else(|| IdRun::new(source, start)));
    }
    let (mut left, mut last) = (limit, None);
    loop {
        let mut least: Option<(PointId, u32, usize)> = None;
        for (i, run) in runs.iter_mut().enumerate() {
            if let Some((id, row)) = run.peek(view, lookup)?
                && least.is_none_or(|(best, _, _)| id < best)
            {
                least = Some((id, row, i));
            }
        }
        let Some((id, row, i)) = least else {
            return Ok(None);
        };
        runs[i].next += 1;
        let Some(place) = admitted(view, &filters, i, row, filter, lookup)? else {
            continue;
        };
        // Several shards may hold it; a page goes on behind it.
        if last.replace(id) == Some(id) {
            continue;
        }
        if left == 0 {
            return Ok(Some(id));
        }
        left -= 1;
        each(id, place, lookup)?;
    }
}

/// The place of a source's row, if it is live and matches.
fn admitted(
    view: &View,
    filters: &[SegmentFilter<'_>],
    source: usize,
    row: u32,
    filter: Option<&CompiledFilter>,
    lookup: &mut Lookup,
) -> Result<Option<Place>> {
    let Some(memtable) = source.checked_sub(view.segments.len()) else {
        let admitted = filters[source].admits(view, row, filter, lookup)?;
        return Ok(admitted.then_some(Place::Segment {
            index: source as u32,
            row,
        }));
    };
    let memtable_view = &view.memtables[memtable];
    // The id map is newer than the view.
    let seen = memtable_view.seen(row);
    let admitted = seen.filter(|&row| filter.is_none_or(|f| f.matches(&memtable_view.memtable.row(row))));
    Ok(admitted.map(|row| Place::Memtable {
        index: memtable as u32,
        row,
    }))
}

pub(crate) fn record(
    view: &View,
    id: PointId,
    place: Place,
    payload: &Selector,
    vectors: &VectorSelector,
    lookup: &mut Lookup,
) -> Result<Record> {
    Ok(Record {
        id,
        payload: selected_payload(view, place, payload, lookup)?,
        vectors: selected_vectors(view, place, vectors, lookup)?,
        order_value: None,
        shard_key: view.key_of(place),
    })
}

/// A value of the field, and whose it is.
pub(crate) struct Ordered {
    pub value: OrderValue,
    pub place: Place,
}

/// Both zeros are one, as in an index.
pub(crate) fn compare(a: OrderValue, b: OrderValue) -> Ordering {
    let float = |value: OrderValue| match value {
        OrderValue::Int(value) => value as f64,
        OrderValue::Float(value) => value + 0.0,
    };
    match (a, b) {
        (OrderValue::Int(a), OrderValue::Int(b)) => a.cmp(&b),
        _ => float(a).total_cmp(&float(b)),
    }
}

fn by_value(
    view: &View,
    request: &ScrollRequest,
    order: &OrderBy,
    filter: Option<&CompiledFilter>,
    lookup: &mut Lookup,
) -> Result<ScrollPage> {
    let payload = selector(&request.with_payload)?;
    let mut page = ScrollPage::default();
    for (id, ordered) in values_once(view, order, request.limit, filter, lookup)? {
        let mut record = record(view, id, ordered.place, &payload, &request.with_vectors, lookup)?;
        record.order_value = Some(ordered.value);
        page.points.push(record);
    }
    Ok(page)
}

/// The first `limit` values with their points; one that several shards hold alike comes once.
fn values_once(
    view: &View,
    order: &OrderBy,
    limit: usize,
    filter: Option<&CompiledFilter>,
    lookup: &mut Lookup,
) -> Result<Vec<(PointId, Ordered)>> {
    let most = limit.saturating_mul(view.keyed.len().max(1)).min(LIMIT_MAX);
    let mut asked = limit;
    loop {
        let found = places_by_value(view, order, asked, filter, lookup)?;
        let is_all = found.len() < asked || asked >= most;
        let mut kept: Vec<(PointId, Ordered)> = Vec::with_capacity(found.len());
        for ordered in found {
            let (id, _) = view.id_of(ordered.place, lookup)?;
            let mut alike = kept.iter().rev();
            let mut alike = alike
                .by_ref()
                .take_while(|(_, o)| compare(o.value, ordered.value).is_eq());
            if is_once(view) || alike.all(|(other, _)| *other != id) {
                kept.push((id, ordered));
            }
        }
        if kept.len() >= limit || is_all {
            kept.truncate(limit);
            return Ok(kept);
        }
        asked = asked.saturating_mul(2).min(most);
    }
}

/// The index to order by, and its path; refuses a field without one.
pub(crate) fn ordered_field<'v>(view: &'v View, order: &OrderBy) -> Result<(&'v PayloadField, Path)> {
    let no_index = || {
        Error::bad_input(format!(
            "Wrong input: No range index for `order_by` key: `{}`. Please create one to use `order_by`. Check https://qdrant.tech/documentation/concepts/indexing/#payload-index to see which payload schemas support Range conditions",
            order.key
        ))
    };
    let field = view.schema.field(&order.key).ok_or_else(no_index)?;
    order_range(field.kind, None, false).ok_or_else(no_index)?;
    let path = Path::parse(&field.path).map_err(|e| Error::bad_input(format!("order_by key: {e}")))?;
    Ok((field, path))
}

/// Of each source the first `limit` that match; then the first `limit` of all. A source's index is read in order,
/// so this reads no more of it than the page needs.
pub(crate) fn places_by_value(
    view: &View,
    order: &OrderBy,
    limit: usize,
    filter: Option<&CompiledFilter>,
    lookup: &mut Lookup,
) -> Result<Vec<Ordered>> {
    let descending = order.direction == Direction::Desc;
    let (field, path) = ordered_field(view, order)?;
    let Some(range) = order_range(field.kind, order.start_from, descending) else {
        return Ok(Vec::new());
    };
    let filters = segment_filters(view, filter, lookup)?;
    let mut found = Vec::new();
    for (source, segment) in filters.iter().enumerate() {
        let Some(table) = segment.view.segment.field(field.slot) else {
            continue;
        };
        let values = match segment.few(limit) {
            Some(rows) => values_of(
                rows,
                (view, segment),
                (order, field.kind, &path),
                (limit, filter),
                lookup,
            )?,
            None => values_in_order(
                table,
                &range,
                (view, segment),
                (order, field.kind),
                (limit, filter),
                lookup,
            )?,
        };
        let index = source as u32;
        found.extend(values.into_iter().map(|(value, row)| Ordered {
            value,
            place: Place::Segment { index, row },
        }));
    }
    let mut values = Vec::new();
    for (index, memtable) in view.memtables.iter().enumerate() {
        for number in memtable.live_rows() {
            let row = memtable.memtable.row(number);
            if filter.is_some_and(|f| !f.matches(&row)) {
                continue;
            }
            values.clear();
            order_values_of(field.kind, &path, row.payload, &mut |value| values.push(value));
            // As in an index, a value counts once however often the point has it.
            values.sort_by(|a, b| compare(*a, *b));
            values.dedup_by(|a, b| compare(*a, *b).is_eq());
            let place = Place::Memtable {
                index: index as u32,
                row: number,
            };
            found.extend(
                values
                    .iter()
                    .filter(|v| within(**v, order))
                    .map(|&value| Ordered { value, place }),
            );
            // Buffers have no order: what can't be on the page any more goes before it is much.
            if found.len() > 2 * limit + 4 * RUN {
                sort(&mut found, descending);
                found.truncate(limit);
            }
        }
    }
    sort(&mut found, descending);
    found.truncate(limit);
    Ok(found)
}

/// The first `limit` values of a segment's table that match, with their rows.
fn values_in_order(
    table: &TableFile,
    range: &KeyRange,
    (view, segment): (&View, &SegmentFilter<'_>),
    (order, kind): (&OrderBy, FieldKind),
    (limit, filter): (usize, Option<&CompiledFilter>),
    lookup: &mut Lookup,
) -> Result<Vec<(OrderValue, u32)>> {
    let descending = order.direction == Direction::Desc;
    let mut pages = pages_of(table, range, descending);
    let (mut found, mut block) = (Vec::new(), Vec::new());
    while found.len() < limit
        && let Some(page) = pages.next()
    {
        block.clear();
        table.block_keys(page, &mut lookup.io, &mut lookup.buf, &mut |key, row| {
            if range.contains(key) {
                block.extend(order_value(kind, key).map(|value| (value, row)));
            }
        })?;
        if descending {
            block.reverse();
        }
        for &(value, row) in &block {
            if segment.admits(view, row, filter, lookup)? {
                found.push((value, row));
            }
        }
    }
    Ok(found)
}

/// The same of few candidates, from their payloads.
fn values_of(
    rows: &RoaringBitmap,
    (view, segment): (&View, &SegmentFilter<'_>),
    (order, kind, path): (&OrderBy, FieldKind, &Path),
    (limit, filter): (usize, Option<&CompiledFilter>),
    lookup: &mut Lookup,
) -> Result<Vec<(OrderValue, u32)>> {
    let (mut found, mut values) = (Vec::new(), Vec::new());
    let sort = |found: &mut Vec<(OrderValue, u32)>| {
        found.sort_by(|a, b| compare(a.0, b.0).then(a.1.cmp(&b.1)));
        // As in an index, a value counts once however often the point has it.
        found.dedup_by(|a, b| a.1 == b.1 && compare(a.0, b.0).is_eq());
        if order.direction == Direction::Desc {
            found.reverse();
        }
        found.truncate(limit);
    };
    for row in rows {
        if !segment.admits(view, row, filter, lookup)? {
            continue;
        }
        let payload = segment
            .view
            .segment
            .payload(row, &mut lookup.io, &mut lookup.buf)?;
        values.clear();
        order_values_of(kind, path, payload, &mut |value| values.push(value));
        found.extend(
            values
                .iter()
                .filter(|value| within(**value, order))
                .map(|value| (*value, row)),
        );
        // What can't be on the page any more goes before it is much.
        if found.len() > 2 * limit + 4 * RUN {
            sort(&mut found);
        }
    }
    sort(&mut found);
    Ok(found)
}

/// Stable, so that equal values stay in the order of their sources and rows.
pub(crate) fn sort(found: &mut [Ordered], descending: bool) {
    found.sort_by(|a, b| {
        if descending {
            compare(b.value, a.value)
        } else {
            compare(a.value, b.value)
        }
    });
}

pub(crate) fn within(value: OrderValue, order: &OrderBy) -> bool {
    order.start_from.is_none_or(|start| match order.direction {
        Direction::Asc => compare(value, start).is_ge(),
        Direction::Desc => compare(value, start).is_le(),
    })
}

/// Pages of a table that may hold keys of the range, in the order of the scroll.
fn pages_of(table: &TableFile, range: &KeyRange, descending: bool) -> Box<dyn Iterator<Item = u64>> {
    let first = table.index.block_for(&range.from);
    let end = (table.index.block_for(&range.to) + 1).min(table.index.blocks());
    if descending {
        Box::new((first..end).rev())
    } else {
        Box::new(first..end)
    }
}

/// How many points match. Not exact: where the indexes don't decide, what they let expect, without looking at payloads.
pub fn count(view: &View, filter: Option<&Filter>, exact: bool, lookup: &mut Lookup) -> Result<u64> {
    let Some(filter) = compile(view, filter)? else {
        return Ok(view.points());
    };
    let mut total = 0;
    for segment in &view.segments {
        total += if exact {
            matching::matching_rows(&view.schema, segment, Some(&filter), lookup)?
                .0
                .len()
        } else {
            let Lookup { io, buf, rare, .. } = &mut *lookup;
            match matching::counted_by_indexes(&view.schema, segment, &filter, io, buf, rare)? {
                Some(rows) => rows,
                None => matching::estimate(&view.schema, segment, &filter, io, buf, rare)?,
            }
        };
    }
    for memtable in &view.memtables {
        total += memtable
            .live_rows()
            .filter(|&row| filter.matches(&memtable.memtable.row(row)))
            .count() as u64;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_zeros_are_one() {
        use OrderValue::{Float, Int};
        for zero in [Int(0), Float(0.0), Float(-0.0)] {
            for other in [Int(0), Float(0.0), Float(-0.0)] {
                assert_eq!(compare(zero, other), Ordering::Equal, "{zero:?} {other:?}");
            }
            assert_eq!(compare(Float(-5e-324), zero), Ordering::Less, "{zero:?}");
            assert_eq!(compare(Int(1), zero), Ordering::Greater, "{zero:?}");
        }
    }
}
