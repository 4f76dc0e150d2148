//! Nanoseconds and cycles per vector, hot in cache: `cargo bench -p ramlet-kernels`.
//!
//! Timings are read side by side in one run: tables against each other, blocks against single rows. Cycles are those
//! of the time stamp counter, which runs at the base clock whatever the core's clock is; 0 where there is none.

use std::hint::black_box;
use std::time::Instant;

use ramlet_kernels::{CodeWidth, GROUP, Kernels, Measure};

const ROWS: usize = 32;

fn main() {
    // `cargo test --all-targets` runs this too: then once round, to see that it works.
    let measured = std::env::args().any(|arg| arg == "--bench");
    let rounds = if measured { 60 } else { 1 };
    for measure in [Measure::Dot, Measure::L2sq, Measure::L1] {
        for dims in [100, 128, 768, 1536] {
            for table in Kernels::all_available() {
                rows(table, measure, dims, rounds);
            }
        }
    }
    for table in Kernels::all_available() {
        for dims in [96, 100, 128, 768] {
            codes(table, CodeWidth::Four, dims, rounds);
            codes(table, CodeWidth::Eight, dims, rounds);
            fastscan(table, dims, rounds);
        }
        for (dims, bits) in [(100, 1), (100, 2), (100, 5), (128, 4), (768, 2)] {
            planes(table, dims, bits, rounds);
        }
        centroids(table, if measured { 8192 } else { 64 });
    }
}

/// Vectors of floats, singly and in blocks.
fn rows(table: &Kernels, measure: Measure, dims: usize, rounds: usize) {
    let query: Vec<f32> = (0..dims).map(|i| i as f32 * 0.01 - 1.0).collect();
    let bytes: Vec<u8> = (0..ROWS * dims * 4).map(|i| (i % 60) as u8).collect();
    let mut out = [0.0; ROWS];
    let report = |what: &str, run: &mut dyn FnMut()| {
        report(table, &format!("{measure:?} {what}"), dims, ROWS, rounds, run)
    };
    report("f32", &mut || {
        for row in bytes.chunks_exact(dims * 4) {
            black_box(table.f32_row(measure, black_box(&query), row));
        }
    });
    report("f32, 32 rows", &mut || {
        table.f32_rows(measure, black_box(&query), &bytes, dims * 4, &mut out);
        black_box(out);
    });
    report("f16", &mut || {
        for row in bytes.chunks_exact(dims * 2).take(ROWS) {
            black_box(table.f16_row(measure, black_box(&query), row));
        }
    });
    report("f16, 32 rows", &mut || {
        table.f16_rows(measure, black_box(&query), &bytes, dims * 2, &mut out);
        black_box(out);
    });
    report("u8", &mut || {
        for row in bytes.chunks_exact(dims).take(ROWS) {
            black_box(table.u8_row(measure, black_box(&bytes[..dims]), row));
        }
    });
}

/// Codes with the 14 bytes behind them that an index has.
fn codes(table: &Kernels, width: CodeWidth, dims: usize, rounds: usize) {
    let stride = width.code_bytes(dims) + 14;
    let query = bytes_as_query(width.query_len(width.code_bytes(dims)));
    let bytes = bytes(ROWS * stride);
    let mut out = [0; ROWS];
    report(
        table,
        &format!("codes of {width:?} bits"),
        dims,
        ROWS,
        rounds,
        &mut || {
            table.dot_codes(width, black_box(&query), &bytes, stride, &mut out);
            black_box(out);
        },
    );
}

/// All centroids of an index, more than the nearest cache holds.
fn centroids(table: &Kernels, count: usize) {
    let dims = 100;
    let (query, bytes) = (bytes_as_query(dims), bytes(count * dims));
    let mut out = vec![0; count];
    report(
        table,
        &format!("{count} int8 centroids"),
        dims,
        count,
        4,
        &mut || {
            table.dot_codes(CodeWidth::Eight, black_box(&query), &bytes, dims, &mut out);
            black_box(&out);
        },
    );
}

/// Groups of one-bit codes, with the factors and row numbers behind them that an index has.
fn fastscan(table: &Kernels, dims: usize, rounds: usize) {
    let columns = dims.div_ceil(4);
    let stride = columns * 16 + GROUP * 7;
    let (lut, groups) = (bytes(columns * 16), bytes(8 * stride));
    let mut out = [0; 8 * GROUP];
    report(table, "fastscan", dims, 8 * GROUP, rounds, &mut || {
        table.fastscan(black_box(&lut), &groups, stride, columns, &mut out);
        black_box(out);
    });
}

/// Bit planes, singly and together.
fn planes(table: &Kernels, dims: usize, planes: u32, rounds: usize) {
    let mut query = bytes_as_query(dims);
    query.resize(dims.next_multiple_of(64), 0);
    let row_bytes = dims.div_ceil(8) * planes as usize;
    let bytes = bytes(ROWS * row_bytes);
    let rows: Vec<&[u8]> = bytes.chunks_exact(row_bytes).collect();
    let mut out = [0; ROWS];
    report(
        table,
        &format!("{planes} planes"),
        dims,
        ROWS,
        rounds,
        &mut || {
            for row in &rows {
                black_box(table.planes_dot(black_box(&query), dims, planes, row));
            }
        },
    );
    report(
        table,
        &format!("{planes} planes, 32 rows"),
        dims,
        ROWS,
        rounds,
        &mut || {
            table.planes_dot_many(black_box(&query), dims, planes, &rows, &mut out);
            black_box(out);
        },
    );
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn bytes_as_query(len: usize) -> Vec<i8> {
    (0..len).map(|i| (i % 255) as u8 as i8).collect()
}

/// Best of forty, per vector.
fn report(table: &Kernels, what: &str, dims: usize, vectors: usize, rounds: usize, run: &mut dyn FnMut()) {
    run();
    let (mut ns, mut cycles) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..40 {
        let (start, from) = (Instant::now(), counter());
        for _ in 0..rounds {
            run();
        }
        cycles = cycles.min((counter() - from) as f64 / (rounds * vectors) as f64);
        ns = ns.min(start.elapsed().as_nanos() as f64 / (rounds * vectors) as f64);
    }
    println!(
        "{:>7} {dims:>5} dims {what:<22} {ns:>8.2} ns {cycles:>8.2} cycles",
        table.name()
    );
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: every x86_64 processor has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}
