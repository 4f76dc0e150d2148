//! Reads points, cuts them into batches and sends those over a few connections. Memory: 2 x connections + 1 batches.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result, anyhow};

use super::api::{Api, Refusal};
use super::batch::Batch;
use super::ids::{MixedIds, Numbering};
use super::interrupt;
use super::place::Place;
use super::progress::Progress;
use super::source::Source;

/// Size of a request when `--batch` isn't given: large enough that the request's own cost vanishes, small for a server of 32 MB.
const BODY_BYTES: usize = 256 << 10;
const BATCH_POINTS_MAX: usize = 1_000;

/// How points are sent.
pub struct Plan<'a> {
    pub collection: &'a str,
    /// Points of a request; `None`: as many as make 256 KiB.
    pub batch: Option<usize>,
    pub connections: usize,
    /// Number of the first point in the file.
    pub first: u64,
    /// Most points to send.
    pub limit: u64,
    /// Hears how far it is.
    pub place: Option<&'a Place>,
    /// Which ids an import has that goes on.
    pub numbering: &'a Numbering,
}

/// What the senders share.
struct Shared<'a> {
    api: &'a Api,
    plan: &'a Plan<'a>,
    /// Points per request that the server is known to take.
    points_max: AtomicUsize,
    stop: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    acked: Acked,
    failure: Option<anyhow::Error>,
}

/// Which points are acknowledged: a prefix, and islands beyond it.
#[derive(Default)]
struct Acked {
    prefix: u64,
    islands: BTreeMap<u64, u64>,
    points: u64,
}

impl Acked {
    fn add(&mut self, start: u64, end: u64) {
        self.points += end - start;
        self.islands.insert(start, end);
        while let Some(end) = self.islands.remove(&self.prefix) {
            self.prefix = end;
        }
    }
}

/// Sends all of `source`; returns how many points the server acknowledged.
/// On failure the error says how many points are in without a gap, and how to go on from there.
pub fn run(api: &Api, source: &mut dyn Source, plan: &Plan, progress: &Progress) -> Result<u64> {
    let shared = Shared {
        api,
        plan,
        points_max: AtomicUsize::new(usize::MAX),
        stop: AtomicBool::new(false),
        state: Mutex::new(State::default()),
    };
    shared.lock().acked.prefix = plan.first;
    let (sender, receiver) = sync_channel(plan.connections);
    let receiver = Mutex::new(receiver);
    let read = thread::scope(|scope| {
        for number in 0..plan.connections {
            let sending = || shared.send_all(&receiver, progress);
            // Those that run already end as the channel does.
            thread::Builder::new()
                .spawn_scoped(scope, sending)
                .with_context(|| {
                    format!(
                        "starting thread {} of the {} of --parallel",
                        number + 1,
                        plan.connections
                    )
                })?;
        }
        let read = read_all(source, plan, sender, &shared, progress);
        if read.is_err() {
            // What is read already is still sent: the error then tells a row, not a random gap.
            progress.note("stopping");
        }
        read
    });
    let state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = plan.place {
        place.write(state.acked.prefix)?;
    }
    match state.failure.or(read.err()) {
        None => Ok(state.acked.points),
        // There is nothing to go on from.
        Some(error) if state.acked.prefix == 0 => Err(anyhow!("{error:#}\nNo points are imported.")),
        Some(error) if error.is::<MixedIds>() && *plan.numbering == Numbering::Own => Err(anyhow!(
            "{error:#}\nThe first {} points are imported with their own ids. Import the whole file with one of these, into a new collection.",
            state.acked.prefix
        )),
        Some(error) => Err(anyhow!(
            "{error:#}\nThe first {} points are imported. To continue: {}",
            state.acked.prefix,
            match plan.place {
                Some(_) => "the same command again".to_string(),
                None => plan.numbering.going_on(state.acked.prefix),
            }
        )),
    }
}

