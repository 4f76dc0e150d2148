//! What the system asks for a lock, a call, and a switch from one to another.

use std::hint::black_box;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use ramlet_io::measure::{pin_to_one_cpu, process_switches, thread_switches};

use super::row::{Planned, Unit};
use super::suite::{Options, Report, Setup, Suite, planned};

pub const SYSTEM: Suite = Suite {
    name: "system",
    seconds: (2, 15),
    plan,
    run,
};

const MUTEX: &str = "mutex lock and unlock";
const CALL: &str = "system call";
const PROCESS: &str = "process switch, futex";
const THREAD: &str = "thread switch, futex";
const YIELD: &str = "thread switch, sched_yield";

fn plan(_: &Options) -> Vec<Planned> {
    vec![
        planned(MUTEX, Unit::Nanoseconds),
        planned(CALL, Unit::Nanoseconds),
        planned(PROCESS, Unit::Microseconds),
        planned(THREAD, Unit::Microseconds),
        planned(YIELD, Unit::Nanoseconds),
    ]
}

fn run(setup: &Setup, report: &mut Report<'_>) -> Result<(), String> {
    let rounds: u32 = setup.pick(50_000, 200_000);
    let switches = f64::from(2 * (rounds - 1));
    if report.begin(MUTEX) {
        let mutex = Mutex::new(0u64);
        let lock = || {
            // Nobody else locks it, so nobody can have panicked while holding it.
            if let Ok(mut inside) = black_box(&mutex).lock() {
                *inside += 1;
            }
        };
        report.found(MUTEX, each_ns(rounds * 20, lock), &[]);
    }
    if report.begin(CALL) {
        // The cheapest there is, and one that no library answers from memory.
        let call = || {
            black_box(std::os::unix::process::parent_id());
        };
        report.found(CALL, each_ns(rounds * 5, call), &[]);
    }
    type Switch = fn(u32, &dyn Fn() -> Duration) -> std::io::Result<Duration>;
    for (name, switch) in [
        (PROCESS, process_switches as Switch),
        (THREAD, thread_switches as Switch),
    ] {
        if report.begin(name) {
            let time = apart(move || {
                let start = Instant::now();
                switch(rounds, &|| start.elapsed())
            });
            report.take(
                name,
                time.map(|time| (time.as_secs_f64() * 1e6 / switches, Vec::new())),
            );
        }
    }
    if report.begin(YIELD) {
        let time = apart(move || yields(rounds * 4));
        report.take(
            YIELD,
            time.map(|time| (time.as_secs_f64() * 1e9 / f64::from(rounds * 8), Vec::new())),
        );
    }
    Ok(())
}

/// Nanoseconds of the fastest of ten parts: what others do on the machine only makes it slower.
fn each_ns(rounds: u32, mut run: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..10 {
        let start = Instant::now();
        (0..rounds / 10).for_each(|_| run());
        least = least.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds / 10));
    }
    least
}

/// On a thread of its own, because it is pinned.
fn apart(run: impl FnOnce() -> std::io::Result<Duration> + Send + 'static) -> Result<Duration, String> {
    let outcome = std::thread::spawn(run)
        .join()
        .map_err(|_| "it panicked".to_owned())?;
    outcome.map_err(|error| error.to_string())
}

/// Two threads on one processor that only give way to each other.
fn yields(rounds: u32) -> std::io::Result<Duration> {
    pin_to_one_cpu()?;
    let barrier = Arc::new(Barrier::new(2));
    let theirs = barrier.clone();
    let give_way = move || (0..rounds).for_each(|_| std::thread::yield_now());
    let partner = std::thread::spawn(move || {
        theirs.wait();
        give_way();
    });
    barrier.wait();
    let start = Instant::now();
    give_way();
    let _ = partner.join();
    Ok(start.elapsed())
}
