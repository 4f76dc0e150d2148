//! A data directory: every file that the engine writes, damaged, then checked, read or written to.
//!
//! The input is a byte that says what is done (checked, read, written to) and a list of patches to the files of a sample collection: a file, a place in it, a length, and so many bytes. Past the
//! checksums: blocks are sealed again where they lay before, envelopes and records of logs get theirs, and manifests say what files look
//! like now. A manifest or catalog that is patched itself is sealed only.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use ramlet::{PointId, PointsSelector, Storage, UpdateOp};
use ramlet_format::component::Component;
use ramlet_format::manifest::{FileEntry, Manifest};
use ramlet_format::{FileCrc, PAGE, block};

use crate::checksum::crc_of;
use crate::input::Input;
use crate::sample::{self, NAME};
use crate::{Seed, log};

const PATCHES_MAX: usize = 8;
/// Longest block in pages.
const BLOCK_PAGES_MAX: usize = 64;
const ENVELOPE: &[u8] = b"RAMLETEN";
const LOG: &[u8] = b"RAMLETLG";

/// A file of the sample.
pub struct File {
    pub directory: String,
    pub name: String,
    pub bytes: Vec<u8>,
    seals: Seals,
}

/// How its checksums are made.
enum Seals {
    /// Blocks: their seed, and where they lie in bytes.
    Blocks(u64, Vec<Range<usize>>),
    Envelope,
    Log,
    None,
}

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let way = input.below(3);
    let patched = patched(input);
    let storage = sample::ram();
    for file in sample() {
        let bytes = patched.get(&file.name).unwrap_or(&file.bytes);
        put(storage.as_ref(), (&file.directory, &file.name), bytes);
    }
    let sound = patched.is_empty();
    match way {
        0 => check(&storage, sound),
        way => open(storage, way == 2, sound),
    }
}

fn check(storage: &Arc<dyn Storage>, sound: bool) {
    let mut told = Vec::new();
    let checked = ramlet::check(storage, &mut |place| told.push(place.clone()));
    if sound {
        let report = checked.expect("checks");
        assert_eq!(report.problems, 0, "{told:?}");
    }
}

fn open(storage: Arc<dyn Storage>, writes: bool, sound: bool) {
    let engine = match sample::open(storage) {
        Ok(engine) => engine,
        Err(e) => return assert!(!sound, "{e}"),
    };
    match (engine.collection(NAME), engine.scratch()) {
        (Ok(collection), _) if writes => {
            // A delete by id writes to the log, and marks rows of segments. Then they are merged.
            let ids = [6, 8, 100, 125].map(PointId::Num).to_vec();
            let deleted = collection.update(UpdateOp::Delete(PointsSelector::Ids(ids)));
            let done = deleted.and_then(|_| collection.flush());
            assert!(!sound || done.is_ok(), "{done:?}");
        }
        (Ok(collection), Ok(mut scratch)) => {
            let read = sample::read(&engine, &collection, &mut scratch);
            assert!(!sound || read.is_ok(), "{read:?}");
        }
        (Ok(_), Err(e)) | (Err(e), _) => assert!(!sound, "{e}"),
    }
    engine.close();
}

/// By name, files with their patches, sealed.
fn patched(mut input: Input<'_>) -> BTreeMap<String, Vec<u8>> {
    let mut patched = BTreeMap::<String, Vec<u8>>::new();
    for _ in 0..PATCHES_MAX {
        if input.0.is_empty() {
            break;
        }
        let file = input.pick(sample());
        let at = usize::from(input.u16()) | usize::from(input.byte()) << 16;
        let length = input.below(16) + 1;
        let new = input.take(length);
        let whole = patched
            .entry(file.name.clone())
            .or_insert_with(|| file.bytes.clone());
        let at = at % whole.len();
        whole[at..]
            .iter_mut()
            .zip(new)
            .for_each(|(byte, new)| *byte = *new);
    }
    for file in sample() {
        if let Some(whole) = patched.get_mut(&file.name) {
            file.seals.seal(whole);
        }
    }
    patched.retain(|name, whole| {
        sample()
            .iter()
            .any(|file| file.name == *name && file.bytes != *whole)
    });
    tell_manifests(&mut patched);
    patched
}

/// Manifests say of patched files what these are now.
fn tell_manifests(patched: &mut BTreeMap<String, Vec<u8>>) {
    for file in sample().iter().filter(|file| file.name.starts_with("MANIFEST")) {
        if patched.contains_key(&file.name) {
            continue;
        }
        let mut manifest = Manifest::decode(&file.bytes).expect("a sound one");
        let tell = |entry: &mut FileEntry| {
            if let Some(bytes) = patched.get(&entry.name) {
                entry.crc = crc_of(bytes);
            }
        };
        for segment in &mut manifest.segments {
            segment
                .files
                .iter_mut()
                .chain(&mut segment.deletes)
                .for_each(tell);
        }
        let told = manifest.encode();
        if told != file.bytes {
            patched.insert(file.name.clone(), told);
        }
    }
}

impl Seals {
    fn of(segment_file: Option<(u64, Component)>, bytes: &[u8]) -> Seals {
        if bytes.starts_with(ENVELOPE) {
            return Seals::Envelope;
        }
        if bytes.starts_with(LOG) {
            return Seals::Log;
        }
        let Some((segment, component)) = segment_file else {
            return Seals::None;
        };
        let seed = block::seed(segment, component.code());
        blocks_of(seed, bytes).map_or(Seals::None, |blocks| Seals::Blocks(seed, blocks))
    }

