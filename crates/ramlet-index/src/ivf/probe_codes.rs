//! Searches 1-bit and extended codes cluster by cluster.
//!
//! Signs that have no room in RAM are read, of up to 64 groups at once: a million rows of 768 dimensions have five pages of them a cluster, where the
//! rows take 94.

use std::ops::Range;

use ramlet_kernels::{FAST_SCAN_GROUPS, Kept, Kernels};
use ramlet_memory::AnonBuf;

use super::candidates::{Candidate, Candidates, Known};
use super::codes::{CodeLists, Codes, MissingGroup, Survivor, Views};
use super::inverted_file::Ivf;
use super::lists::Lists;
use super::meta::Meta;
use super::resident::{ResidentCodes, ResidentDistances};
use super::visit_order::put_in_order;
use crate::error::Result;
use crate::quant::{ExtendedLayout, GROUP, ResidualQuery, groups, lanes};
use crate::rows::rows_file::RowsFile;
use crate::rows::scan::Search;
use crate::vector_index::{Effort, IndexSearchParams};

/// Groups scanned between two looks at how many candidates there are.
pub(super) const GROUPS: u32 = 64;

/// Groups that are fetched before they are scanned. Clusters lie anywhere in memory and are short: the processor's own
/// guesses don't reach from one to the next.
const AHEAD: usize = 10;

/// Clusters whose places are fetched before those of their groups are needed.
const PLACES_AHEAD: usize = 3;

/// Groups that aren't in memory from which on they are read before more clusters are visited (12 KiB of lists).
pub(super) const MISSING_MOST: usize = 1024;

/// Extended codes compared by one call of the kernels.
const AT_ONCE: usize = 8;

/// Has groups fetched in the order in which they will be scanned.
struct Ahead<'a> {
    meta: &'a Meta,
    /// Those not yet fetched, in the order of the visit.
    clusters: &'a [u64],
    /// What is left of the cluster before them.
    groups: Range<u32>,
}

impl<'a> Ahead<'a> {
    fn new(meta: &'a Meta, clusters: &'a [u64], views: &Views<'_>) -> Ahead<'a> {
        let near = clusters.iter().take(PLACES_AHEAD);
        near.for_each(|cluster| meta.fetch(*cluster as u32));
        let mut ahead = Ahead {
            meta,
            clusters,
            groups: 0..0,
        };
        (0..AHEAD).for_each(|_| Kernels::prefetch_far(ahead.next(views)));
        ahead
    }

    /// One group more; what of it is to be fetched.
    #[inline]
    fn next<'v>(&mut self, views: &'v Views<'_>) -> &'v [u8] {
        while self.groups.is_empty() {
            let Some((cluster, further)) = self.clusters.split_first() else {
                return &[];
            };
            if let Some(cluster) = self.clusters.get(PLACES_AHEAD) {
                self.meta.fetch(*cluster as u32);
            }
            self.clusters = further;
            self.groups = groups(&self.meta.positions(*cluster as u32));
        }
        let group = views.groups.row(self.groups.start);
        self.groups.start += 1;
        // Few rows' numbers are looked at.
        group.map_or(&[], |group| views.codes.layout.scanned(group))
    }
}

impl Views<'_> {
    /// The first rows so many of which all codes are there.
    fn resident(&self) -> u32 {
        self.resident.as_ref().map_or(0, ResidentCodes::count)
    }

