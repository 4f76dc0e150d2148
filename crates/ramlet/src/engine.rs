//! The engine: a directory of collections, their names, and the threads that serve them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use ramlet_format::catalog::{Catalog, CollectionEntry, ShardEntry};
use ramlet_io::system::ask_for_short_slice;
use ramlet_io::{BlockCache, IoContext, RecordStats, Storage};
use ramlet_memory::{BudgetRequest, BudgetTable, Consumer, Ledger, Reservation};

use crate::collection::Collection;
use crate::error::{Error, ErrorKind, Result};
use crate::faults::locks;
use crate::faults::locks::whole;
use crate::faults::panics::{caught, guarded};
use crate::jobs;
use crate::jobs::watch::Watch;
use crate::jobs::{maintenance, merge_flush};
use crate::limits::{BACKGROUND_READS, COLLECTION_BYTES, LOG_FILE_BYTES, OPENED_AT_START, SEARCH_QUEUE_MAX};
use crate::memory::capacity;
use crate::memory::descriptors;
use crate::memory::eviction::Caches;
use crate::memory::quotas::QuotaConfig;
use crate::query::Scratch;
use crate::read::lookup::Lookup;
use crate::recovery::catalog::{AliasOp, catalog_of, change_alias, directory_id, is_directory_id, number_of};
use crate::recovery::closed::ClosedCollection;
use crate::recovery::manifest_store::CommitError;
use crate::recovery::orphans::{Orphan, orphan, unlisted};
use crate::recovery::recover::{self, Parts};
use crate::residency::names;
use crate::segment::{FileContext, graph_width};
use crate::sharding::{self, Shard, ShardSet};
use crate::snapshot::SnapshotDir;
use crate::state::core::Core;
use crate::state::shared::{JobArena, Shared};
use crate::types::CollectionConfig;
use crate::write::group_commit::{ROOM_POLL, Turn};

/// Reads in flight of one search slot.
const SLOT_READS: usize = 64;
/// Buffers of the writer, which reads single rows.
const BACKGROUND_BYTES: u64 = 128 << 10;
/// Default snapshot directory.
pub(crate) const SNAPSHOTS: &str = "snapshots";

/// Options for opening an engine.
pub struct EngineOptions {
    /// The division of the RAM (`docs/memory.md`).
    pub budget: BudgetTable,
    /// The ledger of all reservations; its limit is `budget.ledger_limit()`.
    pub ledger: Arc<Ledger>,
    /// A new seed for each start: log files get their salts from it.
    pub seed: u64,
    /// Length of log files, which even an empty collection takes on disk. `None`: half of the row `write buffers`, 8 MiB at most.
    pub log_file_bytes: Option<u64>,
}

impl EngineOptions {
    /// Options for an engine inside another program, with `memory_bytes` in all. `search_threads` searches run at once.
    pub fn in_process(memory_bytes: u64, search_threads: usize) -> Result<EngineOptions> {
        let request = BudgetRequest::in_process(memory_bytes, search_threads);
        let budget = BudgetTable::plan(request)?;
        Ok(EngineOptions {
            ledger: Ledger::new(budget.ledger_limit()),
            budget,
            // Its keys are the system's random numbers.
            seed: RandomState::new().build_hasher().finish(),
            log_file_bytes: None,
        })
    }
}

/// The table of names.
pub(crate) type Names = names::Names<Arc<Collection>>;

/// The collections that a start opens, if there is room.
#[derive(Clone, Copy)]
pub(crate) enum AtStart<'a> {
    /// Those of these names are closed.
    AllBut(&'a [String]),
    Nothing,
}

/// How often a new collection checks whether others' points were flushed: for two seconds.
pub(crate) const CREATE_TRIES: u32 = 100;

/// A job for a search slot.
pub type SlotJob = Box<dyn FnOnce(&mut Scratch) + Send>;

/// A search slot: reader, buffers and heap for one search at a time; each belongs to a thread.
pub struct Slot {
    scratch: Scratch,
    /// The place of a slot outside the engine's threads.
    _place: Option<Place>,
}

impl Slot {
    /// Runs `job` on this thread; `None` if it panicked. The slot stays usable.
    pub fn run<T>(&mut self, job: impl FnOnce(&mut Scratch) -> T) -> Option<T> {
        self.scratch.rare().work();
        let run = std::panic::AssertUnwindSafe(|| job(&mut self.scratch));
        let done = std::panic::catch_unwind(run);
        if done.is_err() {
            tracing::error!("a search panicked");
        }
        self.scratch.trim();
        self.scratch.rare().rest();
        done.ok()
    }
}

