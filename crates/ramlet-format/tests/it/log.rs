use crate::support::Random;
use ramlet_format::PAGE;
use ramlet_format::log::{
    Decoded, HEADER_BYTES, Later, LogHeader, RECORD_BYTES_MAX, Record, Stop, Tail, begin, decode, encode,
    end, find_possible, judge_tail,
};

const SALT: u64 = 0x1122_3344_5566_7788;

/// Records `first..=last`, each written when all before it was durable; the offsets where they begin, and the end.
fn log(first: u64, last: u64) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut random) = (Vec::new(), Random::new(first));
    let mut offsets = vec![0];
    for lsn in first..=last {
        let payload = {
            let length = 1 + random.below(5000);
            random.bytes(length)
        };
        encode(&mut bytes, SALT, lsn, lsn - 1, lsn as u8, &payload).unwrap();
        offsets.push(bytes.len());
    }
    (bytes, offsets)
}

/// Bytes looked through at once: records are longer.
const WINDOW: usize = 48;

/// The first valid record anywhere: (offset, lsn, durable_lsn). As the engine does it: in windows that overlap by a header.
pub fn find_later(bytes: &[u8], salt: u64) -> Option<(u64, u64, u64)> {
    for start in (0..bytes.len()).step_by(WINDOW) {
        let window = &bytes[start..bytes.len().min(start + WINDOW + HEADER_BYTES)];
        let mut from = 0;
        while let Some(at) = find_possible(window, salt, from).filter(|_| from < WINDOW) {
            if let Decoded::Record(record) = decode(&bytes[start + at..], salt) {
                return Some(((start + at) as u64, record.lsn, record.durable_lsn));
            }
            from = at + 1;
        }
    }
    None
}

/// What opening a log file does: the last valid lsn, and the verdict on its end.
fn replay(bytes: &[u8], first_lsn: u64, durable_elsewhere: u64) -> (u64, Tail) {
    let (mut at, mut lsn, mut durable) = (0, first_lsn - 1, durable_elsewhere);
    while let Decoded::Record(record) = decode(&bytes[at..], SALT) {
        if record.lsn != lsn + 1 {
            break;
        }
        lsn = record.lsn;
        durable = durable.max(record.durable_lsn);
        at += record.size;
    }
    let rest = &bytes[at..];
    let later = find_later(rest, SALT).map(|(offset, lsn, durable_lsn)| Later {
        offset: at as u64 + offset,
        lsn,
        durable_lsn,
    });
    let stop = Stop {
        at: at as u64,
        blank: rest.iter().all(|&byte| byte == 0),
    };
    (lsn, judge_tail(lsn, durable, stop, later))
}

#[test]
fn records_come_back_and_ask_for_what_they_need() {
    let mut random = Random::new(1);
    for length in [0, 1, 100, 4096, 100_000] {
        let payload = random.bytes(length);
        let mut bytes = b"before".to_vec();
        encode(&mut bytes, SALT, 7, 5, 3, &payload).unwrap();
        let bytes = &bytes[6..];
        assert_eq!(bytes.len(), HEADER_BYTES + length);
        let record = Record {
            lsn: 7,
            durable_lsn: 5,
            kind: 3,
            payload: &payload,
            size: bytes.len(),
        };
        assert_eq!(decode(bytes, SALT), Decoded::Record(record));
        assert_eq!(decode(&[bytes, b"after"].concat(), SALT), Decoded::Record(record));
        assert_eq!(decode(bytes, SALT + 1), Decoded::Invalid);
        for cut in [0, 3, 4, 15, 16, HEADER_BYTES - 1] {
            assert_eq!(decode(&bytes[..cut], SALT), Decoded::NeedMore(HEADER_BYTES));
        }
        if length > 0 {
            assert_eq!(
                decode(&bytes[..HEADER_BYTES], SALT),
                Decoded::NeedMore(bytes.len())
            );
            assert_eq!(
                decode(&bytes[..bytes.len() - 1], SALT),
                Decoded::NeedMore(bytes.len())
            );
        }
    }
}

#[test]
fn in_place_records_are_the_same() {
    let (mut one, mut two) = (vec![1, 2], vec![1, 2]);
    encode(&mut one, SALT, 1, 0, 9, b"payload").unwrap();
    let start = begin(&mut two);
    two.extend_from_slice(b"pay");
    two.extend_from_slice(b"load");
    end(&mut two, start, SALT, 1, 0, 9).unwrap();
    assert_eq!(one, two);
}

#[test]
fn lengths_that_cannot_be_are_invalid_at_once() {
    let mut bytes = Vec::new();
    encode(&mut bytes, SALT, 1, 0, 0, b"payload").unwrap();
    for length in [0, 1, 24, RECORD_BYTES_MAX as u32 - 7, u32::MAX] {
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        assert_eq!(decode(&bytes, SALT), Decoded::Invalid, "{length}");
    }
    bytes[..4].copy_from_slice(&(RECORD_BYTES_MAX as u32 - 8).to_le_bytes());
    assert_eq!(decode(&bytes, SALT), Decoded::NeedMore(RECORD_BYTES_MAX));
    assert_eq!(
        decode(&bytes, SALT + 1),
        Decoded::Invalid,
        "garbage doesn't ask for a gigabyte"
    );
}

#[test]
fn every_flipped_bit_of_a_record_is_seen() {
    let mut bytes = Vec::new();
    encode(&mut bytes, SALT, 1, 0, 0, &Random::new(2).bytes(200)).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(!matches!(decode(&flipped, SALT), Decoded::Record(_)), "bit {bit}");
    }
}

