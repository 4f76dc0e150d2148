//! The strategy of a search: all rows, those of a bitmap, or clusters.
//!
//! A filtered search shall cost no more than an exact one, which compares the rows that match (or all rows, where that is
//! cheaper). So clusters are visited for the matching rows alone, once the row bitmap is known: that costs a part of what the exact
//! search compares, in codes where there are such. All rows of the clusters are compared only where even visiting every
//! cluster would be cheaper than an exact search.

use ramlet_io::PAGE;
use roaring::RoaringBitmap;

use super::inverted_file::Ivf;
use crate::Allowed;
use crate::rows::cached_rows::CachedRows;
use crate::rows::reading::ALONE_COST;
use crate::rows::rows_file::RowsFile;
use crate::rows::scan::Search;
use crate::search::calibration::LOST_BY_QUERIES;
use crate::search::rounds::Rounds;
use crate::vector_index::{Effort, IndexSearchParams};

// Costs are counted in pages read and compared in sequence: 2 us each (1M x 100, one thread; all estimates).

/// Pages of codes that are scanned in the time of one page of rows.
const CODE_PAGES: f64 = 8.0;

/// Making the query ready for a cluster, a dimension; and ranking a cluster, a dimension.
const ENTER_PER_DIM: f64 = 0.001;
const RANK_PER_DIM: f64 = 0.000_02;

/// A row in memory, met alone: a miss or two of the cache, and its bytes.
const ROW_ALONE: f64 = 0.03;
const ROW_BYTES_PER_PAGE: f64 = 4.0 * PAGE as f64;

/// A row's code in RAM, met alone: its group is scanned, and lies anywhere.
const CODE_ALONE: f64 = 0.08;

/// Noting the position of a row, and looking a row up in a bitmap.
const PICK: f64 = 0.003;
const LOOK_UP: f64 = 0.01;

/// Rows read from disk per row wanted, when codes were searched (about, at 4 bits and 100 dimensions), and product codes.
const READS_PER_WANTED: f64 = 3.0;
const READS_PER_WANTED_OF_PRODUCTS: f64 = 6.0;

/// Clusters that a filtered search visits, as against what the share of rows alone says: its rounds go further than
/// expected rather than less far.
const ROUNDS: f64 = 1.5;

/// Rows that are read at once, where nothing tells which of them are near.
const FEW: u64 = 256;

/// What a search does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SearchStrategy {
    /// All rows, in the order of the file.
    All,
    /// Only the rows of the bitmap, each by its position.
    Listed,
    /// The nearest clusters.
    Probe(Effort),
    /// The rows of the bitmap, those of the nearest clusters first.
    Pick(Effort),
}

impl Ivf {
    /// The cheapest way.
    pub(super) fn strategy(
        &self,
        want: &IndexSearchParams,
        allowed: &Allowed<'_>,
        k: usize,
    ) -> SearchStrategy {
        let all = self.rows.data_pages() as f64;
        let (exact, exactly) = match allowed.only.map(|only| self.listed_cost(only)) {
            Some(listed) if listed < all => (listed, SearchStrategy::Listed),
            _ => (all, SearchStrategy::All),
        };
        if want.exact {
            return exactly;
        }
        // The k nearest among those allowed are about the k / share nearest of all.
        let wanted = k as f64 / allowed.share(u64::from(self.meta.shape.segment_rows));
        let effort = self.effort_by(wanted, want, self.rule(want, allowed, wanted));
        let reads = self.reads(k, allowed);
        let Some(only) = allowed.only else {
            let few = self.codes_of(want).is_some() && reads < f64::from(self.meta.shape.rows / 4);
            let cost = self.probe_cost(want, f64::from(effort.probes), reads);
            return if cost < exact || few {
                SearchStrategy::Probe(effort)
            } else {
                SearchStrategy::All
            };
        };
        if self.codes_of(want).is_none() && only.len() <= FEW {
            // One batch of reads: to go by clusters would make several of it.
            return exactly;
        }
        // What is expected where the filter has nothing to do with the query, and the most it may come to: each counts half.
        let clusters = f64::from(self.clusters());
        let probes = (ROUNDS * f64::from(effort.probes)).min(clusters);
        let look_up = LOOK_UP * f64::from(self.meta.shape.rows);
        let probe_of = |probes: f64| self.probe_cost(want, probes, reads) + look_up * probes / clusters;
        let pick_of = |probes: f64| self.pick_cost(want, only, probes / clusters, k, allowed);
        let at_worst = probe_of(clusters);
        let probe = 0.5 * (probe_of(probes) + at_worst);
        let pick = 0.5 * (pick_of(probes) + pick_of(clusters));
        // Product codes don't say which row they are of: rows would be read to be refused.
        let probe = if self
            .products
            .as_ref()
            .is_some_and(|products| products.numbers.is_none())
        {
            f64::INFINITY
        } else {
            probe
        };
        match () {
            () if pick < exact && (pick <= probe || at_worst > exact) => SearchStrategy::Pick(effort),
            () if probe < exact && at_worst <= exact => SearchStrategy::Probe(effort),
            () => exactly,
        }
    }