/// One of the places of [`BudgetTable::slots_outside`], freed on drop.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Collections of one data directory.
pub struct Engine {
    storage: Arc<dyn Storage>,
    options: EngineOptions,
    shared: Arc<Shared>,
    cache: Arc<BlockCache>,
    consumers: Consumers,
    names: Mutex<Names>,
    /// Notified when a collection was loaded or unloaded.
    pub(crate) moved: Condvar,
    /// RAM of the catalog.
    listed: Mutex<Reservation>,
    slots: Arc<SlotQueue>,
    /// Slots held by the caller's threads.
    slots_outside: Arc<AtomicUsize>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Opened on first use, unless it was given.
    snapshots: Mutex<Option<SnapshotDir>>,
    /// Whose turn it is to have its recall measured.
    monitored: AtomicU64,
    _lock: Box<dyn Send + Sync>,
}

struct Consumers {
    memtables: Consumer,
    metadata: Consumer,
    pinned: Consumer,
    caches: Arc<Caches>,
    updates: Consumer,
    collections: Consumer,
    slots: Consumer,
    /// Scratch beside the slots: the writer's and outside callers'.
    extra: Consumer,
    /// Queries that recall is measured on.
    samples: Consumer,
    /// Copy buffers of snapshots.
    snapshots: Consumer,
}

#[derive(Default)]
struct SlotQueue {
    jobs: Mutex<(VecDeque<SlotJob>, bool)>,
    changed: Condvar,
}

impl SlotQueue {
    fn next(&self) -> Option<SlotJob> {
        let mut guard = whole(&self.jobs);
        loop {
            if let Some(job) = guard.0.pop_front() {
                return Some(job);
            }
            if guard.1 {
                return None;
            }
            guard = locks::wait(&self.changed, guard);
        }
    }
}

impl Engine {
    /// Takes the directory's lock, recovers every collection, starts the threads.
    ///
    /// A collection that can't be opened is closed ([`ErrorKind::CollectionClosed`]), and the others are usable. It is an error if the directory or its
    /// catalog can't be read, and if the budget, the disk or the file descriptors don't suffice.
    pub fn open(storage: Arc<dyn Storage>, options: EngineOptions) -> Result<Arc<Engine>> {
        Engine::open_without(storage, options, &[], false)
    }

    /// The same, but collections with these names stay closed and their files unchanged. `builds_elsewhere`: see [`Engine::set_builds_elsewhere`].
    pub fn open_without(
        storage: Arc<dyn Storage>,
        options: EngineOptions,
        skip: &[String],
        builds_elsewhere: bool,
    ) -> Result<Arc<Engine>> {
        let engine = Engine::recovered(storage, options, AtStart::AllBut(skip))?;
        engine.set_builds_elsewhere(builds_elsewhere);
        engine.start()?;
        Ok(engine)
    }

    /// Recovers as [`Engine::open`] does, which may write, but starts no threads: for reading. Updates are refused, and jobs run
    /// only on request.
    pub fn open_without_threads(storage: Arc<dyn Storage>, options: EngineOptions) -> Result<Arc<Engine>> {
        let engine = Engine::recovered(storage, options, AtStart::AllBut(&[]))?;
        engine.names().read_only = true;
        let collections = engine.shared.live_collections();
        collections.iter().for_each(|core| core.close_queue());
        Ok(engine)
    }

