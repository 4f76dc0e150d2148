//! Protocols that are broken on purpose: the tests must notice each. `cargo xtask mutants` builds them by the feature `mutants`, which no binary has, and
//! turns one on at a time by `RAMLET_MUTANT`. Without the feature there is nothing of it in the program.

/// Whether this one is on.
#[cfg(feature = "mutants")]
pub fn is(name: &str) -> bool {
    use std::sync::LazyLock;
    static CHOSEN: LazyLock<String> = LazyLock::new(|| std::env::var("RAMLET_MUTANT").unwrap_or_default());
    *CHOSEN == name
}

#[cfg(not(feature = "mutants"))]
pub const fn is(_: &str) -> bool {
    false
}