    fn candidates<'l>(
        &'l self,
        lists: &'l mut CodeLists,
        ivf: &'l Ivf,
    ) -> (&'l mut Candidates, ResidentDistances<'l>) {
        let CodeLists {
            query,
            candidates,
            resident,
            ..
        } = lists;
        let codes = self.resident.as_ref();
        let resident =
            ResidentDistances::new(codes, &ivf.meta, self.codes.space, query, self.kernels, resident);
        let resident = resident
            .with_sq8(ivf.sq8_beside_signs())
            .with_rough(self.codes.are_rough());
        (candidates, resident)
    }

    /// Whether the groups of these positions are in memory.
    fn has(&self, wanted: &Range<u32>) -> bool {
        let Range { start, end } = groups(wanted);
        self.groups.run(start, end - start).is_some()
    }

    /// Scans the codes at consecutive positions, `GROUPS` groups at most; false if they are not in memory.
    fn scan(
        &self,
        search: &mut Search<'_, '_>,
        lists: &mut CodeLists,
        wanted: &Range<u32>,
        of: usize,
        ahead: &mut Ahead<'_>,
    ) -> bool {
        let Range { start: first, end } = groups(wanted);
        let Some(bytes) = self.groups.run(first, end - first) else {
            (first..end).for_each(|_| Kernels::prefetch_far(ahead.next(self)));
            return false;
        };
        let CodeLists {
            entered,
            scanned,
            fast_scanned,
            candidates,
            ..
        } = lists;
        let stride = self.codes.layout.row_bytes();
        search.stats.codes_scored += u64::from(wanted.end - wanted.start);
        let limit = candidates.limit(search.top).max(search.rounds.limit());
        let runs = bytes.chunks(stride * FAST_SCAN_GROUPS);
        for (bytes, first) in runs.zip((first..).step_by(FAST_SCAN_GROUPS)) {
            let mut fetched: [&[u8]; FAST_SCAN_GROUPS] = [&[]; FAST_SCAN_GROUPS];
            let fetched = &mut fetched[..bytes.len() / stride];
            fetched.iter_mut().for_each(|group| *group = ahead.next(self));
            entered[of].fast_scan(self.kernels, (bytes, stride), limit, fetched, fast_scanned);
            for kept in fast_scanned.iter() {
                let position = first * GROUP as u32 + kept.place;
                // The first group and the last may be shared with other clusters.
                if wanted.contains(&position) {
                    self.survive(search, &kept, position, scanned);
                }
            }
        }
        true
    }

    /// Keeps a row that signs don't rule out, and has fetched what will be looked at next.
    #[inline]
    fn survive(&self, search: &Search<'_, '_>, kept: &Kept, position: u32, scanned: &mut Vec<Survivor>) {
        // Deleted rows are few; they are dropped later.
        let only = search.allowed.only;
        if only.is_some_and(|only| !only.contains(self.number(position))) {
            return;
        }
        scanned.push(self.survivor(kept, position));
    }

    /// Scans the wanted rows of a group that was read.
    fn scan_read(
        &self,
        search: &mut Search<'_, '_>,
        lists: &mut CodeLists,
        (missing, bytes): (&MissingGroup, &[u8]),
        of: usize,
    ) {
        let CodeLists {
            entered,
            scanned,
            fast_scanned,
            candidates,
            ..
        } = lists;
        let layout = &self.codes.layout;
        let limit = candidates.limit(search.top).max(search.rounds.limit());
        search.stats.codes_scored += u64::from(missing.lanes.count_ones());
        entered[of].fast_scan(
            self.kernels,
            (bytes, layout.row_bytes()),
            limit,
            &[],
            fast_scanned,
        );
        for kept in fast_scanned
            .iter()
            .filter(|kept| missing.lanes >> kept.place & 1 == 1)
        {
            let number = layout.number(bytes, kept.place as usize);
            if search.allowed.only.is_some_and(|only| !only.contains(number)) {
                continue;
            }
            let position = missing.group * GROUP as u32 + kept.place;
            scanned.push(self.survivor_of(&kept, position, Some(number)));
        }
    }

    /// What a scan says of a row; what will be looked at next is fetched.
    #[inline]
    pub(super) fn survivor(&self, kept: &Kept, position: u32) -> Survivor {
        let (layout, lane) = (&self.codes.layout, position as usize % GROUP);
        Kernels::prefetch(layout.number_bytes(self.group_of(position), lane));
        self.survivor_of(kept, position, None)
    }

    #[inline]
    fn survivor_of(&self, kept: &Kept, position: u32, number: Option<u32>) -> Survivor {
        if let Some(row) = self.extended.as_ref().and_then(|(_, rows)| rows.row(position)) {
            Kernels::prefetch(row);
        }
        Survivor {
            position,
            number,
            sum: kept.sum,
            add: kept.add,
            distance: kept.distance,
            lower: kept.lower,
        }
    }

    /// The group of a row that was scanned.
    #[inline]
    fn group_of(&self, position: u32) -> &[u8] {
        match self.groups.row(position / GROUP as u32) {
            Some(group) => group,
            None => panic!("the group of position {position} was there"),
        }
    }

    #[inline]
    fn number(&self, position: u32) -> u32 {
        let layout = &self.codes.layout;
        layout.number(self.group_of(position), position as usize % GROUP)
    }

    /// Looks at the extended codes of the rows that the last scan found.
    pub(super) fn evaluate(&self, search: &mut Search<'_, '_>, lists: &mut CodeLists) {
        let CodeLists {
            entered,
            pending,
            pending_of,
            candidates,
            ..
        } = lists;
        search.stats.survivors += pending.len() as u64;
        let entered = &entered[*pending_of];
        let mut rest = &pending[..];
        while !rest.is_empty() {
            let mut rows: [&[u8]; AT_ONCE] = [&[]; AT_ONCE];
            let mut survivors = [rest[0]; AT_ONCE];
            let mut count = 0;
            let limit = candidates.limit(search.top).max(search.rounds.limit());
            let mut seen = 0;
            for survivor in rest {
                seen += 1;
                if survivor.lower > limit {
                    continue;
                }
                match self
                    .extended
                    .as_ref()
                    .and_then(|(_, rows)| rows.row(survivor.position))
                {
                    None => self.offer(
                        search,
                        candidates,
                        survivor,
                        (survivor.distance, survivor.distance - survivor.lower),
                        (self.epsilon.scanned, self.reach.scanned),
                    ),
                    Some(row) => {
                        (rows[count], survivors[count]) = (row, *survivor);
                        count += 1;
                        if count == AT_ONCE {
                            break;
                        }
                    }
                }
            }
            rest = &rest[seen..];
            if let Some((layout, _)) = &self.extended {
                self.refine(search, candidates, entered, layout, &rows[..count], &survivors);
            }
        }
        pending.clear();
    }

    fn refine(
        &self,
        search: &mut Search<'_, '_>,
        candidates: &mut Candidates,
        entered: &ResidualQuery,
        layout: &ExtendedLayout,
        rows: &[&[u8]],
        survivors: &[Survivor],
    ) {
        let mut planes: [&[u8]; AT_ONCE] = [&[]; AT_ONCE];
        let mut products = [0; AT_ONCE];
        let (planes, products) = (&mut planes[..rows.len()], &mut products[..rows.len()]);
        for (planes, row) in planes.iter_mut().zip(rows) {
            *planes = &row[..layout.code_bytes()];
        }
        let count = layout.planes() as u32;
        self.kernels
            .planes_dot_many(entered.rounded(), layout.dims, count, planes, products);
        search.stats.extended_scored += rows.len() as u64;
        for ((row, survivor), product) in rows.iter().zip(survivors).zip(&*products) {
            let (distance, error) = entered.extended(layout, survivor.sum, survivor.add, row, *product);
            let (epsilon, reach) = (self.epsilon.extended, self.reach.extended);
            self.offer(search, candidates, survivor, (distance, error), (epsilon, reach));
        }
    }

    /// Keeps a row whose distance is known so far, if it may still be among the nearest. The error is `epsilon` deviations, and
    /// it is read within `reach` of them.
    #[inline]
    fn offer(
        &self,
        search: &mut Search<'_, '_>,
        candidates: &mut Candidates,
        survivor: &Survivor,
        (distance, error): (f32, f32),
        (epsilon, reach): (f32, f32),
    ) {
        let distance = search.query.metric().possible(distance);
        let (lower, limit) = (distance - error, candidates.limit(search.top));
        if lower > limit.max(search.rounds.limit()) {
            return;
        }
        let number = survivor.number.unwrap_or_else(|| self.number(survivor.position));
        if !search.allowed.admits_by_bitmaps(number) {
            search.rounds.refused(distance, number);
            return;
        }
        search.rounds.met(distance, number);
        if lower > limit {
            return;
        }
        candidates.push(Candidate {
            distance,
            error,
            deviation: error / epsilon,
            reach: error / epsilon * reach,
            position: survivor.position,
            number,
            is_sq8: false,
        });
    }
}

