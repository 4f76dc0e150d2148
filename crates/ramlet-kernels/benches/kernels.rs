//! Nanoseconds and cycles per vector, hot in cache: `cargo bench -p ramlet-kernels`.
//!
//! Timings are read side by side in one run: tables against each other, blocks against single rows. Cycles are those
//! of the time stamp counter, which runs at the base clock whatever the core's clock is; 0 where there is none.

use std::hint::black_box;
use std::time::Instant;

use ramlet_kernels::{
    Bounds, CodeWidth, FACTOR_BYTES, FAST_SCAN_GROUPS, FastScan, FastScanned, GROUP, INTERLEAVED_CODES,
    InterleavedCodes, InterleavedLimit, InterleavedQuery, Kernels, Measure, Nearest, Nearness, OwnCosts,
    TRELLIS_STATES, TrellisCosts, interleaved_bytes,
};

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
            fast_scan_sums(table, dims, rounds);
            fast_scan(table, dims, rounds);
        }
        for (dims, bits) in [(100, 1), (100, 2), (100, 5), (128, 4), (768, 2)] {
            planes(table, dims, bits, rounds);
        }
        centroids(table, if measured { 8192 } else { 64 });
        several(table, 91, rounds);
        chain(table, rounds);
        for dims in [100, 768] {
            grid(table, dims, rounds);
            enter(table, dims, rounds);
            convert(table, dims, rounds);
        }
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
    let narrow: Vec<i8> = query.iter().map(|entry| entry / 2).collect();
    report(
        table,
        &format!("{count} int8 centroids, -64 to 64"),
        dims,
        count,
        4,
        &mut || {
            table.dot_codes(CodeWidth::Eight, black_box(&narrow), &bytes, dims, &mut out);
            black_box(&out);
        },
    );
    let mut interleaved = vec![0; count];
    let interleaved_blocks = self::bytes(count / INTERLEAVED_CODES * interleaved_bytes(dims));
    report(
        table,
        &format!("{count} interleaved"),
        dims,
        count,
        4,
        &mut || {
            table.dot_interleaved(black_box(&query), &interleaved_blocks, &mut interleaved);
            black_box(&interleaved);
        },
    );
    let (terms, heads) = (Nearness::default(), vec![[0x3c; 8]; count]);
    let mut distances = vec![0; count];
    report(table, &format!("{count} distances"), 0, count, 4, &mut || {
        table.nearness(black_box(&terms), &out, &heads, 0, &mut distances);
        black_box(&distances);
    });
    let distances: Vec<u64> = (0..count as u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    let mut places = Vec::new();
    report(
        table,
        &format!("{count} distances, a thirtieth kept"),
        0,
        count,
        4,
        &mut || {
            table.places_at_most(black_box(&distances), u64::MAX / 30, &mut places);
            black_box(&places);
        },
    );
}

/// Sixteen queries against the centroids of a cell, and against a block of rows: per pair.
fn several(table: &Kernels, count: usize, rounds: usize) {
    const QUERIES: usize = 16;
    let dims = 100;
    let (levels, codes) = (
        bytes_as_query(QUERIES * dims),
        bytes(count.div_ceil(INTERLEAVED_CODES) * interleaved_bytes(dims)),
    );
    let (scales, bases) = (vec![0.01; count], vec![1.0; count]);
    let query = |levels| InterleavedQuery {
        levels,
        per_product: -0.02,
        less: 100,
    };
    let queries: Vec<InterleavedQuery<'_>> = levels.chunks_exact(dims).map(query).collect();
    let interleaved_blocks = InterleavedCodes {
        codes: &codes,
        scales: &scales,
        bases: &bases,
    };
    let far = Nearest {
        score: f32::INFINITY,
        code: 0,
    };
    report(
        table,
        "nearest of 91, x16",
        dims,
        QUERIES * count,
        rounds,
        &mut || {
            let mut nearest = [far; QUERIES];
            table.nearest_interleaved(black_box(&queries), &interleaved_blocks, 0..count, &mut nearest);
            black_box(nearest);
        },
    );
    let limits = [InterleavedLimit {
        base: 0.0,
        most: -1e9,
    }; QUERIES];
    let mut near = vec![0; QUERIES * count.div_ceil(INTERLEAVED_CODES)];
    report(
        table,
        "within of 91, x16",
        dims,
        QUERIES * count,
        rounds,
        &mut || {
            table.within_interleaved(black_box(&queries), &limits, &codes, &scales, &mut near);
            black_box(&near);
        },
    );
}

/// Sub-quantizers of a product code whose words reach: 48 of them.
fn chain(table: &Kernels, rounds: usize) {
    const SUBQUANTIZERS: usize = 48;
    let cost = |i: usize| (i * 7 % 31) as f32;
    let costs = |at: usize| -> TrellisCosts { std::array::from_fn(|i| cost(at * 3 + i)) };
    let own: Vec<TrellisCosts> = (0..SUBQUANTIZERS).map(costs).collect();
    let pairs: Vec<[TrellisCosts; TRELLIS_STATES]> = (0..SUBQUANTIZERS)
        .map(|at| std::array::from_fn(|i| costs(at * 5 + i)))
        .collect();
    let costs = OwnCosts {
        first: &own,
        second: Some((0.5, &own)),
    };
    let (mut before, mut codes) = (vec![[0; TRELLIS_STATES]; SUBQUANTIZERS], vec![0; SUBQUANTIZERS]);
    report(table, "cheapest chain of 48", 100, 1, rounds * 4, &mut || {
        black_box(table.cheapest_chain(black_box(&costs), &pairs, &mut before, &mut codes));
    });
}

