//! A directory seen through an overlay: it can be changed in every way, and stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use ramlet_io::{IoErrorKind, OverlayStorage, PreadStorage, Storage};

use crate::backends::{TempDir, write_file};

fn contents(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let file = storage.open(name).expect("is there");
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(&mut bytes, 0).expect("reads");
    bytes
}

/// Every file, by its path.
fn all(storage: &dyn Storage, path: &str) -> BTreeMap<String, Vec<u8>> {
    let files = storage.list().expect("lists").into_iter();
    let mut all: BTreeMap<_, _> = files
        .map(|name| (format!("{path}{name}"), contents(storage, &name)))
        .collect();
    for name in storage.list_subdirs().expect("lists") {
        let child = storage.subdir(&name).expect("opens");
        all.extend(self::all(child.as_ref(), &format!("{path}{name}/")));
    }
    all
}

#[test]
fn what_is_changed_is_changed_above_alone() {
    let directory = TempDir::new();
    let below: Arc<dyn Storage> = PreadStorage::open(directory.path()).expect("a directory");
    for name in ["kept", "removed", "renamed", "replaced"] {
        write_file(below.as_ref(), name, name.as_bytes(), 100);
    }
    drop(below.create_log("log", 8192).expect("creates"));
    let child = below.subdir("child").expect("creates");
    write_file(child.as_ref(), "inner", b"inner", 100);
    write_file(below.subdir("gone").expect("creates").as_ref(), "x", b"x", 100);
    let before = all(below.as_ref(), "");

    let over = OverlayStorage::new(below.clone());
    assert_eq!(all(&over, ""), before);
    over.remove("removed").expect("removes");
    assert_eq!(over.remove("removed").unwrap_err().kind, IoErrorKind::NotFound);
    assert_eq!(
        over.open("removed").map(drop).unwrap_err().kind,
        IoErrorKind::NotFound
    );
    over.rename("renamed", "replaced").expect("renames");
    assert!(contents(&over, "replaced").starts_with(b"renamed"));
    write_file(&over, "removed", b"anew", 100);
    assert_eq!(
        over.create("kept").map(drop).unwrap_err().kind,
        IoErrorKind::AlreadyExists
    );
    let mut log = over.open_log("log").expect("opens");
    log.write_at(b"changed", 100).expect("writes");
    log.sync().expect("syncs");
    drop(log);
    assert_eq!(&contents(&over, "log")[100..107], b"changed");
    // Two handles of a child are of one directory.
    over.subdir("child")
        .expect("opens")
        .remove("inner")
        .expect("removes");
    assert!(
        over.subdir("child")
            .expect("opens")
            .list()
            .expect("lists")
            .is_empty()
    );
    over.remove_subdir("gone").expect("removes");
    assert_eq!(over.list_subdirs().expect("lists"), ["child"]);
    assert_eq!(
        over.list().expect("lists"),
        ["kept", "log", "removed", "replaced"]
    );

    assert_eq!(all(below.as_ref(), ""), before);
}
