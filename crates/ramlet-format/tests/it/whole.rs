use crate::support::Random;
use ramlet_format::catalog::{self, AliasEntry, Catalog, CollectionEntry, ShardEntry, ShardKey};
use ramlet_format::envelope::{self, EnvelopeKind};
use ramlet_format::manifest::{self, FileEntry, LogEntry, Manifest, SegmentEntry};
use ramlet_format::{Component, FileCrc, PAGE, bitmap, is_plain_name};
use roaring::RoaringBitmap;
use serde_json::json;

pub fn file(name: &str, component: Component) -> FileEntry {
    FileEntry {
        name: name.into(),
        bytes: 8192,
        crc: 0xDEAD_BEEF,
        component,
    }
}

pub fn sample_manifest() -> Manifest {
    Manifest {
        number: 12,
        collection: "c000001".into(),
        applied_lsn: 99,
        next_segment: 8,
        config: json!({"distance": "Cosine", "size": 4}),
        segments: vec![SegmentEntry {
            id: 7,
            rows: 10,
            live: 9,
            files: vec![
                file("7.ids", Component::Ids),
                file("7.v0", Component::Vector { slot: 0 }),
                file("7.v1", Component::Vector { slot: 1 }),
            ],
            deletes: Some(file("7.deletes-3", Component::Deletes)),
            min_lsn: 1,
            max_lsn: 99,
            extra: json!(null),
        }],
        logs: vec![LogEntry {
            name: "log-1".into(),
            salt: u64::MAX,
            first_lsn: 100,
            bytes: 65_536,
        }],
        durable_lsn: 120,
    }
}

pub fn sample_catalog() -> Catalog {
    Catalog {
        number: 3,
        collections: vec![CollectionEntry {
            name: "Übung/..".into(),
            id: "c000001".into(),
            shards: Vec::new(),
        }],
        aliases: vec![AliasEntry {
            alias: "current".into(),
            collection: "Übung/..".into(),
        }],
        next_id: 2,
        quotas: json!({"enabled": true}),
    }
}

#[test]
fn envelopes_come_back_with_any_padding() {
    for length in [0, 1, PAGE - 25, PAGE - 24, PAGE - 23, 3 * PAGE, 100_000] {
        let body = Random::new(length as u64).bytes(length);
        let mut bytes = envelope::encode(EnvelopeKind::Blob, &body);
        assert!(bytes.len().is_multiple_of(PAGE) && bytes.len() < length + 24 + PAGE);
        assert_eq!(envelope::decode(EnvelopeKind::Blob, &bytes).unwrap(), body);
        bytes.extend_from_slice(&[0xAA; 100]);
        assert_eq!(envelope::decode(EnvelopeKind::Blob, &bytes).unwrap(), body);
        let used = &bytes[..24 + length];
        assert_eq!(envelope::decode(EnvelopeKind::Blob, used).unwrap(), body);
        let cut = envelope::decode(EnvelopeKind::Blob, &used[..used.len() - 1]);
        assert!(cut.is_err());
    }
}

#[test]
fn an_envelope_of_another_kind_or_version_is_refused() {
    let bytes = envelope::encode(EnvelopeKind::Blob, b"body");
    let error = envelope::decode(EnvelopeKind::Manifest, &bytes).unwrap_err();
    assert_eq!(error.to_string(), "envelope: kind 6, not 2 (Manifest)");
    let mut newer = bytes.clone();
    newer[8] = 2;
    let error = envelope::decode(EnvelopeKind::Blob, &newer).unwrap_err();
    assert_eq!(error.to_string(), "envelope: version 2, this program reads 1");
}

#[test]
fn every_flipped_bit_of_an_envelope_is_seen() {
    let bytes = envelope::encode(EnvelopeKind::Blob, &Random::new(1).bytes(300));
    for bit in 0..(24 + 300) * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(
            envelope::decode(EnvelopeKind::Blob, &flipped).is_err(),
            "bit {bit}"
        );
    }
}

#[test]
fn bitmaps_come_back() {
    let mut random = Random::new(2);
    for count in [0, 1, 100, 5000, 200_000] {
        let rows: RoaringBitmap = (0..count).map(|_| random.below(1_000_000) as u32).collect();
        let bytes = bitmap::encode(EnvelopeKind::Deletes, &rows);
        assert_eq!(
            bitmap::decode(EnvelopeKind::Deletes, 1_000_000, &bytes).unwrap(),
            rows
        );
        assert!(bitmap::decode(EnvelopeKind::Presence, 1_000_000, &bytes).is_err());
    }
    let bytes = bitmap::encode(EnvelopeKind::Deletes, &RoaringBitmap::from([5]));
    assert!(bitmap::decode(EnvelopeKind::Deletes, 6, &bytes).is_ok());
    let error = bitmap::decode(EnvelopeKind::Deletes, 5, &bytes).unwrap_err();
    assert_eq!(error.to_string(), "bitmap: Deletes: row Some(5) of 5");
}