    /// Without threads.
    pub(crate) fn recovered(
        storage: Arc<dyn Storage>,
        options: EngineOptions,
        at_start: AtStart<'_>,
    ) -> Result<Arc<Engine>> {
        let lock = storage.lock()?;
        let budget = &options.budget;
        let ledger = &options.ledger;
        let consumers = Consumers {
            // Whoever fills them can wait for caches to give way: what is acknowledged must get in.
            memtables: ledger.set_aside("write buffers", budget.write_buffers)?.waiting(),
            metadata: ledger.keeper("segment metadata", budget.metadata_max()),
            // The rest is for what segments need to be read at all.
            pinned: ledger.keeper("pinned files", pinned_bytes_max(budget.pinned)),
            caches: Caches::new(ledger, budget.pinned_max()),
            updates: ledger.consumer("queued updates", budget.updates_max()).waiting(),
            collections: ledger.keeper("collections", capacity::collections_bytes_max(budget)),
            slots: ledger.keeper("search slots", budget.search_slots).waiting(),
            // A search that finds all in caches, or held by others, waits until it isn't, rather than being refused: that is a matter of other searches.
            extra: ledger
                .consumer("extra scratch", budget.elastic)
                .waiting()
                .queued(),
            // Kept for as long as an index is there, and refused at once: it is searches that would wait.
            samples: ledger.keeper("query samples", budget.elastic / 2),
            snapshots: ledger.consumer("snapshots", budget.elastic),
        };
        let cache = BlockCache::new(
            &ledger.keeper("block cache", budget.block_cache),
            budget.block_cache,
        )?;
        // Bounded by construction (sort runs, column buffers); each job takes what it needs as a whole.
        let scratch = ledger.set_aside("job scratch", budget.job_scratch)?;
        let arena = JobArena {
            lookup: Lookup::without_index(
                IoContext::new(storage.reader(BACKGROUND_READS)?),
                &consumers.extra.lasting(),
            )?,
            scratch_bytes: 0,
            has_less_scratch: false,
            threads: build_threads(budget.search_threads),
            scratch,
            spare: ledger.consumer("job scratch, spare", budget.pinned / 2),
            is_within_merge: false,
        };
        let log_file_bytes = options.log_file_bytes.unwrap_or(budget.write_buffers / 2);
        let log_file_bytes = log_file_bytes.clamp(*LOG_FILE_BYTES.start(), *LOG_FILE_BYTES.end()) & !4095;
        let log_buffers = ledger
            .consumer("log buffers", budget.log_buffers)
            .reserve(budget.log_buffers)?;
        let shared = Arc::new(Shared::new(arena, options.seed, log_file_bytes, log_buffers));
        // Taken one by one when the threads start: until then nobody is to have them.
        let slots = consumers.slots.reserve(budget.search_slots)?;
        let (catalogs, catalog) = catalog_of(storage.as_ref())?;
        let listed = capacity::listed(&options.budget, ledger, &catalog)?;
        let engine = Engine {
            storage,
            options,
            shared,
            cache,
            consumers,
            listed: Mutex::new(listed),
            names: Mutex::new(Names::new(catalog.clone(), catalogs)),
            moved: Condvar::new(),
            slots: Arc::default(),
            slots_outside: Arc::default(),
            threads: Mutex::default(),
            snapshots: Mutex::default(),
            monitored: AtomicU64::new(0),
            _lock: lock,
        };
        engine.recover(&catalog, at_start)?;
        drop(slots);
        Ok(Arc::new(engine))
    }

    fn recover(&self, catalog: &Catalog, at_start: AtStart<'_>) -> Result<()> {
        let listed: BTreeSet<&str> = catalog.directories().collect();
        for name in self.storage.list_subdirs()? {
            if is_directory_id(&name) && !listed.contains(name.as_str()) {
                self.clear_away(&name, catalog)?;
            }
        }
        let AtStart::AllBut(skip) = at_start else {
            return Ok(());
        };
        self.close_skipped(skip)?;
        let mut lookup = self.lookup()?;
        let entries = self.names().catalog.collections.clone();
        let to_open = entries.iter().filter(|entry| !skip.contains(&entry.name));
        for entry in to_open.take(OPENED_AT_START) {
            let name = &entry.name;
            // The others are opened when they are asked for.
            if self.has_loaded() && !self.has_room(1 + entry.shards.len()) {
                break;
            }
            match self.reopen(entry, &mut lookup) {
                Ok(collection) => self.names().insert(name, &entry.id, collection),
                // What others hold isn't lacking: it finds room once they have made way.
                Err(e) if e.is_shortage() && self.has_loaded() => break,
                // Of disk and descriptors none gets more.
                Err(e) if e.is_shortage() && !e.is_over_budget() => return Err(e.at(name)),
                Err(e) => {
                    let closed = self.close_damaged(entry, e);
                    self.names().closed.insert(name.clone(), closed);
                    // It may have been left in the middle of something.
                    lookup = self.lookup()?;
                }
            }
        }
        Ok(())
    }

    /// Closes the collections that a start must not open.
    fn close_skipped(&self, skip: &[String]) -> Result<()> {
        let mut names = self.names();
        for name in skip {
            let Some(entry) = names.entry(name) else {
                let what =
                    format!("Not found: Collection `{name}`, named by --skip-collection, doesn't exist!");
                return Err(Error::not_found(what));
            };
            let why = Error::new(ErrorKind::CollectionClosed, "it was skipped by --skip-collection");
            let closed = ClosedCollection::new(entry, None, why);
            names.closed.insert(name.clone(), closed);
        }
        Ok(())
    }

