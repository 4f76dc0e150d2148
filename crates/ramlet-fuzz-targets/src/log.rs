//! The log: header, records, and where a log ends.
//!
//! The input is records as they lie in a file, without the header page. Past the checksums: record after record gets the salt and the
//! checksum that its length asks for, up to where a length leads out of the file. As it came it is read too.

use ramlet_format::log::{
    Decoded, HEADER_BYTES, Later, LogHeader, Stop, Tail, decode, encode, find_possible, judge_tail,
};
use ramlet_format::{PAGE, block};

use crate::Seed;
use crate::checksum::crc_of;

const SALT: u64 = 0xABCD_EF01_2345_6789;
/// Header pages are sealed with their magic number.
const HEADER_SEED: u64 = u64::from_le_bytes(*b"RAMLETLG");
/// What a record's length doesn't count.
const UNCOUNTED: usize = 8;

pub fn run(bytes: &[u8]) {
    header(bytes);
    read(bytes);
    let mut sound = bytes.to_vec();
    seal(&mut sound, SALT);
    read(&sound);
}

fn header(bytes: &[u8]) {
    if let Ok(header) = LogHeader::decode(bytes) {
        assert_eq!(header.encode(), bytes[..PAGE]);
    }
}

/// Seals a whole file: its header page, then the records with the header's salt.
pub fn seal_file(bytes: &mut [u8]) {
    if bytes.len() < PAGE {
        return;
    }
    let (head, records) = bytes.split_at_mut(PAGE);
    block::seal(HEADER_SEED, 0, head);
    if let Ok(header) = LogHeader::decode(head) {
        seal(records, header.salt);
    }
}

/// Stops at a length of 0, where a log ends, and at one that leads out of it.
fn seal(bytes: &mut [u8], salt: u64) {
    let mut at = 0;
    while let Some(head) = bytes[at..].first_chunk::<HEADER_BYTES>() {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(record) = bytes[at..]
            .get_mut(..length + UNCOUNTED)
            .filter(|r| r.len() >= HEADER_BYTES)
        else {
            return;
        };
        record[8..16].copy_from_slice(&salt.to_le_bytes());
        let crc = crc_of(&record[UNCOUNTED..]);
        record[4..8].copy_from_slice(&crc.to_le_bytes());
        at += length + UNCOUNTED;
    }
}

/// As recovery reads: record by record, then what may follow behind the end.
fn read(bytes: &[u8]) {
    let (mut at, mut last, mut durable) = (0, 0, 0);
    while let Decoded::Record(record) = decode(&bytes[at..], SALT) {
        let mut again = Vec::new();
        let (lsn, kind) = (record.lsn, record.kind);
        encode(&mut again, SALT, lsn, record.durable_lsn, kind, record.payload).expect("it fitted before");
        assert_eq!(again, bytes[at..at + record.size]);
        (last, durable) = (lsn, record.durable_lsn.max(durable));
        at += record.size;
    }
    let mut later = None;
    let mut from = at;
    while let Some(found) = find_possible(bytes, SALT, from) {
        assert!(found >= from);
        if let Decoded::Record(record) = decode(&bytes[found..], SALT) {
            later = Some(Later {
                offset: found as u64,
                lsn: record.lsn,
                durable_lsn: record.durable_lsn,
            });
            break;
        }
        from = found + 1;
    }
    let stop = Stop {
        at: at as u64,
        blank: bytes[at..].iter().all(|byte| *byte == 0),
    };
    match judge_tail(last, durable, stop, later) {
        // Nothing that was acknowledged is dropped.
        Tail::Clean | Tail::Torn { .. } => {
            assert!(durable <= last && later.is_none_or(|later| later.lsn <= last));
        }
        Tail::Corrupt { at: found, .. } => assert_eq!(found, at as u64),
    }
}

pub fn seeds() -> Vec<Seed> {
    let mut records = Vec::new();
    for lsn in 1..5u64 {
        encode(
            &mut records,
            SALT,
            lsn,
            lsn - 1,
            1,
            &vec![lsn as u8; 9 * lsn as usize],
        )
        .expect("short enough");
    }
    let mut torn = records[..records.len() - 5].to_vec();
    torn.resize(records.len() + 100, 0);
    let mut gap = records.clone();
    gap[50] ^= 1;
    let head = LogHeader {
        salt: SALT,
        first_lsn: 1,
    };
    vec![
        ("records", records),
        ("torn", torn),
        ("damaged", gap),
        ("header", head.encode().to_vec()),
    ]
}
