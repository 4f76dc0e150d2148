//! What a long measurement is doing: a bar on a terminal, a line where that isn't one.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Steps of a measurement. On a terminal a bar with the current step beside it; elsewhere a line for each step.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    on_terminal: bool,
}

impl Progress {
    /// `steps` in all; 0 when that isn't known.
    pub fn new(steps: u64) -> Progress {
        let on_terminal = std::io::stderr().is_terminal();
        let bar = match on_terminal {
            true if steps == 0 => ProgressBar::new_spinner(),
            true => ProgressBar::new(steps),
            false => ProgressBar::hidden(),
        };
        if steps > 0 {
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {elapsed}  {msg}")
                .expect("a fixed template");
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, on_terminal }
    }

    /// What happens now.
    pub fn say(&self, step: impl Into<String>) {
        let step = step.into();
        if !self.on_terminal {
            eprintln!("{step}");
        }
        self.bar.set_message(step);
    }

    /// As [`Progress::say`], but never a line: for what changes every second.
    pub fn show(&self, state: impl Into<String>) {
        self.bar.set_message(state.into());
    }

    /// A line that stays, above the bar.
    pub fn note(&self, line: impl AsRef<str>) {
        match self.on_terminal {
            true => self.bar.println(line),
            false => eprintln!("{}", line.as_ref()),
        }
    }

    /// One step is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
