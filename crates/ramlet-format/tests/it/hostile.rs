//! Bytes from a disk that lies: mutations and truncations, sealed again or not, through every decoder. Nothing may panic,
//! and what wasn't sealed again must be seen.

use crate::log::find_later;
use crate::support::{Random, open};
use crate::whole::{sample_catalog, sample_manifest};
use ramlet_format::bloom::{Bloom, BloomBuilder, hash64};
use ramlet_format::catalog::Catalog;
use ramlet_format::envelope::{self, EnvelopeKind};
use ramlet_format::log::{Decoded, LogHeader, decode, encode};
use ramlet_format::manifest::Manifest;
use ramlet_format::records::{RecordsBlock, RecordsIndex, RecordsWriter};
use ramlet_format::rows::{RowsMeta, RowsWriter};
use ramlet_format::sorted::{SortedBlock, SortedCursor, SortedIndex, SortedWriter};
use ramlet_format::{PAGE, Result, bitmap, block};

const ROUNDS: usize = 20_000;
const SEED: u64 = 0x00AA_0001;

/// A few changes: bytes, numbers that tend to hurt, a swap, a cut.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            return;
        }
        // Half of them where the headers and tables are.
        let at = match random.below(4) {
            0 => random.below(bytes.len()),
            1 => random.below(bytes.len()) / PAGE * PAGE + random.below(80),
            2 => (random.below(bytes.len()) / PAGE * PAGE + PAGE).saturating_sub(1 + random.below(40)),
            _ => (bytes.len().saturating_sub(PAGE) + random.below(80)).min(bytes.len()),
        };
        let numbers = [
            0,
            1,
            0x7f,
            0xff,
            0xffff,
            0x1_0000,
            u32::MAX as u64,
            1 << 32,
            1 << 63,
            u64::MAX,
        ];
        match random.below(6) {
            0 | 1 => put(bytes, at, &[random.next() as u8]),
            2 => put(
                bytes,
                at,
                &numbers[random.below(10)].to_le_bytes()[..1 << random.below(4)],
            ),
            3 => put(bytes, at, &random.next().to_le_bytes()),
            4 => {
                let length = random.below(64).min(bytes.len());
                let from = random.below(bytes.len() - length + 1);
                let copy = bytes[from..from + length].to_vec();
                put(bytes, at, &copy);
            }
            _ if random.below(8) == 0 => {
                let length = random.below(bytes.len() + 1);
                bytes.truncate(if random.below(2) == 0 {
                    length
                } else {
                    length / PAGE * PAGE
                });
            }
            _ => put(bytes, at, &[1 << random.below(8)]),
        }
    }
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes
        .iter_mut()
        .skip(at)
        .zip(new)
        .for_each(|(byte, new)| *byte = *new);
}

/// Seals every page as if it were right, so that the mutation gets past the checksums.
fn seal_again(file: &mut [u8]) {
    for (number, page) in file.chunks_exact_mut(PAGE).enumerate() {
        block::seal(SEED, number as u64, page);
    }
}

/// `walk` reads all of a file, verifying what it reads.
fn torture(original: &[u8], random_seed: u64, walk: impl Fn(&[u8]) -> Result<()>) {
    assert_eq!(walk(original), Ok(()));
    let mut random = Random::new(random_seed);
    let mut refused = 0;
    for round in 0..ROUNDS {
        let mut bytes = original.to_vec();
        mutate(&mut bytes, &mut random);
        let sealed = round % 4 != 0;
        if sealed {
            seal_again(&mut bytes);
        }
        let read = walk(&bytes);
        assert!(
            sealed || read.is_err() || bytes == original,
            "round {round}: a mutation went unseen"
        );
        refused += usize::from(sealed && read.is_err());
    }
    // Of those sealed again, i.e. by the decoders themselves: neither all at the door nor none.
    let share = ROUNDS / 20..ROUNDS * 7 / 10;
    assert!(
        share.contains(&refused),
        "{refused} of {ROUNDS} refused: the mutations miss the decoders"
    );
}

fn verify(file: &[u8], page: u64, pages: u32) -> Result<&[u8]> {
    let start = page as usize * PAGE;
    let block = file
        .get(start..start + pages as usize * PAGE)
        .expect("within the file, as the footer said");
    if block::verify(SEED, page, block) {
        return Ok(block);
    }
    Err(ramlet_format::FormatError {
        what: "block",
        detail: "checksum mismatch".into(),
    })
}

fn rows_file() -> Vec<u8> {
    let (mut file, mut writer) = (Vec::new(), RowsWriter::new(SEED, 100));
    (0..100u8).for_each(|i| writer.push(&[i; 100], &mut file));
    writer.finish(&mut file);
    file
}

