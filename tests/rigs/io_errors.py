#!/usr/bin/env python3
"""System calls that fail under a server at work (EIO, ENOSPC), one kind after another, with an exact check of the history.

    tests/rigs/io_errors.py --cycles 60
    tests/rigs/io_errors.py --only fdatasync

A library that is loaded before libc (tests/harness/faults.c) makes the nth write, fsync, fdatasync, rename, read, fallocate, open for
creation or unlink fail on files of the data directory: of the log, of segments, manifests, catalogs, snapshots. Reads fail with `--backend pread`
only: those by io_uring don't pass there. Two writers, a clerk and an archivist are at work (tests/harness/history.py). While the calls fail:
the process lives, no thread panics, refusals are 500, 503 or 507 with a sentence, another collection is read, and written where
the failing file isn't shared; whatever is answered of the collection is consistent. In a third of the cycles the same calls fail
in a start too. Then the calls work again, the server is stopped or killed, and after a start everything acknowledged must be there.
Prints a line for each kind of failure and one of JSON; exit code 1 when there was a violation.
"""

import argparse
import collections
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.faults import FAIL, SHORT, CannotMake, Faults  # noqa: E402
from harness.history import ANCHOR, NAME, History, check_indexes, lost, read, summary, told  # noqa: E402
from harness.http import Answer  # noqa: E402
from harness.server import Server  # noqa: E402

# Parts of paths: the collection's own files, and those that all share.
FILES = {
    "log": "c00000000/log-",
    "segment": "c00000000/0",
    "manifest": "c00000000/MANIFEST",
    "directory": "c00000000",
    "new log": "/log-",
    "any directory": "",
    "catalog": "/CATALOG",
    "snapshot": ".snapshot",
}
WRITTEN = ("log", "segment", "manifest", "catalog", "snapshot")
SHARED = ("any directory", "catalog")
FOREVER = 1 << 40
TIMEOUT_S = 8
# (call, files, error, how, how often)
CASES = [
    *[("write", f, e, FAIL, t) for f in WRITTEN for e in ("EIO", "ENOSPC") for t in (1, FOREVER)],
    *[("write", f, "ENOSPC", SHORT, FOREVER) for f in ("log", "segment", "snapshot")],
    *[("fdatasync", f, e, FAIL, t) for f in WRITTEN for e, t in (("EIO", 1), ("EIO", FOREVER), ("ENOSPC", 1))],
    *[("fsync", f, "EIO", FAIL, t) for f in ("directory", "any directory", "new log") for t in (1, FOREVER)],
    *[("rename", f, e, FAIL, 1) for f in ("manifest", "catalog", "snapshot") for e in ("EIO", "ENOSPC")],
    *[("fallocate", "new log", e, FAIL, t) for e, t in (("ENOSPC", 1), ("ENOSPC", FOREVER), ("EIO", 1))],
    *[("create", f, e, FAIL, t) for f in ("new log", "segment", "manifest", "catalog", "snapshot") for e, t in (("ENOSPC", 1), ("EIO", FOREVER))],
    *[("unlink", f, "EIO", FAIL, FOREVER) for f in ("segment", "manifest")],
    *[("read", f, "EIO", FAIL, t) for f in WRITTEN for t in (1, FOREVER)],
]


def served(server, wrong, writes):
    """The collection beside: read in any case, written where its files work."""
    http = server.http(timeout=TIMEOUT_S)
    try:
        History.check_anchor(http, wrong)
        if writes:
            point = {"points": [{"id": 7, "vector": [7, 1], "payload": {"n": 7}}]}
            http.call("PUT", f"/collections/{ANCHOR}/points?wait=true", point, retry=True)
    except Answer as answer:
        wrong.append(f"a collection whose files work is refused: {answer}")
    except (OSError, ValueError) as error:
        wrong.append(f"a collection whose files work isn't answered within {TIMEOUT_S} s: {error!r}")
    finally:
        http.close()


def consistent(server, history, wrong):
    """Answers while calls fail: refused, or such that all agree. Nobody writes."""
    http = server.http(timeout=30)
    try:
        found = read(http, NAME, wrong, history.padding)
        check_indexes(http, NAME, found, history.rng, wrong)
        return "answered"
    except Answer as answer:
        if answer.status not in (500, 503):
            wrong.append(f"a question is refused as it shouldn't be: {answer}")
        return "refused"
    except Exception as error:  # noqa: BLE001  an answer that is cut off
        if not server.alive():
            wrong.append(f"the server ended: {error!r}")
        return "cut off"
    finally:
        http.close()


def goes_on(server):
    """Whether the collection is written again without a restart, once the calls work: a write that changes nothing."""
    http = server.http(timeout=30)
    try:
        http.call("POST", f"/collections/{NAME}/points/delete?wait=true", {"points": [999_999_999]}, retry=True)
        return True
    except Answer:
        return False
    finally:
        http.close()


def failing_start(server, faults, case, rng, wrong):
    """The same calls fail while the server starts: it may close the collection, or refuse where all share the file; it may not panic, and
    may not harm what is there."""
    arm(faults, case, 0 if case[0] == "read" else rng.choice([0, 0, 1, rng.randrange(6)]))
    # It may be up and not ready: where writes have stopped.
    server.ready = lambda: answers(server)
    try:
        server.start(timeout=20)
        if not faults.hits:
            return "not met"
        http = server.http()
        became = what_became(http, case, wrong)
        http.close()
        if not is_shared(case) and case[1] != "new log":
            served(server, wrong, writes=False)
        return became
    except RuntimeError:
        if server.process.returncode < 0:
            wrong.append(f"a start ended by signal {-server.process.returncode}")
        # For want of disk it is refused (ADR 0051): there is nothing wrong with the collection.
        if not is_shared(case) and case[2] != "ENOSPC":
            wrong.append(f"a start is refused for one collection: {server.log(1)}")
        return "refused"
    except TimeoutError:
        wrong.append("a start hangs")
        return "hangs"
    finally:
        server.kill()
        faults.disarm()
        del server.ready


