//! A cursor over one word's posting list in one segment, in row order, with an upper bound of the score for each interval.

use ramlet_io::IoContext;
use ramlet_memory::{AnonBuf, ReclaimableView};

use super::bm25::Weights;
use crate::error::Result;
use crate::segment::{Decoded, Directory, ListPart, RecordsFile, TextColumn, bad_list};

/// Beyond all rows.
pub const END: u32 = u32::MAX;

/// Parts that are read at once where one follows another.
const AHEAD_MAX: usize = 4;
/// Rows whose scores take as long as a length takes to come from memory.
const ROWS_AHEAD: usize = 6;
/// Bytes of a part at most, as a cursor holds it.
const PART_BYTES: usize = 4096;
/// Of positions of a part that a cursor holds; longer ones are asked for again.
const PLACES_BYTES: usize = 8192;

/// A list of a segment: parts by row, decoded block by block. Moves forward only.
pub struct Cursor<'a> {
    column: &'a TextColumn,
    parts: &'a [ListPart],
    /// By part: what it adds to a row at most.
    bounds: &'a [f64],
    /// Of the term; 0 of one that is asked for and not scored.
    weight: f64,
    /// Rows of the segment.
    rows: u32,
    part: usize,
    /// Of `part`, if it is `loaded`.
    directory: Directory,
    loaded: bool,
    block: usize,
    /// Of `block`, if `is_decoded`.
    decoded: Decoded,
    is_decoded: bool,
    has_frequencies: bool,
    at: usize,
    /// What a row of `block` gets at most, once it was worked out.
    block_most: Option<f64>,
    /// No row is left.
    is_over: bool,
    /// The present part's bytes, if they are in RAM.
    cached: Option<&'a [u8]>,
    views: &'a CachedViews,
    /// Bytes of the parts that were read at once, the first of them `wave_from`, and where each ends.
    wave: Vec<u8>,
    wave_from: usize,
    wave_ends: Vec<usize>,
    ahead: usize,
    /// Positions of the part `places_of`: row after row asks for the same.
    places: Vec<u8>,
    places_of: Option<usize>,
}

/// What of a column is in RAM while it is searched.
pub struct CachedViews {
    lists: ReclaimableView,
    positions: ReclaimableView,
}

impl CachedViews {
    pub fn of(column: &TextColumn) -> CachedViews {
        CachedViews {
            lists: column.lists.cached(),
            positions: column
                .positions
                .as_ref()
                .map(RecordsFile::cached)
                .unwrap_or_default(),
        }
    }
}

/// What reads.
pub struct Reading<'a> {
    pub io: &'a mut IoContext,
    pub buf: &'a mut AnonBuf,
}

