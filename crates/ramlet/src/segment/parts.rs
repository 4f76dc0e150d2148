//! Multivectors with an index: each part is a row of an index of its own. Its search chooses the rows that are compared whole.
//!
//! A part's number is its place among all parts of the segment, in the order of the rows. A bitmap of every row's first part
//! leads from one to the other: two bytes a row.

use ramlet_index::{
    Allowed, Hit, IndexReport, IndexScratch, IndexSearchParams, MemoryUse, PartUse, Query, RowFilter, RowSet,
    SearchStats, SeedCentroids, TopK, VectorIndex,
};
use ramlet_io::IoContext;
use ramlet_memory::Reservation;
use roaring::RoaringBitmap;

use super::records::{RecordsColumn, rows_of_records};

/// Parts that the index is asked for at first, for each point wanted, at the usual effort.
const PARTS_PER_POINT: usize = 4;
/// The same at least, and at most: those who want more have all rows compared.
const PARTS_MIN: usize = 100;
const PARTS_MAX: usize = 16_384;
/// Parts that it is asked for in the end, at the usual effort, by how much more each time, and as a share of all. (12,000 points of
/// 60,000 parts in 30 topics: 8 parts of as many topics find .07 of the ten nearest by 100 parts and .97 by 3,200, though 600 points
/// are read by the former and 50 by the latter. What the parts found say of a point is nearly all of it then.)
const PARTS_DEEP: usize = 4096;
const PARTS_TIMES: usize = 4;
const PARTS_SHARE: usize = 8;
/// Where each part that is found is asked of a filter.
const PARTS_ASKED: usize = 512;
/// Parts found for all parts of a query, 12 bytes each, and 8 more for each of their points.
const FOUND_MAX: usize = 1 << 14;
/// Points that are read before it is told whether more must be asked for, at least, and for each one wanted; and at once from there on.
const FIRST_MIN: usize = 32;
const FIRST_PER_POINT: usize = 2;
const READ_AT_ONCE: usize = 64;
/// Rows compared whole, at most, as a share of all: from there on reading them in sequence is no slower.
const ROWS_SHARE: usize = 2;
/// The API's `hnsw_ef` that changes nothing.
const EFFORT_USUAL: usize = 128;

/// From parts to rows and back.
pub struct PartMap {
    /// The first part of each row that has the vector.
    starts: RoaringBitmap,
    /// Rows that have the vector; `None`: all.
    present: Option<RoaringBitmap>,
    parts: u32,
    _heap: Reservation,
}

impl PartMap {
    pub fn new(
        starts: RoaringBitmap,
        present: Option<RoaringBitmap>,
        parts: u32,
        heap: Reservation,
    ) -> PartMap {
        PartMap {
            starts,
            present,
            parts,
            _heap: heap,
        }
    }

    fn row_of(&self, part: u32) -> u32 {
        let place = self.starts.rank(part).saturating_sub(1) as u32;
        match &self.present {
            None => place,
            Some(present) => present.select(place).unwrap_or(u32::MAX),
        }
    }

    /// Parts of a row; none if it hasn't the vector.
    fn parts_of(&self, row: u32) -> std::ops::Range<u32> {
        let place = match &self.present {
            None => row,
            Some(present) if !present.contains(row) => return 0..0,
            Some(present) => present.rank(row) as u32 - 1,
        };
        match self.starts.select(place) {
            None => 0..0,
            Some(first) => first..self.starts.select(place + 1).unwrap_or(self.parts),
        }
    }
}

/// Rows that are gone, as parts.
struct GoneParts<'a> {
    rows: &'a dyn RowSet,
    map: &'a PartMap,
}

impl RowSet for GoneParts<'_> {
    fn contains(&self, part: u32) -> bool {
        self.rows.contains(self.map.row_of(part))
    }
    fn len(&self) -> u64 {
        let rows = self.map.starts.len().max(1);
        self.rows.len().min(rows) * u64::from(self.map.parts) / rows
    }
}

/// A filter of rows, asked of parts.
struct PartFilter<'a, 'b> {
    rows: &'a mut (dyn RowFilter + 'b),
    map: &'a PartMap,
}

impl RowFilter for PartFilter<'_, '_> {
    fn admits(&mut self, part: u32, io: &mut IoContext) -> ramlet_index::Result<bool> {
        self.rows.admits(self.map.row_of(part), io)
    }
}

/// Rows of several parts, and an index over the parts.
pub struct PartsColumn {
    records: RecordsColumn,
    parts: Box<dyn VectorIndex>,
    map: PartMap,
}

impl PartsColumn {
    pub fn new(records: RecordsColumn, parts: Box<dyn VectorIndex>, map: PartMap) -> PartsColumn {
        PartsColumn { records, parts, map }
    }

