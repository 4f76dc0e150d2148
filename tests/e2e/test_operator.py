"""The operator's questions (why slow, why refused, what is it doing, what would more RAM buy, what must I do), each by the page, by curl, by a metric and in the log."""

import base64
import json
import os
import random
import re
import shutil
import threading
import time
from pathlib import Path

import pytest
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

import conftest
from browser import BROWSER, Page
from conftest import client_of
from harness import disk, faults
from harness.server import Server

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium here (apt-get install chromium)")

# Looked at by people: pictures of the page go there when it is set.
PICTURES = os.environ.get("RAMLET_PICTURES")


def metrics(http):
    """Samples by the text before the value."""
    text = http.raw("GET", "/metrics")[2].decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if not line.startswith("#")}


def until(look, what, timeout=30):
    """What `look` gives once it is true."""
    end = time.monotonic() + timeout
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, what
        time.sleep(0.1)


def upsert(http, collection, first, count, dims, payload=None, seed=1):
    rng = random.Random(seed + first)
    points = [
        {"id": n, "vector": [round(rng.uniform(-1, 1), 4) for _ in range(dims)], "payload": payload(n) if payload else {}}
        for n in range(first, first + count)
    ]
    return http.raw("PUT", f"/collections/{collection}/points?wait=true", json.dumps({"points": points}))


def fill(http, collection, count, dims, payload=None, batch=2_000):
    # So many kB become a segment once nothing is written.
    settings = {"vectors": {"size": dims, "distance": "Dot"}, "optimizers_config": {"indexing_threshold": 100}}
    http.result("PUT", f"/collections/{collection}", settings)
    for first in range(0, count, batch):
        status, _, body = upsert(http, collection, first, min(batch, count - first), dims, payload)
        assert status == 200, body


def issue(http, code):
    return [issue for issue in http.result("GET", "/issues")["issues"] if issue["code"] == code]


def page_says(server, tmp_path, element, pattern, timeout=60):
    """Whether the first page comes to say it, under its question."""
    if BROWSER is None:
        pytest.skip("no Chromium here (apt-get install chromium)")
    with Page(f"{server.url}/dashboard", tmp_path / f"profile-{element}") as page:
        page.until(f"/{pattern}/.test(document.getElementById({json.dumps(element)})?.innerText ?? '')", timeout)
        return page.text(f"#{element}")


def logged(server, pattern, timeout=20):
    return until(lambda: re.search(pattern, server.log(100_000)), f"not in the log: {pattern}\n{server.log()}", timeout).group(0)


# ---- a filter without an index


@pytest.fixture(scope="module")
def unindexed(tmp_path_factory):
    work = tmp_path_factory.mktemp("unindexed")
    with Server(work / "data", arguments=["--slow-query", "1ms"]) as server:
        http = server.http()
        fill(http, "c", 20_000, 4, lambda n: {"label": f"l{n % 500}", "n": n})
        http.result("PUT", "/collections/c/index?wait=true", {"field_name": "n", "field_schema": "integer"})
        body = {"query": [1, 1, 1, 1], "filter": {"must": [{"key": "label", "match": {"value": "l7"}}]}, "limit": 50}

        def asked():
            # Rows in the write buffer are in memory: once they are in a segment, payloads are read.
            http.result("POST", "/collections/c/points/query", body)
            return issue(http, "UNINDEXED_FIELD")

        until(asked, "no issue of the field", 60)
        yield server, body


def test_a_filter_without_an_index_by_curl(unindexed):
    server, body = unindexed
    http = server.http()
    [found] = issue(http, "UNINDEXED_FIELD")
    assert found["instance_id"] == "c/label" and "Unindexed field 'label'" in found["description"], found
    assert re.search(r": (1 search|[\d,]+ searches) read up to [\d,]+ payloads each$", found["description"]), found
    action = found["solution"]["immediate"]["action"]
    assert (action["method"], action["uri"], action["body"]) == ("PUT", "/collections/c/index", {"field_name": "label", "field_schema": "keyword"})
    explain = http.call("POST", "/collections/c/points/query", {**body, "params": {"explain": True}})["explain"]
    assert re.fullmatch(r"no payload index on `label`: [\d,]+ payloads were read; create one \(keyword\)", explain["meaning"][0]), explain
    slow = http.result("GET", "/profiler/slow_requests?limit=3&request=query")["requests"]
    assert slow and [r["duration"] for r in slow] == sorted((r["duration"] for r in slow), reverse=True)
    named = [r for r in slow if any("`label`" in line for line in r["meaning"])]
    assert named and named[0]["collection_name"] == "c" and named[0]["request_body"]["filter"] == body["filter"], slow
    assert named[0]["explain"]["segments"], slow


