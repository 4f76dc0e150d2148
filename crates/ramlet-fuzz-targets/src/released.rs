//! Data directories of released versions: each is opened by this one, and answers as it did.
//!
//! `testdata/released/VERSION/` has the files of the sample as that version wrote them, and `answers.txt`, what it answered. A release adds one:
//! `RAMLET_MAKE_RELEASED=0.1.0 cargo test -p ramlet-fuzz-targets released`. None is ever changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ramlet::{
    Collection, Engine, FacetRequest, QueryKind, QueryRequest, Result, Scratch, ScrollRequest, Storage,
    Vector, VectorSelector,
};

use crate::directory::{self, put};
use crate::sample::{self, NAME};

const ANSWERS: &str = "answers.txt";

fn released() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/released")
}

/// What the sample answers, a line each. Searches compare all rows: which an index finds may change with a version.
fn answers(storage: Arc<dyn Storage>) -> Result<Vec<String>> {
    let engine = sample::open(storage)?;
    let collection = engine.collection(NAME)?;
    let mut scratch = engine.scratch()?;
    let mut lines = points(&collection, &mut scratch)?;
    for (at, filter) in sample::filters().iter().enumerate() {
        let count = collection.count(Some(filter), true, &mut scratch)?;
        lines.push(format!("filter {at}: {count} points"));
    }
    for key in ["n", "k", "b", "u"] {
        let request = FacetRequest {
            key: key.into(),
            limit: 20,
            filter: None,
        };
        let counts: Vec<u64> = collection
            .facet(&request, &mut scratch)?
            .iter()
            .map(|hit| hit.count)
            .collect();
        lines.push(format!("facet {key}: {counts:?}"));
    }
    for (at, request) in sample::queries().into_iter().enumerate() {
        let ranks_texts = matches!(request.query, Some(QueryKind::Text(_)));
        if request.params.exact || ranks_texts || request.using == "words" {
            lines.push(format!(
                "query {at}: {}",
                found(&engine, &collection, request, &mut scratch)?
            ));
        }
    }
    engine.close();
    Ok(lines)
}

fn points(collection: &Collection, scratch: &mut Scratch) -> Result<Vec<String>> {
    let all = ScrollRequest {
        limit: 1_000,
        ..sample::scrolls().remove(0)
    };
    let page = collection.scroll(&all, scratch)?;
    let lines = page.points.iter().map(|point| {
        let payload = String::from_utf8_lossy(point.payload.as_deref().unwrap_or_default());
        let mut vectors: Vec<String> = point
            .vectors
            .iter()
            .flatten()
            .map(|(name, vector)| format!("{name}={}", numbers(vector)))
            .collect();
        vectors.sort();
        format!("point {:?}: {payload} {}", point.id, vectors.join(" "))
    });
    Ok(lines.collect())
}

fn numbers(vector: &Vector) -> String {
    match vector {
        Vector::Dense(values) => format!("{values:?}"),
        Vector::Sparse(sparse) => format!("{:?}@{:?}", sparse.values, sparse.indices),
        Vector::Multi(multi) => format!("{:?}/{}", multi.values, multi.dim),
    }
}

/// Scores to four digits: processors add in different orders.
fn found(
    engine: &Engine,
    collection: &Collection,
    request: QueryRequest,
    scratch: &mut Scratch,
) -> Result<String> {
    let request = QueryRequest {
        with_vectors: VectorSelector::None,
        highlight: None,
        ..request
    };
    let found = collection.query(request, engine, scratch)?;
    let hits: Vec<String> = found
        .hits
        .iter()
        .map(|hit| format!("{:?} {:.4}", hit.id, hit.score))
        .collect();
    Ok(hits.join(", "))
}

fn make(version: &str) {
    let place = released().join(version);
    assert!(
        !place.exists(),
        "{version} is there: what was released is never changed"
    );
    let storage = sample::ram();
    for file in directory::sample() {
        let directory = place.join(&file.directory);
        fs::create_dir_all(&directory).expect("creates");
        fs::write(directory.join(&file.name), &file.bytes).expect("writes");
        put(storage.as_ref(), (&file.directory, &file.name), &file.bytes);
    }
    let lines = answers(storage).expect("answers");
    fs::write(place.join(ANSWERS), lines.join("\n") + "\n").expect("writes");
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().expect("has a name");
    name.to_string_lossy().into_owned()
}

/// The files of a directory, and of those in it.
fn load(place: &Path) -> Arc<dyn Storage> {
    let storage = sample::ram();
    let names = |place: &Path| {
        let entries = fs::read_dir(place).expect("is there");
        entries
            .map(|entry| entry.expect("reads").path())
            .collect::<Vec<_>>()
    };
    let put_file = |directory: &str, path: &Path| {
        put(
            storage.as_ref(),
            (directory, &name_of(path)),
            &fs::read(path).expect("reads"),
        );
    };
    for path in names(place) {
        let name = name_of(&path);
        match path.is_dir() {
            true => names(&path).iter().for_each(|inner| put_file(&name, inner)),
            false if name != ANSWERS => put_file("", &path),
            false => {}
        }
    }
    storage
}

#[test]
fn directories_of_released_versions_answer_as_they_did() {
    if let Ok(version) = std::env::var("RAMLET_MAKE_RELEASED") {
        make(&version);
    }
    let mut versions = 0;
    for entry in fs::read_dir(released()).expect("testdata/released is there") {
        let place = entry.expect("reads").path();
        if !place.is_dir() {
            continue;
        }
        versions += 1;
        let expected = fs::read_to_string(place.join(ANSWERS)).expect("has answers");
        let storage = load(&place);
        let mut told = Vec::new();
        let report = ramlet::check(&storage, &mut |checked| told.push(checked.clone())).expect("is checked");
        assert_eq!(report.problems, 0, "{}: {told:?}", place.display());
        let told = answers(storage).unwrap_or_else(|e| panic!("{}: {e}", place.display()));
        for (expected, told) in expected.lines().zip(&told) {
            assert_eq!(expected, told, "{}", place.display());
        }
        assert_eq!(expected.lines().count(), told.len(), "{}", place.display());
    }
    assert!(versions > 0);
}
