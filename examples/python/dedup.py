"""Near-duplicates: texts that differ in a few characters are found by the nearest neighbours of their shingles' hashes.

Reads nothing whole: texts come as a stream, each batch is compared with what is there and what is new is added.

    python examples/python/dedup.py
"""

import gzip
import itertools
import json
import random
import tempfile
import zlib
from pathlib import Path

import numpy as np
import ramlet

DATA = Path(__file__).parents[2] / "testdata" / "ir" / "cranfield" / "docs.jsonl.gz"
DIM, SHINGLE, NEAR = 256, 5, 0.9


def vector(text):
    """Counts of hashed shingles, with a sign each: texts alike have vectors alike."""
    text = " ".join(text.lower().split())
    out = np.zeros(DIM, dtype=np.float32)
    for at in range(max(1, len(text) - SHINGLE + 1)):
        hashed = zlib.crc32(text[at : at + SHINGLE].encode())
        out[hashed % DIM] += 1 if hashed & 0x8000_0000 else -1
    return out


def texts(seed=1):
    """Real abstracts; every fifth comes again later, with some words changed."""
    shuffled = random.Random(seed)
    with gzip.open(DATA, "rt") as lines:
        originals = [doc["body"] for doc in map(json.loads, lines) if len(doc["body"]) > 200]
    copies = []
    for original in originals[::5]:
        words = original.split()
        for _ in range(max(1, len(words) // 50)):
            words[shuffled.randrange(len(words))] = "flow"
        copies.append(" ".join(words))
    return originals + copies, len(copies)


def main():
    stream, copies = texts()
    with tempfile.TemporaryDirectory() as folder, ramlet.open(folder, memory="32MB") as db:
        kept = db.create("kept", dim=DIM)
        dropped, source = [], enumerate(stream)
        while batch := list(itertools.islice(source, 200)):
            numbers = np.array([number for number, _ in batch])
            vectors = np.stack([vector(text) for _, text in batch])
            nearest = kept.search(vectors, limit=1, exact=True)
            # NaN where there was nothing to compare with yet.
            known = nearest.scores[:, 0] > NEAR
            dropped += list(zip(numbers[known].tolist(), nearest.ids[known, 0].tolist()))
            kept.add(vectors[~known], ids=numbers[~known])
        print(f"{len(stream)} texts, {copies} of them nearly copies: {len(dropped)} dropped, {kept.count()} kept")
        at, of = dropped[0]
        print(f"for example\n  {stream[at][:90]}\nis nearly\n  {stream[of][:90]}")
        return len(stream), copies, len(dropped), kept.count()


if __name__ == "__main__":
    main()
