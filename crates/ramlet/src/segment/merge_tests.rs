//! Merging payload indexes against building them from payloads: the files must be identical.

use std::collections::BTreeMap;
use std::sync::Arc;

use ramlet_format::component::Component;
use ramlet_index::IndexScratch;
use ramlet_io::{BlockCache, IoContext, RamStorage};
use ramlet_memory::{AnonBuf, Ledger};
use roaring::RoaringBitmap;
use serde_json::json;

use super::build::build;
use super::files::FileContext;
use super::job::Job;
use super::source::{Merged, Reads, RowSource};
use super::{Segment, SegmentView};
use crate::error::Result;
use crate::memory::eviction::Caches;
use crate::schema::{Schema, Slots};
use crate::segment::IndexingThreshold;
use crate::segment::deletes::DeleteSet;
use crate::types::{CollectionConfig, FieldIndex, FieldKind, PointId};

/// Points without vectors.
struct Payloads(Vec<(u64, Vec<u8>)>);

impl RowSource for Payloads {
    fn rows(&self) -> u32 {
        self.0.len() as u32
    }

    fn ids(&self, _: &mut IoContext, each: &mut dyn FnMut(PointId, u64) -> Result<()>) -> Result<()> {
        self.0.iter().try_for_each(|(id, _)| each(PointId::Num(*id), 1))
    }

    fn vectors(&self, _: u16, _: &mut Reads<'_>, _: &mut dyn FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
        Ok(())
    }

    fn vectors_in_order(
        &self,
        _: u16,
        _: usize,
        _: &mut Reads<'_>,
        _: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        Ok(())
    }

    fn present(&self, _: u16) -> Option<RoaringBitmap> {
        None
    }

    fn payloads(&self, _: &mut IoContext, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.0.iter().try_for_each(|(_, payload)| each(payload))
    }
}

struct Bench {
    file_context: FileContext,
    schema: Schema,
    ledger: Arc<Ledger>,
}

impl Bench {
    fn new(schema: &Schema) -> Bench {
        let ledger = Ledger::new(64 << 20);
        let file_context = FileContext {
            storage: Arc::new(RamStorage::new(None)),
            cache: BlockCache::new(&ledger.consumer("block cache", 0), 0).unwrap(),
            metadata: ledger.consumer("segment metadata", 32 << 20),
            pinned: ledger.consumer("pinned files", 0),
            caches: Caches::new(&ledger, 0),
            graph_width: 1,
        };
        Bench {
            file_context,
            schema: schema.clone(),
            ledger,
        }
    }

    fn build(&self, id: u64, source: &dyn RowSource, scratch_bytes: usize) -> Arc<Segment> {
        let mut io = IoContext::for_storage(self.file_context.storage.as_ref(), 16).unwrap();
        let mut scratch = IndexScratch::new(AnonBuf::new(0));
        let mut job = Job {
            progress: None,
            file_context: &self.file_context,
            storage: self.file_context.storage.clone(),
            schema: &self.schema,
            collection_rows: 0,
            indexing_threshold: IndexingThreshold::Never,
            compared_room: &|_| u64::MAX,
            graphs: true,
            scratch_bytes,
            has_less_scratch: false,
            threads: 1,
            io: &mut io,
            scratch: &mut scratch,
        };
        let before = self.ledger.used();
        let entry = build(id, source, &mut job).unwrap();
        assert_eq!(self.ledger.used(), before);
        Arc::new(Segment::open(entry, &self.file_context, &self.schema, &mut io).unwrap())
    }

    fn file(&self, segment: &Segment, component: Component) -> Option<Vec<u8>> {
        let name = &segment.entry.file(component)?.name;
        let file = self.file_context.storage.open(name).unwrap();
        Some(file.as_bytes().unwrap()[..file.len() as usize].to_vec())
    }
}

