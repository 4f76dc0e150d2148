#!/usr/bin/env python3
"""kill -9 in the middle of work, again and again, with an exact check of the history.

    tests/rigs/kill.py --cycles 100 --memory 64MB

Two writers, a clerk (aliases, collections, settings, payload indexes) and an archivist (snapshots, restored beside) work while the server
is killed: while it writes, flushes, merges, sometimes while it recovers. After each restart everything must be as it was acknowledged:
tests/harness/history.py says what that is. A killed process loses no page cache: tests/rigs/power_loss.py cuts the power.
Prints one line of JSON; exit code 1 when something acknowledged is lost, or something is there that was never sent.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import crashes  # noqa: E402
from harness.history import summary  # noqa: E402
from harness.server import Server  # noqa: E402


def run(cycles, memory, seed, directory, say=print, arguments=(), tamper=None):
    server = Server(Path(directory) / "data", memory=memory, arguments=arguments)
    try:
        return crashes.run(server, server.kill, cycles, seed, say, tamper)
    finally:
        server.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--memory", default="48MB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", default="auto")
    a = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="ramlet-kill-")
    figures, wrong = run(a.cycles, a.memory, a.seed, directory, arguments=["--backend", a.backend])
    print(summary({**vars(a), **figures}))
    if wrong:
        print(f"the data is kept in {directory}", file=sys.stderr)
        sys.exit(1)
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
