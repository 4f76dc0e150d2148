use crate::support::{Random, drain, open, verified};
use ramlet_format::rows::{RowsLayout, RowsMeta, RowsWriter, file_bytes};
use ramlet_format::{PAGE, block};

fn row_of(number: u64, bytes: u32) -> Vec<u8> {
    Random::new(number + 1).bytes(bytes as usize)
}

fn check_round_trip(rows: u64, row_bytes: u32) {
    let seed = block::seed(rows, 3);
    let (mut file, mut out) = (Vec::new(), Vec::new());
    let mut writer = RowsWriter::new(seed, row_bytes);
    for row in 0..rows {
        writer.push(&row_of(row, row_bytes), &mut out);
        drain(&mut out, &mut file);
    }
    let written = writer.finish(&mut out);
    drain(&mut out, &mut file);
    assert_eq!(file.len() as u64, file_bytes(rows, row_bytes));

    let (footer, index) = open(&file, seed).unwrap();
    assert!(index.is_empty());
    let meta = RowsMeta::open(&footer).unwrap();
    assert_eq!(meta, written);
    assert_eq!(meta.rows, rows);
    for row in 0..rows {
        let (page, offset) = meta.layout.locate(row);
        let block = verified(&file, seed, page, meta.layout.block_pages());
        assert_eq!(
            block[offset..offset + row_bytes as usize],
            row_of(row, row_bytes),
            "row {row}"
        );
    }
    let by_block: u64 = (0..meta.blocks() + 2)
        .map(|block| u64::from(meta.rows_in_block(block)))
        .sum();
    assert_eq!(by_block, rows);
    assert_eq!(meta.rows_in_block(u64::MAX), 0);
}

#[test]
fn rows_come_back() {
    for (rows, row_bytes) in [
        (0, 8),
        (1, 1),
        (5000, 1),
        (4092, 1),
        (4093, 1),
        (1000, 12),
        (341, 12),
        (300, 400),
        (50, 3136),
    ] {
        check_round_trip(rows, row_bytes);
    }
    for (rows, row_bytes) in [(33, 4096), (7, 4092), (3, 4093), (2, 300_000), (1, 263_000)] {
        check_round_trip(rows, row_bytes);
    }
}

#[test]
fn a_writer_drained_at_once_or_bit_by_bit_writes_the_same() {
    let write = |every: u64| {
        let (mut file, mut out) = (Vec::new(), Vec::new());
        let mut writer = RowsWriter::new(9, 500);
        for row in 0..100 {
            writer.push(&row_of(row, 500), &mut out);
            if row % every == 0 {
                drain(&mut out, &mut file);
            }
        }
        writer.finish(&mut out);
        drain(&mut out, &mut file);
        file
    };
    assert_eq!(write(1), write(1000));
    assert_eq!(write(7), write(1000));
}

#[test]
fn layouts_waste_little() {
    let share = |layout: RowsLayout| {
        let used = layout.rows_per_block() as f64 * f64::from(layout.row_bytes());
        1.0 - used / layout.block_bytes() as f64
    };
    for row_bytes in 1..=12_000 {
        let layout = RowsLayout::for_row(row_bytes);
        assert!((1..=64).contains(&layout.block_pages()), "{layout:?}");
        assert!(share(layout) <= 0.07, "{layout:?} wastes {}", share(layout));
        // No smaller block would do.
        let rows = |pages: usize| (pages * PAGE - 4) / row_bytes as usize;
        for pages in 1..layout.block_pages() as usize {
            let waste = 1.0 - (rows(pages) * row_bytes as usize) as f64 / (pages * PAGE) as f64;
            assert!(
                waste > 0.07,
                "{row_bytes}: {pages} pages waste {waste}, not {layout:?}"
            );
        }
    }
    for row_bytes in (12_000..300_000).step_by(97) {
        let layout = RowsLayout::for_row(row_bytes);
        let fewest = (row_bytes + 4).div_ceil(PAGE as u32);
        assert!(
            layout.block_pages() >= fewest && layout.block_pages() <= fewest.max(64),
            "{layout:?}"
        );
        assert!(share(layout) < 0.5, "{layout:?}");
    }
    assert_eq!(RowsLayout::for_row(u32::MAX).rows_per_block(), 1);
}

#[test]
#[should_panic(expected = "length of a row")]
fn a_row_of_another_length_is_a_bug() {
    RowsWriter::new(0, 8).push(&[0; 7], &mut Vec::new());
}

#[test]
fn a_file_is_bound_to_its_seed_and_kind() {
    let mut file = Vec::new();
    let mut writer = RowsWriter::new(block::seed(1, 1), 8);
    writer.push(&[1; 8], &mut file);
    writer.finish(&mut file);
    assert!(open(&file, block::seed(1, 1)).is_ok());
    for other in [block::seed(2, 1), block::seed(1, 2), 0] {
        assert_eq!(open(&file, other).unwrap_err().detail, "checksum mismatch");
        assert!(!block::verify(other, 0, &file[..PAGE]));
    }
    assert!(
        !block::verify(block::seed(1, 1), 1, &file[..PAGE]),
        "moved to another page"
    );

    let records = {
        let mut file = Vec::new();
        ramlet_format::records::RecordsWriter::new(5).finish(&mut file);
        file
    };
    let (footer, _) = open(&records, 5).unwrap();
    assert_eq!(
        RowsMeta::open(&footer).unwrap_err().detail,
        "the file is Records, not Rows"
    );
}

#[test]
fn common_rows_lie_as_the_documentation_says() {
    let check = |row_bytes, rows, pages| {
        let layout = RowsLayout::for_row(row_bytes);
        assert_eq!(
            (layout.rows_per_block(), layout.block_pages()),
            (rows, pages),
            "{row_bytes}"
        );
    };
    check(200, 20, 1);
    check(400, 10, 1);
    check(1536, 5, 2);
    check(3072, 5, 4);
    check(3136, 5, 4);
    check(4096, 14, 15);
    check(6144, 5, 8);
}