#[test]
fn manifests_come_back() {
    let manifest = sample_manifest();
    assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
    let segment = &manifest.segments[0];
    assert_eq!(segment.all_files().count(), 4);
    assert_eq!(segment.file(Component::Vector { slot: 1 }).unwrap().name, "7.v1");
    assert_eq!(segment.file(Component::Payload), None);
}

#[test]
fn a_manifest_without_extra_is_read() {
    let mut value = serde_json::to_value(sample_manifest()).unwrap();
    value["segments"][0].as_object_mut().unwrap().remove("extra");
    let bytes = envelope::encode(EnvelopeKind::Manifest, value.to_string().as_bytes());
    assert_eq!(Manifest::decode(&bytes).unwrap(), sample_manifest());
}

#[test]
fn a_manifest_that_lacks_a_field_is_refused() {
    let refused = |remove: &dyn Fn(&mut serde_json::Value), field: &str| {
        let mut value = serde_json::to_value(sample_manifest()).unwrap();
        remove(&mut value);
        let bytes = envelope::encode(EnvelopeKind::Manifest, value.to_string().as_bytes());
        let error = Manifest::decode(&bytes).unwrap_err().to_string();
        assert!(error.contains(&format!("missing field `{field}`")), "{error}");
    };
    let remove =
        |value: &mut serde_json::Value, field: &str| drop(value.as_object_mut().unwrap().remove(field));
    refused(&|value| remove(value, "durable_lsn"), "durable_lsn");
    refused(&|value| remove(&mut value["logs"][0], "bytes"), "bytes");
    refused(&|value| remove(value, "logs"), "logs");
}

#[test]
fn a_catalog_without_quotas_is_read() {
    let catalog = Catalog {
        quotas: json!(null),
        ..sample_catalog()
    };
    let value = serde_json::to_value(&catalog).unwrap();
    assert_eq!(value.get("quotas"), None);
    assert_eq!(Catalog::decode(&catalog.encode()).unwrap(), catalog);
}

fn check_refused(change: impl FnOnce(&mut Manifest), expected: &str) {
    let mut manifest = sample_manifest();
    change(&mut manifest);
    assert_eq!(
        Manifest::decode(&manifest.encode()).unwrap_err().to_string(),
        expected
    );
}

#[test]
fn a_manifest_that_contradicts_itself_is_refused() {
    check_refused(|m| m.next_segment = 7, "manifest: segment 7, next is 7");
    check_refused(
        |m| m.segments[0].live = 11,
        "manifest: segment 7: 11 live of 10 rows",
    );
    check_refused(
        |m| m.segments.extend(m.segments.clone()),
        "manifest: segment 7 is listed twice",
    );
    check_refused(
        |m| m.segments[0].files[2].component = Component::Ids,
        "manifest: segment 7: two files of Ids",
    );
    check_refused(
        |m| m.segments[0].files[2].component = Component::Vector { slot: 4096 },
        "manifest: segment 7: Vector { slot: 4096 }: slots are below 4096",
    );
    check_refused(
        |m| (m.segments[0].id, m.next_segment) = (1 << 48, u64::MAX),
        "manifest: segment 281474976710656: ids have 48 bits",
    );
    check_refused(|m| m.logs[0].first_lsn = 0, "manifest: log-1: group 0 is none");
    check_refused(
        |m| m.collection = String::new(),
        "manifest: \"\" isn't a plain file name",
    );
}

#[test]
fn names_cannot_lead_elsewhere() {
    for name in [
        "",
        ".",
        "..",
        "../x",
        "/etc/passwd",
        "a/b",
        "a\\b",
        ".hidden",
        "a\0b",
        "ä",
        "a b",
    ] {
        assert!(!is_plain_name(name), "{name:?}");
        let expected = format!("manifest: {name:?} isn't a plain file name");
        check_refused(|m| m.segments[0].files[0].name = name.into(), &expected);
        check_refused(
            |m| m.segments[0].deletes.as_mut().unwrap().name = name.into(),
            &expected,
        );
        check_refused(|m| m.logs[0].name = name.into(), &expected);
    }
    assert!(!is_plain_name(&"a".repeat(256)));
    assert!(is_plain_name(&"a".repeat(255)));
    assert!(is_plain_name("MANIFEST-000000000001.tmp"));
}

