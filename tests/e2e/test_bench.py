"""`ramlet bench ram` and `ramlet bench search` with a few thousand vectors: figures come out, and nothing stays behind, however they end."""

import csv
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import conftest
from harness.cgroup import CannotMake, MemoryCgroup
from harness.server import binary

POINTS, DIMS, QUERIES = 3_000, 16, 100
SHAPE = ["--points", POINTS, "--dims", DIMS, "--queries", QUERIES]
QUICK = ["--seconds", 0.2, "--warm-up", 0.1]


@pytest.fixture(autouse=True)
def needs_a_server():
    if conftest.SELF:
        pytest.skip("needs a server")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("sets")


@pytest.fixture(scope="module")
def limit():
    """The flag without which control groups are needed, where none can be made."""
    try:
        MemoryCgroup(64_000_000).close()
        return []
    except CannotMake:
        return ["--no-cgroup"]


def command(*arguments):
    return [str(binary()), "bench", *map(str, arguments)]


def bench(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120)


def groups_of(pid):
    """Its cgroups that exist. Unlike `rglob`, `os.walk` passes over a directory that is removed meanwhile."""
    return [Path(at) for at, _, _ in os.walk("/sys/fs/cgroup") if Path(at).name.startswith(f"ramlet-bench-{pid}-")]


