#!/usr/bin/env python3
"""kill -9 in the middle of work, again and again, with an exact check of the history.

    tests/e2e/crash_kill9.py --cycles 100 --memory 64MB

Writers send one operation at a time: upserts of whole points, changes of payload, deletes, each on points of their own. A writer knows
the state after its last acknowledged operation, and the one operation that was under way when the server died. After the restart every
point must be in the one state or the other: an acknowledged change that is missing, or a state that was never sent, is a violation.
The server is killed while it writes, flushes and merges, and sometimes while it recovers. A killed process loses no page cache: what a
power loss does is tested on the simulated disk (crates/ramlet-io).
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.http import Answer  # noqa: E402
from harness.server import Server  # noqa: E402

NAME, DIM, WRITERS, IDS = "crash", 16, 2, 400


class Writer:
    """One client and what it knows. A point's state is its version (and a mark set by a payload change), or None: not there."""

    def __init__(self, number, seed):
        self.number, self.rng = number, random.Random(seed * 100 + number)
        self.known = {}
        self.pending = {}
        self.version = 0
        self.acknowledged = 0
        self.error = None

    def operation(self):
        """(method, path, body, changes): what is sent, and the state of each point after it."""
        rng, base = self.rng, self.number * 1_000_000
        self.version += 1
        ids = [base + n for n in rng.sample(range(IDS), rng.choice([1, 5, 40, 100]))]
        wait = f"?wait={rng.choice(['true', 'false'])}"
        kind = rng.random()
        if kind < 0.65:
            body = {"points": [self.point(i, self.version) for i in ids]}
            return "PUT", f"/points{wait}", body, {i: (self.version, None) for i in ids}
        if kind < 0.85:
            there = [i for i in ids if self.known.get(i)]
            if there:
                body = {"payload": {"mark": self.version}, "points": there}
                return "POST", f"/points/payload{wait}", body, {i: (self.known[i][0], self.version) for i in there}
        return "POST", f"/points/delete{wait}", {"points": ids}, dict.fromkeys(ids)

    def point(self, point, version):
        # The padding makes segments fill up, so that kills meet flushes and merges too.
        padding = "x" * self.rng.choice([0, 100, 3000])
        return {"id": point, "vector": vector(point, version), "payload": {"version": version, "padding": padding}}

    def run(self, server, stop):
        http = server.http(timeout=60)
        try:
            while not stop.is_set():
                method, path, body, self.pending = self.operation()
                http.call(method, f"/collections/{NAME}{path}", body)
                self.known.update(self.pending)
                self.pending = {}
                self.acknowledged += 1
        except Answer as refused:
            # Nothing that is sent here may be refused for good while the server lives.
            self.error = f"writer {self.number}: {refused}"
        except Exception:  # noqa: BLE001  the server was killed
            pass
        finally:
            http.close()


def vector(point, version):
    return [float(version), float(point % 1000)] + [float((point + version + n) % 97) for n in range(DIM - 2)]


def read_all(server):
    """Every point of the collection, by pages: its state, and what is inconsistent in itself."""
    http, found, wrong, offset = server.http(), {}, [], None
    while True:
        body = {"limit": 500, "with_payload": True, "with_vector": True, "offset": offset}
        page = http.result("POST", f"/collections/{NAME}/points/scroll", body)
        for point in page["points"]:
            payload = point["payload"]
            found[point["id"]] = (payload.get("version"), payload.get("mark"))
            if point["vector"] != vector(point["id"], payload.get("version") or 0):
                wrong.append(f"point {point['id']}: the vector is not of version {payload.get('version')}")
        offset = page["next_page_offset"]
        if offset is None:
            break
    count = http.result("POST", f"/collections/{NAME}/points/count", {"exact": True})["count"]
    if count != len(found):
        wrong.append(f"count says {count}, a scroll finds {len(found)}")
    http.close()
    return found, wrong


