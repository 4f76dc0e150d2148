//! Candidate rows that may be among the nearest, and the choice of those that are.
//!
//! A row is read where its distance may lie on the other side of the boundary between the last row wanted and the next one:
//! within `reach` deviations of it. The nearest come first, and a few at a time: each moves the k-th distance to where it really is,
//! and others need not be read then. Where the rows of a segment lie the denser the farther away they are, a
//! distance that looks near belongs rather to one of the many farther rows whose error made it look so than to one of the few
//! nearer ones. With `n` of them within a distance, `lambda = d ln(n) / d distance` and normal errors of deviation `s`, that is by
//! `lambda s^2` on average.
//!
//! 1M x 100 (hard), codes of 3 bits, recall@10 with rows read, of .964 with all read: .946 with 16.7 and .958 with 23.7 when
//! all were read at once that lay within bounds of the k-th greatest possible distance; .9505 with 16.8 and .9567 with 20.2 so (replayed on
//! the candidates of 2,000 searches, most uncertain first instead of nearest first).

use ramlet_memory::AnonBuf;

use super::resident::ResidentDistances;
use super::sq8_rows::Sq8Rows;
use crate::TopK;
use crate::error::{IndexError, Result};
use crate::rows::reading::{ALONE_COST, trailing_number};
use crate::rows::rows_file::RowsFile;
use crate::rows::scan::Search;
use crate::vector_index::CodesWanted;

/// Candidates kept until they must be looked through: at least so many, and so many times the rows that are wanted.
pub(super) const CANDIDATES_MIN: usize = 1024;
const CANDIDATES_PER_WANTED: usize = 4;
/// But, unless more rows are wanted, at most so many (2.8 MiB).
const CANDIDATES_MAX: usize = 1 << 16;

/// Rows read at once. The first show where the k-th distance is, and later ones need not be read then. (Replayed on
/// candidates of 2,000 searches, most uncertain first: 8 at once read 2 % fewer, 64 at once 5 % more.)
const BATCH: usize = 16;
/// The same where they are read whatever comes of it, and the most.
const BATCH_FORCED: usize = 64;
/// Deviations from the k-th distance within which a row is looked at whose distance can be had without reading.
const HELD_REACH: f32 = 2.5;
/// The same of what hits are compared with by their scores: about one in 16,000 errors is larger.
const THRESHOLD_REACH: f32 = 4.0;
/// Each batch waits for the disk: where more than this many would be needed, they are larger. From [`ALONE_LEAST`] rows on the next one is as
/// large as all before: of rows that are all but equal thousands are to be rescored, and those of one block are read at once then.
const BATCHES_MOST: usize = 4;

/// From so many rows looked at alone on a search may be one whose codes tell nothing.
const ALONE_LEAST: u64 = 256;

/// What is taken of `lambda s^2`, and at most of `s`. Half did best: a distance that is too high costs a neighbour, one that is
/// too low a read.
const CORRECTION: f32 = 0.5;
const CORRECTION_MOST: f32 = 0.6;
/// `lambda` is told by the row wanted last and the one of so many times its rank.
const CORRECTION_RANKS: usize = 4;

/// Of how many of the first rows what is in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Known {
    /// Codes that leave hardly anything over.
    pub(super) resident: u32,
    /// The rows.
    pub(super) rows: u32,
}

/// A row whose distance lies within `error` of `distance`, all but certainly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) distance: f32,
    pub(super) error: f32,
    /// Of the distance; 0 once the row has been read.
    pub(super) deviation: f32,
    /// Within this of the k-th distance it is read.
    pub(super) reach: f32,
    pub(super) position: u32,
    pub(super) number: u32,
    /// Whether this is by its SQ8 row.
    pub(super) is_sq8: bool,
}

impl Candidate {
    fn lower(&self) -> f32 {
        self.distance - self.error
    }

    fn upper(&self) -> f32 {
        self.distance + self.error
    }

