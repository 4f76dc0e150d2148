"""Long answers: none waits for the network's timers, for itself, or for a client that has gone; others are served meanwhile."""

import json
import sys
from pathlib import Path

import pytest

import conftest
from harness.netns import CannotMake, Namespace
from harness.server import Server

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rigs"))

import answers  # noqa: E402


@pytest.mark.parametrize("memory", ["16MB", "64MB"])
def test_no_answer_waits_for_delayed_confirmations(tmp_path, memory):
    """A receiver confirms two segments at once, and one after 40 ms: a socket buffer must hold several."""
    if conftest.SELF:
        pytest.skip("needs a server")
    try:
        space = Namespace()
    except CannotMake as reason:
        pytest.skip(f"no network namespace can be made here: {reason}")
    with space:
        server = Server(tmp_path / "data", memory=memory)
        space.run(server.start)
        try:
            space.run(lambda: answers.fill(server.http(), 150, answers.POINT_BYTES))
            for api, port in (("rest", server.port), ("grpc", server.grpc_port)):
                done = space.run(answers.run_client, api, "127.0.0.1", port, 3, [83, 150])
                assert done.returncode == 0, done.stderr
                for row in map(json.loads, done.stdout.splitlines()):
                    assert row["delayed"] <= 1, (api, row)
        finally:
            space.run(server.stop)


# Of each budget some sizes: those whose portions are largest in it, and pages that have to be sent while they are read.
SAMPLE = {
    "16MB": [(1_000, 64), (20_000, 40)],
    "32MB": [(4_000, 300), (20_000, 60), (200_000, 20)],
    "64MB": [(18_000, 300), (32_000, 300)],
    "135MB": [(30_000, 70), (200_000, 20)],
    "512MB": [(60_000, 300)],
}


@pytest.fixture(params=list(SAMPLE))
def sampled(tmp_path, request):
    if conftest.SELF:
        pytest.skip("needs a server")
    with Server(tmp_path / "data", memory=request.param) as server:
        yield server, SAMPLE[request.param]


def test_every_answer_ends_and_others_are_served(sampled):
    server, sizes = sampled
    wrong = []

    def told(case, _status, _took_ms, fault):
        if fault:
            wrong.append(f"{case}: {fault}")

    protocols = {"rest": answers.Rest(server), "http2": answers.Http2(server), "grpc": answers.Grpc(server)}
    answers.grid(server, sizes, protocols, told)
    assert not wrong, "\n".join(wrong)
    assert not answers.released(server)


def test_encrypted_answers_end_too(tmp_path):
    if conftest.SELF:
        pytest.skip("needs a server")
    import grpc
    from test_tls import Certificates, Encrypted

    certificates, wrong = Certificates(tmp_path), []
    with Encrypted(tmp_path / "data", certificates, memory="32MB") as server:
        credentials = grpc.ssl_channel_credentials(certificates.ca_path.read_bytes())
        protocols = {"rest": answers.Rest(server, certificates.trusting()), "grpc": answers.Grpc(server, credentials)}
        answers.grid(server, [(4_000, 300)], protocols, lambda case, *rest: wrong.append((case, rest[-1])) if rest[-1] else None)
    assert not wrong, wrong


def told_of(wrong):
    def told(case, _took_ms, fault):
        if fault:
            wrong.append(f"{case}: {fault}")

    return told


