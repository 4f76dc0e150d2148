//! What of making tokens is otherwise in tables that versions before made.

use super::fold::Folding;
use super::scripts::Runs;
use super::stem;

/// How texts become tokens, beside what an index's parameters say: as now, or as they did when its tables were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    pub runs: Runs,
    pub folding: Folding,
    /// The revision of the stemming algorithms. Others than the present one aren't kept: tables of theirs are made anew.
    pub stems: u32,
}

impl Default for Cut {
    fn default() -> Cut {
        Cut {
            runs: Runs::default(),
            folding: Folding::default(),
            stems: stem::REVISION,
        }
    }
}
