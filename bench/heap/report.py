#!/usr/bin/env python3
"""Makes tables of measurements: medians, the spread of the rounds, means over each row's best.

A line of RESULTS: row, allocator, and a number for each of --columns. Text goes to standard output;
with --json FILE, `-` for standard output, the table documents of results/README.md are written.
"""

import argparse
import json
import math
import statistics
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results")
    parser.add_argument("--name", required=True, help="name of the result, such as heap-micro")
    parser.add_argument("--columns", required=True, help="NAME:UNIT,... of the numbers; best is lowest")
    parser.add_argument("--means", default="", help="columns with a geometric mean over the best")
    parser.add_argument("--table-per-row", action="store_true", help="else one for each column")
    parser.add_argument("--command", default="", help="what produced the numbers")
    parser.add_argument("--started", type=float, default=0, help="its start, seconds since 1970")
    parser.add_argument("--note", action="append", default=[])
    parser.add_argument("--json", default="")
    return parser.parse_args()


def read(path, columns):
    """Rows and allocators in order of appearance, and the values of each cell."""
    rows, allocators, cells = {}, {}, {}
    for line in open(path, encoding="utf-8"):
        row, allocator, *values = line.split()
        rows[row] = allocators[allocator] = None
        for column, value in zip(columns, values, strict=True):
            cells.setdefault((row, allocator, column), []).append(float(value))
    return list(rows), list(allocators), cells


def cell(values, digits=3):
    """The median, and the spread of the rounds in per cent of it."""
    median = statistics.median(values)
    if not math.isfinite(median):
        return "failed"
    if len(values) == 1:
        return f"{median:.{digits}f}"
    spread = (max(values) - min(values)) / median * 100 if median else 0
    return f"{median:.{digits}f} ± {spread / 2:.0f} %"


def mean_over_best(rows, allocators, cells, column):
    """For each allocator the geometric mean of its median over the best median of the row."""
    sums = dict.fromkeys(allocators, 0.0)
    for row in rows:
        medians = {a: statistics.median(cells[row, a, column]) for a in allocators}
        finite = [m for m in medians.values() if math.isfinite(m)]
        for allocator, median in medians.items():
            sums[allocator] += math.log((median + 1e-9) / (min(finite) + 1e-9))
    return {a: math.exp(s / len(rows)) if math.isfinite(s) else math.nan for a, s in sums.items()}


def tables_of_columns(columns, means, rows, allocators, cells):
    """For each column a table of allocators by rows; and one of the means."""
    summary = {}
    for name, unit in columns:
        values = [statistics.median(v) for key, v in cells.items() if key[2] == name]
        digits = 0 if max(values) > 1000 else 3
        table = [[a] + [cell(cells[r, a, name], digits) for r in rows] for a in allocators]
        yield name, f"{name}, {unit}", ["allocator", *rows], table
        if name in means:
            summary[name] = mean_over_best(rows, allocators, cells, name)
    if summary:
        table = [[a] + [round(mean[a], 3) for mean in summary.values()] for a in allocators]
        yield "means", "geometric means over each row's best", ["allocator", *summary], table


def tables_of_rows(columns, rows, allocators, cells):
    """For each row a table of allocators by columns."""
    headings = ["allocator", *(f"{name}, {unit}" for name, unit in columns)]
    for row in rows:
        here = [a for a in allocators if all((row, a, name) in cells for name, _ in columns)]
        table = [[a] + [cell(cells[row, a, name], 2) for name, _ in columns] for a in here]
        yield row, row, headings, table


def main():
    options = arguments()
    columns = [text.partition(":")[::2] for text in options.columns.split(",")]
    names = [name for name, _ in columns]
    rows, allocators, cells = read(options.results, names)
    rounds = max(len(values) for values in cells.values())
    if not options.table_per_row:
        # An allocator that failed somewhere has too few values for a mean.
        allocators = [a for a in allocators if all((r, a, n) in cells for r in rows for n in names)]
    if options.table_per_row:
        tables = tables_of_rows(columns, rows, allocators, cells)
    else:
        tables = tables_of_columns(columns, options.means.split(","), rows, allocators, cells)
    text_to = sys.stderr if options.json == "-" else sys.stdout
    documents = []
    for part, title, headings, table in tables:
        print(f"== {title}: medians of {rounds} rounds ± half their range", file=text_to)
        for line in [headings, *table]:
            cells_of_line = (f"{value:<{18 if i else 14}} " for i, value in enumerate(line))
            print("".join(cells_of_line).rstrip(), file=text_to)
        documents.append({
            "name": f"{options.name}-{part.replace(' ', '-').lower()}",
            "columns": [{"name": heading} for heading in headings],
            "rows": table,
            "rounds": f"{rounds}, interleaved; medians ± half the range" if rounds > 1 else "1, interleaved",
            "notes": [title, *options.note],
            "command": options.command,
            "seconds": round(time.time() - options.started, 1) if options.started else 0,
        })
    text = json.dumps(documents, indent=1, ensure_ascii=False)
    if options.json == "-":
        print(text)
    elif options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
