"""Measures and reduces physical-memory fragmentation, from Python.

- `survey` shows how fragmented a Linux host is, and why;
- `Trace` reads a recording, `replay` runs it under other allocators, and `simulate` runs a workload
  model;
- `fleet` studies many servers, `heap_playback` plays a program's page-heap calls on page heaps;
- `Policy` is a placement policy in Python, replayed beside the built-in allocators;
- `sweep` runs any of these over a grid of arguments, in processes or on a Ray cluster.

Every result is a `Result`: its tables are Arrow tables that pandas, Polars and DuckDB read without
copying, and its `json` is what the command `prairie` prints with `--json`, bit for bit but for the
call in its provenance.
"""

from prairie._prairie import (
    ASK,
    Batches,
    Block,
    Core,
    FreeList,
    PolicyError,
    PrairieError,
    Region,
    Request,
    Requests,
    Table,
    __version__,
)
from prairie.calls import Trace, fleet, heap_playback, replay, simulate, survey
from prairie.policy import Policy, place
from prairie.results import Fleet, HeapPlayback, Replay, Result, Seeds, Simulation, Survey
from prairie.sweeps import SweepError, sweep

__all__ = [
    "ASK",
    "Batches",
    "Block",
    "Core",
    "Fleet",
    "FreeList",
    "HeapPlayback",
    "Policy",
    "PolicyError",
    "PrairieError",
    "Region",
    "Replay",
    "Request",
    "Requests",
    "Result",
    "Seeds",
    "Simulation",
    "Survey",
    "SweepError",
    "Table",
    "Trace",
    "__version__",
    "fleet",
    "heap_playback",
    "place",
    "replay",
    "simulate",
    "survey",
    "sweep",
]
