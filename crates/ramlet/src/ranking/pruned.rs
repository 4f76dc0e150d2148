//! Pruned ranking: finds rows that may be among the best by going through the words' posting lists in parallel.
//!
//! Words that together can't lift a row among the best bring no row, they only add to those that others bring (MaxScore: Turtle and Flood 1995); and intervals in
//! which the words that bring rows can't add enough are passed over undecoded (block-max indexes: Ding and Suel 2011). What an interval can add is worked out
//! with the query's own `k` and `b`. A row's parts are added in the order in which everything else adds them, so its score is the same to the bit.

use ramlet_index::TopK;
use ramlet_memory::AnonBuf;

use super::bm25::Weights;
use super::cursor::{CachedViews, Cursor, END, LengthsOf, Reading, bounds_of};
use super::posting_lists::{Eligible, PostingLists, bound};
use super::words::Words;
use crate::error::Result;
use crate::read::lookup::Lookup;
use crate::request::Explained;
use crate::segment::TextColumn;

/// A segment's search under way.
struct Pruned<'a, 'e> {
    eligible: &'e Eligible<'e>,
    weights: &'a Weights,
    /// Scored ones in the order in which their parts are added, then those that are only required.
    cursors: Vec<Cursor<'a>>,
    scored: usize,
    /// By cursor: what it adds to a row at most.
    most: Vec<f64>,
    /// Cursors of words that every row must have, the shortest list first.
    required: Vec<usize>,
    /// Cursors of words that must follow one another.
    phrases: Vec<Vec<(usize, u32)>>,
    have_slop: bool,
    lengths: LengthsOf<'a>,
}

/// What changes beside the cursors.
struct State<'a> {
    lookup: &'a mut Lookup,
    /// Of the lists.
    buf: AnonBuf,
    top: &'a mut TopK,
    found: &'a mut Explained,
    places: [Vec<u32>; 2],
}

impl State<'_> {
    fn may_enter(&self, sum: f64, row: u32) -> bool {
        self.top.would_enter(bound(sum, 0.0), row)
    }

    fn reading(&mut self) -> Reading<'_> {
        Reading {
            io: &mut self.lookup.io,
            buf: &mut self.buf,
        }
    }
}

/// Offers `top` the rows that may be hits; nothing where a word that is required has no list.
pub fn rank_pruned(
    eligible: &Eligible<'_>,
    words: &Words<'_>,
    (column, lists, weights): (&TextColumn, &PostingLists, &Weights),
    (lookup, found): (&mut Lookup, &mut Explained),
    top: &mut TopK,
) -> Result<()> {
    found.strategy = "lists";
    let all_parts: u64 = lists.parts.iter().map(|parts| parts.len() as u64).sum();
    let held = words.len() as u64 * Cursor::BYTES + LengthsOf::BYTES + 8 * all_parts;
    let _held = lookup.rare.reserve(held)?;
    let weight = |place: usize| weights.terms().get(place).copied();
    let bounds: Vec<Vec<f64>> = (0..words.len())
        .map(|place| bounds_of(&lists.parts[place], weight(place).unwrap_or(0.0), weights))
        .collect();
    let scored = weights
        .order()
        .iter()
        .copied()
        .filter(|&place| !lists.parts[place].is_empty());
    let mut places: Vec<usize> = scored.collect();
    let scored = places.len();
    places.extend(weights.terms().len()..words.len());
    let rows = eligible.rows_of_segment();
    let views = CachedViews::of(column);
    let cursor = |&place: &usize| {
        let list = (&lists.parts[place][..], &bounds[place][..]);
        Cursor::new((column, &views), list, weight(place).unwrap_or(0.0), rows)
    };
    let cursor_of = |place: &usize| places.iter().position(|known| known == place);
    let Some(required) = words
        .required
        .iter()
        .map(cursor_of)
        .collect::<Option<Vec<usize>>>()
    else {
        return Ok(());
    };
    let phrases = words.phrases.iter().map(|phrase| {
        let places = phrase.iter();
        places
            .filter_map(|(place, distance)| Some((cursor_of(place)?, *distance)))
            .collect()
    });
    let mut search = Pruned {
        eligible,
        weights,
        cursors: places.iter().map(cursor).collect(),
        scored,
        most: places
            .iter()
            .map(|&place| bounds[place].iter().copied().fold(0.0, f64::max))
            .collect(),
        required,
        phrases: phrases.collect(),
        have_slop: words.have_slop,
        lengths: LengthsOf::new(column, rows),
    };
    let cursors = &search.cursors;
    search.required.sort_by_key(|&at| cursors[at].len());
    let buf = lookup.take_lists()?;
    let mut state = State {
        lookup: &mut *lookup,
        buf,
        top,
        found,
        places: Default::default(),
    };
    // Of each list the first part is needed, whatever comes.
    let begins = places.iter().filter_map(|&place| lists.parts[place].first());
    let mut begins: Vec<u32> = begins.map(|part| part.record).collect();
    begins.sort_unstable();
    let ranked = search.run(&begins, column, &mut state);
    let buf = state.buf;
    lookup.keep_lists(buf);
    ranked
}

