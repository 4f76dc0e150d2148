//! A scratch file: the same bytes by every way, and no name.

use ramlet_io::{Access, BatchRead, BatchReader, IoErrorKind, PAGE, ScratchFile, ring_reader, serial_reader};
use ramlet_memory::AnonBuf;

use crate::Rng;
use crate::backends::TempDir;

const PAGES: usize = 16;
const WAYS: [Access; 4] = [
    Access::Mapped,
    Access::MappedReadAhead,
    Access::Buffered,
    Access::Direct,
];

#[test]
fn every_way_reads_the_same() {
    let directory = TempDir::new();
    let bytes = Rng(5).bytes(PAGES * PAGE);
    let mut file = ScratchFile::create(directory.path()).expect("a file");
    file.append(&bytes[..PAGE]).expect("room");
    file.append(&bytes[PAGE..]).expect("room");
    file.sync().expect("a disk");
    assert_eq!(file.len(), bytes.len() as u64);
    let names = std::fs::read_dir(directory.path()).expect("a directory");
    assert_eq!(names.count(), 0, "a scratch file has no name");
    for access in WAYS {
        file.drop_cached();
        // O_DIRECT isn't everywhere.
        let Ok(opened) = file.open(access) else {
            assert_eq!(access, Access::Direct);
            continue;
        };
        let mut readers = vec![serial_reader()];
        match ring_reader(4) {
            Ok(ring) => readers.push(ring),
            Err(refused) => assert_eq!(refused.kind, IoErrorKind::Unsupported),
        }
        for reader in &mut readers {
            check(reader.as_mut(), opened.as_ref(), &bytes, access);
        }
    }
}

fn check(reader: &mut dyn BatchReader, file: &dyn ramlet_io::ReadFile, bytes: &[u8], access: Access) {
    let mut buf = AnonBuf::new(PAGES * PAGE);
    let mut reads: Vec<_> = buf
        .chunks_mut(PAGE)
        .zip((0..PAGES).rev())
        .map(|(out, page)| BatchRead {
            file,
            offset: (page * PAGE) as u64,
            out,
        })
        .collect();
    reader.read_batch(&mut reads).expect("bytes");
    for (out, page) in buf.chunks(PAGE).zip((0..PAGES).rev()) {
        assert!(out == &bytes[page * PAGE..][..PAGE], "{access:?}: page {page}");
    }
}

#[test]
fn what_was_read_is_cached() {
    let directory = TempDir::new();
    let mut file = ScratchFile::create(directory.path()).expect("a file");
    assert_eq!(file.cached_bytes().expect("a number"), 0);
    file.append(&vec![7; PAGES * PAGE]).expect("room");
    file.sync().expect("a disk");
    let mut out = [0; 100];
    let opened = file.open(Access::Buffered).expect("a file");
    opened.read_at(&mut out, PAGE as u64 - 50).expect("bytes");
    let cached = file.cached_bytes().expect("a number");
    assert!(
        (2 * PAGE as u64..=file.len()).contains(&cached),
        "{cached} bytes after a read across two pages"
    );
}
