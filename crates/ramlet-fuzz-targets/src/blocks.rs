//! Block files: rows, records, sorted keys, Bloom filters.
//!
//! The input is a whole file. Past the checksums: it is cut to whole pages, every page is sealed, and blocks of several pages are sealed once
//! more where footer and index say that they lie. As it came it is read too: then every block that is read was sealed by somebody.

use ramlet_format::bloom::{Bloom, BloomBuilder, hash64};
use ramlet_format::footer::{Footer, index_payload};
use ramlet_format::records::{RecordsBlock, RecordsIndex, RecordsWriter};
use ramlet_format::rows::{RowsMeta, RowsWriter};
use ramlet_format::sorted::{SortedBlock, SortedCursor, SortedIndex, SortedWriter};
use ramlet_format::{FormatError, PAGE, Result, block};

use crate::Seed;

const SEED: u64 = block::seed(7, 1);

/// Reads the file as it is, then sealed.
fn both_ways(bytes: &[u8], seal_blocks: fn(&mut [u8]), walk: fn(&[u8]) -> Result<()>) {
    let _ = walk(bytes);
    let mut file = bytes[..bytes.len() / PAGE * PAGE].to_vec();
    for (number, page) in file.chunks_exact_mut(PAGE).enumerate() {
        block::seal(SEED, number as u64, page);
    }
    seal_blocks(&mut file);
    let _ = walk(&file);
}

fn pages_are_blocks(_: &mut [u8]) {}

/// Seals a block of several pages as one; not if it lies outside of the data.
fn seal_block(file: &mut [u8], page: u64, pages: u32) {
    let range = page as usize * PAGE..(page as usize + pages as usize) * PAGE;
    if let Some(block) = file.get_mut(range).filter(|block| !block.is_empty()) {
        block::seal(SEED, page, block);
    }
}

/// Footer and payload of the index region.
fn open(file: &[u8]) -> Result<(Footer, Vec<u8>)> {
    let last = (file.len() / PAGE).saturating_sub(1);
    let footer = Footer::parse(file.get(last * PAGE..).unwrap_or(&[]), SEED, last as u64)?;
    // Footer::parse saw that the regions fit the number of its page.
    let region = &file[footer.index_page as usize * PAGE..last * PAGE];
    let payload = index_payload(region, &footer, SEED)?;
    assert_eq!(payload.len() as u64, footer.index_bytes);
    assert_eq!(footer.file_bytes(), file.len() as u64);
    Ok((footer, payload))
}

/// A block, verified as the readers do.
fn verified(file: &[u8], page: u64, pages: u32) -> Result<&[u8]> {
    let start = page as usize * PAGE;
    let block = file
        .get(start..start + pages as usize * PAGE)
        .expect("within the file, as the footer said");
    match block::verify(SEED, page, block) {
        true => Ok(block),
        false => Err(FormatError {
            what: "block",
            detail: "checksum mismatch".into(),
        }),
    }
}

pub fn rows(bytes: &[u8]) {
    let seal = |file: &mut [u8]| {
        let meta = open(file).and_then(|(footer, _)| RowsMeta::open(&footer));
        if let Ok(meta) = meta {
            let pages = meta.layout.block_pages();
            (0..meta.blocks()).for_each(|number| seal_block(file, number * u64::from(pages), pages));
        }
    };
    both_ways(bytes, seal, |file| {
        let (footer, _) = open(file)?;
        let meta = RowsMeta::open(&footer)?;
        let (layout, mut seen) = (&meta.layout, 0);
        for number in 0..meta.blocks() {
            let pages = layout.block_pages();
            let block = verified(file, number * u64::from(pages), pages)?;
            let rows = meta.rows_in_block(number);
            assert!(rows > 0);
            for row in [seen, seen + u64::from(rows) - 1] {
                let (page, offset) = layout.locate(row);
                assert_eq!(page, number * u64::from(pages));
                assert!(offset + layout.row_bytes() as usize <= block.len() - block::CRC_BYTES);
            }
            seen += u64::from(rows);
        }
        assert_eq!(seen, meta.rows);
        Ok(())
    });
}

pub fn rows_seeds() -> Vec<Seed> {
    let file = |row_bytes: u32, rows: u32| {
        let (mut file, mut writer) = (Vec::new(), RowsWriter::new(SEED, row_bytes));
        (0..rows).for_each(|row| writer.push(&vec![row as u8; row_bytes as usize], &mut file));
        writer.finish(&mut file);
        file
    };
    vec![
        ("none", file(4, 0)),
        ("small", file(24, 200)),
        ("two-pages", file(1536, 6)),
    ]
}

