//! crc32c of small files: a change of format can't slip by unseen. If one of these fails, the format's version constant
//! must go up, and the old version must still be read or refused with a clear error.

use crate::whole::{sample_catalog, sample_manifest};
use ramlet_format::bitmap;
use ramlet_format::bloom::{BloomBuilder, hash64};
use ramlet_format::envelope::EnvelopeKind;
use ramlet_format::log::{LogHeader, encode};
use ramlet_format::records::RecordsWriter;
use ramlet_format::rows::RowsWriter;
use ramlet_format::sorted::SortedWriter;
use ramlet_format::{Component, block};
use roaring::RoaringBitmap;

fn check(name: &str, bytes: &[u8], expected: u32) {
    let crc = crc32c::crc32c(bytes);
    assert_eq!(crc, expected, "{name} version 1 changed: now {crc:#010X}");
}

fn seed() -> u64 {
    block::seed(5, Component::Vector { slot: 2 }.code())
}

#[test]
fn rows() {
    let (mut file, mut writer) = (Vec::new(), RowsWriter::new(seed(), 400));
    (0..25u8).for_each(|i| writer.push(&[i; 400], &mut file));
    writer.finish(&mut file);
    check("rows", &file, 0xCB51_D519);
}

#[test]
fn records() {
    let (mut file, mut writer) = (Vec::new(), RecordsWriter::new(seed()));
    for length in [0, 1, 3000, 2000, 9000, 5] {
        writer.push(&vec![length as u8; length], &mut file).unwrap();
    }
    writer.finish(&mut file);
    check("records", &file, 0x3889_C937);
}

#[test]
fn sorted() {
    let (mut file, mut writer) = (Vec::new(), SortedWriter::new(seed()));
    for i in 0..2000u32 {
        writer
            .push(
                &[&u64::from(i / 3).to_be_bytes()[..], &i.to_be_bytes()].concat(),
                &mut file,
            )
            .unwrap();
    }
    writer.finish(&mut file);
    check("sorted", &file, 0x8039_5674);
}

#[test]
fn bloom() {
    let mut builder = BloomBuilder::new(5000);
    (0..5000u64).for_each(|key| builder.insert(hash64(&key.to_le_bytes())));
    check("bloom", &builder.finish(seed()), 0xB5C8_01DF);
}

#[test]
fn envelopes() {
    let rows: RoaringBitmap = [1, 5, 100_000].into();
    check(
        "deletes",
        &bitmap::encode(EnvelopeKind::Deletes, &rows),
        0xCA58_E26A,
    );
    check("manifest", &sample_manifest().encode(), 0x60D7_A43C);
    check("catalog", &sample_catalog().encode(), 0xBA6F_1A20);
}

#[test]
fn log() {
    let mut file = LogHeader {
        salt: 42,
        first_lsn: 7,
    }
    .encode()
    .to_vec();
    encode(&mut file, 42, 7, 6, 1, b"first").unwrap();
    encode(&mut file, 42, 8, 7, 2, b"").unwrap();
    check("log", &file, 0x7977_AA2A);
}

#[test]
fn component_codes() {
    let codes = [
        Component::Ids,
        Component::IdFilter,
        Component::RowIds,
        Component::Vector { slot: 1 },
        Component::Presence { slot: 1 },
        Component::Position { slot: 1 },
        Component::Centroids { slot: 1 },
        Component::Payload,
        Component::Versions,
        Component::FieldIndex { slot: 1 },
        Component::Deletes,
    ]
    .map(Component::code);
    let expected = [
        0x1000, 0x2000, 0x3000, 0x4001, 0x5001, 0x6001, 0x7001, 0x8000, 0x9000, 0xA001, 0xB000,
    ];
    assert_eq!(codes, expected);
}
