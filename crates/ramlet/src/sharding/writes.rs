//! A change of several shards: each applies it alone, and the caller is answered when all are done.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::Result;
use crate::faults::locks::whole;
use crate::request::{Completion, UpdateResult};

/// Who waits for the parts of a change.
pub struct JoinedWrites {
    left: AtomicUsize,
    outcome: Mutex<(Option<Completion>, Option<Result<UpdateResult>>)>,
}

impl JoinedWrites {
    pub fn new(parts: usize, done: Completion) -> Arc<JoinedWrites> {
        Arc::new(JoinedWrites {
            left: AtomicUsize::new(parts),
            outcome: Mutex::new((Some(done), None)),
        })
    }

    /// What to tell of one part.
    pub fn part(self: &Arc<Self>) -> Completion {
        let joined = self.clone();
        Box::new(move |result| joined.complete(result))
    }

    /// The first failure stays; of what was done the last number does.
    pub fn complete(&self, result: Result<UpdateResult>) {
        let mut outcome = whole(&self.outcome);
        outcome.1 = Some(match (outcome.1.take(), result) {
            (Some(Err(first)), _) => Err(first),
            (_, Err(e)) => Err(e),
            (Some(Ok(one)), Ok(other)) => Ok(UpdateResult {
                operation_id: one.operation_id.max(other.operation_id),
                payloads_checked: one.payloads_checked + other.payloads_checked,
            }),
            (None, Ok(one)) => Ok(one),
        });
        if self.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        if let (Some(done), Some(result)) = (outcome.0.take(), outcome.1.take()) {
            drop(outcome);
            done(result);
        }
    }
}
