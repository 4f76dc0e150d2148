"""A small data directory with every kind of file, and questions whose answers are known from what was put in."""

import random
import shutil
import time

DENSE_DIM, WIDE_DIM = 24, 520
# After so long without a write a manifest notes how far its log goes, with some to spare.
NOTED_S = 4
# Every kind of file of docs/format.md.
SUFFIXES = (
    "ids idf row pay x has del v pos cen cod fin low pq rst cmp gra gme rec par pst trm twd tls tln tps"
    " log MANIFEST MANIFEST.old CATALOG CATALOG.old snapshot checksum"
).split()


def kind_of(path):
    """`v` of 00000012.v0, `log` of log-00000000000000000481, and so on."""
    name = path.name
    if name.endswith((".snapshot", ".checksum")):
        return name.rsplit(".", 1)[1]
    if name.endswith(".old"):
        return name.split("-")[0] + ".old"
    if name[0].isdigit():
        return name.split(".", 1)[1].split("-")[0].rstrip("0123456789")
    return name.split("-")[0]


SCORED = {"type": "text", "tokenizer": "word", "scoring": True, "phrase_matching": True}
DOT = {"size": DENSE_DIM, "distance": "Dot"}
# Of each collection: its settings, and the indexes of its payloads.
COLLECTIONS = {
    "codes": ({"vectors": {"v": DOT}}, {"n": "integer"}),
    "product": ({"vectors": {"v": {**DOT, "on_disk": True}}, "quantization_config": {"product": {"compression": "x16"}}}, {"n": "integer"}),
    "graph": ({"vectors": {"v": {**DOT, "index": "hnsw"}}}, {"n": "integer"}),
    "wide": ({"vectors": {"v": {"size": WIDE_DIM, "distance": "Dot"}}}, {}),
    "multi": ({"vectors": {"v": {"size": 6, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}}}}, {"n": "keyword"}),
    "words": ({"vectors": {"v": {"size": 4, "distance": "Dot"}}, "sparse_vectors": {"s": {}}}, {"t": SCORED, "n": "keyword"}),
}
# No two hold the same: a file in another's place would be right by chance.
SHIFT = {name: n for n, name in enumerate(COLLECTIONS)}
SIZES = {"codes": 900, "product": 900, "graph": 900, "wide": 300, "multi": 800, "words": 800}


def numbers(count, seed):
    rng = random.Random(seed)
    return [rng.randrange(-40, 40) / 8 for _ in range(count)]


def vectors(name, i, version):
    """What a point has: exact in f32, so that scores are known to the last digit or nearly."""
    if name == "multi":
        return {"v": [numbers(6, f"{i} {part} {version}") for part in range(1 + i % 4)]}
    if name == "words":
        return {"v": numbers(4, f"{i} {version}"), "s": {"indices": sorted({i % 40, 50 + i % 7}), "values": [1.0 + version, float(i % 5 + 1)]}}
    if name != "wide" and (i + SHIFT[name]) % 9 == 0:
        return {}
    return {"v": numbers(WIDE_DIM if name == "wide" else DENSE_DIM, f"{i} {version} {SHIFT[name]}")}


def payload(name, i, version):
    if name == "words":
        return {"n": f"k{(i + 1) % 10}", "t": " ".join(f"w{(i * k + version) % 300}" for k in range(1, 8))}
    return {"n": f"k{i % 10}" if name == "multi" else (i + SHIFT[name]) % 10, "version": version}