def servers_in(directory):
    """Processes whose command line names the directory: those of a measurement in it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].startswith(str(directory).encode()):
            found.append(path.parent.name)
    return found


def test_ram(tmp_path, cache, limit):
    out, plots, work = tmp_path / "out.json", tmp_path / "plots", tmp_path / "work"
    work.mkdir()
    done = bench(
        "ram", *SHAPE, *QUICK, "--cache", cache, "--dir", work, "--json", out, "--plots", plots, "--keep-caches", "--settle", 0,
        "--memory", "64MB,2MB", "--placements", "auto", "--precision", 40, "--repeats", 2, "--aa", 1, *limit,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())["results"]
    rows = {row["memory_bytes"]: row for row in results["rows"]}
    served = rows[64_000_000]
    assert served["outcome"] == "served" and len(served["runs"]) == 2, served
    assert served["loaded"]["filled"]["points"] == POINTS
    for run in served["runs"]:
        assert run["recall"] > 0.9 and run["queries_per_s"] > 0 and run["answered"] >= QUERIES and "errors" not in run
    assert 0 < served["memory_peak_bytes"] <= 64_000_000 and served["oom_kills"] == 0
    assert rows[2_000_000]["outcome"] in ("refused", "out_of_memory")
    smallest = results["memory_bytes_min"]["auto"]
    assert 2_000_000 < smallest <= 64_000_000 and rows[smallest]["outcome"] == "served"
    assert results["aa"]["queries_per_s"]["ratio"] > 0
    assert "out of memory" in done.stdout and "| auto" in done.stdout
    assert {path.name for path in plots.iterdir()} == {"ram-queries.svg", "ram-recall.svg"}
    assert list(work.iterdir()) == []


def test_in_ram_means_no_reads_and_another_server_can_be_started(tmp_path, cache, limit):
    out = tmp_path / "out.json"
    line = f"exec {binary()} serve --port {{port}} --data {{dir}} --memory {{memory}} --no-probe"
    done = bench(
        "ram", *SHAPE, *QUICK, "--cache", cache, "--dir", tmp_path, "--json", out, "--keep-caches", "--settle", 0, "--exec", line,
        "--memory", "64MB", "--placements", "in-ram,vectors-on-disk,all-on-disk", "--no-minimum", "--repeats", 1, "--aa", 0, "--load", "once", *limit,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())["results"]
    rows = results["rows"]
    assert [row["placement"] for row in rows] == ["in-ram", "vectors-on-disk", "all-on-disk"]
    # What it is is known by more than its root, which says what the API's says: settings of its own depend on it.
    assert results["server"].startswith("ramlet ")
    in_ram = rows[0]
    bytes_read = in_ram["runs"][0]["read_bytes_per_query"]
    # What a server does once on account of the first queries (ours fits its index to them) is none of a query's.
    assert in_ram["outcome"] == "served" and bytes_read <= 100, in_ram
    assert rows[1]["outcome"] == rows[2]["outcome"] == "served"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_half_way(tmp_path, cache, limit, how):
    work = tmp_path / "work"
    work.mkdir()
    long = ["--seconds", 100, "--seconds-max", 100, "--settle", 0, "--aa", 0, "--memory", "64MB", "--placements", "auto", "--keep-caches"]
    # Whoever is started in the background of a shell without job control ignores SIGINT, and so would this. (No `preexec_fn`: gRPC, where
    # another test has loaded it, aborts what is forked so.)
    heeding = ["env", "--default-signal=INT", *command("ram", *SHAPE, *long, "--cache", cache, "--dir", work, *limit)]
    running = subprocess.Popen(heeding, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    # The second run of the server is the one that is measured: the loaded collection lies beside it.
    said = []
    while "run 1 of" not in (line := running.stderr.readline()):
        said.append(line)
        assert line and time.monotonic() < deadline, f"it ended by itself ({running.poll()}): {''.join(said[-20:])}"
    while not servers_in(work):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert limit or groups_of(running.pid)
    assert list(work.iterdir())
    os.kill(running.pid, how)
    running.wait(timeout=10)
    while (left := [*work.iterdir(), *groups_of(running.pid), *servers_in(work)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


def test_search_with_data(server, tmp_path, cache):
    out, exported = tmp_path / "out.json", tmp_path / "export"
    done = bench(
        "search", *SHAPE, *QUICK, "--cache", cache, "--url", server.url, "--ef", "16,default,exact", "--json", out, "--export", exported,
        "--plots", tmp_path / "plots",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    runs = {run["setting"]: run for run in json.loads(out.read_text())["results"]["runs"]}
    assert runs["exact"]["recall"] > 0.999 >= 0 < runs["ef 16"]["recall"]
    assert all(run["answered"] >= QUERIES and run["latency_ms_p99"] >= run["latency_ms_p50"] > 0 for run in runs.values())
    lines = list(csv.DictReader((exported / "results.csv").open()))
    assert [line["parameters"] for line in lines] == ["ef 16", "default", "exact"]
    assert float(lines[2]["k-nn"]) == runs["exact"]["recall"]
    assert (exported / "exact.ibin").stat().st_size == 8 + QUERIES * 10 * 8
    assert server.http().get("/collections")["result"]["collections"] == [] or not any(
        c["name"].startswith("ramlet-bench") for c in server.http().get("/collections")["result"]["collections"]
    )


def test_search_over_grpc(server, http, tmp_path, cache):
    out, exported = tmp_path / "out.json", tmp_path / "export"
    done = bench(
        "search", *SHAPE, *QUICK, "--cache", cache, "--url", server.url, "--grpc", f"http://127.0.0.1:{server.grpc_port}", "--ef", "16,exact",
        "--json", out, "--export", exported,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())["results"]
    runs = {run["setting"]: run for run in results["runs"]}
    assert results["wire"] == "gRPC" and "gRPC, 8 connections" in done.stdout
    assert runs["exact"]["recall"] > 0.999 and runs["ef 16"]["recall"] > 0
    assert all(run["answered"] >= QUERIES and "errors" not in run for run in runs.values())
    times = (exported / "exact.times.npy").read_bytes()
    assert times.startswith(b"\x93NUMPY") and f"({QUERIES},)".encode() in times and len(times) % 64 == QUERIES * 4 % 64

    # Over both protocols the same points are found, named vectors included.
    path = "/collections/bench-grpc"
    http.call("PUT", path, {"vectors": {"a": {"size": 4, "distance": "Euclid"}}})
    points = [{"id": i, "vector": {"a": [i, (i * i) % 11, i % 13, 1]}} for i in range(500)]
    http.call("PUT", f"{path}/points?wait=true", {"points": points})
    of_all = ["search", "--url", server.url, "--collection", "bench-grpc", "--using", "a", "--queries", 40, "--ef", "exact", *QUICK]
    for route in ([], ["--old-route"]):
        done = bench(*of_all, "--grpc", f"http://127.0.0.1:{server.grpc_port}", "--json", out, *route)
        assert done.returncode == 0, done.stderr
        assert json.loads(out.read_text())["results"]["runs"][0]["recall"] > 0.999
    http.call("DELETE", path)


@pytest.mark.alone
def test_search_of_a_running_collection_at_a_rate(server, http, tmp_path):
    path, out = "/collections/bench-running", tmp_path / "out.json"
    http.call("PUT", path, {"vectors": {"size": 4, "distance": "Dot"}})
    points = [{"id": 3 * i, "vector": [i % 7, (i * i) % 11, i % 13, 1]} for i in range(1000)]
    http.call("PUT", f"{path}/points?wait=true", {"points": points})
    done = bench(
        "search", "--url", server.url, "--collection", "bench-running", "--queries", 50, "--ef", "exact", "--rate", "400", "--seconds", 0.5,
        "--warm-up", 0, "--json", out, "--pid", server.process.pid,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = json.loads(out.read_text())["results"]["runs"][0]
    # Many points tie; what is found by the same exact search is the same.
    assert run["recall"] > 0.9 and run["rate"] == 400
    assert 150 <= run["answered"] <= 201 and run["behind_ms_max"] is not None and run["server_cpu_us_per_query"] is not None
    http.call("DELETE", path)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["search", "--url", "http://127.0.0.1:1"], "no server answers at http://127.0.0.1:1"),
        (["search", "--url", "https://x"], "must be like http://localhost:6333"),
        (["search", "--json", "/nowhere/x.json"], "/nowhere is not a directory"),
        (["ram", "--server", "localhost:6333"], "must be like http://localhost:6333"),
        (["ram", "--memory", "0"], "no process starts"),
        (["ram", "--dir", "/nowhere"], "/nowhere is not a directory"),
        (["io", "--rows", "0"], "are numbers from 1"),
        (["io", "--dir", "/nowhere"], "/nowhere is not a directory"),
        (["ingest", "--delete", "101"], "101 percent can't be deleted"),
        (["ram", "--server", "http://127.0.0.1:1", "--points", "10", "--dims", "4"], "no server answers at http://127.0.0.1:1"),
        (["ram", "--server", "http://127.0.0.1:1"], "no server answers at http://127.0.0.1:1"),
        (["search", "--json", "/tmp"], "--json /tmp: a directory"),
        (["io", "--json", "/proc/x.json"], "--json /proc/x.json"),
        (["search", "--export", "/etc/passwd"], "--export /etc/passwd"),
        (["ingest", "--plots", "/etc/passwd"], "--plots /etc/passwd"),
        (["search", "--connections", "5000000"], "it takes 1 to 4096"),
        (["ram", "--connections", "5000000"], "it takes 1 to 4096"),
        (["ram", "--k", "101", "--points", "2000"], "the 100 nearest are known"),
        (["ram", "--dims", "1000000"], "it takes 1 to 65536"),
        (["ram", "--memory", "900TB"], "this machine has"),
        (["ram", "--seconds", "-1"], "it takes seconds"),
        (["ram", "--ef", "0"], "whole number from 1"),
        (["ram", "--exec", " "], "there is no command"),
        (["ingest", "--memory", "900TB"], "this machine has"),
        (["io", "--dir", "/dev/shm"], "which is RAM"),
        (["text", "--memory", "100"], "is 100MB meant?"),
        (["text", "--memory", "100KB"], "no process starts"),
        (["ingest", "--delete", "-1"], "-1"),
        (["ram", "--dir", "/dev/shm", "--points", "10", "--dims", "4"], "which is RAM"),
        (["ram", "--memory", "lots"], "is not a size"),
        (["ram", "--placements", "cloud"], "invalid value 'cloud'"),
        (["ram", "--data", "/nowhere/x.hdf5"], "/nowhere/x.hdf5"),
        (["ram", "--exec", "/nowhere/server --port {port}", "--points", "10", "--dims", "4", "--memory", "64MB"], "can't be started"),
    ],
)
def test_bad_arguments_get_one_sentence(tmp_path, cache, limit, arguments, sentence):
    if arguments[0] == "ram":
        arguments = [*arguments, "--cache", cache, *(limit if "--server" not in arguments else [])]
        if "--dir" not in arguments:
            arguments += ["--dir", tmp_path]
    if "/dev/shm" in arguments and not Path("/dev/shm").is_dir():
        pytest.skip("no directory in RAM")
    done = bench(*arguments)
    assert done.returncode != 0 and sentence in done.stderr, done.stderr


def test_a_file_without_queries_says_what_to_do(tmp_path):
    whole = (Path(__file__).resolve().parents[2] / "testdata/import/contiguous.hdf5").read_bytes()
    (tmp_path / "bare.hdf5").write_bytes(whole.replace(b"test", b"tess"))
    done = bench("ram", "--data", tmp_path / "bare.hdf5", "--memory", "64MB", "--dir", tmp_path)
    assert done.returncode != 0 and "no queries of its own" in done.stderr and "--queries-file" in done.stderr, done.stderr
