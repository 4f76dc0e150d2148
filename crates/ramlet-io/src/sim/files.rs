//! The handles of files on the simulated disk.

use std::sync::{Arc, Mutex};

use super::disk::{Disk, NodeId};
use super::fault::FaultOp;
use super::lock;
use crate::append_buffer::AppendBuffer;
use crate::error::{check_log_range, check_range};
use crate::storage::{LogFile, PAGE, ReadFile, Result, WriteFile};

/// Smaller than a real backend's, so that small files are torn too.
const WRITE_BYTES: usize = 4 * PAGE;

/// An open file, whatever it is used for.
struct Handle {
    disk: Arc<Mutex<Disk>>,
    node: NodeId,
    name: String,
}

pub struct SimWriter {
    handle: Handle,
    buffer: AppendBuffer,
}

pub struct SimLog {
    handle: Handle,
    len: u64,
}

pub struct SimReader {
    handle: Handle,
    len: u64,
}

impl Handle {
    fn new(disk: Arc<Mutex<Disk>>, node: NodeId, name: &str) -> Handle {
        Handle {
            disk,
            node,
            name: name.to_owned(),
        }
    }

    fn read(&self, out: &mut [u8], offset: u64) -> Result<()> {
        let mut disk = lock(&self.disk);
        disk.check(FaultOp::Read, "read", &self.name)?;
        disk.file(self.node).read(offset, out);
        Ok(())
    }
}

impl SimWriter {
    pub fn new(disk: Arc<Mutex<Disk>>, node: NodeId, name: &str) -> SimWriter {
        SimWriter {
            handle: Handle::new(disk, node, name),
            buffer: AppendBuffer::new(WRITE_BYTES),
        }
    }
}

impl WriteFile for SimWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let SimWriter { handle, buffer } = self;
        let mut disk = lock(&handle.disk);
        let fault = disk.check(FaultOp::Append, "write", &handle.name);
        let arriving = if fault.is_ok() {
            bytes
        } else {
            &bytes[..bytes.len() / 2]
        };
        buffer.append(arriving, &mut |bytes, offset| {
            disk.write(handle.node, offset, bytes);
            Ok(())
        })?;
        fault
    }

    fn len(&self) -> u64 {
        self.buffer.len()
    }

    fn flush(&mut self) -> Result<()> {
        let SimWriter { handle, buffer } = self;
        let mut disk = lock(&handle.disk);
        buffer.flush(&mut |bytes, offset| {
            disk.write(handle.node, offset, bytes);
            Ok(())
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        lock(&self.handle.disk).sync(self.handle.node, &self.handle.name)
    }
}

impl Drop for SimWriter {
    fn drop(&mut self) {
        if self.buffer.needs_flush() {
            let _ = self.flush();
        }
    }
}

impl SimLog {
    pub fn new(disk: Arc<Mutex<Disk>>, node: NodeId, name: &str, len: u64) -> SimLog {
        SimLog {
            handle: Handle::new(disk, node, name),
            len,
        }
    }
}

impl LogFile for SimLog {
    fn len(&self) -> u64 {
        self.len
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        check_log_range(&self.handle.name, offset, bytes.len(), self.len)?;
        let mut disk = lock(&self.handle.disk);
        let fault = disk.check(FaultOp::Write, "write", &self.handle.name);
        let arriving = if fault.is_ok() {
            bytes
        } else {
            &bytes[..bytes.len() / 2]
        };
        disk.write(self.handle.node, offset, arriving);
        fault
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        check_range(&self.handle.name, offset, out.len(), self.len)?;
        self.handle.read(out, offset)
    }

    fn sync(&mut self) -> Result<()> {
        lock(&self.handle.disk).sync(self.handle.node, &self.handle.name)
    }
}

impl SimReader {
    pub fn new(disk: Arc<Mutex<Disk>>, node: NodeId, name: &str, len: u64) -> SimReader {
        SimReader {
            handle: Handle::new(disk, node, name),
            len,
        }
    }
}

impl ReadFile for SimReader {
    fn name(&self) -> &str {
        &self.handle.name
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        check_range(&self.handle.name, offset, out.len(), self.len)?;
        self.handle.read(out, offset)
    }
}
