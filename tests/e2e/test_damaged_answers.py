"""Damage that is met amid an answer: no client takes what came for the whole, the file is named, and the rest is served."""

import json
import shutil
import subprocess
import sys
from http.client import HTTPException
from pathlib import Path

import grpc
import pytest
from qdrant_client import grpc as pb

import conftest
from harness.server import Server

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rigs"))

import answers  # noqa: E402

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")

NAME, POINTS, BYTES = "damaged", 600, 18_000
# Without memory for all of it, so that it is read from the disk; and a merge of what is damaged fails.
MEMORY = "16MB"


def largest_segment_file(data):
    files = [f for f in data.rglob("*") if f.is_file() and f.parent != data and not f.name.startswith(("log", "MANIFEST"))]
    return max(files, key=lambda f: f.stat().st_size)


def flip_the_middle(path):
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0x10]))


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A server, and the name of the file whose middle is damaged: payloads."""
    with Server(tmp_path_factory.mktemp("damaged") / "data", memory=MEMORY) as server:
        http = server.http()
        answers.fill(http, POINTS, BYTES, NAME)
        http.call("PUT", "/collections/sound", {"vectors": {"size": 2, "distance": "Dot"}})
        http.close()
        server.stop()
        path = largest_segment_file(server.data)
        flip_the_middle(path)
        server.start()
        yield server, path.name


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("way", ["scroll", "query", "retrieve", "batch"])
def test_http1_has_no_last_chunk(damaged, way, packed):
    server, _ = damaged
    connection = answers.Rest(server).open()
    # Each of two searches is for a half.
    path, body = answers.rest_body(way, 2 * POINTS if way == "batch" else POINTS)
    headers = {"content-type": "application/json", **({"accept-encoding": "gzip"} if packed else {})}
    connection.request("POST", f"/collections/{NAME}/{path}", json.dumps(body), headers)
    answer = connection.getresponse()
    assert answer.status == 200 and answer.getheader("transfer-encoding") == "chunked"
    with pytest.raises((HTTPException, ConnectionError)):
        answer.read()
    connection.close()


def test_curl_says_so(damaged):
    if not shutil.which("curl"):
        pytest.skip("there is no curl")
    server, _ = damaged
    path, body = answers.rest_body("scroll", POINTS)
    command = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "content-type: application/json", "-d", json.dumps(body)]
    done = subprocess.run([*command, f"{server.url}/collections/{NAME}/{path}"], capture_output=True, text=True)
    assert done.stdout == "200" and done.returncode == 18, done


@pytest.mark.parametrize("way", ["scroll", "query", "retrieve"])
def test_http2_resets_the_stream(damaged, way):
    import httpx

    server, _ = damaged
    client = answers.Http2(server)
    with pytest.raises(httpx.RemoteProtocolError):
        client.ask(NAME, way, POINTS, False)
    # The connection is as good as before.
    assert client.client.get("/collections/sound").status_code == 200


def damaged_point(server):
    http = server.http()
    statuses = (http.raw("GET", f"/collections/{NAME}/points/{point}")[0] for point in range(POINTS))
    point = next(point for point, status in enumerate(statuses) if status == 500)
    http.close()
    return point


def test_grpc_ends_with_a_code_that_names_the_file(damaged):
    """Messages are whole: there is no half of a list."""
    server, file = damaged
    point = damaged_point(server)
    payload, number = pb.WithPayloadSelector(enable=True), pb.PointId(num=point)
    only = pb.Filter(must=[pb.Condition(has_id=pb.HasIdCondition(has_id=[number]))])
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = pb.PointsStub(channel)
        query = pb.QueryPoints(collection_name=NAME, limit=1, filter=only, with_payload=payload)
        calls = {
            "retrieve": lambda: stub.Get(pb.GetPoints(collection_name=NAME, ids=[number], with_payload=payload)),
            "scroll": lambda: stub.Scroll(pb.ScrollPoints(collection_name=NAME, offset=number, limit=2, with_payload=payload)),
            "query": lambda: stub.Query(query),
            "batch": lambda: stub.QueryBatch(pb.QueryBatchPoints(collection_name=NAME, query_points=[query])),
        }
        for way, call in calls.items():
            with pytest.raises(grpc.RpcError) as failed:
                call()
            told = (failed.value.code(), failed.value.details())
            assert told[0] == grpc.StatusCode.INTERNAL and file in told[1], (way, told)


def test_who_meets_it_in_a_stream_finds_why(damaged):
    server, file = damaged
    http = server.http()

    def told():
        return [issue for issue in http.result("GET", "/issues")["issues"] if issue["code"] == "DATA_DAMAGED"]

    http.call("DELETE", "/issues")
    assert told() == []
    with pytest.raises((HTTPException, ConnectionError)):
        answers.Rest(server).ask(NAME, "scroll", POINTS, False)
    [issue] = told()
    assert issue["related_collection"] == NAME and file in issue["description"], issue
    cut = [line for line in server.log(10_000).splitlines() if "a streamed response was cut off" in line]
    assert cut and file in cut[-1], cut
    http.close()


def test_the_rest_is_served(damaged):
    server, file = damaged
    http = server.http()
    said = {}
    for point in range(POINTS):
        status, _, body = http.raw("GET", f"/collections/{NAME}/points/{point}")
        said.setdefault(status, []).append(body)
    assert set(said) == {200, 500}, said.keys()
    assert all(file.encode() in body for body in said[500])
    assert len(said[500]) < POINTS / 20
    http.close()
