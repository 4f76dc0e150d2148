"""Text indexes over REST and gRPC against a small oracle: the local mode passes them over."""

import json
import os
import re

import pytest
from qdrant_client import models

import conftest
import data
from compare import CASES

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")

WORDS = ["Quick", "brown", "fox", "the", "jumps", "lazy-dog", "São", "running", "runs", "wonderful", "A1"]
STEMS = {"jumps": "jump", "lazy": "lazi", "running": "run", "runs": "run", "wonderful": "wonder"}
INDEXES = {
    "word": models.TextIndexParams(type="text", tokenizer=models.TokenizerType.WORD, phrase_matching=True),
    "white": models.TextIndexParams(type="text", tokenizer=models.TokenizerType.WHITESPACE, lowercase=False),
    "prefix": models.TextIndexParams(type="text", tokenizer=models.TokenizerType.PREFIX, min_token_len=2, max_token_len=5),
    "fold": models.TextIndexParams(type="text", tokenizer=models.TokenizerType.MULTILINGUAL, ascii_folding=True, min_token_len=3),
    "stem": models.TextIndexParams(
        type="text",
        stopwords=models.StopwordsSet(custom=["the"]),
        stemmer=models.SnowballParams(type=models.Snowball.SNOWBALL, language=models.SnowballLanguage.ENGLISH),
    ),
}


def tokens(field, text, asked=False, whole=False):
    """Each with its place among the words; `whole`: with stop words."""
    if field == "white":
        return list(zip(text.split(), range(99)))
    words = list(zip(re.findall(r"\w+", text.lower()), range(99)))
    if field == "prefix":
        long = [(w, at) for w, at in words if len(w) >= 2]
        return [(w[:5], at) for w, at in long] if asked else [(w[:n], at) for w, at in long for n in range(2, min(len(w), 5) + 1)]
    if field == "fold":
        return [(w, at) for w, at in ((w.replace("ã", "a"), at) for w, at in words) if len(w) >= 3]
    if field == "stem":
        return [(STEMS.get(w, w), at) for w, at in words if whole or w != "the"]
    return words


def holds(field, values, how, asked):
    wanted = tokens(field, asked, asked=True)
    whole = not wanted
    wanted = wanted or tokens(field, asked, asked=True, whole=True)
    texts = [v for v in (values if isinstance(values, list) else [values]) if isinstance(v, str)]
    # No phrase goes from one value into the next.
    stored = {(t, at + 1000 * n) for n, v in enumerate(texts) for t, at in tokens(field, v, whole=whole)}
    words = {t for t, _ in stored}
    if how == "text":
        return bool(wanted) and all(t in words for t, _ in wanted)
    if how == "text_any":
        return any(t in words for t, _ in wanted)
    return bool(wanted) and any(all((t, at - wanted[0][1] + start) in stored for t, at in wanted) for _, start in stored)


def text(rng, most):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))


MATCHES = {
    "text": lambda t: models.MatchText(text=t),
    "text_any": lambda t: models.MatchTextAny(text_any=t),
    "phrase": lambda t: models.MatchPhrase(phrase=t),
}