/// A vector's codes, as they are made.
fn grid(table: &Kernels, dims: usize, rounds: usize) {
    let vector: Vec<f32> = (0..dims).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.01).collect();
    let (mut levels, mut planes) = (vec![0; dims], vec![0; dims.div_ceil(8) * 5]);
    for count in [3, 5] {
        report(
            table,
            &format!("levels of {count} planes"),
            dims,
            1,
            rounds * 4,
            &mut || {
                black_box(table.levels(black_box(&vector), count, &mut levels));
            },
        );
    }
    report(table, "5 planes of levels", dims, 1, rounds * 30, &mut || {
        table.planes(black_box(&levels), 5, &mut planes);
        black_box(&planes);
    });
    report(table, "to bytes", dims, 1, rounds * 30, &mut || {
        black_box(table.to_bytes(black_box(&vector), &mut levels));
    });
    report(table, "product in f64", dims, 1, rounds * 30, &mut || {
        black_box(table.dot_f64(black_box(&vector), &vector));
    });
}

/// What each cluster that is visited costs before its rows are scanned.
fn enter(table: &Kernels, dims: usize, rounds: usize) {
    let query: Vec<f32> = (0..dims).map(|i| (i % 17) as f32 * 0.1 - 0.8).collect();
    let (levels, mut out) = (bytes(dims), vec![0.0; dims]);
    let mut rounded = vec![0; dims.next_multiple_of(64)];
    let mut lut = vec![0; dims.div_ceil(4) * 16];
    report(table, "difference", dims, 1, rounds * 30, &mut || {
        black_box(table.difference(black_box(&query), 0.01, &levels, &mut out));
    });
    report(table, "round", dims, 1, rounds * 30, &mut || {
        black_box(table.round(black_box(&query), 60.0, &mut rounded[..dims]));
    });
    report(table, "tabulate", dims, 1, rounds * 30, &mut || {
        table.tabulate(black_box(&rounded), &mut lut);
        black_box(&lut);
    });
}

/// To half precision and back.
fn convert(table: &Kernels, dims: usize, rounds: usize) {
    let mut floats: Vec<f32> = (0..dims).map(|i| i as f32 * 0.01).collect();
    let mut halves = vec![0; dims];
    report(table, "f32 to f16", dims, 1, rounds * 30, &mut || {
        table.f32_to_f16(black_box(&floats), &mut halves);
        black_box(&halves);
    });
    report(table, "f16 to f32", dims, 1, rounds * 30, &mut || {
        table.f16_to_f32(black_box(&halves), &mut floats);
        black_box(&floats);
    });
}

/// Groups of one-bit codes, with the factors and row numbers behind them that an index has.
fn fast_scan_sums(table: &Kernels, dims: usize, rounds: usize) {
    let columns = dims.div_ceil(4);
    let stride = columns * 16 + GROUP * 7;
    let (lut, groups) = (bytes(columns * 16), bytes(8 * stride));
    let mut out = [0; 8 * GROUP];
    report(table, "fast_scan_sums", dims, 8 * GROUP, rounds, &mut || {
        table.fast_scan_sums(black_box(&lut), &groups, stride, columns, &mut out);
        black_box(out);
    });
}

/// Groups of which hardly anything is kept.
fn fast_scan(table: &Kernels, dims: usize, rounds: usize) {
    let columns = dims.div_ceil(4);
    let stride = columns * 16 + GROUP * 7;
    let (lut, groups) = (bytes(columns * 16), bytes(FAST_SCAN_GROUPS * stride));
    let fast_scan = FastScan {
        lut: &lut,
        stride,
        bounds: Bounds {
            base: 1e9,
            ..Bounds::default()
        },
        limit: 0.0,
    };
    let mut out = FastScanned::default();
    report(
        table,
        "fast_scan",
        dims,
        FAST_SCAN_GROUPS * GROUP,
        rounds,
        &mut || {
            table.fast_scan(black_box(&fast_scan), &groups, &[], &mut out);
            black_box(&out);
        },
    );
    fast_scan_some(table, dims, rounds);
}

/// Groups of which one vector in 25 is kept, which nobody can foresee.
fn fast_scan_some(table: &Kernels, dims: usize, rounds: usize) {
    let columns = dims.div_ceil(4);
    let stride = columns * 16 + GROUP * 7;
    let lut = bytes(columns * 16);
    let mut groups: Vec<u8> = (0..64 * FAST_SCAN_GROUPS * stride as u32 as usize)
        .map(|i| ((i as u32).wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    for group in groups.chunks_exact_mut(stride) {
        for half in group[columns * 16..][..FACTOR_BYTES].as_chunks_mut::<2>().0 {
            *half = 0x3c00u16.to_le_bytes();
        }
    }
    let mut fast_scan = FastScan {
        lut: &lut,
        stride,
        bounds: Bounds {
            along: -1.0,
            ..Bounds::default()
        },
        limit: f32::INFINITY,
    };
    let mut out = FastScanned::default();
    let mut distances = Vec::new();
    for groups in groups.chunks_exact(FAST_SCAN_GROUPS * stride) {
        table.fast_scan(&fast_scan, groups, &[], &mut out);
        distances.extend(out.iter().map(|kept| kept.distance));
    }
    distances.sort_by(f32::total_cmp);
    fast_scan.limit = distances[distances.len() / 25];
    let sets = groups.len() / stride / FAST_SCAN_GROUPS;
    let mut state = 1u32;
    report(
        table,
        "fast_scan, some kept",
        dims,
        groups.len() / stride * GROUP,
        rounds,
        &mut || {
            for _ in 0..sets {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let set = (state >> 16) as usize % sets;
                table.fast_scan(
                    black_box(&fast_scan),
                    &groups[set * FAST_SCAN_GROUPS * stride..][..FAST_SCAN_GROUPS * stride],
                    &[],
                    &mut out,
                );
                black_box(&out);
            }
        },
    );
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
