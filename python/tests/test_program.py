"""`python -m ramlet`: the program of the wheel."""

import contextlib
import os
import subprocess
import sys
import sysconfig
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import ramlet
from ramlet.__main__ import program


def run(*words, **options):
    return subprocess.run([sys.executable, "-m", "ramlet", *map(str, words)], capture_output=True, text=True, timeout=120, **options)


@contextlib.contextmanager
def served(data):
    """A server of this directory; its URL."""
    server = subprocess.Popen(
        [sys.executable, "-m", "ramlet", "serve", "--memory", "64MB", "--data", str(data), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        yield next(line.split()[-1] for line in server.stdout if line.startswith("listening"))
    finally:
        server.terminate()
        server.wait(30)


needs_program = pytest.mark.skipif(program() is None, reason="this wheel was built without the program")


@needs_program
def test_it_plans_serves_and_imports(tmp_path):
    planned = run("plan", "--points", 1_000_000, "--dim", 100, "--json")
    assert planned.returncode == 0 and '"memory_bytes"' in planned.stdout, planned.stderr
    with served(tmp_path / "data") as url:
        assert b"qdrant" in urllib.request.urlopen(url, timeout=10).read()
        np.save(tmp_path / "v.npy", np.random.default_rng(0).standard_normal((200, 8), dtype=np.float32))
        imported = run("import", tmp_path / "v.npy", "--url", url, "--collection", "v", "--wait")
        assert imported.returncode == 0, imported.stderr
    with ramlet.open(tmp_path / "data", memory="64MB") as db:
        assert db["v"].count() == 200


@needs_program
def test_the_script_is_the_same_program(tmp_path):
    script = Path(sysconfig.get_path("scripts"), "ramlet")
    told = subprocess.run([script, "--version"], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert told.returncode == 0 and told.stdout == run("--version").stdout, told.stderr
    assert told.stdout.startswith(f"ramlet {ramlet.__version__}\n") and "parquet" in told.stdout
    link = tmp_path / "linked"
    link.symlink_to(program())
    linked = subprocess.run([link, "--version"], capture_output=True, text=True, timeout=60)
    assert linked.stdout == told.stdout, linked.stderr


@needs_program
def test_the_engine_is_in_the_package_once():
    """The program loads the library of the package, and is small itself."""
    folder = Path(ramlet.__file__).parent
    large = [file.name for file in folder.rglob("*") if file.stat().st_size > 1_000_000]
    assert large == ["_ramlet.abi3.so"]


@needs_program
def test_it_fails_with_a_code_and_outlives_a_closed_pipe():
    wrong = run("plan", "--points", "none", "--dim", 4)
    assert wrong.returncode == 2 and "none" in wrong.stderr
    missing = run("check", "/nowhere/at/all")
    assert missing.returncode == 1 and "/nowhere/at/all" in missing.stderr
    read, write = os.pipe()
    os.close(read)
    closed = subprocess.run([program(), "completion", "bash"], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert closed.returncode >= 0, f"ended by signal {-closed.returncode}"


@needs_program
def test_it_reads_parquet(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"id": [1], "vector": [[0.5, 0.5]]}), tmp_path / "a.parquet")
    told = run("import", tmp_path / "a.parquet", "--url", "http://127.0.0.1:1", "--collection", "c")
    assert told.returncode != 0 and "feature" not in told.stderr, told.stderr


def test_without_a_program_it_says_so(monkeypatch):
    import ramlet.__main__ as main

    monkeypatch.setattr(main, "program", lambda: None)
    with pytest.raises(SystemExit, match="install a wheel that has it"):
        main.main()