fn schema(phrases: bool) -> Schema {
    let field = |kind, params| FieldIndex { kind, params };
    let text = json!({
        "type": "text", "tokenizer": "word", "scoring": true, "phrase_matching": phrases,
        "stemmer": { "type": "snowball", "language": "english" }, "stopwords": "english",
    });
    let config = CollectionConfig {
        payload_schema: BTreeMap::from([
            ("body".to_owned(), field(FieldKind::Text, Some(text))),
            ("plain".to_owned(), field(FieldKind::Text, None)),
            ("tag".to_owned(), field(FieldKind::Keyword, None)),
            ("n".to_owned(), field(FieldKind::Integer, None)),
        ]),
        ..CollectionConfig::default()
    };
    Schema::new(&config, &Slots::for_config(&config)).unwrap()
}

/// Payloads of common and rare words, long and empty texts, missing fields.
fn payloads(from: u64, count: u64) -> Payloads {
    let mut x = from * 77 + 5;
    let mut next = move |most: u64| {
        x = x
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (x >> 33) % most
    };
    let mut payload = move |id: u64| {
        if next(40) == 0 {
            return Vec::new();
        }
        // One in hundred is long, and one of its words comes more often than positions are kept.
        let words = if next(100) == 0 { 900 } else { next(60) };
        let word = |next: &mut dyn FnMut(u64) -> u64| match next(3) {
            0 => format!("common{}", next(4)),
            1 => format!("running{}s", next(300)),
            _ => format!("rare{}\u{e9}", next(50_000)),
        };
        let text: Vec<String> = (0..words).map(|_| word(&mut next)).collect();
        let mut all =
            json!({ "body": text.join(" "), "n": next(50), "tag": [format!("t{}", next(9)), "a\0b", "a"] });
        if next(3) == 0 {
            all["plain"] = json!([format!("Some words {}", id % 11), "", 7]);
        }
        serde_json::to_vec(&all).unwrap()
    };
    Payloads((from..from + count).map(|id| (id, payload(id))).collect())
}

/// Merges some segments, from their indexes and from their payloads.
fn check(phrases: bool, parts: &[(u64, u64)], scratch_bytes: usize) {
    let schema = schema(phrases);
    let from = Bench::new(&schema);
    let mut views = Vec::new();
    let mut live = Vec::new();
    for (nth, &(first, count)) in parts.iter().enumerate() {
        let rows = payloads(first, count);
        let segment = from.build(nth as u64 + 1, &rows, 8 << 20);
        let mut deletes = DeleteSet::default();
        // None of the first, all of a word of the others.
        for row in (0..count as u32).filter(|row| nth > 0 && (row * 7919) % 5 < nth as u32) {
            deletes.insert(row);
        }
        let left = rows
            .0
            .into_iter()
            .zip(0..)
            .filter(|(_, row)| !deletes.contains(*row));
        live.extend(left.map(|(row, _)| row));
        views.push(SegmentView { segment, deletes });
    }
    let (merged, made) = (Bench::new(&schema), Bench::new(&schema));
    let a = merged.build(99, &Merged(&views), scratch_bytes);
    let b = made.build(99, &Payloads(live), 8 << 20);
    assert_eq!(a.rows(), b.rows());
    assert_eq!(a.entry.extra, b.entry.extra, "rows that have a field");
    let mut compared = 0;
    for field in &schema.fields {
        let slot = field.slot;
        for component in [
            Component::FieldIndex { slot },
            Component::TextTerms { slot },
            Component::TextLists { slot },
            Component::TextPositions { slot },
            Component::TextLengths { slot },
        ] {
            let (of_merge, of_payloads) = (merged.file(&a, component), made.file(&b, component));
            assert!(of_merge == of_payloads, "{} {component:?}", field.path);
            compared += usize::from(of_merge.is_some());
        }
    }
    assert_eq!(compared, 4 + 3 + usize::from(phrases));
    assert_eq!(a.texts.len(), 1);
}

