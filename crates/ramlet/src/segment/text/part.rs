//! A part of a word's posting list as bytes: blocks of 128 rows, packed, and the rest as varints.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | packed blocks |
//! | of each | its last row u32, bits of a distance u8, bits of a frequency u8, its peaks: how many u8, of each frequency u16 and length u16 |
//! | of each | the distances, each from the row before (of the part's first row: 0), and the frequencies less 1: see `packed` |
//! | rest | distance and frequency by row, varints |
//!
//! Where the index knows positions, of each part too:
//!
//! | bytes | what |
//! |---|---|
//! | of each block, and of the rest if there is one | where its positions begin u32 |
//! | by row | the first position and the distances of the others, varints; nothing of a word that comes more than 256 times |

use super::packed::{BLOCK, bits_of, pack, packed_bytes, push_varint, skip_varints, unpack, varint};

/// Packed blocks of a part at most.
pub const BLOCKS_MAX: usize = 8;
/// Occurrences of a word in a text up to which positions are kept: a row's posting is sorted as one key.
pub const POSITIONS_MAX: u32 = 256;
/// Bytes of a part, so that it fits a block among others; and of its positions, which may be longer.
const PART_BYTES: usize = 4_000;
const POSITIONS_BYTES: usize = 64 << 10;
const PEAKS_MAX: usize = 4;

/// Of some rows the (frequency, length) pairs that no other row outdoes in both, the most frequent first: whatever `k` and `b` are, one of these scores best.
/// Where there are too many, two become one that outdoes both.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Peaks {
    pairs: [(u16, u16); PEAKS_MAX],
    count: u8,
}

impl Peaks {
    pub fn iter(&self) -> impl Iterator<Item = (u16, u16)> {
        self.pairs.into_iter().take(usize::from(self.count))
    }

    /// One more row; a frequency of 65,535 stands for that and more.
    pub fn add(&mut self, frequency: u16, length: u16) {
        if self.iter().any(|(f, l)| f >= frequency && l <= length) {
            return;
        }
        let mut all = [(0, 0); PEAKS_MAX + 1];
        let mut count = 0;
        let left = self.iter().filter(|(f, l)| !(*f <= frequency && *l >= length));
        for pair in left.chain([(frequency, length)]) {
            all[count] = pair;
            count += 1;
        }
        all[..count].sort_unstable_by(|a, b| b.cmp(a));
        if count > PEAKS_MAX {
            // The two whose frequencies are most alike.
            let ratio = |at: &usize| f64::from(all[*at].0) / f64::from(all[at + 1].0.max(1));
            let at = (0..PEAKS_MAX)
                .min_by(|a, b| ratio(a).total_cmp(&ratio(b)))
                .unwrap_or(0);
            all[at].1 = all[at + 1].1;
            all.copy_within(at + 2.., at + 1);
            count -= 1;
        }
        self.pairs.copy_from_slice(&all[..PEAKS_MAX]);
        self.count = count as u8;
    }

    fn merge(&mut self, other: &Peaks) {
        other
            .iter()
            .for_each(|(frequency, length)| self.add(frequency, length));
    }

    pub fn push_le(&self, out: &mut Vec<u8>) {
        for (frequency, length) in self.iter() {
            out.extend_from_slice(&frequency.to_le_bytes());
            out.extend_from_slice(&length.to_le_bytes());
        }
    }

    /// Of pairs of 4 bytes.
    pub fn parse_le(bytes: &[u8]) -> Option<Peaks> {
        let (pairs, []) = bytes.as_chunks::<4>() else {
            return None;
        };
        let mut peaks = Peaks::default();
        if pairs.is_empty() || pairs.len() > PEAKS_MAX {
            return None;
        }
        for (to, [a, b, c, d]) in peaks.pairs.iter_mut().zip(pairs) {
            *to = (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
        }
        peaks.count = pairs.len() as u8;
        Some(peaks)
    }
}

/// What is known of a packed block.
#[derive(Debug, Clone, Copy, Default)]
pub struct Head {
    pub last: u32,
    pub peaks: Peaks,
    bits: [u32; 2],
    /// Its bytes within the part.
    at: usize,
}

/// A part's directory: what `heads` says of bytes that stand elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct Directory {
    heads: [Head; BLOCKS_MAX],
    packed: usize,
    rest_at: usize,
    has_rest: bool,
}

