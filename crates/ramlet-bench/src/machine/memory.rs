//! Caches, RAM and disk as levels of one memory: how long one read takes, how many bytes a second come.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use ramlet_io::measure::{Kind, Method, Transfer};
use ramlet_io::system;
use ramlet_testdata::Random;

use super::row::{Also, Planned, Unit};
use super::suite::{Options, Report, Setup, Suite, planned};

pub const MEMORY: Suite = Suite {
    name: "memory",
    seconds: (5, 20),
    plan,
    run,
};

const LEVELS: [&str; 6] = ["L1", "L2", "L3", "RAM", "SSD", "HDD"];
/// A disk that takes longer for a read has to turn something.
const SSD_US_MAX: f64 = 2_000.0;

fn latency(level: &str) -> String {
    format!("{level} latency")
}

fn throughput(level: &str) -> String {
    format!("{level} throughput")
}

fn plan(_: &Options) -> Vec<Planned> {
    let rows = LEVELS.into_iter().flat_map(|level| {
        [
            planned(latency(level), Unit::Cycles),
            planned(throughput(level), Unit::Gigabytes),
        ]
    });
    rows.collect()
}

fn run(setup: &Setup, report: &mut Report<'_>) -> Result<(), String> {
    let time = setup.pick(Duration::from_millis(150), Duration::from_millis(800));
    report.begin("clock");
    let cycles_per_ns = cycles_per_ns();
    for level in caches(setup) {
        let Level {
            name,
            bytes,
            working,
            share,
            ..
        } = level;
        if report.begin(&latency(name)) {
            let ns = chase(working, time);
            let also = [(ns, "ns"), (bytes as f64 / 1024.0, "KB")];
            report.found(&latency(name), ns * cycles_per_ns, &also);
        }
        if report.begin(&throughput(name)) {
            let rate = sums(share, setup.cores, time);
            report.found(&throughput(name), rate, &[(setup.cores as f64, "threads")]);
        }
    }
    disk(setup, report, cycles_per_ns, time)
}

/// A level of memory, and what of it is used to measure it.
struct Level {
    name: &'static str,
    bytes: usize,
    /// Of the chase.
    working: usize,
    /// Of each thread that sums.
    share: usize,
}

fn caches(setup: &Setup) -> [Level; 4] {
    let size = |level, default| cache_bytes(level).unwrap_or(default);
    let (one, two, three) = (size(1, 32 << 10), size(2, 1 << 20), size(3, 8 << 20));
    // Far beyond the caches, and no more than what is lying idle.
    let ram = system::machine().ram_bytes as usize;
    let most = setup.pick(128 << 20, 512 << 20).min(ram / 16).max(16 << 20);
    let beyond = (three * 8).clamp(most / 4, most);
    let level = |name, bytes, working, share| Level {
        name,
        bytes,
        working,
        share,
    };
    [
        level("L1", one, one / 2, one / 2),
        // Half of it, but well beyond the one before.
        level("L2", two, two / 2, two / 2),
        level(
            "L3",
            three,
            (three / 2).max(two * 2),
            (three / 2 / setup.cores).max(two * 2),
        ),
        level("RAM", ram, beyond, beyond / setup.cores.max(2)),
    ]
}

/// Bytes of the first processor's data cache of a level, as the kernel says.
fn cache_bytes(level: u32) -> Option<usize> {
    let indexes = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    indexes.flatten().find_map(|index| {
        let field = |name| fs::read_to_string(index.path().join(name)).ok();
        let is_it = field("level")?.trim().parse() == Ok(level) && field("type")?.trim() != "Instruction";
        is_it.then(|| parse_size(field("size")?.trim())).flatten()
    })
}

/// `32K`, `32768K`, `1M`.
fn parse_size(text: &str) -> Option<usize> {
    let unit = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let number: usize = text[..text.len() - unit.len()].parse().ok()?;
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.checked_shl(shift)
}

/// Of the clock as it is now: three steps of shift and xor, each waiting for the one before, take a cycle apiece.
fn cycles_per_ns() -> f64 {
    const ROUNDS: u32 = 1_000_000;
    let mut least = f64::INFINITY;
    let mut state = black_box(1u64);
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        state = black_box(state);
        least = least.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS));
    }
    6.0 / least
}

/// A cache line that says which is next.
#[repr(align(64))]
#[derive(Clone, Default)]
struct Line {
    next: u32,
}