def test_a_filter_without_an_index_by_metric(unindexed):
    http = unindexed[0].http()
    until(lambda: metrics(http)['ramlet_issues{code="UNINDEXED_FIELD"}'] == 1, "the metric never tells it")
    assert metrics(http)["ramlet_unindexed_fields"] == 1 and metrics(http)["ramlet_slow_requests_total"] > 0


def test_a_filter_without_an_index_in_the_log(unindexed):
    server, body = unindexed
    # A line a second, of whatever is slow then.
    line = r"slow request: no payload index on `label`: [\d,]+ payloads were read; create one"

    def asked():
        time.sleep(1.1)
        server.http().result("POST", "/collections/c/points/query", body)
        return re.search(line, server.log(100_000))

    until(asked, f"never logged\n{server.log()}", 60)
    logged(unindexed[0], r"issue: Unindexed field 'label' might be slowing queries down in collection 'c'")


def test_a_slow_request_that_is_no_search_says_where_its_time_went(unindexed):
    http = unindexed[0].http()

    def asked():
        time.sleep(1.1)
        for n in range(20):
            upsert(http, "c", 1_000_000 + n, 20, 4)
        return re.search(r'slow request: [\d.]+ ms of [\d.]+ ms went into [a-z ,]+ request="upsert_points"', unindexed[0].log(100_000))

    until(asked, f"never logged\n{unindexed[0].log()}", 60)


def test_a_filter_without_an_index_on_the_page(unindexed, tmp_path):
    said = page_says(unindexed[0], tmp_path, "q-todo", "Unindexed field 'label'")
    assert "Create an index on field 'label'" in said
    page_says(unindexed[0], tmp_path, "q-slow", "no payload index on `label`")


READS = {
    "scroll": ("/points/scroll", lambda where: {"filter": where}),
    "count": ("/points/count", lambda where: {"filter": where}),
    "facet": ("/facet", lambda where: {"key": "n", "filter": where}),
    "matrix": ("/points/search/matrix/pairs", lambda where: {"filter": where}),
}


def test_reads_that_are_no_searches_miss_an_index_too(tmp_path):
    with Server(tmp_path / "data", arguments=["--slow-query", "1ms"]) as server:
        http = server.http()
        fill(http, "c", 20_000, 4, lambda n: {f: n for f in [*READS, "n"]})
        http.result("PUT", "/collections/c/index?wait=true", {"field_name": "n", "field_schema": "integer"})
        for field, (path, body) in READS.items():
            where = {"must": [{"key": field, "match": {"value": 19_999}}]}

            def asked():
                http.result("POST", f"/collections/c{path}", body(where))
                return any(found["instance_id"] == f"c/{field}" for found in issue(http, "UNINDEXED_FIELD"))

            until(asked, f"no issue of the field that a {field} asks about", 60)
        [created] = http.result("GET", "/profiler/slow_requests?request=create_collection")["requests"]
        assert created["collection_name"] == "c", created
        slow = http.result("GET", "/profiler/slow_requests?request=count")["requests"]
        assert any("no payload index on `count`" in line for r in slow for line in r["meaning"]), slow
        # Few payloads are worth no index.
        http.call("DELETE", "/issues")
        http.result("POST", "/collections/c/points/scroll", {"filter": {"must": [{"key": "scroll", "range": {"lt": 50}}]}, "limit": 5})
        assert not issue(http, "UNINDEXED_FIELD")


