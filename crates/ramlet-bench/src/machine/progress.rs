//! How far a run is: a bar on a terminal, else a line for each figure.

use indicatif::{ProgressBar, ProgressStyle};

use super::row::{Row, figure};

pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of so many lines.
    pub fn new(rows: usize) -> Progress {
        let bar = ProgressBar::new(rows as u64);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { bar }
    }

    pub fn now(&self, group: &str, name: &str) {
        self.bar.set_message(format!("{group}: {name}"));
    }

    pub fn done(&self, row: &Row) {
        self.bar.inc(1);
        if self.bar.is_hidden() {
            let (at, of) = (self.bar.position(), self.bar.length().unwrap_or(0));
            let value = match &row.value {
                Ok(value) => format!("{} {}", figure(*value), row.unit.name()),
                Err(why) => why.clone(),
            };
            eprintln!("{at}/{of} {}: {}: {value}", row.group, row.name);
        }
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
