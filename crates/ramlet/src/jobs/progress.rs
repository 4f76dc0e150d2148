//! The progress of background jobs, for clients.

use std::sync::{Arc, Mutex};

use ramlet_index::Phase;

use crate::faults::locks::whole;

/// Why segments are written anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// Several become one.
    Merge,
    /// One gets an index that it lacks.
    Index,
    /// One gets rid of deleted rows, or gets codes of another kind or size.
    Rewrite,
}

/// How far the part of a job is that is under way.
#[derive(Debug, Clone, PartialEq)]
pub struct JobStep {
    /// Of the vector whose index is built.
    pub vector: String,
    /// `sample`, `train`, `assign`, `distribute`, `write`; of a graph `compare`, `choose`, `inline`, `nodes` besides.
    pub name: &'static str,
    /// In rows, but for `train`, whose steps have no unit.
    pub done: u64,
    pub total: u64,
}

/// A job under way.
#[derive(Debug)]
pub struct JobUnderWay {
    /// Number of the segment that it makes.
    pub segment: u64,
    pub kind: JobKind,
    /// Numbers and live points of the segments that it makes it of.
    pub sources: Vec<(u64, u64)>,
    step: Mutex<Option<JobStep>>,
}

impl JobUnderWay {
    /// The part that is under way; `None` before the first index and between two.
    pub fn step(&self) -> Option<JobStep> {
        whole(&self.step).clone()
    }

    /// Notes how far the index of a vector is.
    pub(crate) fn note(&self, vector: &str, phase: Phase, done: u64, total: u64) {
        let mut step = whole(&self.step);
        let name = phase.name();
        match &mut *step {
            Some(step) if step.name == name && step.vector == vector => {
                (step.done, step.total) = (done, total);
            }
            step => {
                *step = Some(JobStep {
                    vector: vector.to_owned(),
                    name,
                    done,
                    total,
                });
            }
        }
    }
}

/// The place where a collection's job under way is found.
#[derive(Default)]
pub struct Progress(Mutex<Option<Arc<JobUnderWay>>>);

/// A job under way, until it is dropped.
pub struct ProgressGuard<'a>(&'a Progress);

impl Progress {
    pub fn begin(&self, segment: u64, kind: JobKind, sources: Vec<(u64, u64)>) -> ProgressGuard<'_> {
        self.set(Some(Arc::new(JobUnderWay {
            segment,
            kind,
            sources,
            step: Mutex::default(),
        })));
        ProgressGuard(self)
    }

    pub fn job(&self) -> Option<Arc<JobUnderWay>> {
        whole(&self.0).clone()
    }

    fn set(&self, job: Option<Arc<JobUnderWay>>) {
        *whole(&self.0) = job;
    }
}

impl Drop for ProgressGuard<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}
