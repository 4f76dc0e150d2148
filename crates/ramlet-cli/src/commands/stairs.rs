//! The staircase of memory for a server's data, on the terminal.

use serde_json::Value;

use crate::import::api::Api;

/// The staircase of `GET /plan`, at most 80 columns; `None`: the server tells none, or there is nothing to climb.
pub fn of_server(api: &Api) -> Option<String> {
    let plan = api.get("/plan").ok()??;
    told(&plan)
}

/// Of steps whose memory is told alike, the last: so much memory has all of them. Those that are `kept` stay beside it.
pub fn told_apart<'s, S: 's>(
    steps: impl Iterator<Item = &'s S>,
    memory: impl Fn(&S) -> String,
    kept: impl Fn(&S) -> bool,
) -> impl Iterator<Item = &'s S> {
    let mut steps = steps.peekable();
    std::iter::from_fn(move || {
        loop {
            let step = steps.next()?;
            let is_last = steps.peek().is_none_or(|next| memory(next) != memory(step));
            if is_last || kept(step) {
                return Some(step);
            }
        }
    })
}

fn told(plan: &Value) -> Option<String> {
    let steps = plan["steps"].as_array().filter(|steps| steps.len() > 1)?;
    let disk = plan["disk_bytes"].as_f64().unwrap_or(0.0);
    let mut out = format!(
        "what more RAM would bring, all collections together ({:.0} MB on disk):\n{:>10}{:>14}{:>14}\n",
        disk / 1e6,
        "--memory",
        "queries/s",
        "reads each"
    );
    let memory = |step: &Value| {
        let bytes = step["memory_bytes_min"].as_f64().unwrap_or(0.0);
        format!("{:.0}MB", (bytes / 1e6).ceil())
    };
    for step in told_apart(steps.iter(), memory, |step| step["here"] == true) {
        let figure = |name: &str| step[name].as_f64().unwrap_or(0.0);
        // As in `ramlet plan`: where rows are read in sequence, their bytes.
        let reads = match figure("scan_bytes_per_query") {
            0.0 => format!("{:.1}", figure("reads_per_query")),
            bytes => format!("{:.1}MB", bytes / 1e6),
        };
        out.push_str(&format!(
            "{:>10}{:>14.0}{reads:>14}{}\n",
            memory(step),
            figure("queries_per_second"),
            if step["here"] == true { "  < here" } else { "" }
        ));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_a_step() {
        let step = |memory: u64, speed: u64, here: bool| json!({"memory_bytes_min": memory, "queries_per_second": speed, "reads_per_query": 3.25, "here": here});
        let plan = json!({"disk_bytes": 9_400_000, "steps": [step(16_000_001, 120, true), step(40_000_000, 4_000, false)]});
        let told = told(&plan).expect("two steps");
        assert!(told.contains("(9 MB on disk)"), "{told}");
        assert!(
            told.contains("      17MB           120           3.2  < here\n"),
            "{told}"
        );
        assert!(told.lines().all(|line| line.len() <= 80), "{told}");
        let mut whole = step(16_000_001, 120, true);
        (whole["reads_per_query"], whole["scan_bytes_per_query"]) = (json!(0.0), json!(1_900_000));
        let told = super::told(&json!({"disk_bytes": 1, "steps": [whole, step(40_000_000, 4_000, false)]}));
        let told = told.expect("two steps");
        assert!(
            told.contains("      17MB           120         1.9MB  < here\n"),
            "{told}"
        );
        assert_eq!(super::told(&json!({"steps": [step(1, 1, true)]})), None);
        let alike = json!({"disk_bytes": 1, "steps": [step(16_100_000, 60, false), step(16_800_000, 70, false), step(40_000_000, 4_000, true)]});
        let told = super::told(&alike).expect("three steps");
        assert!(
            !told.contains("   60 ") && told.contains("17MB            70"),
            "{told}"
        );
    }
}
