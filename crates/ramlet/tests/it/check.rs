//! `check` says nothing of a sound directory and names the file of any damage.

use std::sync::Arc;

use ramlet::*;
use ramlet_io::{SimStorage, Storage};

use crate::support::*;

fn filled() -> SimStorage {
    let disk = SimStorage::new();
    let engine = open(Arc::new(disk.clone()));
    engine
        .create_collection("c", config(4, Distance::Cosine))
        .unwrap();
    let collection = engine.collection("c").unwrap();
    let index = FieldIndex {
        kind: FieldKind::Integer,
        params: None,
    };
    collection.create_payload_index("n", index).unwrap();
    for round in 0..3 {
        let points = (0..100)
            .map(|i| point(round * 50 + i, vec![i as f32 + 1.0; 4], &format!("{{\"n\":{i}}}")))
            .collect();
        collection.update(upsert(points)).unwrap();
        collection.flush().unwrap();
    }
    collection.update(delete(&[1, 2, 60, 120])).unwrap();
    collection.flush().unwrap();
    collection
        .update(upsert(vec![point(1, vec![1.0; 4], "{}")]))
        .unwrap();
    drop(collection);
    engine.close();
    disk
}

fn run(disk: &SimStorage) -> (CheckReport, Vec<Checked>) {
    let mut all = Vec::new();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let report = check(&storage, &mut |checked| all.push(checked.clone())).expect("checks");
    (report, all)
}

#[test]
fn sound_and_damaged() {
    let disk = filled();
    let (report, all) = run(&disk);
    assert_eq!(report.problems, 0, "{all:?}");
    assert_eq!((report.collections, report.points), (1, 196));
    assert!(report.log_groups >= 1);
    let mut rng = Rng(4);
    let segment_files: Vec<String> = disk
        .list_files()
        .into_iter()
        .filter(|n| n.contains("/0000"))
        .collect();
    assert!(segment_files.len() > 10, "{segment_files:?}");
    for name in segment_files {
        let copy = disk
            .crash_states(disk.journal_len(), 0, 0)
            .into_iter()
            .nth(1)
            .unwrap();
        let len = copy.read_file(&name).unwrap().len() as u64;
        copy.flip_bit(&name, rng.below(len)).unwrap();
        let (report, all) = run(&copy);
        let file = name.split('/').next_back().unwrap();
        let told = all.iter().any(|c| c.problem.is_some() && c.place.contains(file));
        assert!(report.problems > 0 && told, "{name}: {all:?}");
    }
}