impl<'a> Cursor<'a> {
    /// Bytes that a cursor holds while it is used.
    pub const BYTES: u64 = (size_of::<Cursor<'_>>() + AHEAD_MAX * PART_BYTES + PLACES_BYTES) as u64;

    pub fn new(
        (column, views): (&'a TextColumn, &'a CachedViews),
        (parts, bounds): (&'a [ListPart], &'a [f64]),
        weight: f64,
        rows: u32,
    ) -> Cursor<'a> {
        Cursor {
            column,
            parts,
            bounds,
            weight,
            rows,
            part: 0,
            directory: Directory::default(),
            loaded: false,
            block: 0,
            decoded: Decoded::default(),
            is_decoded: false,
            has_frequencies: false,
            at: 0,
            block_most: None,
            is_over: false,
            cached: None,
            views,
            wave: Vec::new(),
            wave_from: 0,
            wave_ends: Vec::new(),
            ahead: 1,
            places: Vec::new(),
            places_of: None,
        }
    }

    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Rows of the list.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.rows)).sum()
    }

    /// The row it stands at, once it was sought; [`END`] behind the last.
    #[inline]
    pub fn row(&self) -> u32 {
        match self.is_decoded && self.at < self.decoded.count {
            true => self.decoded.rows[self.at],
            false => END,
        }
    }

    /// A row that it comes to some rows later.
    #[inline]
    pub fn row_ahead(&self) -> Option<u32> {
        let decoded = &self.decoded.rows[..self.decoded.count];
        decoded.get(self.at + ROWS_AHEAD).copied()
    }

    /// How often the word is in the text of the row it stands at.
    #[inline]
    pub fn frequency(&mut self) -> Result<u32> {
        if !self.has_frequencies {
            let bytes = bytes_of(self.cached, &self.wave, self.span());
            let found = self.directory.frequencies(self.block, bytes, &mut self.decoded);
            found.ok_or_else(bad_list)?;
            self.has_frequencies = true;
        }
        Ok(self.decoded.frequencies[self.at])
    }

    /// Goes to the first row from `target` on, which isn't before the present one.
    #[inline]
    pub fn seek(&mut self, target: u32, reading: &mut Reading<'_>) -> Result<u32> {
        if self.is_decoded
            && self.at < self.decoded.count
            && self.decoded.rows[self.decoded.count - 1] >= target
        {
            while self.decoded.rows[self.at] < target {
                self.at += 1;
            }
            return Ok(self.decoded.rows[self.at]);
        }
        self.seek_on(target, reading)
    }

    fn seek_on(&mut self, target: u32, reading: &mut Reading<'_>) -> Result<u32> {
        self.place(target, reading)?;
        loop {
            if !self.decode(reading)? {
                return Ok(END);
            }
            let rows = &self.decoded.rows[..self.decoded.count];
            self.at = rows.partition_point(|row| *row < target);
            if self.at < rows.len() {
                return Ok(rows[self.at]);
            }
            // The row lies behind this block and before the next part: what comes next is beyond it.
            if self.block + 1 < self.directory.blocks() {
                self.enter(self.block + 1);
            } else if self.part + 1 < self.parts.len() {
                self.begin(self.part + 1);
            } else {
                self.is_over = true;
                return Ok(END);
            }
        }
    }

    /// Goes to the next row.
    #[inline]
    pub fn next(&mut self, reading: &mut Reading<'_>) -> Result<u32> {
        let behind = self.row().saturating_add(1);
        self.seek(behind, reading)
    }

    /// What the rows from `target` on add at most, and up to which row that holds; nothing is read.
    pub fn part_bound(&mut self, target: u32) -> (f64, u32) {
        if self.is_over {
            return (0.0, END);
        }
        let part = self.part_of(target);
        let end = self.parts.get(part + 1).map_or(END, |next| next.first_row - 1);
        (self.bounds.get(part).copied().unwrap_or(0.0), end)
    }

    /// The same by block: of the block that has `target`, which is decoded only when it is sought.
    pub fn block_bound(
        &mut self,
        target: u32,
        weights: &Weights,
        reading: &mut Reading<'_>,
    ) -> Result<(f64, u32)> {
        if self.is_over || self.parts.is_empty() {
            return Ok((0.0, END));
        }
        self.place(target, reading)?;
        let last = self.block + 1 >= self.directory.blocks();
        let head = self.directory.head(self.block);
        let worked_out = || {
            head.map_or(self.bounds[self.part], |head| {
                weights.most(self.weight, &head.peaks)
            })
        };
        let bound = *self.block_most.get_or_insert_with(worked_out);
        let end = match head {
            Some(head) if !last => head.last,
            _ => self
                .parts
                .get(self.part + 1)
                .map_or(END, |next| next.first_row - 1),
        };
        Ok((bound, end))
    }

    /// The last part from the present one on that doesn't begin behind `target`.
    fn part_of(&self, target: u32) -> usize {
        let rest = self.parts.get(self.part + 1..).unwrap_or_default();
        if rest.first().is_none_or(|part| part.first_row > target) {
            return self.part;
        }
        let mut step = 1;
        while rest.get(step).is_some_and(|part| part.first_row <= target) {
            step *= 2;
        }
        let from = step / 2;
        let within = &rest[from..rest.len().min(step + 1)];
        self.part + from + within.partition_point(|part| part.first_row <= target)
    }

    /// Makes the block the present one that has `target` or would have it.
    fn place(&mut self, target: u32, reading: &mut Reading<'_>) -> Result<()> {
        let part = self.part_of(target);
        if part != self.part {
            self.begin(part);
        }
        if self.part >= self.parts.len() {
            return Ok(());
        }
        self.load(reading)?;
        let mut block = self.block;
        while block + 1 < self.directory.blocks()
            && self.directory.head(block).is_some_and(|head| head.last < target)
        {
            block += 1;
        }
        if block != self.block {
            self.enter(block);
        }
        Ok(())
    }

    fn begin(&mut self, part: usize) {
        self.part = part;
        self.loaded = false;
        self.enter(0);
    }

    fn enter(&mut self, block: usize) {
        self.block = block;
        self.is_decoded = false;
        self.at = 0;
        self.block_most = None;
    }

    /// Decodes the present block's rows; false: there is none.
    fn decode(&mut self, reading: &mut Reading<'_>) -> Result<bool> {
        let Some(part) = self.parts.get(self.part) else {
            return Ok(false);
        };
        if self.is_decoded {
            return Ok(true);
        }
        let first = part.first_row;
        self.load(reading)?;
        let bytes = bytes_of(self.cached, &self.wave, self.span());
        let found = self
            .directory
            .rows(self.block, bytes, (first, self.rows), &mut self.decoded);
        found.ok_or_else(bad_list)?;
        self.is_decoded = true;
        self.has_frequencies = self.directory.head(self.block).is_none();
        Ok(true)
    }

    /// Where the present part's bytes are, of what was read.
    fn span(&self) -> (usize, usize) {
        let end = |at: usize| self.wave_ends.get(at).copied().unwrap_or(0);
        let at = self.part - self.wave_from;
        (at.checked_sub(1).map_or(0, end), end(at))
    }

    /// Reads the present part, and some behind it where the one before was read too.
    fn load(&mut self, reading: &mut Reading<'_>) -> Result<()> {
        if self.loaded {
            return Ok(());
        }
        self.cached = self
            .column
            .lists
            .borrow_cached(self.parts[self.part].record, &self.views.lists)?;
        if let Some(bytes) = self.cached {
            self.directory = Directory::parse(bytes).ok_or_else(bad_list)?;
            (self.wave_from, self.loaded) = (self.part, true);
            self.wave_ends.clear();
            return Ok(());
        }
        let known = self.wave_from..self.wave_from + self.wave_ends.len();
        if !known.contains(&self.part) {
            self.ahead = if known.end == self.part {
                (2 * self.ahead).min(AHEAD_MAX)
            } else {
                1
            };
            let wanted = &self.parts[self.part..self.parts.len().min(self.part + self.ahead)];
            let mut records = [0; AHEAD_MAX];
            for (record, part) in records.iter_mut().zip(wanted) {
                *record = part.record;
            }
            let (wave, ends) = (&mut self.wave, &mut self.wave_ends);
            wave.clear();
            ends.clear();
            self.wave_from = self.part;
            let Reading { io, buf } = reading;
            self.column
                .lists
                .for_rows(&records[..wanted.len()], io, buf, &mut |_, _, bytes| {
                    wave.extend_from_slice(bytes);
                    ends.push(wave.len());
                    Ok(())
                })?;
        }
        let (from, to) = self.span();
        self.directory = Directory::parse(&self.wave[from..to]).ok_or_else(bad_list)?;
        self.loaded = true;
        Ok(())
    }

    /// Where the word stands in the text of the row it stands at, ascending; false: that isn't known.
    pub fn positions(&mut self, out: &mut Vec<u32>, reading: &mut Reading<'_>) -> Result<bool> {
        out.clear();
        let Some(positions) = &self.column.positions else {
            return Ok(false);
        };
        self.frequency()?;
        let record = self.parts[self.part].record;
        let bytes = match positions.borrow_cached(record, &self.views.positions)? {
            Some(bytes) => bytes,
            None if self.places_of == Some(self.part) => &self.places,
            None => {
                let read = positions.borrow(record, reading.io, reading.buf)?;
                if read.len() <= PLACES_BYTES {
                    self.places.clear();
                    self.places.extend_from_slice(read);
                    self.places_of = Some(self.part);
                }
                read
            }
        };
        let found = self
            .directory
            .positions(self.block, self.at, &self.decoded, bytes, out);
        found.ok_or_else(bad_list)
    }
}

