//! How many collections a budget has room for, and which one would have for more.

use ramlet_memory::{BudgetRequest, BudgetTable};

use crate::error::{Error, ErrorKind, Result};
use crate::limits::COLLECTION_BYTES;
use crate::write::memtable::MemtableWriter;

/// Most that collections may hold, apart from their data: of what holds data for speed a quarter may be collections instead.
pub fn collections_bytes_max(budget: &BudgetTable) -> u64 {
    (budget.elastic / 2).max(budget.pinned / 4)
}

/// Refuses to open more collections than there is room for, with a budget that would do.
pub fn check_collections(budget: &BudgetTable, collections: usize) -> Result<()> {
    match fit(budget) {
        fit if collections <= fit => Ok(()),
        _ => Err(too_many(budget, collections)),
    }
}

/// Refuses one collection more than there is room for, beside so many. Waiting doesn't help: they go only when somebody deletes them.
pub fn check_another(budget: &BudgetTable, others: usize) -> Result<()> {
    let fit = fit(budget);
    if others < fit {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::TooLarge,
        too_many(budget, others + 1).to_string(),
    ))
}

/// Collections that a budget has room for, apart from their data. Half of the memory of memtables stays free for points.
fn fit(budget: &BudgetTable) -> usize {
    let (by_bytes, by_memtables) = (
        collections_bytes_max(budget) / COLLECTION_BYTES,
        budget.write_buffers / 2 / MemtableWriter::EMPTY_PAIR_BYTES,
    );
    by_bytes.min(by_memtables) as usize
}

fn too_many(budget: &BudgetTable, collections: usize) -> Error {
    let what = format!(
        "{collections} collections are more than the {} that this budget has room for",
        fit(budget)
    );
    let what = match least_memory(budget, collections as u64) {
        Some(memory) => format!("{what}; one of {} MB has room for all", memory / STEP),
        None => what,
    };
    Error::new(ErrorKind::OverBudget, what)
}

/// Budgets are named in whole MB.
const STEP: u64 = 1_000_000;

/// A budget with room for so many: with as many threads as this one has, or as it would get by itself.
fn least_memory(budget: &BudgetTable, collections: u64) -> Option<u64> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let has_room = |memory: &u64| {
        let threads = BudgetRequest::search_threads_for(*memory, cores).max(budget.search_threads);
        let request = BudgetRequest {
            slots_outside: budget.slots_outside,
            ..BudgetRequest::new(*memory, threads)
        };
        BudgetTable::plan(request).is_ok_and(|table| fit(&table) as u64 >= collections)
    };
    let beyond = budget.memory_bytes / STEP + 1;
    // A collection takes less than this even where it gets the smallest share of a budget.
    let most = beyond + collections;
    (beyond..=most).map(|n| n * STEP).find(has_room)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(memory: u64) -> BudgetTable {
        BudgetTable::plan(BudgetRequest::new(memory, 1)).expect("enough")
    }

    #[test]
    fn the_budget_that_is_named_has_room() {
        for memory in [16 * STEP, 32 * STEP, 64 * STEP, 300 * STEP] {
            let small = table(memory);
            let fit = fit(&small);
            assert!(check_collections(&small, fit).is_ok());
            assert!(check_another(&small, fit - 1).is_ok());
            let another = check_another(&small, fit).expect_err("one too many");
            assert_eq!(another.kind(), ErrorKind::TooLarge, "waiting doesn't help");
            assert!(
                another.to_string().contains(&format!("the {fit} that")),
                "{another}"
            );
            for collections in [fit + 1, 3 * fit, 40 * fit] {
                let error = check_collections(&small, collections).expect_err("too many");
                assert_eq!(error.kind(), ErrorKind::OverBudget);
                let said = error.to_string();
                let named = said
                    .rsplit_once("one of ")
                    .and_then(|(_, rest)| rest.split_once(" MB"));
                let named: u64 = named.expect(&said).0.parse().expect("a number");
                check_collections(&table(named * STEP), collections).expect(&said);
                assert!(named * STEP > memory);
            }
        }
    }
}
