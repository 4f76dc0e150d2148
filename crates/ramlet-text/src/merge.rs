//! Runs become one: their rows follow each other, so lists of the same term are laid one behind the other.

use std::sync::Arc;

use ramlet_io::Storage;

use crate::error::Result;
use crate::run::{PostingSink, Run, RunReader, RunWriter};

/// Merges until at most `fan_in` runs are left. Always neighbours, so that the order of rows stays.
pub(crate) fn reduce(storage: &Arc<dyn Storage>, mut runs: Vec<Run>, fan_in: usize) -> Result<Vec<Run>> {
    while runs.len() > fan_in {
        let mut fewer = Vec::new();
        let mut rest = runs.into_iter().peekable();
        while rest.peek().is_some() {
            let group: Vec<Run> = rest.by_ref().take(fan_in).collect();
            let mut writer = RunWriter::create(storage)?;
            merge(group, &mut writer)?;
            fewer.push(writer.finish()?);
        }
        runs = fewer;
    }
    Ok(runs)
}

/// Shows `sink` the lists of all runs, which are in the order of their rows. Holds a buffer a run.
pub(crate) fn merge(runs: Vec<Run>, sink: &mut dyn PostingSink) -> Result<()> {
    let mut readers = Vec::with_capacity(runs.len());
    for run in runs {
        let mut reader = RunReader::open(run)?;
        if reader.next()? {
            readers.push(reader);
        }
    }
    let mut term = Vec::new();
    let mut deltas = Vec::new();
    while let Some(least) = readers.iter().map(|reader| &reader.term).min() {
        term.clear();
        term.extend_from_slice(least);
        let here = readers.iter().filter(|reader| reader.term == term);
        sink.begin(&term, here.map(|reader| reader.rows).sum())?;
        let mut ended = false;
        for reader in readers.iter_mut().filter(|reader| reader.term == term) {
            while reader.rows > 0 {
                let row = reader.row(&mut deltas)?;
                sink.row(row, &deltas)?;
            }
            if !reader.next()? {
                reader.term.clear();
                ended = true;
            }
        }
        sink.end()?;
        if ended {
            readers.retain(|reader| !reader.term.is_empty());
        }
    }
    Ok(())
}
