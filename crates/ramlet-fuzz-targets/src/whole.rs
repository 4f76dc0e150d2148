//! Files that are read whole: bitmaps, manifests, catalogs.
//!
//! The input is the body of an envelope. Past the checksum: it is put into one as the writers do. As it came, it is read as an envelope
//! too. What decodes is what it is encoded to: once more there and back.

use ramlet_format::catalog::{AliasEntry, Catalog, CollectionEntry, ShardEntry, ShardKey};
use ramlet_format::component::Component;
use ramlet_format::envelope::{self, EnvelopeKind};
use ramlet_format::manifest::{FileEntry, LogEntry, Manifest, SegmentEntry};
use ramlet_format::{bitmap, catalog, manifest};
use roaring::RoaringBitmap;
use serde_json::json;

use crate::Seed;

/// Rows of the segment that bitmaps are of.
const ROWS: u32 = 300_000;

pub fn bitmap(bytes: &[u8]) {
    let kind = EnvelopeKind::Deletes;
    let _ = bitmap::decode(kind, ROWS, bytes);
    assert!(bitmap::decode(EnvelopeKind::Presence, ROWS, &envelope::encode(kind, bytes)).is_err());
    if let Ok(rows) = bitmap::decode(kind, ROWS, &envelope::encode(kind, bytes)) {
        assert!(rows.iter().all(|row| row < ROWS) && rows.len() <= u64::from(ROWS));
        assert_eq!(bitmap::decode(kind, ROWS, &bitmap::encode(kind, &rows)), Ok(rows));
    }
}

pub fn bitmap_seeds() -> Vec<Seed> {
    let body = |rows: RoaringBitmap| {
        let file = bitmap::encode(EnvelopeKind::Deletes, &rows);
        body_of(EnvelopeKind::Deletes, &file)
    };
    vec![
        ("none", body(RoaringBitmap::new())),
        ("arrays", body((0..40).chain(70_000..70_050).collect())),
        ("a-bitset", body((0..ROWS / 24).map(|row| row * 3).collect())),
    ]
}

pub fn manifest(bytes: &[u8]) {
    let _ = Manifest::decode(bytes);
    if let Ok(found) = Manifest::decode(&envelope::encode(EnvelopeKind::Manifest, bytes)) {
        assert_eq!(Manifest::decode(&found.encode()).as_ref(), Ok(&found));
        let name = manifest::file_name(found.number);
        assert_eq!(manifest::parse_file_name(&name), Some(found.number));
        for segment in &found.segments {
            segment
                .all_files()
                .for_each(|file| assert!(ramlet_format::is_plain_name(&file.name)));
        }
    }
}

pub fn manifest_seeds() -> Vec<Seed> {
    let file = |name: &str, component| FileEntry {
        name: name.into(),
        bytes: 8192,
        crc: 0xDEAD_BEEF,
        component,
    };
    let segment = SegmentEntry {
        id: 7,
        rows: 10,
        live: 9,
        files: vec![
            file("00000007.ids", Component::Ids),
            file("00000007.v1", Component::Vector { slot: 1 }),
        ],
        deletes: Some(file("00000007.del-00000012", Component::Deletes)),
        min_lsn: 0,
        max_lsn: 0,
        extra: json!({"a": [1, null]}),
    };
    let log = LogEntry {
        name: "log-00000000000000000100".into(),
        salt: u64::MAX,
        first_lsn: 100,
        bytes: 65_536,
    };
    let manifest = Manifest {
        number: 12,
        collection: "c00000001".into(),
        applied_lsn: 99,
        next_segment: 8,
        config: json!({"size": 4}),
        segments: vec![segment],
        logs: vec![log],
        durable_lsn: 120,
    };
    vec![("manifest", body_of(EnvelopeKind::Manifest, &manifest.encode()))]
}

pub fn catalog(bytes: &[u8]) {
    let _ = Catalog::decode(bytes);
    if let Ok(found) = Catalog::decode(&envelope::encode(EnvelopeKind::Catalog, bytes)) {
        assert_eq!(Catalog::decode(&found.encode()).as_ref(), Ok(&found));
        let name = catalog::file_name(found.number);
        assert_eq!(catalog::parse_file_name(&name), Some(found.number));
    }
}

pub fn catalog_seeds() -> Vec<Seed> {
    let catalog = Catalog {
        number: 3,
        collections: vec![CollectionEntry {
            name: "Übung/..".into(),
            id: "c00000001".into(),
            shards: vec![ShardEntry {
                key: ShardKey::Word("north".into()),
                number: 1,
                id: "c00000002".into(),
            }],
        }],
        aliases: vec![AliasEntry {
            alias: "current".into(),
            collection: "Übung/..".into(),
        }],
        next_id: 3,
        quotas: json!({"enabled": true}),
    };
    vec![("catalog", body_of(EnvelopeKind::Catalog, &catalog.encode()))]
}

fn body_of(kind: EnvelopeKind, file: &[u8]) -> Vec<u8> {
    envelope::decode(kind, file)
        .expect("it was just encoded")
        .to_vec()
}