fn records_file() -> Vec<u8> {
    let (mut file, mut writer) = (Vec::new(), RecordsWriter::new(SEED));
    for i in 0..60 {
        writer.push(&vec![i as u8; i * 7], &mut file).unwrap();
    }
    writer.push(&[7; 5000], &mut file).unwrap();
    writer.push(b"last", &mut file).unwrap();
    writer.finish(&mut file);
    file
}

fn sorted_file() -> Vec<u8> {
    let (mut file, mut writer) = (Vec::new(), SortedWriter::new(SEED));
    for i in 0..700u32 {
        let key = format!("key-{:05}-{}", i * 3, i.wrapping_mul(0x9E37_79B9));
        writer.push(key.as_bytes(), &mut file).unwrap();
    }
    assert!(writer.finish(&mut file).blocks >= 3);
    file
}

fn bloom_file() -> Vec<u8> {
    let mut builder = BloomBuilder::new(4000);
    (0..4000u32).for_each(|key| builder.insert(hash64(&key.to_le_bytes())));
    builder.finish(SEED)
}

fn walk_rows(file: &[u8]) -> Result<()> {
    let (footer, _) = open(file, SEED)?;
    let meta = RowsMeta::open(&footer)?;
    let pages = meta.layout.block_pages();
    for number in 0..meta.blocks() {
        let block = verify(file, number * u64::from(pages), pages)?;
        let rows = u64::from(meta.rows_in_block(number));
        assert!(rows > 0);
        for within in [0, rows - 1] {
            let (page, offset) = meta
                .layout
                .locate(number * u64::from(meta.layout.rows_per_block()) + within);
            assert_eq!(page, number * u64::from(pages));
            assert!(offset + meta.layout.row_bytes() as usize <= block.len() - 4);
        }
    }
    Ok(())
}

fn walk_records(file: &[u8]) -> Result<()> {
    let (footer, payload) = open(file, SEED)?;
    let index = RecordsIndex::parse(&footer, &payload)?;
    for row in [0, 1, 59, 60, 61, u32::MAX - 1, u32::MAX] {
        if let Some(at) = index.locate(row) {
            assert!(at.first_row <= row && row - at.first_row < at.rows);
        }
    }
    for at in index.blocks() {
        let block = RecordsBlock::parse(verify(file, at.page, at.pages)?)?;
        block.iter().try_for_each(|record| record.map(|_| ()))?;
        block.get(at.rows as usize - 1)?;
    }
    Ok(())
}

fn walk_sorted(file: &[u8]) -> Result<()> {
    let (footer, payload) = open(file, SEED)?;
    let index = SortedIndex::parse(&footer, &payload)?;
    let mut buffer = Vec::new();
    for probe in [&b""[..], b"key-", b"key-00999", b"key-01500", b"zzz"] {
        assert!(index.block_for(probe) < index.blocks().max(1));
    }
    for page in 0..index.blocks() {
        let block = SortedBlock::parse(verify(file, page, 1)?)?;
        let mut cursor = SortedCursor::new(block, &mut buffer);
        // Seeks first, and on after an error: they take other ways into the block than a walk.
        let probes = [&b""[..], b"key-00500", b"key-00999", b"key-01700", b"zzz"];
        let sought = probes.map(|probe| cursor.seek(probe).and_then(|()| cursor.next().map(|_| ())));
        cursor = SortedCursor::new(block, &mut buffer);
        let walked = block.trailing_numbers(&mut |_| ());
        while cursor.next()?.is_some() {}
        walked?;
        sought.into_iter().collect::<Result<()>>()?;
    }
    Ok(())
}

fn walk_bloom(file: &[u8]) -> Result<()> {
    let bloom = Bloom::parse(SEED, file)?;
    bloom.may_contain(0);
    bloom.may_contain(u64::MAX);
    Ok(())
}

#[test]
fn rows() {
    torture(&rows_file(), 1, walk_rows);
}

#[test]
fn records() {
    let original = records_file();
    let (footer, payload) = open(&original, SEED).unwrap();
    let large = RecordsIndex::parse(&footer, &payload)
        .unwrap()
        .locate(60)
        .unwrap();
    assert_eq!((large.pages, large.rows), (2, 1));
    torture(&original, 2, |file| {
        // Sealing page by page breaks the block of two pages: seal that one again as a whole.
        let mut file = file.to_vec();
        let (start, middle) = (large.page as usize * PAGE, (large.page as usize + 1) * PAGE);
        if file
            .get(middle..middle + PAGE)
            .is_some_and(|page| block::verify(SEED, large.page + 1, page))
        {
            block::seal(SEED, large.page, &mut file[start..middle + PAGE]);
        }
        walk_records(&file)
    });
}

