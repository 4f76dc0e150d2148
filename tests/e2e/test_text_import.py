"""`ramlet import` of documents, and `ramlet search` for their words."""

import gzip
import json
import os
import signal
import subprocess
import time
import uuid

import pytest

import conftest
from harness.server import Server, binary
from harness.tap import Tap

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")

DOCUMENTS = [
    {"id": 1, "title": "Fox", "body": "The quick brown fox jumps over the lazy dog", "year": 1969},
    {"id": 2, "title": "Dog", "body": "A dog sleeps; a lazy dog sleeps longer", "year": 1970},
    {"id": 3, "title": "Barrow", "body": "So much depends upon a red wheelbarrow", "year": 1923},
]


def run(*arguments, cwd, expect=0):
    done = subprocess.run([str(binary()), *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=120)
    assert (done.returncode == 0) == (expect == 0), done.stdout + done.stderr
    return done.stdout + done.stderr


def write(path, documents):
    opened = gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w")
    with opened as file:
        file.writelines(json.dumps(document) + "\n" for document in documents)
    return path


def points(http, name):
    body = {"limit": 1000, "with_payload": True}
    return {p["id"]: p["payload"] for p in http.result("POST", f"/collections/{name}/points/scroll", body)["points"]}


@pytest.fixture
def name(http, request):
    name = f"{request.node.originalname}-{os.getpid()}"
    yield name
    http.call("DELETE", f"/collections/{name}")


@pytest.fixture
def library(server, name, tmp_path):
    file = write(tmp_path / "docs.jsonl", DOCUMENTS)
    run("import", file, "--collection", name, "--url", server.url, "--text", "body", "--wait", cwd=tmp_path)
    return name


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_documents_without_vectors(server, http, name, tmp_path, ending):
    file = write(tmp_path / f"docs.{ending}", DOCUMENTS)
    said = run("import", file, "--collection", name, "--url", server.url, "--text", "body,title", "--wait", cwd=tmp_path)
    assert "imported 3 points" in said and "no vectors" in said and "text index on 'body' (english)" in said
    info = http.result("GET", f"/collections/{name}")
    assert info["config"]["params"]["vectors"] == {}
    schema = info["payload_schema"]
    assert set(schema) == {"body", "title"} and all(of["data_type"] == "text" for of in schema.values())
    assert points(http, name) == {d["id"]: {k: v for k, v in d.items() if k != "id"} for d in DOCUMENTS}


def test_ids_of_other_kinds(server, http, name, tmp_path):
    file = write(tmp_path / "docs.jsonl", [{"id": "17", "body": "a"}, {"id": "MED-10", "body": "b"}])
    send = ["import", file, "--collection", name, "--url", server.url]
    said = run(*send, cwd=tmp_path, expect=1)
    assert 'line 2' in said and '"MED-10"' in said and "--ids" in said
    assert "The first 1 points are imported" in said
    assert points(http, name) == {17: {"body": "a"}}
    run(*send, "--ids", "hash", cwd=tmp_path)
    hashed = {str(uuid.uuid5(uuid.NAMESPACE_OID, of)): {"id": of, "body": body} for of, body in (("17", "a"), ("MED-10", "b"))}
    assert points(http, name) == {17: {"body": "a"}, **hashed}
    run(*send, "--ids", "line", cwd=tmp_path)
    assert points(http, name) == {0: {"id": "17", "body": "a"}, 1: {"id": "MED-10", "body": "b"}, 17: {"body": "a"}, **hashed}


def test_vectors_of_every_kind_into_a_collection_that_is_there(server, http, name, tmp_path):
    settings = {
        "vectors": {"d": {"size": 2, "distance": "Dot"}, "m": {"size": 2, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}}},
        "sparse_vectors": {"s": {}, "t": {"modifier": "idf"}},
    }
    http.call("PUT", f"/collections/{name}", settings)
    lines = [
        {"id": 1, "vector": {"s": {"indices": [3, 7], "values": [0.5, 1.5]}}, "payload": None},
        {"id": 2, "vector": {"m": [[1.0, 2.0], [3.0, 4.0]]}, "title": "two"},
        {"id": 3, "vector": {"t": {"text": "red", "model": "qdrant/bm25"}}},
        {"id": 4, "payload": {"n": 4}, "shard_key": None, "order_value": 7},
        {"id": 5, "vector": {"d": [1.0, 2.0]}},
    ]
    send = ["import", write(tmp_path / "v.jsonl", lines), "--collection", name, "--url", server.url]
    run(*send, cwd=tmp_path)
    assert points(http, name) == {1: {}, 2: {"title": "two"}, 3: {}, 4: {"n": 4}, 5: {}}
    body = {"limit": 10, "with_vector": True}
    vectors = {p["id"]: p["vector"] for p in http.result("POST", f"/collections/{name}/points/scroll", body)["points"]}
    assert vectors[1] == lines[0]["vector"] and vectors[2] == lines[1]["vector"] and vectors[4] == {} and vectors[5] == lines[4]["vector"]
    assert len(vectors[3]["t"]["indices"]) == 1
    odd = write(tmp_path / "odd.jsonl", lines[1:])
    said = run("import", odd, "--collection", f"{name}-new", "--url", server.url, cwd=tmp_path, expect=1)
    assert f"there is no collection '{name}-new'" in said and "line 1" in said and "'m'" in said
    # What the server refuses it refuses by name.
    wrong = write(tmp_path / "wrong.jsonl", [{"id": 6, "vector": {"s": {"indices": [1], "values": [1, 2]}}}])
    assert f"point 0 ({wrong}: line 1)" in run("import", wrong, *send[2:], cwd=tmp_path, expect=1)


