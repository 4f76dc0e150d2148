"""`ramlet check`, and what a damaged file does: it is told, and never served."""

import json
import os
import random
import shlex
import subprocess
from http.client import IncompleteRead

import pytest

from harness.http import Answer
from harness.server import binary

DIM, POINTS = 32, 20_000


@pytest.fixture
def filled(own_server):
    """A server with points in segments, in the log, and deleted."""
    http, rng = own_server.http(), random.Random(3)
    http.call("PUT", "/collections/c", {"vectors": {"size": DIM, "distance": "Dot"}})
    http.call("PUT", "/collections/c/index?wait=true", {"field_name": "n", "field_schema": "integer"})
    for start in range(0, POINTS, 500):
        points = [{"id": i, "vector": list(rng.randbytes(DIM)), "payload": {"n": i, "t": "x" * 500}} for i in range(start, start + 500)]
        http.call("PUT", "/collections/c/points?wait=false", {"points": points})
    http.call("POST", "/collections/c/points/delete?wait=true", {"points": list(range(0, POINTS, 7))})
    http.close()
    return own_server


def segment_files(server, least=8192):
    """Files of segments: not logs, which are read at the start and may end in a torn record."""
    files = [f for f in server.data.rglob("*") if f.is_file() and f.stat().st_size >= least]
    return sorted(f for f in files if not f.name.startswith("log") and f.name != "ballast")


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))


def test_a_sound_directory(filled):
    code, said = filled.check()
    assert code != 0 and "lock" in said.lower() or "in use" in said.lower(), f"a server has it open: {said}"
    filled.stop()
    code, said = filled.check()
    assert code == 0 and "0 problems" in said, said
    filled.start()
    filled.kill()
    code, said = filled.check()
    assert code == 0 and "0 problems" in said, said


@pytest.mark.parametrize("has_lock", [True, False])
def test_a_disk_that_nobody_can_write_to(own_server, tmp_path, has_lock):
    """A copy on such a disk is checked, what is on a disk that the kernel closed is salvaged, and a server reads there."""
    http = own_server.http()
    http.call("PUT", "/collections/c", {"vectors": {"size": 1, "distance": "Dot"}})
    http.result("PUT", "/collections/c/points?wait=true", {"points": [{"id": n, "vector": [n]} for n in range(10)]})
    http.close()
    own_server.stop()
    if not has_lock:
        (own_server.data / "LOCK").unlink()

    def command(*arguments):
        at = shlex.quote(str(own_server.data))
        arguments = shlex.join([str(binary()), *map(str, arguments)])
        script = f"mount --bind {at} {at} && mount -o remount,ro,bind {at} || exit 77; exec {arguments}"
        return ["unshare", "-m", "sh", "-c", script]

    def read_only(*arguments):
        done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60)
        if done.returncode == 77 or "unshare" in done.stderr:
            pytest.skip(f"no mount can be made here: {done.stderr}")
        return done.returncode, done.stdout + done.stderr

    code, said = read_only("check", own_server.data)
    assert code == 0 and "10 points" in said and "0 problems" in said, said
    code, said = read_only("salvage", own_server.data, "c", tmp_path / "c.snapshot")
    assert code == 0 and "0 losses" in said and (tmp_path / "c.snapshot").stat().st_size > 0, said
    own_server.command = lambda: command("serve", "--data", own_server.data, "--memory", "64MB", "--port", own_server.port, "--grpc-port", "disabled")
    own_server.start()
    http = own_server.http()
    assert http.result("POST", "/collections/c/points/count", {})["count"] == 10
    status, _, body = http.raw("PUT", "/collections/c/points?wait=true", b'{"points": [{"id": 77, "vector": [1]}]}')
    assert status == 503 and b"read-only filesystem" in body.lower(), body
    assert http.result("POST", "/collections/c/points/count", {})["count"] == 10