impl Pruned<'_, '_> {
    fn run(&mut self, begins: &[u32], column: &TextColumn, state: &mut State<'_>) -> Result<()> {
        let Reading { io, buf } = state.reading();
        column.lists.read_ahead(begins, io, buf)?;
        match self.required.is_empty() {
            true => self.any(state),
            false => self.all(state),
        }
    }

    /// Rows with any of the words.
    fn any(&mut self, state: &mut State<'_>) -> Result<()> {
        let count = self.cursors.len();
        // What the words from each on add at most.
        let mut rest = vec![0.0; count + 1];
        for at in (0..count).rev() {
            rest[at] = rest[at + 1] + self.most[at];
        }
        let (mut bringing, mut target) = (count, 0);
        loop {
            while bringing > 0 && !state.may_enter(rest[bringing - 1], target) {
                bringing -= 1;
            }
            if bringing == 0 {
                return Ok(());
            }
            let (may, end) = self.interval(bringing, rest[bringing], target, state)?;
            if may {
                match bringing {
                    1 => self.one_brings((target, end), &rest, state)?,
                    _ => self.some_bring(bringing, (target, end), &rest, state)?,
                }
            }
            if end == END {
                return Ok(());
            }
            target = end + 1;
        }
    }

    /// Whether a row of an interval from `target` on may enter, and where the interval ends: by parts, then by blocks.
    fn interval(
        &mut self,
        bringing: usize,
        rest: f64,
        target: u32,
        state: &mut State<'_>,
    ) -> Result<(bool, u32)> {
        let (mut sum, mut end) = (rest, END);
        for cursor in &mut self.cursors[..bringing] {
            let (most, last) = cursor.part_bound(target);
            sum += most;
            end = end.min(last);
        }
        if !state.may_enter(sum, target) {
            return Ok((false, end));
        }
        (sum, end) = (rest, END);
        for cursor in &mut self.cursors[..bringing] {
            let (most, last) = cursor.block_bound(target, self.weights, &mut state.reading())?;
            sum += most;
            end = end.min(last);
        }
        Ok((state.may_enter(sum, target), end))
    }

    /// Rows of the first word.
    fn one_brings(&mut self, (from, to): (u32, u32), rest: &[f64], state: &mut State<'_>) -> Result<()> {
        let mut row = self.cursors[0].seek(from, &mut state.reading())?;
        while row <= to && row != END {
            let length = self.lengths.get(row, &mut state.reading())?;
            let first = &mut self.cursors[0];
            self.lengths.prefetch(first.row_ahead());
            let sum = self.weights.part(first.weight(), first.frequency()?, length);
            state.found.codes_scanned += 1;
            if state.may_enter(sum + rest[1], row) {
                self.complete((row, length, sum), 1, rest, state)?;
            }
            row = self.cursors[0].next(&mut state.reading())?;
        }
        Ok(())
    }

    /// Rows of the first words, of any.
    fn some_bring(
        &mut self,
        bringing: usize,
        (from, to): (u32, u32),
        rest: &[f64],
        state: &mut State<'_>,
    ) -> Result<()> {
        let mut row = END;
        for cursor in &mut self.cursors[..bringing] {
            row = row.min(cursor.seek(from, &mut state.reading())?);
        }
        while row <= to && row != END {
            let length = self.lengths.get(row, &mut state.reading())?;
            let (mut sum, mut next) = (0.0, END);
            for cursor in &mut self.cursors[..bringing] {
                if cursor.row() == row {
                    sum += self.weights.part(cursor.weight(), cursor.frequency()?, length);
                    state.found.codes_scanned += 1;
                    cursor.next(&mut state.reading())?;
                    self.lengths.prefetch(cursor.row_ahead());
                }
                next = next.min(cursor.row());
            }
            if state.may_enter(sum + rest[bringing], row) {
                self.complete((row, length, sum), bringing, rest, state)?;
            }
            row = next;
        }
        Ok(())
    }

