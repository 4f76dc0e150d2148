//! Facets: how many points have each value of a payload field.
//!
//! The field's index is a sorted set in each segment, so the values of all segments are merged in their order, one block of
//! each in memory, and only the best so far are kept: memory grows with `limit`, not with the number of values. Counts are
//! exact, whatever is asked.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, btree_map};
use std::ops::Range;

use ramlet_memory::{Consumer, Reservation};
use roaring::RoaringBitmap;

use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::filter::index::{FacetValue, KeyRange, emit_keys, facet_range, facet_value, keyword_with_key};
use crate::filter::{CompiledFilter, Filter};
use crate::payload::Path;
use crate::query::{Scratch, compile};
use crate::read::lookup::Lookup;
use crate::read::matching;
use crate::read::view::{Place, View};
use crate::schema::PayloadField;
use crate::segment::TableFile;

/// Values of a field that has an index which can be matched (keyword, integer, bool, uuid), those of most points first.
#[derive(Debug, Clone)]
pub struct FacetRequest {
    pub key: String,
    pub limit: usize,
    /// Only points that match are counted.
    pub filter: Option<Filter>,
}

/// A value, and the points that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FacetHit {
    pub value: FacetValue,
    pub count: u64,
}

impl Collection {
    /// The `limit` values that most points have; equal counts in the order of the values. Reads the whole index of the field,
    /// block by block.
    pub fn facet(&self, request: &FacetRequest, scratch: &mut Scratch) -> Result<Vec<FacetHit>> {
        scratch.begin();
        let view = self.live_view()?;
        facet(&view, request, &mut scratch.lookup)
    }
}

fn facet(view: &View, request: &FacetRequest, lookup: &mut Lookup) -> Result<Vec<FacetHit>> {
    let none = || {
        Error::bad_input(format!(
            "Wrong input: No appropriate index for faceting: `{}`. Please create one to facet on this field. Check https://qdrant.tech/documentation/concepts/indexing/#payload-index to see which payload schemas support Match conditions",
            request.key
        ))
    };
    Path::parse(&request.key)
        .map_err(|e| Error::bad_input(format!("Wrong input: key `{}`: {e}", request.key)))?;
    let field = view.schema.field(&request.key).ok_or_else(none)?;
    let range = facet_range(field.kind).ok_or_else(none)?;
    let filter = compile(view, request.filter.as_ref())?;
    let mut sources = Vec::with_capacity(view.segments.len() + view.memtables.len());
    for index in 0..view.segments.len() {
        if let Some(table) = view.segments[index].segment.field(field.slot) {
            sources.push(Source::Segment(SegmentKeys::open(
                view,
                index,
                table,
                &range,
                filter.as_ref(),
                lookup,
            )?));
        }
    }
    for index in 0..view.memtables.len() {
        let keys = memtable_keys(view, index, field, &range, filter.as_ref(), &lookup.rare)?;
        sources.push(Source::Memtable(keys));
    }
    let (best, _held) = merge(view, &mut sources, request.limit, lookup)?;
    drop(sources);
    let mut hits = Vec::with_capacity(best.len());
    for top in best {
        lookup.reserve_returned(top.key.len() + size_of::<FacetHit>())?;
        let value =
            facet_value(field.kind, &top.key).map_or_else(|| long_value(view, field, &top, lookup), Ok)?;
        let count = top.count;
        hits.push(FacetHit { value, count });
    }
    // Keys of long keywords end in a hash: among values that begin alike for 512 bytes theirs is another order.
    hits.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.value.cmp(&b.value)));
    Ok(hits)
}

/// The value of a key that doesn't hold it whole, from the payload of a point that has it.
fn long_value(view: &View, field: &PayloadField, top: &Top, lookup: &mut Lookup) -> Result<FacetValue> {
    let corrupt = || {
        Error::corrupt(format!(
            "the payload index `{}` has a key that no payload has",
            field.path
        ))
    };
    let path = Path::parse(&field.path).map_err(|_| corrupt())?;
    let payload = view.payload_of(top.place, lookup)?;
    lookup.reserve_returned(payload.len())?;
    keyword_with_key(&path, &payload, &top.key)
        .map(FacetValue::Str)
        .ok_or_else(corrupt)
}