#[test]
fn headers_come_back_and_every_flipped_bit_is_seen() {
    let header = LogHeader {
        salt: SALT,
        first_lsn: 42,
    };
    let page = header.encode();
    assert_eq!(LogHeader::decode(&page), Ok(header));
    assert_eq!(LogHeader::decode(&[&page[..], b"more"].concat()), Ok(header));
    assert!(LogHeader::decode(&page[..PAGE - 1]).is_err());
    for bit in 0..PAGE * 8 {
        let mut flipped = page;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(LogHeader::decode(&flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn a_log_that_just_ends_is_clean() {
    let (mut bytes, _) = log(5, 9);
    assert_eq!(replay(&bytes, 5, 0), (9, Tail::Clean));
    bytes.resize(bytes.len() + 3 * PAGE, 0);
    assert_eq!(replay(&bytes, 5, 0), (9, Tail::Clean));
    assert_eq!(replay(&[], 1, 0), (0, Tail::Clean));
    assert_eq!(replay(&[0; PAGE], 1, 0), (0, Tail::Clean));
}

#[test]
fn the_last_record_torn_anywhere_is_torn_or_gone() {
    let (bytes, offsets) = log(1, 6);
    let (last, whole) = (offsets[5], bytes.len());
    for cut in (last..whole).step_by(7) {
        // The file ends there, or zeros follow, or the rest of a recycled file.
        let expected = if cut == last {
            Tail::Clean
        } else {
            Tail::Torn { at: last as u64 }
        };
        assert_eq!(replay(&bytes[..cut], 1, 5), (5, expected.clone()), "cut at {cut}");
        let mut zeros = bytes.clone();
        zeros[cut..].fill(0);
        assert_eq!(replay(&zeros, 1, 5), (5, expected), "zeros from {cut}");
    }
    // A page in the middle, or the first one, never arrived.
    for gone in [last..last + 40, last + 40..last + 80] {
        let mut torn = bytes.clone();
        torn[gone].fill(0);
        assert_eq!(replay(&torn, 1, 5), (5, Tail::Torn { at: last as u64 }));
    }
}

#[test]
fn an_earlier_record_damaged_anywhere_is_corrupt() {
    let (bytes, offsets) = log(1, 6);
    for damaged in 0..5 {
        let (start, stop) = (offsets[damaged], offsets[damaged + 1]);
        for at in (start..stop).step_by(13) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x40;
            let (lsn, tail) = replay(&bytes, 1, 0);
            assert_eq!(lsn, damaged as u64);
            let Tail::Corrupt { at, why } = tail else {
                panic!("{tail:?}")
            };
            assert_eq!(at, start as u64);
            assert!(!why.is_empty());
        }
        let mut zeroed = bytes.clone();
        zeroed[start..stop].fill(0);
        assert!(matches!(replay(&zeroed, 1, 0).1, Tail::Corrupt { .. }));
    }
}

#[test]
fn a_damaged_last_record_that_was_durable_is_corrupt() {
    let (mut bytes, offsets) = log(1, 6);
    let last = offsets[5];
    bytes[last + 50] ^= 1;
    assert_eq!(replay(&bytes, 1, 5).1, Tail::Torn { at: last as u64 });
    let (lsn, tail) = replay(&bytes, 1, 6);
    let why = "records up to lsn 6 were durable, the last valid one is 5".into();
    assert_eq!((lsn, tail), (5, Tail::Corrupt { at: last as u64, why }));
    // Even if nothing is left of it.
    assert!(matches!(replay(&bytes[..last], 1, 6).1, Tail::Corrupt { .. }));
}

#[test]
fn a_record_out_of_turn_is_corrupt_if_later_and_torn_if_earlier() {
    let (mut bytes, _) = log(1, 3);
    let at = bytes.len() as u64;
    let mut skipped = bytes.clone();
    encode(&mut skipped, SALT, 5, 3, 0, b"lsn 4 is missing").unwrap();
    let why = format!("lsn 3 is the last valid one, but lsn 5 follows at offset {at}");
    assert_eq!(replay(&skipped, 1, 0), (3, Tail::Corrupt { at, why }));
    encode(&mut bytes, SALT, 3, 2, 0, b"again").unwrap();
    assert_eq!(replay(&bytes, 1, 0), (3, Tail::Torn { at }));
}

#[test]
fn records_of_an_earlier_use_of_the_file_do_not_count() {
    let (mut bytes, _) = log(1, 3);
    let at = bytes.len() as u64;
    encode(&mut bytes, SALT ^ 1, 4, 3, 0, b"other salt").unwrap();
    assert_eq!(replay(&bytes, 1, 0), (3, Tail::Torn { at }));
}

#[test]
fn valid_records_are_found_wherever_they_are() {
    let mut random = Random::new(8);
    for _ in 0..200 {
        let before = random.below(9000);
        let mut bytes = random.bytes(before);
        if random.below(2) == 0 && before > 20 {
            // A bait: the salt without a record around it.
            let at = random.below(before - 8);
            bytes[at..at + 8].copy_from_slice(&SALT.to_le_bytes());
        }
        assert_eq!(find_later(&bytes, SALT), None);
        let start = bytes.len() as u64;
        encode(&mut bytes, SALT, 77, 70, 1, b"found").unwrap();
        assert_eq!(find_later(&bytes[..bytes.len() - 1], SALT), None);
        bytes.extend_from_slice(b"after");
        assert_eq!(find_later(&bytes, SALT), Some((start, 77, 70)));
    }
}
