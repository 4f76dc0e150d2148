//! Sending the points, and deleting most of them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Result, bail};

use super::api::Api;
use super::vectors::Vectors;
use crate::http::Target;
use crate::random::mix;

/// Of a request: its own cost vanishes, and a small server takes it.
const BODY_BYTES: usize = 256 << 10;
/// JSON of a number with its comma, about.
const NUMBER_BYTES: usize = 12;
const BATCH_POINTS_MAX: usize = 1_000;
/// Ids of a request that deletes.
const BATCH_IDS: usize = 2_000;

/// Rows on their way to a sender.
struct Batch {
    first: u64,
    values: Vec<f32>,
}

/// What the senders share.
struct Shared<'a> {
    dims: usize,
    /// Points per request that the server is known to take.
    points_max: AtomicUsize,
    stop: AtomicBool,
    sent: &'a AtomicU64,
}

/// Sends all of `vectors` over `parallel` connections; `sent` counts what is acknowledged. Holds 2 x `parallel` batches.
pub(crate) fn upsert(
    target: &Target,
    vectors: &mut Vectors,
    parallel: usize,
    sent: &AtomicU64,
) -> Result<()> {
    let dims = vectors.dims();
    let batch = (BODY_BYTES / (dims * NUMBER_BYTES)).clamp(1, BATCH_POINTS_MAX);
    let shared = Shared {
        dims,
        points_max: AtomicUsize::new(usize::MAX),
        stop: AtomicBool::new(false),
        sent,
    };
    let (sender, receiver) = sync_channel::<Batch>(parallel);
    let receiver = Mutex::new(receiver);
    thread::scope(|scope| {
        let senders: Vec<_> = (0..parallel)
            .map(|_| scope.spawn(|| shared.send_all(&receiver, &mut Api::new(target.clone()))))
            .collect();
        let mut fed = Ok(());
        while !shared.stop.load(Ordering::Relaxed) {
            match vectors.next(batch) {
                // A send fails when all senders are gone; theirs is the error to tell.
                Ok(Some((first, values))) => match sender.send(Batch { first, values }) {
                    Ok(()) => {}
                    Err(_) => break,
                },
                Ok(None) => break,
                Err(error) => {
                    fed = Err(error);
                    break;
                }
            }
        }
        drop(sender);
        for sender in senders {
            match sender.join() {
                Ok(outcome) => outcome?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        fed
    })
}

impl Shared<'_> {
    fn send_all(&self, receiver: &Mutex<Receiver<Batch>>, api: &mut Api) -> Result<()> {
        let mut body = Vec::new();
        let mut outcome = Ok(());
        loop {
            let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(batch) = next else { return outcome };
            // After a failure the channel is drained, so that the feeding side never blocks.
            if self.stop.load(Ordering::Relaxed) {
                continue;
            }
            if let Err(error) = self.send(&batch, api, &mut body) {
                self.stop.store(true, Ordering::Relaxed);
                outcome = Err(error);
            }
        }
    }

    /// Sends a batch, in smaller requests where the server has no room for it as a whole.
    fn send(&self, batch: &Batch, api: &mut Api, body: &mut Vec<u8>) -> Result<()> {
        let rows = batch.values.len() / self.dims;
        let mut from = 0;
        while from < rows {
            let count = self.points_max.load(Ordering::Relaxed).min(rows - from);
            let values = &batch.values[from * self.dims..(from + count) * self.dims];
            render(batch.first + from as u64, values, self.dims, body)?;
            if api.upsert(body)? {
                self.sent.fetch_add(count as u64, Ordering::Relaxed);
                from += count;
            } else if count > 1 {
                self.points_max.fetch_min(count / 2, Ordering::Relaxed);
            } else {
                bail!("one point alone is too large for the server");
            }
        }
        Ok(())
    }
}

/// `{"points":[{"id":7,"vector":[..]},..]}`.
fn render(first: u64, values: &[f32], dims: usize, body: &mut Vec<u8>) -> Result<()> {
    body.clear();
    body.extend_from_slice(b"{\"points\":[");
    for (id, row) in (first..).zip(values.chunks_exact(dims)) {
        if id > first {
            body.push(b',');
        }
        if row.iter().any(|value| !value.is_finite()) {
            bail!("row {id} has a value that is no number");
        }
        body.extend_from_slice(format!("{{\"id\":{id},\"vector\":").as_bytes());
        serde_json::to_writer(&mut *body, row)?;
        body.push(b'}');
    }
    body.extend_from_slice(b"]}");
    Ok(())
}

/// Whether a point is among so many percent that are to go: any of them, in no order.
fn goes(id: u64, percent: u64) -> bool {
    mix(id.wrapping_add(1)) % 100 < percent
}

/// Deletes `percent` of the points `0..count`; `left` counts down. Returns how many went.
pub(crate) fn delete(target: &Target, count: u64, percent: u64, left: &AtomicU64) -> Result<u64> {
    let mut api = Api::new(target.clone());
    let going: Vec<u64> = (0..count).filter(|id| goes(*id, percent)).collect();
    for ids in going.chunks(BATCH_IDS) {
        api.delete(ids)?;
        left.fetch_sub(ids.len() as u64, Ordering::Relaxed);
    }
    Ok(going.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_as_the_api_takes_them() {
        let mut body = Vec::new();
        render(7, &[0.5, -1.0, 2.0, 0.25], 2, &mut body).expect("numbers");
        let expected = r#"{"points":[{"id":7,"vector":[0.5,-1.0]},{"id":8,"vector":[2.0,0.25]}]}"#;
        assert_eq!(String::from_utf8_lossy(&body), expected);
        assert!(render(7, &[f32::NAN, 0.0], 2, &mut body).is_err());
    }

    #[test]
    fn about_the_share_goes() {
        let going = (0..10_000).filter(|id| goes(*id, 80)).count();
        assert!((7_800..8_200).contains(&going), "{going}");
        assert!((0..1_000).all(|id| !goes(id, 0) && goes(id, 100)));
    }
}
