#!/usr/bin/env python3
"""Power loss on the simulated disk at every moment of several workloads: how many states are looked at, and what is wrong.

    tests/rigs/crash_states.py --seconds 60

Runs the tests of crates/ramlet/tests/it/crash with other seeds than `cargo test` has, more states of each moment, and until the time is over.
One process for each core: threads of one process would wait for each other's mappings of memory. Prints a line for each workload, then the sum:

states          pairs of a moment and of what the disk may hold after it; each is compared with what was acknowledged by then
distinct disks  of these, different from each other in a name, a length or a byte, within one history; each is opened and read once
second lives    disks on which the engine went on: an update, a flush, a restart or another power loss

Exit code 1 when something acknowledged is lost, or something is there that was never sent.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = ["ingest", "indexes", "snapshots", "shard_keys", "recovery", "second_life"]
LINE = re.compile(r"crash states of .*: (\d+) histories, (\d+) states, (\d+) distinct disks, (\d+) went on")
ROW = "{:12} {:>9} {:>9} {:>14} {:>12} {:>10} {:>8} {:>13} {:>15}"


def built():
    """The tests of the engine, optimised as what people run is."""
    command = ["cargo", "test", "--release", "-p", "ramlet", "--locked", "--test", "it", "--no-run", "--message-format", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True)
    messages = map(json.loads, filter(lambda line: line.startswith("{"), done.stdout.splitlines()))
    return [message["executable"] for message in messages if message.get("executable")][-1]


def run(tests, workload, seconds, seed):
    """Its figures and how long it took; what it printed when something was wrong."""
    environment = {**os.environ, "RAMLET_CRASH_SECONDS": str(seconds), "RAMLET_CRASH_SEED": str(seed)}
    command = [tests, f"crash::{workload}", "--exact", "--nocapture"]
    start = time.monotonic()
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=ROOT / "crates/ramlet"
    )
    took = time.monotonic() - start
    figures = LINE.search(done.stdout)
    if done.returncode or not figures:
        return None, took, done.stdout
    return list(map(int, figures.groups())), took, ""


def row(name, figures, violations, seconds):
    histories, states, distinct, lives = figures
    rates = [f"{count * 60 / seconds:,.0f}" for count in (states, distinct)]
    counts = [f"{count:,}" for count in (histories, states, distinct, lives, violations)]
    print(ROW.format(name, *counts, f"{seconds:.1f}", *rates), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="all workloads together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    a = parser.parse_args()
    tests = built()
    share = a.seconds * a.cores / len(WORKLOADS)
    titles = ["histories", "states", "distinct disks", "second lives", "violations", "seconds", "states/minute", "distinct/minute"]
    print(ROW.format("workload", *titles), flush=True)
    total, violations = [0] * 4, 0
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with ThreadPoolExecutor(a.cores) as pool:
        runs = pool.map(lambda workload: run(tests, workload, share, a.seed), WORKLOADS)
        for workload, (figures, took, printed) in zip(WORKLOADS, runs):
            if figures is None:
                violations += 1
                print(f"{workload}: a violation\n{printed}", flush=True)
                continue
            total = [sum(pair) for pair in zip(total, figures)]
            row(workload, figures, 0, took)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    row("all", total, violations, seconds)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{a.cores} processes, {processor:.1f} s of processor, of {seconds * a.cores:.1f} s that {a.cores} cores have")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