/// Nanoseconds of a read that depends on the one before, anywhere in so many bytes: lines in one circle without order.
fn chase(bytes: usize, time: Duration) -> f64 {
    // A fraction of a millisecond: shorter than what a scheduler gives to others in between.
    const STEPS: u32 = 2_000;
    let count = (bytes / size_of::<Line>()).max(2);
    let mut lines: Vec<Line> = (0..count as u32).map(|next| Line { next }).collect();
    // Sattolo's shuffle leaves one circle.
    let mut random = Random::new(1, 0);
    for at in (1..count).rev() {
        let other = random.below(at as u64) as usize;
        let next = lines[at].next;
        lines[at].next = std::mem::replace(&mut lines[other].next, next);
    }
    let walk = |mut at: u32, steps: u32| {
        for _ in 0..steps {
            at = lines[at as usize].next;
        }
        black_box(at)
    };
    // Once around, so that what fits a cache is in it.
    let mut at = walk(0, count.min(1 << 20) as u32);
    let mut parts = Vec::new();
    let start = Instant::now();
    while start.elapsed() < time {
        let before = Instant::now();
        at = walk(at, STEPS);
        parts.push(before.elapsed().as_secs_f64() * 1e9 / f64::from(STEPS));
    }
    middle(&mut parts)
}

/// The best is lucky where a cache is shared, and the mean counts what others do on the machine.
fn middle(parts: &mut [f64]) -> f64 {
    parts.sort_by(f64::total_cmp);
    parts.get(parts.len() / 2).copied().unwrap_or(f64::NAN)
}

/// GB a second that so many threads read, each over its own bytes again and again, by the widest loads there are.
fn sums(bytes: usize, threads: usize, time: Duration) -> f64 {
    let kernels = ramlet_kernels::kernels();
    let one = |_| {
        let half = vec![1.0f32; (bytes / 8).max(64)];
        let other = half.clone();
        // At least 64 KB or so between looks at the clock.
        let rounds = (65_536 / bytes.max(1)).max(1);
        let mut parts = Vec::new();
        let start = Instant::now();
        while start.elapsed() < time {
            let before = Instant::now();
            for _ in 0..rounds {
                black_box(kernels.dot_f32(black_box(&half), black_box(&other)));
            }
            parts.push((rounds * half.len() * 8) as f64 / before.elapsed().as_secs_f64() / 1e9);
        }
        middle(&mut parts)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| scope.spawn(move || one(worker)))
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or(0.0))
            .sum()
    })
}

/// The disk as the last level: random reads of 4 KB one at a time, large ones in order.
fn disk(setup: &Setup, report: &mut Report<'_>, cycles_per_ns: f64, time: Duration) -> Result<(), String> {
    report.begin("disk");
    let file = setup.file()?;
    let transfer = |method, random, block_bytes, depth| {
        let transfer = Transfer {
            method,
            kind: Kind::Read,
            random,
            block_bytes,
            depth,
            time: time * 2,
            bytes_max: u64::MAX,
            seed: 3,
        };
        file.transfer(&transfer, &|| setup.now())
    };
    let one = transfer(Method::Sync, true, 4096, 1).map_err(|error| error.to_string())?;
    let many = transfer(Method::Uring, false, 1 << 20, 32)
        .or_else(|_| transfer(Method::Sync, false, 1 << 20, 1))
        .map_err(|error| error.to_string())?;
    let us = one.latency_us_p50;
    let (here, other) = if us <= SSD_US_MAX {
        ("SSD", "HDD")
    } else {
        ("HDD", "SSD")
    };
    let also: [Also; 1] = [(us, "us")];
    report.found(&latency(here), us * 1e3 * cycles_per_ns, &also);
    report.found(&throughput(here), many.bytes_per_second() / 1e9, &[]);
    for row in [latency(other), throughput(other)] {
        report.missing(
            &row,
            &format!("the disk that was measured is no {other}: --dir DIR on one"),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_the_kernel_writes_them() {
        assert_eq!(
            (parse_size("32K"), parse_size("1M")),
            (Some(32 << 10), Some(1 << 20))
        );
        assert_eq!(
            (parse_size("512"), parse_size("K"), parse_size("3 K")),
            (Some(512), None, None)
        );
    }

    #[test]
    fn a_chase_visits_every_line() {
        assert!(chase(1, Duration::ZERO.max(Duration::from_micros(1))) > 0.0);
        assert!(chase(1 << 16, Duration::from_micros(1)) > 0.0);
        assert!(sums(1 << 12, 2, Duration::from_micros(1)) > 0.0);
        assert!(cycles_per_ns() > 0.0);
    }
}