    /// How many further clusters are to be visited after `visited`, where `found` rows may be found; `None`: enough were.
    pub(super) fn more(
        &self,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        visited: usize,
        found: usize,
    ) -> Option<usize> {
        let k = search.top.k();
        if visited == 0 {
            let share = search.allowed.share(u64::from(self.meta.shape.segment_rows));
            let allowed = &search.allowed;
            let probes = |wanted| {
                let rule = self.rule(want, allowed, wanted);
                self.effort_by(wanted, want, rule).probes
            };
            return Some(search.rounds.first(k, share, probes));
        }
        // Rounds are compared with what they find themselves: of what queries lose beyond that, as much as is more than usual.
        let lost = LOST_BY_QUERIES / self.meta.calibration.lost;
        let recall = 1.0 - (1.0 - want.recall.unwrap_or(self.recall)) * lost;
        let enough = (search.rounds.is_settled(recall) || search.rounds.is_over(visited)) && found >= k;
        let all = self.meta.shape.clusters;
        if visited >= all {
            return None;
        }
        if let Some(wanted) = search.rounds.beyond_gone(k, all, search.top.threshold()) {
            let rule = self.rule(want, search.allowed, wanted);
            let probes = self.effort_by(wanted, want, rule).probes as usize;
            return Some(probes.saturating_sub(visited).max(Rounds::next(visited)));
        }
        (!enough).then(|| Rounds::next(visited))
    }

    fn codes_of(&self, want: &IndexSearchParams) -> Option<&CachedRows> {
        self.scanned().filter(|_| !want.codes.ignore)
    }

    /// What comparing the rows of a bitmap costs.
    fn listed_cost(&self, only: &RoaringBitmap) -> f64 {
        alone(&self.rows, only.len() as f64) + self.positions_cost(only.len())
    }

    /// What finding the positions of so many rows costs.
    fn positions_cost(&self, rows: u64) -> f64 {
        let (rows, blocks) = (rows as f64, self.positions.data_pages().max(1) as f64);
        match self.positions.is_in_memory() {
            true => PICK * rows,
            false => {
                // Where most blocks are wanted they come in long reads.
                let met = 1.0 - (-rows / blocks).exp();
                blocks * met * (1.0 + (ALONE_COST - 1) as f64 * (1.0 - met))
            }
        }
    }

    /// What visiting a share of the clusters costs for the rows of a bitmap alone.
    fn pick_cost(
        &self,
        want: &IndexSearchParams,
        only: &RoaringBitmap,
        visited: f64,
        k: usize,
        allowed: &Allowed<'_>,
    ) -> f64 {
        let rows = only.len() as f64;
        let before = self.positions_cost(only.len()) + PICK * rows + self.rank_cost();
        let compared = match self.codes_of(want) {
            Some(_) => {
                let all = self.scan_cost(want, f64::from(self.clusters()));
                let reads = self.reads_per_wanted() * k as f64 / filter_share(allowed);
                (CODE_ALONE * rows).min(all) * visited + alone(&self.rows, reads.min(rows))
            }
            None => alone(&self.rows, rows * visited),
        };
        before + compared
    }

    fn reads_per_wanted(&self) -> f64 {
        match self.products.is_some() {
            true => READS_PER_WANTED_OF_PRODUCTS,
            false => READS_PER_WANTED,
        }
    }

    /// Rows read after searching codes: what a filter will refuse is read too. Product codes don't even say which row it is.
    fn reads(&self, k: usize, allowed: &Allowed<'_>) -> f64 {
        let share = match self.products.is_some() {
            true => allowed.share(u64::from(self.meta.shape.segment_rows)),
            false => filter_share(allowed),
        };
        k as f64 * self.reads_per_wanted() / share
    }

    /// What visiting so many clusters costs, and reading so many rows if there are codes.
    fn probe_cost(&self, want: &IndexSearchParams, probes: f64, reads: f64) -> f64 {
        let cost = self.scan_cost(want, probes) + self.rank_cost();
        match self.codes_of(want) {
            Some(_) => cost + alone(&self.rows, reads),
            None => cost,
        }
    }

    /// What comparing all that is in so many clusters costs.
    fn scan_cost(&self, want: &IndexSearchParams, probes: f64) -> f64 {
        let clusters = f64::from(self.clusters());
        match self.codes_of(want) {
            Some(codes) => {
                let pages = codes.bytes_whole() as f64 / PAGE as f64;
                probes * (pages / clusters / CODE_PAGES + ENTER_PER_DIM * self.dims() as f64)
            }
            None => probes * (self.rows.data_pages() as f64 / clusters + 1.0),
        }
    }

    fn rank_cost(&self) -> f64 {
        RANK_PER_DIM * f64::from(self.clusters()) * self.dims() as f64
    }
}

/// Share of the rows passing the bitmaps that a payload filter admits.
fn filter_share(allowed: &Allowed<'_>) -> f64 {
    f64::from(allowed.filter_share.unwrap_or(1.0)).max(1e-6)
}

/// What so many rows cost, each for itself.
fn alone(file: &RowsFile, rows: f64) -> f64 {
    let in_ram = f64::from(file.resident()) / f64::from(file.rows().max(1));
    let of_ram = ROW_ALONE + file.stride() as f64 / ROW_BYTES_PER_PAGE;
    let of_disk = f64::from(file.block_pages()) * ALONE_COST as f64;
    rows * (in_ram * of_ram + (1.0 - in_ram) * of_disk)
}
