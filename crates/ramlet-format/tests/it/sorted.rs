use crate::support::{Random, drain, open, verified};
use ramlet_format::sorted::{
    KEY_BYTES_MAX, SortedBlock, SortedCursor, SortedIndex, SortedPlace, SortedWriter,
};
use std::collections::BTreeSet;

const SEED: u64 = 0x0003_0001;

type Keys = BTreeSet<Vec<u8>>;

fn write(keys: &Keys) -> Vec<u8> {
    let (mut file, mut out) = (Vec::new(), Vec::new());
    let mut writer = SortedWriter::new(SEED);
    for key in keys {
        writer.push(key, &mut out).unwrap();
        drain(&mut out, &mut file);
    }
    let meta = writer.finish(&mut out);
    drain(&mut out, &mut file);
    assert_eq!(meta.keys, keys.len() as u64);
    assert_eq!(&meta.first_key, keys.first().unwrap_or(&vec![]));
    assert_eq!(&meta.last_key, keys.last().unwrap_or(&vec![]));
    assert_eq!(meta.file_bytes, file.len() as u64);
    file
}

struct Table {
    file: Vec<u8>,
    index: SortedIndex,
}

impl Table {
    fn new(keys: &Keys) -> Self {
        let file = write(keys);
        let (footer, payload) = open(&file, SEED).unwrap();
        let index = SortedIndex::parse(&footer, &payload).unwrap();
        assert_eq!(index.blocks(), footer.data_pages);
        Self { file, index }
    }

    fn first_of(&self, page: u64) -> Vec<u8> {
        let block = SortedBlock::parse(verified(&self.file, SEED, page, 1)).unwrap();
        SortedCursor::new(block, &mut Vec::new())
            .next()
            .unwrap()
            .unwrap()
            .to_vec()
    }

    /// The first `count` keys >= `key`, as a reader gets them: seek, then on through the blocks.
    fn from(&self, key: &[u8], count: usize) -> Vec<Vec<u8>> {
        let (mut found, mut buffer) = (Vec::new(), Vec::new());
        let first = self.index.block_for(key);
        for page in first..self.index.blocks() {
            let block = SortedBlock::parse(verified(&self.file, SEED, page, 1)).unwrap();
            let mut cursor = SortedCursor::new(block, &mut buffer);
            if page == first {
                cursor.seek(key).unwrap();
            }
            let before = found.len();
            while let Some(key) = cursor.next().unwrap() {
                if found.len() == count {
                    return found;
                }
                found.push(key.to_vec());
            }
            assert!(cursor.next().unwrap().is_none(), "it stays at the end");
            // Else block_for named a block too early.
            assert!(found.len() > before || page == first);
        }
        found
    }
}

/// All keys of a table, with the block let go of behind each.
fn step_by_step(table: &Table) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for page in 0..table.index.blocks() {
        let (mut place, mut key) = (SortedPlace::default(), Vec::new());
        loop {
            let block = SortedBlock::parse(verified(&table.file, SEED, page, 1)).unwrap();
            let mut cursor = SortedCursor::resume(block, &mut key, place);
            if cursor.next().unwrap().is_none() {
                break;
            }
            place = cursor.place();
            found.push(key.clone());
        }
    }
    found
}

/// What a block says of its keys without giving them out.
fn check_blocks(table: &Table, keys: &Keys) {
    let mut all = keys.iter();
    let mut buffer = Vec::new();
    for page in 0..table.index.blocks() {
        let block = SortedBlock::parse(verified(&table.file, SEED, page, 1)).unwrap();
        let here: Vec<_> = all.by_ref().take(block.len()).collect();
        let number = |key: &&Vec<u8>| key.last_chunk::<4>().map(|tail| u32::from_be_bytes(*tail));
        let expected: Option<Vec<u32>> = here.iter().map(number).collect();
        let mut found = Vec::new();
        let ended = block.trailing_numbers(&mut |number| found.push(number));
        // A key that is shorter than a number is told.
        assert_eq!(ended.ok().map(|()| found), expected);
        for (at, key) in here.iter().enumerate().step_by(7) {
            let mut cursor = SortedCursor::new(block, &mut buffer);
            cursor.seek(key).unwrap();
            assert_eq!(cursor.passed(), at);
            cursor.next().unwrap();
            assert_eq!(cursor.passed(), at + 1);
        }
    }
    assert!(all.next().is_none());
}

fn check(keys: &Keys, probes: impl IntoIterator<Item = Vec<u8>>) {
    let table = Table::new(keys);
    assert_eq!(table.index.keys(), keys.len() as u64);
    assert!(step_by_step(&table).iter().eq(keys.iter()), "key by key");
    assert_eq!(table.index.first_key(), keys.first().map(|key| key.as_slice()));
    assert_eq!(table.index.last_key(), keys.last().map(|key| key.as_slice()));
    assert_eq!(
        table.from(&[], usize::MAX),
        keys.iter().cloned().collect::<Vec<_>>()
    );
    for page in 0..table.index.blocks() {
        let first = table.first_of(page);
        assert_eq!(
            table.index.block_for(&first),
            page,
            "a block's first key costs one read"
        );
    }
    check_blocks(&table, keys);
    for probe in probes {
        let expected: Vec<_> = keys.range(probe.clone()..).take(3).cloned().collect();
        assert_eq!(table.from(&probe, 3), expected, "from {probe:?}");
    }
}

