#!/usr/bin/env python3
"""How many rows must be read with codes of so many bytes, before any is built: ADR 0059.

    tests/rigs/code_simulation.py BASE.f32 QUERIES.f32 --dims 768 [--rows 150000] [--bytes 16,40,96]

Codes are replaced by what ideal ones of their rate leave over (reverse water-filling; Berger, "Rate distortion theory", 1971), with 18 % fewer bits, as trellis codes
reach. Rows are residuals to the nearest of a few hundred centroids. A line tells how far down the list by codes alone the ten nearest of 50 queries lie, at the 90th, 95th and
97th percentile: `mean` takes what the codes say as it is, `unbiased` scales it so that a row's product with itself is right, `between` by the root of that. Needs numpy.
"""

import argparse

import numpy as np

QUERIES, NEAREST = 50, 10
# Bits of ideal codes for one bit of real ones: .64 left over where ideal codes leave .526.
REAL = 1 / 1.18


def clustered(rows, count, rng, rounds=5):
    """Each row's centroid."""
    sample = rows[rng.permutation(len(rows))[: 30 * count]]
    centroids = sample[:count].copy()
    for _ in range(rounds):
        of = nearest(sample, centroids)
        for cluster in range(count):
            own = sample[of == cluster]
            if len(own):
                centroids[cluster] = own.mean(0)
    return centroids, nearest(rows, centroids)


def nearest(rows, centroids):
    half = (centroids**2).sum(1) / 2
    parts = range(0, len(rows), 20_000)
    return np.concatenate([(rows[i : i + 20_000] @ centroids.T - half).argmax(1) for i in parts])


def water_filled(variances, bits):
    """What codes of so many bits leave over of each direction."""
    low, high = 0.0, float(variances.max())
    for _ in range(60):
        level = (low + high) / 2
        needed = np.maximum(0, 0.5 * np.log2(variances / level)).sum()
        low, high = (level, high) if needed > bits else (low, level)
    return np.minimum(variances, level)


class Set:
    def __init__(self, base, queries, dims, count, rng):
        rows = np.fromfile(base, np.float32, count=count * dims).reshape(-1, dims)
        queries = np.fromfile(queries, np.float32, count=QUERIES * dims).reshape(-1, dims)
        centroids, of = clustered(rows, max(100, len(rows) // 250), rng)
        residuals = rows - centroids[of]
        self.variances, axes = np.linalg.eigh(np.cov(residuals[:60_000].T, bias=True))
        self.variances = np.maximum(self.variances, 1e-9)
        self.residuals, self.queries = residuals @ axes.astype(np.float32), queries @ axes.astype(np.float32)
        self.base, scores = (queries @ centroids.T)[:, of], queries @ rows.T
        self.nearest = np.argpartition(-scores, NEAREST, axis=1)[:, :NEAREST]
        self.rng = rng

    def tell(self, what, kept, noise):
        """`kept` of each direction, and noise of these variances beside it, is what codes say."""
        said = self.residuals * kept.astype(np.float32)
        said += self.rng.standard_normal(said.shape, dtype=np.float32) * np.sqrt(noise).astype(np.float32)
        length, along = (self.residuals**2).sum(1).mean(), (said * self.residuals).sum(1).mean()
        products = self.queries @ said.T
        for how, power in (("mean", 0.0), ("between", 0.5), ("unbiased", 1.0)):
            scores = self.base + products * float(length / along) ** power
            sought = np.take_along_axis(scores, self.nearest, 1)
            ranks = np.concatenate([np.searchsorted(np.sort(-row), -own) for row, own in zip(scores, sought)])
            told = " ".join(f"{np.percentile(ranks, share):7.0f}" for share in (90, 95, 97))
            print(f"{what:28} {how:9} {told}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("queries")
    parser.add_argument("--dims", type=int, required=True)
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--bytes", type=lambda text: [int(part) for part in text.split(",")], default=[16, 40, 96])
    arguments = parser.parse_args()
    dims = arguments.dims
    of = Set(arguments.base, arguments.queries, dims, arguments.rows, np.random.default_rng(1))
    total = of.variances.sum()
    shares = [float(of.variances[::-1][:many].sum() / total) for many in (16, 64, 256)]
    print(f"squared length of residuals {total:.3f}, of it in the first 16, 64, 256 directions: " + ", ".join(f"{share:.2f}" for share in shares))
    signs = 2 / np.pi
    of.tell("1 bit a dimension", np.full(dims, signs), np.full(dims, signs * (1 - signs) * total / dims))
    for size in arguments.bytes:
        bits = 8 * size * REAL
        left = 2 ** (-2 * bits / dims)
        of.tell(f"{size} bytes, rotated", np.full(dims, 1 - left), np.full(dims, left * (1 - left) * total / dims))
        left = water_filled(of.variances, bits)
        of.tell(f"{size} bytes, main directions", 1 - left / of.variances, left * (1 - left / of.variances))


if __name__ == "__main__":
    main()