    /// How far a search goes; `None`: all rows are compared.
    fn depth(
        &self,
        query: &Query,
        want: &IndexSearchParams,
        allowed: &Allowed<'_>,
        points: usize,
    ) -> Option<Depth> {
        let effort = want.effort.map_or(EFFORT_USUAL, |effort| effort as usize);
        let scaled = |parts: usize| parts.saturating_mul(effort) / EFFORT_USUAL;
        let parts = scaled(points.saturating_mul(PARTS_PER_POINT).max(PARTS_MIN));
        let rows = match allowed.only {
            Some(only) => only.len().min(u64::from(self.rows())) as usize,
            None => self.rows() as usize,
        };
        let points = parts.saturating_mul(query.parts());
        if want.exact || parts > PARTS_MAX || points > rows / ROWS_SHARE {
            return None;
        }
        let deep = match allowed.filter {
            Some(_) => PARTS_ASKED,
            None => PARTS_DEEP,
        };
        let room = FOUND_MAX / query.parts().max(1);
        let most = scaled(deep).min(self.map.parts as usize / PARTS_SHARE).min(room);
        Some(Depth {
            parts: parts.max(1),
            parts_most: most.max(parts).max(1),
            points_most: points,
        })
    }

    /// The parts nearest to each part of the query, and what they say of their points.
    fn near(
        &self,
        query: &Query,
        (want, parts): (&IndexSearchParams, usize),
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
    ) -> ramlet_index::Result<(NearPoints, SearchStats)> {
        let map = &self.map;
        let gone = allowed.deleted.map(|rows| GoneParts { rows, map });
        let only = allowed.only.map(|rows| {
            let mut only = RoaringBitmap::new();
            for row in rows {
                only.insert_range(map.parts_of(row));
            }
            only
        });
        let mut stats = SearchStats::default();
        let (mut found, mut lasts, mut is_all) = (Vec::new(), Vec::with_capacity(query.parts()), true);
        let mut top = TopK::new(parts);
        let mut one = Query::new(query.metric(), query.element(), &[]);
        // What is found here is read whole: there is no need to know parts' distances better than codes do.
        let mut want = *want;
        want.codes.rescore = want.codes.rescore.or(Some(false));
        for (number, part) in (0..).zip(query.each_part()) {
            one.prepare(query.metric(), query.element(), part);
            top.clear(parts);
            let mut filter = allowed.filter.as_deref_mut().map(|rows| PartFilter { rows, map });
            let mut parts_allowed = Allowed {
                deleted: gone.as_ref().map(|gone| gone as &dyn RowSet),
                only: only.as_ref(),
                filter: filter.as_mut().map(|filter| filter as &mut dyn RowFilter),
                filter_share: allowed.filter_share,
            };
            self.parts
                .search(&one, &want, &mut parts_allowed, scratch, io, &mut top)?;
            stats.add(&scratch.stats);
            is_all &= top.len() < parts;
            let hits = top.sorted();
            lasts.push(hits.last().map_or(0.0, |hit| hit.distance));
            found.extend(hits.iter().map(|hit| Found {
                row: map.row_of(hit.row),
                part: number,
                distance: hit.distance,
            }));
        }
        Ok((NearPoints::new(found, &lasts, is_all), stats))
    }

    /// Compares points whole that weren't yet, `READ_AT_ONCE` at a time and as many as may be, nearest first, while they may be nearer
    /// than what was found.
    fn compare(
        &self,
        (query, near): (&Query, &[(f32, u32)]),
        race: &mut Race<'_>,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
    ) -> ramlet_index::Result<()> {
        let unread = near.iter().filter(|(_, row)| !race.read.contains(*row));
        let mut rest = unread.copied().collect::<Vec<_>>().into_iter().peekable();
        let (mut rows, mut distances) = (RoaringBitmap::new(), TopK::default());
        let mut left = race.points_most.saturating_sub(race.read.len() as usize);
        while let Some((least, _)) = rest.peek().filter(|_| left > 0) {
            if *least > race.limit() {
                return Ok(());
            }
            rows.clear();
            rows.extend(rest.by_ref().take(READ_AT_ONCE.min(left)).map(|(_, row)| row));
            left -= rows.len() as usize;
            // They were asked for already, part by part; who is in the race with its whole row is asked again.
            let mut listed = Allowed {
                deleted: allowed.deleted,
                only: Some(&rows),
                filter: allowed
                    .filter
                    .as_deref_mut()
                    .map(|filter| filter as &mut dyn RowFilter),
                filter_share: allowed.filter_share,
            };
            distances.clear(rows.len() as usize);
            self.records
                .search_listed(query, &mut listed, scratch, io, &mut distances)?;
            race.stats.add(&scratch.stats);
            race.stats.rows_read += rows.len();
            race.read |= &rows;
            for hit in distances.sorted() {
                race.top.push(hit.distance, hit.row);
            }
            race.met(near, distances.sorted());
        }
        Ok(())
    }
}

/// How far a search goes.
struct Depth {
    /// Parts asked of the index for each part of the query, at first and in the end.
    parts: usize,
    parts_most: usize,
    /// Points compared whole.
    points_most: usize,
}

/// A part near to a part of the query.
struct Found {
    row: u32,
    part: u32,
    distance: f32,
}

/// Points of which parts were found.
struct NearPoints {
    /// The least distance that each can have by what was found, and its row; nearest first.
    points: Vec<(f32, u32)>,
    /// The least that a point can have of which nothing was found.
    unseen: f32,
}

