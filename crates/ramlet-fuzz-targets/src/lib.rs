//! What fuzzers feed bytes to: one function per target, the valid inputs that the corpus begins with, and the watch over panics.
//!
//! Stable Rust and no fuzzer: `cargo test` runs each target over its corpus (`fuzz/corpus/TARGET/`) and over mutations of it, and the
//! binaries in `fuzz/` give the same functions to libFuzzer. A target fails by a panic: of its own assertions, or of the code under it, also
//! where that code catches panics.
//!
//! A file's bytes lie behind checksums, and a fuzzer that must guess them tests nothing else. So each target makes the checksums right
//! before it decodes; how is said in its file. Once without that is enough: then they must be noticed, or the bytes are as they were.

mod blocks;
mod checksum;
mod directory;
mod files;
mod filter;
mod input;
mod log;
mod mutate;
#[cfg(test)]
mod released;
mod sample;
mod server;
mod snapshot;
mod text;
mod watch;
mod whole;

pub use input::Random;
pub use mutate::mutate;

/// A valid input, by its file's name in the corpus.
pub type Seed = (&'static str, Vec<u8>);

/// Something that takes bytes of anybody.
pub struct Target {
    /// Of its binary and of its corpus.
    pub name: &'static str,
    /// Bytes of heap that it may hold at once, beside eight times those of its input.
    pub memory_bytes_max: usize,
    /// Inputs that the code's own writers make.
    pub seeds: fn() -> Vec<Seed>,
    run: fn(&[u8]),
}

const fn target(
    name: &'static str,
    memory_bytes_max: usize,
    seeds: fn() -> Vec<Seed>,
    run: fn(&[u8]),
) -> Target {
    Target {
        name,
        memory_bytes_max,
        seeds,
        run,
    }
}

/// All targets, in the order of the crates that they are about.
pub const TARGETS: &[Target] = &[
    target("rows", MB, blocks::rows_seeds, blocks::rows),
    target("records", MB, blocks::records_seeds, blocks::records),
    target("sorted", MB, blocks::sorted_seeds, blocks::sorted),
    target("bloom", MB, blocks::bloom_seeds, blocks::bloom),
    target("bitmap", MB, whole::bitmap_seeds, whole::bitmap),
    target("manifest", MB, whole::manifest_seeds, whole::manifest),
    target("catalog", MB, whole::catalog_seeds, whole::catalog),
    target("log", MB, log::seeds, log::run),
    target("snapshot", 64 * MB, snapshot::seeds, snapshot::run),
    target("directory", 64 * MB, directory::seeds, directory::run),
    target("text", 4 * MB, text::seeds, text::run),
    target("filter", 4 * MB, filter::filter_seeds, filter::filter),
    target("payload", 4 * MB, filter::payload_seeds, filter::payload),
    target("vectors", MB, files::vectors_seeds, files::vectors),
    target("hdf5", 16 * MB, files::hdf5_seeds, files::hdf5),
    target("npz", 4 * MB, files::npz_seeds, files::npz),
    target("jsonl", 96 * MB, files::jsonl_seeds, files::jsonl),
    target("json", 96 * MB, files::json_seeds, files::json),
    target("csv", 96 * MB, files::csv_seeds, files::csv),
    target("query", 64 * MB, server::query_seeds, server::query),
    target("update", 64 * MB, server::update_seeds, server::update),
    target("body", 64 * MB, server::body_seeds, server::body),
    target("grpc", 64 * MB, server::grpc_seeds, server::grpc),
];

const MB: usize = 1 << 20;

impl Target {
    /// Panics if the code does, caught or not, or breaks its promises.
    pub fn run(&self, bytes: &[u8]) {
        watch::over(|| (self.run)(bytes));
    }
}

/// The target of this name.
///
/// # Panics
/// If there is none.
pub fn find(name: &str) -> &'static Target {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("there is no target `{name}`"))
}
