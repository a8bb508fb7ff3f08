#!/usr/bin/env python3
"""Compares the modeled translations of programs on two page heaps: the lines that
bench/heap/translations.sh has collected, as a table."""

import argparse
import json
import pathlib
import sys
import time

from ab import before_and_after, change

ARMS = ("legacy", "temeraire")

# Instructions per cycle of the paper's fleet before TEMERAIRE (section 5.2): the cycles of a program
# are its instructions over this number, on both page heaps.
FLEET_IPC = 0.797

COLUMNS = [
    "program",
    "accesses on huge pages, %",
    "dTLB load misses, per 1,000 instructions",
    "change of misses",
    "walk cycles of loads, % of cycles",
    "change of walk cycles",
    "dTLB misses, per 1,000 accesses",
]


def measures(run):
    """What the table shows of a run."""
    loads, stores = run["loads"], run["stores"]
    accesses = loads["translations"] + stores["translations"]
    cycles = run["instructions"] / FLEET_IPC
    return {
        "huge": 100 * run["to huge"] / accesses,
        "misses": 1000 * loads["walks"] / run["instructions"],
        "walking": 100 * loads["walk cycles"] / cycles,
        "of accesses": 1000 * (loads["walks"] + stores["walks"]) / accesses,
    }


def row(program, runs):
    def both(name, digits=2):
        return before_and_after(runs, lambda run: run[name], digits)

    return [program, both("huge", 1), both("misses"), change(runs, "misses"), both("walking"),
            change(runs, "walking"), both("of accesses")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs")
    parser.add_argument("--json", default="")
    parser.add_argument("--command", default="")
    parser.add_argument("--started", type=float, default=time.time())
    parser.add_argument("--note", action="append", default=[])
    options = parser.parse_args()
    every = [json.loads(line) for line in open(options.runs, encoding="utf-8")]
    programs = list(dict.fromkeys(run["program"] for run in every))

    def of(program, heap):
        return [measures(run) for run in every
                if run["program"] == program and run["page heap"] == heap]

    rows = [row(program, [of(program, heap) for heap in ARMS]) for program in programs]
    windows = [run["windows"] for run in every]
    document = {
        "name": "temeraire-ab-model",
        "columns": [{"name": column} for column in COLUMNS],
        "rows": rows,
        "rounds": f"{len(of(programs[0], ARMS[0]))}, interleaved; means",
        "notes": [
            *options.note,
            "from legacy to temeraire; ± is half of the 95 % interval of the pairs",
            f"a model: accesses recorded under QEMU in {min(windows)} to {max(windows)} windows a run;"
            " TLBs and walk costs of a Skylake server core",
            f"walk cycles are a share of instructions / {FLEET_IPC}, the instructions per cycle of"
            " the paper's fleet",
        ],
        "command": options.command,
        "seconds": round(time.time() - options.started, 1),
    }
    for line in [COLUMNS, *rows]:
        print("  ".join(f"{cell:<20}" for cell in line).rstrip(), file=sys.stderr)
    text = json.dumps([document], indent=1, ensure_ascii=False)
    if options.json == "-":
        print(text)
    elif options.json:
        pathlib.Path(options.json).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
