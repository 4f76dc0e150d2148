#!/bin/sh
# ARM on another processor: builds the server for it, and runs the tests of the kernels (or others: arguments go to cargo test)
# under emulation. Speeds mean nothing there.
#
# Needs gcc-aarch64-linux-gnu and qemu-user (Debian's names), and the target's standard library: `rustup target add
# aarch64-unknown-linux-gnu`, or RUSTC set to a compiler that has it.
set -eu
cd "$(dirname "$0")/../.."
target=aarch64-unknown-linux-gnu
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v "$tool" >/dev/null || { echo "$tool is missing: apt-get install gcc-aarch64-linux-gnu qemu-user" >&2; exit 1; }
done
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
[ $# -gt 0 ] || set -- -p ramlet-kernels --tests
cargo build --release --target $target -p ramlet-cli
cargo test --release --target $target "$@"
