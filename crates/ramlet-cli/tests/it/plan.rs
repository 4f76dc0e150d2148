//! `ramlet plan`: what it prints, by structure.

use std::process::Command;

use serde_json::Value;

fn run(args: &str) -> (bool, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_ramlet"))
        .arg("plan")
        .args(args.split_whitespace())
        .env("RAMLET_DATA", "/nonexistent")
        .output()
        .expect("the binary runs");
    let text = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8(text).expect("UTF-8"))
}

#[test]
fn json_has_what_the_table_shows() {
    let (ok, text) = run("--points 1000000 --dim 100 --memory 135MB --json");
    assert!(ok, "{text}");
    let plan: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(plan["memory_bytes"], 135_000_000);
    for figure in [
        "qps",
        "cpu_us",
        "latency_us_p50",
        "latency_us_p99",
        "reads_per_query",
        "build_seconds",
    ] {
        assert!(
            plan[figure].as_f64().is_some_and(|f| f >= 0.0),
            "{figure} in {text}"
        );
    }
    let components = plan["components"].as_array().expect("a list");
    assert!(
        components
            .iter()
            .any(|c| c["component"] == "1-bit codes" && c["place"] == "ram"),
        "{text}"
    );
    assert!(
        plan["steps"].as_array().is_some_and(|steps| steps.len() >= 3),
        "{text}"
    );
}

#[test]
fn the_table_has_a_line_for_each_component_and_step() {
    let (ok, text) = run("--points 1000000 --dim 100 --payload-bytes 200 --memory 135MB");
    assert!(ok, "{text}");
    for component in ["centroids", "1-bit codes", "vectors", "ids", "payload", "in all"] {
        let line = text.lines().find(|line| line.starts_with(component));
        assert!(
            line.is_some_and(|line| line.contains("MB")),
            "{component} in {text}"
        );
    }
    let head = text
        .lines()
        .position(|line| line.starts_with("--memory"))
        .expect("a staircase");
    let steps: Vec<&str> = text
        .lines()
        .skip(head + 1)
        .take_while(|line| !line.is_empty())
        .collect();
    assert!(steps.len() >= 3, "{text}");
    // All columns end where their heads do.
    let head = text.lines().nth(head).expect("the head");
    let end = head.find("queries/s").expect("a column") + "queries/s".len();
    assert!(
        steps
            .iter()
            .all(|line| line.as_bytes()[end - 1].is_ascii_digit() && line.as_bytes()[end] == b' '),
        "{text}"
    );
    assert_eq!(
        steps.iter().filter(|line| line.ends_with('<')).count(),
        1,
        "{text}"
    );
    let (ok, all) = run("--points 1000000 --dim 100");
    assert!(ok && all.contains("everything useful in RAM"), "{all}");
}

#[test]
fn refusals_name_both_numbers() {
    let (ok, text) = run("--points 1000000 --dim 100 --memory 135MB --vectors ram");
    assert!(
        !ok && text.contains("135 MB") && text.matches("MB").count() >= 2,
        "{text}"
    );
    let (ok, text) = run("--points 1000000 --dim 65537 --memory 135MB");
    assert!(!ok && text.contains("65537") && text.contains("65536"), "{text}");
    let (ok, text) = run("--points 1 --dim 2 --machine /nonexistent/machine.json");
    assert!(!ok && text.contains("/nonexistent/machine.json"), "{text}");
}

#[test]
fn numbers_that_make_no_sense_are_told_their_range() {
    for (args, range) in [
        ("--points 10 --dim 3 --recall -1", "0.5 to 0.999"),
        ("--points -5 --dim 3", "from 0 to 68719476736"),
        ("--points 5 --dim -3", "a whole number"),
        ("--points 5 --dim 3 --k -1", "a whole number"),
        ("--points 1 --dim 3 --memory 1KB", "1 kB"),
    ] {
        let (ok, text) = run(args);
        assert!(!ok && text.contains(range), "{args}: {text}");
        assert!(!text.contains("unexpected argument"), "{args}: {text}");
    }
}

#[test]
fn next_to_nothing_is_no_zero() {
    let (ok, text) = run("--points 1 --dim 1 --in-process");
    assert!(ok && text.starts_with("1 point x 1 "), "{text}");
    for figure in ["p50 < 0.01 ms", "> 1000000 queries/s", "< 1 us of CPU"] {
        assert!(text.contains(figure), "{figure}: {text}");
    }
    assert!(!text.contains(" 0.00"), "{text}");
}

#[test]
fn what_is_read_in_sequence_is_told() {
    let (ok, text) = run("--points 1000000 --dim 100 --memory 16MB --ivf");
    let head = text
        .lines()
        .find(|line| line.contains("queries/s with"))
        .unwrap_or_default();
    assert!(
        ok && head.contains("0.0 reads, ") && head.contains("MB read in sequence"),
        "{text}"
    );
}
