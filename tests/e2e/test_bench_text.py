"""`ramlet bench text` with a few hundred documents: figures come out, and nothing stays behind, however it ends."""

import gzip
import json
import os
import signal
import subprocess
import time

import pytest

from test_bench import bench, command, groups_of, limit, needs_a_server, servers_in  # noqa: F401

DOCUMENTS = 400
SHAPE = ["--documents", DOCUMENTS, "--log", 300, "--seconds-max", 0.5, "--keep-caches", "--load-memory", "64MB", "--memory-least", "48MB"]
SMALL = [*SHAPE, "--replace-every", 5, "--threads", "1,2", "--fractions", "0.5", "--updates", "0,200"]


def test_all_parts(tmp_path, limit):  # noqa: F811
    out, plots, work, in_ram = (tmp_path / n for n in ("out.json", "plots", "work", "ram"))
    work.mkdir()
    ram = ["--storages", "ram,mmap,io_uring"] if os.access("/dev/shm", os.W_OK) else ["--storages", "mmap,io_uring"]
    done = bench("text", *SMALL, *ram, "--dir", work, "--json", out, "--plots", plots, *limit)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())["results"]
    assert results["data"]["documents"] == results["loaded"]["filled"]["points"] == DOCUMENTS
    assert results["loaded"]["index_bytes"] > 10_000
    grid = {(r["storage"], r["threads"], r["searchers"]): r for r in results["grid"]}
    expected = [(1, "shared"), (2, "shared"), (2, "separate")]
    assert list(grid) == [(storage, *of) for storage in ram[1].split(",") for of in expected]
    for run in grid.values():
        assert run["memory_bytes"] == 48_000_000
        if run["searchers"] == "shared":
            assert run["outcome"] == "served", run
        if run["outcome"] == "served":
            whole = run["whole"]
            assert whole["queries_per_s"] > 0 and 0 < whole["latency_ms_p50"] <= whole["latency_ms_p99"] <= whole["latency_ms_max"]
            assert 0 < run["hits_per_query"] <= 20 and len(run["over_time"]) == 60
            assert run["cost"]["memory_peak_bytes"] <= 48_000_000
    kinds = {(r["storage"], r["kind"]): r for r in results["kinds"]}
    assert all(r["outcome"] == "served" and r["hits_per_query"] > 0 for r in kinds.values()), kinds
    replace = results["replace"]
    assert replace["outcome"] == "served" and replace["whole"]["queries"] == replace["during"]["queries"] + replace["otherwise"]["queries"]
    assert replace["spans_s"] and all(start < end for start, end in replace["spans_s"])
    none, some = results["updates"]
    assert none["updated"]["documents"] == 0 < some["updated"]["documents"] and some["outcome"] == "served"
    for words in ("| io_uring", "996", "hard disks", "being replaced", "phrase"):
        assert words in done.stdout, words
    assert {path.name for path in plots.iterdir()} == {"text-over-time.svg", "text-threads.svg", "text-updates.svg"}
    assert list(work.iterdir()) == [] and not in_ram.exists()


def test_own_documents_and_queries(tmp_path, limit):  # noqa: F811
    docs, queries, out = tmp_path / "docs.jsonl.gz", tmp_path / "queries.tsv.gz", tmp_path / "out.json"
    with gzip.open(docs, "wt") as file:
        for n in range(200):
            file.write(json.dumps({"id": f"d{n}", "title": f"title{n}", "text": f"red apples number{n} sweet green pears"}) + "\n")
    with gzip.open(queries, "wt") as file:
        file.writelines(f"{n}\tlog\tapples number{n}\n" for n in range(50))
    whole = ["--log", 50, "--seconds-max", 60]
    common = [*whole, *SHAPE[6:], "--cut", "5,20", "--dir", tmp_path, "--threads", 1, "--storages", "io_uring", "--fractions", 0.5, "--parts", "grid,kinds"]
    told = ["--docs", docs, "--queries", queries, "--field", "text"]
    done = bench("text", *told, *common, "--json", out, *limit)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())["results"]
    assert results["data"]["documents"] == 200
    (run,) = results["grid"]
    assert run["outcome"] == "served" and run["whole"]["queries"] == 50 and run["hits_per_query"] == 20
    assert [run[part]["queries"] for part in ("cold", "between", "warm")] == [5, 15, 30]
    kinds = {run["kind"]: run["hits_per_query"] for run in results["kinds"]}
    # "apples" is in every document, "number7" in one; of both words one document has all.
    assert kinds == {"term": 1.0, "any": 20.0, "all": 1.0, "phrase": kinds["phrase"]} and kinds["phrase"] > 0


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--cut", "20,5"], "the first must be less than the second"),
        (["--cut", "5,20000000"], "the log has"),
        (["--queries", "q.tsv"], "--docs"),
        (["--docs", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--threads", "0"], "from 1 to 64"),
        (["--fractions", "0"], "0.001"),
        (["--dir", "/dev/shm"], "which is RAM"),
        (["--ram-dir", "/var/tmp"], "is on a disk"),
        (["--ram-dir", "/nowhere"], "there is no such directory"),
        (["--json", "/nowhere/x.json"], "/nowhere is not a directory"),
        (["--records", "/etc/passwd"], "--records /etc/passwd"),
    ],
)
def test_what_is_refused(arguments, sentence, tmp_path, limit):  # noqa: F811
    done = bench("text", *SMALL, *([] if "--dir" in arguments else ["--dir", tmp_path]), *arguments, *limit)
    assert done.returncode != 0 and sentence in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_bad_documents(tmp_path, limit):  # noqa: F811
    docs, work = tmp_path / "docs.jsonl", tmp_path / "work"
    work.mkdir()
    for text, sentence in [("", "no document"), ('{"title": "x"}\n', "line 1 has no text 'body'"), ("{\n", "line 1 is no JSON object")]:
        docs.write_text(text)
        done = bench("text", *SHAPE, "--docs", docs, "--dir", work, *limit)
        assert done.returncode == 1 and sentence in done.stderr, done.stderr
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_killed_half_way(tmp_path, limit, how):  # noqa: F811
    work = tmp_path / "work"
    work.mkdir()
    long = ["--parts", "updates", "--updates", 50, "--seconds-max", 100, "--storages", "io_uring"]
    running = subprocess.Popen(
        command("text", "--documents", 200, *SHAPE[6:], *long, "--dir", work, *limit), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (any(work.glob("*/copy-0")) and servers_in(work)):
        assert running.poll() is None and time.monotonic() < deadline, running.stderr.read()
        time.sleep(0.02)
    assert list(work.iterdir())
    os.kill(running.pid, how)
    running.wait(timeout=10)
    while (left := [*work.iterdir(), *groups_of(running.pid), *servers_in(work)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
