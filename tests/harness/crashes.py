"""Crash after crash of one server under work, and after each the whole history checked. What a crash is, is the caller's."""

import random
import time

from .history import History, lost, told

# So many of the crashes are followed by another one while the server recovers.
AGAIN = 0.4


def run(server, crash, cycles, seed, say=print, tamper=None):
    """Starts the server on an empty directory. `crash()` ends it, whatever it does; `tamper(server)` changes what lies there behind the
    oracle's back, for tests of the oracle. Stops at the first violation; returns figures and violations."""
    rng, history = random.Random(seed), History(seed)
    figures = {"cycles": 0, "again_in_recovery": 0, "in_flight": 0, "torn": 0, "acknowledged": 0, "lost": 0}
    figures |= {"segments_max": 0, "snapshots": 0, "restart_s_max": 0.0}
    server.start()
    history.prepare(server)
    wrong = []
    for cycle in range(cycles):
        history.begin(server)
        time.sleep(rng.choice([rng.uniform(0.02, 0.3), rng.uniform(0.3, 2.5)]))
        history.breaks()
        crash()
        history.end()
        figures["in_flight"] += history.under_way()
        if rng.random() < AGAIN:
            try:
                server.start(timeout=rng.uniform(0.003, 0.04))
            except TimeoutError:
                figures["again_in_recovery"] += 1
            crash()
        if tamper:
            tamper(server)
        started = time.monotonic()
        try:
            server.start()
            figures["restart_s_max"] = round(max(figures["restart_s_max"], time.monotonic() - started), 3)
            wrong = history.check(server)
        except (RuntimeError, TimeoutError) as error:
            wrong = [f"no start: {str(error)[:2000]}"]
        if not wrong:
            http = server.http()
            figures["segments_max"] = max(figures["segments_max"], http.get("/collections/history")["result"]["segments_count"])
            http.close()
        figures["cycles"], figures["acknowledged"] = cycle + 1, history.acknowledged()
        figures["snapshots"], figures["torn"] = len(history.archivist.known), history.torn
        if wrong:
            break
        if (cycle + 1) % 5 == 0:
            say(f"{cycle + 1} cycles, {figures['acknowledged']:,} operations acknowledged, 0 violations")
    server.kill()
    code, said = server.check()
    if code != 0:
        wrong.append(f"ramlet check: {said}")
    if "panicked" in server.log(lines=100_000):
        wrong.append("a thread panicked")
    if wrong:
        told(wrong, say, server)
    return {**figures, "lost": lost(wrong), "violations": len(wrong)}, wrong
