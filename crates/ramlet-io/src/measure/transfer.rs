//! Blocks to and from a file, so many at once, by a way that is chosen.

use std::time::Duration;

use crate::measure::aio::AioEngine;
use crate::measure::ring::RingEngine;
use crate::measure::steps::{Engine, Step};
use crate::measure::sync::SyncEngine;
use crate::measure::test_file::{Noise, TestFile};
use crate::probe::Latencies;
use crate::storage::{IoError, IoErrorKind, Result};
use crate::system::thread_cpu_time;

/// In flight at most.
const DEPTH_MAX: usize = 256;

/// How blocks are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// pread and pwrite: one at a time, whatever the depth.
    Sync,
    /// POSIX AIO. The C library has threads for it, and one alone for each open file.
    Aio,
    Uring,
}

/// What is done with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    /// A write, then an fsync: one operation.
    WriteSync,
    /// A write, then an fdatasync: what a log does.
    WriteDataSync,
}

/// A measurement.
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    pub method: Method,
    pub kind: Kind,
    /// Any block of the file; otherwise one after the other, and from the start again.
    pub random: bool,
    /// A multiple of 4096.
    pub block_bytes: usize,
    /// Operations in flight, 1..=256.
    pub depth: usize,
    /// No operation begins later.
    pub time: Duration,
    /// None begins either when so much was moved.
    pub bytes_max: u64,
    pub seed: u64,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transferred {
    pub ops: u64,
    pub bytes: u64,
    /// From the first beginning to the last end.
    pub wall: Duration,
    /// Of the calling thread.
    pub cpu: Duration,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
}

impl Transferred {
    pub fn ops_per_second(&self) -> f64 {
        self.ops as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.wall.as_secs_f64().max(1e-9)
    }
}

impl TestFile {
    /// Runs a measurement. `now` is time since any fixed moment. Takes up to 64 MB of memory.
    pub fn transfer(&self, transfer: &Transfer, now: &dyn Fn() -> Duration) -> Result<Transferred> {
        let Transfer {
            block_bytes, depth, ..
        } = *transfer;
        let fits = block_bytes.is_multiple_of(4096) && (1..=self.bytes()).contains(&(block_bytes as u64));
        if !fits || !(1..=DEPTH_MAX).contains(&depth) {
            let detail = format!(
                "blocks of {block_bytes} bytes, {depth} at once, of a file of {}",
                self.bytes()
            );
            return Err(IoError::new("measure", self.name(), IoErrorKind::Other, detail));
        }
        let mut engine: Box<dyn Engine> = match transfer.method {
            Method::Sync => Box::new(SyncEngine::new(self, block_bytes, transfer.seed)),
            Method::Aio => Box::new(AioEngine::new(self, block_bytes, depth, transfer.seed)),
            Method::Uring => Box::new(RingEngine::new(self, block_bytes, depth, transfer.seed)?),
        };
        let depth = match transfer.method {
            Method::Sync => 1,
            _ => depth,
        };
        let mut run = Run {
            transfer,
            blocks: self.bytes() / block_bytes as u64,
            next: 0,
            noise: Noise::new(!transfer.seed),
            name: self.name(),
            slots: vec![
                Slot {
                    step: Step::Read,
                    since: Duration::ZERO
                };
                depth
            ],
            begun: 0,
            done: 0,
            latencies: Latencies::default(),
        };
        run.all(engine.as_mut(), now)
    }
}

#[derive(Clone, Copy)]
struct Slot {
    step: Step,
    since: Duration,
}

struct Run<'a> {
    transfer: &'a Transfer,
    blocks: u64,
    /// The next block of a sequence.
    next: u64,
    noise: Noise,
    name: &'a str,
    slots: Vec<Slot>,
    begun: u64,
    done: u64,
    latencies: Latencies,
}

impl Run<'_> {
    fn all(&mut self, engine: &mut dyn Engine, now: &dyn Fn() -> Duration) -> Result<Transferred> {
        let (start, cpu) = (now(), thread_cpu_time());
        let mut in_flight = 0;
        let mut outcome = Ok(());
        for slot in 0..self.slots.len() {
            if self.begun > 0 && !self.may_begin(start, now()) {
                break;
            }
            self.begin(engine, slot, now())?;
            in_flight += 1;
        }
        let mut ended = Vec::with_capacity(self.slots.len());
        while in_flight > 0 {
            engine.wait(&mut ended)?;
            let time = now();
            for (slot, result) in ended.drain(..) {
                in_flight -= 1;
                let next = self.end(slot, result, time);
                // An error waits for what is in flight.
                let go_on = match next {
                    Ok(Some(step)) => Some(engine.start(self.steps_to(slot, step), step, 0)),
                    Ok(None) if outcome.is_ok() && self.may_begin(start, time) => {
                        Some(self.begin(engine, slot, time))
                    }
                    Ok(None) => None,
                    Err(error) => Some(Err(error)),
                };
                match go_on {
                    Some(Ok(())) => in_flight += 1,
                    Some(Err(error)) => outcome = outcome.and(Err(error)),
                    None => {}
                }
            }
        }
        outcome?;
        Ok(Transferred {
            ops: self.done,
            bytes: self.done * self.transfer.block_bytes as u64,
            wall: now().saturating_sub(start),
            cpu: thread_cpu_time().saturating_sub(cpu),
            latency_us_p50: self.latencies.at(0.5),
            latency_us_p99: self.latencies.at(0.99),
        })
    }

    fn may_begin(&self, start: Duration, now: Duration) -> bool {
        now.saturating_sub(start) < self.transfer.time
            && (self.begun + 1) * self.transfer.block_bytes as u64 <= self.transfer.bytes_max
    }

    fn begin(&mut self, engine: &mut dyn Engine, slot: usize, now: Duration) -> Result<()> {
        let block = match self.transfer.random {
            true => self.noise.next() % self.blocks,
            false => self.next,
        };
        self.next = (self.next + 1) % self.blocks;
        self.begun += 1;
        let step = match self.transfer.kind {
            Kind::Read => Step::Read,
            _ => Step::Write,
        };
        self.slots[slot] = Slot { step, since: now };
        engine.start(slot, step, block * self.transfer.block_bytes as u64)
    }

    fn steps_to(&mut self, slot: usize, step: Step) -> usize {
        self.slots[slot].step = step;
        slot
    }

    /// The step that follows in the slot's operation; None when that is done.
    fn end(&mut self, slot: usize, result: i32, now: Duration) -> Result<Option<Step>> {
        let Slot { step, since } = self.slots[slot];
        let wanted = match step {
            Step::Read | Step::Write => self.transfer.block_bytes as i32,
            Step::Sync | Step::DataSync => 0,
        };
        if result < 0 {
            let error = std::io::Error::from_raw_os_error(-result);
            return Err(IoError::from_os("transfer", self.name, &error));
        }
        if result != wanted {
            let detail = format!("{result} of {wanted} bytes were moved");
            return Err(IoError::new("transfer", self.name, IoErrorKind::Other, detail));
        }
        match (step, self.transfer.kind) {
            (Step::Write, Kind::WriteSync) => return Ok(Some(Step::Sync)),
            (Step::Write, Kind::WriteDataSync) => return Ok(Some(Step::DataSync)),
            _ => {}
        }
        self.done += 1;
        self.latencies.add(now.saturating_sub(since));
        Ok(None)
    }
}