    /// The same, but a sum that overflowed says nothing about the row.
    fn sound(self) -> Candidate {
        if self.distance.is_finite() && self.error.is_finite() {
            return self;
        }
        Candidate {
            distance: f32::MAX,
            error: f32::INFINITY,
            deviation: f32::INFINITY,
            reach: f32::INFINITY,
            ..self
        }
    }

    fn known(&mut self, distance: f32) {
        (self.distance, self.error, self.deviation, self.reach) = (distance, 0.0, 0.0, 0.0);
    }
}

fn nearest_first(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    a.distance.total_cmp(&b.distance).then(a.number.cmp(&b.number))
}

/// The candidates of a search.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    list: Vec<Candidate>,
    /// The first so many have been asked the filter about.
    admitted: usize,
    /// The smallest of their greatest possible distances: as many rows as are wanted lie within.
    uppers: TopK,
    /// Whether a filter must be asked, before which no row may be dropped on another's account.
    filtered: bool,
    /// Whether what was found elsewhere doesn't count yet.
    alone: bool,
    /// Rows to choose the nearest from.
    oversampled: usize,
    room: usize,
    /// The first rows so many that are known without reading: their distances as good as exact, or the rows themselves.
    known: Known,
    /// Whether distances are corrected.
    corrected: bool,
    /// Rows that were read alone.
    alone_read: u64,
    /// Working lists of `settle`.
    distances: Vec<f32>,
    rescored: Vec<(f32, u32)>,
    positions: Vec<u32>,
}

/// Candidates that are kept of so many wanted, until they must be looked through.
pub(super) fn room_for(oversampled: usize) -> usize {
    let room = oversampled.saturating_mul(CANDIDATES_PER_WANTED);
    room.clamp(CANDIDATES_MIN, CANDIDATES_MAX).max(oversampled)
}

impl Candidates {
    /// Bytes a candidate, in the list and in the working lists of `settle`.
    const BYTES: usize =
        size_of::<Candidate>() + size_of::<f32>() + size_of::<(f32, u32)>() + size_of::<u32>();

    /// Bytes where so many rows are wanted, beyond what stays for the next search.
    pub(super) fn bytes_for(oversampled: usize) -> u64 {
        match room_for(oversampled) {
            CANDIDATES_MIN => 0,
            room => {
                // `distances` has room for both.
                let distances = oversampled * size_of::<f32>();
                (room * Candidates::BYTES + distances + TopK::bytes_for(oversampled)) as u64
            }
        }
    }

    /// Gives back what a search for many rows needed.
    pub(super) fn trim(&mut self) {
        if self.room > CANDIDATES_MIN {
            *self = Candidates::default();
        }
    }

    /// `oversampled` rows will be chosen from; `more` may be added between two looks at [`Candidates::is_full`].
    pub(super) fn start(&mut self, oversampled: usize, filtered: bool, more: usize, known: Known) {
        self.list.clear();
        self.uppers.clear(oversampled);
        (self.known, self.corrected, self.alone_read) = (known, false, 0);
        (self.filtered, self.admitted, self.oversampled) = (filtered, 0, oversampled);
        self.alone = false;
        self.room = room_for(oversampled);
        self.list.reserve_exact(self.room + more);
        self.positions.clear();
        self.positions.reserve_exact(self.room + more);
        self.distances.clear();
        self.distances.reserve_exact(self.room + more + oversampled);
        self.rescored.clear();
        self.rescored.reserve_exact(self.room + more);
    }

    /// Whether it would have cost less to read the `scanned` rows as they lie than those alone that their codes left to be rescored: rows that
    /// are all but equal, or some that are so beside others far away. What comes then is read as it lies. (60,000 x 100, nine tenths
    /// within a thousandth of one point, 32 MB: 45,600 single reads and 2.4 s, where an exact search took 70 ms.)
    pub(super) fn tell_nothing(&self, scanned: u64, rows: &RowsFile) -> bool {
        let pages = || scanned * rows.data_pages() / u64::from(rows.rows().max(1));
        self.alone_read >= ALONE_LEAST && self.alone_read * ALONE_COST > pages()
    }

