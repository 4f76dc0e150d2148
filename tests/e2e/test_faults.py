"""A sample of the rigs of full disks, failing system calls and damaged files; and that what they look for would be found."""

import os
import random
import sys
from pathlib import Path

import pytest

import compare
import conftest
from harness import disk, faults, kinds

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rigs"))

import corrupt  # noqa: E402
import disk_full  # noqa: E402
import io_errors  # noqa: E402
from test_crash import drop_a_point  # noqa: E402

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")


@pytest.mark.parametrize("tamper", [None, drop_a_point], ids=["as-it-is", "a-point-taken-away"])
def test_a_disk_fills_up(tmp_path, tamper):
    lines = []
    scenarios = ["ingest", "snapshot"] if tamper is None else ["flush"]
    try:
        figures, refusals, wrong = disk_full.run(1, 5, tmp_path, lines.append, scenarios, tamper=tamper)
    except disk.CannotMake as why:
        pytest.skip(f"no disk of our own here: {why}")
    if tamper:
        assert any("point " in line for line in wrong), wrong
        return
    assert not wrong, "\n".join(lines)
    assert refusals, "the disk was never full"
    compare.NOTES.append(f"full disk: {figures['acknowledged']:,} operations acknowledged, {figures['lost']} lost, {sum(refusals.values())} refused")


# One failure of each call, on files whose failure is that of one collection.
SAMPLE = [
    ("write", "log", "EIO", faults.FAIL, 1),
    ("write", "log", "ENOSPC", faults.SHORT, io_errors.FOREVER),
    ("write", "segment", "ENOSPC", faults.FAIL, 1),
    ("fdatasync", "log", "EIO", faults.FAIL, 1),
    ("fdatasync", "manifest", "EIO", faults.FAIL, 1),
    ("rename", "catalog", "EIO", faults.FAIL, 1),
    ("read", "segment", "EIO", faults.FAIL, 1),
    ("create", "segment", "EIO", faults.FAIL, io_errors.FOREVER),
]


def test_system_calls_fail(tmp_path, monkeypatch):
    monkeypatch.setattr(io_errors, "CASES", SAMPLE)
    lines = []
    try:
        figures, _, wrong = io_errors.run(len(SAMPLE), 5, tmp_path, lines.append)
    except faults.CannotMake as why:
        pytest.skip(f"no calls can be made to fail here: {why}")
    assert not wrong, "\n".join(lines)
    assert figures["hit"] >= len(SAMPLE) - 2, f"the calls weren't met: {figures}"
    compare.NOTES.append(f"failing system calls: {figures['hit']} of {len(SAMPLE)} met, {figures['acknowledged']:,} operations acknowledged, {figures['lost']} lost")


def test_a_log_that_is_never_written_is_noticed(tmp_path, monkeypatch):
    """The system says it has written and hasn't: what was acknowledged is gone after the next start."""
    monkeypatch.setattr(io_errors, "CASES", [("write", "log", "EIO", faults.PRETEND, io_errors.FOREVER)])
    try:
        figures, _, wrong = io_errors.run(1, 5, tmp_path, lambda _: None)
    except faults.CannotMake as why:
        pytest.skip(f"no calls can be made to fail here: {why}")
    assert figures["hit"] and wrong, figures


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return corrupt.Bench(tmp_path_factory.mktemp("corrupt"))


def test_damaged_files(bench):
    """Of each kind of file one damage, drawn anew by the seed."""
    assert set(kinds.SUFFIXES) <= set(bench.by_kind)
    rng, found, wrong = random.Random(int(os.environ.get("RAMLET_SEED", "1"))), 0, []
    for kind in sorted(bench.by_kind):
        file, damage = rng.choice(bench.by_kind[kind]), rng.choice(["flip a page", "cut half", "zero first page"])
        copy = bench.damage(file, damage, rng)
        if copy is None:
            continue
        found += bench.checked(copy) == "found"
        verdict, said = bench.ask(copy)
        if verdict not in corrupt.FINE:
            wrong.append(f"{verdict}: {file}, {damage}: {said}")
    assert not wrong, "\n".join(wrong)
    compare.NOTES.append(f"damaged files: {len(bench.by_kind)} kinds, check found {found}")


def test_a_point_that_is_missing_is_a_wrong_answer(bench):
    copy = bench.copy()
    server = corrupt.Server(copy, bench.memory, ["--no-probe"])
    with server:
        server.http().call("POST", "/collections/words/points/delete?wait=true", {"points": [500]})
    verdict, said = bench.ask(copy)
    assert verdict == "wrong answer" and "words" in said, (verdict, said)


@pytest.mark.parametrize(
    "script, verdict",
    [
        ("echo \"thread 'main' panicked at src/main.rs:1:1:\" >&2; exit 101", "panic"),
        ("kill -SEGV $$", "signal"),
        ("exec sleep 60", "hang"),
        ("echo 'ramlet: the catalog is damaged' >&2; exit 1", "refused start"),
    ],
)
def test_what_a_start_does_is_told_apart(bench, tmp_path, monkeypatch, script, verdict):
    program = tmp_path / "ramlet"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("RAMLET_BIN", str(program))
    monkeypatch.setattr(corrupt, "TIMEOUT_S", 1)
    assert bench.ask(bench.copy())[0] == verdict
    assert (verdict in corrupt.FINE) == (verdict == "refused start")


@pytest.mark.parametrize(
    "kind, wanted, got, fine",
    [
        ("count", 5, 5, True),
        ("count", 5, 4, False),
        ("filter", [1, 2], [1, 2], True),
        ("filter", [1, 2], [1], False),
        ("scroll", {1: ["v", "p"]}, {1: ["v", "p"]}, True),
        ("scroll", {1: ["v", "p"]}, {1: ["v", "q"]}, False),
        ("search", ([9.0], {1: 9.0, 2: 4.0}), [(1, 9.0)], True),
        ("search", ([9.0], {1: 9.0, 2: 4.0}), [(2, 4.0)], False),  # not the best
        ("search", (None, {1: 9.0, 2: 4.0}), [(3, 9.0)], False),  # not there
        ("search", (None, {1: 9.0, 2: 4.0}), [(2, 9.0)], False),  # another's score
    ],
)
def test_wrong_answers_are_told(kind, wanted, got, fine):
    assert (kinds.wrong((None, kind, "", "", None, wanted), got) is None) == fine
