"""The audit log: who asked for what and whether they were let, over REST and gRPC, in files."""

import json
import time

import grpc
import pytest
from qdrant_client import QdrantClient

import conftest
from harness.http import Http
from harness.server import Server
from test_jwt import SECRET, only, token

READER = "a-key-that-reads"
SECRETS = "a payload that nobody logs"


def lines(directory):
    return [json.loads(line) for file in sorted(directory.glob("audit.*.log")) for line in file.read_text().splitlines()]


def wait_for(directory, count):
    """The lines when there are so many; they come within a tenth of a second."""
    end = time.monotonic() + 10
    while len(found := lines(directory)) < count and time.monotonic() < end:
        time.sleep(0.02)
    return found


def start(path, *flags):
    if conftest.SELF:
        pytest.skip("needs a server")
    keys = ["--api-key", SECRET, "--read-only-api-key", READER, "--jwt-rbac", "--audit"]
    return Server(path, arguments=[*keys, *flags], key=SECRET)


def ask(server, key, method, path, body=None, headers=None):
    http = Http(server.url, key)
    http.headers.update(headers or {})
    try:
        return http.raw(method, path, json.dumps(body) if body is not None else None)[0]
    finally:
        http.close()


def test_who_asked_for_what(tmp_path):
    with start(tmp_path / "data") as server:
        named = token({"access": "r", "subject": "anna"})
        point = {"id": 1, "vector": [1, 2], "payload": {"text": SECRETS}}
        asked = [
            (SECRET, "PUT", "/collections/c", {"vectors": {"size": 2, "distance": "Dot"}}, 200),
            (SECRET, "PUT", "/collections/c/points?wait=true", {"points": [point]}, 200),
            (READER, "DELETE", "/collections/c", None, 403),
            (only("d", "r"), "GET", "/collections/c", None, 403),
            (named, "POST", "/collections/c/points/scroll", {"filter": {"must": [{"key": "text", "match": {"text": SECRETS}}]}}, 200),
            ("no-key-of-ours", "GET", "/collections/c/points/1?secret=" + SECRETS.replace(" ", "+"), None, 401),
            (SECRET, "GET", "/elsewhere/no-key-of-ours", None, 404),
            ("no-key-of-ours", "GET", "/elsewhere", None, 401),
            # Figures that are asked for all the time, and what needs no key, leave no line.
            (READER, "GET", "/metrics", None, 200),
            (READER, "GET", "/telemetry", None, 200),
            ("", "GET", "/healthz", None, 200),
        ]
        for key, method, path, body, status in asked:
            assert ask(server, key, method, path, body) == status, (method, path)
        with_grpc = QdrantClient(url=server.url, grpc_port=server.grpc_port, prefer_grpc=True, api_key=only("d", "r"), check_compatibility=False)
        with pytest.raises(grpc.RpcError):
            with_grpc.retrieve("c", [1])
        with_grpc.close()
        audit = tmp_path / "data" / "audit"
        found = wait_for(audit, 8)
        told = [[line.get(field) for field in ("method", "api", "auth_type", "collection", "result")] for line in found]
        assert told == [
            ["create_collection", "PUT /collections/{collection_name}", "ApiKey", "c", "ok"],
            ["upsert_points", "PUT /collections/{collection_name}/points", "ApiKey", "c", "ok"],
            ["delete_collection", "DELETE /collections/{collection_name}", "ApiKey", "c", "denied"],
            ["get_collection", "GET /collections/{collection_name}", "Jwt", "c", "denied"],
            ["scroll", "POST /collections/{collection_name}/points/scroll", "Jwt", "c", "ok"],
            ["retrieve", "GET /collections/{collection_name}/points/{id}", "None", "c", "denied"],
            [None, "unknown path", "None", None, "denied"],
            ["retrieve", "/qdrant.Points/Get", "Jwt", "c", "denied"],
        ]
        assert all(line["remote"] == "127.0.0.1" for line in found)
        assert [found[2]["read_only"], found[2]["error"]] == [True, "Forbidden: Global manage access is required"]
        assert found[4]["subject"] == "anna" and "token_hash" not in found[4]
        assert len(found[3]["token_hash"]) == 16 and found[3]["token_hash"] == found[7]["token_hash"]
        text = "".join(file.read_text() for file in audit.iterdir())
        for secret in (SECRETS, SECRET, READER, named, "no-key-of-ours"):
            assert secret not in text
        metrics = server.http().raw("GET", "/metrics")[2].decode()
        assert "ramlet_audit_lines_total 8\n" in metrics and "ramlet_audit_lines_lost_total 0\n" in metrics


def test_files_are_bounded_and_nothing_is_lost_at_the_end(tmp_path):
    audit = tmp_path / "log"
    with start(tmp_path / "data", "--audit-dir", str(audit), "--audit-file-size", "4KB", "--audit-files", "3", "--audit-forwarded") as server:
        for number in range(100):
            headers = {"x-request-id": f"r{number}", "x-forwarded-for": "10.0.0.7"}
            assert ask(server, READER, "GET", "/collections", headers=headers) == 200
            if number % 10 == 9:
                time.sleep(0.15)
    found = lines(audit)
    assert len(list(audit.iterdir())) == 3
    # The last are there, in order: those that came just before the end too.
    assert [line["tracing_id"] for line in found] == [f"r{number}" for number in range(100 - len(found), 100)]
    assert found and found[0]["remote"] == "10.0.0.7"


def test_a_directory_that_cannot_be_written_is_told_at_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="audit log"):
        with start(tmp_path / "data", "--audit-dir", str(tmp_path / "file" / "log")):
            pass
