#!/usr/bin/env python3
"""Draws what `peers.py` measured: queries a second over the most memory, a point for each library, as an SVG.

    python/bench/peers_plot.py RECORD.jsonl > docs/images/libraries.svg
"""

import json
import math
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 380, 70, 30, 40, 60
NAMES = {"ramlet": "Ramlet", "qdrant-edge": "Qdrant Edge", "faiss": "FAISS", "usearch": "usearch", "lancedb": "LanceDB", "chroma": "Chroma"}
TICKS = [1, 2, 5]


def scale(values, begin, end):
    """Where a value lies on a logarithmic axis that has room around all of them, and the round numbers on it."""
    low, high = math.log(min(values) / 1.6), math.log(max(values) * 1.6)
    ticks = [step * 10**power for power in range(7) for step in TICKS if low <= math.log(step * 10**power) <= high]
    return (lambda value: round(begin + (math.log(value) - low) / (high - low) * (end - begin), 1)), ticks


def svg(rows):
    x, across = scale([row["resident_bytes_max"] / 1e6 for row in rows], LEFT, WIDTH - RIGHT)
    y, up = scale([row["queries_per_s"] for row in rows], HEIGHT - BOTTOM, TOP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">']
    out.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    title = f"{rows[0]['rows']:,} vectors of {rows[0]['dim']} dimensions: queries a second over memory"
    out.append(f'<text x="{LEFT}" y="22" font-size="15">{title}</text>')
    for mb in across:
        out.append(f'<line x1="{x(mb)}" x2="{x(mb)}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        out.append(f'<text x="{x(mb)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{mb:,}</text>')
    for qps in up:
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(qps)}" y2="{y(qps)}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y(qps) + 4}" text-anchor="end">{qps:,}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 16}" text-anchor="middle">most MB, pages of mapped files included</text>')
    for row in rows:
        colour = "#b2182b" if row["library"] == "ramlet" else "#2166ac"
        at, high = x(row["resident_bytes_max"] / 1e6), y(row["queries_per_s"])
        # Names of what lies on the right half stand on the left of their points.
        side, anchor = (-9, "end") if at > (LEFT + WIDTH - RIGHT) / 2 else (9, "start")
        name = f"{NAMES[row['library']]}, recall {row['recall_at_10']:.2f}"
        out.append(f'<circle cx="{at}" cy="{high}" r="5" fill="{colour}"/>')
        out.append(f'<text x="{at + side}" y="{high + 4}" text-anchor="{anchor}" fill="{colour}">{name}</text>')
    out.append("</svg>")
    return "\n".join(out)


def main():
    lines = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines() if line.startswith("{")]
    print(svg([line for line in lines if "queries_per_s" in line]))


if __name__ == "__main__":
    main()
