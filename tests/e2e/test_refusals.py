"""What doesn't fit the budget is refused with both numbers: 429 only where waiting helps."""

import json

import httpx
import pytest

import conftest
from harness.server import Server

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")


def test_one_collection_too_many_is_refused_for_good(tmp_path):
    with Server(tmp_path / "data", memory="16MB") as server:
        http = server.http()
        made = 0
        while made < 2_000:
            status, headers, body = http.raw("PUT", f"/collections/c{made}", '{"vectors": {"size": 4, "distance": "Dot"}}')
            if status != 200:
                break
            made += 1
        assert made > 1_000
        assert status == 507 and "retry-after" not in {name.lower() for name in headers}, (status, headers, body)
        said = body.decode()
        assert f"the {made} that this budget can list" in said and " MB can list all" in said, said
        # Nor does it help to wait, but to delete.
        assert http.raw("PUT", "/collections/one-more", '{"vectors": {"size": 4, "distance": "Dot"}}')[0] == 507
        http.result("DELETE", "/collections/c0")
        http.result("PUT", "/collections/c0", {"vectors": {"size": 4, "distance": "Dot"}})


@pytest.mark.parametrize("memory", ["16MB", "32MB", "135MB"])
def test_a_query_that_no_wait_would_help_is_refused_for_good(tmp_path, memory):
    with Server(tmp_path / "data", memory=memory) as server:
        http = server.http()
        http.result("PUT", "/collections/c", {"vectors": {"size": 2, "distance": "Dot"}})
        for first in range(0, 12_000, 1_000):
            points = [{"id": n, "vector": [n % 97, n % 89]} for n in range(first, first + 1_000)]
            http.result("PUT", "/collections/c/points?wait=true", {"points": points})
        for stages in (1, 4, 10, 40):
            prefetch = [{"query": [n, 1], "limit": 10_000} for n in range(stages)]
            body = {"prefetch": prefetch, "query": {"fusion": "rrf"}, "limit": 10_000}
            status, _, said = http.raw("POST", "/collections/c/points/query", json.dumps(body))
            assert status == 200 or status == 413 and b" needs " in said, (stages, status, said)
        assert http.result("POST", "/collections/c/points/count", {})["count"] == 12_000


@pytest.mark.parametrize("http2", [False, True])
def test_a_refused_body_is_read_to_its_end(tmp_path, http2):
    """The refusal comes before the body is read. A client that is still sending has to see it: in HTTP/2 a reset of the stream hides it."""
    with Server(tmp_path / "data", memory="24MB", arguments=("--api-key", "k" * 32), key="k" * 32) as server:
        points = [{"id": n, "vector": [1.0] * 64} for n in range(10_000)]
        body = json.dumps({"points": points})
        with httpx.Client(http1=not http2, http2=http2, timeout=20) as client:
            for key, status, told in (("k" * 32, 413, "send smaller batches (at least"), ("wrong", 401, "")):
                answer = client.put(f"{server.url}/collections/c/points", content=body, headers={"api-key": key})
                assert (answer.http_version, answer.status_code) == ("HTTP/2" if http2 else "HTTP/1.1", status), answer.text
                assert told in answer.text, answer.text
                assert client.get(f"{server.url}/collections", headers={"api-key": "k" * 32}).status_code == 200
