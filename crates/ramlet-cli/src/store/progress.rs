//! How far a push or a pull is: a bar on a terminal, now and then a line elsewhere.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use crate::output::note;

const LINE_EVERY: Duration = Duration::from_secs(5);

pub struct Progress {
    bar: Option<ProgressBar>,
    told: Instant,
    bytes: Option<u64>,
}

impl Progress {
    /// `bytes`: in all, where that is known.
    pub fn new(bytes: Option<u64>) -> Progress {
        let bar = stderr().is_terminal().then(|| match bytes {
            Some(bytes) => styled(
                ProgressBar::new(bytes),
                "{bar:32} {percent:>3}%  {bytes} of {total_bytes}, {eta} to go{msg}",
            ),
            None => styled(ProgressBar::no_length(), "{spinner}  {bytes}{msg}"),
        });
        Progress {
            bar,
            told: Instant::now(),
            bytes,
        }
    }

    /// `done` of all bytes are dealt with, `moved` had to be sent or fetched.
    pub fn tell(&mut self, done: u64, moved: u64, verb: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!(", {} {verb}", HumanBytes(moved)));
            bar.set_position(done);
            return;
        }
        if self.told.elapsed() < LINE_EVERY {
            return;
        }
        self.told = Instant::now();
        let of = self
            .bytes
            .map_or_else(String::new, |all| format!(" of {}", HumanBytes(all)));
        note!("{}{of}, {} {verb}", HumanBytes(done), HumanBytes(moved));
    }

    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("a fixed template");
    bar.with_style(style.progress_chars("=> "))
}
