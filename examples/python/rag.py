"""What retrieval-augmented generation retrieves: BM25, vectors, and both together, over 1,400 real abstracts and 225 judged questions.

No network and no model: the vectors are latent semantic analysis, made by numpy. Put your embedding model in the place of `Embedder`; everything else stays.

    python examples/python/rag.py
"""

import gzip
import json
import re
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import ramlet

DATA = Path(__file__).parents[2] / "testdata" / "ir" / "cranfield"


class Embedder:
    """Latent semantic analysis: texts as weighted words, projected to the directions in which the documents differ most."""

    def __init__(self, texts, dim):
        seen = Counter(word for text in texts for word in set(self.words(text)))
        self.index = {word: at for at, (word, n) in enumerate(item for item in seen.items() if item[1] > 1)}
        self.idf = np.array([np.log(len(texts) / seen[word]) for word in self.index])
        weights = np.stack([self.weigh(text) for text in texts])
        values, vectors = np.linalg.eigh(weights @ weights.T)
        top = np.argsort(values)[::-1][:dim]
        self.directions = (weights.T @ vectors[:, top]) / np.sqrt(values[top])

    @staticmethod
    def words(text):
        return re.findall(r"[a-z]{3,}", text.lower())

    def weigh(self, text):
        out = np.zeros(len(self.index))
        for word, n in Counter(self.words(text)).items():
            if word in self.index:
                out[self.index[word]] = 1 + np.log(n)
        out *= self.idf
        return out / (np.linalg.norm(out) or 1)

    def __call__(self, texts):
        return np.stack([self.weigh(text) for text in texts]) @ self.directions


def read(name):
    with gzip.open(DATA / name, "rt") as lines:
        return [line.rstrip("\n") for line in lines]


def main():
    docs = [json.loads(line) for line in read("docs.jsonl.gz")]
    questions = dict(line.split("\t", 1) for line in read("queries.tsv.gz"))
    relevant = {}
    for line in read("qrels.tsv.gz"):
        question, doc, grade = line.split("\t")
        if int(grade) > 0:
            relevant.setdefault(question, set()).add(int(doc))

    texts = [f"{doc['title']}\n{doc['body']}" for doc in docs]
    embed = Embedder(texts, dim=128)
    with tempfile.TemporaryDirectory() as folder, ramlet.open(folder, memory="64MB") as db:
        abstracts = db.create("abstracts", dim=128, indexes={"text": {"type": "text", "scoring": True}})
        abstracts.add(embed(texts), ids=[int(doc["id"]) for doc in docs], payload={"text": texts})

        def by_words(text, limit):
            return abstracts.query(text, using="text", limit=limit)

        def by_meaning(text, limit):
            return abstracts.search(embed([text])[0], limit=limit)

        def by_both(text, limit):
            prefetch = [
                {"query": {"text": text}, "using": "text", "limit": 50},
                {"query": embed([text])[0], "limit": 50},
            ]
            return abstracts.query({"fusion": "rrf"}, prefetch=prefetch, limit=limit, with_payload=True)

        recall = {}
        for way in (by_words, by_meaning, by_both):
            shares = []
            for question, text in questions.items():
                if wanted := relevant.get(question):
                    found = {point.id for point in way(text, 10)}
                    shares.append(len(found & wanted) / min(10, len(wanted)))
            recall[way.__name__] = float(np.mean(shares))
            print(f"{way.__name__:12} finds {recall[way.__name__]:.1%} of what it should, in 10 abstracts")

        question = next(iter(questions.values()))
        context = "\n\n".join(point.payload["text"] for point in by_both(question, 3))
        print(f"\nWhat a language model would be given:\n\nQuestion: {question}\n\n{context[:600]} ...")
    return recall


if __name__ == "__main__":
    main()
