//! Pushes and prunes in each other's midst, over a store where deletes come late: every backup that is kept is whole, at every moment.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::memory::InMemory;
use ramlet_store::{Result, Store, list_backups, prune, push};

use crate::backup::{Files, MEMORY, MemoryTarget, fill, noise, pull};
use crate::wrapped::{Lie, Wrapped};

const ROUNDS: u64 = 40;
const STEPS: u32 = 12;
/// Contents that files may have: few, so that backups share them.
const CONTENTS: u32 = 8;

struct Rivals {
    wrapped: Arc<Wrapped>,
    store: Store,
    /// What each backup must be.
    expected: RefCell<BTreeMap<u64, Files>>,
    random: RefCell<u64>,
}

impl Rivals {
    fn new(seed: u64) -> Rivals {
        let wrapped = Wrapped::new(&Arc::new(InMemory::new()), Lie::LateDeletes);
        Rivals {
            store: Store::over(wrapped.clone(), "memory:").expect("threads"),
            wrapped,
            expected: RefCell::default(),
            random: RefCell::new(seed),
        }
    }

    fn below(&self, n: u32) -> u32 {
        let mut state = self.random.borrow_mut();
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((*state >> 33) % u64::from(n)) as u32
    }

    fn some_files(&self) -> Files {
        let count = 1 + self.below(5);
        let name = |number| {
            (
                format!("c00000001/{number}"),
                noise(500, u64::from(self.below(CONTENTS))),
            )
        };
        (0..count).map(name).collect()
    }

    /// One thing, in whose midst others happen.
    fn step(&self, depth: u32) -> Result<()> {
        if self.below(3) == 0 {
            let pruned = prune(&self.store, 1 + self.below(2) as usize, MEMORY, 0)?;
            self.expected
                .borrow_mut()
                .retain(|number, _| !pruned.dropped.contains(number));
        } else {
            let files = self.some_files();
            let mut tries = 0;
            let report = push(&self.store, MEMORY, 0, &mut |_| {}, &mut |push| {
                let described = fill(push, &files)?;
                tries += 1;
                // A push that is swept again and again gives up in the end.
                if tries < 5 && depth < 3 && self.below(2) == 0 {
                    self.step(depth + 1)?;
                }
                Ok(described)
            })?;
            self.expected.borrow_mut().insert(report.number, files);
        }
        self.wrapped.delete_late(|| self.below(3) == 0);
        Ok(())
    }

    fn check(&self) {
        let listed = list_backups(&self.store).expect("a list");
        let numbers: Vec<u64> = listed.iter().map(|(number, ..)| *number).collect();
        let expected = self.expected.borrow();
        assert_eq!(numbers, expected.keys().copied().collect::<Vec<_>>());
        for (number, files) in expected.iter() {
            let target = MemoryTarget::new();
            pull(&self.store, Some(*number), &target).unwrap_or_else(|e| panic!("backup {number}: {e}"));
            assert!(target.contents() == *files, "backup {number} is another");
        }
    }
}

#[test]
fn what_is_kept_is_whole() {
    for seed in 0..ROUNDS {
        let rivals = Rivals::new(seed);
        rivals.store.claim().expect("it is ours");
        for _ in 0..STEPS {
            rivals.step(0).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            rivals.check();
        }
        rivals.wrapped.delete_late(|| true);
        rivals.check();
    }
}
