use ramlet_memory::{BudgetRequest, BudgetTable, TooSmall};

const MB: u64 = 1_000_000;

fn plan(memory_bytes: u64, threads: usize) -> Result<BudgetTable, TooSmall> {
    BudgetTable::plan(BudgetRequest::new(memory_bytes, threads))
}

fn check_sum(table: &BudgetTable) {
    let sum: u64 = table.rows().iter().map(|row| row.bytes).sum();
    assert_eq!(sum, table.memory_bytes, "{table}");
    assert_eq!(table.headroom, table.memory_bytes / 20);
    check_reclaimable(table);
}

fn check_reclaimable(table: &BudgetTable) {
    assert!(
        (table.pinned..=table.ledger_limit()).contains(&table.pinned_max()),
        "{table}"
    );
    assert!(table.search_slot() * table.search_threads as u64 <= table.search_slots);
}

#[test]
fn rows_add_up_to_exactly_the_budget() {
    for threads in [0, 1, 2, 3, 8, 64] {
        let least = plan(0, threads)
            .expect_err("nothing is too small")
            .memory_bytes_min;
        for memory in [least, least + 1, 64 * MB, 135_000_001, 1 << 30, 64 << 30, 1 << 40] {
            if memory >= least {
                check_sum(&plan(memory, threads).expect("above the least"));
            }
        }
    }
}

#[test]
fn every_row_says_what_it_is_for() {
    let table = plan(64 * MB, 2).expect("64 MB");
    let lines = table.to_string();
    assert_eq!(lines.lines().count(), table.rows().len() + 2, "{lines}");
    for row in table.rows() {
        let line = lines.lines().find(|line| line.starts_with(row.name));
        assert!(
            line.is_some_and(|line| line.ends_with(row.kind.meaning())),
            "{lines}"
        );
    }
    assert!(lines.contains("64.00 MB\n"), "{lines}");
}

#[test]
fn the_least_memory_that_an_error_names_works_and_one_byte_less_does_not() {
    for threads in [1, 2, 8, 64] {
        let refused = plan(5 * MB, threads).expect_err("5 MB");
        assert_eq!(refused.memory_bytes, 5 * MB);
        check_sum(&plan(refused.memory_bytes_min, threads).expect("the least"));
        assert!(plan(refused.memory_bytes_min - 1, threads).is_err());
    }
}

#[test]
fn small_machines_are_served_and_proportions_are_sensible() {
    let table = plan(16 * MB, 2).expect("16 MB do for two threads");
    assert!(table.elastic >= MB && table.search_slot() >= 256 << 10, "{table}");

    let table = plan(64 * MB, 2).expect("64 MB");
    let between = |bytes: u64, low: u64, high: u64| assert!((low..=high).contains(&bytes), "{table}");
    between(table.kernel, 4 * MB, 6 * MB);
    between(table.runtime, 5 * MB, 7 * MB);
    between(table.search_slots, MB / 2, 2 * MB);
    between(table.log_buffers, MB / 4, MB);
    between(table.write_buffers, 8 * MB, 11 * MB);
    between(table.job_scratch, 10 * MB, 15 * MB);
    between(table.block_cache, MB / 4, MB);
    between(table.elastic, 8 * MB, 11 * MB);
    between(table.pinned, 9 * MB, 18 * MB);

    let table = plan(1 << 30, 2).expect("1 GiB");
    assert!(
        table.pinned > (1 << 30) / 2,
        "most of a large budget holds data: {table}"
    );
}

/// What a million vectors of 100 dimensions want in RAM: codes, and beside them the index's centroids, the segment's fences
/// and its filter of ids.
#[test]
fn a_million_vectors_get_the_codes_they_want() {
    const METADATA: u64 = 2_500_000;
    let server = |memory, threads| {
        let mut request = BudgetRequest::new(memory, threads);
        request.other_threads = 7;
        request
    };
    for (request, codes, metadata) in [
        (server(135 * MB, 8), 87 * MB, METADATA),
        (server(64 * MB, 8), 28 * MB, METADATA),
        (BudgetRequest::in_process(135 * MB, 8), 87 * MB, METADATA),
        (BudgetRequest::in_process(64 * MB, 8), 48 * MB, METADATA),
        // Without the filter, which is for writes.
        (BudgetRequest::in_process(32 * MB, 2), 25 * MB, MB),
        (BudgetRequest::in_process(32 * MB, 4), 24 * MB, 5 * MB / 4),
        (BudgetRequest::in_process(32 * MB, 8), 47 * MB / 2, 5 * MB / 4),
        (BudgetRequest::in_process(16 * MB, 2), 9 * MB, MB),
    ] {
        let table = BudgetTable::plan(request).expect("enough to start with");
        let sum: u64 = table.rows().iter().map(|row| row.bytes).sum();
        assert_eq!(sum, table.memory_bytes, "{table}");
        check_reclaimable(&table);
        assert!(table.pinned_max() >= codes, "{table}");
        let arenas = table.search_slots + table.log_buffers + table.block_cache;
        assert!(table.ledger_limit() - arenas >= codes + metadata, "{table}");
    }
}

