//! Steps by POSIX AIO, as the C library does it: threads that block, one for all steps of an open file.

use std::mem;
use std::os::fd::AsRawFd;
use std::ptr;

use ramlet_memory::AnonBuf;

use crate::error::At;
use crate::measure::steps::{Engine, Step};
use crate::measure::test_file::{Noise, TestFile};
use crate::storage::Result;

/// Memory for buffers; beyond it slots share them. Nobody looks at what is read.
const BUFFER_BYTES_MAX: usize = 64 << 20;

pub struct AioEngine<'a> {
    file: &'a TestFile,
    buf: AnonBuf,
    block_bytes: usize,
    buffers: usize,
    /// One for each slot; they don't move while the library works on them.
    blocks: Box<[libc::aiocb]>,
    /// For `aio_suspend`: the blocks in flight, null for others.
    waiting: Box<[*const libc::aiocb]>,
}

impl AioEngine<'_> {
    pub fn new(file: &TestFile, block_bytes: usize, depth: usize, seed: u64) -> AioEngine<'_> {
        let buffers = depth.min(BUFFER_BYTES_MAX / block_bytes).max(1);
        let mut buf = AnonBuf::new(buffers * block_bytes);
        Noise::new(seed).fill(&mut buf);
        // SAFETY: a control block of zeros is a valid one that asks for nothing.
        let block = || unsafe { mem::zeroed::<libc::aiocb>() };
        AioEngine {
            file,
            buf,
            block_bytes,
            buffers,
            blocks: (0..depth).map(|_| block()).collect(),
            waiting: vec![ptr::null(); depth].into(),
        }
    }

    /// Waits for one at least; true unless that failed.
    fn suspend(&self) -> std::io::Result<()> {
        // SAFETY: the list has so many pointers, each null or to a block that is in flight and stays where it is.
        let failed =
            unsafe { libc::aio_suspend(self.waiting.as_ptr(), self.waiting.len() as i32, ptr::null()) };
        let error = std::io::Error::last_os_error();
        match failed != 0 && error.kind() != std::io::ErrorKind::Interrupted {
            true => Err(error),
            false => Ok(()),
        }
    }

    /// What a slot's step returned, once it ended.
    fn ended(&mut self, slot: usize) -> Option<i32> {
        if self.waiting[slot].is_null() {
            return None;
        }
        // SAFETY: the block was handed over, and its result not yet taken.
        let error = unsafe { libc::aio_error(&raw const self.blocks[slot]) };
        if error == libc::EINPROGRESS {
            return None;
        }
        self.waiting[slot] = ptr::null();
        // SAFETY: it ended, and its result is taken once.
        let result = unsafe { libc::aio_return(&raw mut self.blocks[slot]) };
        Some(if error == 0 { result as i32 } else { -error })
    }
}

impl Engine for AioEngine<'_> {
    fn start(&mut self, slot: usize, step: Step, offset: u64) -> Result<()> {
        let at = slot % self.buffers * self.block_bytes;
        let buffer = self.buf[at..at + self.block_bytes].as_mut_ptr();
        let block = &mut self.blocks[slot];
        block.aio_fildes = self.file.file.as_raw_fd();
        block.aio_buf = buffer.cast();
        block.aio_nbytes = self.block_bytes;
        block.aio_offset = offset as libc::off_t;
        // Nobody is told of the end: it is asked for.
        block.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        let block: *mut libc::aiocb = block;
        // SAFETY: block and buffer stay where they are until the step ended (see Drop), and nobody looks at the buffer.
        let refused = unsafe {
            match step {
                Step::Read => libc::aio_read(block),
                Step::Write => libc::aio_write(block),
                Step::Sync => libc::aio_fsync(libc::O_SYNC, block),
                Step::DataSync => libc::aio_fsync(libc::O_DSYNC, block),
            }
        };
        match refused {
            0 => {
                self.waiting[slot] = block;
                Ok(())
            }
            _ => Err(std::io::Error::last_os_error()).at("aio", self.file.name()),
        }
    }

    fn wait(&mut self, ended: &mut Vec<(usize, i32)>) -> Result<()> {
        self.suspend().at("aio", self.file.name())?;
        for slot in 0..self.blocks.len() {
            if let Some(result) = self.ended(slot) {
                ended.push((slot, result));
            }
        }
        Ok(())
    }
}

impl Drop for AioEngine<'_> {
    fn drop(&mut self) {
        for slot in 0..self.blocks.len() {
            while !self.waiting[slot].is_null() && self.ended(slot).is_none() {
                let _ = self.suspend();
            }
        }
    }
}