/// Keys with much in common: few letters, values and rows as the id map and the indexes have them.
fn random_key(random: &mut Random, longest: usize) -> Vec<u8> {
    match random.below(3) {
        0 => {
            let length = random.below(longest + 1);
            (0..length).map(|_| b'a' + random.below(3) as u8).collect()
        }
        1 => {
            let mut key = (random.below(50) as u64).to_be_bytes().to_vec();
            key.extend_from_slice(&(random.below(100_000) as u32).to_be_bytes());
            key
        }
        _ => {
            let length = random.below(longest + 1);
            random.bytes(length)
        }
    }
}

/// Keys as they are, a bit less and a bit more, and others.
fn probes(keys: &Keys, random: &mut Random, longest: usize) -> Vec<Vec<u8>> {
    let mut probes = vec![vec![], vec![0xff; 2100]];
    for key in keys.iter().step_by(1 + keys.len() / 300) {
        probes.push(key.clone());
        probes.push([key.as_slice(), &[0]].concat());
        let mut less = key.clone();
        if let Some(last) = less.last_mut() {
            *last = last.wrapping_sub(1);
        }
        probes.push(less);
        probes.push(key[..key.len() / 2].to_vec());
        probes.push(random_key(random, longest));
    }
    probes
}

#[test]
fn seeks_agree_with_a_set() {
    let mut random = Random::new(11);
    for (count, longest) in [
        (0, 5),
        (1, 5),
        (2, 3),
        (33, 10),
        (700, 8),
        (3000, 20),
        (8000, 60),
        (300, 2000),
    ] {
        let keys: Keys = (0..count).map(|_| random_key(&mut random, longest)).collect();
        let probes = probes(&keys, &mut random, longest);
        check(&keys, probes);
    }
}

#[test]
fn dense_ids_take_little_room() {
    let keys: Keys = (0..100_000u32)
        .map(|row| [&u64::from(row).to_be_bytes()[..], &row.to_be_bytes()].concat())
        .collect();
    let file = write(&keys);
    assert!(
        file.len() < 100_000 * 8,
        "{} bytes for 100,000 keys of 12",
        file.len()
    );
    let table = Table::new(&keys);
    assert!(
        table.index.heap_bytes() < 200 * 14,
        "{} bytes of index",
        table.index.heap_bytes()
    );
}

#[test]
fn the_longest_keys_fit_and_longer_ones_are_refused() {
    let keys: Keys = (0..20u8)
        .map(|i| [vec![i; KEY_BYTES_MAX - 1], vec![1]].concat())
        .collect();
    check(&keys, keys.iter().cloned());
    let mut writer = SortedWriter::new(SEED);
    let error = writer
        .push(&vec![0; KEY_BYTES_MAX + 1], &mut Vec::new())
        .unwrap_err();
    assert_eq!(error.detail, "a key of 2001 bytes, at most 2000 fit");
}

#[test]
fn keys_out_of_order_are_refused_and_nothing_changes() {
    let (mut out, mut writer) = (Vec::new(), SortedWriter::new(SEED));
    writer.push(b"", &mut out).unwrap();
    assert!(writer.push(b"", &mut out).is_err());
    writer.push(b"b", &mut out).unwrap();
    for wrong in [&b"b"[..], b"a", b""] {
        assert!(writer.push(wrong, &mut out).is_err());
    }
    writer.push(b"ba", &mut out).unwrap();
    let meta = writer.finish(&mut out);
    assert_eq!((meta.keys, meta.last_key.as_slice()), (3, &b"ba"[..]));
}

#[test]
fn a_cursor_seeks_back_and_forth() {
    let keys: Keys = (0..200u32).map(|i| (2 * i).to_be_bytes().to_vec()).collect();
    let file = write(&keys);
    let block = SortedBlock::parse(verified(&file, SEED, 0, 1)).unwrap();
    assert_eq!(block.len(), 200);
    let mut buffer = Vec::new();
    let mut cursor = SortedCursor::new(block, &mut buffer);
    for i in [150u32, 3, 399, 0, 64, 63, 65, 200] {
        cursor.seek(&i.to_be_bytes()).unwrap();
        let expected = i.next_multiple_of(2);
        for expected in [expected, expected + 2] {
            let expected = (expected < 400).then(|| expected.to_be_bytes().to_vec());
            assert_eq!(cursor.next().unwrap().map(<[u8]>::to_vec), expected, "from {i}");
        }
    }
}
