"""Ranked retrieval without a server, as an oracle: words, BM25, nDCG, and vectors by latent semantic analysis. numpy and the standard library only.

BM25 is that of Robertson and Zaragoza (2009) with the IDF that can't be negative, as Lucene has it; nDCG has the gain 2^judgement - 1.
"""

import gzip
import json
import math
import re
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path

import numpy as np

from porter2 import stem

DIRECTORY = Path(__file__).resolve().parents[2] / "testdata" / "ir"
K1, B = 1.2, 0.75
# Lucene's list, by which the published figures were made.
STOPWORDS = frozenset(
    """a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was will
    with""".split()
)
stem = lru_cache(maxsize=None)(stem)


class Collection:
    """Documents by number, queries and judgements by name."""

    def __init__(self, name):
        def lines(file):
            with gzip.open(DIRECTORY / name / (file + ".gz"), "rt", encoding="utf-8") as text:
                return text.read().splitlines()

        documents = [json.loads(line) for line in lines("docs.jsonl")]
        self.name = name
        self.documents = {int(d["id"]): {"title": d["title"], "body": d["body"]} for d in documents}
        self.queries = dict(line.split("\t", 1) for line in lines("queries.tsv"))
        self.judged = defaultdict(dict)
        for query, document, gain in (line.split("\t") for line in lines("qrels.tsv")):
            if float(gain) > 0:
                self.judged[query][int(document)] = 2.0 ** float(gain) - 1
        # A query that nobody judged says nothing.
        self.queries = {name: text for name, text in self.queries.items() if name in self.judged}

    def text(self, document):
        return "{title} {body}".format(**self.documents[document])

    def ndcg(self, rankings, k=10):
        """Mean over the queries; `rankings` has a list of documents for each."""

        def gain(gains):
            return sum(g / math.log2(place + 2) for place, g in enumerate(gains[:k]))

        scores = []
        for query in self.queries:
            judged = self.judged[query]
            best = gain(sorted(judged.values(), reverse=True))
            scores.append(gain([judged.get(d, 0.0) for d in rankings[query]]) / best)
        return sum(scores) / len(scores)


def words(text):
    """Stems, stop words left out."""
    return [stem(word) for word in re.findall(r"\w+", text.lower()) if word not in STOPWORDS]


class Bm25:
    def __init__(self, texts):
        self.lists, self.lengths = defaultdict(list), {}
        for document, text in texts.items():
            counts = Counter(words(text))
            self.lengths[document] = sum(counts.values())
            for word, count in counts.items():
                self.lists[word].append((document, count))
        self.mean = sum(self.lengths.values()) / len(self.lengths)

    def scores(self, query):
        scores = defaultdict(float)
        for word in words(query):
            found = self.lists.get(word, [])
            idf = math.log(1 + (len(self.lengths) - len(found) + 0.5) / (len(found) + 0.5))
            for document, count in found:
                norm = K1 * (1 - B + B * self.lengths[document] / self.mean)
                scores[document] += idf * count * (K1 + 1) / (count + norm)
        return scores

    def rank(self, query, k):
        return sorted((-score, document) for document, score in self.scores(query).items())[:k]


class Semantic:
    """Latent semantic analysis (Deerwester et al. 1990): log counts weighted by IDF, a truncated singular value decomposition by
    subspace iteration from a fixed beginning, so that the same texts give the same vectors everywhere."""

    def __init__(self, texts, dims, rounds=6):
        counted = [Counter(words(text)) for text in texts.values()]
        holding = Counter(word for counts in counted for word in counts)
        # A word of one document says nothing about others.
        self.places = {word: at for at, word in enumerate(sorted(w for w, n in holding.items() if n > 1))}
        self.idf = np.array([math.log(len(counted) / holding[word]) for word in self.places])
        matrix = np.stack([self.weigh(counts) for counts in counted])
        basis = np.linalg.qr(np.random.default_rng(7).standard_normal((matrix.shape[1], dims + 20)))[0]
        for _ in range(rounds):
            basis = np.linalg.qr(matrix.T @ (matrix @ basis))[0]
        _, _, turned = np.linalg.svd(matrix @ basis, full_matrices=False)
        self.basis = basis @ turned[:dims].T
        self.vectors = dict(zip(texts, normalised(matrix @ self.basis), strict=True))

    def weigh(self, counts):
        row = np.zeros(len(self.places))
        for word, count in counts.items():
            if word in self.places:
                row[self.places[word]] = 1 + math.log(count)
        row *= self.idf
        return row / max(np.linalg.norm(row), 1e-12)

    def vector(self, text):
        return normalised(self.weigh(Counter(words(text)))[None] @ self.basis)[0]


def normalised(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def fused(rankings, k=2):
    """Reciprocal rank fusion (Cormack et al. 2009) as the API has it: 1 / (k + rank), ranks from 0."""
    scores = defaultdict(float)
    for ranking in rankings:
        for place, document in enumerate(ranking):
            scores[document] += 1 / (k + place)
    return [document for _, document in sorted((-score, document) for document, score in scores.items())]
