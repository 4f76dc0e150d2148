//! Writes a segment file: collects a format writer's output, appends it in large pieces, and keeps size and checksum.

use ramlet_format::manifest::FileEntry;
use ramlet_format::sorted::SortedWriter;
use ramlet_format::{Component, FileCrc};
use ramlet_io::{Storage, WriteFile};

use crate::error::{Error, Result};
use crate::faults::mutants;
use crate::limits::SINK_BYTES;

/// Where a format writer puts its bytes.
pub struct Sink {
    file: FileSink,
    /// Bytes not appended yet: writers push here, then call [`Sink::drain`].
    pub out: Vec<u8>,
}

impl Sink {
    pub fn create(storage: &dyn Storage, name: String, component: Component) -> Result<Sink> {
        let file = FileSink::create(storage, name, component)?;
        Ok(Sink {
            file,
            out: Vec::with_capacity(SINK_BYTES * 5 / 4),
        })
    }

    /// Appends what has come together, once it is worth a write.
    pub fn drain(&mut self) -> Result<()> {
        if self.out.len() >= SINK_BYTES {
            self.append()
        } else {
            Ok(())
        }
    }

    fn append(&mut self) -> Result<()> {
        self.file.append(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Appends the rest and makes it durable (its name is so after the directory's sync).
    pub fn finish(mut self) -> Result<FileEntry> {
        self.append()?;
        self.file.finish()
    }
}

/// A file whose size and checksum are kept as it is appended to, for builders that do so by themselves.
pub struct FileSink {
    file: Box<dyn WriteFile>,
    name: String,
    component: Component,
    crc: FileCrc,
}

impl FileSink {
    pub fn create(storage: &dyn Storage, name: String, component: Component) -> Result<FileSink> {
        Ok(FileSink {
            file: storage.create(&name)?,
            name,
            component,
            crc: FileCrc::new(),
        })
    }

    pub fn finish(mut self) -> Result<FileEntry> {
        if !mutants::is("segment-not-synced") {
            self.file.sync()?;
        }
        let bytes = self.file.len();
        Ok(FileEntry {
            name: self.name,
            bytes,
            crc: self.crc.value(),
            component: self.component,
        })
    }
}

impl WriteFile for FileSink {
    fn append(&mut self, bytes: &[u8]) -> ramlet_io::Result<()> {
        self.crc.update(bytes);
        self.file.append(bytes)
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn flush(&mut self) -> ramlet_io::Result<()> {
        self.file.flush()
    }

    fn sync(&mut self) -> ramlet_io::Result<()> {
        self.file.sync()
    }
}

/// Adds a key to a table that goes through `sink`.
pub(super) fn push_key(table: &mut SortedWriter, key: &[u8], sink: &mut Sink) -> Result<()> {
    table
        .push(key, &mut sink.out)
        .map_err(|e| Error::corrupt(e.to_string()))?;
    sink.drain()
}
