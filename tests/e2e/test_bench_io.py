"""`ramlet bench io`: the grid on a small file; nothing stays on the disk, however it ends."""

import json
import subprocess
import time

import pytest

from harness.server import binary

SMALL = ["--rows", "3000", "--dim", "96", "--queries", "20", "--k", "8", "--latency", "0.1"]


def bench(*arguments, timeout=120):
    command = [str(binary()), "bench", "io", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def test_the_grid(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    out = bench(*SMALL, "--dir", disk, "--json", tmp_path / "io.json", "--plots", tmp_path / "plots")
    if "don't leave memory" in out.stderr:
        pytest.skip(out.stderr)
    assert out.returncode == 0, out.stderr
    grid = json.loads((tmp_path / "io.json").read_text())["results"]["grid"]
    cells = {(c["disk"], c["backend"], c["oversampling"], c["parallel"]): c["runs"] for c in grid["cells"]}
    backends = {key[1] for key in cells}
    assert {"mmap", "mmap-ahead", "pread"} <= backends
    assert len(cells) == 2 * len(backends) * 2 * 2
    assert all(run["wall_s"] > 0 and run["reads"] > 0 and run["score_sum"] != 0 for runs in cells.values() for run in runs)
    assert "article IOPS" in out.stdout and "4,000" in out.stdout and "delayed to at least 0.10 ms" in out.stdout
    assert len(list((tmp_path / "plots").glob("io-*.svg"))) == 4
    assert list(disk.iterdir()) == []


def test_a_killed_run_leaves_nothing(tmp_path):
    command = [str(binary()), "bench", "io", *SMALL[:4], "--queries", "1000000", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        process.stderr.readline()
        time.sleep(0.5)
        assert process.poll() is None, process.stderr.read()
        process.kill()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--dir", "/nowhere/at/all"], "is not a directory"),
        (["--backends", "tape"], "'tape' is none of mmap"),
        (["--oversampling", "0"], "numbers from 1"),
        (["--rows", "9000000000000"], "don't fit"),
        (["--latency", "5000"], "0 to 1000 milliseconds"),
    ],
)
def test_bad_arguments_get_one_sentence(tmp_path, arguments, words):
    out = bench(*arguments, *([] if "--dir" in arguments else ["--dir", tmp_path]))
    assert out.returncode != 0 and words in out.stderr, out.stderr
    assert len([line for line in out.stderr.splitlines() if line.startswith(("ramlet:", "error:"))]) == 1, out.stderr
