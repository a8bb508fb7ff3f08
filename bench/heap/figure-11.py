#!/usr/bin/env python3
"""Draws Figure 11 of the TEMERAIRE paper for two demands: memory of four strategies of the filler.

Usage: bench/heap/figure-11.py [PRAIRIE] >docs/src/images/heap-figure-11.svg
"""

import json
import subprocess
import sys

STRATEGIES = "temeraire,temeraire:fullness,temeraire:fullness-chunks,temeraire:best-fit"
DEMANDS = [
    ("The demand chosen: single pages, spans of 320 and 720 KiB", "figure-11", 1024),
    ("The first demand: nine sizes from 8 KiB to 1 MiB", "many-sizes", 256),
]
COLORS = ["#2e6cc7", "#d9531e", "#0e8a7c", "#8a52bf", "#b58105"]
LEFT, WIDTH, HEIGHT, SECONDS = 70, 600, 240, 60


def run(prairie, sizes, mebibytes):
    command = f"{prairie} heap driver --sizes {sizes} --heap {mebibytes}M --load drop --turnover 0.2"
    command += f" --time {SECONDS}s --page-heap {STRATEGIES} --json"
    return json.loads(subprocess.run(command.split(), capture_output=True, check=True).stdout)


def line(samples, key, top, most, color):
    """A line of steps over time, in MiB of pages of 8 KiB."""
    path, before = [], None
    for sample in samples:
        x = LEFT + sample["time_ns"] / 1e9 / SECONDS * WIDTH
        y = top + HEIGHT * (1 - sample[key] / 128 / most)
        if before is not None:
            path.append(f"{x:.1f},{before:.1f}")
        path.append(f"{x:.1f},{y:.1f}")
        before = y
    return f'<polyline points="{" ".join(path)}" fill="none" stroke="{color}" stroke-width="1.5"/>'


def panel(title, results, mebibytes, top):
    most = mebibytes * 1.4
    yield f'<text x="{LEFT}" y="{top - 10}" font-weight="bold">{title}</text>'
    for quarter in range(6):
        y = top + HEIGHT * (1 - quarter * mebibytes / 4 / most)
        yield f'<path d="M{LEFT} {y:.1f}h{WIDTH}" stroke="#ccc"/>'
        label = f"{quarter * mebibytes // 4} MiB"
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    for second in range(0, SECONDS + 1, 10):
        x = LEFT + second / SECONDS * WIDTH
        yield f'<text x="{x:.0f}" y="{top + HEIGHT + 16}" text-anchor="middle">{second} s</text>'
    systems = results["systems"]
    yield line(systems[0]["samples"], "live_pages", top, most, COLORS[0])
    for system, color in zip(systems, COLORS[1:]):
        yield line(system["samples"], "resident_pages", top, most, color)


def main():
    prairie = sys.argv[1] if len(sys.argv) > 1 else "target/release/prairie"
    print('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 660" font-family="sans-serif" '
          'font-size="12"><rect width="700" height="660" fill="white"/>')
    for at, (name, color) in enumerate(zip(["in spans", *STRATEGIES.split(",")], COLORS)):
        x, y = LEFT + at % 3 * 200, 24 + at // 3 * 18
        print(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{color}"/>')
        print(f'<text x="{x + 16}" y="{y}">{name}</text>')
    for at, (title, sizes, mebibytes) in enumerate(DEMANDS):
        results = run(prairie, sizes, mebibytes)
        print("\n".join(panel(title, results, mebibytes, 85 + at * 300)))
    print("</svg>")


if __name__ == "__main__":
    main()
