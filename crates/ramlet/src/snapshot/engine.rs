//! The engine's snapshot calls. All of them block; none knows a protocol or reads a clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ramlet_format::catalog::{AliasEntry, Catalog, CollectionEntry, ShardEntry};
use ramlet_format::snapshot::{Contents, Frame, FrameKind};

use super::directory::{TMP, file_name, is_sha256};
use super::restore::{self, Fits, check_same_vectors};
use super::source::{check_equal, check_sha256, refused};
use super::{
    SnapshotDescription, SnapshotFile, SnapshotReader, SnapshotScope, SnapshotUpload, Taken, Taking,
    Workspace,
};
use crate::collection::Collection;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{SNAPSHOT_BYTES, SNAPSHOT_LIST_FACTOR};
use crate::recovery::catalog::{AliasOp, change_alias};
use crate::recovery::recover;
use crate::sharding;
use crate::state::core::Core;

/// Why nothing can be called so; `None`: it can.
pub type NameFault<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Engine {
    /// Takes a snapshot while everything goes on; `now`: seconds since 1970. One moment of each collection.
    pub fn create_snapshot(&self, scope: SnapshotScope<'_>, now: u64) -> Result<SnapshotDescription> {
        let mut work = Workspace::new(self.snapshot_memory())?;
        let dir = self.snapshot_dir()?;
        let taking = |scope, prefix: &str| Taking {
            dir: &dir,
            scope,
            name: file_name(prefix, self.unique(), now),
            created: now,
        };
        match scope {
            SnapshotScope::Collection(name) => {
                let collection = self.collection(name)?;
                let name = self.resolve_alias(name);
                let taking = taking(SnapshotScope::Collection(&name), &name);
                let catalog = (!collection.shards().is_empty()).then(|| {
                    let collections = vec![collection.entry(&name)];
                    Catalog {
                        collections,
                        ..Catalog::default()
                    }
                });
                let cores = catalog.as_ref().map_or_else(
                    || Ok(vec![collection.core().clone()]),
                    |catalog| listed_cores(&catalog.collections[0], &collection),
                )?;
                taking.run(
                    catalog.as_ref(),
                    &mut std::iter::once(Ok((collection, cores))),
                    &mut work,
                )
            }
            SnapshotScope::Shard(name, number) => {
                let collection = self.collection(name)?;
                let cores = vec![collection.shard_of_number(number)?.core.clone()];
                let name = self.resolve_alias(name);
                let taking = taking(
                    SnapshotScope::Shard(&name, number),
                    &format!("{name}-shard-{number}"),
                );
                taking.run(None, &mut std::iter::once(Ok((collection, cores))), &mut work)
            }
            SnapshotScope::Everything => {
                let catalog = self.whole_catalog()?;
                let mut all = catalog.collections.iter().map(|entry| self.listed(entry));
                taking(scope, "full-snapshot").run(Some(&catalog), &mut all, &mut work)
            }
        }
    }

    /// By name. `NotFound` for a collection that isn't there.
    pub fn list_snapshots(&self, scope: SnapshotScope<'_>) -> Result<Vec<SnapshotDescription>> {
        self.in_scope(scope, |scope| self.snapshot_dir()?.list(scope))
    }

    /// `NotFound` when there is none.
    pub fn delete_snapshot(&self, scope: SnapshotScope<'_>, name: &str) -> Result<()> {
        self.in_scope(scope, |scope| self.snapshot_dir()?.delete(scope, name))
    }

    /// A snapshot's bytes. `NotFound` when there is none.
    pub fn open_snapshot(&self, scope: SnapshotScope<'_>, name: &str) -> Result<SnapshotFile> {
        self.in_scope(scope, |scope| self.snapshot_dir()?.open_file(scope, name))
    }

    /// The snapshot at an absolute path within the directory of snapshots; `BadInput` for any other path.
    pub fn open_snapshot_path(&self, path: &str) -> Result<SnapshotFile> {
        self.snapshot_dir()?.open_path(path)
    }

    /// Whether an absolute path names a place within the directory of snapshots; whether a file is there is another question.
    pub fn holds_snapshot_path(&self, path: &str) -> Result<bool> {
        Ok(self.snapshot_dir()?.holds(path))
    }

    /// A file that a snapshot is received into.
    pub fn begin_snapshot_upload(&self) -> Result<SnapshotUpload> {
        let held = self.snapshot_memory().reserve(SNAPSHOT_BYTES)?;
        let dir = self.snapshot_dir()?;
        let name = format!("upload-{}.snapshot{TMP}", self.unique());
        SnapshotUpload::create(dir.root().clone(), name, held)
    }

    /// Makes the collection what a received snapshot holds. `checksum`: its SHA-256, compared first.
    pub fn recover_upload(
        &self,
        collection: &str,
        mut upload: SnapshotUpload,
        checksum: Option<&str>,
    ) -> Result<()> {
        let file = received(&mut upload, checksum)?;
        self.recover_collection(collection, &file, None)
    }

    /// The same for one shard of a collection with shard keys.
    pub fn recover_shard_upload(
        &self,
        (collection, number): (&str, u32),
        mut upload: SnapshotUpload,
        checksum: Option<&str>,
    ) -> Result<()> {
        let file = received(&mut upload, checksum)?;
        self.recover_shard((collection, number), &file, None)
    }

    /// Makes a shard what a snapshot of a shard, or of a collection without keys, holds. Its key stays.
    pub fn recover_shard(
        &self,
        (collection, number): (&str, u32),
        file: &SnapshotFile,
        checksum: Option<&str>,
    ) -> Result<()> {
        let mut work = Workspace::new(self.snapshot_memory())?;
        let mut reader = open_checked(file, checksum, &mut work)?;
        let frame = reader.next()?;
        if reader.contents != Contents::Collection || frame.kind != FrameKind::Collection {
            return Err(refused(&"it is of several shards, not of one"));
        }
        let handle = self.collection(collection)?;
        let there = handle.config();
        let fits = |config: &_| check_same_vectors(&there, config);
        let core = self.restore_core(&mut reader, &frame, &fits, &mut work)?;
        let id = core.id.clone();
        expect_end(&mut reader).inspect_err(|_| drop(self.storage().remove_subdir(&id)))?;
        self.replace_shard((collection, number), &handle, core)
    }

    /// Makes the collection what a snapshot holds: created when it isn't there, replaced at once when it is, and then only
    /// by one with the same vectors. What fails changes nothing. `checksum`: the file's SHA-256, compared first.
    pub fn recover_collection(
        &self,
        collection: &str,
        file: &SnapshotFile,
        checksum: Option<&str>,
    ) -> Result<()> {
        let mut work = Workspace::new(self.snapshot_memory())?;
        let mut reader = open_checked(file, checksum, &mut work)?;
        if reader.contents != Contents::Collection {
            return Err(refused(&"it is one of the whole storage, not of a collection"));
        }
        let name = self.resolve_alias(collection);
        let there = match self.collection(&name) {
            Ok(collection) => Some(collection.config()),
            Err(e) if e.is_not_found() || e.kind() == ErrorKind::CollectionClosed => None,
            Err(e) => return Err(e),
        };
        let fits = move |config: &_| {
            there
                .as_ref()
                .map_or(Ok(()), |there| check_same_vectors(there, config))
        };
        let first = reader.next()?;
        // One with shard keys is told by a catalog in front.
        let (frame, shards) = match first.kind {
            FrameKind::Catalog => {
                let catalog = self.catalog_of(&mut reader, &first, &work)?;
                let [entry] = &catalog.collections[..] else {
                    return Err(refused(&"it isn't of one collection"));
                };
                (reader.next()?, entry.shards.clone())
            }
            _ => (first, Vec::new()),
        };
        let restored = self.restore(&mut reader, &frame, (&name, &shards), &fits, &mut work)?;
        let restored = [restored];
        let done = expect_end(&mut reader).and_then(|()| self.adopt(&restored, &[]));
        done.inspect_err(|_| self.discard(&restored))
    }

    /// Adds the collections and aliases of a snapshot of everything, all at once. `replace`: those that are there already
    /// give way; without it they are a reason to refuse (`AlreadyExists`). The engine takes any
    /// name, but who serves it may have paths that some don't fit in: `fault` tells.
    pub fn recover_everything(
        &self,
        file: &SnapshotFile,
        replace: bool,
        fault: NameFault<'_>,
    ) -> Result<Vec<String>> {
        let mut work = Workspace::new(self.snapshot_memory())?;
        let mut reader = SnapshotReader::open(file)?;
        if reader.contents != Contents::Everything {
            return Err(refused(&"it is one of a collection, not of the whole storage"));
        }
        let catalog = self.read_catalog(&mut reader, &work)?;
        check_called(&catalog, fault)?;
        for entry in catalog.collections.iter().filter(|_| !replace) {
            if self.has_collection(&entry.name) {
                let what = format!("Collection `{}` already exists!", entry.name);
                return Err(Error::new(crate::error::ErrorKind::AlreadyExists, what));
            }
        }
        let mut restored = Vec::new();
        let done = self.restore_all(&catalog, &mut reader, &mut restored, &mut work);
        let done = done.and_then(|()| self.adopt(&restored, &catalog.aliases));
        done.inspect_err(|_| self.discard(&restored))?;
        Ok(restored.into_iter().map(|entry| entry.name).collect())
    }

    fn read_catalog(&self, reader: &mut SnapshotReader, work: &Workspace) -> Result<Catalog> {
        let frame = reader.next()?;
        if frame.kind != FrameKind::Catalog {
            return Err(refused(&"it doesn't begin with a catalog"));
        }
        self.catalog_of(reader, &frame, work)
    }

    fn catalog_of(&self, reader: &mut SnapshotReader, frame: &Frame, work: &Workspace) -> Result<Catalog> {
        let _held = work.memory.reserve(frame.bytes * SNAPSHOT_LIST_FACTOR)?;
        let body = reader.body(frame)?;
        Catalog::decode(&body).map_err(|e| refused(&e))
    }

    /// Lists collections that were built beside the others, and aliases, all in one commit. Those that had the names are removed.
    fn adopt(&self, new: &[CollectionEntry], aliases: &[AliasEntry]) -> Result<()> {
        let mut names = self.names();
        while new.iter().any(|entry| names.moving.contains(&entry.name)) {
            names = self.wait_moved(names);
        }
        let mut catalog = names.catalog.clone();
        let given: BTreeSet<&str> = new.iter().map(|entry| entry.name.as_str()).collect();
        if let Some(alias) = catalog.aliases.iter().find(|a| given.contains(a.alias.as_str())) {
            let what = format!("`{}` is an alias, so it can't be a collection", alias.alias);
            return Err(Error::new(ErrorKind::AlreadyExists, what));
        }
        let all = std::mem::take(&mut catalog.collections).into_iter();
        let (replaced, kept): (Vec<_>, Vec<_>) = all.partition(|entry| given.contains(entry.name.as_str()));
        catalog.collections = kept;
        catalog.collections.extend(new.iter().cloned());
        for entry in aliases {
            let (alias, collection) = (entry.alias.clone(), entry.collection.clone());
            change_alias(&mut catalog, &AliasOp::Create { alias, collection })?;
        }
        self.commit(&mut names, catalog)?;
        let mut gone = Vec::new();
        for entry in replaced {
            names.closed.remove(&entry.name);
            names.forget(&entry.id);
            let loaded = names.loaded.remove(&entry.name);
            gone.push((loaded.map(|loaded| loaded.collection), entry));
        }
        drop(names);
        for (loaded, entry) in gone {
            self.end_replaced(loaded, &entry);
        }
        Ok(())
    }

    fn end_replaced(&self, loaded: Option<Arc<Collection>>, entry: &CollectionEntry) {
        let Some(collection) = loaded else {
            return entry.directories().for_each(|id| self.clear(id));
        };
        for core in collection.cores() {
            core.replaced.store(true, Ordering::Release);
        }
        self.retire_all(&collection);
    }

    /// The catalog, if none of its collections is closed.
    fn whole_catalog(&self) -> Result<Catalog> {
        let names = self.names();
        match names.closed.first_key_value() {
            Some((name, closed)) => Err(closed.error(name)),
            None => Ok(names.catalog.clone()),
        }
    }

    fn restore_all(
        &self,
        catalog: &Catalog,
        reader: &mut SnapshotReader,
        restored: &mut Vec<CollectionEntry>,
        work: &mut Workspace,
    ) -> Result<()> {
        for entry in &catalog.collections {
            let frame = reader.next()?;
            restored.push(self.restore(reader, &frame, (&entry.name, &entry.shards), &|_| Ok(()), work)?);
        }
        expect_end(reader)
    }

    /// A collection in directories of its own, which no name leads to yet, and which isn't in RAM: of a snapshot of everything not all may have room at once. Without a list
    /// of shards it has no keys, whatever its settings say: what was salvaged of one shard is an ordinary collection.
    fn restore(
        &self,
        reader: &mut SnapshotReader,
        frame: &Frame,
        (name, shards): (&str, &[ShardEntry]),
        fits: Fits<'_>,
        work: &mut Workspace,
    ) -> Result<CollectionEntry> {
        let settings = self.restore_core(reader, frame, fits, work)?;
        let mut entry = CollectionEntry {
            name: name.to_owned(),
            id: settings.id.clone(),
            shards: Vec::new(),
        };
        let done = self.restore_shards(reader, (&settings, shards), fits, (&mut entry, work));
        done.inspect_err(|_| self.discard(std::slice::from_ref(&entry)))?;
        Ok(entry)
    }

    fn restore_shards(
        &self,
        reader: &mut SnapshotReader,
        (settings, shards): (&Core, &[ShardEntry]),
        fits: Fits<'_>,
        (entry, work): (&mut CollectionEntry, &mut Workspace),
    ) -> Result<()> {
        let has_points = settings.view.load().points() > 0;
        if !shards.is_empty() && (has_points || !sharding::is_keyed(settings, shards.len())) {
            return Err(refused(&"it lists shards of a collection without keys"));
        }
        for shard in shards {
            let frame = reader.next()?;
            let core = self.restore_core(reader, &frame, fits, work)?;
            entry.shards.push(ShardEntry {
                id: core.id.clone(),
                ..shard.clone()
            });
            sharding::align(settings, &core)?;
        }
        Ok(())
    }

    fn restore_core(
        &self,
        reader: &mut SnapshotReader,
        frame: &Frame,
        fits: Fits<'_>,
        work: &mut Workspace,
    ) -> Result<Core> {
        if frame.kind != FrameKind::Collection {
            return Err(refused(&format!(
                "a {:?} frame where a collection should begin",
                frame.kind
            )));
        }
        let parts = self.new_parts()?;
        let id = parts.id.clone();
        let mut lookup = self.lookup()?;
        let opened = restore::build(reader, frame, &parts, fits, work)
            .and_then(|()| recover::open(parts, &mut lookup))
            .map_err(theirs);
        opened.inspect_err(|_| {
            let _ = self.storage().remove_subdir(&id);
        })
    }

    /// A collection of a catalog, loaded while it is in hand.
    fn listed(&self, entry: &CollectionEntry) -> Result<Taken> {
        let collection = self.collection(&entry.name)?;
        if collection.id() != entry.id {
            let what = format!(
                "collection `{}` was replaced while the snapshot was taken",
                entry.name
            );
            return Err(Error::new(ErrorKind::Busy, what));
        }
        let cores = listed_cores(entry, &collection)?;
        Ok((collection, cores))
    }

    fn in_scope<T>(
        &self,
        scope: SnapshotScope<'_>,
        act: impl FnOnce(SnapshotScope<'_>) -> Result<T>,
    ) -> Result<T> {
        match scope {
            SnapshotScope::Everything => act(scope),
            SnapshotScope::Collection(name) => {
                self.check_collection(name)?;
                act(SnapshotScope::Collection(&self.resolve_alias(name)))
            }
            SnapshotScope::Shard(name, number) => {
                self.collection(name)?.shard_of_number(number)?;
                act(SnapshotScope::Shard(&self.resolve_alias(name), number))
            }
        }
    }
}

/// The file of an upload that is whole, and what it should be.
fn received(upload: &mut SnapshotUpload, checksum: Option<&str>) -> Result<SnapshotFile> {
    let (found, file) = upload.finish()?;
    if let Some(expected) = checksum {
        check_checksum(expected)?;
        check_equal(&found, expected)?;
    }
    Ok(file)
}

/// Opens a snapshot whose SHA-256 is as expected, if one is.
fn open_checked(file: &SnapshotFile, checksum: Option<&str>, work: &mut Workspace) -> Result<SnapshotReader> {
    if let Some(expected) = checksum {
        check_checksum(expected)?;
        check_sha256(file, expected, work)?;
    }
    SnapshotReader::open(file)
}

/// What a catalog lists of a collection: its own part, then its shards.
fn listed_cores(entry: &CollectionEntry, collection: &Collection) -> Result<Vec<Arc<Core>>> {
    let mut cores = vec![collection.core().clone()];
    let shards = collection.shards();
    for listed in &entry.shards {
        let shard = shards.iter().find(|shard| shard.core.id == listed.id);
        let shard = shard.ok_or_else(|| {
            let what = format!("shard key {} was dropped while the snapshot began", listed.key);
            Error::new(ErrorKind::Busy, what)
        })?;
        cores.push(shard.core.clone());
    }
    Ok(cores)
}

/// What is damaged in files that were just copied, and whose checksums were right, came so: the client's mistake, who doesn't
/// know our names of files.
fn theirs(e: Error) -> Error {
    match e.is_corrupt() {
        true => refused(&"the inside of its files is damaged"),
        false => e,
    }
}

fn check_called(catalog: &Catalog, fault: NameFault<'_>) -> Result<()> {
    let collections = catalog
        .collections
        .iter()
        .map(|entry| ("collection", &entry.name));
    let aliases = catalog.aliases.iter().map(|entry| ("alias", &entry.alias));
    for (what, name) in collections.chain(aliases) {
        if let Some(fault) = fault(name) {
            let begins: String = name.chars().take(64).collect();
            return Err(refused(&format!("no {what} can be called {begins:?}: {fault}")));
        }
    }
    Ok(())
}

fn check_checksum(text: &str) -> Result<()> {
    match is_sha256(text) {
        true => Ok(()),
        false => Err(Error::bad_input("checksum: it takes 64 hex digits")),
    }
}

fn expect_end(reader: &mut SnapshotReader) -> Result<()> {
    let frame = reader.next()?;
    match frame.kind {
        FrameKind::End => reader.check_end(),
        kind => Err(refused(&format!("a {kind:?} frame where the end should be"))),
    }
}