def what_became(http, case, wrong):
    """Of the collection whose calls failed. One that lacks disk is loaded when it is asked for and there is some (ADR 0067); until then it says so."""
    try:
        return "collection closed" if http.result("GET", f"/collections/{NAME}")["status"] == "red" else "up"
    except Answer as refused:
        if refused.status != 507 or case[2] != "ENOSPC":
            wrong.append(f"a collection isn't served after a start: {refused}")
        return "collection waits for disk"


def answers(server):
    http = server.http(timeout=5)
    try:
        return http.raw("GET", "/collections")[0] == 200
    except OSError:
        return False
    finally:
        http.close()


def is_shared(case):
    """Whether its failure is everybody's."""
    return case[1] in SHARED


def arm(faults, case, before):
    call, files, error, how, times = case
    faults.arm([call], error, FILES[files], before, times, how)


def cycle(server, faults, history, case, rng, lines):
    """One failure; violations."""
    wrong = []
    history.begin(server)
    time.sleep(rng.uniform(0.1, 0.5))
    history.breaks()
    arm(faults, case, rng.choice([0, 0, 1, rng.randrange(30)]))
    # What a start alone reads isn't waited for.
    in_starts = case[0] == "read" and case[1] in ("log", "manifest", "catalog")
    hit = faults.wait(0.05 if in_starts else 2.5)
    time.sleep(rng.uniform(0.1, 0.5))
    if hit:
        served(server, wrong, writes=not is_shared(case))
    history.end()
    if hit and case[0] == "read":
        lines["under reads that fail: " + consistent(server, history, wrong)] += 1
    if not server.alive():
        wrong.append(f"the server ended with {server.process.returncode}")
    faults.disarm()
    if hit and server.alive():
        lines["went on without a restart" if goes_on(server) else "stopped until a restart"] += 1
    where = faults.where
    if rng.random() < 0.5:
        server.kill()
    elif server.stop() != 0:
        wrong.append("a stop after failures isn't clean")
    if in_starts or (hit and rng.random() < 0.34):
        lines["a start with failures: " + failing_start(server, faults, case, rng, wrong)] += 1
    server.start()
    wrong += history.check(server)
    if "panicked at" in server.log(100_000):
        wrong.append("a thread panicked")
    return hit, where, wrong


def run(cycles, seed, work, say=print, only=(), memory="48MB"):
    rng, work = random.Random(seed), Path(work)
    cases = [c for c in CASES if not only or c[0] in only or c[1] in only]
    rng.shuffle(cases)
    faults, history = Faults(work / "data", work), History(seed)
    server = Server(work / "data", memory, environment=faults.environment)
    figures, refusals, violations = collections.Counter(), collections.defaultdict(collections.Counter), []
    started = False
    try:
        for n in range(cycles):
            case = cases[n % len(cases)]
            backend = ["--backend", "pread" if case[0] == "read" or n % 2 else "auto"]
            server.kill()
            server.log_path.unlink(missing_ok=True)
            server.arguments = ["--no-probe", *backend]
            try:
                server.start()
                if not started:
                    history.prepare(server)
                    started = True
                lines = collections.Counter()
                hit, where, wrong = cycle(server, faults, history, case, rng, lines)
            except (RuntimeError, TimeoutError) as error:
                hit, where, wrong, lines = False, faults.where, [f"no start: {str(error)[:1500]}"], {}
            figures["cycles"] += 1
            figures["hit"] += hit
            call, files, error, how, times = case
            what = f"{call} of {files}: {error}{', after half of it' if how == SHORT else ''}{', for good' if times > 1 else ''}"
            for actor in history.actors:
                refusals[what].update({f"{status}": n for (status, _), n in actor.refused.items()})
                actor.refused = {}
            for line, times in lines.items():
                refusals[what][line] += times
            refusals[what]["hit" if hit else "not met"] += 1
            if wrong:
                # The check has settled what is there: the next failure is a case of its own.
                figures["lost"] += lost(wrong)
                refusals[what]["violations"] += len(wrong)
                say(f"{what} ({where}, {' '.join(backend)}):")
                told(wrong, say, server, most=5)
                violations += wrong
                if not server.alive():
                    break
    finally:
        faults.disarm()
        server.kill()
    code, said = server.check()
    if code:
        violations.append(f"ramlet check: {said}")
    faults.close()
    figures["acknowledged"] = history.acknowledged()
    return {**figures, "lost": figures["lost"], "violations": len(violations)}, refusals, violations


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=len(CASES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="calls (write, fdatasync, fsync, rename, read, fallocate, create, unlink) or files")
    a = parser.parse_args()
    work = tempfile.mkdtemp(prefix="ramlet-io-errors-")
    try:
        figures, refusals, wrong = run(a.cycles, a.seed, work, only=set(filter(None, a.only.split(","))))
    except CannotMake as why:
        sys.exit(f"no calls can be made to fail here: {why}")
    for what in sorted(refusals):
        print(f"{what}: {json.dumps(refusals[what], sort_keys=True)}")
    print(summary({**vars(a), **figures}))
    if wrong:
        print(f"the data is kept in {work}", file=sys.stderr)
        sys.exit(1)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
