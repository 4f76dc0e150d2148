//! The search of one segment: candidates of the filter, the index's strategy, and what it did.

use ramlet_index::{
    Allowed, IndexError, IndexSearchParams, RowFilter, RowSet, SearchStats, VectorIndex, scan_rows,
};
use ramlet_io::{IoContext, SearchStage, StageUse, Stages};
use ramlet_memory::AnonBuf;
use roaring::RoaringBitmap;

use super::Scratch;
use crate::error::Result;
use crate::filter::CompiledFilter;
use crate::read::lookup::Lookup;
use crate::read::matching::{self, Candidates};
use crate::read::view::View;
use crate::request::Explained;
use crate::schema::{Schema, VectorField};
use crate::segment::SegmentView;
use crate::segment::deletes::DeleteSet;
use crate::types::PointId;

/// A search, the same for all segments.
pub struct SearchContext<'a> {
    pub view: &'a View,
    pub field: &'a VectorField,
    pub filter: Option<&'a CompiledFilter>,
    /// Points whose vectors the query is made of, which are no hits: ascending.
    pub excluded: &'a [PointId],
    pub want: IndexSearchParams,
    pub indexed_only: bool,
}

impl SearchContext<'_> {
    /// Whether `indexed_only` passes over so many rows without an index. Few are searched all the same: that is fast.
    fn passes_over(&self, rows: u64) -> bool {
        self.indexed_only && self.field.kb(rows) > self.view.schema.indexing_kb
    }
}

/// Rows that can't be hits: deleted, or of the query itself.
struct Gone<'a> {
    deletes: &'a DeleteSet,
    /// Sorted, each once, and none of them deleted.
    own_rows: Vec<u32>,
}

/// Live rows of these points.
pub(super) fn rows_of(
    ids: &[PointId],
    segment: &SegmentView,
    io: &mut IoContext,
    buf: &mut AnonBuf,
) -> Result<Vec<u32>> {
    let mut rows = Vec::with_capacity(ids.len());
    for &id in ids {
        let row = segment.segment.find(id, io, buf)?;
        rows.extend(row.filter(|&row| !segment.deletes.contains(row)));
    }
    rows.sort_unstable();
    rows.dedup();
    Ok(rows)
}

impl RowSet for Gone<'_> {
    fn contains(&self, row: u32) -> bool {
        self.deletes.contains(row) || self.own_rows.binary_search(&row).is_ok()
    }
    fn len(&self) -> u64 {
        u64::from(self.deletes.len()) + self.own_rows.len() as u64
    }
}

/// What is asked of a row's payload where the indexes don't know.
struct PayloadCheck<'a> {
    schema: &'a Schema,
    view: &'a SegmentView,
    filter: &'a CompiledFilter,
    buf: &'a mut AnonBuf,
    watch: CheckWatch,
}

impl RowFilter for PayloadCheck<'_> {
    fn admits(&mut self, row: u32, io: &mut IoContext) -> ramlet_index::Result<bool> {
        let begun = self.watch.begin(io);
        let admits = matching::row_matches(self.schema, self.view, row, self.filter, io, self.buf)
            .map_err(|e| IndexError::Filter(Box::new(e)));
        if let Some(begun) = begun {
            self.watch.end(begun, io);
        }
        admits
    }
}

/// What the checks of a search take. Looking at the clock twice takes a tenth of a check, so only some are looked at once there are many.
#[derive(Default)]
struct CheckWatch {
    checks: u64,
    /// By the stages that the checks interrupted. Waits and reads are counted, the rest is estimated.
    of: Stages,
}

/// A check under way.
struct CheckBegun {
    read: StageUse,
    at: u64,
    /// How many checks it stands for; 0: it isn't timed.
    times: u64,
}

/// Checks that are all timed, and one in how many is behind them.
const CHECKS_TIMED: u64 = 256;
const CHECKS_PER_TIMED: u64 = 16;

impl CheckWatch {
    fn begin(&mut self, io: &IoContext) -> Option<CheckBegun> {
        io.clock()?;
        self.checks += 1;
        let times = match self.checks {
            ..=CHECKS_TIMED => 1,
            n if n % CHECKS_PER_TIMED == 0 => CHECKS_PER_TIMED,
            _ => 0,
        };
        Some(CheckBegun {
            read: io.read_so_far(),
            at: if times > 0 { io.now() } else { 0 },
            times,
        })
    }

