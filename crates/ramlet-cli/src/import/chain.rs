//! Several files, one after another, as one source.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use ramlet_bench::files::Distance;

use super::source::{At, Layout, Source, Target};

/// Of the progress bar, for a file each.
const PARTS: u64 = 10_000;

/// Opens a file.
pub type Open = Box<dyn Fn(&Path) -> Result<Box<dyn Source>>>;

/// Files with the same vectors. One is open at a time.
pub struct Chain {
    open: Open,
    files: Vec<PathBuf>,
    /// Number of the open one.
    at: usize,
    source: Box<dyn Source>,
    /// Points of the files before it.
    before: u64,
    /// Points given of the open one.
    given: u64,
    target: Target,
    /// Of all files.
    is_u8: bool,
}

impl Chain {
    /// Opens each file once, so that what can't be read says so before anything is sent.
    pub fn new(open: Open, files: Vec<PathBuf>) -> Result<Chain> {
        let first = open(&files[0])?;
        let mut is_u8 = first.is_u8();
        for file in &files[1..] {
            let other = open(file)?;
            check_same(first.as_ref(), other.as_ref())?;
            is_u8 &= other.is_u8();
        }
        Ok(Chain {
            open,
            files,
            at: 0,
            source: first,
            before: 0,
            given: 0,
            target: Target::default(),
            is_u8,
        })
    }

    /// Opens the next file; false behind the last.
    fn advance(&mut self) -> Result<bool> {
        let Some(next) = self.files.get(self.at + 1) else {
            return Ok(false);
        };
        self.target.fields = self.source.unseen();
        self.source = (self.open)(next)?;
        self.at += 1;
        self.before += std::mem::take(&mut self.given);
        self.source.aim(self.shifted());
        Ok(true)
    }

    /// The target as a file sees it that begins with row 0.
    fn shifted(&self) -> Target {
        let mut target = self.target.clone();
        target.first_row += self.before;
        target
    }
}

fn check_same(first: &dyn Source, other: &dyn Source) -> Result<()> {
    let (a, b) = (first.layout(), other.layout());
    let (one, two) = (first.at().file, other.at().file);
    if a != b {
        bail!("the files don't match: {one} has {a}, {two} has {b}");
    }
    let ids = |has: bool| if has { "ids" } else { "no ids" };
    if first.has_ids() != other.has_ids() {
        bail!(
            "the files don't match: {one} has {}, {two} has {}; import them one by one, with --ids",
            ids(first.has_ids()),
            ids(other.has_ids())
        );
    }
    Ok(())
}

impl Source for Chain {
    fn layout(&self) -> &Layout {
        self.source.layout()
    }
    fn has_ids(&self) -> bool {
        self.source.has_ids()
    }
    fn check_pattern(&self) -> Result<()> {
        self.source.check_pattern()
    }
    fn distance(&self) -> Option<Distance> {
        self.source.distance()
    }
    fn unknown_distance(&self) -> Option<&str> {
        self.source.unknown_distance()
    }
    fn is_u8(&self) -> bool {
        self.is_u8
    }
    fn stray_vector(&self) -> Option<(&str, usize)> {
        self.source.stray_vector()
    }

    fn aim(&mut self, target: Target) {
        self.target = target;
        self.source.aim(self.shifted());
    }

    fn skip(&mut self, points: u64) -> Result<u64> {
        let mut left = points;
        loop {
            let skipped = self.source.skip(left)?;
            self.given += skipped;
            left -= skipped;
            if left == 0 || !self.advance()? {
                return Ok(points - left);
            }
        }
    }

    fn read(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        loop {
            if self.source.read(out)? {
                self.given += 1;
                return Ok(true);
            }
            if !self.advance()? {
                return Ok(false);
            }
        }
    }

    fn at(&self) -> At {
        self.source.at()
    }
    fn unseen(&self) -> Vec<String> {
        self.source.unseen()
    }

    fn progress(&self) -> (u64, u64) {
        let (read, end) = self.source.progress();
        let part = (u128::from(PARTS) * u128::from(read) / u128::from(end.max(1))) as u64;
        (
            PARTS * self.at as u64 + part.min(PARTS),
            PARTS * self.files.len() as u64,
        )
    }
    fn counts_points(&self) -> bool {
        false
    }
}