@pytest.mark.parametrize("line", ["{", "[1]", '{"id": -3, "body": "x"}', "nonsense"])
def test_errors_name_the_line(server, http, name, tmp_path, line):
    file = tmp_path / "docs.jsonl"
    file.write_text('{"id": 1, "body": "x"}\n\n' + line + "\n")
    said = run("import", file, "--collection", name, "--url", server.url, cwd=tmp_path, expect=1)
    assert f"{file}: line 3" in said, said


def test_a_killed_import_goes_on(own_server, tmp_path):
    """The server sees the first batches slowly, the import is killed, and the same command sends the rest alone."""
    file = write(tmp_path / "docs.jsonl", [{"id": n, "body": f"word{n % 50} common"} for n in range(3_000)])
    http = own_server.http()
    with Tap(own_server.port, delay_s=0.2) as tap:
        send = ["import", file, "--collection", "c", "--url", tap.url, "--resume", "--batch", 50, "--parallel", 1]
        state = tmp_path / "ramlet-import.json"
        running = subprocess.Popen([str(binary()), *map(str, send)], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not state.exists() or json.loads(state.read_text())["points"] == 0:
            assert running.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
        running.wait()
        done = json.loads(state.read_text())["points"]
        assert 0 < done < 3_000
        tap.delay_s = 0
        other = run(*[a if a != "c" else "d" for a in send], cwd=tmp_path, expect=1)
        assert "is of an import of" in other and "'c'" in other
        said = run(*send, cwd=tmp_path)
    assert "continuing after the first" in said and f"imported {3_000 - done:,} points" in said
    assert http.result("POST", "/collections/c/points/count", {"exact": True})["count"] == 3_000
    assert not state.exists()
    http.close()


def test_search_for_words(server, library, tmp_path):
    def search(*arguments):
        return run("search", *arguments, "--collection", library, "--url", server.url, cwd=tmp_path)

    found = [json.loads(line) for line in search("lazy", "dogs", "--json").splitlines()]
    assert [hit["id"] for hit in found] == [2, 1] and found[0]["score"] > found[1]["score"] > 0
    shown = search("wheelbarrows")
    assert "Barrow" in shown and "red wheelbarrow" in shown and shown.count("\n") == 2
    ids = lambda *more: [json.loads(line)["id"] for line in search(*more, "--json").splitlines()]  # noqa: E731
    assert set(ids("fox", "sleeps")) == {1, 2} and ids("fox", "sleeps", "--limit", 1) in ([1], [2])
    assert ids("lazy", "dog", "sleeps", "--mode", "all") == [2]
    assert ids("brown", "fox", "--mode", "phrase") == [1]
    old = '{"must": [{"key": "year", "range": {"lt": 1970}}]}'
    assert ids("lazy", "dog", "--filter", old) == [1]
    nothing = search("zebra")
    assert nothing.strip() == "nothing was found"


def test_search_shows_lists_of_texts_and_commands_no_terminal(server, http, name, tmp_path):
    evil = "\x1b[31mred\x1b[0m \x9bwheel \x7f"
    file = write(tmp_path / "docs.jsonl", [{"id": 1, "body": ["green", "a " + evil, "blue"], "title": "\x1b]0;title\x07"}])
    run("import", file, "--collection", name, "--url", server.url, "--text", "body", cwd=tmp_path)
    send = ["search", "wheel", "--collection", name, "--url", server.url]
    shown = run(*send, cwd=tmp_path)
    assert "wheel" in shown and "green" not in shown and "title" in shown
    line = run(*send, "--json", cwd=tmp_path)
    for text in (shown, line):
        assert not [c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)], text
    assert json.loads(line)["payload"]["body"][1] == "a " + evil


