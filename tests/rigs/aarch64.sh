#!/bin/sh
# ARM on another processor: the tests of the kernels, and of memory and files with pages of 4, 16 and 64 KiB, under emulation. Speeds mean
# nothing there. Arguments go to cargo test instead (`-p ramlet-io --test it`); PAGES names other sizes.
# `tests/rigs/aarch64.sh server` builds the server and has it tell its version.
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
# Kernels for ARM have pages of up to 64 KiB; an allocator that was built for smaller ones ends at its start there.
export JEMALLOC_SYS_WITH_LG_PAGE=16
# Of these an emulator answers with figures of its own process, or ignores the advice (madvise).
skipped="--skip our_own_code_lies_in_portions --skip this_process_has_counts --skip it_costs_its_bytes_in_whole_pages"
# Reading its own symbols for a backtrace ends an emulator that has pages of another size.
export RUST_BACKTRACE=0
run() {
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu $1" cargo test --target $target $2
}
if [ "${1:-}" = server ]; then
    cargo build --release --target $target -p ramlet-cli
    for page in ${PAGES:-4096 16384 65536}; do
        echo "== pages of $page bytes"
        qemu-aarch64 -L /usr/aarch64-linux-gnu -p "$page" target/$target/release/ramlet --version
    done
    exit
fi
[ $# -gt 0 ] || run "" "-p ramlet-kernels --tests"
for page in ${PAGES:-4096 16384 65536}; do
    echo "== pages of $page bytes"
    run "-p $page" "${*:--p ramlet-memory -p ramlet-io --tests} -- $skipped"
done
