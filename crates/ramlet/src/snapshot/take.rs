//! Writes one collection into a snapshot.

use std::sync::Arc;
use std::time::Duration;

use ramlet_format::envelope::EnvelopeKind;
use ramlet_format::manifest::{FileEntry, Manifest, SegmentEntry};
use ramlet_format::snapshot::{Frame, FrameKind, LIST_BYTES_MAX};
use ramlet_format::{Component, FileCrc, bitmap};
use ramlet_io::ReadFile;
use ramlet_memory::{Consumer, Reservation};

use super::sink::Sink;
use super::{Workspace, check_disk};
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::Settings;
use crate::limits::{GROUP_BYTES_MAX, SEGMENT_FILE_BYTES};
use crate::read::view::View;
use crate::schema::Schema;
use crate::segment::{SegmentView, deletes_file};
use crate::state::core::Core;
use crate::write::change::{OP_HEADER_BYTES, encode_put};
use crate::write::group::Group;
use crate::write::memtable::MemtableView;
use crate::write::writer::Writer;

/// How long to wait before looking again whether a group that waits for room is in.
const GROUP_POLL: Duration = Duration::from_millis(20);

/// A collection at one moment, its files open.
struct Moment {
    view: View,
    settings: Settings,
    next_segment: u64,
    /// Of each segment, as its entry lists them.
    files: Vec<Vec<Arc<dyn ReadFile>>>,
    _held: Reservation,
}

/// Appends a collection: what it is, what no segment holds, the segments.
pub fn take(core: &Core, sink: &mut Sink, work: &mut Workspace) -> Result<()> {
    let mut moment = Moment::of(core, &work.memory)?;
    let segments = moment.entries(&work.memory)?;
    let on_disk: u64 = segments
        .iter()
        .flat_map(SegmentEntry::all_files)
        .map(|f| f.bytes)
        .sum();
    let in_ram: u64 = moment.view.memtables.iter().map(|b| b.memtable.bytes()).sum();
    check_disk(sink.storage(), on_disk + in_ram)?;
    let manifest = Manifest {
        number: 1,
        collection: "snapshot".to_string(),
        applied_lsn: 0,
        next_segment: moment.next_segment,
        config: serde_json::to_value(&moment.settings).map_err(|e| Error::corrupt(e.to_string()))?,
        segments,
        logs: Vec::new(),
        durable_lsn: 0,
    };
    let body = manifest.encode();
    if body.len() as u64 > LIST_BYTES_MAX {
        let what = format!(
            "a list of files of {} bytes, at most {LIST_BYTES_MAX} are possible",
            body.len()
        );
        return Err(Error::new(ErrorKind::TooLarge, what));
    }
    sink.frame(FrameKind::Collection, &body)?;
    // First, and then let go: the writer waits for the memory of these memtables.
    let memtables = std::mem::take(&mut moment.view.memtables);
    write_memtables(core, &moment.view.schema, memtables, sink, work)?;
    for (at, entry) in manifest.segments.iter().enumerate() {
        for (file, opened) in entry.files.iter().zip(&moment.files[at]) {
            copy(core, file, opened.as_ref(), sink, work)?;
        }
        if let Some(deletes) = &entry.deletes {
            let (bytes, _held) = deletes_of(&moment.view.segments[at], &work.memory)?;
            let frame = Frame {
                kind: FrameKind::File,
                crc: deletes.crc,
                bytes: deletes.bytes,
            };
            sink.head(frame)?;
            sink.append(&bytes)?;
        }
    }
    sink.frame(FrameKind::Finished, b"")
}

impl Moment {
    fn of(core: &Core, memory: &Consumer) -> Result<Moment> {
        let mut writer = core.writer();
        loop {
            core.check_open()?;
            writer.check_writable()?;
            if is_between_groups(&writer) {
                break;
            }
            // A group that waits for room in the memtables is in them in part.
            writer = core.wait_flushed(writer, GROUP_POLL);
        }
        let count: usize = writer.segments.iter().map(|s| s.segment.entry.files.len()).sum();
        let held = memory.reserve(count as u64 * SEGMENT_FILE_BYTES)?;
        let storage = &core.file_context.storage;
        // Under the lock: a job removes files only after a commit, and that needs the lock.
        let open = |view: &SegmentView| {
            let files = view.segment.entry.files.iter();
            files
                .map(|file| Ok(storage.open(&file.name)?))
                .collect::<Result<Vec<_>>>()
        };
        Ok(Moment {
            files: writer.segments.iter().map(open).collect::<Result<_>>()?,
            view: writer.view(),
            settings: Settings {
                config: writer.config.clone(),
                slots: writer.slots.clone(),
                operation: writer.operation,
                whole_lsn: 0,
            },
            next_segment: writer.manifest.next_segment,
            _held: held,
        })
    }

