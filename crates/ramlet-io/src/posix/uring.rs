//! Many reads at once by io_uring.

use std::io;
use std::thread::{self, ThreadId};

use io_uring::{IoUring, opcode, types};

use crate::error::check_range;
use crate::posix::is_aligned;
use crate::reader::SerialReader;
use crate::storage::{BatchRead, BatchReader, PAGE, Result};

/// Reads in flight at most, whatever is asked: a ring of this size costs the kernel about 50 KB.
const DEPTH_MAX: usize = 256;

/// Completions to wait for while more reads stand in line: fewer cost system calls, more leave the disk idle.
const WAIT_BATCH: usize = 8;

/// One ring, used by one thread. The ring is made by the first batch, on the thread that reads: the cheapest kind of
/// ring belongs to one thread. Without a ring (the kernel's limits) it reads one by one.
pub struct UringReader {
    depth: usize,
    ring: Option<Ring>,
    rings_made: u32,
    broken: bool,
    /// What is in flight; its index travels through the kernel as the entry's user data.
    slots: Box<[Slot]>,
    free: Vec<usize>,
}

struct Ring {
    ring: IoUring,
    /// The only thread that may use it; None: any.
    owner: Option<ThreadId>,
}

/// A read in flight: its place in the batch, and how much of it is there.
#[derive(Clone, Copy, Default)]
struct Slot {
    read: usize,
    done: usize,
}

/// The kernel took no entry and will take none: io_uring isn't usable any more.
struct Refused;

impl UringReader {
    pub fn new(depth: usize) -> UringReader {
        let depth = depth.clamp(1, DEPTH_MAX);
        UringReader {
            depth,
            ring: None,
            rings_made: 0,
            broken: false,
            slots: vec![Slot::default(); depth].into(),
            free: (0..depth).collect(),
        }
    }

    /// Whether it had to give io_uring up.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Makes sure that there is a ring for this thread.
    pub fn ready(&mut self) -> io::Result<()> {
        let here = thread::current().id();
        if let Some(ring) = &self.ring
            && ring.owner.is_none_or(|owner| owner == here)
        {
            return Ok(());
        }
        // A reader made on one thread and handed to another moves once. One that keeps moving gets a ring for any.
        let exclusive = self.rings_made < 2;
        self.ring = Some(Ring::new(self.depth, exclusive.then_some(here))?);
        self.rings_made += 1;
        Ok(())
    }

