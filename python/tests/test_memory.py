"""The promise, in a real memory cgroup: interpreter and numpy, named apart, and the budget."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).parents[2] / "tests" / "harness" / "cgroup.py"
MB = 1_000_000

CHILD = """
import json, sys, threading, time
import numpy as np
import ramlet

def anon():
    status = open("/proc/self/status").read()
    return int(status.split("RssAnon:")[1].split()[0]) * 1024

path, memory, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
queries = rng.standard_normal((500, 64), dtype=np.float32)
rows = rng.standard_normal((2_000, 64), dtype=np.float32)
rows @ rows.T[:, :10]
own, peak, over = anon(), 0, False

def watch():
    global peak
    while not over:
        peak = max(peak, anon())
        time.sleep(0.002)

if rounds:
    watcher = threading.Thread(target=watch)
    watcher.start()
    for turn in range(2):
        with ramlet.open(path, memory=memory) as db:
            docs = db.create("docs", dim=64, exist_ok=True, indexes={"n": "integer"})
            for at in range(0, rounds * 2_000, 2_000):
                rows += 0.01
                docs.add(rows, ids=range(at, at + 2_000), payload={"n": np.arange(at, at + 2_000), "text": ["x" * 50] * 2_000})
            docs.settle()
            for at in range(0, 500, 50):
                docs.search(queries[at : at + 50], limit=10)
                docs.query(queries[at], limit=10, with_payload=True, where={"n": {"gte": 100}})
            docs.search(queries, limit=10, with_payload=True)
            ledger = db.memory()["ledger"]
    over = True
    watcher.join()
    print(json.dumps({"own": own, "peak": peak, "after": anon(), "ledger_peak": ledger["peak_bytes"], "points": rounds * 2_000}))
else:
    print(json.dumps({"own": own}))
"""


def harness():
    spec = importlib.util.spec_from_file_location("cgroup", HARNESS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(module, limit, *words):
    try:
        group = module.MemoryCgroup(limit)
    except module.CannotMake as why:
        pytest.skip(f"no memory cgroup here: {why}")
    with group:
        child = subprocess.run(
            [sys.executable, "-c", CHILD, *map(str, words)], capture_output=True, text=True, timeout=500, preexec_fn=group.enter
        )
        assert group.oom_kills() == 0 and child.returncode == 0, (child.returncode, child.stderr[-2_000:], group.stat())
        return json.loads(child.stdout), group.stat()


@pytest.mark.parametrize("memory", [16 * MB, 32 * MB])
def test_the_engine_keeps_to_its_budget_and_gives_it_back(tmp_path, memory):
    module = harness()
    alone, _ = run(module, 500 * MB, tmp_path / "none", memory, 0)
    # Interpreter, numpy, the caller's arrays, measured alone; what kernel and code take of the budget is in the budget's reserves.
    told, stat = run(module, alone["own"] + 4 * MB + memory, tmp_path / "data", memory, 15)
    print(f"budget {memory / MB:.0f} MB; interpreter, numpy and arrays {told['own'] / MB:.1f} MB anonymous; with the engine at most {told['peak'] / MB:.1f}; "
          f"after closing {told['after'] / MB:.1f}; ledger's peak {told['ledger_peak'] / MB:.1f}")
    assert told["peak"] - told["own"] <= memory
    # Of what stays some is the interpreter's: modules and caches that the work brought in.
    assert told["after"] - told["own"] <= 7 * MB
    # It was worth limiting.
    assert told["ledger_peak"] > memory / 3