def segments(server):
    """Segments on disk now: tells that flushes were met."""
    http = server.http()
    count = http.get(f"/collections/{NAME}")["result"]["segments_count"]
    http.close()
    return count


def check(writers, found, wrong):
    """Violations; afterwards the writers know what is there."""
    violations, torn = list(wrong), 0
    owned = set()
    for writer in writers:
        done, undone = 0, 0
        for point in {**writer.known, **writer.pending}:
            owned.add(point)
            state, before = found.get(point), writer.known.get(point)
            allowed = [before]
            if point in writer.pending:
                after = writer.pending[point]
                allowed.append(after)
                if before != after:
                    done, undone = done + (state == after), undone + (state == before)
            if state not in allowed:
                violations.append(f"point {point} is {state}, allowed: {allowed}")
            writer.known[point] = state
        torn += bool(done and undone)
        writer.pending = {}
    strangers = [point for point in found if point not in owned]
    violations += [f"point {point} was never sent" for point in strangers[:10]]
    return violations, torn


def run(cycles, memory, seed, directory, say=print, arguments=()):
    """Runs the cycles; returns the figures. Stops at the first violation, with the data kept."""
    rng = random.Random(seed)
    server = Server(Path(directory) / "data", memory=memory, arguments=arguments).start()
    http = server.http()
    http.call("PUT", f"/collections/{NAME}", {"vectors": {"size": DIM, "distance": "Dot"}})
    http.call("PUT", f"/collections/{NAME}/index?wait=true", {"field_name": "version", "field_schema": "integer"})
    http.close()
    writers = [Writer(n, seed) for n in range(WRITERS)]
    figures = {"cycles": 0, "acknowledged": 0, "in_flight_at_kill": 0, "torn": 0, "killed_while_starting": 0}
    figures |= {"segments_max": 0, "restart_s_max": 0.0}
    violations = []
    try:
        for cycle in range(cycles):
            stop = threading.Event()
            threads = [threading.Thread(target=w.run, args=(server, stop)) for w in writers]
            for thread in threads:
                thread.start()
            time.sleep(rng.choice([rng.uniform(0.01, 0.2), rng.uniform(0.2, 2.5)]))
            server.kill()
            stop.set()
            for thread in threads:
                thread.join()
            figures["in_flight_at_kill"] += sum(bool(w.pending) for w in writers)
            if rng.random() < 0.25:
                # Killed again while it recovers.
                try:
                    server.start(timeout=rng.uniform(0.005, 0.3))
                except TimeoutError:
                    figures["killed_while_starting"] += 1
                server.kill()
            started = time.monotonic()
            server.start()
            figures["restart_s_max"] = round(max(figures["restart_s_max"], time.monotonic() - started), 3)
            figures["segments_max"] = max(figures["segments_max"], segments(server))
            found, wrong = read_all(server)
            violations, torn = check(writers, found, wrong)
            violations += [w.error for w in writers if w.error]
            figures["torn"] += torn
            figures["cycles"] = cycle + 1
            figures["acknowledged"] = sum(w.acknowledged for w in writers)
            if violations:
                say(f"cycle {cycle}: {len(violations)} violations")
                for line in violations[:20]:
                    say(f"  {line}")
                say(server.log())
                break
            if (cycle + 1) % 10 == 0:
                say(f"{cycle + 1} cycles, {figures['acknowledged']:,} operations acknowledged, {len(found)} points, 0 violations")
    finally:
        server.kill()
    code, said = server.check()
    if code != 0:
        violations.append(said)
        say(f"ramlet check: {said}")
    return {**figures, "violations": len(violations)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--memory", default="64MB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", default="auto")
    arguments = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="ramlet-crash-")
    figures = run(arguments.cycles, arguments.memory, arguments.seed, directory, arguments=["--backend", arguments.backend])
    print(json.dumps({**vars(arguments), **figures}))
    if figures["violations"]:
        print(f"the data is kept in {directory}")
        sys.exit(1)
    import shutil

    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
