//! Opening a collection: the newest manifest, its segments, then the log from there on.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex};

use arc_swap::ArcSwap;
use ramlet_format::manifest::Manifest;
use ramlet_memory::{Consumer, Reservation};

use crate::error::{Error, Result};
use crate::jobs::{Settings, rank_small_segments};
use crate::read::lookup::Lookup;
use crate::recall::monitor::RecallMonitor;
use crate::recovery::catalog::first_segment;
use crate::recovery::manifest_store::{self, Generations};
use crate::schema::{Schema, Slots, check_config};
use crate::segment::deletes::DeleteSet;
use crate::segment::{FileContext, Segment, SegmentView, read_deletes};
use crate::state::core::Core;
use crate::state::shared::Shared;
use crate::types::CollectionConfig;
use crate::write::group_commit::apply_group;
use crate::write::log::Log;
use crate::write::memtable::MemtableWriter;
use crate::write::writer::Writer;

/// What a collection is opened with.
pub struct Parts {
    pub id: String,
    pub file_context: FileContext,
    pub shared: Arc<Shared>,
    pub updates: Consumer,
    pub memtables: Consumer,
    /// RAM of queries that recall is measured on.
    pub samples: Consumer,
    /// For what every collection costs.
    pub held: Reservation,
}

/// A new collection in an empty directory.
pub fn create(parts: Parts, config: CollectionConfig) -> Result<Core> {
    check_config(&config)?;
    let slots = Slots::for_config(&config);
    create_with(parts, config, slots)
}

/// The same with the slots of another: its log, then its first manifest.
pub fn create_with(parts: Parts, config: CollectionConfig, slots: Slots) -> Result<Core> {
    let settings = Settings {
        config,
        slots,
        operation: 0,
        whole_lsn: 0,
    };
    let log = Log::create(parts.file_context.storage.clone(), 1, parts.shared.log_setup())?;
    let manifest = Manifest {
        number: 1,
        collection: parts.id.clone(),
        applied_lsn: 0,
        next_segment: first_segment(&parts.id),
        config: serde_json::to_value(&settings).map_err(|e| Error::bad_input(e.to_string()))?,
        segments: Vec::new(),
        logs: Vec::new(),
        durable_lsn: 0,
    };
    let mut manifests = Generations::none();
    manifests.next();
    let core = assemble(parts, settings, Vec::new(), manifest, manifests)?;
    {
        let mut writer = core.writer();
        writer.log = Some(log);
        let first = writer.manifest.clone();
        writer.commit_manifest(core.file_context.storage.as_ref(), first, None)?;
    }
    Ok(core)
}

/// Opens what is there: corruption is refused with file and place.
pub fn open(parts: Parts, lookup: &mut Lookup) -> Result<Core> {
    let storage = parts.file_context.storage.clone();
    let (mut manifests, newest) = Generations::<Manifest>::newest(storage.as_ref())?;
    let manifest = newest.ok_or_else(|| Error::corrupt(format!("{}: no manifest", storage.location())))?;
    if manifest.collection != parts.id {
        let why = format!(
            "{}: its manifest is of collection {}",
            storage.location(),
            manifest.collection
        );
        return Err(Error::corrupt(why));
    }
    let settings: Settings = serde_json::from_value(manifest.config.clone()).map_err(|e| {
        Error::corrupt(format!(
            "{}: manifest {}: {e}",
            storage.location(),
            manifest.number
        ))
    })?;
    let schema = Schema::new(&settings.config, &settings.slots)?;
    let mut segments = Vec::with_capacity(manifest.segments.len());
    for entry in &manifest.segments {
        let segment = Segment::open(entry.clone(), &parts.file_context, &schema, &mut lookup.io)?;
        let deletes = match &entry.deletes {
            Some(file) => DeleteSet::from_bitmap(&read_deletes(&parts.file_context, file, entry.rows)?),
            None => DeleteSet::default(),
        };
        segments.push(SegmentView {
            segment: Arc::new(segment),
            deletes,
        });
    }
    rank_small_segments(&segments, &parts.file_context.caches);
    let applied_lsn = manifest.applied_lsn;
    // Not before each segment that the manifest names has opened: else what it doesn't name may be all that is left. Before the replay,
    // whose flushes take the numbers of segments that were never finished.
    manifest_store::remove_orphans(storage.as_ref(), &manifest)?;
    manifests.tidy(storage.as_ref())?;
    let core = assemble(parts, settings, segments, manifest.clone(), manifests)?;
    let log = Log::open(storage, &manifest, core.shared.log_setup(), &mut |lsn, group| {
        let (mut writer, result) = apply_group(&core, core.writer(), group, lookup);
        result?;
        writer.applied_lsn = lsn;
        Ok(())
    })?;
    {
        let mut writer = core.writer();
        writer.log = Some(log);
        core.publish(&writer);
        if writer.frozen.is_some() {
            core.shared.wake_maintenance();
        }
        writer.applied_lsn = writer.log.as_ref().map_or(applied_lsn, Log::last_lsn);
    }
    Ok(core)
}

fn assemble(
    parts: Parts,
    settings: Settings,
    segments: Vec<SegmentView>,
    manifest: Manifest,
    manifests: Generations<Manifest>,
) -> Result<Core> {
    let schema = Arc::new(Schema::new(&settings.config, &settings.slots)?);
    let has_stopped = Arc::new(AtomicBool::new(false));
    let writer = Writer {
        log: None,
        active: MemtableWriter::new(schema.clone(), &parts.memtables)?,
        spare: Some(MemtableWriter::new(schema.clone(), &parts.memtables)?),
        frozen: None,
        segments,
        applied_lsn: manifest.applied_lsn,
        manifest,
        manifests,
        config: settings.config,
        slots: settings.slots,
        schema,
        operation: settings.operation,
        stopped: None,
        has_stopped: has_stopped.clone(),
        memtables: parts.memtables,
    };
    let view = ArcSwap::from_pointee(writer.view());
    Ok(Core {
        id: parts.id,
        called: Default::default(),
        file_context: parts.file_context,
        shared: parts.shared,
        updates: parts.updates,
        view,
        queue: Mutex::default(),
        writer: Mutex::new(writer),
        flushed: Condvar::new(),
        has_stopped,
        gave_way: Default::default(),
        waits_for_room: AtomicBool::default(),
        dropped: Arc::default(),
        replaced: AtomicBool::default(),
        backoff: Default::default(),
        monitor: RecallMonitor::new(parts.samples),
        progress: Default::default(),
        builds_alone: AtomicBool::new(false),
        seen_idle: Default::default(),
        quiet: Default::default(),
        gate: Default::default(),
        expiry: Default::default(),
        _held: parts.held,
    })
}