class Kinds:
    """Filled in stages. `points` is what each collection holds: id -> version."""

    def __init__(self):
        self.points = {name: {} for name in COLLECTIONS}
        # Points in each snapshot of `multi`, by its name.
        self.snapshots = {}

    def put(self, http, name, ids, version):
        ids = list(ids)
        for at in range(0, len(ids), 200):
            some = ids[at : at + 200]
            body = {"points": [{"id": i, "vector": vectors(name, i, version), "payload": payload(name, i, version)} for i in some]}
            http.call("PUT", f"/collections/{name}/points?wait=true", body)
            self.points[name].update(dict.fromkeys(some, version))

    def delete(self, http, name, ids):
        http.call("POST", f"/collections/{name}/points/delete?wait=true", {"points": list(ids)})
        for i in ids:
            self.points[name].pop(i, None)

    def begin(self, http):
        """Everything in segments with their indexes."""
        for name, (settings, indexes) in COLLECTIONS.items():
            http.call("PUT", f"/collections/{name}", {**settings, "optimizers_config": {"indexing_threshold": 1}})
            for field, schema in indexes.items():
                http.call("PUT", f"/collections/{name}/index?wait=true", {"field_name": field, "field_schema": schema})
            self.put(http, name, range(SIZES[name]), 0)
        http.call("POST", "/collections/aliases", {"actions": [{"create_alias": {"collection_name": "codes", "alias_name": "first"}}]})
        http.call("PUT", "/quotas", {"max_disk_usage_percent": 99})
        for name in COLLECTIONS:
            for _ in range(300):
                about = http.result("GET", f"/collections/{name}")
                if about["status"] == "green" and about["indexed_vectors_count"]:
                    break
                time.sleep(0.1)
            else:
                raise TimeoutError(f"{name} has no index")

    def further(self, http, part):
        """Deletes in a file, a newer manifest and catalog, and changes that are only in the log."""
        for name in COLLECTIONS:
            self.delete(http, name, range(part, 200, 13))
            # Commits a manifest with these deletes; from now on nothing is flushed.
            http.call("PATCH", f"/collections/{name}", {"optimizers_config": {"indexing_threshold": 1_000_000 + part}})
            self.put(http, name, range(200 + 20 * part, 230 + 20 * part), part)
            self.put(http, name, range(10_000 * part, 10_000 * part + 20), part)
            self.delete(http, name, range(10_000 * part, 10_000 * part + 3))
        actions = [{"create_alias": {"collection_name": "words", "alias_name": f"part{part}"}}]
        http.call("POST", "/collections/aliases", {"actions": actions})
        http.call("PUT", "/quotas", {"max_disk_usage_percent": 99 - part})
        self.snapshots[http.result("POST", "/collections/multi/snapshots")["name"]] = len(self.points["multi"])


def build(server, keep):
    """Fills the server's directory, stops it, and leaves copies: `keep/older`, of an earlier stage, and `keep/sound`. Returns what is in it."""
    kinds = Kinds()
    server.start()
    http = server.http()
    kinds.begin(http)
    kinds.further(http, 1)
    http.close()
    server.stop()
    shutil.copytree(server.data, keep / "older")
    server.start()
    http = server.http()
    kinds.further(http, 2)
    http.close()
    # Killed, when the manifests have noted how far the logs go: what isn't in a segment stays in the log.
    time.sleep(NOTED_S)
    server.kill()
    shutil.copytree(server.data, keep / "sound")
    return kinds


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def questions(kinds):
    """(collection or None, name, method, path, body, wanted): `wanted` is the answer, or None where the sound directory has to tell it."""
    out = [
        (None, "collections", "GET", "/collections", None, sorted(COLLECTIONS)),
        (None, "aliases", "GET", "/aliases", None, [["first", "codes"], ["part1", "words"], ["part2", "words"]]),
        (None, "quotas", "GET", "/quotas", None, 97),
    ]
    for name, there in kinds.points.items():
        of = f"/collections/{name}"
        out.append((name, "settings", "GET", of, None, 1_000_002))
        out.append((name, "count", "POST", f"{of}/points/count", {"exact": True}, len(there)))
        rows = {i: [vectors(name, i, v), payload(name, i, v)] for i, v in there.items()}
        out.append((name, "scroll", "POST", f"{of}/points/scroll", {"limit": 5000, "with_vector": True, "with_payload": True}, rows))
        tag = "k3" if name in ("multi", "words") else 3
        hits = sorted(i for i, (_, p) in rows.items() if p["n"] == tag)
        tagged = {"must": [{"key": "n", "match": {"value": tag}}]}
        out.append((name, "filter", "POST", f"{of}/points/scroll", {"limit": 5000, "with_payload": False, "filter": tagged}, hits))
        out.append((name, "filtered count", "POST", f"{of}/points/count", {"exact": True, "filter": tagged}, len(hits)))
        for seed in range(2):
            dense = numbers({"multi": 6, "words": 4, "wide": WIDE_DIM}.get(name, DENSE_DIM), f"query {seed}")
            scores = {i: max(dot(dense, part) for part in (v["v"] if name == "multi" else [v["v"]])) for i, (v, _) in rows.items() if "v" in v}
            best = sorted(scores.values(), reverse=True)[:10]
            query = {"query": [dense] if name == "multi" else dense, "using": "v", "limit": 10}
            for more in ({"params": {"exact": True}}, {}, {"filter": tagged}):
                exact = best if "params" in more else None
                out.append((name, f"search {sorted(more)}", "POST", f"{of}/points/query", {**query, **more}, (exact, scores)))
    rows = {i: (vectors("words", i, v), payload("words", i, v)["t"].split()) for i, v in kinds.points["words"].items()}
    for word in ("w12", "w7", "w290"):
        hits = sorted(i for i, (_, t) in rows.items() if word in t)
        matched = {"must": [{"key": "t", "match": {"text": word}}]}
        out.append(("words", "text", "POST", "/collections/words/points/scroll", {"limit": 5000, "with_payload": False, "filter": matched}, hits))
        ranked = {"query": {"text": f"{word} w30"}, "using": "t", "limit": 15}
        out.append(("words", "ranked text", "POST", "/collections/words/points/query", ranked, None))
    some = rows[500][1]
    pairs = sorted(i for i, (_, t) in rows.items() if any(t[n : n + 2] == some[1:3] for n in range(len(t))))
    phrase = {"must": [{"key": "t", "match": {"phrase": " ".join(some[1:3])}}]}
    out.append(("words", "phrase", "POST", "/collections/words/points/scroll", {"limit": 5000, "with_payload": False, "filter": phrase}, pairs))
    for dim in (3, 52):
        scores = {i: w for i, (v, _) in rows.items() for d, w in zip(v["s"]["indices"], v["s"]["values"]) if d == dim}
        best = sorted(scores.values(), reverse=True)[:300]
        body = {"query": {"indices": [dim], "values": [1.0]}, "using": "s", "limit": 300}
        out.append(("words", "sparse", "POST", "/collections/words/points/query", body, (best, scores)))
    return out