/// A key, how many points of a source have it, and one of them.
struct Run {
    /// Where it ends in the bytes of its block; it begins where the one before ends.
    end: usize,
    count: u64,
    row: u32,
}

/// The keys of a segment's index, a block at a time.
struct SegmentKeys<'a> {
    index: u32,
    table: &'a TableFile,
    range: KeyRange,
    /// Live rows that match; `None`: all that aren't deleted.
    rows: Option<(RoaringBitmap, Reservation)>,
    blocks: Range<u64>,
    bytes: Vec<u8>,
    runs: Vec<Run>,
    next: usize,
    held: Held,
}

impl<'a> SegmentKeys<'a> {
    fn open(
        view: &'a View,
        index: usize,
        table: &'a TableFile,
        range: &KeyRange,
        filter: Option<&CompiledFilter>,
        lookup: &mut Lookup,
    ) -> Result<SegmentKeys<'a>> {
        let segment = &view.segments[index];
        let rows = match filter {
            None => None,
            Some(_) => Some(matching::matching_rows(&view.schema, segment, filter, lookup)?),
        };
        Ok(SegmentKeys {
            index: index as u32,
            table,
            range: range.clone(),
            rows,
            blocks: table.blocks_of(&range.from, &range.to),
            bytes: Vec::new(),
            runs: Vec::new(),
            next: 0,
            held: Held::new(&lookup.rare)?,
        })
    }

    /// Makes sure that there is a next key, unless there are no more.
    fn fill(&mut self, view: &View, lookup: &mut Lookup) -> Result<()> {
        while self.next == self.runs.len()
            && let Some(block) = self.blocks.next()
        {
            self.next = 0;
            self.runs.clear();
            self.bytes.clear();
            let deletes = &view.segments[self.index as usize].deletes;
            let Lookup { io, buf, .. } = &mut *lookup;
            let (bytes, runs) = (&mut self.bytes, &mut self.runs);
            let mut start = 0;
            self.table.block_keys(block, io, buf, &mut |key, row| {
                let counts = match &self.rows {
                    Some((rows, _)) => rows.contains(row),
                    None => !deletes.contains(row),
                };
                if !counts || !self.range.contains(key) {
                    return;
                }
                match runs.last_mut() {
                    Some(last) if &bytes[start..last.end] == key => last.count += 1,
                    last => {
                        start = last.map_or(0, |run| run.end);
                        bytes.extend_from_slice(key);
                        let end = bytes.len();
                        runs.push(Run { end, count: 1, row });
                    }
                }
            })?;
            let took = self.bytes.capacity() + self.runs.capacity() * size_of::<Run>();
            self.held.at_least(took as u64)?;
        }
        Ok(())
    }

    fn peek(&self) -> Option<&[u8]> {
        let run = self.runs.get(self.next)?;
        let start = self.next.checked_sub(1).map_or(0, |before| self.runs[before].end);
        Some(&self.bytes[start..run.end])
    }
}

/// The keys of a memtable, in order: how many points have each, and one of them.
struct MemtableKeys {
    index: u32,
    next: Option<(Vec<u8>, (u64, u32))>,
    rest: btree_map::IntoIter<Vec<u8>, (u64, u32)>,
    _held: Held,
}

/// About what a key of a map takes beside its bytes.
const KEY_BYTES: u64 = 96;

fn memtable_keys(
    view: &View,
    index: usize,
    field: &PayloadField,
    range: &KeyRange,
    filter: Option<&CompiledFilter>,
    from: &Consumer,
) -> Result<MemtableKeys> {
    let memtable = &view.memtables[index];
    let path = Path::parse(&field.path)
        .map_err(|e| Error::corrupt(format!("payload index `{}`: {e}", field.path)))?;
    let mut held = Held::new(from)?;
    let (mut keys, mut bytes, mut over) = (BTreeMap::new(), 0, Ok(()));
    for number in memtable.live_rows() {
        let row = memtable.memtable.row(number);
        if filter.is_some_and(|f| !f.matches(&row)) {
            continue;
        }
        emit_keys(field.kind, &path, row.payload, &mut |key| {
            if over.is_err() || !range.contains(key) {
                return;
            }
            if let Some((count, _)) = keys.get_mut(key) {
                *count += 1;
                return;
            }
            bytes += key.len() as u64 + KEY_BYTES;
            over = held.at_least(bytes);
            if over.is_ok() {
                keys.insert(key.to_vec(), (1, number));
            }
        });
        std::mem::replace(&mut over, Ok(()))?;
    }
    let mut rest = keys.into_iter();
    Ok(MemtableKeys {
        index: index as u32,
        next: rest.next(),
        rest,
        _held: held,
    })
}

