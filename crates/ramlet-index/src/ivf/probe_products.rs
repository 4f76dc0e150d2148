//! Searches product codes cluster by cluster.

use std::ops::Range;

use ramlet_kernels::Kernels;
use ramlet_memory::AnonBuf;

use super::candidates::{Candidates, Known};
use super::inverted_file::Ivf;
use super::lists::Lists;
use super::products::{Ahead, Bound, Candidate, Cluster, Products, pieces};
use super::resident::ResidentDistances;
use super::visit_order::{put_in_order, sort_more};
use crate::error::Result;
use crate::quant::{CodeSpace, GROUP, groups};
use crate::rows::cached_rows::CachedView;
use crate::rows::rows_file::RowsFile;
use crate::rows::scan::Search;
use crate::vector_index::{Effort, IndexSearchParams};

/// Rows read at once after the first batch, of as many rows as are wanted, has shown how near the nearest are.
const BATCH: usize = 24;

/// Clusters whose codes are read between two looks at how many candidates there are.
const CLUSTERS: usize = 64;

impl Ivf {
    /// Visits the nearest clusters, and further ones while fewer rows are found than wanted.
    pub(super) fn probe_products(
        &self,
        products: &Products,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        (effort, row_bitmap): (&Effort, bool),
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        self.rank_for(search, want, effort.probes, lists);
        let view = products.groups.view();
        let oversampled = self.oversampled(search.top.k(), want);
        // Without a number there is no telling whether a row is allowed: then none is dropped on another's account.
        let allowed = &search.allowed;
        let all_allowed = allowed.only.is_none() && allowed.deleted.is_none();
        let narrows = allowed.filter.is_none() && (all_allowed || row_bitmap);
        // What isn't found by codes is read elsewhere, and would be met twice; and what a payload filter is asked about costs a read.
        let whole_blocks = !row_bitmap && allowed.filter.is_none() && products.file.is_some();
        let mut epsilon = effort.epsilon.scanned;
        let filtered = allowed.filter.is_some();
        let known = Known {
            resident: 0,
            rows: self.rows.resident(),
        };
        let sq8 = self.sq8_beside(products);
        let tells = products.numbers.is_some() || sq8.is_some();
        match products.numbers {
            Some(numbers) => {
                epsilon = effort.bounds().extended;
                let last = (effort.epsilon.extended, known);
                lists.products.start_known(numbers, oversampled, filtered, last);
            }
            None => {
                let sq8 = sq8.map(|_| (filtered, known));
                lists.products.start(oversampled, narrows, whole_blocks, sq8);
            }
        }
        let (mut visited, mut begun) = (0, None);
        loop {
            let found = match tells {
                true => search.top.len() + lists.products.known.found(),
                false => search.top.len(),
            };
            let known = (&mut *lists, known_in as fn(&mut Lists) -> &mut Candidates);
            let Some(more) = self.further_clusters(search, want, (visited, found), &mut begun, known) else {
                break;
            };
            let sorted = match products.numbers {
                // Few of the first ones' rows are needed to know where the nearest end.
                Some(_) => {
                    put_in_order(&mut lists.clusters[visited..visited + more], visited);
                    visited + more
                }
                None => sort_more(&mut lists.clusters, visited, more),
            };
            for place in visited..sorted {
                let cluster = lists.clusters[place] as u32;
                if row_bitmap {
                    let of = (cluster, epsilon);
                    self.visit_products_bitmap(
                        (products, &view),
                        search,
                        (want, oversampled),
                        of,
                        lists,
                        buf,
                    )?;
                    continue;
                }
                let known = &lists.products.known;
                if tells && known.tell_nothing(search.stats.codes_scored, &self.rows) {
                    self.scan_others(sq8, search, self.meta.positions(cluster), lists, buf)?;
                    continue;
                }
                let next = lists.clusters[..sorted].get(place + 1);
                let next = next.map_or(0..0, |next| groups(&self.meta.positions(*next as u32)));
                self.visit_products(products, &view, search, (cluster, epsilon), (lists, next));
                if lists.products.is_full(search.top) {
                    self.read_products(search, want, oversampled, lists, buf)?;
                }
            }
            self.visit_missing(products, search, (want, epsilon, oversampled), lists, buf)?;
            visited = sorted;
            search.stats.probes = visited as u64;
            if products.numbers.is_none() {
                self.read_products(search, want, oversampled, lists, buf)?;
            }
            if tells {
                lists.products.known.ask(search)?;
            }
        }
        if tells {
            let (known, mut resident, reads) = self.known_of(search.query, lists);
            known.settle(search, &self.rows, &want.codes, &mut resident, reads, buf)?;
        }
        Ok(())
    }

