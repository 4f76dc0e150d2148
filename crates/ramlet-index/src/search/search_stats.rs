//! Counts of a search.

/// What a search did, in counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchStats {
    /// Rows compared with the query.
    pub rows_scored: u64,
    /// Rows of which codes were compared with the query.
    pub codes_scored: u64,
    /// Rows whose score would have entered the result, so that the filters were asked.
    pub rows_checked: u64,
    /// Pages of rows asked of the I/O seam (they may have come from its cache).
    pub pages_read: u64,
    /// Reads asked of the I/O seam.
    pub reads: u64,
    /// Clusters visited.
    pub probes: u64,
    /// Of `rows_checked`, those that may be found.
    pub rows_admitted: u64,
    /// Rows that a scan of signs didn't rule out.
    pub survivors: u64,
    /// Rows of which extended codes were compared.
    pub extended_scored: u64,
    /// Rows read because codes couldn't tell whether they are among the nearest (or because it was asked for).
    pub rows_read: u64,
    /// Rows of a bitmap whose positions were found, so that only these were compared.
    pub listed: u64,
}

impl SearchStats {
    /// Sums, over segments or queries.
    pub fn add(&mut self, other: &SearchStats) {
        self.rows_scored += other.rows_scored;
        self.codes_scored += other.codes_scored;
        self.rows_checked += other.rows_checked;
        self.pages_read += other.pages_read;
        self.reads += other.reads;
        self.probes += other.probes;
        self.rows_admitted += other.rows_admitted;
        self.survivors += other.survivors;
        self.extended_scored += other.extended_scored;
        self.rows_read += other.rows_read;
        self.listed += other.listed;
    }
}
