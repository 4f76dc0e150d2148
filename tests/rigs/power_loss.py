#!/usr/bin/env python3
"""The power fails in the middle of work, again and again, on a real file system, with an exact check of the history.

    tests/rigs/power_loss.py --cycles 25
    tests/rigs/power_loss.py --cycles 3 --forget-syncs      the same on a disk that lies: violations are expected, and exit code 0 if found

The data lies on an ext4 in a file, mounted through a loop device. While two writers, a clerk and an archivist work, the file system is
shut down without writing its journal (FS_IOC_SHUTDOWN, NOLOGFLUSH): what wasn't synced is gone, every call fails. Then the server is
killed, the file system unmounted, mounted again (which replays its journal), and the server started: tests/harness/history.py says what
must be there. Two in five cuts are followed by another one while the server recovers.
What it doesn't do: lose what the disk itself had taken, or tear a sector; the simulated disk does (tests/rigs/crash_states.py).
Needs root and loop devices. Prints one line of JSON; exit code 1 when something acknowledged is lost, or something is there that was
never sent.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import crashes, disk, faults  # noqa: E402
from harness.history import summary  # noqa: E402
from harness.server import Server  # noqa: E402


def run(cycles, memory, seed, work, say=print, forget_syncs=False, backend="auto", megabytes=1024, tamper=None):
    with disk.LoopDisk(work, megabytes) as drive:
        server = Server(drive.path / "data", memory=memory, arguments=["--backend", backend, "--no-probe"])
        server.log_path = Path(work) / "server.log"
        if forget_syncs:
            shim = faults.Faults(drive.path / "data", work)
            server.environment = shim.environment
            shim.arm(["fdatasync"], times=1 << 40, how=faults.PRETEND)

        def crash():
            drive.cut()
            server.kill()
            drive.unmount()
            drive.mount()

        try:
            figures, wrong = crashes.run(server, crash, cycles, seed, say, tamper)
        finally:
            server.kill()
        drive.unmount()
        sound, said = drive.check()
        if not sound:
            wrong.append(f"the file system itself is damaged: {said}")
        return {**figures, "violations": len(wrong)}, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=25)
    parser.add_argument("--memory", default="48MB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--forget-syncs", action="store_true", help="every fdatasync says it was done and does nothing")
    parser.add_argument("--work", help="directory for the disk's image [default: the temporary one]")
    a = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="ramlet-power-", dir=a.work))
    try:
        figures, wrong = run(a.cycles, a.memory, a.seed, work, forget_syncs=a.forget_syncs, backend=a.backend)
    except disk.CannotMake as why:
        sys.exit(f"no disk of our own: {why}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    given = {"cycles_wanted": a.cycles, "memory": a.memory, "seed": a.seed, "backend": a.backend, "forget_syncs": a.forget_syncs}
    print(summary({**given, **figures}))
    sys.exit(bool(wrong) != a.forget_syncs)


if __name__ == "__main__":
    main()
