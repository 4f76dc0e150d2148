//! The budget as `ramlet serve` prints it at its start: what each part of the memory is for.

use std::fmt::Write as _;

use ramlet_memory::{BudgetTable, RowKind};

/// Aligned lines, in MB of 10^6 bytes.
pub fn budget_lines(budget: &BudgetTable) -> String {
    let mut out = String::new();
    let mut line = |name: &str, bytes: u64, what: &str| {
        let _ = writeln!(out, "  {name:<20} {:>10.2} MB  {what}", bytes as f64 / 1e6);
    };
    for row in budget.rows() {
        line(row.name, row.bytes, meaning(row.kind));
    }
    line("total", budget.memory_bytes, "");
    let most = "the most, while nobody else needs it; given back when somebody does";
    line("cached data, most", budget.pinned_max(), most);
    out.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn meaning(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Reserve => "left to the kernel and to the program itself",
        RowKind::Arena => "taken at the start",
        RowKind::Reclaimable => "taken when it is needed; caches have it until then",
        RowKind::Elastic => "taken and given back as it is needed",
        RowKind::Headroom => "kept free",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramlet_memory::BudgetRequest;

    #[test]
    fn every_row_says_what_it_is_for() {
        let budget = BudgetTable::plan(BudgetRequest::new(64_000_000, 2)).expect("a budget");
        let lines = budget_lines(&budget);
        assert_eq!(lines.lines().count(), budget.rows().len() + 2, "{lines}");
        for row in budget.rows() {
            let line = lines.lines().find(|line| line.trim_start().starts_with(row.name));
            assert!(
                line.is_some_and(|line| line.ends_with(meaning(row.kind))),
                "{lines}"
            );
        }
        assert!(lines.contains("64.00 MB"), "{lines}");
    }
}
