//! How far a run is: a bar on a terminal, else a line for each figure.

use std::cell::Cell;
use std::io::IsTerminal;

use super::row::{Row, figure};

pub struct Progress {
    bar: crate::Progress,
    done: Cell<usize>,
    rows: usize,
}

impl Progress {
    /// Of so many lines.
    pub fn new(rows: usize) -> Progress {
        Progress {
            bar: crate::Progress::new(rows as u64),
            done: Cell::new(0),
            rows,
        }
    }

    pub fn now(&self, group: &str, name: &str) {
        self.bar.show(format!("{group}: {name}"));
    }

    pub fn done(&self, row: &Row) {
        self.bar.step();
        self.done.set(self.done.get() + 1);
        if !std::io::stderr().is_terminal() {
            let value = match &row.value {
                Ok(value) => format!("{} {}", figure(*value), row.unit.name()),
                Err(why) => why.clone(),
            };
            let (at, of) = (self.done.get(), self.rows);
            eprintln!("{at}/{of} {}: {}: {value}", row.group, row.name);
        }
    }
}