def plain(question, result):
    """Of an answer what is compared."""
    kind = question[1]
    if kind == "collections":
        return sorted(c["name"] for c in result["collections"])
    if kind == "aliases":
        return sorted([a["alias_name"], a["collection_name"]] for a in result["aliases"])
    if kind == "settings":
        return result["config"]["optimizer_config"]["indexing_threshold"]
    if kind.endswith("count"):
        return result["count"]
    if kind == "scroll":
        return {p["id"]: [p["vector"], p["payload"]] for p in result["points"]}
    if kind in ("filter", "text", "phrase"):
        return sorted(p["id"] for p in result["points"])
    if kind.startswith(("search", "sparse", "ranked")):
        return [(p["id"], p["score"]) for p in result["points"]]
    if kind == "quotas":
        return result["config"].get("max_disk_usage_percent")
    raise ValueError(kind)


def wrong(question, got, sound=None):
    """None, or what is wrong with an answer; `sound`: what the undamaged directory answers."""
    _, kind, _, _, body, wanted = question
    if kind.startswith(("search", "sparse")):
        best, scores = wanted
        for point, score in got:
            if point not in scores:
                return f"{kind}: point {point} isn't there"
            # Scores by codes alone are off by little; the exact ones aren't.
            if abs(score - scores[point]) > (1e-3 if best else 0.03 * max(map(abs, scores.values()))):
                return f"{kind}: point {point} has score {score}, not {scores[point]}"
        if best is not None and (len(got) != len(best) or any(abs(s - b) > 1e-3 for (_, s), b in zip(got, best))):
            return f"{kind}: the best aren't found: {[s for _, s in got][:3]}, not {best[:3]}"
        # An approximate search may find others than before, not fewer good ones.
        if sound is not None and sum(s for _, s in got) < sum(s for _, s in sound) - 1e-2 * len(sound) - 0.05 * abs(sum(s for _, s in sound)):
            return f"{kind}: worse hits than from the sound directory: {got[:3]}, not {sound[:3]}"
        return None
    wanted = sound if wanted is None else wanted
    if wanted is None or got == wanted:
        return None
    if isinstance(got, dict):
        differing = sorted(i for i in got.keys() | wanted.keys() if got.get(i) != wanted.get(i))
        return f"{kind}: {len(differing)} points differ: {differing[:5]}"
    return f"{kind}: {str(got)[:80]}, not {str(wanted)[:80]}"
