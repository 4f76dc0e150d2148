//! Nanoseconds per vector, hot in cache: `cargo bench -p ramlet-kernels`.
//!
//! Timings are read side by side in one run: tables against each other, blocks against single rows.

use std::hint::black_box;
use std::time::Instant;

use ramlet_kernels::{CodeWidth, Kernels, Measure};

const ROWS: usize = 32;

fn main() {
    // `cargo test --all-targets` runs this too: then once round, to see that it works.
    let rounds = if std::env::args().any(|arg| arg == "--bench") {
        400
    } else {
        1
    };
    println!(
        "{:>7} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "table", "dims", "f32", "f32 x32", "f16", "f16 x32", "u8"
    );
    for measure in [Measure::Dot, Measure::L2sq, Measure::L1] {
        println!("{measure:?}, ns per vector");
        for dims in [100, 128, 784, 1536] {
            for table in Kernels::all_available() {
                row(table, measure, dims, rounds);
            }
        }
    }
    println!("codes of 4 and 8 bits, ns per vector");
    for dims in [100, 128, 784, 1536] {
        for table in Kernels::all_available() {
            let [four, eight] =
                [CodeWidth::Four, CodeWidth::Eight].map(|width| codes(table, width, dims, rounds));
            println!("{:>7} {dims:>5} {four:>9.1} {eight:>9.1}", table.name());
        }
    }
}

/// Codes with the 14 bytes behind them that an index has.
fn codes(table: &Kernels, width: CodeWidth, dims: usize, rounds: usize) -> f64 {
    let stride = width.code_bytes(dims) + 14;
    let query: Vec<i8> = (0..width.query_len(width.code_bytes(dims)))
        .map(|i| (i % 255) as u8 as i8)
        .collect();
    let bytes: Vec<u8> = (0..ROWS * stride).map(|i| (i % 251) as u8).collect();
    let mut out = [0; ROWS];
    ns(rounds, || {
        table.dot_codes(width, black_box(&query), &bytes, stride, &mut out);
        black_box(out);
    })
}

fn row(table: &Kernels, measure: Measure, dims: usize, rounds: usize) {
    let query: Vec<f32> = (0..dims).map(|i| i as f32 * 0.01 - 1.0).collect();
    let bytes: Vec<u8> = (0..ROWS * dims * 4).map(|i| (i % 60) as u8).collect();
    let mut out = [0.0; ROWS];
    let f32_one = ns(rounds, || {
        for row in bytes.chunks_exact(dims * 4) {
            black_box(table.f32_row(measure, black_box(&query), row));
        }
    });
    let f32_block = ns(rounds, || {
        table.f32_rows(measure, black_box(&query), &bytes, dims * 4, &mut out);
        black_box(out);
    });
    let f16_one = ns(rounds, || {
        for row in bytes.chunks_exact(dims * 2).take(ROWS) {
            black_box(table.f16_row(measure, black_box(&query), row));
        }
    });
    let f16_block = ns(rounds, || {
        table.f16_rows(measure, black_box(&query), &bytes, dims * 2, &mut out);
        black_box(out);
    });
    let u8_one = ns(rounds, || {
        for row in bytes.chunks_exact(dims).take(ROWS) {
            black_box(table.u8_row(measure, black_box(&bytes[..dims]), row));
        }
    });
    println!(
        "{:>7} {dims:>5} {f32_one:>9.1} {f32_block:>9.1} {f16_one:>9.1} {f16_block:>9.1} {u8_one:>9.1}",
        table.name()
    );
}

/// Best of five, per vector.
fn ns(rounds: usize, mut run: impl FnMut()) -> f64 {
    run();
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..rounds {
            run();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (rounds * ROWS) as f64);
    }
    best
}
