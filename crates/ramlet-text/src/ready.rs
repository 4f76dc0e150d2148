//! Getting ready: finding out which slices a query needs, and having them where tantivy will look.

use std::sync::Arc;

use ramlet_memory::Reservation;
use tantivy::postings::TermInfo;

use crate::cache::{Slice, SliceKey};
use crate::container::Section;
use crate::directory::{Pin, Pinned};
use crate::error::{Result, TextError};
use crate::guard::callers;
use crate::index::TextIndex;
use crate::ranges::{RangeRead, Ranges};

/// tantivy's lists begin after the number of tokens.
const POSTINGS_START: u64 = 8;

/// A query's slices, pinned to this thread until dropped.
pub(crate) struct Ready {
    _pinned: Pinned,
    /// Reserved as long as they are pinned.
    _slices: Vec<Arc<Slice>>,
}

/// A slice that has to be read.
struct Miss {
    key: SliceKey,
    section: Section,
    bytes: Vec<u8>,
    reservation: Reservation,
}

impl TextIndex {
    /// Has the lists of `terms` at hand, and their positions if `positions`: from the cache, or in one batch of reads.
    pub(crate) fn ready(
        &self,
        terms: &[TermInfo],
        positions: bool,
        ranges: &mut dyn Ranges,
    ) -> Result<Ready> {
        let (mut slices, mut pins, mut misses) = (Vec::new(), Vec::new(), Vec::<Miss>::new());
        for (section, start, len) in self.wanted(terms, positions) {
            let whole = self.info.length(section);
            if start.checked_add(len).is_none_or(|end| end > whole) {
                return Err(TextError::Format(format!(
                    "a list of {len} bytes from {start} in a section of {whole}"
                )));
            }
            let key = SliceKey {
                index: self.number,
                offset: self.files[section as usize].1 + start,
            };
            if misses.iter().any(|miss| miss.key == key) {
                continue;
            }
            match self.cache.get(key) {
                Some(slice) => {
                    pins.push(self.pin(section, key, &slice));
                    slices.push(slice);
                }
                None => misses.push(Miss {
                    key,
                    section,
                    reservation: self.cache.room(len as usize)?,
                    bytes: vec![0; len as usize],
                }),
            }
        }
        if !misses.is_empty() {
            let mut reads: Vec<RangeRead> = misses
                .iter_mut()
                .map(|miss| RangeRead {
                    offset: miss.key.offset,
                    out: &mut miss.bytes,
                })
                .collect();
            callers(|| ranges.read(&mut reads))?;
        }
        for miss in misses {
            let slice = self.cache.keep(miss.key, miss.bytes, miss.reservation);
            pins.push(self.pin(miss.section, miss.key, &slice));
            slices.push(slice);
        }
        Ok(Ready {
            _pinned: Pinned::new(pins),
            _slices: slices,
        })
    }

    /// Section, begin in it, and length of all slices that aren't held.
    fn wanted<'a>(
        &self,
        terms: &'a [TermInfo],
        positions: bool,
    ) -> impl Iterator<Item = (Section, u64, u64)> + use<'a> {
        let hold = self.hold;
        let sections = [Section::Postings, Section::Positions];
        let sections = sections
            .into_iter()
            .filter(move |section| !hold.holds(*section) && (positions || *section == Section::Postings));
        sections
            .flat_map(move |section| {
                terms.iter().map(move |term| match section {
                    Section::Positions => (section, &term.positions_range, 0),
                    _ => (section, &term.postings_range, POSTINGS_START),
                })
            })
            .map(|(section, range, base)| {
                (
                    section,
                    base.saturating_add(range.start as u64),
                    range.len() as u64,
                )
            })
    }

    fn pin(&self, section: Section, key: SliceKey, slice: &Slice) -> Pin {
        let (file, base) = self.files[section as usize];
        Pin {
            file,
            start: (key.offset - base) as usize,
            bytes: slice.bytes.clone(),
        }
    }
}