def test_conditions(remote):
    rng, name = data.Random(3), f"texts-{os.getpid()}"
    remote.delete_collection(name)
    remote.create_collection(name, vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
    payloads = {}

    def fill(ids):
        for number in ids:
            payloads[number] = {f: [text(rng, 3), 4, text(rng, 3)] if rng.maybe(0.3) else text(rng, 6) for f in INDEXES if rng.maybe(0.9)}
        points = [models.PointStruct(id=n, vector=[n, 1], payload=payloads[n]) for n in ids]
        remote.upsert(name, points, wait=True)

    fill(range(1, 300))
    for field, params in INDEXES.items():
        remote.create_payload_index(name, field, field_schema=params, wait=True)
    fill(range(250, 500))
    schema = remote.get_collection(name).payload_schema
    for field, params in INDEXES.items():
        assert schema[field].data_type == models.PayloadSchemaType.TEXT
        shown, given = schema[field].params, params
        for key in ["tokenizer", "lowercase", "min_token_len", "max_token_len", "ascii_folding", "phrase_matching", "stemmer"]:
            if getattr(given, key) is not None:
                assert getattr(shown, key) == getattr(given, key), (field, key)
        assert schema[field].points == sum(field in p for p in payloads.values())
    for field in INDEXES:
        for how, match in MATCHES.items():
            for _ in range(12):
                asked = text(rng, 3)
                condition = models.FieldCondition(key=field, match=match(asked))
                for clause in ["must", "must_not"]:
                    page, _ = remote.scroll(name, scroll_filter=models.Filter(**{clause: [condition]}), limit=1000)
                    wanted = [n for n, p in sorted(payloads.items()) if holds(field, p.get(field), how, asked) == (clause == "must")]
                    assert [r.id for r in page] == wanted, (field, how, asked, clause)
                    CASES["text index"] += 1
    remote.delete_collection(name)


# Words as dictionaries have them, cut by hand.
SCRIPTS = {
    1: "我们 在 北京 大学 学习",
    2: "これ は テスト です",
    3: "ภาษา ไทย เขียน ไม่มี ช่อง ว่าง",
    4: "Qdrant の コード",
}


def test_scripts_without_spaces_and_names_of_programs(remote):
    name = f"scripts-{os.getpid()}"
    remote.delete_collection(name)
    remote.create_collection(name, vectors_config={})
    payloads = {n: {"t": words.replace(" ", ""), "c": "let fooBar_baz = HTTPServer2::new();"} for n, words in SCRIPTS.items()}
    points = [models.PointStruct(id=n, vector={}, payload=payload) for n, payload in payloads.items()]
    remote.upsert(name, points[:2], wait=True)
    for field, tokenizer in [("t", models.TokenizerType.MULTILINGUAL), ("c", models.TokenizerType.CODE)]:
        params = models.TextIndexParams(type="text", tokenizer=tokenizer, phrase_matching=True)
        remote.create_payload_index(name, field, field_schema=params, wait=True)
    remote.upsert(name, points[2:], wait=True)

    def found(field, match):
        condition = models.FieldCondition(key=field, match=match)
        return [r.id for r in remote.scroll(name, scroll_filter=models.Filter(must=[condition]))[0]]

    for number, words in SCRIPTS.items():
        words = words.split()
        for first, second in zip(words, words[1:]):
            assert number in found("t", models.MatchText(text=first))
            assert found("t", models.MatchPhrase(phrase=first + second)) == [number]
    # Of two words the last and the first character.
    assert found("t", models.MatchText(text="京大")) == []
    assert found("t", models.MatchTextAny(text_any="大学 テスト")) == [1, 2]
    for asked, count in [("foo", 4), ("http", 4), ("server", 4), ("2", 4), ("foobar", 0), ("BAZ", 4), ("fooBar", 4), ("barFoo", 4)]:
        assert len(found("c", models.MatchText(text=asked))) == count, asked
    assert len(found("c", models.MatchPhrase(phrase="HttpServer 2 new"))) == 4
    assert found("c", models.MatchPhrase(phrase="barFoo")) == []
    CASES["text index"] += 20
    remote.delete_collection(name)


def test_by_name_and_refusals(http):
    path = f"/collections/text-refused-{os.getpid()}"
    http.call("PUT", path, {"vectors": {}})
    http.call("PUT", f"{path}/index", {"field_name": "t", "field_schema": "text"})
    for params in [
        {"tokenizer": "runes"},
        {"min_token_len": -1},
        {"lowercase": "yes"},
        {"stopwords": "klingon"},
        {"stemmer": {"type": "snowball", "language": "klingon"}},
        {"stopwords": {"custom": [str(n) for n in range(5000)]}},
    ]:
        body = json.dumps({"field_name": "u", "field_schema": {"type": "text", **params}})
        status, _, answer = http.raw("PUT", f"{path}/index", body)
        assert status in (400, 422), (params, answer)
    status, _, answer = http.raw("POST", f"{path}/facet", '{"key":"t"}')
    assert status == 400 and b"No appropriate index for faceting" in answer
    http.call("DELETE", path)