def test_search_says_what_is_wrong(server, http, library, tmp_path):
    def fails(*arguments):
        return run("search", *arguments, "--url", server.url, cwd=tmp_path, expect=1)

    assert "there is no collection 'nowhere'" in fails("x", "--collection", "nowhere")
    assert "--filter is not JSON" in fails("x", "--collection", library, "--filter", "{")
    index = {"field_name": "title", "field_schema": {"type": "text", "scoring": True}}
    http.call("PUT", f"/collections/{library}/index?wait=true", index)
    assert "--field names one of the fields with a text index: body, title" in fails("x", "--collection", library)
    silent = subprocess.run(
        [str(binary()), "search", "x", "--collection", "c", "--url", "http://127.0.0.1:9"], capture_output=True, text=True, timeout=60
    )
    assert silent.returncode == 1 and "no server answers at http://127.0.0.1:9" in silent.stderr


def test_search_for_points_like_one(server, http, name, tmp_path):
    documents = [{"id": n, "vector": [1.0, n / 10], "title": f"point {n}"} for n in range(5)]
    run("import", write(tmp_path / "v.jsonl", documents), "--collection", name, "--url", server.url, cwd=tmp_path)
    said = run("search", "--like", 0, "--collection", name, "--url", server.url, "--limit", 2, "--json", cwd=tmp_path)
    assert [json.loads(line)["id"] for line in said.splitlines()] == [1, 2]


def test_search_with_a_key(tmp_path):
    with Server(tmp_path / "data", arguments=["--api-key", "secret"], key="secret") as server:
        file = write(tmp_path / "docs.jsonl", DOCUMENTS)
        told = ["--collection", "c", "--url", server.url, "--api-key", "secret"]
        run("import", file, *told, "--text", "body", cwd=tmp_path)
        assert "Fox" in run("search", "fox", *told, cwd=tmp_path)
        refused = run("search", "fox", "--collection", "c", "--url", server.url, cwd=tmp_path, expect=1)
        assert "401" in refused or "403" in refused


def piped(text, *arguments, cwd):
    done = subprocess.run([str(binary()), *map(str, arguments)], input=text, capture_output=True, text=True, cwd=cwd, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_a_table_through_a_pipe(server, http, name, tmp_path):
    """Vectors of both kinds, types, text; ids behind those that are there; what the collection can't take is named by its line."""
    told = ["import", "-", "--format", "csv", "--collection", name, "--url", server.url]
    fields = ["--vector-field", "d=dense", "--vector-field", "s=sparse"]
    table = 'dense,sparse,body,year\n"[0.5, 1]","{""indices"":[3],""values"":[2]}",a red barrow,1923\n[1 0],,a lazy dog,\n'
    code, said = piped(table, *told, *fields, "--text", "body", cwd=tmp_path)
    assert code == 0 and "2 new, 0 replaced" in said, said
    assert points(http, name) == {0: {"body": "a red barrow", "year": 1923}, 1: {"body": "a lazy dog"}}
    assert "red barrow" in run("search", "barrows", "--collection", name, "--url", server.url, cwd=tmp_path)
    code, said = piped(table, *told, *fields, cwd=tmp_path)
    assert code == 1 and "--ids append" in said, said
    for extra in (7, 2**63):
        http.call("PUT", f"/collections/{name}/points?wait=true", {"points": [{"id": extra, "vector": {}}]})
        code, said = piped(table, *told, *fields, "--ids", "append", cwd=tmp_path)
        assert code == 0 and "2 new" in said, said
        assert {extra + 1, extra + 2} <= set(points(http, name))
    bad = table + '"[1, 2, 3]",,three,1\n'
    code, said = piped(bad, *told, *fields, "--ids", "hash", cwd=tmp_path)
    assert code == 1 and "standard input: line 4" in said and "expected dim: 2" in said, said
    code, said = piped(table, *told, *fields, "--ids", "hash", "--distance", "Dot", cwd=tmp_path)
    assert code == 1 and "exists with Cosine" in said, said


def test_nothing_is_left_of_an_import_that_fails(server, http, name, tmp_path):
    file = write(tmp_path / "docs.jsonl", [{"id": "six"}])
    said = run("import", file, "--collection", name, "--url", server.url, cwd=tmp_path, expect=1)
    assert "removed the empty collection" in said
    assert http.raw("GET", f"/collections/{name}")[0] == 404