    /// Adds what the words from `from` on have of a row, as long as it may enter, and offers it.
    fn complete(
        &mut self,
        (row, length, mut sum): (u32, u64, f64),
        from: usize,
        rest: &[f64],
        state: &mut State<'_>,
    ) -> Result<()> {
        for (at, cursor) in self.cursors.iter_mut().enumerate().skip(from) {
            if !state.may_enter(sum + rest[at], row) {
                return Ok(());
            }
            if cursor.seek(row, &mut state.reading())? == row {
                sum += self.weights.part(cursor.weight(), cursor.frequency()?, length);
                state.found.codes_scanned += 1;
            }
        }
        self.offer(row, sum, state)
    }

    /// Rows with all words that are required, and any of those that score.
    fn all(&mut self, state: &mut State<'_>) -> Result<()> {
        if self.scored == 0 {
            return Ok(());
        }
        let (mut target, mut known_to) = (0, None);
        'rows: loop {
            if known_to.is_none_or(|end| target > end) {
                let (may, end) = self.interval_of_all(target, state)?;
                if !may {
                    if end == END {
                        return Ok(());
                    }
                    target = end + 1;
                    continue;
                }
                known_to = Some(end);
            }
            let mut row = target;
            for at in 0..self.required.len() {
                let found = self.cursors[self.required[at]].seek(row, &mut state.reading())?;
                if found == END {
                    return Ok(());
                }
                if at == 0 {
                    row = found;
                }
                if found != row || known_to.is_some_and(|end| row > end) {
                    target = found;
                    continue 'rows;
                }
            }
            self.score(row, state)?;
            target = row + 1;
        }
    }

    /// As [`Pruned::interval`], of the words that are required.
    fn interval_of_all(&mut self, target: u32, state: &mut State<'_>) -> Result<(bool, u32)> {
        for by_blocks in [false, true] {
            let (mut sum, mut end) = (0.0, END);
            for at in 0..self.scored {
                if !self.required.contains(&at) {
                    sum += self.most[at];
                    continue;
                }
                let cursor = &mut self.cursors[at];
                let (most, last) = match by_blocks {
                    true => cursor.block_bound(target, self.weights, &mut state.reading())?,
                    false => cursor.part_bound(target),
                };
                sum += most;
                end = end.min(last);
            }
            let may = state.may_enter(sum, target);
            if by_blocks || !may {
                return Ok((may, end));
            }
        }
        unreachable!("blocks are the last that is looked at")
    }

    /// A row that has all words that are required.
    fn score(&mut self, row: u32, state: &mut State<'_>) -> Result<()> {
        let length = self.lengths.get(row, &mut state.reading())?;
        let (mut sum, mut is_met) = (0.0, false);
        for cursor in &mut self.cursors[..self.scored] {
            if cursor.seek(row, &mut state.reading())? == row {
                sum += self.weights.part(cursor.weight(), cursor.frequency()?, length);
                state.found.codes_scanned += 1;
                is_met = true;
            }
        }
        match is_met {
            true => self.offer(row, sum, state),
            false => Ok(()),
        }
    }

    fn offer(&mut self, row: u32, sum: f64, state: &mut State<'_>) -> Result<()> {
        state.found.rows_scored += 1;
        let distance = -(sum as f32);
        if !state.top.would_enter(distance, row) || !self.eligible.is_there(row) {
            return Ok(());
        }
        state.found.rows_checked += 1;
        let is_known = match self.has_phrases(state)? {
            Some(false) => return Ok(()),
            known => known.is_some(),
        };
        let Lookup { io, buf, .. } = &mut *state.lookup;
        let matches = match is_known {
            true => self.eligible.matches(row, io, buf)?,
            false => self.eligible.matches_all(row, io, buf)?,
        };
        if matches {
            state.top.push(distance, row);
        }
        Ok(())
    }

    /// Whether the text of the row at which the cursors stand has the phrases; `None`: that isn't known.
    fn has_phrases(&mut self, state: &mut State<'_>) -> Result<Option<bool>> {
        if self.have_slop {
            return Ok(None);
        }
        let [here, before] = &mut state.places;
        let mut reading = Reading {
            io: &mut state.lookup.io,
            buf: &mut state.buf,
        };
        for phrase in &self.phrases {
            for &(at, distance) in phrase {
                if !self.cursors[at].positions(here, &mut reading)? {
                    return Ok(None);
                }
                // Where the phrase may begin.
                if distance == 0 {
                    std::mem::swap(here, before);
                } else {
                    before.retain(|start| here.binary_search(&start.saturating_add(distance)).is_ok());
                }
                if before.is_empty() {
                    return Ok(Some(false));
                }
            }
        }
        Ok(Some(true))
    }
}