/// A batch of JSON is held twice: 1,000 vectors of 1,536 numbers are 30 MB, the API's largest body is 32 MiB.
#[test]
fn the_largest_batches_that_clients_send_fit() {
    for (memory, body) in [
        (64 * MB, 3_100_000),
        (135 * MB, 6 * MB),
        (256 * MB, 15 * MB),
        (512 * MB, 32 << 20),
        (8 << 30, 32 << 20),
    ] {
        let table = plan(memory, 8).expect("enough to start with");
        assert!(
            table.requests_max() >= 2 * body,
            "{}: {table}",
            table.requests_max()
        );
        assert!(table.updates_max() >= body, "{table}");
        // Whatever requests hold, segments find what they were promised.
        let promised = table.write_buffers
            + table.job_scratch
            + table.search_slots
            + table.log_buffers
            + table.block_cache;
        let both = table.requests_max() + table.metadata_max();
        assert!(
            both + promised <= table.ledger_limit() + table.elastic / 4,
            "{both}: {table}"
        );
        assert!(table.metadata_max() >= table.pinned / 4 * 3, "{table}");
    }
}

#[test]
fn search_threads_follow_the_cores_until_memory_is_scarce() {
    for (memory, cores, threads, in_process) in [
        // In process a graph's: reads in flight, in small slots.
        (16, 1, 2, 4),
        (16, 2, 2, 8),
        (16, 64, 2, 8),
        (24, 2, 3, 8),
        (31, 2, 3, 8),
        // Slots divide what there is.
        (32, 1, 4, 4),
        (32, 2, 4, 8),
        (32, 64, 4, 8),
        (48, 2, 6, 8),
        (64, 2, 8, 8),
        (135, 2, 8, 8),
        (135, 16, 16, 16),
        (4096, 16, 64, 64),
        (0, 0, 1, 1),
    ] {
        let found = [
            BudgetRequest::search_threads_for(memory * MB, cores),
            BudgetRequest::search_threads_in_process(memory * MB, cores),
        ];
        assert_eq!(found, [threads, in_process], "{memory} MB, {cores} cores");
    }
    // Each reads eight nodes of 8 KiB at once through half its slot.
    let threads = BudgetRequest::search_threads_in_process(16 * MB, 2);
    let table =
        BudgetTable::plan(BudgetRequest::in_process(16 * MB, threads)).expect("room for eight threads");
    assert!(table.search_slot() >= 128 << 10, "{table}");
    assert!(table.pinned_max() >= 10 * MB, "{table}");
    // What is taken when nobody says how many always fits where as many threads as cores do.
    let threads = BudgetRequest::search_threads_for(64 * MB, 64);
    let table = plan(64 * MB, threads).expect("room for their slots");
    assert!(
        table.search_slots < 8 * MB && table.search_slot() <= 512 << 10,
        "{table}"
    );
    assert!(plan(135 * MB, 8).expect("135 MB").search_slot() <= 512 << 10);
}

#[test]
fn every_row_grows_with_the_budget() {
    let mut before = plan(20 * MB, 2).expect("20 MB");
    for step in 1..400 {
        let table = plan(20 * MB + step * step * 100_000, 2).expect("more than before");
        for (row, old) in table.rows().iter().zip(before.rows()) {
            assert!(
                row.bytes >= old.bytes || row.name == "cached data",
                "{} shrank:\n{table}",
                row.name
            );
        }
        before = table;
    }
}

#[test]
fn wishes_are_granted_or_refused() {
    let mut request = BudgetRequest::new(64 * MB, 2);
    request.block_cache = Some(20 * MB);
    request.write_buffers = Some(3 * MB);
    let table = BudgetTable::plan(request.clone()).expect("room for 20 MB");
    check_sum(&table);
    assert_eq!((table.block_cache, table.write_buffers), (20 * MB, 3 * MB));
    request.block_cache = Some(60 * MB);
    let refused = BudgetTable::plan(request).expect_err("60 of 64 MB");
    assert!(refused.memory_bytes_min > 70 * MB);
}

#[test]
fn the_table_and_the_error_print_their_numbers() {
    let text = plan(64 * MB, 2).expect("64 MB").to_string();
    assert!(
        text.contains("block cache") && text.contains("64.00 MB\n"),
        "{text}"
    );
    let widths: Vec<_> = text.lines().map(|line| line.find(" MB")).collect();
    assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
    let refused = TooSmall {
        memory_bytes: 9_960_000,
        memory_bytes_min: 13_310_001,
    };
    let text = "a budget of 9.9 MB is below the 13.4 MB that the process needs with these settings";
    assert_eq!(refused.to_string(), text);
}

#[test]
fn threads_that_hold_connections_leave_some_to_searches_that_take_long() {
    let outside = |threads| BudgetRequest::slots_outside_for(64 * MB, threads, 2);
    assert_eq!([1, 2, 3, 4, 5, 8, 32].map(outside), [0, 1, 1, 2, 3, 4, 4]);
    assert_eq!(BudgetRequest::slots_outside_for(63 * MB, 8, 2), 0);
}