    /// Until [`Candidates::kth_distance`], the nearest so many are kept here, whatever was found elsewhere. Nothing was pushed yet.
    pub(super) fn keep(&mut self, rows: usize) {
        self.alone = true;
        self.uppers.clear(self.oversampled.max(rows));
    }

    /// The distance of the last of so many rows that lie nearest; `None`: there aren't that many.
    pub(super) fn kth_distance(&mut self, rows: usize) -> Option<f32> {
        self.alone = false;
        self.begin_uppers_again();
        self.distances.clear();
        self.distances
            .extend(self.list.iter().map(|candidate| candidate.distance));
        let last = rows.checked_sub(1).filter(|last| *last < self.distances.len())?;
        let (_, distance, _) = self.distances.select_nth_unstable_by(last, f32::total_cmp);
        Some(*distance)
    }

    /// A distance above this can't be among the nearest.
    #[inline]
    pub(super) fn limit(&self, top: &TopK) -> f32 {
        let here = self.uppers.threshold();
        if self.alone {
            here
        } else {
            here.min(top.threshold())
        }
    }

    #[inline]
    pub(super) fn push(&mut self, candidate: Candidate) {
        let candidate = candidate.sound();
        self.list.push(candidate);
        if !self.filtered {
            self.uppers.push(candidate.upper(), candidate.position);
        }
    }

    /// Rows known to be allowed.
    pub(super) fn found(&self) -> usize {
        if self.filtered {
            self.admitted
        } else {
            self.list.len()
        }
    }

    /// Whether too many are left even when those that later ones have ruled out are gone.
    pub(super) fn is_full(&mut self, top: &TopK) -> bool {
        if self.list.len() < self.room {
            return false;
        }
        self.prune(top);
        self.list.len() > self.room / 2
    }

    fn prune(&mut self, top: &TopK) {
        let limit = self.limit(top);
        let mut kept = 0;
        for i in 0..self.list.len() {
            if i == self.admitted {
                self.admitted = kept;
            }
            if self.list[i].lower() <= limit {
                self.list[kept] = self.list[i];
                kept += 1;
            }
        }
        self.admitted = self.admitted.min(kept);
        self.list.truncate(kept);
    }

    /// Asks the filter about those that nobody asked about, the nearest first, until no other can be among the nearest.
    pub(super) fn ask(&mut self, search: &mut Search<'_, '_>) -> Result<()> {
        if !self.filtered {
            return Ok(());
        }
        self.list[self.admitted..].sort_unstable_by(nearest_first);
        for i in self.admitted..self.list.len() {
            let candidate = self.list[i];
            if candidate.lower() > self.limit(search.top) {
                continue;
            }
            search.stats.rows_checked += 1;
            if search.allowed.admits(candidate.number, search.io)? {
                search.stats.rows_admitted += 1;
                search.rounds.admitted(candidate.distance, candidate.number);
                self.list[self.admitted] = candidate;
                self.admitted += 1;
                self.uppers.push(candidate.upper(), candidate.position);
            }
        }
        self.list.truncate(self.admitted);
        Ok(())
    }

    /// Offers the nearest to `search.top`, after reading those of which the bounds can't tell.
    pub(super) fn settle(
        &mut self,
        search: &mut Search<'_, '_>,
        rows: &RowsFile,
        codes: &CodesWanted,
        resident: &mut ResidentDistances<'_>,
        reads: &mut Vec<(u64, u32)>,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        self.prune(search.top);
        if !self.filtered {
            search.stats.rows_checked += self.list.len() as u64;
        }
        self.narrow(search, rows, codes, resident, reads, buf)?;
        for candidate in &self.list {
            if search.top.would_enter(candidate.distance, candidate.number) {
                search.top.push(candidate.distance, candidate.number);
            }
        }
        Ok(())
    }

