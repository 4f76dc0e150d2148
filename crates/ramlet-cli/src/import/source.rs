//! What is imported: a stream of points, each already the text that the API takes.

use anyhow::Result;
use ramlet_bench::files::Distance;

/// The plain vectors of the points: (name, dimension). `""` is the unnamed one; empty when the points have none.
pub type Layout = Vec<(String, usize)>;

/// Points in order.
pub trait Source {
    fn layout(&self) -> &Layout;
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
    /// A collection is made with [`Source::layout`]: fails when it doesn't tell all, and points without such vectors are wrong
    /// from now on.
    fn settle_layout(&mut self) -> Result<()> {
        Ok(())
    }
    /// Leaves out the first `points`.
    fn skip(&mut self, points: u64) -> Result<()>;
    /// Appends `{"id":..,"vector":..,"payload":..}` of the next point; false at the end.
    fn read(&mut self, out: &mut Vec<u8>) -> Result<bool>;
    /// How far it is read and how far it goes, in a unit of its own: points, or bytes of a file without a count.
    fn progress(&self) -> (u64, u64);
    /// Whether the unit of [`Source::progress`] is points.
    fn counts_points(&self) -> bool;
}