#[test]
fn sorted() {
    torture(&sorted_file(), 3, walk_sorted);
}

#[test]
fn bloom() {
    torture(&bloom_file(), 4, walk_bloom);
}

/// Mutates bodies and seals them again in three of four rounds, else the whole file.
fn torture_envelope(
    kind: EnvelopeKind,
    original: &[u8],
    random_seed: u64,
    read: impl Fn(&[u8]) -> Result<()>,
) {
    assert_eq!(read(original), Ok(()));
    let body = envelope::decode(kind, original).unwrap().to_vec();
    let mut random = Random::new(random_seed);
    for round in 0..ROUNDS {
        if round % 4 == 0 {
            let mut bytes = original.to_vec();
            mutate(&mut bytes, &mut random);
            let used = (24 + body.len()).min(bytes.len());
            let seen = read(&bytes).is_err();
            assert!(
                seen || bytes[..used] == original[..24 + body.len()],
                "round {round}: unseen"
            );
        } else {
            let mut body = body.clone();
            mutate(&mut body, &mut random);
            // Whether it is refused depends on what was hit; it must not panic.
            let _ = read(&envelope::encode(kind, &body));
        }
    }
}

#[test]
fn bitmaps() {
    // Runs, arrays and a bitset.
    let rows = (0..9000u32)
        .chain(70_000..70_050)
        .chain((200_000..300_000).step_by(3))
        .collect();
    let bytes = bitmap::encode(EnvelopeKind::Deletes, &rows);
    torture_envelope(EnvelopeKind::Deletes, &bytes, 5, |bytes| {
        bitmap::decode(EnvelopeKind::Deletes, 300_000, bytes).map(|rows| {
            assert!(rows.iter().all(|row| row < 300_000));
        })
    });
}

#[test]
fn manifests_and_catalogs() {
    let manifest = sample_manifest().encode();
    torture_envelope(EnvelopeKind::Manifest, &manifest, 6, |bytes| {
        Manifest::decode(bytes).map(|_| ())
    });
    let catalog = sample_catalog().encode();
    torture_envelope(EnvelopeKind::Catalog, &catalog, 7, |bytes| {
        Catalog::decode(bytes).map(|_| ())
    });
    // Deeper than a stack should go.
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    assert!(Manifest::decode(&envelope::encode(EnvelopeKind::Manifest, deep.as_bytes())).is_err());
}

#[test]
fn logs() {
    let salt = 0xABCD_EF01_2345_6789;
    let mut original = LogHeader { salt, first_lsn: 1 }.encode().to_vec();
    for lsn in 1..20u64 {
        encode(
            &mut original,
            salt,
            lsn,
            lsn - 1,
            1,
            &vec![lsn as u8; 10 * lsn as usize],
        )
        .unwrap();
    }
    let mut random = Random::new(8);
    for _ in 0..ROUNDS {
        let mut bytes = original.clone();
        mutate(&mut bytes, &mut random);
        let _ = LogHeader::decode(&bytes);
        let mut at = PAGE.min(bytes.len());
        while let Decoded::Record(record) = decode(&bytes[at..], salt) {
            assert!(
                original[at..].starts_with(&bytes[at..at + record.size]),
                "a mutation went unseen"
            );
            at += record.size;
        }
        if let Some((offset, lsn, _)) = find_later(&bytes[at..], salt) {
            assert!((1..20).contains(&lsn) && offset < bytes.len() as u64);
        }
    }
}

#[test]
fn every_flipped_bit_of_sealed_blocks_is_seen() {
    for file in [rows_file(), records_file(), sorted_file(), bloom_file()] {
        let last = file.len() / PAGE - 1;
        for number in [0, last as u64] {
            let mut page = file[number as usize * PAGE..][..PAGE].to_vec();
            assert!(block::verify(SEED, number, &page));
            for bit in 0..PAGE * 8 {
                page[bit / 8] ^= 1 << (bit % 8);
                assert!(!block::verify(SEED, number, &page), "bit {bit} of page {number}");
                page[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
    assert!(!block::verify(SEED, 0, &[]));
    assert!(!block::verify(SEED, 0, &[0; PAGE + 1]));
    assert!(!block::verify(SEED, 0, &[0; 3]));
    assert!(
        !block::verify(0, 0, &[0; PAGE]),
        "a page of zeros, as after a lost write"
    );
}