/// Rows and frequencies of a block.
#[derive(Debug, Clone)]
pub struct Decoded {
    pub rows: [u32; BLOCK],
    pub frequencies: [u32; BLOCK],
    pub count: usize,
}

impl Default for Decoded {
    fn default() -> Decoded {
        Decoded {
            rows: [0; BLOCK],
            frequencies: [0; BLOCK],
            count: 0,
        }
    }
}

impl Directory {
    pub fn parse(bytes: &[u8]) -> Option<Directory> {
        let (&packed, mut rest) = bytes.split_first()?;
        let mut directory = Directory {
            packed: usize::from(packed),
            ..Directory::default()
        };
        for head in directory.heads.get_mut(..usize::from(packed))? {
            let (last, after) = rest.split_first_chunk::<4>()?;
            let (&[distance, frequency, peaks], after) = after.split_first_chunk::<3>()?;
            let (peaks, after) = after.split_at_checked(4 * usize::from(peaks))?;
            rest = after;
            *head = Head {
                last: u32::from_le_bytes(*last),
                peaks: Peaks::parse_le(peaks)?,
                bits: [distance.into(), frequency.into()],
                at: 0,
            };
        }
        let mut at = bytes.len() - rest.len();
        for head in &mut directory.heads[..usize::from(packed)] {
            head.at = at;
            at += packed_bytes(head.bits[0]) + packed_bytes(head.bits[1]);
        }
        directory.rest_at = at;
        directory.has_rest = bytes.len() > at;
        (at <= bytes.len()).then_some(directory)
    }

    /// Blocks, the rest among them.
    pub fn blocks(&self) -> usize {
        self.packed + usize::from(self.has_rest)
    }

    /// `None` of the rest: nothing is known of it but what is known of the part.
    pub fn head(&self, block: usize) -> Option<&Head> {
        self.heads[..self.packed].get(block)
    }

    /// The rows of a block of the part that begins at `first`; `None`: the bytes are no list of rows below `rows`.
    pub fn rows(
        &self,
        block: usize,
        bytes: &[u8],
        (first, rows): (u32, u32),
        out: &mut Decoded,
    ) -> Option<()> {
        let before = block
            .checked_sub(1)
            .map_or(first, |before| self.heads[before.min(BLOCKS_MAX - 1)].last);
        let Some(head) = self.head(block) else {
            return self.rest(bytes, (before, rows), out);
        };
        unpack(bytes.get(head.at..)?, head.bits[0], &mut out.rows)?;
        let mut row = before;
        for distance in &mut out.rows {
            row = row.wrapping_add(*distance);
            *distance = row;
        }
        out.count = BLOCK;
        (row == head.last && row < rows).then_some(())
    }

    /// The frequencies of a block whose rows were decoded.
    pub fn frequencies(&self, block: usize, bytes: &[u8], out: &mut Decoded) -> Option<()> {
        // Those of the rest came with its rows.
        let Some(head) = self.head(block) else {
            return Some(());
        };
        unpack(
            bytes.get(head.at + packed_bytes(head.bits[0])..)?,
            head.bits[1],
            &mut out.frequencies,
        )?;
        for frequency in &mut out.frequencies {
            *frequency = frequency.wrapping_add(1);
        }
        Some(())
    }

    fn rest(&self, bytes: &[u8], (before, rows): (u32, u32), out: &mut Decoded) -> Option<()> {
        let mut bytes = bytes.get(self.rest_at..)?;
        let (mut row, mut count) = (before, 0);
        while !bytes.is_empty() {
            row = row.checked_add(varint(&mut bytes)?).filter(|&row| row < rows)?;
            *out.rows.get_mut(count)? = row;
            out.frequencies[count] = varint(&mut bytes)?;
            count += 1;
        }
        out.count = count;
        Some(())
    }