CHANGES = {
    "delete": ("POST", "/points/delete", lambda where: {"filter": where}),
    "set": ("POST", "/points/payload", lambda where: {"payload": {"a": 1}, "filter": where}),
    "overwrite": ("PUT", "/points/payload", lambda where: {"payload": {"a": 1}, "filter": where}),
    "remove": ("POST", "/points/payload/delete", lambda where: {"keys": ["a"], "filter": where}),
    "clear": ("POST", "/points/payload/clear", lambda where: {"filter": where}),
    "batch": ("POST", "/points/batch", lambda where: {"operations": [{"delete": {"filter": where}}, {"delete": {"points": [7]}}]}),
}


def test_changes_by_a_filter_miss_an_index_too(tmp_path):
    with Server(tmp_path / "data", arguments=["--slow-query", "1ms"]) as server:
        http = server.http()
        fill(http, "c", 20_000, 4, lambda n: {f: n for f in CHANGES})
        for field, (method, path, body) in CHANGES.items():
            where = {"must": [{"key": field, "match": {"value": -1}}]}

            def asked():
                http.result(method, f"/collections/c{path}?wait=true", body(where))
                return any(found["instance_id"] == f"c/{field}" for found in issue(http, "UNINDEXED_FIELD"))

            until(asked, f"no issue of the field that a {field} asks about", 60)
        # Of a request that was sent again, the slowest run is shown: in the others no payload may have been in a segment.
        where = {"must": [{"key": "delete", "match": {"value": -2}}]}
        http.result("POST", "/collections/c/points/delete?wait=true", {"filter": where})
        slow = http.result("GET", "/profiler/slow_requests?request=delete_points")["requests"]
        [said] = [r["meaning"] for r in slow if r["request_body"] == {"filter": where}]
        assert "no payload index on `delete`" in said[0], said


def test_explain_of_words_in_the_write_buffer(own_server):
    http = own_server.http()
    fill(http, "c", 5_000, 4, lambda n: {"t": f"the word{n % 50}"})
    http.result("PUT", "/collections/c/index?wait=true", {"field_name": "t", "field_schema": {"type": "text", "scoring": True, "language": "english"}})
    for words, stage in [("word1", "lists"), ("the", "payloads")]:
        body = {"query": {"text": words}, "using": "t", "params": {"explain": True}}
        explain = http.call("POST", "/collections/c/points/query", body)["explain"]
        times = {s["stage"]: s["time_us"] for s in explain["stages"]}
        most = max(times, key=times.get)
        assert most == stage, explain
        said = [line for line in explain["meaning"] if "stop words" in line]
        assert len(said) == (words == "the"), explain
        assert words != "the" or "5,000 payloads were read" in said[0], said


def test_explain_by_grpc_and_by_the_command_line(unindexed, tmp_path):
    import subprocess

    import grpc
    from harness.server import binary
    from qdrant_client import grpc as api

    server, body = unindexed
    channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
    condition = api.Condition(field=api.FieldCondition(key="label", match=api.Match(keyword="l7")))
    query = api.QueryPoints(
        collection_name="c", query=api.Query(nearest=api.VectorInput(dense=api.DenseVector(data=[1, 1, 1, 1]))),
        filter=api.Filter(must=[condition]), limit=50,
    )
    _, call = api.PointsStub(channel).Query.with_call(query, metadata=[("ramlet-explain", "1")])
    told = json.loads(dict(call.initial_metadata())["ramlet-explain"])
    assert "no payload index on `label`" in told["meaning"][0] and told["time_us"]["total"] > 0, told
    _, call = api.PointsStub(channel).Query.with_call(query)
    assert "ramlet-explain" not in dict(call.initial_metadata())
    command = [str(binary()), "search", "--collection", "c", "--url", server.url, "--like", "3", "--explain", "--filter", json.dumps(body["filter"])]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "=> no payload index on `label`" in said and re.search(r"  search  +\d+\.\d\d ms  #", said), said
    [line] = [json.loads(line) for line in subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout.splitlines()][-1:]
    assert line["explain"]["segments"], line


# ---- a refused batch


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("refused") / "data", memory="16MB") as server:
        http = server.http()
        http.result("PUT", "/collections/c", {"vectors": {"size": 64, "distance": "Dot"}})
        yield server, [upsert(http, "c", 0, 40_000, 64) for _ in range(3)][-1]