enum Source<'a> {
    Segment(SegmentKeys<'a>),
    Memtable(MemtableKeys),
}

impl Source<'_> {
    fn fill(&mut self, view: &View, lookup: &mut Lookup) -> Result<()> {
        match self {
            Source::Segment(keys) => keys.fill(view, lookup),
            Source::Memtable(_) => Ok(()),
        }
    }

    fn peek(&self) -> Option<&[u8]> {
        match self {
            Source::Segment(keys) => keys.peek(),
            Source::Memtable(keys) => keys.next.as_ref().map(|(key, _)| key.as_slice()),
        }
    }

    /// Takes the next key if it is `key`: its count and a point that has it.
    fn take_if(&mut self, key: &[u8]) -> Option<(u64, Place)> {
        if self.peek() != Some(key) {
            return None;
        }
        match self {
            Source::Segment(keys) => {
                let run = keys.runs.get(keys.next)?;
                keys.next += 1;
                let (index, row) = (keys.index, run.row);
                Some((run.count, Place::Segment { index, row }))
            }
            Source::Memtable(keys) => {
                let (_, (count, row)) = std::mem::replace(&mut keys.next, keys.rest.next())?;
                let index = keys.index;
                Some((count, Place::Memtable { index, row }))
            }
        }
    }
}

/// The best of all sources, best first, and what is held for them.
fn merge(
    view: &View,
    sources: &mut [Source<'_>],
    limit: usize,
    lookup: &mut Lookup,
) -> Result<(Vec<Top>, Held)> {
    let mut best = BinaryHeap::<Top>::new();
    let (mut held, mut bytes) = (Held::new(&lookup.rare)?, 0u64);
    let mut key = Vec::new();
    loop {
        let mut least: Option<&[u8]> = None;
        for source in sources.iter_mut() {
            source.fill(view, lookup)?;
        }
        for next in sources.iter().filter_map(Source::peek) {
            if least.is_none_or(|least| next < least) {
                least = Some(next);
            }
        }
        let Some(least) = least else {
            return Ok((best.into_sorted_vec(), held));
        };
        key.clear();
        key.extend_from_slice(least);
        let (mut count, mut place) = (0, None);
        for source in sources.iter_mut() {
            // Once more after a block that ended with it.
            while let Some((points, of)) = source.take_if(&key) {
                count += points;
                place = Some(of);
                source.fill(view, lookup)?;
            }
        }
        // Values come in their order, so of equal counts the earlier one stays.
        if best.len() >= limit {
            match best.peek() {
                Some(worst) if worst.count < count => {}
                _ => continue,
            }
            if let Some(worst) = best.pop() {
                bytes -= worst.key.len() as u64 + KEY_BYTES;
            }
        }
        let Some(place) = place else { continue };
        bytes += key.len() as u64 + KEY_BYTES;
        held.at_least(bytes)?;
        best.push(Top {
            count,
            key: key.clone(),
            place,
        });
    }
}

/// A value among the best so far. The greatest is the worst, so that a heap gives it up first.
#[derive(PartialEq, Eq)]
struct Top {
    count: u64,
    key: Vec<u8>,
    place: Place,
}

impl Ord for Top {
    fn cmp(&self, other: &Top) -> Ordering {
        other
            .count
            .cmp(&self.count)
            .then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for Top {
    fn partial_cmp(&self, other: &Top) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Bytes held in steps.
struct Held(Reservation);

impl Held {
    const STEP: u64 = 16 << 10;

    fn new(from: &Consumer) -> Result<Held> {
        Ok(Held(from.reserve(0)?))
    }

    fn at_least(&mut self, bytes: u64) -> Result<()> {
        let more = bytes.saturating_sub(self.0.bytes());
        if more > 0 {
            self.0.grow(more.next_multiple_of(Held::STEP))?;
        }
        Ok(())
    }
}
