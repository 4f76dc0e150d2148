"""`ramlet store`: backups that are cut off, damaged, repeated; each becomes the same collection elsewhere, or nothing."""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from harness.s3 import S3
from harness.server import Server, binary

DIM, POINTS = 256, 8_000


def ramlet(*words, environment=None):
    """Exit code, and all that was said."""
    cleared = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [str(binary()), "store", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        env={**cleared, **(environment or {})},
    )
    return done.returncode, done.stdout


def said(*words, environment=None):
    """What a command that goes well says in JSON: the last line."""
    code, text = ramlet(*words, "--json", environment=environment)
    assert code == 0, text
    return json.loads(text.splitlines()[-1])


def points(start, end, seed):
    rng = random.Random(seed)
    return [{"id": i, "vector": list(rng.randbytes(DIM)), "payload": {"n": i, "t": rng.randbytes(200).hex()}} for i in range(start, end)]


def put(http, some):
    for start in range(0, len(some), 500):
        http.call("PUT", "/collections/docs/points?wait=true", {"points": some[start : start + 500]})


def answers(server):
    http = server.http()
    got = [http.call("POST", "/collections/docs/points/count", {"exact": True})["result"]]
    for n in range(0, 200, 20):
        body = {"query": [n] * DIM, "limit": 10, "with_payload": True, "params": {"exact": True}}
        got.append(http.call("POST", "/collections/docs/points/query", body)["result"])
    body = {"limit": 300, "offset": 3_000, "with_vector": True, "with_payload": True}
    got.append(http.call("POST", "/collections/docs/points/scroll", body)["result"])
    http.close()
    return got


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data directory, and what a server on it answers."""
    server = Server(tmp_path_factory.mktemp("made") / "data", memory="96MB").start()
    http = server.http()
    http.call("PUT", "/collections/docs", {"vectors": {"size": DIM, "distance": "Dot"}})
    put(http, points(0, POINTS, 1))
    http.close()
    expected = answers(server)
    server.stop()
    return server.data, expected


@pytest.fixture
def filled(made, tmp_path):
    """A copy of it, and a server that isn't started."""
    shutil.copytree(made[0], tmp_path / "data")
    server = Server(tmp_path / "data", memory="96MB")
    yield server
    server.kill()


def served(data, arguments=()):
    return Server(data, memory="96MB", arguments=arguments).start()


def check_same(server, expected):
    try:
        assert answers(server) == expected
    finally:
        server.stop()


