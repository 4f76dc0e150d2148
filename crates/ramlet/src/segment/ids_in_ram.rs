//! What of a segment's ids is in RAM: ids and versions by row, and the filter of ids.
//!
//! Both spare reads: one a hit, and one an update of a new id. They are taken when the segment is opened. A segment that a job has just written may find no
//! room, because the job still holds its own, so an idle engine tries again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use ramlet_format::bloom::{Bloom, hash64};
use ramlet_format::manifest::FileEntry;
use ramlet_io::IoContext;
use ramlet_memory::Reservation;

use super::build;
use super::files::{FileContext, RowsFile, bad};
use super::numbers::{Packed, Packer};
use super::{names, read_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::types::PointId;

/// Ids aren't packed into less.
const NUMBERS_LEAST: u64 = 64 << 10;

/// Filled once, and then as it is for as long as the segment is open.
pub struct IdsInRam {
    /// `Some(None)`: some id isn't a number.
    numbers: OnceLock<Option<[Packed; 2]>>,
    filter: OnceLock<(Bloom, Reservation)>,
    filter_file: FileEntry,
    /// Room in which numbers found no place.
    tried: AtomicU64,
}

impl IdsInRam {
    /// Takes what there is room for.
    pub fn open(
        segment: u64,
        filter_file: &FileEntry,
        row_ids: &RowsFile,
        file_context: &FileContext,
        io: &mut IoContext,
    ) -> Result<IdsInRam> {
        let ids = IdsInRam {
            numbers: OnceLock::new(),
            filter: OnceLock::new(),
            filter_file: filter_file.clone(),
            tried: AtomicU64::new(0),
        };
        ids.take(segment, row_ids, file_context, io)?;
        Ok(ids)
    }

    fn lacks_numbers(&self, file_context: &FileContext) -> bool {
        // Twice as much as didn't do: not every time that somebody gives back a little.
        let least = NUMBERS_LEAST.max(2 * self.tried.load(Ordering::Relaxed));
        self.numbers.get().is_none() && file_context.spare_bytes() >= least
    }

    /// Bytes of the filter while it is read and parsed, where it isn't there but might be.
    fn lacking_filter(&self, file_context: &FileContext) -> Option<u64> {
        // Without it, ids are looked up in the table: a read more, nothing wrong. Not where that would be data which every search needs.
        let bytes = self.filter_file.bytes;
        let may_be = self.filter.get().is_none() && bytes <= file_context.caches.consumer.cap() / 24;
        may_be.then_some(2 * bytes)
    }

    /// Whether there is room now for what found none before.
    pub fn could_take(&self, file_context: &FileContext) -> bool {
        let room = file_context.spare_bytes();
        self.lacks_numbers(file_context)
            || self
                .lacking_filter(file_context)
                .is_some_and(|bytes| bytes <= room)
    }

    /// Takes what is missing and finds room; whether something came.
    pub fn take(
        &self,
        segment: u64,
        row_ids: &RowsFile,
        file_context: &FileContext,
        io: &mut IoContext,
    ) -> Result<bool> {
        let before = self.bytes();
        if let Some(mut held) = self
            .lacking_filter(file_context)
            .and_then(|bytes| file_context.spare(bytes))
        {
            let bytes = read_whole(file_context.storage.as_ref(), &self.filter_file)?;
            let seed = names::seed(segment, self.filter_file.component);
            let filter = Bloom::parse(seed, &bytes).map_err(|e| bad(&self.filter_file.name, e))?;
            held.shrink_to(filter.heap_bytes() as u64);
            let _ = self.filter.set((filter, held));
        }
        if self.lacks_numbers(file_context) {
            let room = file_context.spare_bytes();
            match pack_numbers(row_ids, file_context, room, io) {
                Ok(numbers) => drop(self.numbers.set(numbers)),
                Err(NoRoom) => self.tried.store(room, Ordering::Relaxed),
            }
        }
        Ok(self.bytes() > before)
    }

    /// (id, version) of a row, if they are here.
    pub fn row_id(&self, row: u32) -> Option<(PointId, u64)> {
        let [ids, versions] = self.numbers.get()?.as_ref()?;
        Some((PointId::Num(ids.get(row)?), versions.get(row)?))
    }

    /// Whether the segment has no point of this encoded id for sure.
    pub fn has_not(&self, id: &[u8]) -> bool {
        let filter = self.filter.get();
        filter.is_some_and(|(filter, _)| !filter.may_contain(hash64(id)))
    }

    pub fn numbers_bytes(&self) -> u64 {
        let numbers = self.numbers.get().and_then(Option::as_ref);
        numbers.into_iter().flatten().map(Packed::bytes).sum()
    }

    pub fn filter_bytes(&self) -> u64 {
        self.filter.get().map_or(0, |(_, held)| held.bytes())
    }

    pub fn filter_disk_bytes(&self) -> u64 {
        self.filter_file.bytes
    }

    fn bytes(&self) -> u64 {
        self.numbers_bytes() + self.filter_bytes()
    }
}

struct NoRoom;

/// Ids and versions by row, packed into half of `room` each; `None`: some id isn't a number. What can't be read is reported by whoever reads it.
fn pack_numbers(
    row_ids: &RowsFile,
    file_context: &FileContext,
    room: u64,
    io: &mut IoContext,
) -> std::result::Result<Option<[Packed; 2]>, NoRoom> {
    let packer = || Packer::new(&file_context.metadata.waiting(), room / 2).ok();
    let (Some(mut ids), Some(mut versions)) = (packer(), packer()) else {
        return Err(NoRoom);
    };
    let mut are_numbers = true;
    let packed = row_ids.for_each(io, &mut |_, bytes| {
        let fits = match build::decode_row_id(bytes) {
            Some((PointId::Num(id), version)) => ids.push(id) && versions.push(version),
            _ => {
                are_numbers = false;
                false
            }
        };
        match fits {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::OverBudget, "ids stay on disk")),
        }
    });
    if !are_numbers {
        return Ok(None);
    }
    match (packed, ids.finish(), versions.finish()) {
        (Ok(_), Some(ids), Some(versions)) => Ok(Some([ids, versions])),
        _ => Err(NoRoom),
    }
}
