//! Steps that are done when they are begun.

use std::io;
use std::os::unix::fs::FileExt;

use ramlet_memory::AnonBuf;

use crate::measure::steps::{Engine, Step};
use crate::measure::test_file::{Noise, TestFile};
use crate::storage::Result;

pub struct SyncEngine<'a> {
    file: &'a TestFile,
    buf: AnonBuf,
    ended: Vec<(usize, i32)>,
}

impl SyncEngine<'_> {
    pub fn new(file: &TestFile, block_bytes: usize, seed: u64) -> SyncEngine<'_> {
        let mut buf = AnonBuf::new(block_bytes);
        Noise::new(seed).fill(&mut buf);
        SyncEngine {
            file,
            buf,
            ended: Vec::new(),
        }
    }
}

impl Engine for SyncEngine<'_> {
    fn start(&mut self, slot: usize, step: Step, offset: u64) -> Result<()> {
        let file = &self.file.file;
        let done = match step {
            Step::Read => file.read_at(&mut self.buf, offset),
            Step::Write => file.write_at(&self.buf, offset),
            Step::Sync => file.sync_all().map(|()| 0),
            Step::DataSync => file.sync_data().map(|()| 0),
        };
        self.ended.push((slot, returned(done)));
        Ok(())
    }

    fn wait(&mut self, ended: &mut Vec<(usize, i32)>) -> Result<()> {
        ended.append(&mut self.ended);
        Ok(())
    }
}

/// As the kernel tells it.
fn returned(done: io::Result<usize>) -> i32 {
    match done {
        Ok(bytes) => bytes as i32,
        Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
    }
}