def test_from_place_to_place(filled, made, tmp_path):
    url, before = f"file://{tmp_path}/backups", made[1]
    filled.start()
    code, text = ramlet("push", filled.data, url)
    assert code != 0 and "is a server using it" in text, text
    filled.stop()
    first = said("push", filled.data, url)
    assert first["backup"] == 1 and first["bytes"] > POINTS * DIM
    known = sizes(filled.data)
    # One point of a hundred changes.
    filled.start()
    http = filled.http()
    put(http, points(500, 500 + POINTS // 100, 2))
    http.close()
    after = answers(filled)
    filled.stop()
    second = said("push", filled.data, url)
    # What is in segments isn't sent again: at most the logs, and segments that were logs.
    fresh = sum(size for name, size in sizes(filled.data).items() if name not in known or "log-" in name)
    assert 0 < second["sent_bytes"] <= fresh + 50_000, (second, fresh)
    again = said("push", filled.data, url)
    assert again["sent_bytes"] == 0, again
    for backup, expected in [(1, before), (2, after)]:
        data = tmp_path / f"pulled-{backup}"
        said("pull", url, data, "--backup", backup)
        done = subprocess.run([str(binary()), "check", str(data)], stdout=subprocess.PIPE, text=True)
        assert done.returncode == 0 and "0 problems" in done.stdout, done.stdout
        check_same(served(data), expected)
    code, text = ramlet("pull", url, tmp_path / "pulled-1")
    assert code != 0 and "isn't empty" in text, text
    code, text = ramlet("list", url)
    assert code == 0 and len(text.splitlines()) == 3 and "docs" in text, text
    assert said("prune", url, "--keep", 1)["dropped"] == [1, 2]
    code, text = ramlet("pull", url, tmp_path / "pulled-3", "--backup", 1)
    assert code != 0 and "it was pruned" in text and not (tmp_path / "pulled-3").exists(), text
    said("pull", url, tmp_path / "pulled-3")
    check_same(served(tmp_path / "pulled-3"), after)


def test_a_running_server(filled, made, tmp_path):
    url, before = f"file://{tmp_path}/backups", made[1]
    filled.start()
    first = said("push", filled.url, url)
    http = filled.http()
    assert http.call("GET", "/snapshots")["result"] == [], "the snapshot that was made for it is gone"
    http.close()
    # Another snapshot has another head; the files in it are cut as before, once no job writes others.
    for _ in range(10):
        again = said("push", filled.url, url)
        if again["sent_bytes"] < 0.3 * first["sent_bytes"]:
            break
        time.sleep(0.5)
    else:
        pytest.fail(f"each snapshot is sent whole: {again}")
    said("pull", url, tmp_path / "pulled", "--backup", 1)
    check_same(served(tmp_path / "pulled"), before)
    assert not (tmp_path / "pulled.part").exists()


def killed_once(words, is_under_way):
    """SIGKILL in the midst of it."""
    process = subprocess.Popen([str(binary()), "store", *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not is_under_way():
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"


def sizes(data):
    return {file.relative_to(data).as_posix(): file.stat().st_size for file in data.rglob("*") if file.is_file()}


def objects(store):
    """Those that are whole: the others have a sign in their names."""
    return [file for file in (store / "backup/objects").rglob("*") if file.is_file() and "#" not in file.name]


def allocated(directory):
    return sum(file.stat().st_blocks * 512 for file in directory.rglob("*") if file.is_file()) if directory.exists() else 0


def test_killed_in_the_midst(filled, made, tmp_path):
    store, pulled = tmp_path / "backups", tmp_path / "pulled"
    url, before = f"file://{store}", made[1]
    killed_once(["push", filled.data, url], lambda: len(objects(store)) >= 4)
    code, text = ramlet("pull", url, pulled)
    assert code != 0 and "holds no backup" in text, text
    pushed = said("push", filled.data, url)
    assert 0 < pushed["sent_chunks"] <= pushed["chunks"] - 4, pushed
    killed_once(["pull", url, pulled], lambda: allocated(tmp_path / "pulled.part") > 3_000_000)
    assert not pulled.exists() and (tmp_path / "pulled.part").exists()
    code, text = ramlet("pull", url, pulled, "--backup", 7)
    assert code != 0 and "there was never one" in text, text
    resumed = said("pull", url, pulled)
    assert 0 < resumed["kept_bytes"] < resumed["bytes"], resumed
    assert not (tmp_path / "pulled.part").exists()
    check_same(served(pulled), before)


def test_what_is_refused(filled, tmp_path):
    store = tmp_path / "backups"
    url = f"file://{store}"
    said("push", filled.data, url)
    largest = max(objects(store), key=lambda file: file.stat().st_size)
    whole = largest.read_bytes()
    for damage in [whole[:-1] + bytes([whole[-1] ^ 1]), whole[:1000], None]:
        largest.unlink()
        if damage is not None:
            largest.write_bytes(damage)
        code, text = ramlet("pull", url, tmp_path / "pulled")
        assert code != 0 and largest.name in text and not (tmp_path / "pulled").exists(), text
        largest.write_bytes(whole)
    # Damaged data isn't backed up.
    segment = max(filled.data.rglob("*.v0"), key=lambda file: file.stat().st_size)
    with open(segment, "r+b") as file:
        file.seek(5_000)
        file.write(b"damage")
    code, text = ramlet("push", filled.data, url)
    assert code != 0 and segment.name in text and "ramlet check" in text, text
    code, text = ramlet("list", url)
    assert len(text.splitlines()) == 1, text
    # Nor a directory that lacks something.
    log = max(filled.data.rglob("log-*"))
    log.rename(tmp_path / "away")
    code, text = ramlet("push", filled.data, url)
    assert code != 0 and log.name in text and "is missing" in text, text
    # A place of something else.
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.jpg").write_bytes(b"meow")
    (tmp_path / "away").rename(log)
    for words in [("check",), ("push", filled.data), ("list",)]:
        code, text = ramlet(*words, f"file://{other}")
        assert code != 0 and "cat.jpg" in text, text
    assert os.listdir(other) == ["cat.jpg"]
    for wrong in ["/no/url", "s3://", f"file://{tmp_path}/nothing/here"]:
        code, text = ramlet("push", filled.data, wrong)
        assert code != 0, text
    assert not (tmp_path / "nothing").exists()


def test_a_directory_can_be_trusted(tmp_path):
    (tmp_path / "store").mkdir()
    code, text = ramlet("check", f"file://{tmp_path}/store")
    assert code == 0 and "one of 16 racing writers" in text and "REFUSED" not in text, text
    left = [file for file in (tmp_path / "store").rglob("*") if file.is_file()]
    assert left == [], left


@pytest.mark.parametrize("fault", ["fails", "cuts"])
def test_over_s3(filled, made, tmp_path, fault):
    """Now and then a request is answered 503, or its answer is lost: it is sent again."""
    with S3(**{fault: 31}) as s3:
        url, environment = "s3://bucket/some/place", s3.environment
        code, text = ramlet("check", url, environment=environment)
        assert code == 0 and text.count("one of 16 racing writers") == 2 and s3.objects == {}, text
        pushed = said("push", filled.data, url, environment=environment)
        assert all(key.startswith("some/place/") for key in s3.objects)
        again = said("push", filled.data, url, environment=environment)
        assert (again["backup"], again["sent_bytes"]) == (2, 0), again
        said("pull", url, tmp_path / "pulled", environment=environment)
        assert said("prune", url, "--keep", 1, environment=environment)["dropped"] == [1]
        code, text = ramlet("list", "s3://other", environment=environment)
        assert code != 0 and "NoSuchBucket" in text, text
    assert pushed["backup"] == 1
    check_same(served(tmp_path / "pulled"), made[1])


def test_a_store_that_lies_is_refused(filled):
    with S3(lies=True) as s3:
        for words in [("check",), ("push", filled.data)]:
            code, text = ramlet(*words, "s3://bucket", environment=s3.environment)
            assert code != 0 and "16 of 16" in text and "can't be trusted" in text, text
            assert s3.objects == {}, "nothing is left"
    code, text = ramlet("check", "s3://bucket")
    assert code != 0 and "no key for S3" in text, text