    fn end(&mut self, begun: CheckBegun, io: &IoContext) {
        let read = io.read_so_far().without(&begun.read);
        let now = if begun.times > 0 { io.now() } else { 0 };
        let computed = (now - begun.at).saturating_sub(read.waited_ns);
        self.of.of_mut(io.stage()).add(&StageUse {
            ns: read.waited_ns + begun.times * computed,
            ..read
        });
    }

    /// Takes the checks out of the stages that they interrupted.
    fn divide(&self, stages: &mut Stages) {
        for (stage, used) in self.of.used() {
            *stages.of_mut(stage) = stages.of(stage).without(used);
            stages.of_mut(SearchStage::Payloads).add(used);
        }
    }
}

/// Rows that a bitmap names are compared one by one where there are at most so many times those wanted: no index does with
/// much less.
const LISTED_PER_WANTED: u64 = 4;

/// Offers the collector what the segment has, and says how it was found.
pub fn search_segment(
    context: &SearchContext<'_>,
    segment: &SegmentView,
    scratch: &mut Scratch,
) -> Result<Explained> {
    let (view, field) = (context.view, context.field);
    let mut found = Explained {
        segment: Some(segment.segment.id()),
        strategy: "none",
        rows: u64::from(segment.segment.rows()),
        ..Explained::default()
    };
    let Some(column) = segment.segment.vector(field.slot) else {
        return Ok(found);
    };
    found.index = column.index.kind();
    if found.index == "flat" && context.passes_over(u64::from(segment.live())) {
        found.strategy = "passed over";
        return Ok(found);
    }
    let Lookup {
        io, buf, index, rare, ..
    } = &mut scratch.lookup;
    let bytes = io.bytes();
    io.take_stages();
    io.enter(SearchStage::Filter);
    let candidates = matching::candidates(&view.schema, segment, context.filter, io, buf, rare)?;
    let Candidates {
        mut rows, recheck, ..
    } = candidates;
    found.candidates = rows.as_ref().map(RoaringBitmap::len);
    found.rechecked = recheck;
    if found.candidates == Some(0) {
        found.stages = io.take_stages().map(Box::new);
        found.read_bytes = io.bytes() - bytes;
        return Ok(found);
    }
    if let (Some(rows), Some(present)) = (&mut rows, &column.present)
        && column.is_by_row()
    {
        *rows &= present;
    }
    let share = match context.filter.filter(|_| recheck) {
        Some(filter) => Some(matching::share(
            &view.schema,
            segment,
            filter,
            rows.as_ref(),
            io,
            buf,
        )?),
        None => None,
    };
    found.share = context.filter.map(|_| share_of(rows.as_ref(), share, segment));
    io.enter(SearchStage::Other);
    let gone = Gone {
        deletes: &segment.deletes,
        own_rows: rows_of(context.excluded, segment, io, buf)?,
    };
    let mut check = context.filter.filter(|_| recheck).map(|filter| PayloadCheck {
        schema: &view.schema,
        view: segment,
        filter,
        buf: &mut scratch.check,
        watch: CheckWatch::default(),
    });
    let mut allowed = Allowed {
        deleted: (!gone.is_empty()).then_some(&gone as &dyn RowSet),
        // Rows without the vector hold anything in a flat file.
        only: rows
            .as_ref()
            .or_else(|| column.present.as_ref().filter(|_| found.index == "flat")),
        filter: check.as_mut().map(|check| check as &mut dyn RowFilter),
        filter_share: share,
    };
    let want = want_here(context, segment, &found, scratch.top.k());
    let lists = column
        .index
        .search_bytes(&scratch.query, &want, &allowed, scratch.top.k());
    let _held = rare.reserve(lists)?;
    io.enter(first_stage(found.index));
    let begun = io.now();
    index.set_clock(io.clock());
    let together = rows.as_ref().and_then(|rows| column.rows_together(rows));
    let is_together = together.is_some();
    match together {
        Some((file, range)) => scan_rows(
            file,
            range,
            &scratch.query,
            &mut allowed,
            index,
            io,
            &mut scratch.top,
        )?,
        None => column
            .index
            .search(&scratch.query, &want, &mut allowed, index, io, &mut scratch.top)?,
    }
    let checks = check.map(|check| check.watch).unwrap_or_default();
    found.stages = io.take_stages().map(Box::new);
    if let Some(stages) = &mut found.stages {
        divide_ranking(stages, index.ranked_at().map(|at| at - begun));
        checks.divide(stages);
    }
    found.read_bytes = io.bytes() - bytes;
    note(&mut found, &want, column.index.as_ref(), &index.stats);
    if is_together {
        found.strategy = "together";
    }
    segment.segment.note_spent(spent(&index.stats));
    Ok(found)
}

