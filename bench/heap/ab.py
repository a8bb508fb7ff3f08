#!/usr/bin/env python3
"""Measures one run of a program in an arm of an experiment, and compares the runs of two arms.

An arm is a page heap, or a setting of one. A run is a line of JSON: program, arm, and what was
measured; what could not be is left out.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

# What the paper counts, by perf's names. Cycles of page walks have a name for each make of CPU.
COUNTERS = {
    "dTLB loads": ["dTLB-loads"],
    "dTLB misses": ["dTLB-load-misses"],
    "walk cycles": ["dtlb_load_misses.walk_active", "dtlb_load_misses.walk_duration", "dtlb_walk"],
    "instructions": ["instructions"],
    "cycles": ["cycles"],
}
POLL = 0.05  # seconds between two looks at the memory (chosen)
# 97.5 % quantiles of Student's t, by degrees of freedom from 1.
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179,
           2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086]


def readable_counters():
    """The events that perf counts on this machine, by the name in COUNTERS."""
    found = {}
    for name, events in COUNTERS.items():
        for event in events:
            values = count([event], ["true"])
            if values.get(event):
                found[name] = event
                break
    return found


def count(events, command):
    """Runs a command under `perf stat`; the events that it could count."""
    with tempfile.NamedTemporaryFile("r") as file:
        perf = ["perf", "stat", "-x,", "-o", file.name, "-e", ",".join(events), "--"]
        try:
            subprocess.run(perf + command, check=True, stderr=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError):
            return {}
        lines = (line.split(",") for line in file.read().splitlines() if line.count(",") > 2)
        return {line[2]: float(line[0]) for line in lines if line[0].replace(".", "").isdigit()}


def share_in_heap(command, library):
    """The share of CPU time in the library, in per cent, by sampling."""
    with tempfile.NamedTemporaryFile() as file:
        perf = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "999", "-o", file.name, "--"]
        try:
            subprocess.run(perf + command, check=True)
        except FileNotFoundError:
            subprocess.run(command, check=True)
            return None
        report = ["perf", "report", "--stdio", "-q", "--sort", "dso", "-i", file.name]
        text = subprocess.run(report, check=True, capture_output=True, text=True).stdout
    shares = (line.split() for line in text.splitlines() if os.path.basename(library) in line)
    return sum(float(words[0].rstrip("%")) for words in shares)


class Memory(threading.Thread):
    """Follows the largest process of the session that uses the library."""

    def __init__(self, session, library):
        super().__init__(daemon=True)
        self.session, self.library = session, library
        self.anonymous = self.huge = self.looks = 0
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(POLL):
            self.look()

    def look(self):
        sizes = [size for pid in self.members() if (size := self.sizes(pid))]
        if sizes:
            anonymous, huge = max(sizes)
            self.anonymous += anonymous
            self.huge += huge
            self.looks += 1

    def members(self):
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            if int(stat[stat.rindex(")") + 1:].split()[3]) == self.session:
                yield folder

    def sizes(self, folder):
        """Anonymous bytes, and those on huge pages."""
        try:
            if self.library not in (folder / "maps").read_text():
                return None
            lines = (folder / "smaps_rollup").read_text().splitlines()[1:]
        except OSError:
            return None
        values = {line.split()[0]: int(line.split()[1]) for line in lines}
        return values["Anonymous:"], values["AnonHugePages:"]


def measure(options):
    """Runs the command once and appends a line to the runs."""
    program, arm = options.label.split()
    run = {"program": program, "arm": arm}
    preloaded = ["env", f"LD_PRELOAD={options.library}", *options.command]
    if options.profile:
        run["in the heap"] = share_in_heap(preloaded, options.library)
    else:
        run |= take(preloaded, options.library)
    with open(options.out, "a", encoding="utf-8") as file:
        file.write(json.dumps(run) + "\n")


def take(command, library):
    """CPU time, wall time, memory, faults, and counters of one run."""
    counters = readable_counters()
    with tempfile.NamedTemporaryFile("r") as file:
        if counters:
            perf = ["perf", "stat", "-x,", "-o", file.name, "-e", ",".join(counters.values()), "--"]
            command = perf + command
        start = time.monotonic()
        child = subprocess.Popen(command, start_new_session=True)
        memory = Memory(child.pid, library)
        memory.start()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - start
        memory.ended.set()
        memory.join()
        if status:
            sys.exit(f"{command}: status {status}: expected a program that succeeds")
        lines = [line.split(",") for line in file.read().splitlines() if line.count(",") > 2]
    counted = {line[2]: float(line[0]) for line in lines if line[0].isdigit()}
    run = {
        "CPU": usage.ru_utime + usage.ru_stime,
        "wall": wall,
        "peak": usage.ru_maxrss / 1024,
        "faults": usage.ru_minflt + usage.ru_majflt,
    }
    if memory.anonymous:
        run["coverage"] = 100 * memory.huge / memory.anonymous
        run["memory"] = memory.anonymous / memory.looks / 1024
    run |= {name: counted[event] for name, event in counters.items() if event in counted}
    return run


def change(runs, name):
    """The change of the mean in per cent of the base's, and half of its 95 % interval.

    `runs` are those of the base and of the other arm. The runs of a round are a pair, so that what
    disturbs both does not count. A run that lacks the number takes its pair along.
    """
    pairs = [pair for pair in zip(*runs, strict=True) if all(name in run for run in pair)]
    if not pairs:
        return "-"
    base = statistics.mean(old[name] for old, _ in pairs)
    changes = [100 * (new[name] - old[name]) / base for old, new in pairs]
    text = f"{statistics.mean(changes):+.1f} %"
    if len(changes) > 1:
        quantile = STUDENT[min(len(changes) - 1, len(STUDENT)) - 1]
        text += f" ± {quantile * statistics.stdev(changes) / len(changes) ** 0.5:.1f}"
    return text


def mean(runs, name, digits):
    values = [run[name] for run in runs if name in run]
    return f"{statistics.mean(values):.{digits}f}" if values else "-"


def before_and_after(runs, value, digits=1):
    """Means in both arms of a number that a run may lack."""
    means = []
    for arm in runs:
        values = [it for it in map(value, arm) if it is not None]
        means.append(f"{statistics.mean(values):.{digits}f}" if values else "-")
    return "-" if means == ["-", "-"] else " → ".join(means)


def ratio(over, under, scale=1):
    return lambda run: scale * run[over] / run[under] if over in run and run.get(under) else None


def cost_row(program, runs, _):
    base, _ = runs
    return [program, mean(base, "CPU", 2), change(runs, "CPU"), change(runs, "wall"),
            mean(base, "memory", 0), change(runs, "memory"), mean(base, "peak", 0),
            change(runs, "peak"), change(runs, "faults")]


def translation_row(program, runs, profiled):
    return [program, before_and_after(runs, lambda run: run.get("coverage")),
            before_and_after(profiled, lambda run: run.get("in the heap")),
            before_and_after(runs, ratio("dTLB misses", "dTLB loads", 100), 2),
            before_and_after(runs, ratio("dTLB misses", "instructions", 1000), 2),
            before_and_after(runs, ratio("walk cycles", "cycles", 100), 2),
            before_and_after(runs, ratio("instructions", "cycles"), 2)]


TABLES = {
    "cost": (cost_row, ["program", "CPU BASE, s", "change of CPU", "change of wall time",
                        "mean memory BASE, MiB", "change of mean memory", "peak BASE, MiB",
                        "change of peak", "change of page faults"]),
    "translation": (translation_row, ["program", "on huge pages, %", "time in the heap, %",
                                      "dTLB misses, % of loads",
                                      "dTLB misses, per 1,000 instructions", "walk cycles, %",
                                      "instructions per cycle"]),
}


def report(options):
    """Both tables, as text and as the documents of results/README.md."""
    every = [json.loads(line) for line in open(options.runs, encoding="utf-8")]
    programs = list(dict.fromkeys(run["program"] for run in every))
    arms = options.arms.split(",")
    # What stands for the base in a heading: `on legacy`, `without release`.
    base = options.base or f"on {arms[0]}"

    def of(program, profiled):
        return [[run for run in every if run["program"] == program and run["arm"] == arm
                 and ("CPU" not in run) == profiled] for arm in arms]

    missing = [name for name in COUNTERS if not any(name in run for run in every)]
    notes = [*options.note, f"from {arms[0]} to {arms[1]}; ± is half of the 95 % interval of the"
             " pairs"]
    if missing:
        notes.append(f"this machine does not count {', '.join(missing)}")
    rounds = max(len(of(program, False)[0]) for program in programs)
    documents = []
    for name, (row, columns) in TABLES.items():
        columns = [column.replace("BASE", base) for column in columns]
        rows = [row(program, of(program, False), of(program, True)) for program in programs]
        documents.append({
            "name": f"{options.name}-{name}",
            "columns": [{"name": column} for column in columns],
            "rows": rows,
            "rounds": f"{rounds}, interleaved; means",
            "notes": notes,
            "command": options.command_line,
            "seconds": round(time.time() - options.started, 1),
        })
        for line in [columns, *rows]:
            print("  ".join(f"{cell:<20}" for cell in line).rstrip(), file=sys.stderr)
        print("; ".join(notes), file=sys.stderr)
    text = json.dumps(documents, indent=1, ensure_ascii=False)
    if options.json == "-":
        print(text)
    elif options.json:
        pathlib.Path(options.json).write_text(text + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("measure", help="run a program once")
    one.add_argument("--library", required=True)
    one.add_argument("--label", required=True, help="program and arm")
    one.add_argument("--out", required=True)
    one.add_argument("--profile", action="store_true", help="sample where its time goes, no more")
    one.add_argument("command", nargs="+")
    one.set_defaults(act=measure)
    both = commands.add_parser("report", help="compare the runs")
    both.add_argument("runs")
    both.add_argument("--arms", default="legacy,temeraire", help="the base and the other one")
    both.add_argument("--base", default="", help="what stands for the base in headings")
    both.add_argument("--name", default="temeraire-ab", help="what the names of tables begin with")
    both.add_argument("--json", default="")
    both.add_argument("--command", dest="command_line", default="")
    both.add_argument("--started", type=float, default=time.time())
    both.add_argument("--note", action="append", default=[])
    both.set_defaults(act=report)
    options = parser.parse_args()
    options.act(options)


if __name__ == "__main__":
    main()