    /// Scans a cluster's codes, or remembers that they must be read.
    fn visit_products(
        &self,
        products: &Products,
        view: &CachedView,
        search: &mut Search<'_, '_>,
        (cluster, epsilon): (u32, f32),
        (lists, next): (&mut Lists, Range<u32>),
    ) {
        let mut ahead = Ahead {
            view,
            groups: next,
            scanned: products.scanned_bytes(),
        };
        let positions = self.meta.positions(cluster);
        let groups_of = groups(&positions);
        if positions.is_empty() {
            return;
        }
        let Some(bytes) = view.run(groups_of.start, groups_of.len() as u32) else {
            lists.products.missing.push(cluster);
            return;
        };
        let entered = self.enter_products(products, search, (cluster, epsilon), lists);
        let stride = products.groups.stride();
        for piece in pieces(positions) {
            let now = groups(&piece);
            let bytes = &bytes[(now.start - groups_of.start) as usize * stride..][..now.len() * stride];
            products.scan(
                bytes,
                now.start,
                &piece,
                search,
                &mut lists.products,
                (entered, &mut ahead),
            );
        }
        while !ahead.groups.is_empty() {
            Kernels::prefetch_far(ahead.next());
        }
    }

    /// Makes the tables ready for a cluster.
    pub(super) fn enter_products(
        &self,
        products: &Products,
        search: &Search<'_, '_>,
        (cluster, epsilon): (u32, f32),
        lists: &mut Lists,
    ) -> Cluster {
        let (query, centroids) = (lists.codes.query.rotated(), self.meta.centroids());
        let (metric, of) = (search.query.metric(), &mut lists.products);
        of.bound = Bound::default();
        let base = of
            .query
            .enter(&products.model, metric, query, &centroids, cluster);
        Cluster { base, epsilon }
    }

    /// Reads the codes of clusters that have none in memory, as many at once as fit the buffer, and scans them; where there is
    /// no file of codes, the rows.
    fn visit_missing(
        &self,
        products: &Products,
        search: &mut Search<'_, '_>,
        (want, epsilon, oversampled): (&IndexSearchParams, f32, usize),
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let mut missing = std::mem::take(&mut lists.products.missing);
        missing.sort_unstable_by_key(|cluster| self.meta.positions(*cluster).start);
        let mut rest = &missing[..];
        while !rest.is_empty() {
            let now = &rest[..rest.len().min(CLUSTERS)];
            rest = &rest[now.len()..];
            match &products.file {
                Some(file) => self.read_codes(products, file, search, (now, epsilon), lists, buf)?,
                None => now.iter().try_for_each(|cluster| {
                    search.scan_run(&self.rows, self.meta.positions(*cluster), buf)
                })?,
            }
            if lists.products.is_full(search.top) {
                self.read_products(search, want, oversampled, lists, buf)?;
            }
        }
        missing.clear();
        lists.products.missing = missing;
        Ok(())
    }

    /// Reads and scans the codes of some clusters, which stand in the order of the file.
    fn read_codes(
        &self,
        products: &Products,
        file: &RowsFile,
        search: &mut Search<'_, '_>,
        (clusters, epsilon): (&[u32], f32),
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let mut wanted = std::mem::take(&mut lists.products.groups);
        wanted.clear();
        wanted.extend(
            clusters
                .iter()
                .flat_map(|cluster| groups(&self.meta.positions(*cluster))),
        );
        let mut of_groups = clusters
            .iter()
            .flat_map(|cluster| groups(&self.meta.positions(*cluster)).map(|_| *cluster));
        let (mut rest, mut last) = (&wanted[..], None);
        // What is read lies in the buffer: there is nothing to fetch ahead.
        let view = products.groups.view();
        let mut nothing = Ahead {
            view: &view,
            groups: 0..0,
            scanned: 0,
        };
        while !rest.is_empty() {
            let mut reads = std::mem::take(&mut lists.reads);
            let (now, later, bytes) = search.read_some(file, rest, &mut reads, buf)?;
            for ((group, bytes), cluster) in file.rows_in_reads(now, &reads, bytes).zip(&mut of_groups) {
                let entered = match last {
                    Some((of, entered)) if of == cluster => entered,
                    _ => self.enter_products(products, search, (cluster, epsilon), lists),
                };
                last = Some((cluster, entered));
                let positions = self.meta.positions(cluster);
                let start = group * GROUP as u32;
                let end = start.saturating_add(GROUP as u32).min(positions.end);
                let piece = start.max(positions.start)..end;
                products.scan(
                    bytes,
                    group,
                    &piece,
                    search,
                    &mut lists.products,
                    (entered, &mut nothing),
                );
            }
            lists.reads = reads;
            rest = later;
        }
        lists.products.groups = wanted;
        Ok(())
    }