fn read_all(
    source: &mut dyn Source,
    plan: &Plan,
    sender: SyncSender<Batch>,
    shared: &Shared,
    progress: &Progress,
) -> Result<()> {
    let mut next = plan.first;
    let end = plan.first.saturating_add(plan.limit);
    loop {
        let mut batch = Batch::new(next);
        let filled = fill(source, plan, &mut batch, end);
        next += batch.len() as u64;
        progress.at(source.progress());
        // A receiver that is gone or a stop means that a sender has failed; its error is the one to tell.
        if batch.len() > 0 && (shared.stop.load(Ordering::Relaxed) || sender.send(batch).is_err()) {
            return Ok(());
        }
        let is_end = !filled?;
        // Ctrl-C ends the program before a pipe too: that isn't the end of its output.
        interrupt::check()?;
        if is_end {
            return Ok(());
        }
    }
}

/// Fills a batch; false when there is no more.
fn fill(source: &mut dyn Source, plan: &Plan, batch: &mut Batch, end: u64) -> Result<bool> {
    let full = |batch: &Batch| match plan.batch {
        Some(points) => batch.len() >= points,
        None => batch.bytes() >= BODY_BYTES || batch.len() >= BATCH_POINTS_MAX,
    };
    while !full(batch) {
        if batch.start + batch.len() as u64 >= end || !batch.push(|out| source.read(out))? {
            return Ok(false);
        }
        batch.note_place(source.at());
    }
    Ok(true)
}

impl Shared<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_all(&self, receiver: &Mutex<Receiver<Batch>>, progress: &Progress) {
        let mut body = Vec::new();
        loop {
            let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(batch) = next else { return };
            // After a failure the channel is drained, so that the reading side never blocks.
            if self.stop.load(Ordering::Relaxed) {
                continue;
            }
            if let Err(error) = self.send(&batch, &mut body, progress) {
                self.stop.store(true, Ordering::Relaxed);
                self.lock().failure.get_or_insert(error);
            }
        }
    }

    fn acknowledged(&self, start: u64, end: u64) -> Result<()> {
        let mut state = self.lock();
        state.acked.add(start, end);
        match self.plan.place {
            Some(place) => place.at(state.acked.prefix),
            None => Ok(()),
        }
    }

    /// Sends one batch, in smaller requests when the server has no room for it as a whole.
    fn send(&self, batch: &Batch, body: &mut Vec<u8>, progress: &Progress) -> Result<()> {
        let (mut from, mut at_once) = (0, usize::MAX);
        while from < batch.len() {
            let points_max = self.points_max.load(Ordering::Relaxed).min(at_once);
            let points = points_max.min(batch.len() - from);
            batch.body(from, from + points, body);
            let start = batch.start + from as u64;
            match self.api.upsert(self.plan.collection, body) {
                Ok(()) => {
                    self.acknowledged(start, start + points as u64)?;
                    progress.acknowledged(points as u64);
                    from += points;
                }
                Err(Refusal::TooLarge(_)) if points > 1 => {
                    self.points_max.fetch_min(points / 2, Ordering::Relaxed);
                }
                Err(Refusal::TooLarge(sentence)) => {
                    let place = place(batch, from);
                    return Err(anyhow!(
                        "point {start} by itself is too large for the server{place}: {sentence}"
                    ));
                }
                // One of them is wrong: those before it go in, and it is named.
                Err(Refusal::Wrong(_)) if points > 1 => at_once = points / 2,
                Err(Refusal::Wrong(error)) => {
                    return Err(error.context(format!("point {start}{}", place(batch, from))));
                }
                Err(Refusal::Final(error)) => {
                    return Err(error.context(format!("points {start} to {}", start + points as u64 - 1)));
                }
            }
        }
        Ok(())
    }
}

/// Where a point of the batch stands, in brackets.
fn place(batch: &Batch, at: usize) -> String {
    batch
        .place(at)
        .map_or(String::new(), |place| format!(" ({place})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_waits_for_gaps() {
        let mut acked = Acked {
            prefix: 10,
            ..Acked::default()
        };
        acked.add(20, 30);
        assert_eq!((acked.prefix, acked.points), (10, 10));
        acked.add(10, 15);
        assert_eq!((acked.prefix, acked.points), (15, 15));
        acked.add(15, 20);
        assert_eq!((acked.prefix, acked.points), (30, 20));
        assert!(acked.islands.is_empty());
    }
}
