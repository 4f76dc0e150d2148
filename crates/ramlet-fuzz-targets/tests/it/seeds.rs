//! The valid inputs of the corpus are those that the writers of today make: `RAMLET_FUZZ_SEEDS=write` writes them anew.

use std::fs;

use ramlet_fuzz_targets::TARGETS;

use crate::corpus::{corpus, place_of};

const PREFIX: &str = "seed-";

#[test]
fn seeds_are_those_of_the_writers() {
    let writes = std::env::var("RAMLET_FUZZ_SEEDS").is_ok_and(|value| value == "write");
    for target in TARGETS {
        let directory = place_of(target.name);
        let made: Vec<_> = (target.seeds)()
            .into_iter()
            .map(|(name, bytes)| (format!("{PREFIX}{name}"), bytes))
            .collect();
        assert!(!made.is_empty(), "{}", target.name);
        if writes {
            fs::create_dir_all(&directory).expect("a directory");
            for (name, _) in corpus(target.name)
                .iter()
                .filter(|(name, _)| name.starts_with(PREFIX))
            {
                fs::remove_file(directory.join(name)).expect("removes");
            }
            for (name, bytes) in &made {
                fs::write(directory.join(name), bytes).expect("writes");
            }
        }
        let mut there = corpus(target.name);
        there.retain(|(name, _)| name.starts_with(PREFIX));
        let mut made = made;
        made.sort();
        let names =
            |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&there), names(&made), "{}", target.name);
        let differs = there.iter().zip(&made).find(|(a, b)| a != b);
        assert!(
            differs.is_none(),
            "{}/{}: the writers make another one now: `cargo xtask fuzz --seeds` writes it",
            target.name,
            differs.map_or("", |(a, _)| &a.0)
        );
    }
}