fn candidates_of(lists: &mut Lists) -> &mut Candidates {
    &mut lists.codes.candidates
}

impl Ivf {
    /// Visits the nearest clusters, and further ones while fewer rows are found than wanted, or a filter may admit nearer
    /// ones: all rows there, or those that the bitmap names.
    pub(super) fn probe_codes(
        &self,
        codes: &Codes,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        (effort, row_bitmap): (&Effort, bool),
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        self.rank_for(search, want, effort.probes, lists);
        let views = codes.views(search.query.kernels(), effort);
        let oversampled = self.oversampled(search.top.k(), want);
        let per_scan = GROUPS as usize * GROUP;
        let code_lists = &mut lists.codes;
        code_lists.scanned.clear();
        code_lists.pending.clear();
        code_lists.missing.clear();
        if codes.file.is_some() {
            code_lists.missing.reserve_exact(MISSING_MOST);
            code_lists.groups.reserve_exact(GROUPS as usize);
        }
        code_lists.scanned.reserve(per_scan);
        code_lists.pending.reserve(per_scan);
        let filtered = search.allowed.filter.is_some();
        let known = Known {
            resident: views.resident(),
            rows: self.rows.resident(),
        };
        code_lists
            .candidates
            .start(oversampled, filtered, per_scan, known);
        let (mut visited, mut begun) = (0, None);
        loop {
            let found = search.top.len() + lists.codes.candidates.found();
            let known = (&mut *lists, candidates_of as fn(&mut Lists) -> &mut Candidates);
            let Some(next) = self.further_clusters(search, want, (visited, found), &mut begun, known) else {
                break;
            };
            let sorted = visited + next;
            put_in_order(&mut lists.clusters[visited..sorted], visited);
            let clusters = std::mem::take(&mut lists.clusters);
            let next = &clusters[visited..sorted];
            let done = match row_bitmap {
                true => self.visit_bitmap(&views, search, want, next, lists, buf),
                false => self.visit_all(&views, search, want, next, lists, buf),
            };
            lists.clusters = clusters;
            done?;
            self.visit_missing_codes(&views, search, want, lists, buf)?;
            visited = sorted;
            search.stats.probes = visited as u64;
            views.evaluate(search, &mut lists.codes);
            lists.codes.candidates.ask(search)?;
        }
        let Lists { reads, codes, .. } = lists;
        let (candidates, mut resident) = views.candidates(codes, self);
        candidates.settle(search, &self.rows, &want.codes, &mut resident, reads, buf)
    }