    /// Reads rows until it is clear which are the nearest, and drops the others. All have been asked the filter about.
    pub(super) fn narrow(
        &mut self,
        search: &mut Search<'_, '_>,
        rows: &RowsFile,
        codes: &CodesWanted,
        resident: &mut ResidentDistances<'_>,
        reads: &mut Vec<(u64, u32)>,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        reads.clear();
        reads.reserve(rows.blocks_in(buf)? as usize);
        self.list.sort_unstable_by(nearest_first);
        self.correct(search.top.k());
        // The candidates are read whole if one was asked for.
        let asked = codes.rescore == Some(true) || codes.oversampling.is_some();
        let whole = codes.rescore == Some(true) || codes.rescore.is_none() && resident.reads_hits();
        let mut forced = if asked || whole { self.oversampled } else { 0 };
        if asked {
            self.known.resident = 0;
        }
        while codes.rescore != Some(false) {
            match forced {
                0 => self.choose_rescored(search.top),
                _ => self.choose_nearest(forced.min(BATCH_FORCED.max(search.top.k()))),
            }
            if self.positions.is_empty() && forced == 0 {
                break;
            }
            forced = match self.positions.is_empty() {
                true => 0,
                false => forced.saturating_sub(self.positions.len()),
            };
            self.look(search, resident);
            if !asked {
                self.read_sq8(search, resident, reads, buf)?;
            }
            self.read(search, rows, reads, buf)?;
        }
        self.list.truncate(self.oversampled);
        self.admitted = self.admitted.min(self.list.len());
        // What is surely among the nearest has a better score for little.
        self.choose_nearest(self.oversampled);
        self.look(search, resident);
        // By the codes beside SQ8 rows scores would be far off.
        if codes.rescore.is_none() {
            self.read_sq8(search, resident, reads, buf)?;
        }
        // Where all scores were asked for, so have those that moved up as rows before them proved to be farther.
        if !whole {
            self.keep_needed(codes.threshold);
        }
        if codes.rescore != Some(false) {
            self.read(search, rows, reads, buf)?;
        }
        self.begin_uppers_again();
        Ok(())
    }

    /// Greatest possible distances of what is left: some that were read lie beyond what was thought possible, and what rules out others
    /// must not rule out these, or fewer would be found than there are.
    fn begin_uppers_again(&mut self) {
        self.uppers.clear(self.oversampled);
        for candidate in &self.list {
            self.uppers.push(candidate.upper(), candidate.position);
        }
    }

    /// Of the positions of hits keeps those whose rows are in memory, or that may lie on the other side of a threshold.
    fn keep_needed(&mut self, threshold: Option<f32>) {
        let here = self.known.rows;
        let threshold = threshold.filter(|threshold| !threshold.is_nan());
        let Some(threshold) = threshold else {
            self.positions.retain(|position| *position < here);
            return;
        };
        let is_rescored = |candidate: &&Candidate| {
            let off = (candidate.distance - threshold).abs();
            candidate.deviation > 0.0
                && (candidate.position < here || off <= THRESHOLD_REACH * candidate.deviation)
        };
        self.positions.clear();
        let needed = self.list.iter().filter(is_rescored);
        self.positions.extend(needed.map(|candidate| candidate.position));
        self.positions.sort_unstable();
    }

