//! The rescoring grid, tiny: every way reads the same rows and finds the same scores.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use ramlet_bench::io::{Disk, IoOptions, Rows, Way, io_report, run};

/// Says past the harness's capture that this machine can't run a test; `cargo xtask test` counts such lines.
fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

fn options() -> IoOptions {
    IoOptions {
        directory: Path::new(env!("CARGO_TARGET_TMPDIR")).to_path_buf(),
        rows: 400,
        // A row of 2,800 bytes lies across pages in every possible way.
        dims: 700,
        queries: 12,
        k: 7,
        oversampling: vec![1, 3],
        parallel: vec![3],
        latency: Duration::from_micros(50),
        iops_max: 1_000_000,
        ..IoOptions::default()
    }
}

#[test]
fn every_way_scores_the_same() {
    let options = options();
    let rows = match Rows::create(&options) {
        Ok(rows) => rows,
        Err(why) => {
            assert!(why.contains("don't leave memory"), "{why}");
            return skipped("every_way_scores_the_same", &why);
        }
    };
    let grid = run(&options, &mut |_| {}).expect("a grid");
    for &oversampling in &options.oversampling {
        let mut sums: Vec<f64> = Vec::new();
        for measured in &grid.cells {
            if measured.cell.oversampling != oversampling {
                continue;
            }
            let figures = measured.cell.measure(&options, &rows, 9).expect("figures");
            let most = (options.queries as usize * options.k * oversampling) as u64;
            match measured.cell.way {
                Way::UringDirect => assert_eq!(figures.reads, most),
                Way::Mmap | Way::MmapAhead => assert!(figures.reads <= 2 * most),
                Way::Pread | Way::Uring => assert!((1..=most).contains(&figures.reads)),
            }
            sums.push(figures.score_sum);
        }
        assert!(sums.len() >= 6, "mmap and pread work everywhere");
        let first = sums[0];
        assert!(
            first != 0.0 && (oversampling == 1 || first > 0.0),
            "the best of more are above the mean"
        );
        let close = |sum: &f64| (sum / first - 1.0).abs() < 1e-9;
        assert!(sums.iter().all(close), "{sums:?}");
    }
}

#[test]
fn the_grid_is_whole_and_shown() {
    let options = IoOptions {
        ways: vec![Way::Mmap, Way::Pread],
        repeats: 3,
        ..options()
    };
    let grid = match run(&options, &mut |_| {}) {
        Ok(grid) => grid,
        Err(why) => {
            assert!(why.contains("don't leave memory"), "{why}");
            return skipped("the_grid_is_whole_and_shown", &why);
        }
    };
    assert_eq!(grid.cells.len(), 2 * 2 * 2);
    assert!(grid.cells.iter().all(|measured| measured.runs.len() == 3));
    for disk in Disk::ALL {
        let text = io_report::table(&grid, disk).to_string();
        assert_eq!(text.lines().count(), 2 + 4, "{text}");
        assert!(!io_report::disk_line(&grid, disk).is_empty());
    }
    assert_eq!(io_report::plots(&grid).len(), 4);
    assert!(
        io_report::plots(&grid)
            .iter()
            .all(|(_, plot)| plot.curves.len() == 2)
    );
    let json = serde_json::to_value(&grid).expect("figures");
    assert_eq!(json["cells"][0]["backend"], "mmap");
    assert_eq!(json["options"]["latency_us"], 50);
    assert!(json["options"].get("directory").is_none());
}

#[test]
fn too_much_for_the_disk_is_a_sentence() {
    let options = IoOptions {
        rows: 1 << 50,
        ..options()
    };
    let why = run(&options, &mut |_| {}).expect_err("no disk is as large");
    assert!(why.contains("don't fit") && !why.contains('\n'), "{why}");
}