    /// Opens a collection that the catalog lists: its directory, and those of its shards.
    pub(crate) fn reopen(&self, entry: &CollectionEntry, lookup: &mut Lookup) -> Result<Arc<Collection>> {
        let memtables = &self.consumers.memtables;
        let mut open = |id: &str| {
            // What the logs of many collections hold may be more than fits at once.
            let make_room = || guarded(|| maintenance::flush_largest(&self.shared));
            while memtables.available() < memtables.cap() / 4 && make_room().unwrap_or(false) {}
            guarded(|| Ok(recover::open(self.parts(id)?, lookup)?.with_name(&entry.name)))
        };
        let core = open(&entry.id)?;
        if !sharding::is_keyed(&core, entry.shards.len()) {
            return Ok(self.register(core));
        }
        let mut shards = Vec::with_capacity(entry.shards.len());
        for shard in &entry.shards {
            shards.push((
                shard,
                open(&shard.id).map_err(|e| e.at(format_args!("shard {}", shard.key)))?,
            ));
        }
        Ok(self.register_keyed(core, shards))
    }

    /// Removes a directory that the catalog doesn't list, if it was dropped or never finished. A directory with points whose number the catalog
    /// hasn't assigned yet belongs to a newer catalog that is missing: it is data, and stays.
    fn clear_away(&self, id: &str, catalog: &Catalog) -> Result<()> {
        if number_of(id).is_some_and(|number| number < catalog.next_id) {
            return Ok(self.storage.remove_subdir(id)?);
        }
        let storage = self.storage.subdir(id)?;
        // What can't be read is nobody's to remove, and no reason to refuse the others.
        let found = guarded(|| orphan(storage.as_ref())).unwrap_or_else(|e| {
            tracing::error!(directory = id, error = %e, "the catalog doesn't list it, and it can't be read");
            Orphan::Foreign
        });
        match found {
            Orphan::Unfinished => Ok(self.storage.remove_subdir(id)?),
            Orphan::Foreign => {
                tracing::warn!(directory = %storage.location(), "not a collection, left alone");
                let mut names = self.names();
                let after = number_of(id).map_or(0, |number| number + 1);
                names.catalog.next_id = names.catalog.next_id.max(after);
                Ok(())
            }
            Orphan::Collection => Err(Error::corrupt(unlisted(storage.as_ref(), catalog))),
        }
    }

    /// Registers a collection with the engine's threads.
    pub(crate) fn enroll(&self, core: Core) -> Arc<Core> {
        let core = Arc::new(core);
        let mut collections = whole(&self.shared.collections);
        collections.push(Arc::downgrade(&core));
        core
    }

    pub(crate) fn register(&self, core: Core) -> Arc<Collection> {
        Arc::new(Collection::new(self.enroll(core)))
    }

    /// Registers a collection with shard keys.
    pub(crate) fn register_keyed(&self, core: Core, shards: Vec<(&ShardEntry, Core)>) -> Arc<Collection> {
        let settings = self.enroll(core);
        let shard = |(entry, core): (&ShardEntry, Core)| {
            let core = self.enroll(core);
            // What was cut off between two shards. It may fail for want of memory: then the next change of settings ends it.
            if let Err(error) = core.guarded(|| sharding::align(&settings, &core)) {
                tracing::warn!(shard = %entry.key, %error, "a shard doesn't have the settings of its collection yet");
            }
            Arc::new(Shard {
                key: Arc::new(entry.key.clone()),
                number: entry.number,
                core,
            })
        };
        let shards = ShardSet::new(shards.into_iter().map(shard).collect());
        Arc::new(Collection::keyed(settings, shards))
    }

    pub(crate) fn lookup(&self) -> Result<Lookup> {
        Ok(Lookup::new(
            IoContext::new(self.storage.reader(BACKGROUND_READS)?),
            &self.consumers.extra.lasting(),
            &self.consumers.extra.lasting(),
            BACKGROUND_BYTES,
        )?)
    }

    fn parts(&self, id: &str) -> Result<Parts> {
        Ok(Parts {
            id: id.to_string(),
            file_context: FileContext {
                storage: self.storage.subdir(id)?,
                cache: self.cache.clone(),
                metadata: self.consumers.metadata.clone(),
                pinned: self.consumers.pinned.clone(),
                caches: self.consumers.caches.clone(),
                graph_width: graph_width(self.options.budget.search_threads),
            },
            shared: self.shared.clone(),
            updates: self.consumers.updates.clone(),
            memtables: self.consumers.memtables.clone(),
            samples: self.consumers.samples.clone(),
            held: self.consumers.collections.reserve(COLLECTION_BYTES)?,
        })
    }

    fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new()
            .name(name.into())
            .stack_size(THREAD_STACK)
            .spawn(body)
            .map_err(|e| Error::new(ErrorKind::Io, format!("starting thread {name}: {e}")))?;
        whole(&self.threads).push(thread);
        Ok(())
    }

    fn start_writer(&self) -> Result<()> {
        let (shared, mut lookup) = (self.shared.clone(), self.lookup()?);
        self.spawn("writer", move || {
            ask_for_short_slice();
            or_end("writer", || {
                while let Some(core) = shared.next_ready() {
                    if Turn::run(&core, &mut lookup).is_err() {
                        lookup.settle();
                    }
                    lookup.trim();
                }
            });
        })
    }

    fn start(self: &Arc<Self>) -> Result<()> {
        self.start_writer()?;
        let budget = &self.options.budget;
        for _ in budget.slots_outside..budget.search_threads {
            let (queue, mut slot) = (self.slots.clone(), self.new_slot(None)?);
            self.spawn("search", move || {
                while let Some(job) = queue.next() {
                    slot.run(job);
                }
            })?;
        }
        // The last: it caches data in what nobody has by now.
        let (shared, engine) = (self.shared.clone(), Arc::downgrade(self));
        let visit = move |most| {
            if let Some(engine) = engine.upgrade() {
                engine.visit(most);
            }
        };
        self.shared.flush_within_merge(merge_flush::flush_awaited);
        self.spawn("maintenance", move || {
            or_end("maintenance", || maintenance::run(&shared, &visit))
        })?;
        self.shared.wake_maintenance();
        Ok(())
    }

    fn new_slot(&self, place: Option<Place>) -> Result<Slot> {
        let mut scratch = Scratch::new(
            IoContext::new(self.storage.reader(SLOT_READS)?),
            &self.consumers.slots,
            &self.consumers.extra.for_one(),
            self.options.budget.search_slot(),
        )?;
        scratch.in_slot = true;
        scratch.rare().rest();
        Ok(Slot {
            scratch,
            _place: place,
        })
    }

    /// A search slot for the thread that calls this, which runs its jobs itself; `None` when all of
    /// [`BudgetTable::slots_outside`] are held.
    pub fn slot(&self) -> Result<Option<Slot>> {
        let most = self.options.budget.slots_outside;
        let free = |held: usize| (held < most).then_some(held + 1);
        match self
            .slots_outside
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
        {
            Ok(_) => self.new_slot(Some(Place(self.slots_outside.clone()))).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The table of names. If a thread panicked while it changed the table, the process ends: the catalog on disk has the truth.
    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(|_| Engine::end_of_names())
    }

    pub(crate) fn end_of_names() -> ! {
        end("a thread panicked while it changed the list of collections")
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn metadata(&self) -> &Consumer {
        &self.consumers.metadata
    }

    pub(crate) fn check_running(&self) -> Result<()> {
        match self.shared.is_closed() {
            true => Err(Error::new(ErrorKind::Closed, "the server is shutting down")),
            false => Ok(()),
        }
    }

    fn has_loaded(&self) -> bool {
        !self.names().loaded.is_empty()
    }

    /// Requests a flush of the write buffers.
    pub(crate) fn ask_for_room(&self) {
        self.shared.room_wanted_for_new.store(true, Ordering::Release);
        self.shared.want_room();
    }

    /// Creates a collection. `AlreadyExists` if a collection has the name, `BadInput` if an alias has it. Any name is allowed here; the server
    /// only allows the API's names (1 to 255 bytes, none of `<>:"/\|?*`), and can't reach others.
    pub fn create_collection(&self, name: &str, config: CollectionConfig) -> Result<()> {
        self.in_room(|| self.create_in_room(name, config.clone()))
    }

    /// Retries while other collections' points fill the share of memtables, until they are flushed. Unused collections are unloaded.
    pub(crate) fn in_room<T>(&self, make: impl Fn() -> Result<T>) -> Result<T> {
        for _ in 0..CREATE_TRIES {
            self.make_room(1);
            let made = make();
            let Err(e) = &made else {
                return made;
            };
            let is_memory = e.kind() == ErrorKind::OverBudget;
            if !is_memory && e.kind() != ErrorKind::NoDescriptors {
                return made;
            }
            if self.unload_one() {
                continue;
            }
            if !is_memory {
                return made;
            }
            self.ask_for_room();
            std::thread::sleep(ROOM_POLL);
        }
        make()
    }

    /// Creates what gets the next number, then commits the catalog that lists it. What fails half-way is removed, and its number given back.
    pub(crate) fn created(
        &self,
        names: &mut Names,
        (catalog, name): (Catalog, &str),
        create: impl FnOnce(Parts) -> Result<Core>,
    ) -> Result<Core> {
        let number = names.catalog.next_id;
        names.catalog.next_id += 1;
        let made = guarded(|| Ok(create(self.parts(&directory_id(number))?)?.with_name(name)));
        made.and_then(|core| self.commit(names, catalog).map(|()| core))
            .inspect_err(|_| {
                // A commit of which nobody knows may have listed it.
                if names.stopped.is_none() && self.storage.remove_subdir(&directory_id(number)).is_ok() {
                    names.catalog.next_id = number;
                }
            })
    }

    pub(crate) fn check_files(&self, others: &[Arc<Core>], config: &CollectionConfig) -> Result<()> {
        let metadata = &self.consumers.metadata;
        descriptors::check_collection(self.storage.as_ref(), metadata, others, config)
    }

    fn create_in_room(&self, name: &str, config: CollectionConfig) -> Result<()> {
        let mut names = self.names();
        self.check_running()?;
        if names.catalog.aliases.iter().any(|a| a.alias == name) {
            return Err(Error::bad_input(format!(
                "Wrong input: Can't create collection with name {name}. Alias with the same name already exists"
            )));
        }
        if names.entry(name).is_some() {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("Collection `{name}` already exists!"),
            ));
        }
        let id = directory_id(names.catalog.next_id);
        let mut catalog = names.catalog.clone();
        catalog.collections.push(CollectionEntry {
            name: name.to_string(),
            id: id.clone(),
            shards: Vec::new(),
        });
        // Before anything is written.
        self.hold_listed(&catalog)?;
        self.check_files(&self.shared.live_collections(), &config)?;
        catalog.next_id += 1;
        let is_custom = sharding::is_custom(&config);
        let create = |parts| recover::create(parts, config);
        let core = self.created(&mut names, (catalog, name), create)?;
        let collection = match is_custom {
            true => self.register_keyed(core, Vec::new()),
            false => self.register(core),
        };
        names.insert(name, &id, collection);
        Ok(())
    }

    /// Changes the settings that can be changed.
    pub fn update_collection(
        &self,
        name: &str,
        change: &mut dyn FnMut(&mut CollectionConfig) -> Result<()>,
    ) -> Result<()> {
        let collection = self.collection(name)?;
        let core = collection.core();
        match collection.shard_set() {
            None => core.guarded(|| jobs::change_settings(core, change)),
            Some(shards) => shards.change_after(core, |core| jobs::change_settings(core, change)),
        }
    }

    /// Deletes a collection; `false` if there was none.
    pub fn delete_collection(&self, name: &str) -> Result<bool> {
        let (entry, collection) = {
            let mut names = self.settled_names(name);
            let Some(entry) = names.entry(name).cloned() else {
                return Ok(false);
            };
            let mut catalog = names.catalog.clone();
            catalog.collections.retain(|c| c.name != name);
            catalog.aliases.retain(|a| a.collection != name);
            self.commit(&mut names, catalog)?;
            names.closed.remove(name);
            (entry, names.loaded.remove(name).map(|loaded| loaded.collection))
        };
        match collection {
            Some(collection) => self.retire_all(&collection),
            None => entry.directories().for_each(|id| self.clear(id)),
        }
        self.names().forget(&entry.id);
        Ok(true)
    }

    /// Closes a collection without a name, and removes its directory.
    pub(crate) fn retire(&self, core: &Core) {
        core.dropped.store(true, Ordering::Release);
        // A job that is under way ends first: it may be writing into the directory.
        let _job = self.shared.job();
        // So does the writer's group: the next one is refused.
        let mut writer = core.writer();
        // Handles may outlive it by far; others wait for the memory.
        writer.let_go();
        core.view.store(Arc::new(writer.view()));
        self.clear(&core.id);
    }

    /// Removes the directory of a collection that the catalog doesn't list any more.
    pub(crate) fn clear(&self, id: &str) {
        if let Err(e) = self.storage.remove_subdir(id) {
            tracing::warn!(directory = id, error = %e, "removed at the next start");
        }
    }

    /// The parts of a new collection that isn't in the catalog yet, with a number that was never used.
    pub(crate) fn new_parts(&self) -> Result<Parts> {
        self.make_room(1);
        let mut names = self.names();
        // Its settings aren't known yet.
        let (others, config) = (self.shared.live_collections(), CollectionConfig::default());
        self.check_files(&others, &config)?;
        let id = directory_id(names.catalog.next_id);
        // Committed before there is data in it: what a crash leaves is then known to belong to nobody.
        let mut catalog = names.catalog.clone();
        catalog.next_id += 1;
        self.commit(&mut names, catalog)?;
        drop(names);
        self.parts(&id)
    }

    /// The collection's own name, if `name` is an alias; `name` otherwise.
    pub fn resolve_alias(&self, name: &str) -> String {
        self.names().target(name).to_string()
    }

    /// Sets the snapshot directory; call it before the first snapshot.
    pub fn set_snapshots(&self, storage: Arc<dyn Storage>) -> Result<()> {
        let dir = SnapshotDir::open(storage)?;
        *whole(&self.snapshots) = Some(dir);
        Ok(())
    }

    pub(crate) fn snapshot_dir(&self) -> Result<SnapshotDir> {
        let mut snapshots = whole(&self.snapshots);
        if let Some(dir) = snapshots.as_ref() {
            return Ok(dir.clone());
        }
        let dir = SnapshotDir::open(self.storage.subdir(SNAPSHOTS)?)?;
        *snapshots = Some(dir.clone());
        Ok(dir)
    }

    pub(crate) fn snapshot_memory(&self) -> &Consumer {
        &self.consumers.snapshots
    }

    /// A unique number.
    pub(crate) fn unique(&self) -> u64 {
        self.shared.salt() >> 1
    }

    /// The names of all collections, loaded or not, including closed ones; sorted.
    pub fn collection_names(&self) -> Vec<String> {
        let names = self.names();
        let all = names.catalog.collections.iter();
        all.map(|entry| entry.name.clone()).collect()
    }

    pub fn collection_count(&self) -> usize {
        self.names().catalog.collections.len()
    }

    /// Names by [`Collection::id`].
    pub fn names_by_id(&self) -> BTreeMap<String, String> {
        let names = self.names();
        let all = names.catalog.collections.iter();
        all.map(|entry| (entry.id.clone(), entry.name.clone())).collect()
    }

    /// Names of closed collections, with the error of their opening.
    pub fn closed_collections(&self) -> Vec<(String, Error)> {
        let names = self.names();
        let of = |(name, closed): (&String, &ClosedCollection)| (name.clone(), closed.why().clone());
        names.closed.iter().map(of).collect()
    }

    /// (alias, collection) pairs, sorted.
    pub fn aliases(&self) -> Vec<(String, String)> {
        let names = self.names();
        let all = names.catalog.aliases.iter();
        all.map(|a| (a.alias.clone(), a.collection.clone())).collect()
    }

    pub fn change_aliases(&self, ops: &[AliasOp]) -> Result<()> {
        let mut names = self.names();
        let mut catalog = names.catalog.clone();
        for op in ops {
            change_alias(&mut catalog, op)?;
        }
        self.commit(&mut names, catalog)
    }

    /// The quotas that were set last, also before a restart.
    pub fn quotas(&self) -> Result<Option<QuotaConfig>> {
        let quotas = self.names().catalog.quotas.clone();
        let read = serde_json::from_value(quotas);
        read.map_err(|e| Error::corrupt(format!("quotas in the catalog: {e}")))
    }

    pub fn set_quotas(&self, quotas: QuotaConfig) -> Result<()> {
        let mut names = self.names();
        let mut catalog = names.catalog.clone();
        catalog.quotas = serde_json::to_value(quotas).map_err(|e| Error::bad_input(e.to_string()))?;
        self.commit(&mut names, catalog)
    }

    pub(crate) fn commit(&self, names: &mut Names, mut catalog: Catalog) -> Result<()> {
        self.hold_listed(&catalog)?;
        names::sort(&mut catalog);
        catalog.number = names.catalogs.next();
        match names.catalogs.commit(self.storage.as_ref(), &catalog.encode()) {
            Ok(()) => {
                names.next_committed = catalog.next_id;
                names.catalog = catalog;
                Ok(())
            }
            Err(CommitError::Before(e)) => Err(e),
            Err(CommitError::Unknown(e)) => {
                names.stopped = Some(e.clone());
                for core in self.shared.live_collections() {
                    core.writer().stop(e.clone());
                }
                Err(e)
            }
        }
    }

    /// Reserves the memory of a catalog.
    pub(crate) fn hold_listed(&self, catalog: &Catalog) -> Result<()> {
        let mut listed = whole(&self.listed);
        capacity::list(&self.options.budget, &mut listed, catalog)
    }

    /// Times of log syncs and background jobs.
    pub fn watch(&self) -> &Watch {
        &self.shared.watch
    }

    /// Bytes of cached codes, vectors and records evicted for reservations, since the start.
    pub fn evicted_bytes(&self) -> u64 {
        self.consumers.caches.evicted_bytes()
    }

    /// Number of searches waiting for a search thread.
    pub fn searches_waiting(&self) -> usize {
        whole(&self.slots.jobs).0.len()
    }

    /// Runs `job` on a search thread. `Busy` if the queue is full.
    pub fn run(&self, job: SlotJob) -> Result<()> {
        let mut guard = whole(&self.slots.jobs);
        if guard.1 {
            return Err(Error::new(ErrorKind::Closed, "the server is shutting down"));
        }
        if guard.0.len() >= SEARCH_QUEUE_MAX {
            let what = "searches wait, the queue is full. Try again in a second, or send fewer at once";
            return Err(Error::new(ErrorKind::Busy, format!("{SEARCH_QUEUE_MAX} {what}")));
        }
        guard.0.push_back(job);
        drop(guard);
        self.slots.changed.notify_one();
        Ok(())
    }

    /// Measures the recall of one real query on a search slot, unless searches wait for one. If no query was kept, the next one
    /// of each collection will be. Returns whether one is measured now. Call it now and then, e.g. every ten seconds.
    pub fn monitor_recall_once(&self) -> bool {
        let collections: Vec<_> = self.loaded_collections();
        let turn = self.monitored.fetch_add(1, Ordering::Relaxed) as usize;
        for at in 0..collections.len() {
            let (_, collection) = collections[(turn + at) % collections.len()].clone();
            let Some(sample) = collection.monitor().take() else {
                continue;
            };
            if self.searches_waiting() > 0 {
                collection.monitor().put_back(sample);
                return false;
            }
            let job = Box::new(move |scratch: &mut Scratch| {
                if let Err(error) = collection.measure_recall(&sample, scratch) {
                    tracing::debug!(%error, "recall of a query couldn't be measured");
                }
            });
            return self.run(job).is_ok();
        }
        false
    }

    /// A scratch outside the slots (embedded use, tests).
    pub fn scratch(&self) -> Result<Scratch> {
        Scratch::new(
            IoContext::new(self.storage.reader(SLOT_READS)?),
            &self.consumers.extra,
            &self.consumers.extra.for_one(),
            BACKGROUND_BYTES,
        )
    }

    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.options.ledger
    }

    pub fn budget(&self) -> &BudgetTable {
        &self.options.budget
    }

    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// Statistics of the record cache.
    pub fn records(&self) -> RecordStats {
        self.consumers.caches.records.stats()
    }

    /// Number of collections that take no more writes until a restart, after a failed write to log or manifest, or a program fault.
    pub fn stopped_collections(&self) -> usize {
        let stopped = |core: &&Arc<Core>| !core.is_dropped() && core.has_stopped.load(Ordering::Acquire);
        self.shared.live_collections().iter().filter(stopped).count()
    }

    /// Readiness: false after [`Engine::close`], and if no collection takes writes any more.
    pub fn writable(&self) -> bool {
        let stopped = self.stopped_collections();
        let names = self.names();
        !self.shared.is_closed() && (stopped == 0 || stopped < names.catalog.directories().count())
    }

    /// Stops the threads without a flush, because the log has everything. Dropping the last handle releases the lock.
    pub fn close(&self) {
        self.shared.close();
        whole(&self.slots.jobs).1 = true;
        self.slots.changed.notify_all();
        let threads = std::mem::take(&mut *whole(&self.threads));
        let own = std::thread::current().id();
        for thread in threads {
            // The last handle may go with a completion, on an engine thread.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
        for core in self.shared.live_collections() {
            core.close_queue();
            core.note_durable();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
    }
}

/// Runs the work that all collections depend on. Panics in one collection's work are caught there ([`Core::guarded`]). Any other panic concerns
/// shared state, which can't be trusted any more.
fn or_end(thread: &str, body: impl FnOnce()) {
    if let Err(error) = caught(body) {
        end(&format!("the {thread} thread panicked: {error}"));
    }
}

/// Ends the process. The logs have everything acknowledged, and the next start recovers.
fn end(why: &str) -> ! {
    tracing::error!("the process ends: {why}");
    std::process::abort();
}

/// The most that cached data may take of `pinned`: the rest is for files that segments need to be readable.
fn pinned_bytes_max(pinned: u64) -> u64 {
    const METADATA_MIN: u64 = 2_500_000;
    pinned - (pinned / 32).max(METADATA_MIN).min(pinned / 2)
}

/// Threads of an index build. It computes all the time, while searches wait for the disk: more threads than cores
/// gain nothing, and each takes a share of the scratch.
fn build_threads(search_threads: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    search_threads.clamp(1, cores)
}

/// Stack of an engine thread. Nothing in the engine recurses deeper than a filter's nesting.
const THREAD_STACK: usize = 1 << 20;

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