fn bytes_of<'a>(cached: Option<&'a [u8]>, wave: &'a [u8], (from, to): (usize, usize)) -> &'a [u8] {
    cached.unwrap_or_else(|| wave.get(from..to).unwrap_or_default())
}

/// By part: what it adds to a row at most.
pub fn bounds_of(parts: &[ListPart], weight: f64, weights: &Weights) -> Vec<f64> {
    parts
        .iter()
        .map(|part| weights.most(weight, &part.peaks))
        .collect()
}

/// The folded lengths of a column's texts, by ascending rows.
pub struct LengthsOf<'a> {
    column: &'a TextColumn,
    rows: u32,
    first: u32,
    window: Vec<u32>,
}

impl<'a> LengthsOf<'a> {
    pub fn new(column: &'a TextColumn, rows: u32) -> LengthsOf<'a> {
        LengthsOf {
            column,
            rows,
            first: 0,
            window: Vec::new(),
        }
    }

    /// Bytes where lengths aren't in RAM.
    pub const BYTES: u64 = 4 * LENGTHS as u64;

    #[inline]
    pub fn get(&mut self, row: u32, reading: &mut Reading<'_>) -> Result<u64> {
        match self.column.resident_length(row) {
            Some(length) => Ok(length),
            None => self.read(row, reading),
        }
    }

    /// A row that is soon asked for.
    #[inline]
    pub fn prefetch(&self, row: Option<u32>) {
        if let Some(row) = row {
            self.column.prefetch_length(row);
        }
    }

    fn read(&mut self, row: u32, reading: &mut Reading<'_>) -> Result<u64> {
        let at = |first: u32| row.checked_sub(first).map(|at| at as usize);
        if let Some(length) = at(self.first).and_then(|at| self.window.get(at)) {
            return Ok(u64::from(*length));
        }
        self.first = row / LENGTHS * LENGTHS;
        self.window
            .resize((self.rows - self.first).min(LENGTHS) as usize, 0);
        let Reading { io, buf } = reading;
        self.column.lengths(self.first, &mut self.window, io, buf)?;
        let length = at(self.first).and_then(|at| self.window.get(at));
        length.map(|length| u64::from(*length)).ok_or_else(bad_list)
    }
}

/// Lengths that are read at once: about a page.
const LENGTHS: u32 = 2_048;