    /// Of a part's positions those from a block on.
    pub fn positions_of<'b>(&self, block: usize, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (starts, _) = bytes.as_chunks::<4>();
        let start = u32::from_le_bytes(*starts.get(..self.blocks())?.get(block)?);
        bytes.get(start as usize..)
    }

    /// Appends the positions of a block's row; false: they aren't kept.
    pub fn positions(
        &self,
        block: usize,
        at: usize,
        decoded: &Decoded,
        bytes: &[u8],
        out: &mut Vec<u32>,
    ) -> Option<bool> {
        let kept = |frequency: u32| if frequency > POSITIONS_MAX { 0 } else { frequency };
        let before = decoded
            .frequencies
            .get(..at)?
            .iter()
            .map(|&frequency| kept(frequency));
        let mut rest = skip_varints(self.positions_of(block, bytes)?, before.sum())?;
        let frequency = *decoded.frequencies.get(at)?;
        let mut position = 0u32;
        for _ in 0..kept(frequency) {
            position = position.checked_add(varint(&mut rest)?)?;
            out.push(position);
        }
        Some(frequency <= POSITIONS_MAX)
    }
}

/// A part that is full, or the last of its word.
pub struct Written<'a> {
    pub first_row: u32,
    pub rows: u16,
    pub peaks: Peaks,
    pub bytes: &'a [u8],
    pub positions: &'a [u8],
}

/// Makes parts of a word's postings, which come in the order of their rows.
#[derive(Default)]
pub struct PartWriter {
    /// Of the block under way.
    rows: Vec<u32>,
    frequencies: Vec<u32>,
    peaks: Peaks,
    positions: Vec<u8>,
    /// Of the part under way.
    part: Part,
    bytes: Vec<u8>,
    all_positions: Vec<u8>,
}

#[derive(Default)]
struct Part {
    first_row: Option<u32>,
    last_row: u32,
    rows: u16,
    peaks: Peaks,
    blocks: u8,
    heads: Vec<u8>,
    data: Vec<u8>,
    starts: Vec<u32>,
    positions: Vec<u8>,
}