#[test]
fn merged_indexes_are_those_of_the_payloads() {
    let parts = [(0, 3000), (5000, 1200), (10_000, 1), (20_000, 2000)];
    check(true, &parts, 8 << 20);
    check(false, &parts, 8 << 20);
    // A segment alone.
    check(true, &[(0, 700)], 8 << 20);
    // Too little memory for reading side by side.
    check(true, &parts, 600 << 10);
}

/// Rows of a text of so many distinct words, of so many letters; another of a few words again and again; and one of both.
fn long_texts(words: u32, letters: usize) -> Payloads {
    let word = |n: u32| {
        format!("{:016x}", u64::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15)).repeat(letters.div_ceil(16))
    };
    let many: Vec<String> = (0..words).map(|n| word(n)[..letters].to_owned()).collect();
    let few: Vec<&str> = (0..4 * words)
        .map(|n| ["a", "bc", "a", "d\u{e9}"][n as usize % 4])
        .collect();
    let texts = [
        many.join(" "),
        few.join(" "),
        "short a".to_owned(),
        many.join(" a ") + " " + &few.join(" "),
    ];
    let payload = |text: &String| serde_json::to_vec(&json!({ "body": text })).unwrap();
    Payloads(
        texts
            .iter()
            .zip(0..)
            .map(|(text, id)| (id, payload(text)))
            .collect(),
    )
}

fn schema_of(tokenizer: &str) -> Schema {
    let text = json!({"type": "text", "tokenizer": tokenizer, "scoring": true, "phrase_matching": true});
    let field = FieldIndex {
        kind: FieldKind::Text,
        params: Some(text),
    };
    let config = CollectionConfig {
        payload_schema: BTreeMap::from([("body".to_owned(), field)]),
        ..CollectionConfig::default()
    };
    Schema::new(&config, &Slots::for_config(&config)).unwrap()
}

/// Builds the texts of some rows in little memory and in plenty.
fn check_scratch(tokenizer: &str, rows: &Payloads, scratch_bytes: usize) {
    let schema = schema_of(tokenizer);
    let (little, plenty) = (Bench::new(&schema), Bench::new(&schema));
    let a = little.build(1, rows, scratch_bytes);
    let b = plenty.build(1, rows, 256 << 20);
    let slot = schema.fields[0].slot;
    for component in [
        Component::TextTerms { slot },
        Component::TextLists { slot },
        Component::TextPositions { slot },
        Component::TextLengths { slot },
    ] {
        let (a, b) = (little.file(&a, component), plenty.file(&b, component));
        assert!(
            a.is_some() && a == b,
            "{tokenizer} {component:?} in {scratch_bytes}"
        );
    }
}

#[test]
fn texts_of_any_length_are_the_same_in_any_memory() {
    for scratch_bytes in [100 << 10, 1 << 20] {
        check_scratch("word", &long_texts(20_000, 12), scratch_bytes);
        check_scratch("prefix", &long_texts(3_000, 30), scratch_bytes);
    }
    // Words longer than keys, of which all beginnings are told apart.
    check_scratch("prefix", &long_texts(12, 900), 200 << 10);
}

#[test]
fn words_whose_table_finds_no_room_get_no_lists() {
    let schema = schema_of("prefix");
    let (rows, bench) = (long_texts(50, 900), Bench::new(&schema));
    let slot = schema.fields[0].slot;
    let files = |bench: &Bench| bench.file_context.storage.list().unwrap();
    let held = bench
        .file_context
        .metadata
        .reserve((32 << 20) - (150 << 10))
        .unwrap();
    let segment = bench.build(1, &rows, 200 << 10);
    assert!(segment.text(slot).is_none());
    let left = files(&bench);
    assert!(
        left.iter()
            .all(|name| !name.starts_with("tmp-") && !name.contains(".t")),
        "{left:?}"
    );
    drop(held);
    let segment = bench.build(2, &rows, 200 << 10);
    assert!(segment.text(slot).is_some());
    assert!(files(&bench).iter().any(|name| name.contains(".tw")));
}