    /// The candidates with numbers, and what is needed to settle them.
    fn known_of<'l>(
        &'l self,
        query: &crate::Query,
        lists: &'l mut Lists,
    ) -> (&'l mut Candidates, ResidentDistances<'l>, &'l mut Vec<(u64, u32)>) {
        let Lists {
            reads,
            codes,
            products,
            ..
        } = lists;
        let space = CodeSpace {
            metric: self.meta.shape.metric,
            unit: self.meta.shape.unit,
        };
        let resident = ResidentDistances::new(
            None,
            &self.meta,
            space,
            &codes.query,
            query.kernels(),
            &mut codes.resident,
        );
        (&mut products.known, resident, reads)
    }

    /// Reads the candidates, the likeliest first, until the next one can't enter the result; then there are none. All rows of a
    /// block that was read are compared.
    pub(super) fn read_products(
        &self,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        oversampled: usize,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        if lists.products.numbers.is_some() {
            return self.narrow_known(search, want, lists, buf);
        }
        let most = BATCH.max(oversampled);
        lists.reads.clear();
        lists.reads.reserve(most);
        lists.positions.clear();
        lists.positions.reserve(most);
        let sq8 = self.sq8.as_ref().filter(|_| lists.products.has_sq8);
        let file = sq8.map_or(&self.rows, |sq8| &sq8.file);
        let mut candidates = std::mem::take(&mut lists.products.candidates);
        let mut rest = &mut candidates[..];
        let mut is_oversampled = true;
        while !rest.is_empty() {
            let (now, later) = nearest(rest, if is_oversampled { oversampled } else { BATCH });
            let limit = match sq8 {
                Some(_) => lists.products.known.limit(search.top),
                None => search.top.threshold(),
            };
            let limit = limit.max(search.rounds.limit());
            let Lists {
                reads,
                positions,
                products,
                ..
            } = &mut *lists;
            let (blocks, whole_blocks) = (&mut products.blocks, products.whole_blocks);
            positions.clear();
            // The candidates are read whole.
            let likely = now
                .iter()
                .filter(|row| is_oversampled || row.distance - row.error <= limit);
            let mut any = false;
            for row in likely {
                any = true;
                let was_read = || blocks.binary_search(&file.block_of(row.position)).is_ok();
                if !(whole_blocks && was_read()) {
                    positions.push(row.position);
                }
            }
            (rest, is_oversampled) = (later, false);
            if !any {
                break;
            }
            search.stats.rows_read += positions.len() as u64;
            positions.sort_unstable();
            match sq8 {
                Some(sq8) => self.read_sq8(sq8, search, want, lists, buf)?,
                None if whole_blocks => search.scan_blocks_of(file, positions, (reads, blocks), buf)?,
                None => search.scan_positions(file, positions, reads, buf)?,
            }
            lists.products.blocks.sort_unstable();
            let found = match sq8 {
                Some(_) => search.top.len() + lists.products.known.found(),
                None => search.top.len(),
            };
            if want.codes.rescore == Some(false) && found >= search.top.k() {
                break;
            }
        }
        candidates.clear();
        lists.products.candidates = candidates;
        Ok(())
    }

    /// Asks filters about rows of which the numbers are known, and reads those to be rescored, so that there is room for more.
    pub(super) fn narrow_known(
        &self,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        lists.products.known.ask(search)?;
        let (known, mut resident, reads) = self.known_of(search.query, lists);
        known.narrow(search, &self.rows, &want.codes, &mut resident, reads, buf)
    }
}

fn known_in(lists: &mut Lists) -> &mut Candidates {
    &mut lists.products.known
}

/// The nearest `count`, in no order, and the others.
fn nearest(candidates: &mut [Candidate], count: usize) -> (&mut [Candidate], &mut [Candidate]) {
    if count < candidates.len() {
        let nearest = |a: &Candidate, b: &Candidate| {
            a.distance
                .total_cmp(&b.distance)
                .then(a.position.cmp(&b.position))
        };
        candidates.select_nth_unstable_by(count, nearest);
    }
    candidates.split_at_mut(count.min(candidates.len()))
}
