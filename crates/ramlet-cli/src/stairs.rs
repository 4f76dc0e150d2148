//! The staircase of memory for a server's data, on the terminal.

use serde_json::Value;

use crate::import::api::Api;

/// The staircase of `GET /plan`, at most 80 columns; `None`: the server tells none, or there is nothing to climb.
pub fn of_server(api: &Api) -> Option<String> {
    let plan = api.get("/plan").ok()??;
    told(&plan)
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
    for step in steps {
        let figure = |name: &str| step[name].as_f64().unwrap_or(0.0);
        out.push_str(&format!(
            "{:>10}{:>14.0}{:>14.1}{}\n",
            format!("{:.0}MB", (figure("memory_bytes_min") / 1e6).ceil()),
            figure("queries_per_second"),
            figure("reads_per_query"),
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
        assert_eq!(super::told(&json!({"steps": [step(1, 1, true)]})), None);
    }
}
