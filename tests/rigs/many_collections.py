#!/usr/bin/env python3
"""Thousands of collections in little memory: made, filled, asked at random, restarted, killed, compared, in a cgroup of exactly the budget.

    tests/rigs/many_collections.py --collections 10000 --memory 64

Every collection holds a few points. Prints one line of JSON: times of creation, writes and queries in milliseconds (median, 99th percentile, longest),
how long starts take, how long until all collections have been opened once, the peak of the cgroup, kills by the kernel. Exit code 1 when something
acknowledged is lost.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.cgroup import MemoryCgroup  # noqa: E402
from harness.crowd import Crowd  # noqa: E402
from harness.history import summary  # noqa: E402
from harness.server import Server  # noqa: E402


def say(what):
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def seconds(act):
    started = time.monotonic()
    act()
    return round(time.monotonic() - started, 2)


def disk_bytes(directory):
    return sum(path.stat().st_blocks * 512 for path in Path(directory).rglob("*"))


def run(a, server, group):
    crowd, figures = Crowd(server, a.collections, a.seed), {}
    figures["create_seconds"] = seconds(lambda: crowd.create(say))
    say(f"made in {figures['create_seconds']} s; peak {group.peak()}")
    figures["disk_bytes_each"] = disk_bytes(server.data) // a.collections
    figures["create_ms"], figures["first_put_ms"] = crowd.milliseconds()["create"], crowd.milliseconds()["put"]
    crowd.times = {what: [] for what in crowd.times}
    figures["random_per_second"] = round(crowd.work(a.clients, a.operations))
    figures["random_ms"] = crowd.milliseconds()
    say(f"asked at random: {figures['random_ms']}, {figures['random_per_second']} a second")
    crowd.times = {what: [] for what in crowd.times}
    figures["hot_per_second"] = round(crowd.work(a.clients, a.operations, hot=0.95))
    figures["hot_ms"] = crowd.milliseconds()
    say(f"95 % to a hundredth of them: {figures['hot_ms']}, {figures['hot_per_second']} a second")
    server.stop()
    figures["start_seconds"] = seconds(server.start)
    figures["seen_seconds"] = seconds(lambda: wait_seen(crowd))
    say(f"started in {figures['start_seconds']} s, all opened after {figures['seen_seconds']} s")
    crowd.check()
    for _ in range(a.kills):
        crowd.killed(seconds=2)
    crowd.check(every=7)
    figures["peak_bytes"], figures["oom_kills"] = group.peak(), group.oom_kills()
    figures["refused_for_now"] = crowd.waited
    return figures


def wait_seen(crowd):
    while crowd.metric("ramlet_collections_unseen") > 0:
        time.sleep(0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collections", type=int, default=10_000)
    parser.add_argument("--memory", type=int, default=64, help="MB")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--operations", type=int, default=2_000, help="of each client")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="ramlet-collections-")
    with MemoryCgroup(a.memory * 1_000_000) as group:
        server = Server(Path(directory) / "data", memory=None, cgroup=group)
        try:
            server.start()
            figures = run(a, server, group)
        finally:
            server.kill()
    print(summary({**vars(a), **figures}))
    shutil.rmtree(directory)
    sys.exit(figures["oom_kills"] > 0)


if __name__ == "__main__":
    main()
