"""Words that text analysis might fail on: none ends the server, none keeps it from starting, and each is found again."""

import itertools

import pytest

import conftest

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")

LANGUAGES = [
    "arabic", "armenian", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian", "norwegian",
    "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish",
]  # fmt: skip
TOKENIZERS = ["word", "whitespace", "prefix", "multilingual", "code"]
# The library before the present one panicked on the first three, with Greek stems.
WORDS = [
    "ισαισα", "αντίθετε", "παγαίνετε", "ίσα", "ΙΣΑΙΣΑ", "İİİ", "ıııler", "ßßß", "ŉŉs", "e\u0301e\u0301s", "\u0301\u0301\u0301", "คนไทยกิน", "今天天气很好",
    "かなカナ漢字", "ကခဂ", "a\u200db\u200cc", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\ufdfa\ufdfa", "x" * 5000, "ισα" * 3000, "ies" * 2000, "க்" * 1000,
]  # fmt: skip


def index(language, tokenizer, **more):
    schema = {"type": "text", "tokenizer": tokenizer, "stemmer": {"type": "snowball", "language": language}, **more}
    if tokenizer == "prefix":
        schema |= {"min_token_len": 1, "max_token_len": 20}
    return schema


def put(http, name, points):
    http.result("PUT", f"/collections/{name}/points?wait=true", {"points": points})


@pytest.mark.parametrize("scoring", [True, False])
@pytest.mark.parametrize("index_first", [True, False])
def test_one_word_leaves_all_collections_and_the_next_start_whole(own_server, scoring, index_first):
    server = own_server
    http = server.http()
    for name in ("precious", "poisoned"):
        http.result("PUT", f"/collections/{name}", {"vectors": {"size": 2, "distance": "Dot"}})
    put(http, "precious", [{"id": 1, "vector": [1, 0], "payload": {"kept": True}}])

    def make_index():
        body = {"field_name": "t", "field_schema": index("greek", "word", scoring=scoring)}
        http.result("PUT", "/collections/poisoned/index?wait=true", body)

    if index_first:
        make_index()
    put(http, "poisoned", [{"id": 1, "vector": [1, 0], "payload": {"t": "ισαισα"}}])
    if not index_first:
        make_index()
    found = {"filter": {"must": [{"key": "t", "match": {"text": "ισαισα"}}]}}
    for _ in range(2):
        assert http.result("POST", "/collections/poisoned/points/count", found)["count"] == 1
        assert http.result("POST", "/collections/precious/points/count", {})["count"] == 1
        http.close()
        server.restart()
        http = server.http()
        # So that what is replayed is flushed as well.
        http.result("PATCH", "/collections/poisoned", {"optimizers_config": {"indexing_threshold": 1}})
    http.close()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_is_found_in_every_language(http, language):
    name = f"hostile-words-{language}"
    http.result("PUT", f"/collections/{name}", {})
    fields = {}
    for tokenizer, folding in itertools.product(TOKENIZERS, [True, False]):
        field = f"{tokenizer}-{folding}".lower()
        fields[field] = index(language, tokenizer, ascii_folding=folding, scoring=tokenizer == "word")
        # One index is there before the texts, the other after them.
        if folding:
            http.result("PUT", f"/collections/{name}/index?wait=true", {"field_name": field, "field_schema": fields[field]})
    points = [{"id": n, "vector": {}, "payload": dict.fromkeys(fields, word)} for n, word in enumerate(WORDS)]
    put(http, name, points)
    for field, schema in fields.items():
        if not field.endswith("true"):
            http.result("PUT", f"/collections/{name}/index?wait=true", {"field_name": field, "field_schema": schema})
    for field, (n, word) in itertools.product(fields, enumerate(WORDS)):
        # Marks alone are no word, nor is an emoji.
        if not any(c.isalpha() for c in word):
            continue
        body = {"filter": {"must": [{"key": field, "match": {"text": word}}]}, "limit": 100}
        found = [point["id"] for point in http.result("POST", f"/collections/{name}/points/scroll", body)["points"]]
        assert n in found, (field, word[:20])
    http.call("DELETE", f"/collections/{name}")