    fn seal(&self, bytes: &mut [u8]) {
        match self {
            Seals::Blocks(seed, blocks) => {
                for range in blocks {
                    block::seal(*seed, (range.start / PAGE) as u64, &mut bytes[range.clone()]);
                }
            }
            Seals::Envelope => seal_envelope(bytes),
            Seals::Log => log::seal_file(bytes),
            Seals::None => {}
        }
    }
}

/// Where the blocks of a sound file lie: each is the shortest run of pages whose checksum is right. `None`: it isn't made of blocks.
fn blocks_of(seed: u64, bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    let (mut blocks, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let ends = (1..=BLOCK_PAGES_MAX).map(|pages| at + pages * PAGE);
        let mut ends = ends.take_while(|end| *end <= bytes.len());
        let end = ends.find(|end| block::verify(seed, (at / PAGE) as u64, &bytes[at..*end]))?;
        blocks.push(at..end);
        at = end;
    }
    Some(blocks)
}

/// Sets the checksum that the header's length asks for; none if it leads out of the file.
pub fn seal_envelope(bytes: &mut [u8]) {
    const HEADER: usize = ramlet_format::envelope::HEADER_BYTES;
    let Some(length) = bytes.get(16..24).and_then(|length| length.try_into().ok()) else {
        return;
    };
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > bytes.len() - HEADER {
        return;
    }
    let mut crc = FileCrc::new();
    crc.update(&bytes[8..12]);
    crc.update(&bytes[16..HEADER + length]);
    bytes[12..16].copy_from_slice(&crc.value().to_le_bytes());
}

pub fn put(storage: &dyn Storage, (directory, name): (&str, &str), bytes: &[u8]) {
    let directory = match directory {
        "" => None,
        name => Some(storage.subdir(name).expect("a directory in RAM")),
    };
    let into = directory.as_deref().unwrap_or(storage);
    if bytes.starts_with(LOG) || name.starts_with("log-") {
        let mut log = into.create_log(name, bytes.len() as u64).expect("a file in RAM");
        return log.write_at(bytes, 0).expect("writes to RAM");
    }
    let mut out = into.create(name).expect("a file in RAM");
    out.append(bytes).expect("writes to RAM");
    out.sync().expect("syncs RAM");
}

/// The files of the sample, made once.
pub fn sample() -> &'static [File] {
    static SAMPLE: OnceLock<Vec<File>> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        // On a machine that stood still for a while, an idle engine has merged the segment with deletes away before it was closed.
        let mut tries = std::iter::repeat_with(made).take(TRIES);
        let found = tries.find(|files| files.iter().any(|file| file.name.contains(".del-")));
        found.expect("a sample whose deletes weren't merged")
    })
}

const TRIES: usize = 50;

fn made() -> Vec<File> {
    let storage = sample::ram();
    let engine = sample::open(storage.clone()).expect("opens");
    sample::fill(&engine);
    engine.close();
    drop(engine);
    let mut files = read_all("", &storage);
    for name in storage.list_subdirs().expect("lists") {
        files.extend(read_all(&name, &storage.subdir(&name).expect("is there")));
    }
    files
}

fn read_all(directory: &str, storage: &Arc<dyn Storage>) -> Vec<File> {
    let names = storage.list().expect("lists");
    let read = |name: &String| {
        let file = storage.open(name).expect("opens");
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(&mut bytes, 0).expect("reads");
        bytes
    };
    let whole: Vec<(String, Vec<u8>)> = names.iter().map(|name| (name.clone(), read(name))).collect();
    let manifests: Vec<Manifest> = whole
        .iter()
        .filter_map(|(_, bytes)| Manifest::decode(bytes).ok())
        .collect();
    let component = |name: &str| {
        let segments = manifests.iter().flat_map(|manifest| &manifest.segments);
        let mut files = segments.flat_map(|segment| segment.all_files().map(|file| (segment.id, file)));
        let found = files.find(|(_, file)| file.name == name);
        found.map(|(segment, file)| (segment, file.component))
    };
    whole
        .into_iter()
        // The lock is made anew.
        .filter(|(_, bytes)| !bytes.is_empty())
        .map(|(name, bytes)| File {
            directory: directory.to_owned(),
            seals: Seals::of(component(&name), &bytes),
            name,
            bytes,
        })
        .collect()
}

pub fn seeds() -> Vec<Seed> {
    let (at, words) = ([0, 0], [3, 1, 2, 3, 4]);
    let patch = |way: u8, file: u8, place: u8| [&[way, file, place][..], &at, &words].concat();
    let numbers = [&patch(1, 9, 0)[..], &[20, 8, 0, 0, 7], &[0; 8]].concat();
    vec![
        ("checked", vec![0]),
        ("read", vec![1]),
        ("written", vec![2]),
        ("one-patch-checked", patch(0, 5, 40)),
        ("one-patch-read", patch(1, 25, 60)),
        ("one-patch-written", patch(2, 13, 30)),
        ("two-patches", numbers),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_files_of_every_kind() {
        let kinds = [
            "CATALOG", "MANIFEST", "log-", ".row", ".ids", ".idf", ".pay", ".del-", ".v", ".has", ".pos",
            ".cen", ".cod", ".fin", ".pq", ".rst", ".cmp", ".gra", ".gme", ".rec", ".par", ".pst", ".trm",
            ".x", ".twd", ".tls", ".tln", ".tps",
        ];
        for kind in kinds {
            assert!(
                sample().iter().any(|file| file.name.contains(kind)),
                "no file of {kind}"
            );
        }
        // An input names a file by a byte.
        assert!(sample().len() < 256);
        for file in sample() {
            let mut sealed = file.bytes.clone();
            file.seals.seal(&mut sealed);
            assert!(
                sealed == file.bytes && !matches!(file.seals, Seals::None),
                "{}",
                file.name
            );
        }
    }
}