def test_what_cannot_be_read_is_not_called_damaged(filled, tmp_path):
    """As another user, or with few file descriptors: it is told which files couldn't be read, and that nothing is known of them."""
    filled.stop()
    command = [str(binary()), "check", str(filled.data)]

    def checked(*more, before=(), **limits):
        done = subprocess.run([*before, *command, *more], capture_output=True, text=True, timeout=60, **limits)
        assert done.returncode == 1 and "damaged" not in done.stderr, done.stderr
        return done.stdout, done.stderr

    # No `preexec_fn`: gRPC, where another test has loaded it, aborts what is forked so.
    said, why = checked(before=["sh", "-c", 'ulimit -n 14; exec "$@"', "sh"])
    assert "can't be read by this process" in why and "Too many open files" in said, (said, why)
    if os.geteuid() == 0:
        hidden = max(segment_files(filled), key=lambda path: path.stat().st_size)
        for path in [filled.data, *filled.data.rglob("*")]:
            path.chmod(0o777 if path.is_dir() else 0o666)
        hidden.chmod(0o600)
        for parent in [*tmp_path.parents, tmp_path]:
            parent.stat().st_uid == os.getuid() and str(parent).startswith("/tmp/") and parent.chmod(0o755)
        said, why = checked("--json", user=65534)
        *places, sums = [json.loads(line) for line in said.splitlines()]
        assert sums["problems"] == 0 and sums["unreadable"] > 0, said
        assert any(hidden.name in place["place"] and "Permission denied" in place.get("unreadable", "") for place in places), said
        out = tmp_path / "c.snapshot"
        done = subprocess.run([str(binary()), "salvage", str(filled.data), "c", str(out)], capture_output=True, text=True, user=65534)
        assert done.returncode != 0 and "Permission denied" in done.stderr and not out.exists(), done


def test_no_directory(own_server):
    own_server.stop()
    own_server.data = own_server.data.parent / "nothing"
    code, said = own_server.check()
    assert code != 0 and "not a directory" in said, said
    assert not own_server.data.exists()


def test_damage_is_found_and_never_served(filled):
    """One bit flipped in the middle of a file: `check` names the file, and no answer differs from the one before."""
    http = filled.http()
    requests = [("query", {"query": [n] * DIM, "limit": 20, "with_payload": True, "params": {"exact": True}}) for n in (1, 77)]
    requests += [("scroll", {"limit": 2000, "offset": n, "with_vector": True}) for n in range(0, POINTS, 2000)]
    requests += [("count", {"filter": {"must": [{"key": "n", "range": {"lt": 5000}}]}})]

    def answers():
        got = []
        for kind, body in requests:
            try:
                got.append(http.result("POST", f"/collections/c/points/{kind}", body))
            except Answer as answer:
                assert answer.status >= 500, answer
                got.append(None)
            except IncompleteRead:
                # A long answer is streamed: damage met half-way cuts it off, which no client takes for an answer.
                http.close()
                got.append(None)
        return got

    sound = answers()
    assert None not in sound
    rng, told = random.Random(4), 0
    for _ in range(6):
        filled.stop()
        # Only now: a merge may have replaced the files that stood there before.
        files = segment_files(filled)
        assert files, "the points are in no segment yet"
        path = rng.choice(files)
        at = rng.randrange(path.stat().st_size)
        flip(path, at)
        code, said = filled.check()
        assert code != 0 and path.name in said, f"{path.name} byte {at}: {said}"
        try:
            filled.start()
            for before, now in zip(sound, answers()):
                assert now is None or now == before, f"{path.name} byte {at}: a wrong answer"
                told += now is None
        except RuntimeError as refused:
            assert path.name in str(refused), str(refused)
            told += 1
        filled.kill()
        # A merge may have written the segment anew meanwhile, from what was sound.
        if path.exists():
            flip(path, at)
    assert told, "no damage was met by any request"
    assert filled.check()[0] == 0
    filled.start()