def test_a_refused_batch_by_curl(refused):
    status, headers, body = refused[1]
    said = json.loads(body)["status"]["error"]
    assert status == 413 and "retry-after" not in {name.lower() for name in headers}, (status, headers, said)
    assert re.search(r"[\d.]+ MB", said) and "Waiting doesn't help" in said and "smaller batches" in said, said


def test_the_official_client_shows_what_to_do(tmp_path):
    """It cuts an answer off after 200 bytes: by then it is said what was asked, what there is, and the next step."""
    with Server(tmp_path / "data", memory="16MB") as server:
        client = client_of(server)
        client.create_collection("c", vectors_config=models.VectorParams(size=768, distance=models.Distance.DOT))
        points = [models.PointStruct(id=n, vector=[0.5] * 768) for n in range(1_500)]
        with pytest.raises(UnexpectedResponse) as refused:
            client.upsert("c", points)
        said = str(refused.value)
        assert "send smaller batches" in said and len(re.findall(r"[\d.]+ MB", said)) == 2, said
        client.close()


def test_whoever_follows_a_refusal_gets_a_batch_in(tmp_path):
    """It says how many parts a body needs at least: of what is known of it, which is more once it was read."""
    with Server(tmp_path / "data", memory="16MB") as server:
        http, points = server.http(), 40_000
        http.result("PUT", "/collections/c", {"vectors": {"size": 64, "distance": "Dot"}})
        for _ in range(3):
            status, _, body = upsert(http, "c", 0, points, 64)
            if status == 200:
                break
            points //= int(re.search(rb"at least (\d+) of like size", body)[1])
        assert status == 200 and points >= 100, (points, body)


def test_a_refused_batch_by_metric(refused):
    found = {name: value for name, value in metrics(refused[0].http()).items() if name.startswith("ramlet_refusals_total") and value}
    assert list(found.values()) == [3] and re.search('kind="(body_too_large|memory_never)"', next(iter(found))), found


def test_a_refused_batch_in_the_log(refused):
    line = logged(refused[0], r"refused: .*Waiting doesn't help.*")
    assert "MB" in line and 'collection="c"' in line, line
    assert 1 <= len(re.findall("refused: ", refused[0].log(100_000))) <= 3


def test_what_was_refused_last_is_kept(refused):
    server, (_, _, body) = refused
    [kept] = server.http().result("GET", "/profiler/slow_requests")["refusals"]
    assert kept["message"] == json.loads(body)["status"]["error"] and kept["collection_name"] == "c" and kept["count"] == 3, kept


def test_a_refused_batch_on_the_page(refused, tmp_path):
    said = page_says(refused[0], tmp_path, "q-refused", "3 (with bodies that are too large|that can never fit)")
    assert re.search(r"→ c, .* ago: .*Waiting doesn't help", said), said


