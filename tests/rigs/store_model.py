#!/usr/bin/env python3
"""The model of shards over an object store: schedules of owners that stall, die and meet late requests, and how many break the protocol.

    tests/rigs/store_model.py --schedules 1000000

The model (crates/ramlet-store/tests/it/model) runs the protocol of the crate. CI runs 4,000 schedules with the other tests.
First each rule is broken on purpose, and must be noticed. Exit code 1 when a schedule breaks the protocol, with its seed;
RAMLET_MODEL_TRACE=SEED then prints what takes effect in it.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(name, environment):
    command = ["cargo", "test", "--locked", "-p", "ramlet-store", "--test", "it", "--", "--exact", f"model::{name}", "--nocapture"]
    done = subprocess.run(command, text=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **environment})
    # What the harness says around it isn't needed.
    print("\n".join(line for line in done.stdout.splitlines() if "caught by" in line or "schedules:" in line or done.returncode), flush=True)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    a = parser.parse_args()
    start = time.monotonic()
    caught = run("each_mutant_is_caught", {})
    held = run("no_schedule_breaks_the_protocol", {"RAMLET_MODEL_SCHEDULES": str(a.schedules), "RAMLET_MODEL_SEED": str(a.seed)})
    print(f"{time.monotonic() - start:.0f} s")
    return 0 if caught and held else 1


if __name__ == "__main__":
    sys.exit(main())
