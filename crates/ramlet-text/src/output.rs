//! Where a build's files go: temporary files of the storage, one a section.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ramlet_io::{Storage, WriteFile};
use tantivy::directory::error::{DeleteError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, Directory, FileHandle, TerminatingWrite, WatchCallback, WatchHandle, WritePtr,
};

use crate::container::Section;
use crate::error::{Result, TextError, to_io};
use crate::schema::section_of;
use crate::temporary::Temporary;

/// Bytes that wait in a writer's buffer at most.
pub(crate) const BUFFERED: u64 = 8 << 10;

/// The directory that tantivy's serializer writes into.
#[derive(Clone)]
pub(crate) struct OutputDirectory {
    storage: Arc<dyn Storage>,
    /// By section.
    files: Arc<Mutex<[Option<Temporary>; 4]>>,
    /// Bytes that reached each.
    written: Arc<[AtomicU64; 4]>,
}

impl OutputDirectory {
    pub fn new(storage: Arc<dyn Storage>) -> OutputDirectory {
        OutputDirectory {
            storage,
            files: Arc::default(),
            written: Arc::default(),
        }
    }

    /// Bytes of a section that were written, but for what tantivy still buffers: [`BUFFERED`] at most.
    pub fn written(&self, section: Section) -> u64 {
        self.written[section as usize].load(Ordering::Relaxed)
    }

    /// The file of a section that was written whole.
    pub fn take(&self, section: Section) -> Result<Temporary> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = files[section as usize].take();
        file.ok_or_else(|| TextError::format(format!("{section:?} wasn't written")))
    }

    fn create(&self, path: &Path) -> Result<SectionWriter> {
        let section = section_of(path).ok_or_else(|| TextError::format(format!("file {path:?}")))?;
        let (file, temporary) = Temporary::create(&self.storage)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files[section as usize] = Some(temporary);
        Ok(SectionWriter {
            file: Mutex::new(file),
            section,
            written: self.written.clone(),
        })
    }
}

impl std::fmt::Debug for OutputDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputDirectory").finish_non_exhaustive()
    }
}

/// The lock is never waited for: tantivy only asks that a writer may be shared.
struct SectionWriter {
    file: Mutex<Box<dyn WriteFile>>,
    section: Section,
    written: Arc<[AtomicU64; 4]>,
}

impl SectionWriter {
    fn file(&mut self) -> &mut dyn WriteFile {
        self.file
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
    }
}

impl Write for SectionWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().append(bytes).map_err(|error| to_io(error.into()))?;
        self.written[self.section as usize].fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TerminatingWrite for SectionWriter {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        self.file().flush().map_err(|error| to_io(error.into()))
    }
}

impl Directory for OutputDirectory {
    fn open_write(&self, path: &Path) -> std::result::Result<WritePtr, OpenWriteError> {
        let file = self.create(path);
        let file = file.map_err(|error| OpenWriteError::wrap_io_error(to_io(error), path.to_owned()))?;
        Ok(BufWriter::with_capacity(BUFFERED as usize, Box::new(file)))
    }

    /// `meta.json` and `.managed.json`: the container has its own table, the engine its manifest.
    fn atomic_write(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn get_file_handle(&self, path: &Path) -> std::result::Result<Arc<dyn FileHandle>, OpenReadError> {
        Err(missing(path))
    }

    fn exists(&self, _: &Path) -> std::result::Result<bool, OpenReadError> {
        Ok(false)
    }

    fn atomic_read(&self, path: &Path) -> std::result::Result<Vec<u8>, OpenReadError> {
        Err(missing(path))
    }

    fn delete(&self, path: &Path) -> std::result::Result<(), DeleteError> {
        Err(DeleteError::FileDoesNotExist(path.to_owned()))
    }

    fn watch(&self, _: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }
}

fn missing(path: &Path) -> OpenReadError {
    OpenReadError::FileDoesNotExist(PathBuf::from(path))
}
