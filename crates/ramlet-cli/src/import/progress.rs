//! The progress of an import: a bar on a terminal, a line every few seconds elsewhere.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::output::note;

const LINE_EVERY: Duration = Duration::from_secs(10);

/// Progress of one import. The bar runs over what is read of the file (that is what has a known length); the figures beside it
/// count the points that the server acknowledged.
pub struct Progress {
    bar: ProgressBar,
    points: AtomicU64,
    start: Instant,
    /// When the last line was written, off a terminal.
    told: Option<Mutex<Instant>>,
}

impl Progress {
    /// `total` is 0 where nobody knows it.
    pub fn new(total: u64) -> Progress {
        let (bar, template) = match total {
            0 => (ProgressBar::no_length(), "{spinner}  {msg}  {elapsed} elapsed"),
            total => (
                ProgressBar::new(total),
                "{bar:32} {percent:>3}%  {msg}  {elapsed} elapsed, {eta} to go",
            ),
        };
        let style = ProgressStyle::with_template(template).expect("a fixed template");
        bar.set_style(style.progress_chars("=> "));
        let on_terminal = std::io::stderr().is_terminal();
        Progress {
            bar,
            points: AtomicU64::new(0),
            start: Instant::now(),
            told: (!on_terminal).then(|| Mutex::new(Instant::now())),
        }
    }

    /// How far the file is read.
    pub fn at(&self, (position, _): (u64, u64)) {
        self.bar.set_position(position);
    }

    pub fn acknowledged(&self, points: u64) {
        let points = self.points.fetch_add(points, Ordering::Relaxed) + points;
        let message = format!(
            "{} points, {}/s",
            HumanCount(points),
            HumanCount(self.rate(points))
        );
        if let Some(told) = &self.told {
            let Ok(mut told) = told.try_lock() else {
                return;
            };
            if told.elapsed() >= LINE_EVERY {
                *told = Instant::now();
                match self.bar.length() {
                    Some(length) => {
                        let percent = 100 * self.bar.position() / length.max(1);
                        note!("{message}, {percent} % read, {:.0?} to go", self.bar.eta());
                    }
                    None => note!("{message}"),
                }
            }
        }
        self.bar.set_message(message);
    }

    /// A word instead of the figures.
    pub fn note(&self, text: &'static str) {
        self.bar.set_message(text);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Points a second since the start.
    pub fn rate(&self, points: u64) -> u64 {
        (points as f64 / self.start.elapsed().as_secs_f64().max(1e-3)) as u64
    }
}
