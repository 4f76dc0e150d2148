#!/usr/bin/env python3
"""Makes testdata/filter-cases.jsonl and testdata/payload-cases.jsonl from qdrant-client's local mode.

The Rust tests run every case. Local mode is the oracle of what a filter means; left out are the places where it is not
the server's documented behaviour, or where Python and JSON numbers differ:
- integers beyond 2^53 in ranges (Python compares exactly, the server as floats), `-0`, years outside of 1..9999;
- several checks in one field condition (local mode takes the first, the server any of them);
- polygons whose rings aren't closed (the server refuses them).

Usage: python tests/e2e/gen_filter_cases.py   (needs qdrant-client 1.20; the output is the same every time)
"""

import json
import random
import uuid
from copy import deepcopy
from pathlib import Path

from qdrant_client.http import models
from qdrant_client.local.json_path_parser import parse_json_path
from qdrant_client.local.local_collection import LocalCollection
from qdrant_client.local.payload_filters import check_filter
from qdrant_client.local.payload_value_setter import delete_value_by_key, merge_payload, set_value_by_key

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
FILTER_CASES = 3000
PAYLOAD_CASES = 1500

rng = random.Random(20261)

WORDS = ["red", "Red", "green", "blue sky", "Sky Blue", "a-b c", "", "naïve Ünïcode", "x\u0000y", "line\nbreak", "10", "true"]
UUIDS = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(4)]
TIMES = [
    "2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01 12:30", "2024-06-15T12:30:45.5Z", "2024-06-15T14:30:45.5+02:00",
    "2024-06-15 12:30:45.123456789", "2023-12-31T23:59:59-01", "1969-07-20T20:17:40Z", "2024-02-30", "2024-06-15 12",
    "2024-06-15T12:30:45 UTC", "2024-06-15T12:30:45 +0100", "2024-1-5", "noon", "2024-06-15T12:30:45z", "2024-06-15T12:30+01:00",
]
BOUNDS = ["2024-01-01T00:00:00Z", "2024-06-15T12:30:45.500000Z", "2023-12-31T00:00:00+01:00", "1970-01-01T00:00:00Z", "2024-06-15"]
INTS = [0, 1, -1, 2, 3, 10, 255, 2**40, -(2**40), 2**63 - 1, -(2**63)]
FLOATS = [0.0, 1.0, 0.5, -0.5, 2.5, 10.0, 1e10, -3.25]
IDS = [0, 1, 2, 42, *UUIDS]
VECTORS = ["", "image", "text"]
KEYS = ["a", "b", "c", "tags", "n", "when", "loc", "items", "deep"]


def geo_value():
    return {"lon": round(rng.choice([rng.uniform(-180, 180), rng.uniform(13, 14), 180, 179.9, -179.9]), 3),
            "lat": round(rng.choice([rng.uniform(-90, 90), rng.uniform(52, 53), 89.9]), 3)}


def scalar():
    return rng.choice([
        lambda: rng.choice(WORDS), lambda: rng.choice(WORDS), lambda: rng.choice(INTS), lambda: rng.choice(INTS[:6]),
        lambda: rng.choice(FLOATS), lambda: rng.choice([True, False]), lambda: None, lambda: rng.choice(TIMES),
        lambda: rng.choice(UUIDS), geo_value,
    ])()


