#!/usr/bin/env python3
"""Draws queries a second over MB of RAM from tables of tests/rigs/million.py, as an SVG.

    tests/rigs/ram_plot.py RECORD.txt [RECORD.txt ..] --peer 1080:1173 > docs/images/queries-over-ram.svg

Of a budget that several records have, the last one counts. --peer MB:QPS draws the in-RAM peer at a recall of 0.95.
"""

import argparse
import math
import re
import sys
from pathlib import Path

LINE = re.compile(r"(\d+)MB recall (0\.\d+): queries/s\s+([\d,]+)")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 70, 150, 40, 60
COLOURS = {"0.90": "#1b7837", "0.95": "#2166ac", "0.98": "#b2182b"}


def curves(paths):
    found = {}
    for path in paths:
        for mb, recall, qps in LINE.findall(Path(path).read_text()):
            found.setdefault(recall, {})[int(mb)] = int(qps.replace(",", ""))
    return {recall: sorted(points.items()) for recall, points in found.items() if recall in COLOURS}


class Scale:
    def __init__(self, low, high, begin, end):
        self.low, self.high, self.begin, self.end = math.log(low), math.log(high), begin, end

    def at(self, value):
        share = (math.log(value) - self.low) / (self.high - self.low)
        return round(self.begin + share * (self.end - self.begin), 1)


def svg(lines, peer):
    x = Scale(14, 1300, LEFT, WIDTH - RIGHT)
    y = Scale(250, 25_000, HEIGHT - BOTTOM, TOP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">']
    out.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    out.append(f'<text x="{LEFT}" y="22" font-size="15">1,000,000 vectors of 100 dimensions: queries a second over RAM</text>')
    for mb in (16, 32, 64, 135, 300, 1080):
        out.append(f'<line x1="{x.at(mb)}" x2="{x.at(mb)}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        out.append(f'<text x="{x.at(mb)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{mb:,}</text>')
    for qps in (500, 1_000, 2_000, 5_000, 10_000, 20_000):
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.at(qps)}" y2="{y.at(qps)}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y.at(qps) + 4}" text-anchor="end">{qps:,}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    out.append(f'<text x="{middle}" y="{HEIGHT - 16}" text-anchor="middle">MB of RAM for the whole process</text>')
    for recall, points in sorted(lines.items()):
        colour = COLOURS[recall]
        path = " ".join(f"{x.at(mb)},{y.at(qps)}" for mb, qps in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        out += [f'<circle cx="{x.at(mb)}" cy="{y.at(qps)}" r="4" fill="{colour}"/>' for mb, qps in points]
        mb, qps = points[-1]
        out.append(f'<text x="{x.at(mb) + 10}" y="{y.at(qps) + 4}" fill="{colour}">recall {recall}</text>')
    if peer:
        mb, qps = peer
        out.append(f'<rect x="{x.at(mb) - 5}" y="{y.at(qps) - 5}" width="10" height="10" fill="{COLOURS["0.95"]}"/>')
        out.append(f'<text x="{x.at(mb) - 10}" y="{y.at(qps) + 22}" text-anchor="middle">hnswlib in RAM, 0.95</text>')
    out.append("</svg>")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+")
    parser.add_argument("--peer", type=lambda text: tuple(float(part) for part in text.split(":")))
    arguments = parser.parse_args()
    lines = curves(arguments.records)
    if not lines:
        sys.exit("no line `..MB recall ..: queries/s` in these records")
    print(svg(lines, arguments.peer))


if __name__ == "__main__":
    main()
