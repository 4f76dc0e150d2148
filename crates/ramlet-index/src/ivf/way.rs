//! How a search goes about it: all rows, those of a bitmap, or clusters, as many as it takes.

use roaring::RoaringBitmap;

use ramlet_io::PAGE;

use super::reach::Reach;
use super::search::{Effort, Ivf};
use crate::Allowed;
use crate::flat::ALONE_COST;
use crate::pinned::PinnedRows;
use crate::rows_file::RowsFile;
use crate::scan::Search;
use crate::vector_index::Want;

/// Pages of codes that are compared in the time of reading and comparing one page of rows in sequence (an estimate).
const CODE_PAGES: u64 = 8;

/// Rows read from disk per row wanted, when codes were searched (about, at 4 bits and 100 dimensions).
const READS_PER_WANTED: f64 = 3.0;

/// A filtered search that has visited clusters for this part of what comparing all matching rows costs, and hasn't found
/// enough, compares all matching rows: one over this is the most that is lost.
const PROBED_BEFORE_LISTED: u64 = 8;

/// What a search does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// All rows, in the order of the file.
    All,
    /// Only the rows of the bitmap, each by its position.
    Listed,
    /// The nearest clusters.
    Probe(Effort),
}

impl Ivf {
    /// The cheapest way, counted in pages read in sequence.
    pub(super) fn way(&self, want: &Want, allowed: &Allowed<'_>, k: usize) -> Way {
        let all = self.rows.data_pages();
        let (way, pages) = match want.exact {
            true => (Way::All, all),
            false => {
                // The k nearest among those allowed are about the k / share nearest of all.
                let wanted = k as f64 / allowed.share(u64::from(self.meta.shape.segment_rows));
                let effort = self.effort(wanted, want);
                let pages = self.probe_pages(want, effort.probes, k, allowed);
                let few = self.codes_of(want).is_some()
                    && self.reads(k, allowed) < u64::from(self.meta.shape.rows) / 4;
                if pages < all || few {
                    // The rounds of a filtered search go further than expected rather than less far.
                    (Way::Probe(effort), PROBED_BEFORE_LISTED * pages)
                } else {
                    (Way::All, all)
                }
            }
        };
        if allowed.only.is_some_and(|only| self.listed_pages(only) < pages) {
            Way::Listed
        } else {
            way
        }
    }

    /// How many further clusters are to be visited after `visited`, where `found` rows may be found; `None`: enough were.
    pub(super) fn more(
        &self,
        search: &mut Search<'_, '_>,
        want: &Want,
        visited: usize,
        found: usize,
    ) -> Option<usize> {
        let k = search.top.k();
        if visited == 0 {
            let share = search.allowed.share(u64::from(self.meta.shape.segment_rows));
            let probes = |wanted| self.effort(wanted, want).probes;
            return Some(search.reach.first(k, share, probes));
        }
        let recall = want.recall.unwrap_or(self.recall);
        let enough = search.reach.is_settled(recall) && found >= k;
        (!enough && visited < self.meta.shape.clusters).then(|| Reach::next(visited))
    }

    /// The rows of the bitmap, when visiting `visited` clusters in all costs so much that comparing all of them instead, now,
    /// loses little.
    pub(super) fn better_listed<'a>(
        &self,
        search: &Search<'_, 'a>,
        want: &Want,
        visited: usize,
    ) -> Option<&'a RoaringBitmap> {
        let only = search.allowed.only?;
        let so_far = self.probe_pages(want, visited as u32, search.top.k(), search.allowed);
        (self.listed_pages(only) < PROBED_BEFORE_LISTED * so_far).then_some(only)
    }

    fn codes_of(&self, want: &Want) -> Option<&PinnedRows> {
        self.coarse().filter(|_| !want.codes.ignore)
    }

    /// What comparing the rows of a bitmap costs.
    fn listed_pages(&self, only: &RoaringBitmap) -> u64 {
        let positions = match self.positions.is_in_memory() {
            true => only.len().div_ceil(u64::from(self.positions.rows_per_block())),
            false => self.positions.data_pages().min(only.len()),
        };
        alone(&self.rows, only.len()).saturating_add(positions)
    }

    /// Rows read after searching codes: what a filter will refuse is read too.
    fn reads(&self, k: usize, allowed: &Allowed<'_>) -> u64 {
        let share = f64::from(allowed.filter_share.unwrap_or(1.0)).max(1e-6);
        (k as f64 * READS_PER_WANTED / share) as u64
    }

    /// What visiting so many clusters costs.
    fn probe_pages(&self, want: &Want, probes: u32, k: usize, allowed: &Allowed<'_>) -> u64 {
        let clusters = u64::from(self.clusters());
        match self.codes_of(want) {
            Some(codes) => {
                let scanned = codes.bytes_whole() / PAGE as u64 * u64::from(probes) / clusters / CODE_PAGES;
                scanned + alone(&self.rows, self.reads(k, allowed))
            }
            None => (self.rows.data_pages() / clusters + 1) * u64::from(probes),
        }
    }
}

/// What so many rows cost, each for itself.
fn alone(file: &RowsFile, rows: u64) -> u64 {
    let pages = u64::from(file.block_pages());
    match file.is_in_memory() {
        // A miss of the cache for each.
        true => (2 * rows).div_ceil(u64::from(file.rows_per_block())) * pages,
        false => rows.saturating_mul(pages * ALONE_COST),
    }
}
