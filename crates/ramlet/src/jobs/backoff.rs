//! Failed jobs: what is reported, and the backoff before each retry.
//!
//! No clock is read here: waits are counted in rounds of the maintenance thread, which are paced by the pauses of those who
//! wait for it ([`crate::write::group_commit::FAILED_POLL`]) and by its own when nobody does.

use std::sync::{Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::faults::locks::whole;

/// Kinds of jobs that fail and wait apart from each other.
/// In the order of [`JOB_KINDS`](super::watch::JOB_KINDS), but for the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Segments without a row go.
    Clear,
    Flush,
    Merge,
    /// What makes searches faster and nothing else: it isn't told in the status.
    Upkeep,
    /// Segments of another node take the place of own ones.
    Adopt,
    /// Merges that are to bring an index which lacked memory for a moment. It is told of by itself.
    Index,
}

const JOBS: usize = 6;

/// Rounds that a job waits after its first failure; twice as many after each further one, ...
const WAIT_FIRST: u32 = 2;
/// ... and so many at most: six seconds while somebody waits, half a minute else.
const WAIT_MAX: u32 = 64;
/// The same of an index, for which a whole segment is written: some minutes.
const WAIT_OF_INDEX_MAX: u32 = 512;

#[derive(Debug)]
struct Failure {
    error: Error,
    /// Failures in a row.
    times: u32,
    wait: u32,
}

/// The failed jobs of one collection.
#[derive(Default)]
pub struct Backoff(Mutex<[Option<Failure>; JOBS]>);

impl Backoff {
    fn all(&self) -> MutexGuard<'_, [Option<Failure>; JOBS]> {
        whole(&self.0)
    }

    /// How a job went. Having had nothing to do doesn't undo an earlier failure.
    pub fn note(&self, job: Job, result: &Result<bool>) {
        let of = &mut self.all()[job as usize];
        match result {
            Ok(true) => *of = None,
            Ok(false) => {}
            Err(error) => {
                let times = of.as_ref().map_or(0, |before| before.times).saturating_add(1);
                // So many doublings reach the longest wait.
                let most = if job == Job::Index {
                    WAIT_OF_INDEX_MAX
                } else {
                    WAIT_MAX
                };
                let wait = (WAIT_FIRST << (times - 1).min(16)).min(most);
                let error = error.clone();
                *of = Some(Failure { error, times, wait });
            }
        }
    }

    /// The failure to show, if there is one.
    pub fn first(&self) -> Option<String> {
        let all = self.all();
        let shown = [Job::Clear, Job::Flush, Job::Merge].iter();
        let mut errors = shown.filter_map(|job| all[*job as usize].as_ref());
        errors.next().map(|failure| failure.error.to_string())
    }

    /// Whether a job last failed for want of disk or descriptors.
    pub fn is_full(&self, job: Job) -> bool {
        let all = self.all();
        all[job as usize]
            .as_ref()
            .is_some_and(|failure| failure.error.is_full())
    }

    /// There is nothing left that it could fail at.
    pub fn forget(&self, job: Job) {
        self.all()[job as usize] = None;
    }

    pub fn is_in_backoff(&self, job: Job) -> bool {
        self.all()[job as usize]
            .as_ref()
            .is_some_and(|failure| failure.wait > 0)
    }

    /// Ends the wait of a job for whoever needs it; false when it doesn't wait.
    pub fn wake(&self, job: Job) -> bool {
        let mut all = self.all();
        let failure = all[job as usize].as_mut();
        failure.is_some_and(|failure| std::mem::take(&mut failure.wait) > 0)
    }

    /// How often a job has failed in a row, if that is worth a line in the log: a few lines tell of thousands of failures.
    pub fn failures_to_log(&self, job: Job) -> Option<u32> {
        let times = self.all()[job as usize].as_ref()?.times;
        times.is_power_of_two().then_some(times)
    }

    /// So many rounds have gone by.
    pub fn pass(&self, rounds: u32) {
        for failure in self.all().iter_mut().flatten() {
            failure.wait = failure.wait.saturating_sub(rounds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn full() -> Result<bool> {
        Err(Error::new(ErrorKind::DiskFull, "full"))
    }

    #[test]
    fn waits_get_longer_up_to_a_bound_and_end_with_success() {
        let backoff = Backoff::default();
        let mut waits = Vec::new();
        for _ in 0..40 {
            backoff.note(Job::Flush, &full());
            let mut rounds = 0;
            while backoff.is_in_backoff(Job::Flush) {
                backoff.pass(1);
                rounds += 1;
            }
            waits.push(rounds);
        }
        assert_eq!(waits[..7], [2, 4, 8, 16, 32, 64, 64]);
        assert!(waits[7..].iter().all(|wait| *wait == WAIT_MAX));
        assert!(!backoff.is_in_backoff(Job::Merge), "its own failures only");
        backoff.note(Job::Flush, &Ok(false));
        assert!(backoff.first().is_some());
        backoff.note(Job::Flush, &Ok(true));
        assert_eq!(backoff.first(), None);
        backoff.note(Job::Flush, &full());
        backoff.pass(WAIT_FIRST);
        assert!(!backoff.is_in_backoff(Job::Flush), "it begins anew");
    }

    #[test]
    fn many_failures_are_few_lines() {
        let backoff = Backoff::default();
        let told = (0..1_000).filter(|_| {
            backoff.note(Job::Merge, &full());
            backoff.failures_to_log(Job::Merge).is_some()
        });
        assert_eq!(told.count(), 10);
    }

    #[test]
    fn upkeep_is_no_state_of_a_collection() {
        let backoff = Backoff::default();
        backoff.note(Job::Upkeep, &full());
        assert_eq!(backoff.first(), None);
        backoff.note(Job::Clear, &full());
        assert_eq!(backoff.first().as_deref(), Some("full"));
    }
}