    /// Takes from the positions to read those of which the distances are known otherwise; the list is in order again.
    fn look(&mut self, search: &Search<'_, '_>, resident: &mut ResidentDistances<'_>) {
        let Known {
            resident: first,
            rows,
        } = self.known;
        if first <= rows || self.positions.is_empty() {
            return;
        }
        self.list.sort_unstable_by_key(|candidate| candidate.position);
        let (list, mut at) = (&mut self.list, 0);
        let (mut blurred, mut last) = (0, (0, 0.0));
        self.positions.retain(|position| {
            while list[at].position < *position {
                at += 1;
            }
            let distance = match (rows..first).contains(position) {
                true => resident.distance(*position),
                false => None,
            };
            match distance {
                Some((distance, true)) => list[at].known(distance),
                Some((distance, false)) => (blurred, last) = (blurred + 1, (at, distance)),
                None => {}
            }
            !matches!(distance, Some((_, true)))
        });
        // One alone, as a row that is searched for by itself, is the nearest for certain.
        if blurred == 1 {
            let (at, distance) = last;
            list[at].known(search.query.metric().possible(distance));
            self.positions.retain(|position| *position != list[at].position);
        }
        self.list.sort_unstable_by(nearest_first);
    }

    /// Moves distances to where they lie on average, given how dense rows are around the `k`-th of the list, which is in order.
    fn correct(&mut self, k: usize) {
        let last = (k * CORRECTION_RANKS).min(self.list.len());
        // Once a search: what is left of rows that were looked through before is corrected already.
        if std::mem::replace(&mut self.corrected, true) || k == 0 || last <= k + 1 {
            return;
        }
        let apart = self.list[last - 1].distance - self.list[k - 1].distance;
        let lambda = (last as f32 / k as f32).ln() / apart;
        if !(lambda.is_finite() && lambda > 0.0) {
            return;
        }
        for candidate in &mut self.list {
            let deviation = candidate.deviation;
            let correction = (CORRECTION * lambda * deviation * deviation).min(CORRECTION_MOST * deviation);
            if correction.is_finite() {
                candidate.distance += correction;
            }
        }
        self.list.sort_unstable_by(nearest_first);
    }

