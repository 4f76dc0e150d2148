"""Highlights, an own addition: where the hits' texts have the words of a query. By REST: the client's models don't know them."""

import random
import re

import conftest
import pytest
from harness.http import Answer

INDEX = {"type": "text", "tokenizer": "word", "stemmer": {"type": "snowball", "language": "english"}, "stopwords": "english", "scoring": True}
FILLER = "lorem ipsum dolor sit amet consectetur adipiscing elit".split()

pytestmark = pytest.mark.skipif(conftest.SELF, reason="own addition: needs a server")


@pytest.fixture(scope="module")
def texts(server):
    name = "highlights"
    rng = random.Random(3)
    http = server.http()

    def call(method, path, body=None):
        return http.call(method, f"/collections/{name}{path}", body)

    call("PUT", "", {"vectors": {"size": 2, "distance": "Dot"}})
    for field in ("body", "title"):
        call("PUT", "/index?wait=true", {"field_name": field, "field_schema": INDEX})
    bodies = {}
    for n in range(60):
        words = [rng.choice(FILLER) for _ in range(rng.randint(0, 120))]
        for word in ("Foxes", "running", "<b>"):
            for _ in range(rng.randint(0, 3)):
                words.insert(rng.randint(0, len(words)), word)
        bodies[n] = " ".join(words) + "."
    points = [{"id": n, "vector": [n, 1.0], "payload": {"body": b, "title": "A fox" if n % 3 else "Nothing", "n": n}} for n, b in bodies.items()]
    call("PUT", "/points?wait=true", {"points": points})
    yield call, bodies
    call("DELETE", "")
    http.close()


def asked(call, **body):
    return call("POST", "/points/query", {"using": "body", "limit": 100, **body})["result"]["points"]


def plain(fragment):
    return fragment.replace("<em>", "").replace("</em>", "")


def test_each_word_that_was_looked_for_is_marked(texts):
    call, bodies = texts
    points = asked(call, query={"text": "the fox runs"}, highlight={"fragments": 0})
    assert len(points) > 30 and all("payload" not in p for p in points)
    for point in points:
        [whole] = point["highlights"]["body"]
        assert plain(whole) == bodies[point["id"]]
        assert set(re.findall("<em>(.*?)</em>", whole)) == {w for w in ("Foxes", "running") if w in bodies[point["id"]]}
        assert whole.count("<em>") == len(re.findall("Foxes|running", whole))
    # As without: the same hits in the same order, with nothing beside them.
    bare = asked(call, query={"text": "the fox runs"})
    assert [(p["id"], p["score"]) for p in bare] == [(p["id"], p["score"]) for p in points]
    assert all("highlights" not in p for p in bare + asked(call, query={"text": "fox"}, highlight=False))


def test_fragments_are_short_and_of_the_text(texts):
    call, bodies = texts
    how = {"fragments": 2, "fragment_chars": 40, "pre": "[", "post": "]"}
    for point in asked(call, query={"text": "fox"}, highlight=how, with_payload=["n"]):
        assert point["payload"] == {"n": point["id"]}
        fragments = point["highlights"]["body"]
        assert 1 <= len(fragments) <= 2
        for fragment in fragments:
            text = fragment.replace("[", "").replace("]", "")
            assert "[Foxes]" in fragment and len(text) <= 40 and text in bodies[point["id"]]
    default = asked(call, query={"text": "fox"}, highlight=True)
    assert all(len(p["highlights"]["body"]) == 1 for p in default)


def test_prefetches_have_their_words_too(texts):
    call, _ = texts
    prefetch = [
        {"query": {"text": "running"}, "using": "body", "limit": 100},
        {"query": {"text": "fox"}, "using": "title", "limit": 100},
        {"query": [1.0, 0.0], "limit": 100},
    ]
    points = call("POST", "/points/query", {"prefetch": prefetch, "query": {"fusion": "rrf"}, "limit": 100, "highlight": True})["result"]["points"]
    assert len(points) == 60
    for point in points:
        assert (point["highlights"].get("title") == ["A <em>fox</em>"]) == (point["id"] % 3 > 0)
    assert any("body" in p["highlights"] for p in points) and any(p["highlights"] == {} for p in points)


@pytest.mark.parametrize("how", [{"fragments": 17}, {"fragment_chars": 5}, {"pre": "x" * 65}, {"tags": 1}, 7, "yes"])
def test_what_makes_no_sense_is_refused(texts, how):
    call, _ = texts
    with pytest.raises(Answer) as refused:
        asked(call, query={"text": "fox"}, highlight=how)
    assert refused.value.status in (400, 422) and "highlight" in str(refused.value)


def test_long_words_and_scripts_without_spaces(server):
    http = server.http()
    call = lambda method, path, body=None: http.call(method, f"/collections/highlights-odd{path}", body)  # noqa: E731
    call("PUT", "", {"vectors": {}})
    for field, tokenizer in (("zh", "multilingual"), ("blob", "prefix")):
        schema = {"type": "text", "tokenizer": tokenizer, "scoring": True}
        call("PUT", "/index?wait=true", {"field_name": field, "field_schema": schema})
    zh, blob = "我们在北京大学学习中文。" * 30, "a1" * 30_000
    call("PUT", "/points?wait=true", {"points": [{"id": 1, "vector": {}, "payload": {"zh": zh, "blob": f"before {blob} behind"}}]})

    def fragment(field, text, chars):
        body = {"using": field, "query": {"text": text}, "highlight": {"fragment_chars": chars}}
        [point] = call("POST", "/points/query", body)["result"]["points"]
        [found] = point["highlights"][field]
        return found

    for chars in (20, 40, 100):
        found = fragment("zh", "大学", chars)
        assert "<em>大学</em>" in found and chars / 2 < len(plain(found)) <= chars and plain(found) in zh
        assert fragment("blob", "a1a1a", chars) == f"<em>{blob[:chars]}</em>"
    call("DELETE", "")
    http.close()
