#!/usr/bin/env python3
"""A disk that fills up: during ingest, during a flush, a merge, a snapshot; then room is made, and the server goes on.

    tests/rigs/disk_full.py --rounds 3

The data lies on an ext4 of 256 MiB of its own. Ingest: writers send points until they are refused. The others: somebody else takes
the last byte in the middle of one. Each time: refusals are 503 or 507 with a sentence that has figures, or the system's word; the
process lives and no thread panics; reads are right; points are deleted; once there is room points are put again, without a restart.
After a restart everything acknowledged is there (tests/harness/history.py). Needs root and loop devices. Prints a line a scenario
and one of JSON; exit code 1 when there was a violation.
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import disk  # noqa: E402
from harness.history import NAME, History, check_indexes, lost, read, summary, told  # noqa: E402
from harness.http import Answer  # noqa: E402
from harness.server import Server  # noqa: E402

MEGABYTES = 256
# So much JSON that the disk is full after some thousand points.
PADDING, IDS, BATCHES = (2_000, 10_000, 40_000), 5_000, (1, 20, 40)
TIMEOUT_S = 60
# Free bytes with which there is room for a snapshot of what is there.
ROOMY = 160 << 20


class Scenario:
    def __init__(self, server, drive, history, say):
        self.server, self.drive, self.history, self.say, self.wrong = server, drive, history, say, []

    def refused(self):
        return sum(n for actor in self.history.actors for (status, _), n in actor.refused.items() if status != 429)

    def sentences(self):
        """Refusals name a cause: how much is free and wanted, or what the system said."""
        for sentence, times in self.history.refusals().items():
            if "#" not in sentence.partition(": ")[2]:
                self.wrong.append(f"refused without a figure, {times} times: {sentence}")

    def until(self, condition, what, timeout=TIMEOUT_S):
        give_up = time.monotonic() + timeout
        while not condition():
            if not self.server.alive():
                self.wrong.append(f"{what}: the server ended with {self.server.process.returncode}")
                return False
            if time.monotonic() > give_up:
                self.wrong.append(f"{what}: not within {timeout} s")
                return False
            time.sleep(0.02)
        return True

    def reads(self):
        """What is there, whatever it is, agrees with itself: nobody writes now."""
        http = self.server.http()
        try:
            found = read(http, NAME, self.wrong, PADDING)
            check_indexes(http, NAME, found, self.history.rng, self.wrong)
            History.check_anchor(http, self.wrong)
        except Answer as answer:
            self.wrong.append(f"a read is refused on a full disk: {answer}")
        finally:
            http.close()

    def deletes(self, share):
        """Points are deleted on a full disk, by both writers."""
        http = self.server.http()
        for writer in self.history.writers:
            there = [p for p, state in writer.known.items() if state and p not in writer.doubtful]
            chosen = there[: max(int(len(there) * share), 1)]
            for at in range(0, len(chosen), 500):
                ids = chosen[at : at + 500]
                try:
                    writer.send(http, "POST", "/points/delete?wait=true", {"points": ids}, dict.fromkeys(ids))
                except Answer as answer:
                    self.wrong.append(f"a delete is refused on a full disk: {answer}")
        http.close()

    def goes_on(self):
        """Points are put again, without a restart."""
        http, writer, last = self.server.http(), self.history.writers[0], None

        def put():
            nonlocal last
            state = (writer.version + 1, None, writer.version + 1)
            point = next(p for p in range(writer.ids) if p not in writer.doubtful)
            try:
                writer.version += 1
                writer.send(http, "PUT", "/points?wait=true", {"points": [writer.point(point, state)]}, {point: state})
                return True
            except Answer as answer:
                last = answer
                return False

        started = time.monotonic()
        fine = self.until(put, "points are put again")
        http.close()
        if not fine:
            self.wrong.append(f"the last refusal: {last}")
        return time.monotonic() - started

    def ingest(self):
        """Writers fill it until they are refused; then half is deleted, which makes room."""
        self.history.begin(self.server)
        self.history.breaks()
        before = self.refused()
        # Grows: few deletes.
        self.until(lambda: self.refused() > before + 3, "the disk fills up", 120)
        self.history.end()
        free = self.drive.free()
        self.settle()
        self.reads()
        self.deletes(0.6)
        return f"refused with {free >> 20} MiB free; put again {self.goes_on():.1f} s after 60 % were deleted"

    def newest(self):
        """The number of the newest segment that is being written, or was."""
        directory = self.server.data / "c00000000"
        return max((int(f.name[:8]) for f in directory.iterdir() if f.name[:8].isdigit()), default=0)

    def flush(self):
        """Somebody takes the last byte while a segment is written and points come."""
        before, start = self.refused(), self.newest()
        self.history.begin(self.server)
        self.history.breaks()
        self.until(lambda: self.newest() > start, "a segment is written")
        self.drive.fill()
        self.until(lambda: self.refused() > before or self.drive.free() > 1 << 20, "a refusal, or room again")
        time.sleep(1)
        self.history.end()
        refused = self.refused() - before
        self.settle()
        self.reads()
        self.deletes(0.02)
        self.drive.give_back()
        return f"{refused} operations refused; put again {self.goes_on():.1f} s after there was room"

    def merge(self):
        """The same while segments are merged for what was deleted of them, and nobody writes."""
        start = self.newest()
        self.deletes(0.35)
        self.until(lambda: self.newest() > start, "segments are merged")
        self.drive.fill()
        free = self.drive.free()
        time.sleep(0.5)
        self.reads()
        self.deletes(0.02)
        self.drive.give_back()
        return f"{free >> 10} KiB free; put again {self.goes_on():.1f} s after there was room"

    def snapshot(self):
        """Somebody takes the last byte while a snapshot is written; with room the next one is whole."""
        if self.drive.free() < ROOMY:
            self.deletes(0.6)
            self.until(lambda: self.drive.free() >= ROOMY, "deleted points give their room back")
        http, answers = self.server.http(), []

        def take():
            own = self.server.http()
            try:
                answers.append(own.result("POST", f"/collections/{NAME}/snapshots", retry=True))
            except Answer as answer:
                answers.append(answer)
            own.close()

        thread = threading.Thread(target=take)
        thread.start()
        files = self.server.data / "snapshots"
        self.until(lambda: any(files.rglob("*.tmp")) or answers, "a snapshot is written")
        self.drive.fill()
        thread.join(TIMEOUT_S)
        if not answers:
            self.wrong.append(f"a snapshot on a full disk has had no answer for {TIMEOUT_S} s")
        elif isinstance(answers[0], Answer):
            if answers[0].status not in (500, 503, 507) or not answers[0].sentence():
                self.wrong.append(f"a snapshot is refused as it shouldn't be: {answers[0]}")
        self.reads()
        self.drive.give_back()
        if left := [f.name for f in files.rglob("*.tmp")]:
            self.wrong.append(f"a snapshot that failed leaves {left}")
        listed = {s["name"] for s in http.result("GET", f"/collections/{NAME}/snapshots")}
        told_of = {a["name"] for a in answers if isinstance(a, dict)}
        if listed != told_of:
            self.wrong.append(f"snapshots listed: {listed}, acknowledged: {told_of}")
        for name in listed:
            http.call("DELETE", f"/collections/{NAME}/snapshots/{name}")
        taken = http.result("POST", f"/collections/{NAME}/snapshots")
        http.call("DELETE", f"/collections/{NAME}/snapshots/{taken['name']}")
        http.close()
        said = f"refused: {answers[0].status}" if answers and isinstance(answers[0], Answer) else "done before"
        return f"{said}; the next one, of {taken['size'] >> 20} MiB, is whole; put again {self.goes_on():.1f} s later"

    def settle(self):
        """What was refused is read: as it is now it must stay."""
        http = self.server.http()
        try:
            found = read(http, NAME, self.wrong, PADDING)
        except Answer as answer:
            self.wrong.append(f"a read is refused on a full disk: {answer}")
            return
        finally:
            http.close()
        for writer in self.history.writers:
            writer.check(found, self.wrong)

    def run(self, name):
        said = getattr(self, name)()
        self.sentences()
        for actor in self.history.actors:
            actor.errors, errors = [], actor.errors
            self.wrong += errors
        self.say(f"{name}: {said}; {len(self.wrong)} violations")


def run(rounds, seed, work, say=print, scenarios=("ingest", "flush", "merge", "snapshot"), memory="96MB", tamper=None):
    rng = random.Random(seed)
    history = History(seed, PADDING, IDS, BATCHES, snapshots=False, clerk=False)
    figures, wrong = {"rounds": 0, "acknowledged": 0, "lost": 0}, []
    with disk.LoopDisk(work, MEGABYTES) as drive:
        server = Server(drive.path / "data", memory, ["--no-probe"])
        server.log_path = Path(work) / "server.log"
        try:
            server.start()
            history.prepare(server)
            for n in range(rounds):
                for name in scenarios:
                    scenario = Scenario(server, drive, history, say)
                    scenario.run(name)
                    wrong = scenario.wrong
                    if server.alive() and rng.random() < 0.5:
                        server.stop()
                    server.kill()
                    if tamper:
                        tamper(server)
                    server.start()
                    wrong += history.check(server)
                    if "panicked at" in server.log(100_000):
                        wrong.append("a thread panicked")
                    if wrong:
                        break
                figures |= {"rounds": n + 1, "acknowledged": history.acknowledged(), "lost": lost(wrong)}
                if wrong:
                    break
        except (RuntimeError, TimeoutError) as error:
            wrong.append(f"no start: {str(error)[:1500]}")
        finally:
            server.kill()
        code, said = server.check()
        if code:
            wrong.append(f"ramlet check: {said}")
        if wrong:
            told(wrong, say, server)
    return {**figures, "violations": len(wrong)}, history.refusals(), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", help="directory for the disk's image [default: the temporary one]")
    a = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="ramlet-full-", dir=a.work))
    try:
        figures, refusals, wrong = run(a.rounds, a.seed, work)
    except disk.CannotMake as why:
        sys.exit(f"no disk of our own: {why}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for sentence, times in refusals.items():
        print(f"refused {times} times: {sentence}")
    print(summary({"rounds_wanted": a.rounds, "seed": a.seed, **figures}))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