@pytest.mark.parametrize("memory", ["16MB", "64MB"])
def test_who_stops_reading_or_goes_keeps_nobody_waiting(tmp_path, memory):
    """Half of all kinds in each budget."""
    if conftest.SELF:
        pytest.skip("needs a server")
    wrong, half = [], ["16MB", "64MB"].index(memory)
    with Server(tmp_path / "data", memory=memory) as server:
        answers.load(server, [answers.STOPPED, answers.STOPPED_MESSAGE])
        answers.beside_stopped(server, [case for n, case in enumerate(answers.all_stopped()) if (n + n // 2) % 2 == half], answers.Rest(server), told_of(wrong))
    assert not wrong, "\n".join(wrong)


def test_who_stops_reading_what_is_encrypted_keeps_nobody_waiting(tmp_path):
    if conftest.SELF:
        pytest.skip("needs a server")
    from test_tls import Certificates, Encrypted

    certificates, wrong = Certificates(tmp_path), []
    with Encrypted(tmp_path / "data", certificates, memory="32MB") as server:
        answers.load(server, [answers.STOPPED, answers.STOPPED_MESSAGE])
        asker, third = answers.Rest(server, certificates.trusting()), answers.all_stopped()[::3]
        answers.beside_stopped(server, third, asker, told_of(wrong), certificates.trusting())
    assert not wrong, "\n".join(wrong)


def test_a_long_page_needs_little_memory_for_a_point(tmp_path):
    """The list of its points would take 4.8 MB of 32."""
    if conftest.SELF:
        pytest.skip("needs a server")
    count = 30_000
    with Server(tmp_path / "data", memory="32MB") as server:
        http, base = server.http(), "/collections/c"
        http.result("PUT", base, {"vectors": {"size": 2, "distance": "Dot"}})
        for first in range(0, count, 1_000):
            points = [{"id": n, "vector": [n, 1], "payload": {"n": n}} for n in range(first, first + 1_000)]
            http.result("PUT", f"{base}/points?wait=true", {"points": points})
        http.result("PUT", f"{base}/index?wait=true", {"field_name": "n", "field_schema": "integer"})
        even = {"must_not": [{"key": "n", "range": {"gte": 10_000, "lt": 20_000}}]}
        for limit in (100, 8_192, 8_193, 20_000, 25_000, count, 10**9):
            for parts in ({"with_payload": False}, {"with_payload": True}, {"with_payload": False, "with_vector": True}):
                for where, ids in ((None, range(count)), (even, [*range(10_000), *range(20_000, count)])):
                    page = http.result("POST", f"{base}/points/scroll", {"limit": limit, "filter": where, "offset": 5, **parts})
                    ids = list(ids)[5:]
                    assert [p["id"] for p in page["points"]] == ids[:limit], (limit, parts, where)
                    assert page["next_page_offset"] == (ids[limit] if limit < len(ids) else None), (limit, parts, where)
                    last = page["points"][-1]
                    assert last.get("payload") == ({"n": last["id"]} if parts["with_payload"] else None)
                    assert last.get("vector") == ([last["id"], 1] if parts.get("with_vector") else None)
        client = conftest.client_of(server, prefer_grpc=True)
        points, following = client.scroll("c", limit=9_000, with_payload=False)
        assert ([p.id for p in points], following) == (list(range(9_000)), 9_000)
        client.close()


def test_long_batches_and_groups_are_what_their_parts_are(tmp_path):
    if conftest.SELF:
        pytest.skip("needs a server")
    with Server(tmp_path / "data", memory="16MB") as server:
        http = server.http()
        answers.fill(http, 120, 18_000, "c")
        answers.fill(http, 4, 40_000, "names")
        none = {"must": [{"key": "group", "match": {"value": 9}}]}
        # No two points have the same score: of equal ones the order is that of the rows, which a flush in between may change.
        searches = [
            {"query": [1, n + 1], "limit": limit, "offset": n, "with_payload": limit % 2 == 0, "with_vector": True, "filter": none if limit == 3 else None}
            for n, limit in enumerate([2, 3, 100, 3, 60, 1, 64, 2])
        ]
        singly = [http.result("POST", "/collections/c/points/query", search) for search in searches]
        assert http.result("POST", "/collections/c/points/query/batch", {"searches": searches}) == singly
        assert http.result("POST", "/collections/c/points/query/batch", {"searches": []}) == []
        # All are made before anything is sent: the last one's fault is the answer.
        wrong = [*searches, {"query": [1, 2, 3]}]
        status, _, said = http.raw("POST", "/collections/c/points/query/batch", json.dumps({"searches": wrong}))
        assert status == 400 and b"imension" in said, (status, said[:300])

        asked = {"query": [1, 0.5], "group_by": "group", "limit": 4, "group_size": 25, "with_lookup": {"collection": "names", "with_payload": True}}
        short = http.result("POST", "/collections/c/points/query/groups", {**asked, "with_payload": False})["groups"]
        long = http.result("POST", "/collections/c/points/query/groups", {**asked, "with_payload": True})["groups"]
        points = {point["id"]: point["payload"] for point in http.result("POST", "/collections/c/points/scroll", {"limit": 120})["points"]}
        for group in short:
            assert group["lookup"]["id"] == group["id"] and len(group["lookup"]["payload"]["text"]) == 40_000 - 50
            for hit in group["hits"]:
                hit["payload"] = points[hit["id"]]
        assert long == short
        assert not answers.released(server)
