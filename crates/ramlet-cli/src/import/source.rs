//! What is imported: a stream of points, each already the text that the API takes.

use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use ramlet_bench::files::Distance;

use super::ids::Numbering;
use super::value_range::ValueRange;

/// The vectors of the points, by name; `""` is the unnamed one. Empty when the points have none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// With their dimensions.
    pub dense: Vec<(String, usize)>,
    pub sparse: Vec<String>,
}

impl Layout {
    pub fn of_rows(dim: usize) -> Layout {
        Layout {
            dense: vec![(String::new(), dim)],
            sparse: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.dense.is_empty() && self.sparse.is_empty()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dense = self.dense.iter().map(|(name, dim)| match name.as_str() {
            "" => format!("{dim} dimensions"),
            name => format!("'{name}' of {dim} dimensions"),
        });
        let sparse = self.sparse.iter().map(|name| format!("'{name}' (sparse)"));
        let all: Vec<String> = dense.chain(sparse).collect();
        match all.is_empty() {
            true => f.write_str("no vectors"),
            false => f.write_str(&all.join(", ")),
        }
    }
}

/// What points have to be like for the collection that they go into.
#[derive(Debug, Clone, Default)]
pub struct Target {
    pub numbering: Numbering,
    /// Rows are numbered whether they have ids or not, as somebody chose.
    pub numbers_all: bool,
    /// Rows of the files before.
    pub first_row: u64,
    /// Of dense vectors, where they hold less than an f32.
    pub ranges: Vec<(String, ValueRange)>,
    /// The collection was made for vectors as the first point has them: all must have some.
    pub needs_vectors: bool,
    /// Fields that are looked out for.
    pub fields: Vec<String>,
}

/// Where a point stands in its file.
#[derive(Debug, Clone)]
pub struct At {
    pub file: Arc<str>,
    /// `line`, or `row`.
    pub unit: &'static str,
    pub number: u64,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.file, self.unit, self.number)
    }
}

/// Points in order.
pub trait Source {
    fn layout(&self) -> &Layout;
    /// Whether points have ids of their own, as the first shows.
    fn has_ids(&self) -> bool {
        false
    }
    /// Why no collection can be made by [`Source::layout`], if so.
    fn check_pattern(&self) -> Result<()> {
        Ok(())
    }
    /// The distance that the file itself names.
    fn distance(&self) -> Option<Distance> {
        None
    }
    /// The name that the file has for a distance that the API hasn't.
    fn unknown_distance(&self) -> Option<&str> {
        None
    }
    /// True when `uint8` storage loses nothing.
    fn is_u8(&self) -> bool {
        false
    }
    /// A list of numbers that becomes payload, and looks like a vector: its field, and the numbers in it.
    fn stray_vector(&self) -> Option<(&str, usize)> {
        None
    }
    /// Points are for this from now on.
    fn aim(&mut self, target: Target);
    /// Leaves out the first `points`; returns how many there were.
    fn skip(&mut self, points: u64) -> Result<u64>;
    /// Appends `{"id":..,"vector":..,"payload":..}` of the next point; false at the end.
    fn read(&mut self, out: &mut Vec<u8>) -> Result<bool>;
    /// Where the point stands that was read last.
    fn at(&self) -> At;
    /// Fields of [`Target::fields`] that no point had so far.
    fn unseen(&self) -> Vec<String>;
    /// How far it is read and how far it goes, in a unit of its own: points, or bytes of a file without a count.
    fn progress(&self) -> (u64, u64);
    /// Whether the unit of [`Source::progress`] is points.
    fn counts_points(&self) -> bool;
}
