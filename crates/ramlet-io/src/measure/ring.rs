//! Steps by io_uring, handed over and taken back one by one, as fio does it. Taking all that have ended and beginning as many at once
//! spares calls, but fewer are in flight meanwhile: random reads of 4 KB, 16 in flight, were a tenth slower than fio's.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types};
use ramlet_memory::AnonBuf;

use crate::error::At;
use crate::measure::steps::{Engine, Step};
use crate::measure::test_file::{Noise, TestFile};
use crate::storage::{IoError, IoErrorKind, Result};

/// Memory for buffers; beyond it slots share them. Nobody looks at what is read.
const BUFFER_BYTES_MAX: usize = 64 << 20;

pub struct RingEngine<'a> {
    file: &'a TestFile,
    ring: IoUring,
    buf: ManuallyDrop<AnonBuf>,
    block_bytes: usize,
    buffers: usize,
    in_flight: usize,
}

impl RingEngine<'_> {
    pub fn new(file: &TestFile, block_bytes: usize, depth: usize, seed: u64) -> Result<RingEngine<'_>> {
        let ring = ring(depth).map_err(|error| {
            IoError::new(
                "io_uring",
                file.name(),
                IoErrorKind::Unsupported,
                error.to_string(),
            )
        })?;
        let buffers = depth.min(BUFFER_BYTES_MAX / block_bytes).max(1);
        let mut buf = AnonBuf::new(buffers * block_bytes);
        Noise::new(seed).fill(&mut buf);
        Ok(RingEngine {
            file,
            ring,
            buf: ManuallyDrop::new(buf),
            block_bytes,
            buffers,
            in_flight: 0,
        })
    }

    fn submit_and_wait(&mut self) -> io::Result<()> {
        handed_over(self.ring.submit_and_wait(1))
    }

    fn submit(&mut self) -> io::Result<()> {
        handed_over(self.ring.submit())
    }
}

/// What the kernel didn't take now it takes with the next call.
fn handed_over(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(()),
        other => other.map(|_| ()),
    }
}

/// The cheapest ring that the kernel has: one that belongs to one thread, from 6.1 on.
fn ring(depth: usize) -> io::Result<IoUring> {
    let entries = depth.next_power_of_two() as u32;
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_defer_taskrun();
    builder.build(entries).or_else(|_| IoUring::new(entries))
}

impl Engine for RingEngine<'_> {
    fn start(&mut self, slot: usize, step: Step, offset: u64) -> Result<()> {
        let fd = types::Fd(self.file.file.as_raw_fd());
        let at = slot % self.buffers * self.block_bytes;
        let buffer = self.buf[at..at + self.block_bytes].as_mut_ptr();
        let bytes = self.block_bytes as u32;
        let entry = match step {
            Step::Read => opcode::Read::new(fd, buffer, bytes).offset(offset).build(),
            Step::Write => opcode::Write::new(fd, buffer, bytes).offset(offset).build(),
            Step::Sync => opcode::Fsync::new(fd).build(),
            Step::DataSync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        };
        let entry = entry.user_data(slot as u64);
        // SAFETY: the buffer lives until no step is in flight (see Drop), and is looked at by nobody; the file is borrowed
        // for as long as this engine lives.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has an entry for every slot");
        self.in_flight += 1;
        Ok(())
    }

    fn wait(&mut self, ended: &mut Vec<(usize, i32)>) -> Result<()> {
        let has_ended = !self.ring.completion().is_empty();
        let handed_over = match has_ended {
            true => self.submit(),
            false => self.submit_and_wait(),
        };
        handed_over.at("io_uring", self.file.name())?;
        if let Some(entry) = self.ring.completion().next() {
            ended.push((entry.user_data() as usize, entry.result()));
            self.in_flight -= 1;
        }
        Ok(())
    }
}

impl Drop for RingEngine<'_> {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            if self.submit_and_wait().is_err() {
                // The kernel may still write into the buffer: better lost than given away.
                return;
            }
            self.in_flight -= self.ring.completion().count();
        }
        // SAFETY: dropped once, here, and never used again.
        unsafe { ManuallyDrop::drop(&mut self.buf) };
    }
}
