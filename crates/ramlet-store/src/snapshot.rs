//! A snapshot of a running server on its way into a store.
//!
//! It is one file that begins otherwise each time. Chunks end where the files in it begin and end, so each is cut as in a data directory, and isn't sent
//! again. Small files and what is between them share chunks.

use ramlet_format::FileCrc;
use ramlet_format::snapshot::{FRAME_BYTES, Frame, FrameKind, HEADER_BYTES, Header};

use crate::error::{Result, StoreError};
use crate::limits::CHUNK_BYTES_MIN;
use crate::push::Push;

/// The bytes of a snapshot, taken as they come, and verified.
pub struct SnapshotPush<'p, 'a> {
    push: &'p mut Push<'a>,
    frames: Frames,
}

impl<'p, 'a> SnapshotPush<'p, 'a> {
    /// Into a file of that name.
    pub fn begin(push: &'p mut Push<'a>, name: &str) -> Result<SnapshotPush<'p, 'a>> {
        push.begin_file(name)?;
        Ok(SnapshotPush {
            push,
            frames: Frames::new(),
        })
    }

    /// The next bytes. Fails where they are no snapshot, or a damaged one.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.frames.write(self.push, bytes)
    }

    /// Ends the file: all frames were there.
    pub fn end(self) -> Result<()> {
        self.frames.end()?;
        self.push.end_file().map(|_| ())
    }
}

/// Where the bytes of a snapshot are in its frames.
pub(crate) struct Frames {
    expected: Expected,
    /// Of a head that isn't whole yet.
    head: Vec<u8>,
    frames: u32,
    created: Option<u64>,
}

enum Expected {
    Header,
    Head,
    Body { frame: Frame, left: u64, crc: FileCrc },
    Nothing,
}

impl Frames {
    pub(crate) fn new() -> Frames {
        Frames {
            expected: Expected::Header,
            head: Vec::with_capacity(HEADER_BYTES),
            frames: 0,
            created: None,
        }
    }

    /// Seconds since 1970, as the header says.
    pub(crate) fn created(&self) -> Option<u64> {
        self.created
    }

    /// The next bytes, on their way into `push`.
    pub(crate) fn write(&mut self, push: &mut Push<'_>, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let taken = match &self.expected {
                Expected::Header => self.take_head(bytes, HEADER_BYTES),
                Expected::Head => self.take_head(bytes, FRAME_BYTES),
                Expected::Body { .. } => self.take_body(push, bytes)?,
                // Zeros to the end of the page.
                Expected::Nothing => bytes.len(),
            };
            push.write(&bytes[..taken])?;
            self.after(push)?;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Fails where a frame is missing.
    pub(crate) fn end(&self) -> Result<()> {
        match self.expected {
            Expected::Nothing => Ok(()),
            _ => Err(StoreError::corrupt("the snapshot is cut off")),
        }
    }

    fn take_head(&mut self, bytes: &[u8], length: usize) -> usize {
        let taken = bytes.len().min(length - self.head.len());
        self.head.extend_from_slice(&bytes[..taken]);
        taken
    }

    fn take_body(&mut self, push: &mut Push<'_>, bytes: &[u8]) -> Result<usize> {
        let Expected::Body { frame, left, crc } = &mut self.expected else {
            unreachable!("a body is expected");
        };
        // Before its first byte: what was in front of it is a chunk of its own.
        if *left == frame.bytes && has_chunks_of_its_own(frame) {
            push.end_chunk()?;
        }
        let taken = bytes.len().min((*left).try_into().unwrap_or(usize::MAX));
        crc.update(&bytes[..taken]);
        *left -= taken as u64;
        Ok(taken)
    }

    /// Goes on to what follows, where something is whole.
    fn after(&mut self, push: &mut Push<'_>) -> Result<()> {
        let damaged = |e: ramlet_format::FormatError| StoreError::corrupt(format!("the snapshot: {e}"));
        match &self.expected {
            Expected::Header if self.head.len() == HEADER_BYTES => {
                self.created = Header::decode(&self.head).map_err(damaged)?.created;
                self.expected = Expected::Head;
                self.head.clear();
            }
            Expected::Head if self.head.len() == FRAME_BYTES => {
                let frame = Frame::decode(&self.head, self.frames).map_err(damaged)?;
                self.frames += 1;
                self.head.clear();
                self.expected = match (frame.kind, frame.bytes) {
                    (FrameKind::End, _) => Expected::Nothing,
                    (_, 0) => Expected::Head,
                    (_, left) => Expected::Body {
                        frame,
                        left,
                        crc: FileCrc::new(),
                    },
                };
            }
            Expected::Body { frame, left: 0, crc } => {
                frame.verify_crc(crc.value()).map_err(damaged)?;
                if has_chunks_of_its_own(frame) {
                    push.end_chunk()?;
                }
                self.expected = Expected::Head;
            }
            _ => {}
        }
        Ok(())
    }
}

fn has_chunks_of_its_own(frame: &Frame) -> bool {
    frame.kind == FrameKind::File && frame.bytes >= CHUNK_BYTES_MIN as u64
}
