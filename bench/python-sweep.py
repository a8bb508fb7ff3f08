#!/usr/bin/env python3
# CPU time that a sweep of a thousand simulations adds to the simulations.
"""Runs a scenario with many seeds in one sweep, and prints what the sweep itself costs.

Usage: python bench/python-sweep.py [RUNS] [processes|ray] [SCENARIO.toml]

The overhead is the CPU time of this process and its workers, less that of the simulations, as a share
of it: starting workers, passing arguments and rows, the journal, the table. Time on a Ray cluster is
elapsed time on all CPUs instead, because its workers are no children of this process.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import prairie

SHIPPED = Path(__file__).parents[1] / "data" / "small.toml"


def run(seed, scenario):
    cpu, elapsed = time.process_time(), time.perf_counter()
    simulation = prairie.simulate(scenario, ["linux"], seed=seed, progress=False)
    [faults] = simulation.allocators.column("counters_thp_fault_alloc")
    return {
        "huge_page_faults": faults,
        "cpu_s": time.process_time() - cpu,
        "elapsed_s": time.perf_counter() - elapsed,
    }


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    on = sys.argv[2] if len(sys.argv) > 2 else "processes"
    scenario = str(Path(sys.argv[3] if len(sys.argv) > 3 else SHIPPED).resolve())
    workers = os.cpu_count()
    if on == "ray":
        import ray

        ray.init(log_to_driver=False)
        workers = int(ray.cluster_resources()["CPU"])
    with tempfile.TemporaryDirectory() as folder:
        before, began = os.times(), time.perf_counter()
        grid = {"seed": range(runs), "scenario": [scenario]}
        table = prairie.sweep(run, grid, on=on, journal=Path(folder, "journal"))
        elapsed, after = time.perf_counter() - began, os.times()
    assert table.num_rows == runs
    if on == "ray":
        spent, own = elapsed * workers, sum(table.column("elapsed_s"))
    else:
        spent, own = sum(after[:4]) - sum(before[:4]), sum(table.column("cpu_s"))
    print(f"runs            {runs}")
    print(f"a run           {1e3 * own / runs:.1f} ms")
    print(f"the sweep adds  {1e6 * (spent - own) / runs:.0f} us a run, {(spent - own) / own:.1%}")


if __name__ == "__main__":
    main()
