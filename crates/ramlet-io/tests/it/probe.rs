//! The disk probe over every backend. No figure is tested: only that each is one, and what is left behind.

use std::cell::Cell;
use std::time::Duration;

use ramlet_io::{DiskProbe, IoErrorKind, RamStorage, Storage};
use ramlet_memory::Ledger;

use crate::backends::{each, write_file};

/// A clock that goes on by 100 us whenever it is asked: a second of it is 10,000 batches at most.
struct Clock(Cell<u32>);

impl Clock {
    fn now(&self) -> Duration {
        self.0.set(self.0.get() + 1);
        Duration::from_micros(100) * self.0.get()
    }
}

fn probe(
    storage: &dyn Storage,
    memory: Option<&ramlet_memory::Consumer>,
) -> ramlet_io::Result<ramlet_io::DiskFigures> {
    let clock = Clock(Cell::new(0));
    DiskProbe {
        storage,
        now: &|| clock.now(),
        file_bytes: 2 << 20,
        time: Duration::from_millis(20),
        memory,
        seed: 1,
    }
    .run()
}

#[test]
fn every_backend_has_figures_and_no_file_stays() {
    each(|storage| {
        // As if a process had been killed in the middle of it.
        write_file(storage.as_ref(), "tmp-probe", &[7; 3 << 20], 1 << 20);
        let figures = probe(storage.as_ref(), None).expect("figures");
        assert_eq!(figures.backend, storage.backend());
        assert_eq!(figures.file_bytes, 2 << 20);
        // 100 us a batch by this clock: 10,000 reads a second one by one, 128 times as many in batches.
        assert!((figures.iops_depth1 - 10_000.0).abs() < 1.0, "{figures:?}");
        assert!((figures.iops_depth64 - 1_280_000.0).abs() < 100.0, "{figures:?}");
        assert!(
            (figures.latency_us_p50 / 100.0 - 1.0).abs() < 0.04 && figures.latency_us_p99 < 104.0,
            "{figures:?}"
        );
        assert!(
            figures.cpu_us_depth1 > 0.0 && figures.cpu_us_depth64 > 0.0,
            "{figures:?}"
        );
        assert_eq!(storage.list().expect("names"), Vec::<String>::new());
    });
}

#[test]
fn a_large_file_is_read_where_it_lies() {
    let storage = RamStorage::new(None);
    let below = storage
        .subdir("a")
        .expect("a directory")
        .subdir("b")
        .expect("a directory");
    let mut file = below.create("large").expect("a file");
    let piece = vec![7; 1 << 20];
    for _ in 0..3 {
        file.append(&piece).expect("an append");
    }
    file.sync().expect("a sync");
    let figures = probe(&storage, None).expect("figures");
    assert_eq!(figures.file_bytes, 3 << 20);
}

#[test]
fn a_full_disk_and_a_full_budget_are_refused() {
    let ledger = Ledger::new(4 << 20);
    let storage = RamStorage::new(Some(ledger.consumer("files", 4 << 20)));
    let refused = probe(&storage, None).expect_err("no room for a file");
    assert_eq!(refused.kind, IoErrorKind::NoSpace, "{refused}");
    assert!(storage.list().expect("names").is_empty());

    let storage = RamStorage::new(None);
    let ledger = Ledger::new(100_000);
    let consumer = ledger.consumer("probe", 100_000);
    let refused = probe(&storage, Some(&consumer)).expect_err("no memory");
    assert_eq!(refused.kind, IoErrorKind::OverBudget, "{refused}");
    assert!(storage.list().expect("names").is_empty());
}
