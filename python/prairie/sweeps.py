"""Sweeps: one function over a grid of arguments, in processes or on a Ray cluster."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union

from prairie import _prairie, tables
from prairie._prairie import PrairieError, Table

Arguments = dict[str, Any]
Grid = Union[Mapping[str, Iterable[Any]], Iterable[Mapping[str, Any]]]
Rows = list[dict[str, Any]]
#: Yields the number of each run as it ends, and its rows.
Runner = Callable[[Callable[..., Any], "dict[int, Arguments]"], Iterator["tuple[int, Rows]"]]

#: How often runs may be lost to workers that die before a sweep gives up.
MAX_DEATHS = 5


#: How long a task of a cluster shall last at least, so that starting it costs little beside it.
TASK_SECONDS = 0.5

#: Runs of a task at most; those of a worker that dies run again.
MAX_BATCH = 64


class SweepError(PrairieError):
    """A run that raised, or a journal of another sweep."""


def sweep(
    function: Callable[..., Any],
    grid: Grid,
    *,
    on: Literal["processes", "ray"] = "processes",
    journal: str | os.PathLike[str] | None = None,
    workers: int | None = None,
) -> Table:
    """Calls `function` with every combination of a grid's arguments and returns one table.

    `grid` is a mapping of names to values, all of whose combinations run, or a list of mappings. The
    function returns a mapping of plain values (one row), a list of mappings, or a `Table`. Each row also
    has the arguments of its run. Rows are in the order of the grid.

    `on` is "processes" of this machine, `workers` of them, or the "ray" cluster that is connected; a
    run whose worker dies runs again. With a `journal`, a file, the rows of each run are kept as it
    ends, and a sweep that was killed goes on where it was.

    Raises SweepError if a run raises, naming its arguments, or if the journal is of another sweep.
    """
    runs = dict(enumerate(combinations(grid)))
    found: dict[int, Rows] = {}
    kept = Journal(Path(journal), function) if journal is not None else None
    if kept is not None:
        done = kept.read()
        found = {n: done[key] for n, given in runs.items() if (key := key_of(given)) in done}
    missing = {number: given for number, given in runs.items() if number not in found}
    runner = {"processes": in_processes(workers), "ray": on_ray}[on]
    for number, rows in runner(function, missing):
        found[number] = rows
        if kept is not None:
            kept.add(runs[number], rows)
    merged = [{**runs[number], **row} for number in runs for row in found[number]]
    call = f"prairie.sweep({name_of(function)})"
    return tables.table(merged, {"prairie.provenance": _prairie.provenance(call)})


def combinations(grid: Grid) -> list[Arguments]:
    """The arguments of each run."""
    if not isinstance(grid, Mapping):
        return [dict(given) for given in grid]
    values = [list(each) for each in grid.values()]
    return [dict(zip(grid, chosen)) for chosen in itertools.product(*values)]


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def key_of(arguments: Arguments) -> str:
    """Arguments as a text that is the same in another process."""
    return json.dumps(arguments, sort_keys=True, default=str)


def rows_of(result: Any) -> Rows:
    """The rows that a run returned."""
    if isinstance(result, Table):
        columns = {name: result.column(name) for name in result.column_names}
        return [dict(zip(columns, row)) for row in zip(*columns.values())]
    if isinstance(result, Mapping):
        return [dict(result)]
    if isinstance(result, list) and all(isinstance(row, Mapping) for row in result):
        return [dict(row) for row in result]
    kind = type(result).__name__
    raise TypeError(f"returned a value of type {kind}, expected a mapping, a list of them, or a Table")


def call(function: Callable[..., Any], arguments: Arguments) -> Rows:
    """One run, in a worker."""
    return rows_of(function(**arguments))


class Batch(NamedTuple):
    """Runs that one task of a cluster did, one after another."""

    rows: list[Rows]
    #: The type and the text of the exception that ended it.
    error: tuple[str, str] | None
    seconds: float


def call_batch(function: Callable[..., Any], batch: list[Arguments]) -> Batch:
    """Some runs, in a worker, up to the first that raises."""
    began = time.perf_counter()
    rows: list[Rows] = []
    error = None
    for given in batch:
        try:
            rows.append(call(function, given))
        except Exception as raised:
            error = (type(raised).__name__, str(raised))
            break
    return Batch(rows, error, time.perf_counter() - began)


#: The functions of the sweeps under way, by number: forked processes find them here, so that local
#: functions and those of a notebook need not be pickled.
FUNCTIONS: dict[int, Callable[..., Any]] = {}


def call_forked(sweep: int, arguments: Arguments) -> Rows:
    """One run, in a process that was forked after its function was put into FUNCTIONS."""
    return call(FUNCTIONS[sweep], arguments)


class Journal:
    """The runs that have ended, a line of JSON each, after a line that names the sweep."""

    def __init__(self, path: Path, function: Callable[..., Any]) -> None:
        self.path = path
        self.header = {"prairie_sweep": 1, "function": name_of(function)}

    def read(self) -> dict[str, Rows]:
        """The rows of each run by its key. A line that a kill cut off is removed."""
        if not self.path.exists():
            self.path.write_text(json.dumps(self.header) + "\n", encoding="utf-8")
            return {}
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.truncate(self.path, len(whole))
        header, *lines = whole.splitlines() or [b"null"]
        try:
            if json.loads(header) != self.header:
                raise SweepError(
                    f"{self.path}: journal of another sweep, expected one of "
                    f"{self.header['function']}"
                )
            entries = [json.loads(line) for line in lines]
            return {key_of(entry["arguments"]): entry["rows"] for entry in entries}
        except (ValueError, KeyError, TypeError) as error:
            raise SweepError(f"{self.path}: not a journal of a sweep: {error}") from error

    def add(self, arguments: Arguments, rows: Rows) -> None:
        """Keeps a run: one write, so that a kill leaves at most one line cut off."""
        line = json.dumps({"arguments": arguments, "rows": rows}, default=str) + "\n"
        with open(self.path, "ab", buffering=0) as file:
            file.write(line.encode())


def in_processes(workers: int | None) -> Runner:
    """Runs in processes of this machine."""

    def run(
        function: Callable[..., Any], missing: dict[int, Arguments]
    ) -> Iterator[tuple[int, Rows]]:
        left = dict(missing)
        deaths = 0
        sweep = max(FUNCTIONS, default=0) + 1
        FUNCTIONS[sweep] = function
        context = multiprocessing.get_context("fork")
        try:
            while left:
                pool = ProcessPoolExecutor(workers or os.cpu_count(), mp_context=context)
                try:
                    for number, rows in ended(pool, sweep, left):
                        del left[number]
                        yield number, rows
                except BrokenProcessPool as error:
                    deaths += 1
                    if deaths > MAX_DEATHS:
                        raise SweepError(f"workers died {deaths} times: {error}") from error
                finally:
                    pool.shutdown(wait=True, cancel_futures=True)
        finally:
            del FUNCTIONS[sweep]

    return run


def ended(
    pool: ProcessPoolExecutor, sweep: int, left: dict[int, Arguments]
) -> Iterator[tuple[int, Rows]]:
    """The runs of a pool as they end."""
    running: dict[Future[Rows], int] = {
        pool.submit(call_forked, sweep, given): number for number, given in left.items()
    }
    arguments = dict(left)
    # One pass over all of them: waiting for the first again and again would cost a pass for each.
    for future in as_completed(running):
        number = running.pop(future)
        try:
            rows = future.result()
        except BrokenProcessPool:
            raise
        except Exception as error:
            raise failed(arguments[number], type(error).__name__, str(error)) from error
        yield number, rows


def on_ray(
    function: Callable[..., Any], missing: dict[int, Arguments]
) -> Iterator[tuple[int, Rows]]:
    """Runs on the Ray cluster that is connected, or on this machine if none is."""
    try:
        import ray
    except ImportError as error:
        raise SweepError('on="ray": no module ray, expected `pip install prairie[fleet]`') from error
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    remote = ray.remote(max_retries=-1)(call_batch)
    cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
    # Enough tasks to keep every CPU busy, and few enough for the scheduler.
    window = 4 * cpus
    waiting = list(reversed(missing.items()))
    running: dict[Any, list[tuple[int, Arguments]]] = {}
    seconds, runs = 0.0, 0
    while waiting or running:
        while waiting and len(running) < window:
            # Short runs share a task, but the last ones are spread over all CPUs.
            size = int(TASK_SECONDS * runs / seconds) if seconds > 0 else 1
            size = max(1, min(size, MAX_BATCH, len(waiting) // (2 * cpus)))
            batch = [waiting.pop() for _ in range(size)]
            running[remote.remote(function, [given for _, given in batch])] = batch
        (done,), _ = ray.wait(list(running), num_returns=1)
        batch = running.pop(done)
        try:
            rows, fault, spent = ray.get(done)
        except ray.exceptions.RayTaskError as raised:
            # The task itself failed, as where the function's module is missing on a node.
            cause = raised.cause or raised
            raise failed(batch[0][1], type(cause).__name__, str(cause)) from raised
        seconds, runs = seconds + spent, runs + len(rows)
        for (number, _), found in zip(batch, rows):
            yield number, found
        if fault is not None:
            raise failed(batch[len(rows)][1], *fault)


def failed(arguments: Arguments, kind: str, text: str) -> SweepError:
    """What a run that raised is reported as."""
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return SweepError(f"run with {given}: {kind}: {' '.join(text.split())}")