    /// Visits clusters in this order.
    fn visit_all(
        &self,
        views: &Views<'_>,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        clusters: &[u64],
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let mut ahead = Ahead::new(&self.meta, clusters, views);
        for cluster in clusters {
            self.visit_codes(views, search, want, (*cluster as u32, &mut ahead), lists, buf)?;
        }
        Ok(())
    }

    fn visit_codes(
        &self,
        views: &Views<'_>,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        (cluster, ahead): (u32, &mut Ahead<'_>),
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let mut rest = self.meta.positions(cluster);
        if rest.is_empty() {
            return Ok(());
        }
        let codes = &mut lists.codes;
        let told = !codes
            .candidates
            .tell_nothing(search.stats.codes_scored, &self.rows);
        if told && views.codes.file.is_some() && !views.has(&rest) {
            for group in groups(&rest) {
                Kernels::prefetch_far(ahead.next(views));
                lists.codes.missing.push(MissingGroup {
                    group,
                    cluster,
                    lanes: lanes(group * GROUP as u32, &rest),
                });
                if lists.codes.missing.len() == MISSING_MOST {
                    self.visit_missing_codes(views, search, want, lists, buf)?;
                }
            }
            return Ok(());
        }
        let of = self.enter_codes(views, cluster, codes);
        while !rest.is_empty() {
            let end = (rest.start / GROUP as u32 + GROUPS)
                .saturating_mul(GROUP as u32)
                .min(rest.end);
            let now = rest.start..end;
            let candidates = &lists.codes.candidates;
            let told = !candidates.tell_nothing(search.stats.codes_scored, &self.rows);
            if !(told && views.scan(search, &mut lists.codes, &now, of, ahead)) {
                search.scan_run(&self.rows, now, buf)?;
            }
            views.evaluate(search, &mut lists.codes);
            let codes = &mut lists.codes;
            std::mem::swap(&mut codes.pending, &mut codes.scanned);
            codes.pending_of = of;
            if codes.candidates.is_full(search.top) {
                self.make_room(views, search, want, lists, buf)?;
            }
            rest.start = end;
        }
        Ok(())
    }

    /// Makes the query ready for a cluster, in the place of the cluster before the last one: nothing of it is pending any more.
    pub(super) fn enter_codes(&self, views: &Views<'_>, cluster: u32, codes: &mut CodeLists) -> usize {
        let of = 1 - codes.pending_of;
        let extended = views.extended.as_ref().map(|(layout, _)| layout);
        let centroid = self.meta.centroids().parts(cluster, &mut codes.centroid);
        let (space, kernels) = (&views.codes.space, views.kernels);
        codes.entered[of].enter(space, &codes.query, centroid, extended, &views.epsilon, kernels);
        of
    }

    /// Reads the codes that aren't in memory, those of the nearest clusters first and as many at once as fit the buffer, and scans them.
    pub(super) fn visit_missing_codes(
        &self,
        views: &Views<'_>,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let Some(file) = views
            .codes
            .file
            .as_ref()
            .filter(|_| !lists.codes.missing.is_empty())
        else {
            return Ok(());
        };
        let mut missing = std::mem::take(&mut lists.codes.missing);
        let mut wanted = std::mem::take(&mut lists.codes.groups);
        let mut done = Ok(());
        for missing in missing.chunks_mut(GROUPS as usize) {
            missing.sort_unstable_by_key(|missing| (missing.group, missing.cluster));
            wanted.clear();
            wanted.extend(missing.iter().map(|missing| missing.group));
            done = self.scan_missing(views, (file, &wanted, missing), search, lists, buf);
            if done.is_ok() && lists.codes.candidates.is_full(search.top) {
                done = self.make_room(views, search, want, lists, buf);
            }
            if done.is_err() {
                break;
            }
        }
        missing.clear();
        (lists.codes.missing, lists.codes.groups) = (missing, wanted);
        done
    }

    fn scan_missing(
        &self,
        views: &Views<'_>,
        (file, mut wanted, missing): (&RowsFile, &[u32], &[MissingGroup]),
        search: &mut Search<'_, '_>,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let Lists { reads, codes, .. } = lists;
        let (mut missing, mut last) = (missing.iter(), None);
        while !wanted.is_empty() {
            let (now, later, bytes) = search.read_codes(file, wanted, reads, buf)?;
            for ((_, bytes), missing) in file.rows_in_reads(now, reads, bytes).zip(&mut missing) {
                let of = match last {
                    Some((cluster, of)) if cluster == missing.cluster => of,
                    _ => {
                        views.evaluate(search, codes);
                        self.enter_codes(views, missing.cluster, codes)
                    }
                };
                last = Some((missing.cluster, of));
                views.scan_read(search, codes, (missing, bytes), of);
                views.evaluate(search, codes);
                std::mem::swap(&mut codes.pending, &mut codes.scanned);
                codes.pending_of = of;
            }
            wanted = later;
        }
        views.evaluate(search, codes);
        Ok(())
    }

    /// Too many rows may be among the nearest: a filter is asked about them, and those to be rescored are read.
    pub(super) fn make_room(
        &self,
        views: &Views<'_>,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        views.evaluate(search, &mut lists.codes);
        let Lists { reads, codes, .. } = lists;
        codes.candidates.ask(search)?;
        let (candidates, mut resident) = views.candidates(codes, self);
        candidates.narrow(search, &self.rows, &want.codes, &mut resident, reads, buf)
    }
}