def value(depth=0):
    kind = rng.random()
    if depth > 2 or kind < 0.5:
        return scalar()
    if kind < 0.75:
        return [value(depth + 1) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    return {rng.choice(KEYS): value(depth + 1) for _ in range(rng.choice([0, 1, 2]))}


def payload():
    data = {}
    for key in rng.sample(KEYS, rng.choice([0, 1, 2, 2, 3, 3, 3, 4])):
        if key == "n":
            data[key] = rng.choice([rng.choice(INTS), rng.choice(FLOATS), [rng.choice(INTS[:6]) for _ in range(3)]])
        elif key == "tags":
            data[key] = [rng.choice(WORDS) for _ in range(rng.choice([0, 1, 2, 3]))]
        elif key == "when":
            data[key] = rng.choice(TIMES)
        elif key == "loc":
            data[key] = rng.choice([geo_value(), [geo_value(), geo_value()], {"lat": 1}, {"lat": "1", "lon": 2}])
        elif key == "items":
            data[key] = [{k: scalar() for k in rng.sample(["a", "b", "n"], rng.choice([1, 2]))} for _ in range(rng.choice([0, 1, 2, 3]))]
        else:
            data[key] = value()
    if rng.random() < 0.05:
        data["a key"] = {"b": scalar()}
    return data


def paths_of(data):
    """Paths that lead somewhere in this payload."""
    found = []

    def walk(node, path):
        if path:
            found.append(path)
        if isinstance(node, dict):
            for key, child in node.items():
                step = key if all(c.isalnum() or c in "_-" for c in key) and key else f'"{key}"'
                walk(child, f"{path}.{step}" if path else step)
        elif isinstance(node, list):
            for i, child in enumerate(node[:2]):
                walk(child, f"{path}[{i}]")
                walk(child, f"{path}[]")

    walk(data, "")
    return found


def path(data):
    found = paths_of(data)
    if found and rng.random() < 0.85:
        return rng.choice(found)
    return rng.choice(KEYS + ["items[].a", "items[].n", "items[0].b", "a.b", "a[]", "deep.a", "tags[0]", '"a key".b', "tags[7]"])


def leaves(data):
    if isinstance(data, dict):
        return [leaf for child in data.values() for leaf in leaves(child)]
    if isinstance(data, list):
        return [leaf for child in data for leaf in leaves(child)]
    return [data]


def near(data, kinds, fallback):
    """A value of the payload, often, so that conditions match about half of the time."""
    found = [leaf for leaf in leaves(data) if type(leaf) in kinds]
    return rng.choice(found) if found and rng.random() < 0.7 else rng.choice(fallback)


def match(data):
    word = lambda: near(data, (str,), WORDS)
    integer = lambda: near(data, (int,), INTS)
    some = lambda one: [one() for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    part = lambda text: text[: rng.randrange(len(text) + 1)][rng.choice([0, 0, 1]):]
    return rng.choice([
        lambda: {"value": word()}, lambda: {"value": integer()}, lambda: {"value": rng.choice([True, False])},
        lambda: {"any": some(word)}, lambda: {"any": some(integer)},
        lambda: {"except": some(word)}, lambda: {"except": some(integer)},
        lambda: {"text": word()}, lambda: {"text_any": word() + " red"}, lambda: {"phrase": word()},
        lambda: {"prefix": part(word())}, lambda: {"substring": part(word())},
    ])()


def bounds(make):
    names = rng.sample(["lt", "gt", "gte", "lte"], rng.choice([1, 1, 2]))
    return {name: make() for name in names}


def ring(lon, lat, size):
    points = [(lon - size, lat - size), (lon + size, lat - size), (lon + size, lat + size / 2), (lon, lat + size), (lon - size, lat - size)]
    return {"points": [{"lon": max(-180, min(180, round(x, 1))), "lat": max(-90, min(90, round(y, 1)))} for x, y in points]}


def check(data):
    point = geo_value()
    number = lambda: near(data, (int, float), [i for i in INTS if abs(i) < 2**53] + FLOATS)
    small = lambda: (lambda n: n if abs(n) < 2**53 else 7)(number())
    return rng.choice([
        lambda: {"match": match(data)}, lambda: {"match": match(data)}, lambda: {"match": match(data)}, lambda: {"match": match(data)},
        lambda: {"range": bounds(small)}, lambda: {"range": bounds(small)},
        lambda: {"range": bounds(lambda: rng.choice(BOUNDS))},
        lambda: {"values_count": bounds(lambda: rng.choice([0, 1, 2, 3]))},
        lambda: {"is_empty": rng.choice([True, False])}, lambda: {"is_null": rng.choice([True, False])},
        lambda: {"geo_radius": {"center": point, "radius": rng.choice([1000.0, 50000.0, 2e6, 8e6])}},
        lambda: {"geo_bounding_box": {"top_left": geo_value(), "bottom_right": geo_value()}},
        lambda: {"geo_polygon": {"exterior": ring(13.5, 52.5, rng.choice([2, 50])), **({"interiors": [ring(13.5, 52.5, 0.2)]} if rng.random() < 0.5 else {})}},
        lambda: {"geo_polygon": {"exterior": ring(point["lon"], point["lat"], rng.choice([1, 30]))}},
    ])()


def field(data):
    made = check(data)
    key = path(data)
    if any(name.startswith("geo") for name in made) and rng.random() < 0.8:
        key = "loc"
    elif "range" in made and isinstance(next(iter(made["range"].values())), str) and rng.random() < 0.8:
        key = "when"
    elif "range" in made and rng.random() < 0.5:
        key = "n"
    return {"key": key, **made}


def nested(data):
    arrays = [key for key, v in data.items() if isinstance(v, list) and key != "a key"] or ["items"]
    key = rng.choice(arrays + ["items"])
    element = next((e for e in data.get(key, []) if isinstance(e, dict)), {}) if isinstance(data.get(key), list) else {}
    return {"nested": {"key": key + rng.choice(["", "[]"]), "filter": filter_of(element or {"a": 1, "n": 2}, 2)}}


def condition(data, depth):
    return rng.choice([
        *[lambda: field(data)] * 12,
        lambda: {"is_empty": {"key": path(data)}}, lambda: {"is_null": {"key": path(data)}},
        lambda: {"has_id": [rng.choice(IDS) for _ in range(rng.choice([0, 1, 3]))]},
        lambda: {"has_vector": rng.choice(VECTORS)},
        lambda: (lambda total: {"slice": {"total": total, "index": rng.randrange(total)}})(rng.choice([1, 2, 3])),
        lambda: nested(data), lambda: nested(data),
        *([lambda: filter_of(data, depth + 1)] * 2 if depth < 2 else []),
    ])()


def filter_of(data, depth=0):
    made = {}
    for clause in rng.choice([["must"], ["must"], ["should"], ["must_not"], ["must", "must_not"], ["must", "should"], ["min_should"], []] if depth else
                             [["must"], ["must"], ["should"], ["must_not"], ["must", "must_not"], ["should", "must_not"], ["min_should"]]):
        conditions = [condition(data, depth) for _ in range(rng.choice([1, 1, 1, 2] if clause == "must" else [1, 1, 2, 3]))]
        if clause == "min_should":
            made[clause] = {"conditions": conditions, "min_count": rng.choice([1, 1, 1, 2])}
        elif rng.random() < 0.1:
            made[clause] = rng.choice([[], None, conditions[0]])
        else:
            made[clause] = conditions
    return made


def filter_case():
    data = payload()
    raw = filter_of(data)
    point_id = rng.choice(IDS)
    vectors = rng.sample(VECTORS, rng.choice([0, 1, 2]))
    # As the client would parse it; pydantic takes a datetime string for what it is.
    expected = check_filter(models.Filter(**raw), data, point_id, {name: True for name in vectors})
    return {"id": point_id, "vectors": vectors, "payload": data, "filter": raw, "expected": expected}


def write_path(data):
    if rng.random() < 0.6:
        return path(data)
    return rng.choice(["new", "a.new", "tags[0].x", "tags[].x", "items[].new", "deep.a.b.c", "n.x", "a[0]", '"a key"', "loc.lat.x", "items[1]"])


def payload_case():
    data = payload()
    kind = rng.choice(["set", "set_key", "set_key", "delete", "delete", "include", "exclude"])
    case = {"op": kind, "payload": deepcopy(data)}
    if kind == "set":
        case["patch"] = {rng.choice(KEYS): value() for _ in range(rng.choice([0, 1, 2]))}
        case["expected"] = merge_payload(dict(data), deepcopy(case["patch"]))
    elif kind == "set_key":
        case["patch"] = {rng.choice(KEYS): value(2) for _ in range(rng.choice([0, 1, 2]))}
        case["key"] = write_path(data)
        set_value_by_key(payload=data, value=deepcopy(case["patch"]), keys=parse_json_path(case["key"]))
        case["expected"] = data
    elif kind == "delete":
        case["keys"] = [write_path(data) for _ in range(rng.choice([1, 2]))]
        for key in case["keys"]:
            delete_value_by_key(data, parse_json_path(key))
        case["expected"] = data
    else:
        case["keys"] = [write_path(data) for _ in range(rng.choice([0, 1, 2]))]
        selector = models.PayloadSelectorInclude(include=case["keys"]) if kind == "include" else models.PayloadSelectorExclude(exclude=case["keys"])
        case["expected"] = LocalCollection._process_payload(data, selector)
    return case


def write(name, cases):
    lines = (json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (TESTDATA / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    TESTDATA.mkdir(exist_ok=True)
    cases = [filter_case() for _ in range(FILTER_CASES)]
    write("filter-cases.jsonl", cases)
    write("payload-cases.jsonl", [payload_case() for _ in range(PAYLOAD_CASES)])
    print(f"{FILTER_CASES} filter cases, {sum(case['expected'] for case in cases)} match; {PAYLOAD_CASES} payload cases")


if __name__ == "__main__":
    main()
