//! Writes a snapshot file under a temporary name with its checksum beside it, then renames it.

use std::sync::Arc;

use ramlet_format::PAGE;
use ramlet_format::snapshot::{Frame, FrameKind, Header};
use ramlet_io::{Storage, WriteFile};
use ramlet_memory::Reservation;
use sha2::{Digest, Sha256};

use super::digest::hex;
use super::directory::{CHECKSUM, TMP};
use super::{SnapshotFile, check_disk};
use crate::error::{Error, Result};
use crate::limits::SNAPSHOT_SYNC_BYTES;
use crate::recovery::manifest_store::write_whole;

/// A file that grows, its digest with it.
struct Growing {
    storage: Arc<dyn Storage>,
    file: Box<dyn WriteFile>,
    name: String,
    digest: Sha256,
    unsynced: u64,
}

impl Growing {
    fn create(storage: Arc<dyn Storage>, name: String) -> Result<Growing> {
        check_disk(storage.as_ref(), 0)?;
        Ok(Growing {
            file: storage.create(&name)?,
            storage,
            name,
            digest: Sha256::new(),
            unsynced: 0,
        })
    }

    /// Synced now and then: what waits in the page cache counts as ours.
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)?;
        self.digest.update(bytes);
        self.unsynced += bytes.len() as u64;
        if self.unsynced >= SNAPSHOT_SYNC_BYTES {
            self.file.sync()?;
            check_disk(self.storage.as_ref(), 0)?;
            self.unsynced = 0;
        }
        Ok(())
    }

    fn remove(self) {
        drop(self.file);
        let _ = self.storage.remove(&self.name);
    }
}

/// A snapshot that is being taken.
pub struct Sink {
    file: Growing,
    name: String,
    frames: u32,
}

impl Sink {
    pub fn create(storage: Arc<dyn Storage>, name: &str) -> Result<Sink> {
        Ok(Sink {
            file: Growing::create(storage, format!("{name}{TMP}"))?,
            name: name.to_string(),
            frames: 0,
        })
    }

    /// Has `write` fill it; then it is there, or nothing is. Its length and SHA-256.
    pub fn fill(mut self, write: &mut dyn FnMut(&mut Sink) -> Result<()>) -> Result<(u64, String)> {
        if let Err(e) = write(&mut self).and_then(|()| Ok(self.file.file.sync()?)) {
            self.file.remove();
            return Err(e);
        }
        let Growing {
            storage,
            file,
            name: tmp,
            digest,
            ..
        } = self.file;
        let (bytes, checksum) = (file.len(), hex(digest));
        drop(file);
        let sidecar = format!("{}{CHECKSUM}", self.name);
        let done = write_whole(storage.as_ref(), &sidecar, checksum.as_bytes())
            .and_then(|()| Ok(storage.rename(&tmp, &self.name)?))
            .and_then(|()| Ok(storage.sync_dir()?));
        match done {
            Ok(()) => Ok((bytes, checksum)),
            Err(e) => {
                for name in [&tmp, &sidecar, &self.name] {
                    let _ = storage.remove(name);
                }
                Err(e)
            }
        }
    }

    pub fn storage(&self) -> &dyn Storage {
        self.file.storage.as_ref()
    }

    pub fn begin(&mut self, header: Header) -> Result<()> {
        self.file.append(&header.encode())
    }

    /// The head of a frame; its body follows by [`Sink::append`].
    pub fn head(&mut self, frame: Frame) -> Result<()> {
        self.file.append(&frame.encode(self.frames))?;
        self.frames = self
            .frames
            .checked_add(1)
            .ok_or_else(|| Error::bad_input("a snapshot has at most 2^32 frames"))?;
        Ok(())
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)
    }

    pub fn frame(&mut self, kind: FrameKind, body: &[u8]) -> Result<()> {
        self.head(Frame::of(kind, body))?;
        self.append(body)
    }

    /// The last frame, and zeros to the end of the page, which the file would get anyway.
    pub fn end(&mut self) -> Result<()> {
        self.frame(FrameKind::End, b"")?;
        let len = self.file.file.len() as usize;
        self.append(&[0; PAGE][..len.next_multiple_of(PAGE) - len])
    }
}

/// Bytes that a client sends, on their way to disk. Dropped, it leaves nothing.
pub struct SnapshotUpload {
    file: Option<Growing>,
    bytes: u64,
    pub(super) _held: Reservation,
}

impl SnapshotUpload {
    pub(crate) fn create(
        storage: Arc<dyn Storage>,
        name: String,
        held: Reservation,
    ) -> Result<SnapshotUpload> {
        Ok(SnapshotUpload {
            file: Some(Growing::create(storage, name)?),
            bytes: 0,
            _held: held,
        })
    }

    /// Refuses at once what won't fit on the disk.
    pub fn expect(&self, bytes: u64) -> Result<()> {
        match &self.file {
            Some(file) => check_disk(file.storage.as_ref(), bytes),
            None => Ok(()),
        }
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        let file = self.file.as_mut().ok_or_else(finished)?;
        file.append(bytes)
    }

    /// All of it is there: its SHA-256, and the file to restore from. It goes with the upload.
    pub(crate) fn finish(&mut self) -> Result<(String, SnapshotFile)> {
        let file = self.file.as_mut().ok_or_else(finished)?;
        file.file.sync()?;
        let checksum = hex(file.digest.clone());
        let opened = file.storage.open(&file.name)?;
        Ok((
            checksum,
            SnapshotFile {
                file: opened,
                name: file.name.clone(),
            },
        ))
    }
}

fn finished() -> Error {
    Error::bad_input("the upload is finished")
}

impl Drop for SnapshotUpload {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            file.remove();
        }
    }
}
