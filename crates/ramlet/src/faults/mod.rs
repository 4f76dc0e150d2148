//! What goes wrong in the program itself: panics, locks whose holder panicked, protocols broken on purpose.

pub mod locks;
pub mod mutants;
pub mod panics;
