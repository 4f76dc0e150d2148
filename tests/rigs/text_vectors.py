#!/usr/bin/env python3
"""Real text as vectors, without a network: latent semantic analysis (Deerwester et al. 1990) of windows of 30 words.

    tests/rigs/text_vectors.py PASSAGES.jsonl.gz OUT --dims 768 --rows 1000000 [--questions QUESTIONS.tsv.gz]

PASSAGES has lines with `title` and `body`. Writes OUT.base.f32, OUT.query.f32 (windows that aren't in the base), OUT.gt.i32 (the 100 nearest by cosine), and with --questions
OUT-questions.query.f32 and .gt.i32: queries unlike the base. Rows have length 1. Their variance lies in many directions: what tells windows apart are rare words. Needs numpy
and scikit-learn.
"""

import argparse
import gzip
import json

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.extmath import randomized_svd

WINDOW, QUERIES, TRUTH = 30, 1_000, 100


def windows(texts, wanted):
    words = [text.split() for text in texts]
    step = max(4, int(sum(map(len, words)) / (wanted * 1.15)))
    return [" ".join(own[at : at + WINDOW]) for own in words for at in range(0, max(1, len(own) - WINDOW // 2), step)]


def truth(base, queries):
    best = None
    for first in range(0, len(base), 50_000):
        scores = queries @ base[first : first + 50_000].T
        ids = np.broadcast_to(np.arange(first, first + scores.shape[1], dtype=np.int32), scores.shape)
        if best:
            scores, ids = np.hstack([best[0], scores]), np.hstack([best[1], ids])
        top = np.argpartition(-scores, TRUTH, axis=1)[:, :TRUTH]
        best = np.take_along_axis(scores, top, 1), np.take_along_axis(ids, top, 1)
    return np.take_along_axis(best[1], np.argsort(-best[0], axis=1), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("passages")
    parser.add_argument("out")
    parser.add_argument("--dims", type=int, default=768)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--questions")
    arguments = parser.parse_args()
    with gzip.open(arguments.passages, "rt") as lines:
        passages = [f"{line['title']} {line['body']}" for line in map(json.loads, lines)]
    weights = TfidfVectorizer(sublinear_tf=True, min_df=3, max_df=0.2, dtype=np.float32, max_features=60_000)
    _, _, axes = randomized_svd(weights.fit_transform(passages), arguments.dims, n_oversamples=32, n_iter=2, random_state=1)
    axes = np.ascontiguousarray(axes.T.astype(np.float32))

    def embedded(texts):
        """Of texts without a known word nothing."""
        rows = np.concatenate([weights.transform(texts[at : at + 20_000]) @ axes for at in range(0, len(texts), 20_000)])
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows[lengths[:, 0] > 1e-6] / lengths[lengths[:, 0] > 1e-6]).astype(np.float32)

    texts = windows(passages, arguments.rows + QUERIES)
    order = np.random.default_rng(1).permutation(len(texts))
    rows = embedded([texts[at] for at in order[: arguments.rows + 2 * QUERIES]])
    sets = {arguments.out: rows[:QUERIES]}
    base = rows[QUERIES : QUERIES + arguments.rows]
    base.tofile(f"{arguments.out}.base.f32")
    if arguments.questions:
        with gzip.open(arguments.questions, "rt") as lines:
            sets[f"{arguments.out}-questions"] = embedded([line.rstrip("\n").split("\t")[-1] for line in lines])[:QUERIES]
    for prefix, queries in sets.items():
        queries.tofile(f"{prefix}.query.f32")
        truth(base, queries).astype(np.int32).tofile(f"{prefix}.gt.i32")
        print(f"{prefix}: {len(base)} rows, {len(queries)} queries, {arguments.dims} dimensions")


if __name__ == "__main__":
    main()
