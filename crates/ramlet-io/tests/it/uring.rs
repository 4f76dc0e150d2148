//! What only the io_uring backend can get wrong.

use ramlet_io::{BatchRead, IoContext, PAGE, PreadStorage, RamStorage};
use ramlet_memory::AnonBuf;

use crate::Rng;
use crate::backends::{TempDir, uring, write_file};

/// The ring belongs to a thread; a reader must work wherever it is moved.
#[test]
fn a_reader_moves_between_threads() {
    let directory = TempDir::new();
    let Some(storage) = uring(directory.path()) else {
        return;
    };
    let bytes = Rng(1).bytes(50 * PAGE);
    write_file(storage.as_ref(), "f", &bytes, PAGE);
    let file = storage.open("f").expect("the file");
    let mut io = IoContext::for_storage(storage.as_ref(), 4).expect("a reader");
    for _ in 0..5 {
        let (file, bytes) = (&file, &bytes);
        io = std::thread::scope(|scope| {
            let moved = scope.spawn(move || {
                let mut buf = AnonBuf::new(50 * PAGE);
                let mut reads: Vec<_> = buf
                    .chunks_mut(PAGE)
                    .enumerate()
                    .map(|(page, out)| BatchRead {
                        file: file.as_ref(),
                        offset: (page * PAGE) as u64,
                        out,
                    })
                    .collect();
                io.read_batch(&mut reads).expect("reads");
                assert!(buf[..] == bytes[..]);
                io
            });
            moved.join().expect("no panic")
        });
    }
    assert_eq!((io.reads(), io.bytes()), (250, 250 * PAGE as u64));
    assert_eq!(io.take_stats().reads, 250);
    assert_eq!(io.reads(), 0);
}

/// Files of other backends, and buffers that O_DIRECT can't take, go through the same reader.
#[test]
fn a_batch_may_mix_what_the_ring_can_and_cannot_do() {
    let directory = TempDir::new();
    let Some(storage) = uring(directory.path()) else {
        return;
    };
    let mut rng = Rng(2);
    let bytes = rng.bytes(20 * PAGE);
    let ram = RamStorage::new(None);
    write_file(storage.as_ref(), "f", &bytes, PAGE);
    write_file(&ram, "f", &bytes, PAGE);
    let buffered = PreadStorage::open(directory.path()).expect("a directory");
    let files = [&*storage, &ram, &*buffered].map(|storage| storage.open("f").expect("the file"));
    let mut reader = storage.reader(3).expect("a reader");
    let mut buf = AnonBuf::new(40 * 2 * PAGE);
    for _ in 0..20 {
        let mut expected = Vec::new();
        let mut reads: Vec<_> = buf
            .chunks_mut(2 * PAGE)
            .map(|out| {
                let file = files[rng.below(3) as usize].as_ref();
                let (skip, offset, len) = match rng.below(2) {
                    0 => (0, rng.below(19) * PAGE as u64, PAGE),
                    _ => (
                        rng.below(100) as usize,
                        rng.below(18 * PAGE as u64),
                        rng.below(5000) as usize,
                    ),
                };
                expected.push(&bytes[offset as usize..][..len]);
                BatchRead {
                    file,
                    offset,
                    out: &mut out[skip..skip + len],
                }
            })
            .collect();
        reader.read_batch(&mut reads).expect("reads");
        assert!(
            reads
                .iter()
                .zip(expected)
                .all(|(read, expected)| read.out == expected)
        );
    }
}

/// A file that another program cut or never padded: the part of a page at its end can be read, nothing behind it.
#[test]
fn a_file_of_odd_length_is_read_to_its_last_byte() {
    let directory = TempDir::new();
    let Some(storage) = uring(directory.path()) else {
        return;
    };
    let bytes = Rng(3).bytes(2 * PAGE + 100);
    std::fs::write(directory.path().join("odd"), &bytes).expect("a file");
    let file = storage.open("odd").expect("the file");
    let mut out = vec![0; bytes.len()];
    file.read_at(&mut out, 0).expect("all of it");
    assert!(out == bytes);
    file.read_at(&mut out[..50], 2 * PAGE as u64 + 50)
        .expect("its end");
    assert!(out[..50] == bytes[2 * PAGE + 50..]);
    assert!(file.read_at(&mut out[..51], 2 * PAGE as u64 + 50).is_err());
}
