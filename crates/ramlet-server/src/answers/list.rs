//! The points of an answer on their way out: one list, or several behind each other with something between them, as of a batch or of groups.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use ramlet::{Record, Scratch};
use ramlet_memory::{Consumer, OverBudget};

use super::out::Out;
use super::portions::{Next, Portions, needs_written, record_bytes};
use crate::error::{ApiError, ApiResult};
use crate::limits::LIST_PART_BYTES;
use crate::observability::steps::Steps;
use crate::request::growing_reservation::GrowingReservation;
use crate::wire::explain::beside_result;

/// What isn't written yet of an answer's points, and what closes it.
pub struct List {
    parts: VecDeque<Part>,
    /// What stands behind all points.
    pub end: &'static str,
    /// Tells how it was done behind the rest: as of one search, or of each of a batch.
    pub explained: Option<(Arc<Steps>, bool)>,
    /// Of the account of streams, until the end: the points without their payloads and vectors.
    held: GrowingReservation,
    from: Consumer,
}

/// Points in a row: `before[..]after`.
struct Part {
    before: Cow<'static, str>,
    portions: Portions,
    /// Stands behind the points as `,"lookup":..`.
    lookup: Option<Record>,
    after: Cow<'static, str>,
    /// What stands before them is written.
    is_open: bool,
}

impl List {
    /// Without any points yet. `held` does for those that are found first.
    pub fn new(held: GrowingReservation, from: &Consumer) -> List {
        List {
            parts: VecDeque::new(),
            end: "",
            explained: None,
            held,
            from: from.clone(),
        }
    }

    /// Makes sure of memory for the points that are found next.
    pub fn make_room(&mut self, bytes: u64) -> ApiResult<()> {
        let all = self.bytes().saturating_add(bytes);
        self.held.at_least(all, &self.from).map_err(told)
    }

    /// Adds points that there is room for.
    pub fn push(
        &mut self,
        before: impl Into<Cow<'static, str>>,
        portions: Portions,
        after: impl Into<Cow<'static, str>>,
    ) {
        self.push_with(before, portions, None, after);
    }

    /// The same, and a point of another collection that stands beside them.
    pub fn push_with(
        &mut self,
        before: impl Into<Cow<'static, str>>,
        portions: Portions,
        lookup: Option<Record>,
        after: impl Into<Cow<'static, str>>,
    ) {
        self.parts.push_back(Part {
            before: before.into(),
            portions,
            lookup,
            after: after.into(),
            is_open: false,
        });
    }

    /// Gives back what was taken for points that aren't there, or takes what is lacking.
    pub fn fit(&mut self) -> ApiResult<()> {
        if self.parts.len() > 1 {
            self.make_room(0)?;
        }
        self.held.shrink_to(self.bytes());
        Ok(())
    }

    /// Bytes of the points that are left, without payloads and vectors.
    fn bytes(&self) -> u64 {
        let parts: u64 = self.parts.iter().map(Part::bytes).sum();
        // One is part of every answer.
        parts + self.parts.len().saturating_sub(1) as u64 * LIST_PART_BYTES
    }

    /// The collection whose points come next.
    pub fn collection_id(&self) -> Option<&str> {
        Some(self.parts.front()?.portions.collection_id())
    }

    /// The next portion. Nothing that was written is written again, whatever failed.
    pub fn write_next(&mut self, scratch: &mut Scratch, out: &mut Out) -> ApiResult<Next> {
        let mut begun = out.len();
        while let Some(part) = self.parts.front_mut() {
            let next = match part.write_next(&mut begun, scratch, out) {
                Ok(Next::Done) => {
                    self.parts.pop_front();
                    continue;
                }
                // With something to send it is tried again when that is on its way.
                Err(e) if e.retry_after.is_none() || out.len() == begun => return Err(e),
                Ok(Next::Short(bytes)) if out.len() == begun => Next::Short(bytes),
                _ => Next::More,
            };
            self.leave_found();
            return Ok(next);
        }
        Ok(Next::Done)
    }

    /// As much as is one portion, or all where that has to be in memory as a whole; false where there is more.
    pub fn write_now(&mut self, scratch: &mut Scratch, out: &mut Out) -> ApiResult<bool> {
        let is_full = |part: &Part| out.len() >= part.portions.full_bytes();
        let is_written = if out.comes_whole() {
            self.write_rest(scratch, out)?;
            true
        } else if self.parts.iter().any(is_full) {
            self.leave_found();
            false
        } else {
            self.write_next(scratch, out)? == Next::Done
        };
        scratch.settle();
        Ok(is_written)
    }

    /// What came with those that aren't written is in memory that the search's thread gives back.
    fn leave_found(&mut self) {
        self.parts.iter_mut().for_each(|part| part.portions.leave_found());
    }

    /// All that is left, which has to be in memory as a whole.
    pub fn write_rest(&mut self, scratch: &mut Scratch, out: &mut Out) -> ApiResult<()> {
        while let Some(mut part) = self.parts.pop_front() {
            part.open(out);
            part.portions.write_rest(scratch, out)?;
            part.close(out);
        }
        out.check()
    }

    /// What stands behind the points.
    pub fn end(&self, out: &mut Out) {
        out.raw(self.end);
        if let Some((steps, is_batch)) = &self.explained
            && steps.are_told()
        {
            out.raw(&beside_result(steps, *is_batch));
        }
    }

    /// Closes the list and the answer; false, with nothing written, where there is no memory for it.
    pub fn close(&self, out: &mut Out, begun: Instant) -> bool {
        let place = out.place();
        self.end(out);
        out.close(begun);
        !out.back_to(&place)
    }
}

impl Part {
    /// Without the points' payloads and vectors.
    fn bytes(&self) -> u64 {
        let text = (self.before.len() + self.after.len()) as u64;
        self.portions.listing_bytes() + text + self.lookup.as_ref().map_or(0, record_bytes)
    }

    fn open(&mut self, out: &mut Out) {
        if !std::mem::replace(&mut self.is_open, true) {
            out.raw(&self.before);
            out.raw("[");
        }
    }

    fn close(&self, out: &mut Out) {
        out.raw("]");
        if let Some(lookup) = &self.lookup {
            out.raw(",\"lookup\":");
            out.record(lookup);
        }
        self.portions.write_end(out);
        out.raw(&self.after);
    }

    /// Of a portion whose first point stands at `begun`, or behind what opens this part.
    fn write_next(&mut self, begun: &mut usize, scratch: &mut Scratch, out: &mut Out) -> ApiResult<Next> {
        if !self.is_open {
            let (is_first, place) = (out.len() == *begun, out.place());
            self.open(out);
            if out.back_to(&place) {
                self.is_open = false;
                return Ok(Next::Short(needs_written(self.before.len() as u64)));
            }
            if is_first {
                *begun = out.len();
            }
        }
        if out.len() >= self.portions.full_bytes() {
            return Ok(Next::More);
        }
        let next = self.portions.write_next(scratch, out)?;
        if next != Next::Done {
            return Ok(next);
        }
        let place = out.place();
        self.close(out);
        if out.back_to(&place) {
            return Ok(Next::Short(needs_written(self.bytes())));
        }
        out.check().map(|()| Next::Done)
    }
}

/// Points that wait to be sent are too many.
fn told(e: OverBudget) -> ApiError {
    let mut told = ApiError::from(e);
    told.message
        .push_str(". The response doesn't fit: ask for fewer points (limit), or for fewer searches at once");
    told
}
