"""Recall against speed: reading a curve at a given recall, and what issue 3 asks of it."""

import math


def at_recall(points, recall, key="queries_per_s"):
    """`key` where a curve reaches a recall; None where it doesn't go that far.

    Between two points the logarithm is taken as linear in the logarithm of what is missed: for both kinds of index, halving the misses
    costs about the same factor everywhere. `points` are dicts with "recall_at_10". A dearer point with less recall is left out.
    """
    best = sorted(points, key=lambda p: p["recall_at_10"])
    if not best or best[-1]["recall_at_10"] < recall:
        return None
    above = min((p for p in best if p["recall_at_10"] >= recall), key=lambda p: p["recall_at_10"])
    below = [p for p in best if p["recall_at_10"] < recall]
    if not below or not above[key] or not below[-1][key]:
        return above[key]
    below = below[-1]
    missed = [math.log(max(1.0 - p, 1e-6)) for p in (below["recall_at_10"], above["recall_at_10"], recall)]
    if missed[0] == missed[1]:
        return above[key]
    share = (missed[2] - missed[0]) / (missed[1] - missed[0])
    return math.exp(math.log(below[key]) * (1 - share) + math.log(above[key]) * share)


# (budget in MB, recall) -> QPS in multiples of the peer's, all of it in RAM, at the same recall.
RATIOS = {
    "hard": {
        (300, 0.95): 7, (135, 0.90): 5, (135, 0.95): 7, (135, 0.98): 8,
        (64, 0.90): 3, (64, 0.95): 3, (32, 0.90): 1, (32, 0.95): 1,
    },
    "easy": {
        (300, 0.95): 3, (135, 0.90): 3, (135, 0.95): 3, (135, 0.98): 3, (32, 0.90): 0.5, (32, 0.95): 0.5,
    },
}  # fmt: skip
# (budget in MB, recall) -> queries a second.
SPEEDS = {"hard": {(16, 0.90): 800, (16, 0.95): 1000}, "easy": {(16, 0.90): 800}}
# (budget in MB, recall) -> reads a query at most.
READS = {(300, 0.95): 0, (135, 0.95): 2.5, (64, 0.95): 18}
# Budgets at which this recall must be reachable.
REACHABLE = {0.99: (300, 135, 64)}


class Table:
    """Lines of measured figures beside what was asked."""

    def __init__(self):
        self.rows = []

    def add(self, what, measured, wanted=None, least=True, unit=""):
        """`least`: the figure should be at least what is wanted; else at most."""
        verdict = ""
        if wanted is not None:
            reached = measured is not None and (measured >= wanted if least else measured <= wanted)
            verdict = "ok" if reached else "MISSED"
        self.rows.append({"what": what, "measured": measured, "wanted": wanted, "least": least, "unit": unit, "verdict": verdict})

    def text(self):
        def show(value):
            if value is None:
                return "-"
            if value == 0 or abs(value) >= 100:
                return f"{value:,.0f}"
            return f"{value:.3g}" if abs(value) >= 1 else f"{value:.4f}"

        lines = []
        for row in self.rows:
            wanted = "" if row["wanted"] is None else f"{'>=' if row['least'] else '<='} {show(row['wanted'])}"
            lines.append(f"{row['what']:<58} {show(row['measured']):>10} {row['unit']:<8} {wanted:<10} {row['verdict']}".rstrip())
        return "\n".join(lines)

    def missed(self):
        return [row["what"] for row in self.rows if row["verdict"] == "MISSED"]
