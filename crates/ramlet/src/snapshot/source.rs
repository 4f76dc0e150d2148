//! Reads a snapshot file frame by frame.

use std::sync::Arc;

use ramlet_format::snapshot::{Contents, FRAME_BYTES, Frame, FrameKind, HEADER_BYTES, Header};
use ramlet_format::{FileCrc, FormatError, PAGE};
use ramlet_io::{ReadFile, WriteFile};
use sha2::{Digest, Sha256};

use super::digest::hex;
use super::{SnapshotFile, Workspace};
use crate::error::{Error, ErrorKind, Result};

/// A position in a snapshot. Everything that it hands out is verified; what isn't right is the client's mistake.
pub struct SnapshotReader {
    file: Arc<dyn ReadFile>,
    at: u64,
    number: u32,
    pub contents: Contents,
}

pub(super) fn refused(e: &dyn std::fmt::Display) -> Error {
    Error::bad_input(format!("the snapshot can't be restored: {e}"))
}

fn format_error(e: FormatError) -> Error {
    refused(&e)
}

impl SnapshotReader {
    pub fn open(file: &SnapshotFile) -> Result<SnapshotReader> {
        let mut head = [0; HEADER_BYTES];
        let taken = head.len().min(file.bytes() as usize);
        file.read_at(&mut head[..taken], 0)?;
        let header = Header::decode(&head[..taken]).map_err(format_error)?;
        Ok(SnapshotReader {
            file: file.file.clone(),
            at: HEADER_BYTES as u64,
            number: 0,
            contents: header.contents,
        })
    }

    /// The head of the next frame, whose body lies within the file.
    pub fn next(&mut self) -> Result<Frame> {
        let mut head = [0; FRAME_BYTES];
        let left = self.file.len().saturating_sub(self.at);
        let taken = FRAME_BYTES.min(left as usize);
        self.file.read_at(&mut head[..taken], self.at)?;
        let frame = Frame::decode(&head[..taken], self.number).map_err(format_error)?;
        if frame.bytes > left - FRAME_BYTES as u64 {
            let what = format!(
                "frame {} is cut off: {left} of {} bytes",
                self.number, frame.bytes
            );
            return Err(refused(&what));
        }
        self.at += FRAME_BYTES as u64;
        self.number = self.number.wrapping_add(1);
        Ok(frame)
    }

    /// A frame's body, whole: the caller has bounded and reserved its length.
    pub fn body(&mut self, frame: &Frame) -> Result<Vec<u8>> {
        let mut body = vec![0; frame.bytes as usize];
        self.file.read_at(&mut body, self.at)?;
        frame.verify(&body).map_err(format_error)?;
        self.at += frame.bytes;
        Ok(body)
    }

    /// A frame's body into a file.
    pub fn copy(&mut self, frame: &Frame, out: &mut dyn WriteFile, work: &mut Workspace) -> Result<()> {
        let mut crc = FileCrc::new();
        each_part(
            self.file.as_ref(),
            self.at..self.at + frame.bytes,
            work,
            &mut |part| {
                crc.update(part);
                Ok(out.append(part)?)
            },
        )?;
        frame.verify_crc(crc.value()).map_err(format_error)?;
        self.at += frame.bytes;
        Ok(())
    }

    /// Reads the rest, frame by frame. What is in a frame is looked at when it is restored.
    pub fn verify(&mut self, work: &mut Workspace) -> Result<()> {
        loop {
            let frame = self.next()?;
            let mut crc = FileCrc::new();
            let body = self.at..self.at + frame.bytes;
            each_part(self.file.as_ref(), body, work, &mut |part| {
                crc.update(part);
                Ok(())
            })?;
            frame.verify_crc(crc.value()).map_err(format_error)?;
            self.at += frame.bytes;
            if frame.kind == FrameKind::End {
                return self.check_end();
            }
        }
    }

    /// Nothing but the rest of a page may follow.
    pub fn check_end(&self) -> Result<()> {
        match self.file.len() - self.at < PAGE as u64 {
            true => Ok(()),
            false => Err(refused(&"there is more behind its end")),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.file.len()
    }
}

/// Refuses a file of another SHA-256.
pub fn check_sha256(file: &SnapshotFile, expected: &str, work: &mut Workspace) -> Result<()> {
    let mut digest = Sha256::new();
    each_part(file.file.as_ref(), 0..file.bytes(), work, &mut |part| {
        digest.update(part);
        Ok(())
    })?;
    check_equal(&hex(digest), expected)
}

pub fn check_equal(found: &str, expected: &str) -> Result<()> {
    match found.eq_ignore_ascii_case(expected) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::BadInput,
            format!("Snapshot checksum mismatch: expected {expected}, got {found}"),
        )),
    }
}

fn each_part(
    file: &dyn ReadFile,
    range: std::ops::Range<u64>,
    work: &mut Workspace,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut at = range.start;
    while at < range.end {
        let n = work.buf.len().min((range.end - at) as usize);
        file.read_at(&mut work.buf[..n], at)?;
        each(&work.buf[..n])?;
        at += n as u64;
    }
    Ok(())
}
