//! What of making tokens is otherwise in tables that versions before made.

use super::fold::Folding;
use super::scripts::Runs;

/// How texts become tokens, beside what an index's parameters say: as now, or as they did when its tables were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cut {
    pub runs: Runs,
    pub folding: Folding,
}