impl PartWriter {
    /// The next row of the word. `positions`: as varints. A part that is full goes to `each`.
    pub fn push<E>(
        &mut self,
        (row, frequency, length): (u32, u32, u16),
        positions: &[u8],
        each: &mut dyn FnMut(Written<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.rows.push(row);
        self.frequencies.push(frequency);
        self.peaks.add(frequency.min(u32::from(u16::MAX)) as u16, length);
        self.positions.extend_from_slice(positions);
        match self.rows.len() == BLOCK {
            true => self.end_block(each),
            false => Ok(()),
        }
    }

    /// The word's last row was pushed.
    pub fn end<E>(&mut self, each: &mut dyn FnMut(Written<'_>) -> Result<(), E>) -> Result<(), E> {
        if !self.rows.is_empty() {
            let mut rest = self.rest();
            if self.part.first_row.is_some() && self.part.bytes() + rest.len() > PART_BYTES {
                self.end_part(each)?;
                rest = self.rest();
            }
            self.part.data.extend_from_slice(&rest);
            self.enter();
        }
        self.end_part(each)
    }

    fn end_block<E>(&mut self, each: &mut dyn FnMut(Written<'_>) -> Result<(), E>) -> Result<(), E> {
        let full = |part: &Part, more: usize| {
            usize::from(part.blocks) == BLOCKS_MAX
                || part.bytes() + more > PART_BYTES
                || part.positions.len() > POSITIONS_BYTES
        };
        let frequencies: [u32; BLOCK] = std::array::from_fn(|at| self.frequencies[at] - 1);
        let mut distances = self.distances();
        let more = |distances: &[u32]| {
            let bits = [bits_of(distances), bits_of(&frequencies)];
            (bits, 24 + packed_bytes(bits[0]) + packed_bytes(bits[1]))
        };
        if self.part.first_row.is_some() && full(&self.part, more(&distances).1) {
            self.end_part(each)?;
            distances = self.distances();
        }
        let (bits, _) = more(&distances);
        let part = &mut self.part;
        let last = self.rows[BLOCK - 1];
        part.heads.extend_from_slice(&last.to_le_bytes());
        part.heads
            .extend_from_slice(&[bits[0] as u8, bits[1] as u8, self.peaks.count]);
        self.peaks.push_le(&mut part.heads);
        pack(&distances, bits[0], &mut part.data);
        pack(&frequencies, bits[1], &mut part.data);
        part.blocks += 1;
        self.enter();
        Ok(())
    }

    /// Distances of the block's rows, each from the one before.
    fn distances(&self) -> [u32; BLOCK] {
        let before = self.part.first_row.map_or(self.rows[0], |_| self.part.last_row);
        std::array::from_fn(|at| self.rows[at] - at.checked_sub(1).map_or(before, |at| self.rows[at]))
    }

    fn rest(&self) -> Vec<u8> {
        let mut rest = Vec::with_capacity(4 * self.rows.len());
        let mut before = self.part.first_row.map_or(self.rows[0], |_| self.part.last_row);
        for (&row, &frequency) in self.rows.iter().zip(&self.frequencies) {
            push_varint(row - before, &mut rest);
            push_varint(frequency, &mut rest);
            before = row;
        }
        rest
    }

    /// The block under way is in the part's bytes; what is known of it becomes the part's too.
    fn enter(&mut self) {
        let part = &mut self.part;
        part.first_row.get_or_insert(self.rows[0]);
        part.last_row = self.rows[self.rows.len() - 1];
        part.rows += self.rows.len() as u16;
        part.peaks.merge(&self.peaks);
        part.starts.push(part.positions.len() as u32);
        part.positions.extend_from_slice(&self.positions);
        self.rows.clear();
        self.frequencies.clear();
        self.positions.clear();
        self.peaks = Peaks::default();
    }

    fn end_part<E>(&mut self, each: &mut dyn FnMut(Written<'_>) -> Result<(), E>) -> Result<(), E> {
        let part = &mut self.part;
        let Some(first_row) = part.first_row.take() else {
            return Ok(());
        };
        self.bytes.clear();
        self.bytes.push(part.blocks);
        self.bytes.extend_from_slice(&part.heads);
        self.bytes.extend_from_slice(&part.data);
        self.all_positions.clear();
        let head = 4 * part.starts.len() as u32;
        for start in &part.starts {
            self.all_positions
                .extend_from_slice(&(head + start).to_le_bytes());
        }
        self.all_positions.extend_from_slice(&part.positions);
        let written = Written {
            first_row,
            rows: part.rows,
            peaks: part.peaks,
            bytes: &self.bytes,
            positions: &self.all_positions,
        };
        each(written)?;
        (part.rows, part.blocks, part.peaks) = (0, 0, Peaks::default());
        part.heads.clear();
        part.data.clear();
        part.starts.clear();
        part.positions.clear();
        Ok(())
    }
}

impl Part {
    fn bytes(&self) -> usize {
        1 + self.heads.len() + self.data.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (row, frequency, length, positions)
    type Posting = (u32, u32, u16, Vec<u32>);

    fn postings(count: u32, step: u32) -> Vec<Posting> {
        let mut random = 5u32;
        let mut next = move |below: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) % below
        };
        let mut row = 3;
        let mut one = |_| {
            row += 1 + next(step);
            let frequency = if next(50) == 0 { 300 } else { 1 + next(4) };
            let kept = if frequency > POSITIONS_MAX { 0 } else { frequency };
            let positions = (0..kept).map(|at| 7 * at + next(7)).collect();
            (row, frequency, 5 + next(200) as u16, positions)
        };
        (0..count).map(&mut one).collect()
    }

    fn parts(postings: &[Posting]) -> Vec<(u32, u16, Peaks, Vec<u8>, Vec<u8>)> {
        let (mut writer, mut parts) = (PartWriter::default(), Vec::new());
        let mut each = |part: Written<'_>| -> Result<(), ()> {
            parts.push((
                part.first_row,
                part.rows,
                part.peaks,
                part.bytes.to_vec(),
                part.positions.to_vec(),
            ));
            Ok(())
        };
        for (row, frequency, length, positions) in postings {
            let (mut bytes, mut before) = (Vec::new(), 0);
            for position in positions {
                push_varint(position - before, &mut bytes);
                before = *position;
            }
            writer
                .push((*row, *frequency, *length), &bytes, &mut each)
                .expect("pushed");
        }
        writer.end(&mut each).expect("ended");
        parts
    }

    #[test]
    fn what_is_written_is_read() {
        for (count, step) in [
            (1, 5),
            (127, 9),
            (128, 1),
            (129, 300),
            (1024, 3),
            (1030, 1 << 20),
            (5000, 40),
        ] {
            let all = postings(count, step);
            let mut seen = Vec::new();
            for (first, rows, peaks, bytes, positions) in parts(&all) {
                assert!(bytes.len() <= PART_BYTES + 4);
                let directory = Directory::parse(&bytes).expect("a directory");
                let (mut decoded, before) = (Decoded::default(), seen.len());
                for block in 0..directory.blocks() {
                    directory
                        .rows(block, &bytes, (first, u32::MAX), &mut decoded)
                        .expect("rows");
                    directory
                        .frequencies(block, &bytes, &mut decoded)
                        .expect("frequencies");
                    for at in 0..decoded.count {
                        let mut found = Vec::new();
                        let known = directory.positions(block, at, &decoded, &positions, &mut found);
                        let (row, frequency) = (decoded.rows[at], decoded.frequencies[at]);
                        assert_eq!(known, Some(frequency <= POSITIONS_MAX));
                        let length = all[seen.len()].2;
                        let outdone = |peaks: &Peaks| {
                            peaks
                                .iter()
                                .any(|(f, l)| u32::from(f) >= frequency && l <= length)
                        };
                        assert!(
                            outdone(&peaks) && directory.head(block).is_none_or(|head| outdone(&head.peaks))
                        );
                        seen.push((row, frequency, length, found));
                    }
                }
                assert_eq!(seen.len() - before, usize::from(rows));
                assert_eq!(seen[before].0, first);
            }
            assert_eq!(seen, all);
        }
    }

    #[test]
    fn lists_that_lie_are_noticed() {
        let (first, _, _, bytes, positions) = parts(&postings(300, 9)).swap_remove(0);
        let directory = Directory::parse(&bytes).expect("a directory");
        let mut decoded = Decoded::default();
        let last = directory.head(0).expect("a packed block").last;
        assert!(
            directory.rows(0, &bytes, (first, last), &mut decoded).is_none(),
            "a row beyond the segment"
        );
        assert!(
            directory
                .rows(0, &bytes, (first + 1, u32::MAX), &mut decoded)
                .is_none(),
            "another last row"
        );
        assert!(
            directory
                .rows(2, &bytes[..bytes.len() - 1], (first, u32::MAX), &mut decoded)
                .is_none()
        );
        directory
            .rows(0, &bytes, (first, u32::MAX), &mut decoded)
            .expect("rows");
        directory
            .frequencies(0, &bytes, &mut decoded)
            .expect("frequencies");
        assert!(
            directory
                .positions(0, 5, &decoded, &positions[..8], &mut Vec::new())
                .is_none()
        );
        for cut in [0, 1, 6, 12, 40] {
            assert!(Directory::parse(&bytes[..cut]).is_none(), "{cut} bytes");
        }
        assert!(
            Directory::parse(&[9; 400]).is_none(),
            "more blocks than there can be"
        );
    }

    #[test]
    fn peaks_outdo_all_and_stay_few() {
        let mut peaks = Peaks::default();
        let all: Vec<(u16, u16)> = (1..40).map(|n| (n, 10 * n)).chain([(3, 5), (3, 500)]).collect();
        all.iter()
            .for_each(|(frequency, length)| peaks.add(*frequency, *length));
        assert!(peaks.iter().count() <= PEAKS_MAX);
        for (frequency, length) in all {
            assert!(
                peaks.iter().any(|(f, l)| f >= frequency && l <= length),
                "{frequency} {length}"
            );
        }
        let mut bytes = Vec::new();
        peaks.push_le(&mut bytes);
        assert_eq!(Peaks::parse_le(&bytes), Some(peaks));
        assert_eq!(Peaks::parse_le(&bytes[1..]), None);
    }
}
