#!/usr/bin/env python3
"""Draws queries a second over MB of RAM from tables of tests/rigs/million.py or lines of tests/rigs/ladder.py, as an SVG.

    tests/rigs/ram_plot.py RECORD.txt [RECORD.txt ..] --peer 1080:1173 > docs/images/queries-over-ram.svg
    tests/rigs/ram_plot.py LADDER.txt [LADDER.txt ..] > docs/images/queries-by-dimension.svg

A line for each recall of the former, for each dimension of the latter. Of a budget that several records have, the last one counts. --peer MB:QPS draws the in-RAM
peer at a recall of 0.95.
"""

import argparse
import math
import re
import sys
from pathlib import Path

LINE = re.compile(r"(?:(\d+) dimensions, )?(\d+)MB recall (0\.\d+): queries/s\s+([\d,]+)")
BY_RECALL = "1,000,000 vectors of 100 dimensions: queries a second over RAM"
BY_DIMENSION = "1,000,000 vectors: queries a second over RAM, recall 0.95"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 70, 150, 40, 60
COLOURS = {"recall 0.90": "#1b7837", "recall 0.95": "#2166ac", "recall 0.98": "#b2182b"}
OF_DIMENSIONS = ["#1b7837", "#2166ac", "#b2182b", "#762a83", "#8c510a"]


def curves(paths):
    """Points of each line by its name, in the order in which they are drawn; and the title."""
    by_recall, by_dimension = {}, {}
    for path in paths:
        for dims, mb, recall, qps in LINE.findall(Path(path).read_text()):
            lines, name = (by_dimension, int(dims)) if dims else (by_recall, f"recall {recall}")
            lines.setdefault(name, {})[int(mb)] = int(qps.replace(",", ""))
    if by_dimension:
        lines = {f"{dims:,} dimensions": sorted(points.items()) for dims, points in sorted(by_dimension.items())}
        return lines, BY_DIMENSION, dict(zip(lines, OF_DIMENSIONS))
    lines = {name: sorted(points.items()) for name, points in sorted(by_recall.items()) if name in COLOURS}
    return lines, BY_RECALL, COLOURS


class Scale:
    def __init__(self, low, high, begin, end):
        self.least = low
        self.low, self.high, self.begin, self.end = math.log(low), math.log(high), begin, end

    def at(self, value):
        share = (math.log(value) - self.low) / (self.high - self.low)
        return round(self.begin + share * (self.end - self.begin), 1)


def svg(lines, title, colours, peer):
    x = Scale(14, 1300, LEFT, WIDTH - RIGHT)
    least = min(qps for points in lines.values() for _, qps in points)
    y = Scale(min(250, least * 0.8), 25_000, HEIGHT - BOTTOM, TOP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">']
    out.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    out.append(f'<text x="{LEFT}" y="22" font-size="15">{title}</text>')
    for mb in (16, 32, 64, 135, 300, 1080):
        out.append(f'<line x1="{x.at(mb)}" x2="{x.at(mb)}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        out.append(f'<text x="{x.at(mb)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{mb:,}</text>')
    for qps in (200, 500, 1_000, 2_000, 5_000, 10_000, 20_000):
        if qps < y.least:
            continue
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.at(qps)}" y2="{y.at(qps)}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y.at(qps) + 4}" text-anchor="end">{qps:,}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    out.append(f'<text x="{middle}" y="{HEIGHT - 16}" text-anchor="middle">MB of RAM for the whole process</text>')
    for name, points in lines.items():
        colour = colours[name]
        path = " ".join(f"{x.at(mb)},{y.at(qps)}" for mb, qps in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        out += [f'<circle cx="{x.at(mb)}" cy="{y.at(qps)}" r="4" fill="{colour}"/>' for mb, qps in points]
    # Beside the field, in the order of the lines' ends: lines that cross would run through names at their ends.
    names = sorted(lines, key=lambda name: -lines[name][-1][1])
    lowest = TOP
    for name in names:
        lowest = max(lowest + 18, y.at(lines[name][-1][1]) + 4)
        out.append(f'<text x="{WIDTH - RIGHT + 10}" y="{lowest}" fill="{colours[name]}">{name}</text>')
    if peer:
        mb, qps = peer
        out.append(f'<rect x="{x.at(mb) - 5}" y="{y.at(qps) - 5}" width="10" height="10" fill="{COLOURS["recall 0.95"]}"/>')
        out.append(f'<text x="{x.at(mb) - 10}" y="{y.at(qps) + 22}" text-anchor="middle">hnswlib in RAM, 0.95</text>')
    out.append("</svg>")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+")
    parser.add_argument("--peer", type=lambda text: tuple(float(part) for part in text.split(":")))
    arguments = parser.parse_args()
    lines, title, colours = curves(arguments.records)
    if not lines:
        sys.exit("no line `..MB recall ..: queries/s` in these records")
    print(svg(lines, title, colours, arguments.peer))


if __name__ == "__main__":
    main()
