"""The description that is served is true: of answers (schemathesis, a sample), and of what is read."""

import importlib.util
import json
import subprocess
import sys

import pytest

import conftest
from compare import NOTES
from harness.server import Server

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")

NAME = "openapi"


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("openapi") / "data") as server:
        http = server.http()
        config = {"vectors": {"size": 2, "distance": "Dot"}, "sparse_vectors": None}
        http.call("PUT", f"/collections/{NAME}", config)
        points = [{"id": i, "vector": [i, 1], "payload": {"n": i, "w": "a"}} for i in range(20)]
        http.call("PUT", f"/collections/{NAME}/points?wait=true", {"points": points})
        for field, kind in [("n", "integer"), ("w", "keyword")]:
            http.call("PUT", f"/collections/{NAME}/index", {"field_name": field, "field_schema": kind})
        yield server, http, http.get("/openapi.json")
        assert server.alive(), server.log()


def resolve(document, schema):
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def kinds(document, schema):
    """The JSON types that a schema takes; all of them where it says nothing."""
    schema = resolve(document, schema)
    if "anyOf" in schema:
        return set().union(*(kinds(document, one) for one in schema["anyOf"]))
    kind = schema.get("type")
    if kind is None:
        return {"null", "boolean", "integer", "number", "string", "array", "object"}
    return {"integer", "number"} if kind == "number" else {kind}


SAMPLES = {"boolean": True, "integer": 3, "number": 2.5, "string": "no such thing", "array": [[]], "object": {"no such": 1}}


def bodies(document):
    """Operations with a body that is an object: method, path, properties, required ones."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            body = operation.get("requestBody")
            if not body:
                continue
            if "application/json" not in body["content"]:
                continue  # A file.
            schema = resolve(document, body["content"]["application/json"]["schema"])
            if schema.get("properties"):
                yield method.upper(), path.replace("{collection_name}", NAME), schema


def test_values_of_other_types_are_refused(described):
    """Each documented field is one that is read: a value of a type that it isn't said to take is refused."""
    server, http, document = described
    assert document["openapi"].startswith("3.")
    wrong, asked = [], 0
    for method, path, schema in bodies(document):
        for field, of in schema["properties"].items():
            for kind, value in SAMPLES.items():
                if kind in kinds(document, of) or (kind == "integer" and "number" in kinds(document, of)):
                    continue
                body = {field: value}
                status, _, answer = http.raw(method, path, json.dumps(body))
                asked += 1
                if status not in (400, 422, 501):
                    wrong.append((method, path, body, status, answer[:200]))
    NOTES.append(f"OpenAPI: {asked} values of undocumented types refused")
    assert not wrong, "\n".join(map(str, wrong))


def test_required_fields_are_required(described):
    server, http, document = described
    for method, path, schema in bodies(document):
        for field in schema.get("required", []):
            status, _, answer = http.raw(method, path, "{}")
            assert status in (400, 405, 422, 501), (method, path, field, status, answer)


def fitting(document, name, schema):
    """A value that a required field takes."""
    if name == "vector":
        return [1, 1]
    return 1 if "integer" in kinds(document, schema) and "string" not in kinds(document, schema) else "n"


def test_bounds_are_bounds(described):
    """What is below a documented minimum is refused with the field's path."""
    server, http, document = described
    for method, path, schema in bodies(document):
        for field, of in schema["properties"].items():
            for one in of.get("anyOf", [of]):
                if one.get("type") == "integer" and one.get("minimum", 0) >= 1:
                    others = {name: fitting(document, name, schema["properties"][name]) for name in schema.get("required", []) if name != field}
                    body = {**others, field: 0}
                    status, _, answer = http.raw(method, path, json.dumps(body))
                    assert status in (422, 400, 501) and field in answer.decode(), (method, path, body, status, answer)


def pointed(document):
    """The description with the collection that is there for its name, except where it is made or dropped."""
    document = json.loads(json.dumps(document))
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if path == "/collections/{collection_name}" and method in ("put", "delete"):
                continue
            for parameter in operation["parameters"]:
                if parameter["name"] == "collection_name":
                    parameter["schema"] = {"type": "string", "enum": [NAME]}
    return document


def test_schemathesis(described, tmp_path):
    if not importlib.util.find_spec("schemathesis"):
        pytest.skip("schemathesis isn't installed")
    server, http, document = described
    (tmp_path / "openapi.json").write_text(json.dumps(pointed(document)))
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", str(tmp_path / "openapi.json"), "--url", server.url,
        # Without --max-time: it would repeat the same cases until then, and how many there are would be the machine's business.
        "--phases", "fuzzing", "--max-examples", "20", "--generation-deterministic", "--no-shrink",
        "--suppress-health-check", "all", "--no-color", "--warnings", "off", "--continue-on-failure",
        "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
        # Measures the disk for a while; writes files, and restores what they hold over the collection.
        "--exclude-path", "/plan", "--exclude-path-regex", "snapshot",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    NOTES.extend(f"schemathesis: {line.strip()}" for line in done.stdout.splitlines() if "generated" in line)
    assert done.returncode == 0, done.stdout[-15_000:] + done.stderr[-2_000:]