impl NearPoints {
    /// A part of the query that didn't find a point is at least as far from it as from the last part that it found. `is_all`: no part of
    /// the query would find more. Fagin, Lotem, Naor, "Optimal aggregation algorithms for middleware" (2001), with bounds for random access.
    fn new(mut found: Vec<Found>, lasts: &[f32], is_all: bool) -> NearPoints {
        let unseen: f32 = lasts.iter().sum();
        found.sort_unstable_by(|a, b| {
            let place = |found: &Found| (found.row, found.part);
            place(a).cmp(&place(b)).then(a.distance.total_cmp(&b.distance))
        });
        found.dedup_by_key(|found| (found.row, found.part));
        let of_row = |found: &[Found]| {
            let nearer = found
                .iter()
                .map(|found| found.distance - lasts[found.part as usize]);
            (unseen + nearer.sum::<f32>(), found[0].row)
        };
        let mut points: Vec<(f32, u32)> = found.chunk_by(|a, b| a.row == b.row).map(of_row).collect();
        points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let unseen = if is_all { f32::INFINITY } else { unseen };
        NearPoints { points, unseen }
    }
}

/// What was compared whole so far.
struct Race<'t> {
    top: &'t mut TopK,
    stats: SearchStats,
    read: RoaringBitmap,
    points_most: usize,
    /// Squares of what points were nearer by than was thought possible, and how many: codes aren't exact.
    nearer: f64,
    nearer_count: u32,
}

impl Race<'_> {
    /// Notes what was thought of these.
    fn met(&mut self, near: &[(f32, u32)], hits: &[Hit]) {
        let mut rows: Vec<(u32, f32)> = hits.iter().map(|hit| (hit.row, hit.distance)).collect();
        rows.sort_unstable_by_key(|(row, _)| *row);
        for (least, row) in near {
            let Ok(at) = rows.binary_search_by_key(row, |(row, _)| *row) else {
                continue;
            };
            let off = f64::from(least - rows[at].1);
            if off > 0.0 {
                self.nearer += off * off;
                self.nearer_count += 1;
            }
        }
    }

    /// A point whose least possible distance is above it isn't among the nearest, but for two deviations of that.
    fn limit(&self) -> f32 {
        let off = (self.nearer / f64::from(self.nearer_count.max(1))).sqrt() as f32;
        self.top.threshold() + 2.0 * off
    }
}

impl VectorIndex for PartsColumn {
    fn search(
        &self,
        query: &Query,
        want: &IndexSearchParams,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        top: &mut TopK,
    ) -> ramlet_index::Result<()> {
        let Some(depth) = self.depth(query, want, allowed, top.k()) else {
            return self.records.search(query, want, allowed, scratch, io, top);
        };
        let first = (top.k() * FIRST_PER_POINT).max(FIRST_MIN);
        let mut race = Race {
            top,
            stats: SearchStats::default(),
            read: RoaringBitmap::new(),
            points_most: depth.points_most,
            nearer: 0.0,
            nearer_count: 0,
        };
        let mut parts = depth.parts;
        loop {
            let (near, stats) = self.near(query, (want, parts), allowed, scratch, io)?;
            race.stats.add(&stats);
            let points = &near.points[..];
            self.compare(
                (query, &points[..first.min(points.len())]),
                &mut race,
                allowed,
                scratch,
                io,
            )?;
            let limit = race.limit();
            let within = points.partition_point(|(least, _)| *least <= limit);
            let is_told = near.unseen > limit && within <= depth.points_most;
            if is_told || parts >= depth.parts_most {
                self.compare((query, points), &mut race, allowed, scratch, io)?;
                scratch.stats = race.stats;
                return Ok(());
            }
            parts = (parts * PARTS_TIMES).min(depth.parts_most);
        }
    }

    fn search_bytes(&self, query: &Query, want: &IndexSearchParams, allowed: &Allowed<'_>, k: usize) -> u64 {
        self.depth(query, want, allowed, k).map_or(0, |depth| {
            // The parts of the rows that a bitmap names are a bitmap too.
            self.parts.search_bytes(query, want, allowed, depth.parts_most)
        })
    }

    rows_of_records!(records);

    fn seeds(&self) -> Option<&dyn SeedCentroids> {
        self.parts.seeds()
    }

    fn memory(&self) -> MemoryUse {
        let (rows, parts) = (self.records.memory(), self.parts.memory());
        MemoryUse {
            heap_bytes: rows.heap_bytes + parts.heap_bytes + self.map._heap.bytes(),
            pinned_bytes: rows.pinned_bytes + parts.pinned_bytes,
            disk_bytes: rows.disk_bytes + parts.disk_bytes,
        }
    }

    fn report(&self) -> IndexReport {
        let rows = self.records.memory();
        let mut report = self.parts.report();
        report.parts.push(PartUse {
            name: "records",
            heap_bytes: rows.heap_bytes + self.map._heap.bytes(),
            pinned_bytes: rows.pinned_bytes,
            disk_bytes: rows.disk_bytes,
        });
        report
    }

    fn kind(&self) -> &'static str {
        "parts"
    }
}