def test_a_refused_batch_by_grpc(tmp_path):
    """As by REST: numbers that tell what is asked from what there is, no counts of bytes, and into how many parts it is to be divided."""
    with Server(tmp_path / "data", memory="16MB") as server:
        client = client_of(server, prefer_grpc=True)
        client.create_collection("c", vectors_config=models.VectorParams(size=768, distance=models.Distance.DOT))
        points = [models.PointStruct(id=n, vector=[0.5] * 768) for n in range(1_500)]

        def refused(call):
            with pytest.raises(Exception) as error:
                call()
            said = str(error.value)
            wants, has = (re.search(words, said)[1] for words in (r"needs ([\d.]+ .?B)", r"at most ([\d.]+ .?B) can ever"))
            assert wants != has and not re.search(r"\d{4} bytes", said) and "Waiting doesn't help" in said, said
            return said

        parts = int(re.search(r"at least (\d+) of like size", refused(lambda: client.upsert("c", points)))[1])
        for first in range(0, 1_500, 1_500 // (2 * parts)):
            client.upsert("c", points[first : first + 1_500 // (2 * parts)])
        assert "An answer in one piece may have" in refused(lambda: client.scroll("c", limit=1_500, with_vectors=True))
        client.close()


# ---- a slow disk, and a merge under way


@pytest.fixture
def faulty(tmp_path):
    try:
        broken = faults.Faults(tmp_path / "data", tmp_path)
    except faults.CannotMake as why:
        pytest.skip(f"no calls can be made slow here: {why}")
    arguments = ["--backend", "pread", "--slow-query", "50ms"]
    with Server(tmp_path / "data", memory="32MB", arguments=arguments, environment=broken.environment) as server:
        yield server, broken
        broken.disarm()
    broken.close()


def test_a_slow_disk_is_named_everywhere(faulty, tmp_path):
    server, broken = faulty
    http = server.http()
    http.result("PUT", "/collections/c", {"vectors": {"size": 4, "distance": "Dot"}})
    assert not issue(http, "SLOW_DISK")
    broken.slow(["fdatasync"], 120, match="log")
    for n in range(20):
        assert upsert(http, "c", n, 1, 4)[0] == 200
    [found] = issue(http, "SLOW_DISK")
    assert re.search(r"A sync of the log takes \d+\.\d ms on average", found["description"]), found
    until(lambda: metrics(http)['ramlet_issues{code="SLOW_DISK"}'] == 1, "the metric never tells it")
    assert metrics(http)["ramlet_log_sync_seconds_sum"] > 20 * 0.12
    logged(server, r'slow sync of the log collection="c"')
    logged(server, r"issue: A sync of the log takes")
    # Slow writes are kept as slow searches are.
    assert http.result("GET", "/profiler/slow_requests?request=upsert")["requests"][0]["duration"] >= 0.12
    page_says(server, tmp_path, "q-todo", "A sync of the log takes")


def test_a_full_disk_is_named_everywhere(tmp_path):
    try:
        drive = disk.LoopDisk(tmp_path, 192)
    except disk.CannotMake as why:
        pytest.skip(f"no disk can be made here: {why}")
    with drive, Server(drive.path / "data", memory="32MB") as server:
        http = server.http()
        http.result("PUT", "/collections/c", {"vectors": {"size": 4, "distance": "Dot"}})
        assert upsert(http, "c", 0, 1, 4)[0] == 200 and not issue(http, "DISK_FULL")
        ballast = drive.path / "ballast"
        with open(ballast, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(drive.path).free - (40 << 20))
        assert upsert(http, "c", 1, 1, 4)[0] == 507
        [found] = issue(http, "DISK_FULL")
        assert re.search(r"^\d\d MB of disk are free, writes need 6\d MB", found["description"]), found
        until(lambda: metrics(http)['ramlet_issues{code="DISK_FULL"}'] == 1, "the metric never tells it")
        logged(server, r"issue: \d\d MB of disk are free")
        page_says(server, tmp_path, "q-todo", "MB of disk are free, writes need")
        assert http.result("POST", "/collections/c/points/count", {})["count"] == 1
        ballast.unlink()
        assert not issue(http, "DISK_FULL") and upsert(http, "c", 1, 1, 4)[0] == 200
        http.close()


def test_slow_reads_are_told_from_a_few_timed_searches(faulty):
    server, broken = faulty
    http = server.http()
    fill(http, "c", 20_000, 8, lambda n: {"text": "x" * 400, "n": n})
    until(lambda: http.result("GET", "/collections/c")["segments_count"] >= 2, "nothing was flushed")
    broken.slow(["read"], 20)
    rng = random.Random(3)

    def asked():
        for _ in range(20):
            query = {"query": [rng.uniform(-1, 1) for _ in range(8)], "limit": 20, "with_payload": True}
            http.result("POST", "/collections/c/points/query", query)
        return issue(http, "SLOW_DISK")

    [found] = until(asked, "slow reads are never told", 60)
    assert found["instance_id"] == "reads" and "Reads take" in found["description"], found


def test_a_merge_under_way_is_named_everywhere(faulty, tmp_path):
    server, broken = faulty
    http = server.http()
    fill(http, "c", 6_000, 32)
    broken.slow(["write"], 30, match="seg")
    stop, failures = threading.Event(), []

    def write():
        own, first = server.http(), 6_000
        while not stop.is_set() and first < 120_000:
            status, _, body = upsert(own, "c", first, 500, 32)
            if status not in (200, 429):
                failures.append(body)
            first += 500

    writer = threading.Thread(target=write)
    writer.start()
    try:
        running = until(lambda: http.result("GET", "/collections/c/optimizations")["running"], "no merge began", 120)
        assert running[0]["status"] == "optimizing"
        logged(server, r'a job begins: segments are rewritten collection="c"')
        page_says(server, tmp_path, "q-doing", r"(of \d+ segments is under way|something is due)", 60)
        yellow = 'collection_running_optimizations{id="c"}'
        until(lambda: metrics(http)[yellow] == 1, "the metric never tells it")
    finally:
        stop.set()
        broken.disarm()
        writer.join()
    assert not failures, failures[:1]
    until(lambda: metrics(http)['ramlet_jobs_total{kind="merge"}'] > 0, "no merge ended", 120)
    logged(server, r'job done kind="merge" collection="c"')


# ---- a budget that is too small for the data


@pytest.fixture(scope="module")
def small_budget(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("small") / "data", memory="16MB") as server:
        http = server.http()
        fill(http, "c", 24_000, 128, batch=200)
        yield server, until(lambda: issue(http, "BUDGET_TOO_SMALL"), "more memory is never told to pay")[0]


def test_a_small_budget_by_curl(small_budget):
    server, found = small_budget
    more = re.match(r"\+(\d+) MB: searches of collection 'c' about (\d+) times faster", found["description"])
    assert more and int(more[2]) >= 2, found
    memory = int(re.search(r"--memory (\d+)MB", found["solution"]["refactor"])[1])
    assert memory == 16 + int(more[1]), "the step, and what is missing to it"
    # The staircase says the same: of all that is stored, and where the server stands.
    stairs = server.http().result("GET", "/plan")
    assert any(-(-step["memory_bytes_min"] // 1_000_000) == memory for step in stairs["steps"]), stairs
    speeds = [step["queries_per_second"] for step in stairs["steps"]]
    assert speeds == sorted(speeds) and [step["here"] for step in stairs["steps"]].count(True) == 1, stairs
    assert stairs["points"] == 24_000 and stairs["disk_bytes"] > 24_000 * 128 * 4, stairs


def test_a_small_budget_by_metric_and_in_the_log(small_budget):
    server, _ = small_budget
    http = server.http()
    until(lambda: metrics(http)['ramlet_issues{code="BUDGET_TOO_SMALL"}'] == 1, "the metric never tells it")
    logged(server, r"issue: \+\d+ MB: searches of collection 'c' about \d+ times faster")
    server.restart()
    logged(server, r"plan of what is stored: here, from \d+ MB: \d+ queries/s, [\d.]+ reads( and [\d.]+ MB in sequence)? each. Next: \d+ MB: ", 60)


def test_a_small_budget_on_the_page(small_budget, tmp_path):
    page_says(small_budget[0], tmp_path, "q-ram", r"\+\d+ MB: searches of collection 'c' about \d+ times faster")


# ---- the page


WIDTHS = """[...document.querySelectorAll('.bar')].filter(bar => bar.dataset.whole).flatMap(bar => [...bar.children].map(part => ({
  name: part.title, true: part.dataset.bytes / bar.dataset.whole * bar.clientWidth, drawn: part.getBoundingClientRect().width })))"""

CONTRASTS = """(() => {
  const channel = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = css => { const [r, g, b] = css.match(/[\\d.]+/g).map(Number); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
  return [...document.querySelectorAll('.bar span b')].map(label => {
    const style = getComputedStyle(label.parentElement);
    const [one, other] = [light(getComputedStyle(label).color), light(style.backgroundColor)].sort((a, b) => b - a);
    return { name: label.innerText, contrast: (one + 0.05) / (other + 0.05), width: label.getBoundingClientRect().width };
  });
})()"""


def picture(page, name):
    if PICTURES:
        height = page.run("Math.min(document.documentElement.scrollHeight, 6000)")
        clip = {"x": 0, "y": 0, "width": page.run("innerWidth"), "height": height, "scale": 1}
        shot = page.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        Path(PICTURES, f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


@needs_browser
@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
def test_bars_are_as_wide_as_what_they_stand_for(unindexed, tmp_path, width):
    server, _ = unindexed
    link = f"{server.url}/dashboard#collection=c&by=vector&what=1,1,1,1&limit=3"
    with Page(link, tmp_path / "profile") as page:
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        page.until("document.querySelectorAll('#in-use span').length > 3 && document.querySelectorAll('#timeline span').length > 0")
        page.until("/Unindexed/.test(document.getElementById('q-todo').innerText)", 60)
        assert page.run("innerWidth") == width
        picture(page, f"page-{width}")
        parts = page.run(WIDTHS)
        assert len(parts) > 10
        wrong = [part for part in parts if abs(part["true"] - part["drawn"]) > 1]
        assert not wrong, wrong
        drawn = page.run("[...document.querySelectorAll('#divided span')].reduce((all, part) => all + part.getBoundingClientRect().width, 0)")
        assert drawn <= page.run("document.getElementById('divided').clientWidth") + 1
        assert page.run("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"


@needs_browser
def test_labels_in_the_bars_can_be_read(unindexed, tmp_path):
    with Page(f"{unindexed[0].url}/dashboard", tmp_path / "profile") as page:
        page.until("document.querySelectorAll('#divided span b').length > 0")
        labels = page.run(CONTRASTS)
        assert labels and all(label["contrast"] >= 4.5 for label in labels), labels
        # Whatever colour a part will have.
        page.run("drawn = [...Array(16).keys()].map(n => { const s = document.createElement('span'); s.className = `c${n}`; s.innerHTML = '<b>x</b>'; return s; });"
                 "document.getElementById('in-use').replaceChildren(...drawn)")
        labels = page.run(CONTRASTS)
        assert sum(label["name"] == "x" for label in labels) == 16
        assert all(label["contrast"] >= 4.5 for label in labels if label["name"] == "x"), labels


@needs_browser
def test_the_first_page_answers_while_there_is_nothing(tmp_path):
    with Server(tmp_path / "data") as server, Page(f"{server.url}/dashboard", tmp_path / "profile") as page:
        page.until("!/…/.test(document.getElementById('questions').innerText)")
        said = page.text("#questions")
        for words in ["Nothing: there is no issue", "No search yet", "Nothing was refused", "Nothing in the background"]:
            assert words in said, said
        picture(page, "page-empty")


# ---- settings


def test_slow_requests_need_an_admin_key_and_can_be_off(tmp_path):
    keys = ["--api-key", "secret", "--read-only-api-key", "look", "--slow-query", "off"]
    with Server(tmp_path / "data", key="secret", arguments=keys) as server:
        http = server.http()
        told = http.result("GET", "/profiler/slow_requests")
        assert told["requests"] == [] and told["threshold_seconds"] is None, told
        server.key = "look"
        assert server.http().raw("GET", "/profiler/slow_requests")[0] == 403
    with Server(tmp_path / "other", environment={"RAMLET_SLOW_QUERY": "0ms"}) as server:
        client = client_of(server)
        client.get_collections()
        told = server.http().result("GET", "/profiler/slow_requests?limit=100")
        assert told["threshold_seconds"] == 0 and any(r["request_name"] == "list_collections" for r in told["requests"]), told


# ---- what watches from outside


def test_rules_and_dashboard_name_metrics_that_there_are(unindexed):
    server, _ = unindexed
    client_of(server, prefer_grpc=True).get_collections()
    there = {name.partition("{")[0] for name in metrics(server.http())}
    # Those of collections whose recall was measured; of servers that have none of it.
    there |= {"ramlet_recall_measured", "ramlet_recall_measured_error", "ramlet_recall_queries_total"}
    observe = Path(__file__).resolve().parents[2] / "packaging/observe"
    for file in ("alerts.yml", "grafana.json"):
        named = set(re.findall(r"\b(?:ramlet|rest|grpc|process)_[a-z_]+", (observe / file).read_text()))
        assert len(named) >= 8 and named <= there, (file, named - there)
    json.loads((observe / "grafana.json").read_text())


def test_the_log_as_json(tmp_path):
    with Server(tmp_path / "data", arguments=["--log-format", "json", "--slow-query", "0ms"]) as server:
        http = server.http()
        http.result("GET", "/collections")
        line = until(lambda: re.search(r'^{.*"slow request.*}$', server.log(1_000), re.M), "no line").group(0)
        told = json.loads(line)
        assert told["level"] == "WARN" and told["took_ms"] >= 0 and told["timestamp"].endswith("Z"), told
        assert all(json.loads(line) for line in server.log(1_000).splitlines() if line.startswith("{"))
