"""`ramlet bench ingest`: all phases with a few points; the server, its data and its cgroup go with the run, however it ends."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.server import binary

PHASES = ["start", "load", "index", "merge", "delete", "compact", "release"]
SMALL = ["--points", "4000", "--dim", "48", "--memory", "64MB", "--settle", "0.3", "--every", "0.05"]


def command(*arguments):
    # A cgroup needs rights; the figures of the process don't.
    free = [] if os.geteuid() == 0 else ["--no-cgroup"]
    return [str(binary()), "bench", "ingest", *free, *map(str, arguments)]


def bench(*arguments, timeout=180):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=timeout)


def left_of(process_id):
    """Control groups that a run made."""
    return [path for path in Path("/sys/fs/cgroup").glob(f"**/ramlet-bench-{process_id}-*") if path.is_dir()]


def test_all_phases(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    # --points goes before what --quick would take.
    out = bench(*SMALL, "--quick", "--dir", work, "--json", tmp_path / "ingest.json", "--plots", tmp_path / "plots")
    assert out.returncode == 0, out.stderr
    ingest = json.loads((tmp_path / "ingest.json").read_text())["results"]["ingest"]
    assert [phase["phase"] for phase in ingest["phases"]] == PHASES
    last = {phase["phase"]: phase["last"] for phase in ingest["phases"]}
    assert last["load"]["points"] == last["merge"]["points"] == ingest["points"] == 4000
    assert last["compact"]["points"] == 4000 - ingest["deleted"] and 3000 < ingest["deleted"] < 3400
    assert all(sample["process"]["rss"] > 0 for sample in ingest["samples"])
    assert all(0 < last[name]["heap"]["allocated"] <= last[name]["heap"]["resident"] for name in PHASES)
    if os.geteuid() == 0:
        assert last["merge"]["group"]["usage"] > 0 and ingest["group"]["oom_kills"] == 0
    assert "nmslib" in out.stdout and " 2.19 |" in out.stdout
    own = out.stdout.rstrip().splitlines()[-1]
    assert "4,000 |" in own and " 48 |" in own and own.endswith(" - |"), f"so few vectors have no growth of one: {own}"
    assert (tmp_path / "plots" / "ingest.svg").read_text().startswith("<svg")
    assert list(work.iterdir()) == []


def test_a_running_server_keeps_what_it_has(own_server, tmp_path):
    http = own_server.http()
    http.call("PUT", "/collections/other", {"vectors": {"size": 2, "distance": "Dot"}})
    rest = ["--points", "500", "--dim", "8", "--settle", "0", "--every", "0.05"]
    out = bench(*rest, "--server", own_server.url, "--pid", own_server.process.pid, "--dir", tmp_path)
    assert out.returncode == 0, out.stderr
    names = [c["name"] for c in http.call("GET", "/collections")["result"]["collections"]]
    http.close()
    assert names == ["other"]


def test_a_killed_run_leaves_nothing(tmp_path):
    arguments = command("--points", "10000000", "--dim", "48", "--memory", "64MB", "--dir", tmp_path, "--settle", "0")
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while "load" not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(0.5)
        assert process.poll() is None and list(tmp_path.iterdir()) != []
        process.send_signal(signal.SIGKILL)
    for _ in range(200):
        if not list(tmp_path.iterdir()) and not left_of(process.pid):
            break
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == [] and left_of(process.pid) == []


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--points", "0"], "none to send"),
        (["--delete", "101"], "can't be deleted"),
        (["--data", "/nowhere/at/all.npy"], "is not a file"),
        (["--no-cgroup", "--memory", "1MB"], "start it with --memory"),
        (["--server", "http://127.0.0.1:1", "--pid", "1"], "no server answers"),
        (["--exec", "echo no such server; exit 3"], "no such server"),
    ],
)
def test_bad_arguments_get_one_sentence(tmp_path, arguments, words):
    out = bench("--dir", tmp_path, *arguments)
    assert out.returncode != 0 and words in out.stderr, out.stderr
    assert len([line for line in out.stderr.strip().splitlines() if line.startswith("ramlet:")]) == 1, out.stderr
    assert list(tmp_path.iterdir()) == []
