"""Recommendations: people who liked some films, their next ones. Taste is made up, so that what is right is known.

Films and people are vectors of one space (factors of a matrix of ratings); what somebody has seen is left out by a filter, what they disliked pulls away.

    python examples/python/recommend.py
"""

import tempfile

import numpy as np
import ramlet

FILMS, PEOPLE, TASTES = 4_000, 300, 12
GENRES = ["comedy", "drama", "science fiction", "western"]


def factors(ratings, seen, dim, rounds=8, weight=2.0):
    """Alternating least squares: films and people whose products are near the ratings that are known."""
    rng = np.random.default_rng(1)
    people, films = rng.normal(size=(ratings.shape[0], dim)), rng.normal(size=(ratings.shape[1], dim))
    for _ in range(rounds):
        for mine, other, known, rated in ((people, films, seen, ratings), (films, people, seen.T, ratings.T)):
            for at in range(len(mine)):
                some = other[known[at]]
                mine[at] = np.linalg.solve(some.T @ some + weight * np.eye(dim), some.T @ rated[at, known[at]])
    return people, films


def main():
    rng = np.random.default_rng(0)
    taste = rng.normal(size=(PEOPLE, TASTES))
    kind = rng.normal(size=(FILMS, TASTES))
    liking = taste @ kind.T + rng.normal(size=(PEOPLE, FILMS)) * 0.5
    seen = rng.random((PEOPLE, FILMS)) < 0.05
    people, films = factors(liking, seen, dim=TASTES)

    with tempfile.TemporaryDirectory() as folder, ramlet.open(folder, memory="32MB") as db:
        shelf = db.create("films", dim=TASTES, distance="dot", indexes={"genre": "keyword", "year": "integer"})
        genre, year = rng.choice(GENRES, FILMS), rng.integers(1950, 2025, FILMS)
        shelf.add(films, ids=range(FILMS), payload={"genre": genre, "year": year})

        gains = []
        for person in range(PEOPLE):
            known = np.flatnonzero(seen[person]).tolist()
            hits = shelf.search(people[person], limit=10, filter={"must_not": [{"has_id": known}]}, exact=True)
            assert not set(hits.ids.tolist()) & set(known)
            gains.append(liking[person, hits.ids.astype(int)].mean() - liking[person].mean())
        print(f"recommended films are liked {np.mean(gains):.2f} more than any film; liking varies by {liking.std():.2f}")

        # By examples alone, for somebody without a vector; only recent westerns.
        person = int(np.argmax(gains))
        order = np.argsort(liking[person])
        like, dislike = order[-3:].tolist(), order[:3].tolist()
        found = shelf.query(
            {"recommend": {"positive": like, "negative": dislike}},
            where={"genre": "western", "year": {"gte": 2000}},
            limit=5,
            with_payload=True,
        )
        for point in found:
            print(f"  film {point.id}: {point.payload['genre']} of {point.payload['year']}, liking {liking[person, point.id]:+.1f}")
        by_example = float(np.mean([liking[person, point.id] for point in found]))
        return float(np.mean(gains)), float(liking.std()), by_example, [point.payload for point in found]


if __name__ == "__main__":
    main()