pub fn records(bytes: &[u8]) {
    let seal = |file: &mut [u8]| {
        let index = open(file).and_then(|(footer, payload)| RecordsIndex::parse(&footer, &payload));
        if let Ok(index) = index {
            index.blocks().for_each(|at| seal_block(file, at.page, at.pages));
        }
    };
    both_ways(bytes, seal, |file| {
        let (footer, payload) = open(file)?;
        let index = RecordsIndex::parse(&footer, &payload)?;
        for row in [0, 1, index.rows() / 2, index.rows(), u32::MAX] {
            let at = index.locate(row);
            assert_eq!(at.is_some(), row < index.rows());
            assert!(at.is_none_or(|at| at.first_row <= row && row - at.first_row < at.rows));
        }
        for at in index.blocks() {
            assert_eq!(index.block_at_page(at.page), Some(at));
            let block = RecordsBlock::parse(verified(file, at.page, at.pages)?)?;
            block.iter().try_for_each(|record| record.map(|_| ()))?;
            block.get(at.rows as usize - 1)?;
        }
        Ok(())
    });
}

pub fn records_seeds() -> Vec<Seed> {
    let file = |lengths: &[usize]| {
        let (mut file, mut writer) = (Vec::new(), RecordsWriter::new(SEED));
        for (row, length) in lengths.iter().enumerate() {
            writer
                .push(&vec![row as u8; *length], &mut file)
                .expect("short enough");
        }
        writer.finish(&mut file);
        file
    };
    vec![
        ("none", file(&[])),
        ("small", file(&[0, 1, 30, 0, 700])),
        ("large", file(&[10, 5000, 9000, 3])),
    ]
}

pub fn sorted(bytes: &[u8]) {
    both_ways(bytes, pages_are_blocks, |file| {
        let (footer, payload) = open(file)?;
        let index = SortedIndex::parse(&footer, &payload)?;
        assert_eq!(index.first_key().is_some(), index.keys() > 0);
        // Probes that are there, and others.
        let probes = [
            b"".to_vec(),
            index.first_key().unwrap_or_default().to_vec(),
            index.last_key().unwrap_or_default().to_vec(),
            b"key-0009".to_vec(),
            vec![0xff; 9],
        ];
        let mut key = Vec::new();
        for probe in &probes {
            assert!(index.block_for(probe) < index.blocks().max(1));
        }
        for page in 0..index.blocks() {
            let block = SortedBlock::parse(verified(file, page, 1)?)?;
            // Seeks first, and on after an error: they take other ways into the block than a walk.
            let mut cursor = SortedCursor::new(block, &mut key);
            for probe in &probes {
                let _ = cursor.seek(probe).and_then(|()| cursor.next().map(|_| ()));
            }
            let (mut cursor, mut keys) = (SortedCursor::new(block, &mut key), 0);
            while cursor.next()?.is_some() {
                keys += 1;
                assert_eq!(cursor.passed(), keys);
            }
            assert_eq!(keys, block.len());
            let mut rows = 0;
            if block.trailing_numbers(&mut |_| rows += 1).is_ok() {
                assert_eq!(rows, keys);
            }
        }
        Ok(())
    });
}

pub fn sorted_seeds() -> Vec<Seed> {
    let file = |mut writer: SortedWriter, keys: u32| {
        let mut file = Vec::new();
        for key in 0..keys {
            let text = format!("key-{:05}-{}", key * 3, key.wrapping_mul(0x9E37_79B9));
            writer
                .push(text.as_bytes(), &mut file)
                .expect("ascending and short");
        }
        writer.finish(&mut file);
        file
    };
    vec![
        ("none", file(SortedWriter::new(SEED), 0)),
        ("two-blocks", file(SortedWriter::new(SEED), 400)),
        ("without-fences", file(SortedWriter::without_fences(SEED), 40)),
    ]
}

pub fn bloom(bytes: &[u8]) {
    both_ways(bytes, pages_are_blocks, |file| {
        let bloom = Bloom::parse(SEED, file)?;
        assert!(bloom.heap_bytes() <= file.len());
        for hash in [0, 1 << 31, u64::MAX] {
            bloom.may_contain(hash);
        }
        Ok(())
    });
}

pub fn bloom_seeds() -> Vec<Seed> {
    let file = |keys: u32| {
        let mut builder = BloomBuilder::new(u64::from(keys));
        (0..keys).for_each(|key| builder.insert(hash64(&key.to_le_bytes())));
        builder.finish(SEED)
    };
    vec![("none", file(0)), ("two-pages", file(4000))]
}