    /// The positions to read next, ascending: at most a batch of those whose distances may lie on the other side of the k-th distance.
    fn choose_rescored(&mut self, top: &mut TopK) {
        self.positions.clear();
        let k = top.k();
        let cheap_end = self.known.resident.max(self.known.rows);
        self.distances.clear();
        self.distances
            .extend(self.list.iter().map(|candidate| candidate.distance));
        self.distances.extend(top.sorted().iter().map(|hit| hit.distance));
        if k == 0 || self.distances.len() <= k {
            return;
        }
        let (nearer, next, _) = self.distances.select_nth_unstable_by(k, f32::total_cmp);
        let last = nearer.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let kth_distance = last / 2.0 + *next / 2.0;
        self.rescored.clear();
        for candidate in &self.list {
            let cheap = if candidate.position < cheap_end {
                HELD_REACH
            } else {
                0.0
            };
            let reach = candidate.reach.max(cheap * candidate.deviation);
            let beyond = (candidate.distance - kth_distance) / reach;
            // Of what isn't a number, nothing is known.
            let is_beyond = beyond.abs() > 1.0;
            if candidate.deviation > 0.0 && !is_beyond {
                self.rescored.push((beyond, candidate.position));
            }
        }
        let batch = match self.alone_read < ALONE_LEAST {
            true => (self.rescored.len() / BATCHES_MOST).clamp(BATCH, BATCH_FORCED),
            false => self.alone_read as usize,
        };
        let batch = batch.max(k);
        if self.rescored.len() > batch {
            self.rescored
                .select_nth_unstable_by(batch, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            self.rescored.truncate(batch);
        }
        self.positions
            .extend(self.rescored.iter().map(|(_, position)| *position));
        self.positions.sort_unstable();
    }

    /// The positions of the nearest rows that haven't been read, ascending.
    fn choose_nearest(&mut self, count: usize) {
        self.positions.clear();
        let unread = self.list.iter().filter(|candidate| candidate.deviation > 0.0);
        self.positions
            .extend(unread.take(count).map(|candidate| candidate.position));
        self.positions.sort_unstable();
    }

    /// Takes from the positions to read those that weren't looked at in SQ8 rows yet, and looks at them there, and at what else of the list lies
    /// in the same blocks; the list is in order again.
    fn read_sq8(
        &mut self,
        search: &mut Search<'_, '_>,
        resident: &mut ResidentDistances<'_>,
        reads: &mut Vec<(u64, u32)>,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let Some(sq8) = resident.sq8 else {
            return Ok(());
        };
        let (list, positions) = (&mut self.list, &mut self.positions);
        if positions.is_empty() {
            return Ok(());
        }
        let file = &sq8.file;
        list.sort_unstable_by_key(|candidate| candidate.position);
        let is_new = |position: &u32| {
            let at = list.binary_search_by_key(position, |candidate| candidate.position);
            at.is_ok_and(|at| !list[at].is_sq8)
        };
        // Those to be looked at stand first from here on.
        let mut seen = 0;
        for i in 0..positions.len() {
            if is_new(&positions[i]) {
                positions.swap(i, seen);
                seen += 1;
            }
        }
        positions[..seen].sort_unstable();
        search.stats.rows_read += seen as u64;
        self.alone_read += seen as u64;
        let (mut rest, mut at, stride) = (&positions[..seen], 0, file.stride());
        while !rest.is_empty() {
            let (_, later, bytes) = search.read_some(file, rest, reads, buf)?;
            for ((page, _), block) in reads.iter().zip(bytes.chunks_exact(file.block_bytes())) {
                let first = file.block_of_page(*page) * file.rows_per_block();
                let end = first + file.rows_per_block();
                at += list[at..].partition_point(|candidate| candidate.position < first);
                let here = list[at..].partition_point(|candidate| candidate.position < end);
                for candidate in list[at..at + here].iter_mut() {
                    if candidate.is_sq8 || candidate.deviation == 0.0 {
                        continue;
                    }
                    let from = (candidate.position - first) as usize * stride;
                    look_at(search, resident, (sq8, &block[from..][..stride]), candidate)?;
                }
                at += here;
            }
            rest = later;
        }
        positions.drain(..seen);
        positions.sort_unstable();
        list.sort_unstable_by(nearest_first);
        Ok(())
    }

    /// Reads the rows at `positions`; their distances are then known, and the list is in order again.
    fn read(
        &mut self,
        search: &mut Search<'_, '_>,
        rows: &RowsFile,
        reads: &mut Vec<(u64, u32)>,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let (list, positions) = (&mut self.list, &self.positions);
        if positions.is_empty() {
            return Ok(());
        }
        list.sort_unstable_by_key(|candidate| candidate.position);
        let mut at = 0;
        search.stats.rows_read += positions.len() as u64;
        self.alone_read += positions.len() as u64;
        search.read_distances(rows, positions, reads, buf, |position, distance, row| {
            while list[at].position < position {
                at += 1;
            }
            if trailing_number(row)? != list[at].number {
                let detail = format!("position {position} has another row than its code says");
                return Err(IndexError::Mismatch(detail));
            }
            let distance = if distance.is_nan() {
                f32::INFINITY
            } else {
                distance
            };
            list[at].known(distance);
            Ok(())
        })?;
        list.sort_unstable_by(nearest_first);
        Ok(())
    }
}

/// What the SQ8 row of a candidate tells of it.
fn look_at(
    search: &mut Search<'_, '_>,
    resident: &mut ResidentDistances<'_>,
    (sq8, row): (&Sq8Rows, &[u8]),
    candidate: &mut Candidate,
) -> Result<()> {
    let (metric, number) = (search.query.metric(), candidate.number);
    let mut same = true;
    search.stats.rows_scored += 1;
    resident.sq8_distances(
        sq8,
        row,
        candidate.position,
        |position, row, distance, deviation| {
            same = row.number == number;
            *candidate = Candidate::sq8((metric.possible(distance), deviation), position, number).sound();
        },
    );
    match same {
        true => Ok(()),
        false => {
            let position = candidate.position;
            let detail = format!("SQ8 row {position} is of another row than its code says");
            Err(IndexError::Mismatch(detail))
        }
    }
}
