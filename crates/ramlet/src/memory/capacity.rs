//! How many collections a budget can load and list, and which budget can list more.

use std::sync::Arc;

use ramlet_format::catalog::{Catalog, CollectionEntry};
use ramlet_memory::{BudgetRequest, BudgetTable, Ledger, Reservation};

use crate::error::{Error, ErrorKind, Result};
use crate::limits::{COLLECTION_BYTES, LISTED_BYTES, LISTED_NAME_TIMES};
use crate::write::memtable::MemtableWriter;

/// Most that collections in RAM may hold, apart from their data, and most that the list of all of them may: of what holds data for speed a
/// quarter may be either instead.
pub fn collections_bytes_max(budget: &BudgetTable) -> u64 {
    (budget.elastic / 2).max(budget.pinned / 4)
}

/// Takes the RAM of a catalog that was read. Refused where there are more collections than the budget can list, with a budget that would do.
pub fn listed(budget: &BudgetTable, ledger: &Arc<Ledger>, catalog: &Catalog) -> Result<Reservation> {
    let consumer = ledger.keeper("catalog", collections_bytes_max(budget));
    let bytes = listed_bytes(catalog);
    match bytes <= consumer.cap() {
        true => Ok(consumer.reserve(bytes)?),
        false => Err(too_many(budget, catalog)),
    }
}

/// Takes what a changed catalog needs, or gives back. Refused for good where the budget can list no more: they go only when somebody deletes them.
pub fn list(budget: &BudgetTable, held: &mut Reservation, catalog: &Catalog) -> Result<()> {
    let (bytes, before) = (listed_bytes(catalog), held.bytes());
    if bytes <= before {
        held.shrink_to(bytes);
        return Ok(());
    }
    if bytes > held.consumer().cap() {
        let told = too_many(budget, catalog).to_string();
        return Err(Error::new(ErrorKind::MemoryFull, told));
    }
    Ok(held.grow(bytes - before)?)
}

/// Collections that find room in RAM at the same time, apart from their data. Half of the memory of memtables stays free for points.
pub fn fit(budget: &BudgetTable) -> usize {
    let (by_bytes, by_memtables) = (
        collections_bytes_max(budget) / COLLECTION_BYTES,
        budget.write_buffers / 2 / MemtableWriter::EMPTY_PAIR_BYTES,
    );
    by_bytes.min(by_memtables) as usize
}

/// What a catalog takes in RAM, with what is remembered of its collections.
fn listed_bytes(catalog: &Catalog) -> u64 {
    let collections = catalog.collections.iter().map(entry_bytes);
    let aliases = catalog
        .aliases
        .iter()
        .map(|entry| name_bytes(&entry.alias) + entry.collection.len() as u64);
    collections.sum::<u64>() + aliases.sum::<u64>()
}

/// What one collection takes of that, with its shards.
fn entry_bytes(entry: &CollectionEntry) -> u64 {
    let shards = entry.shards.iter().map(|shard| name_bytes(&shard.id));
    name_bytes(&entry.name) + shards.sum::<u64>()
}

fn name_bytes(name: &str) -> u64 {
    LISTED_BYTES + LISTED_NAME_TIMES * name.len() as u64
}

fn too_many(budget: &BudgetTable, catalog: &Catalog) -> Error {
    let (collections, bytes) = (catalog.collections.len(), listed_bytes(catalog));
    // The first so many of these: names differ in length.
    let mut left = collections_bytes_max(budget);
    let mut fits = |entry: &CollectionEntry| {
        let rest = left.checked_sub(entry_bytes(entry));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    let fit = catalog.collections.iter().take_while(|entry| fits(entry)).count();
    let what = format!("{collections} collections exceed the {fit} that this budget can list");
    let what = match least_memory(budget, bytes) {
        Some(memory) => format!("{what}; a budget of {} MB can list all", memory / STEP),
        None => what,
    };
    Error::new(ErrorKind::OverBudget, what)
}

/// Budgets are named in whole MB.
const STEP: u64 = 1_000_000;

/// A budget with room for a catalog: with as many threads as this one has, or as it would get by itself.
fn least_memory(budget: &BudgetTable, listed: u64) -> Option<u64> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let has_room = |memory: &u64| {
        let threads = BudgetRequest::search_threads_for(*memory, cores).max(budget.search_threads);
        let request = BudgetRequest {
            slots_outside: budget.slots_outside,
            ..BudgetRequest::new(*memory, threads)
        };
        BudgetTable::plan(request).is_ok_and(|table| collections_bytes_max(&table) >= listed)
    };
    let beyond = budget.memory_bytes / STEP + 1;
    // The smallest share of a budget is more than a 64th.
    let most = beyond + 64 * listed / STEP;
    (beyond..=most).map(|n| n * STEP).find(has_room)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(memory: u64) -> BudgetTable {
        BudgetTable::plan(BudgetRequest::new(memory, 1)).expect("enough")
    }

    fn of(collections: usize) -> Catalog {
        let entry = |n: usize| CollectionEntry {
            name: format!("collection-{n:06}"),
            id: format!("c{n:08}"),
            shards: Vec::new(),
        };
        Catalog {
            collections: (0..collections).map(entry).collect(),
            ..Catalog::default()
        }
    }

    #[test]
    fn ten_thousand_collections_fit_in_64_mb() {
        let small = table(64 * STEP);
        assert!(listed(&small, &Ledger::new(small.ledger_limit()), &of(10_000)).is_ok());
    }

    #[test]
    fn the_budget_that_is_named_has_room() {
        for memory in [16 * STEP, 32 * STEP, 64 * STEP, 300 * STEP] {
            let small = table(memory);
            let ledger = Ledger::new(small.ledger_limit());
            let fit = (collections_bytes_max(&small) / listed_bytes(&of(1))) as usize;
            let mut held = listed(&small, &ledger, &of(fit)).expect("they fit");
            let another = list(&small, &mut held, &of(fit + 1)).expect_err("one too many");
            assert_eq!(another.kind(), ErrorKind::MemoryFull, "waiting doesn't help");
            assert!(
                another.to_string().contains(&format!("the {fit} that")),
                "{another}"
            );
            for collections in [fit + 1, 3 * fit] {
                let error = listed(&small, &ledger, &of(collections)).expect_err("too many");
                assert_eq!(error.kind(), ErrorKind::OverBudget);
                let said = error.to_string();
                let named = said
                    .rsplit_once("a budget of ")
                    .and_then(|(_, rest)| rest.split_once(" MB"));
                let named: u64 = named.expect(&said).0.parse().expect("a number");
                let larger = table(named * STEP);
                let ledger = Ledger::new(larger.ledger_limit());
                listed(&larger, &ledger, &of(collections)).expect(&said);
                assert!(named * STEP > memory);
            }
            // What is deleted makes room again.
            list(&small, &mut held, &of(1)).expect("less");
            assert_eq!(held.bytes(), listed_bytes(&of(1)));
        }
    }
}