#[test]
fn numbered_names_come_back_and_no_others() {
    for number in [0, 1, 42, 999_999_999_999, 1_000_000_000_000, u64::MAX] {
        assert_eq!(
            manifest::parse_file_name(&manifest::file_name(number)),
            Some(number)
        );
        assert_eq!(
            catalog::parse_file_name(&catalog::file_name(number)),
            Some(number)
        );
        assert_eq!(catalog::parse_file_name(&manifest::file_name(number)), None);
    }
    assert_eq!(manifest::file_name(42), "MANIFEST-000000000042");
    for name in [
        "MANIFEST-",
        "MANIFEST-42",
        "MANIFEST-0000000000042",
        "MANIFEST-000000000042.tmp",
        "MANIFEST",
    ] {
        assert_eq!(manifest::parse_file_name(name), None, "{name}");
    }
    assert_eq!(manifest::parse_file_name("MANIFEST-+00000000042"), None);
    assert_eq!(manifest::parse_file_name("MANIFEST-99999999999999999999"), None);
}

#[test]
fn catalogs_come_back_and_contradictions_are_refused() {
    let catalog = sample_catalog();
    assert_eq!(Catalog::decode(&catalog.encode()).unwrap(), catalog);
    let refused = |change: fn(&mut Catalog)| {
        let mut catalog = sample_catalog();
        change(&mut catalog);
        Catalog::decode(&catalog.encode()).unwrap_err().detail
    };
    assert_eq!(
        refused(|c| c.collections[0].id = "../x".into()),
        "\"../x\" isn't a plain file name"
    );
    assert_eq!(
        refused(|c| c.aliases.extend(c.aliases.clone())),
        "alias \"current\" is listed twice"
    );
    assert!(refused(|c| c.collections.extend(c.collections.clone())).starts_with("collection \"Übung"));
}

#[test]
fn a_catalog_lists_shards_once() {
    let with_shard = || {
        let mut catalog = sample_catalog();
        catalog.collections[0].shards.push(ShardEntry {
            key: ShardKey::Word("red".into()),
            number: 1,
            id: "c000002".into(),
        });
        catalog
    };
    let catalog = with_shard();
    assert_eq!(Catalog::decode(&catalog.encode()).unwrap(), catalog);
    assert!(catalog.lists("c000002") && !catalog.lists("c000003"));
    let refused = |change: fn(&mut Catalog)| {
        let mut catalog = with_shard();
        change(&mut catalog);
        Catalog::decode(&catalog.encode()).unwrap_err().detail
    };
    fn again(c: &mut Catalog, key: ShardKey, number: u32) {
        let id = "c000003".into();
        c.collections[0].shards.push(ShardEntry { key, number, id });
    }
    assert_eq!(
        refused(|c| c.collections[0].shards[0].id = "c000001".into()),
        "id \"c000001\" is listed twice"
    );
    assert!(refused(|c| again(c, ShardKey::Word("red".into()), 2)).starts_with("shard key "));
    assert_eq!(
        refused(|c| again(c, ShardKey::Number(7), 1)),
        "shard 1 is listed twice"
    );
}

#[test]
fn a_running_crc_is_the_crc_of_the_whole() {
    let bytes = Random::new(3).bytes(10_000);
    let mut running = FileCrc::new();
    bytes.chunks(777).for_each(|chunk| running.update(chunk));
    assert_eq!(running.value(), crc32c::crc32c(&bytes));
    // RFC 3720, B.4: 32 bytes of zeros.
    let mut zeros = FileCrc::new();
    zeros.update(&[0; 32]);
    assert_eq!(zeros.value(), 0x8A91_36AA);
}

#[test]
fn component_codes_differ() {
    let slots = [0, 1, Component::SLOTS - 1];
    let mut codes: Vec<u16> = slots
        .iter()
        .flat_map(|&slot| {
            [
                Component::Vector { slot },
                Component::Presence { slot },
                Component::Position { slot },
                Component::Centroids { slot },
                Component::FieldIndex { slot },
                Component::Codes { slot },
                Component::Extended { slot },
                Component::ExtendedLow { slot },
                Component::Product { slot },
                Component::Residual { slot },
            ]
        })
        .chain(
            [0, 1, Component::SLOTS / 2 - 1]
                .iter()
                .flat_map(|&slot| [Component::Graph { slot }, Component::GraphMeta { slot }]),
        )
        .chain([
            Component::Ids,
            Component::IdFilter,
            Component::RowIds,
            Component::Payload,
        ])
        .chain([Component::Versions, Component::Deletes])
        .map(Component::code)
        .collect();
    let count = codes.len();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), count);
}
