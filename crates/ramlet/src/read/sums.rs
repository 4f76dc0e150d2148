//! Score sums of a window of rows, to which posting lists are added one after another.

/// Of the rows `first..`, as many as there are places.
pub struct Sums {
    pub first: u32,
    sums: Vec<f64>,
    /// A bit for each row that some list has.
    met: Vec<u64>,
}

impl Sums {
    /// Rows of a window at most.
    pub const WINDOW: u32 = 1 << 16;
    /// Bytes of so many.
    pub const BYTES: u64 = Sums::WINDOW as u64 * 8 + Sums::WINDOW as u64 / 8;

    /// For windows of a segment of so many rows.
    pub fn new(rows: u32) -> Sums {
        let rows = Sums::WINDOW.min(rows) as usize;
        Sums {
            first: 0,
            sums: vec![0.0; rows],
            met: vec![0; rows.div_ceil(64)],
        }
    }

    pub fn begin(&mut self, first: u32) {
        self.first = first;
        self.sums.fill(0.0);
        self.met.fill(0);
    }

    /// The place of a row, if the sums are to have it: it is of the window, and if `known` it was met before.
    #[inline]
    pub fn place(&self, row: u32, known: bool) -> Option<usize> {
        let at = row.checked_sub(self.first)? as usize;
        let has = || self.met[at / 64] >> (at % 64) & 1 == 1;
        (at < self.sums.len() && (!known || has())).then_some(at)
    }

    #[inline]
    pub fn add(&mut self, at: usize, part: f64) {
        self.sums[at] += part;
        self.met[at / 64] |= 1 << (at % 64);
    }

    /// Whether a row of `from..to` was met.
    pub fn has_any(&self, from: u32, to: u32) -> bool {
        let at = |row: u32| (row.max(self.first) - self.first) as usize;
        let words = at(from) / 64..at(to).div_ceil(64).min(self.met.len());
        self.met[words].iter().any(|word| *word != 0)
    }

    /// Rows that were met, with their sums.
    pub fn iter(&self) -> impl Iterator<Item = (u32, f64)> {
        let words = self.met.iter().zip(0..);
        words.flat_map(move |(word, block): (&u64, usize)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                let at = block * 64 + bit;
                Some((self.first + at as u32, self.sums[at]))
            })
        })
    }
}
