use crate::support::{Random, drain, open, verified};
use ramlet_format::records::{RECORD_BYTES_MAX, RecordsBlock, RecordsIndex, RecordsWriter};

const SEED: u64 = 0x0007_0008;

fn write(records: &[Vec<u8>]) -> Vec<u8> {
    let (mut file, mut out) = (Vec::new(), Vec::new());
    let mut writer = RecordsWriter::new(SEED);
    for record in records {
        writer.push(record, &mut out).unwrap();
        drain(&mut out, &mut file);
    }
    assert_eq!(writer.rows() as usize, records.len());
    let meta = writer.finish(&mut out);
    drain(&mut out, &mut file);
    assert_eq!(meta.rows as usize, records.len());
    assert_eq!(meta.file_bytes, file.len() as u64);
    file
}

fn check_round_trip(records: &[Vec<u8>]) {
    let file = write(records);
    let (footer, payload) = open(&file, SEED).unwrap();
    let index = RecordsIndex::parse(&footer, &payload).unwrap();
    assert_eq!(index.rows() as usize, records.len());
    assert_eq!(index.heap_bytes(), 8 * index.blocks().len());

    // By scan, then by row.
    let (mut row, mut page) = (0, 0);
    for at in index.blocks() {
        assert_eq!((at.first_row as usize, at.page), (row, page));
        let block = RecordsBlock::parse(verified(&file, SEED, at.page, at.pages)).unwrap();
        assert_eq!(block.len(), at.rows as usize);
        assert!(!block.is_empty());
        for (record, expected) in block.iter().zip(&records[row..]) {
            assert_eq!(record.unwrap(), expected);
        }
        assert!(block.get(block.len()).is_err());
        row += block.len();
        page += u64::from(at.pages);
    }
    assert_eq!((row, page), (records.len(), footer.data_pages));
    for (row, expected) in (0..).zip(records) {
        let at = index.locate(row).unwrap();
        let block = RecordsBlock::parse(verified(&file, SEED, at.page, at.pages)).unwrap();
        assert_eq!(block.get((row - at.first_row) as usize).unwrap(), expected);
    }
    assert_eq!(index.locate(records.len() as u32), None);
    assert_eq!(index.locate(u32::MAX), None);
}

#[test]
fn records_of_any_length_come_back() {
    check_round_trip(&[]);
    check_round_trip(&[vec![]]);
    check_round_trip(&vec![vec![]; 5000]);
    for length in [
        1,
        4086,
        4087,
        4088,
        4089,
        4090,
        4092,
        4096,
        8183,
        8184,
        8185,
        8186,
        65_536,
        1 << 20,
    ] {
        check_round_trip(&[Random::new(length as u64).bytes(length)]);
        check_round_trip(&[vec![1; 3], vec![7; length], vec![], vec![7; length], vec![2; 5]]);
    }
}

#[test]
fn random_records_come_back() {
    let mut random = Random::new(4);
    for most in [3, 50, 300, 2000, 6000, 20_000] {
        let count = 1 + random.below(400);
        let records: Vec<_> = (0..count)
            .map(|_| {
                let length = random.below(most);
                random.bytes(length)
            })
            .collect();
        check_round_trip(&records);
    }
}

#[test]
fn small_records_fill_their_pages() {
    let records = vec![vec![b'x'; 198]; 2000];
    // 20 records of 198 + 2 bytes and a count of 2 in 4092.
    assert_eq!(write(&records).len(), (100 + 1 + 1) * 4096);
}

#[test]
fn a_record_over_the_limit_is_refused_and_nothing_changes() {
    let (mut out, mut writer) = (Vec::new(), RecordsWriter::new(SEED));
    writer.push(b"before", &mut out).unwrap();
    let error = writer.push(&vec![0; RECORD_BYTES_MAX + 1], &mut out).unwrap_err();
    assert_eq!(error.detail, "a record of 67108865 bytes, at most 67108864 fit");
    assert!(out.is_empty());
    assert_eq!(writer.rows(), 1);
}
