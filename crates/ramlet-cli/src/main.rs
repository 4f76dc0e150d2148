//! The `ramlet` binary.

use std::process::ExitCode;

/// In the binary only, never in a library: see docs/memory.md for its settings and why.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match ramlet_cli::run() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