    /// The segments as the snapshot's manifest lists them: with the deletes of this moment.
    fn entries(&self, memory: &Consumer) -> Result<Vec<SegmentEntry>> {
        let entry_of = |view: &SegmentView| {
            let mut entry = view.segment.entry.clone();
            entry.live = view.live();
            entry.deletes = match view.deletes.is_empty() {
                true => None,
                false => {
                    let (bytes, _held) = deletes_of(view, memory)?;
                    let mut crc = FileCrc::new();
                    crc.update(&bytes);
                    Some(FileEntry {
                        name: deletes_file(entry.id, 1),
                        bytes: bytes.len() as u64,
                        crc: crc.value(),
                        component: Component::Deletes,
                    })
                }
            };
            Ok(entry)
        };
        self.view.segments.iter().map(entry_of).collect()
    }
}

/// Whether the memtables hold every group of the log wholly.
fn is_between_groups(writer: &Writer) -> bool {
    writer
        .log
        .as_ref()
        .is_some_and(|log| log.last_lsn() == writer.applied_lsn)
}

/// The file of a segment's deletes: encoded twice rather than kept, a segment at a time.
fn deletes_of(view: &SegmentView, memory: &Consumer) -> Result<(Vec<u8>, Reservation)> {
    // The bitmap and its encoding, each a bit a row at most.
    let held = memory.reserve(u64::from(view.segment.rows()) / 4 + (64 << 10))?;
    let bytes = bitmap::encode(EnvelopeKind::Deletes, &view.deletes.to_bitmap());
    Ok((bytes, held))
}

/// Bytes of a group in a snapshot, unless one point has more: it is held whole where it is restored, which may be in a smaller budget.
const SNAPSHOT_GROUP_BYTES: usize = 64 << 10;

/// The live rows of the memtables as groups of the log, each with the number of the operation that wrote it.
fn write_memtables(
    core: &Core,
    schema: &Schema,
    memtables: Vec<MemtableView>,
    sink: &mut Sink,
    work: &Workspace,
) -> Result<()> {
    let most = core.shared.group_bytes.min(SNAPSHOT_GROUP_BYTES);
    let mut held = work.memory.reserve(most as u64)?;
    let (mut group, mut change) = (Group::default(), Vec::new());
    for memtable in memtables {
        for row in memtable.live_rows() {
            let row = memtable.memtable.row(row);
            change.clear();
            let vectors = schema.vectors.iter();
            let vectors = vectors.filter_map(|v| Some((v.slot, row.vector(v.slot)?)));
            encode_put(&mut change, row.id, vectors, row.payload);
            let capacity = (group.record().capacity().max(most) + change.capacity() + OP_HEADER_BYTES) as u64;
            if capacity > held.bytes() {
                held.grow(capacity - held.bytes())?;
            }
            if group.is_full(change.len(), most) {
                write_group(core, &mut group, sink)?;
            }
            group.push(row.version, &change);
        }
    }
    if !group.is_empty() {
        write_group(core, &mut group, sink)?;
    }
    Ok(())
}

fn write_group(core: &Core, group: &mut Group, sink: &mut Sink) -> Result<()> {
    core.check_open()?;
    debug_assert!(group.bytes().len() <= GROUP_BYTES_MAX);
    sink.frame(FrameKind::Changes, group.bytes())?;
    group.record().clear();
    Ok(())
}

/// A file as it is, its checksum compared on the way.
fn copy(
    core: &Core,
    entry: &FileEntry,
    file: &dyn ReadFile,
    sink: &mut Sink,
    work: &mut Workspace,
) -> Result<()> {
    let (len, crc) = (file.len(), entry.crc);
    if len != entry.bytes {
        let why = format!("{}: {len} bytes, the manifest says {}", entry.name, entry.bytes);
        return Err(Error::corrupt(why));
    }
    sink.head(Frame {
        kind: FrameKind::File,
        crc,
        bytes: len,
    })?;
    let mut found = FileCrc::new();
    let mut at = 0;
    while at < len {
        core.check_open()?;
        let n = work.buf.len().min((len - at) as usize);
        let part = &mut work.buf[..n];
        file.read_at(part, at)?;
        found.update(part);
        sink.append(part)?;
        at += n as u64;
    }
    if found.value() != crc {
        let why = format!(
            "{}: checksum {:08x}, the manifest says {crc:08x}",
            entry.name,
            found.value()
        );
        return Err(Error::corrupt(why));
    }
    Ok(())
}