    fn run(&mut self, reads: &mut [BatchRead<'_>]) -> std::result::Result<Result<()>, Refused> {
        let mut next = 0;
        let mut outcome = Ok(());
        loop {
            while next < reads.len() && outcome.is_ok() {
                let Some(slot) = self.free.pop() else { break };
                outcome = self.start(slot, next, &mut reads[next]);
                next += 1;
            }
            let in_flight = self.depth - self.free.len();
            if in_flight == 0 {
                return Ok(outcome);
            }
            let more = next < reads.len() && outcome.is_ok();
            self.submit(if more {
                in_flight.min(WAIT_BATCH)
            } else {
                in_flight
            })?;
            while let Some((slot, result)) = self.reap() {
                let read = &mut reads[self.slots[slot].read];
                // The kernel may still write into the other buffers, so an error waits for them.
                outcome = outcome.and(self.complete(slot, read, result));
            }
        }
    }

    /// Hands a read to the ring, or does it at once when a ring can't.
    fn start(&mut self, slot: usize, index: usize, read: &mut BatchRead<'_>) -> Result<()> {
        let fits = check_range(read.file.name(), read.offset, read.out.len(), read.file.len());
        let Some(fd) = read.file.raw_fd() else {
            self.free.push(slot);
            return fits.and_then(|()| read.file.read_at(read.out, read.offset));
        };
        if fits.is_err() || read.out.is_empty() || !is_aligned(read.out, read.offset) {
            self.free.push(slot);
            return fits.and_then(|()| read.file.read_at(read.out, read.offset));
        }
        self.slots[slot] = Slot { read: index, done: 0 };
        self.push(slot, fd, read);
        Ok(())
    }

    fn push(&mut self, slot: usize, fd: i32, read: &mut BatchRead<'_>) {
        let done = self.slots[slot].done;
        let rest = &mut read.out[done..];
        // One entry never asks for more than the kernel gives (2 GiB less a page); the rest is a short read.
        let len = rest.len().min(1 << 30) as u32;
        let entry = opcode::Read::new(types::Fd(fd), rest.as_mut_ptr(), len)
            .offset(read.offset + done as u64)
            .build()
            .user_data(slot as u64);
        let ring = &mut self.ring.as_mut().expect("ready() made a ring").ring;
        // SAFETY: the buffer is borrowed for the whole of `read_batch`, which neither returns nor unwinds
        // before this entry's completion; nothing else touches it while the slot is in flight.
        let pushed = unsafe { ring.submission().push(&entry) };
        pushed.expect("the ring has an entry for every slot");
    }

    /// Submits what was pushed and waits for `wanted` completions (fewer when interrupted).
    fn submit(&mut self, wanted: usize) -> std::result::Result<(), Refused> {
        let in_flight = self.depth - self.free.len();
        let ring = &mut self.ring.as_mut().expect("ready() made a ring").ring;
        let Err(error) = ring.submit_and_wait(wanted) else {
            return Ok(());
        };
        if matches!(
            error.raw_os_error(),
            Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
        ) {
            return Ok(());
        }
        if ring.submission().len() == in_flight {
            return Err(Refused);
        }
        // The kernel holds buffers and won't say when it is done: neither returning nor unwinding would be sound.
        eprintln!("io_uring failed with reads in flight: {error}");
        std::process::abort();
    }

    fn reap(&mut self) -> Option<(usize, i32)> {
        let ring = &mut self.ring.as_mut().expect("ready() made a ring").ring;
        ring.completion()
            .next()
            .map(|entry| (entry.user_data() as usize, entry.result()))
    }

    /// Takes a completion: done, short (submitted again for the rest), or failed.
    fn complete(&mut self, slot: usize, read: &mut BatchRead<'_>, result: i32) -> Result<()> {
        let done = self.slots[slot].done;
        let again = match result {
            r if r == -libc::EAGAIN || r == -libc::EINTR => Some(done),
            r if r >= 0 && done + r as usize >= read.out.len() => None,
            // O_DIRECT goes on at the start of a page.
            r if r >= PAGE as i32 => Some((done + r as usize) / PAGE * PAGE),
            // The end of the file or an error: the plain way may still do it, and tells exactly what is wrong.
            _ => {
                self.free.push(slot);
                return read.file.read_at(read.out, read.offset);
            }
        };
        match (again, read.file.raw_fd()) {
            (Some(done), Some(fd)) => {
                self.slots[slot].done = done;
                self.push(slot, fd, read);
            }
            _ => self.free.push(slot),
        }
        Ok(())
    }

    /// Gives io_uring up: entries pushed but never submitted go with the ring.
    fn give_up(&mut self) {
        self.broken = true;
        self.ring = None;
        self.free.clear();
        self.free.extend(0..self.depth);
    }
}

impl BatchReader for UringReader {
    fn read_batch(&mut self, reads: &mut [BatchRead<'_>]) -> Result<()> {
        if !self.broken && self.ready().is_err() {
            self.give_up();
        }
        if !self.broken {
            let guard = AbortOnUnwind;
            let result = self.run(reads);
            std::mem::forget(guard);
            match result {
                Ok(outcome) => return outcome,
                Err(Refused) => self.give_up(),
            }
        }
        SerialReader.read_batch(reads)
    }
}

/// A panic with reads in flight would free buffers that the kernel still writes into; there is no way on from there.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

impl Ring {
    fn new(depth: usize, owner: Option<ThreadId>) -> io::Result<Ring> {
        let entries = depth.next_power_of_two() as u32;
        if owner.is_some() {
            let mut builder = IoUring::builder();
            builder
                .setup_single_issuer()
                .setup_defer_taskrun()
                .setup_coop_taskrun();
            match builder.build(entries) {
                Ok(ring) => return Ok(Ring { ring, owner }),
                // A kernel before 6.1 doesn't know these flags.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Ring {
            ring: IoUring::new(entries)?,
            owner: None,
        })
    }
}
