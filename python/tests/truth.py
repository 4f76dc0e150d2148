"""What is right, computed in the plainest way."""

import numpy as np


def scores(distance, rows, query):
    """Of all rows, in float64; larger is better."""
    rows, query = rows.astype(np.float64), query.astype(np.float64)
    if distance == "cosine":
        norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
        return rows @ query / np.where(norms == 0, 1, norms)
    if distance == "dot":
        return rows @ query
    if distance == "euclid":
        return -np.linalg.norm(rows - query, axis=1)
    return -np.abs(rows - query).sum(axis=1)


def check_hits(hits, distance, rows, query, limit, tolerance=1e-3, matches=None):
    """Whether `hits` of one query are the nearest rows; a point's id is its row. Ties may come in any order."""
    all_scores = scores(distance, rows, query)
    if matches is not None:
        all_scores = np.where(matches, all_scores, -np.inf)
    there = int(np.isfinite(all_scores).sum())
    assert len(hits.ids) == min(limit, there)
    expected = np.sort(all_scores)[::-1][: len(hits.ids)]
    sign = -1 if distance in ("euclid", "manhattan") else 1
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(sign * hits.scores, expected, atol=tolerance * scale)
    np.testing.assert_allclose(all_scores[hits.ids.astype(int)], expected, atol=tolerance * scale)