/// What an index does that isn't in another stage.
fn first_stage(index: &str) -> SearchStage {
    match index {
        "sparse" => SearchStage::Lists,
        "records" => SearchStage::Rows,
        _ => SearchStage::Codes,
    }
}

/// An index ranks its centroids before it compares anything; positions of the rows that a filter names are found before that.
fn divide_ranking(stages: &mut Stages, until_ranked: Option<u64>) {
    let Some(until_ranked) = until_ranked else { return };
    let positions = stages.of(SearchStage::Positions).ns;
    let ranking = StageUse {
        ns: until_ranked
            .saturating_sub(positions)
            .min(stages.of(SearchStage::Codes).ns),
        ..StageUse::default()
    };
    *stages.of_mut(SearchStage::Codes) = stages.of(SearchStage::Codes).without(&ranking);
    stages.of_mut(SearchStage::Centroids).add(&ranking);
}

/// Codes scanned in the time of comparing one row that comes from disk in sequence, and such rows in that of a read.
const CODES_PER_ROW: u64 = 64;
const ROWS_PER_READ: u64 = 32;

/// The same of what each segment takes that is searched, whatever is in it.
const ROWS_PER_SEGMENT: u64 = 64;

/// What a search has cost, in rows compared: what decides when a small segment is worth merging.
fn spent(stats: &SearchStats) -> u64 {
    ROWS_PER_SEGMENT + stats.rows_scored + stats.codes_scored / CODES_PER_ROW + stats.reads * ROWS_PER_READ
}

/// Share of the segment's rows that match: of those the indexes name, and that a sample of them admits.
fn share_of(rows: Option<&RoaringBitmap>, sampled: Option<f32>, segment: &SegmentView) -> f32 {
    let all = segment.segment.rows().max(1) as f32;
    rows.map_or(1.0, |rows| rows.len() as f32 / all) * sampled.unwrap_or(1.0)
}

/// Few matching rows are all compared: those the user set (`full_scan_threshold`), and those that no index saves.
fn want_here(
    context: &SearchContext<'_>,
    segment: &SegmentView,
    found: &Explained,
    wanted: usize,
) -> IndexSearchParams {
    let want = IndexSearchParams {
        share: Some(segment.live() as f32 / context.view.points().max(1) as f32),
        ..context.want
    };
    let Some(share) = found.share else {
        return want;
    };
    let matching = (found.rows as f32 * share).ceil() as u64;
    let by_setting = context
        .field
        .settings
        .hnsw
        .full_scan_threshold
        .is_some_and(|kb| context.field.kb(matching) < kb as u64);
    let few = found
        .candidates
        .is_some_and(|named| named <= LISTED_PER_WANTED * wanted as u64);
    IndexSearchParams {
        exact: want.exact || by_setting || few,
        ..want
    }
}

fn note(found: &mut Explained, want: &IndexSearchParams, index: &dyn VectorIndex, stats: &SearchStats) {
    found.strategy = match (index.kind(), found.candidates) {
        _ if stats.listed > 0 && stats.codes_scored > 0 => "listed codes",
        _ if stats.listed > 0 => "listed probe",
        _ if stats.probes > 0 && stats.codes_scored > 0 => "codes",
        _ if stats.probes > 0 => "probe",
        ("sparse", _) if stats.codes_scored > 0 => "lists",
        ("hnsw", _) if !want.exact => "graph",
        (_, Some(candidates)) if stats.rows_scored <= candidates => "listed",
        _ => "all",
    };
    found.probes = stats.probes;
    found.codes_scanned = stats.codes_scored;
    found.survivors = stats.survivors;
    found.extended_scored = stats.extended_scored;
    found.rows_read = stats.rows_read;
    found.rows_scored = stats.rows_scored;
    found.rows_checked = stats.rows_checked;
    found.reads = stats.reads;
    found.pages_read = stats.pages_read;
}
