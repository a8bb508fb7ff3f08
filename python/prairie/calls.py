"""The functions of the module: the command's work, with its arguments as Python has them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Union, overload

from prairie import _prairie
from prairie._prairie import Answer, PrairieError, Table
from prairie.policy import Policy, written
from prairie.results import Fleet, HeapPlayback, Replay, Seeds, Simulation, Survey, called_as

PathLike = Union[str, "os.PathLike[str]"]
#: What is being done, how much is done, and how much there is, if that is known.
Progress = Callable[[str, int, Union[int, None]], None]
#: An allocator by name, with options, as `linux+no-boost`; a policy in Python; or the path of a
#: shared library with a policy, which ends in `.so`.
Allocator = Union[str, Policy, type[Policy], "os.PathLike[str]"]


def survey(
    path: PathLike | None = None,
    *,
    proc: PathLike | None = None,
    cell: str | None = None,
    threads: int | None = None,
    progress: Progress | bool = True,
) -> Survey:
    """Surveys this host, or a saved survey, or the machine at the start of a recording.

    `path` is a file of `prairie survey --save` or of `prairie record`; without it the live host is
    read, of which the frames need root. `proc` is another /proc tree. `cell` is the memory of a
    cell of the map, as "2M".

    Raises PrairieError if the file or the host cannot be read, KeyboardInterrupt if interrupted.
    """
    words = ["survey", *_option("--from", path), *_option("--proc", proc)]
    words += [*_option("--cell", cell), *_option("--threads", threads)]
    call = called_as("survey", {"path": _text(path), "proc": _text(proc), "cell": cell})
    return Survey(_ask(words, call, progress))


class Trace:
    """A recording of a machine's page allocator.

    Iterating over `batches` reads the events as tables of up to some 65,000 rows. The trace itself is a
    stream of Arrow's interface: `polars.from_arrow(trace)` or `pyarrow.RecordBatchReader.from_stream`
    reads all events, one batch in memory at a time.

    Columns: `time_ns`, `event`, `cpu`, `pid`, `pfn`, `order`, `migrate_type`, `gfp_flags`, `stack`,
    `fallback_order`, `fallback_type`, `change_ownership`, `count`, `task`, `value`, `text`; null where
    an event has none. The page "The trace format" of the book describes them.

    Raises PrairieError if the file is no trace, is damaged, or has a newer version.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self._file = _prairie.TraceFile(self.path)

    @property
    def events(self) -> int:
        """Number of events."""
        return self._file.events

    @property
    def lost_events(self) -> int:
        """Events that were lost while recording."""
        return self._file.lost_events

    @property
    def duration_ns(self) -> int | None:
        """Nanoseconds that were recorded; None for an import."""
        return self._file.duration_ns

    @property
    def kernel_release(self) -> str:
        """`uname -r` of the recorded machine; empty where it is not known."""
        return self._file.kernel_release

    @property
    def file_bytes(self) -> int:
        """Size of the file."""
        return self._file.file_bytes

    def batches(self) -> Iterator[Table]:
        """The events in the order of the file, a table at a time."""
        return self._file.batches()

    @property
    def snapshot(self) -> Survey:
        """The survey of the machine when the recording began.

        Raises PrairieError if the trace has no snapshot.
        """
        if not self._file.has_snapshot:
            raise PrairieError(f"{self.path}: no snapshot of the machine, expected a recording")
        return survey(self.path, progress=False)

    def __arrow_c_schema__(self) -> object:
        return self._file.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._file.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        kernel = f", Linux {self.kernel_release}" if self.kernel_release else ""
        return f"<Trace {self.path}: {self.events} events{kernel}>"


def replay(
    trace: PathLike | Trace,
    allocators: Iterable[Allocator] = ("buddy", "linux", "contiguitas"),
    *,
    initial: Literal["as-found", "replaced"] = "as-found",
    every: str | None = None,
    kernelcore: str | None = None,
    memory: str | None = None,
    compact: bool = False,
    reclaim: bool = False,
    progress: Progress | bool = True,
) -> Replay:
    """Replays a trace under several allocators in one pass.

    `allocators` are names with options, such as "linux" or "contiguitas+no-bias", policies (instances
    or classes of `Policy`), and paths of shared libraries. `initial` says where memory in use at the
    start is put: in the recorded frames, or re-placed by each allocator. `every` is the time between
    samples, as "100ms"; `memory` the machine's, as "64G", for traces without a snapshot; `compact`
    adds Linux's compaction under "linux" and "linux-defrag"; `reclaim` reclaims memory when an
    allocator needs it, and compacts.

    Raises PrairieError in the command's words, PolicyError for a policy that raises or violates the
    core's rules, KeyboardInterrupt if interrupted.
    """
    path = trace.path if isinstance(trace, Trace) else Path(trace)
    names, libraries, policies = _allocators(allocators)
    systems = ",".join(names) or "none"
    words = ["replay", os.fspath(path), "--systems", systems, "--initial", initial]
    words += [*_option("--every", every), *_option("--kernelcore", kernelcore)]
    words += _option("--memory", memory)
    if compact:
        words.append("--compact")
    if reclaim:
        words.append("--reclaim")
    for library in libraries:
        words += ["--policy", library]
    shown = [*names, *libraries, *(policy.name for policy in policies)]
    call = called_as("replay", {"trace": str(path), "allocators": shown, "initial": initial})
    return Replay(_ask(words, call, progress, policies))


@overload
def simulate(
    scenario: PathLike,
    allocators: Iterable[str] = ...,
    *,
    seed: int | None = ...,
    seeds: None = ...,
    progress: Progress | bool = ...,
) -> Simulation: ...


@overload
def simulate(
    scenario: PathLike,
    allocators: Iterable[str] = ...,
    *,
    seed: int | None = ...,
    seeds: int,
    progress: Progress | bool = ...,
) -> Seeds: ...


def simulate(
    scenario: PathLike,
    allocators: Iterable[str] = ("buddy", "linux", "contiguitas"),
    *,
    seed: int | None = None,
    seeds: int | None = None,
    progress: Progress | bool = True,
) -> Simulation | Seeds:
    """Runs a workload model under several allocators, as `prairie lab run` does.

    `scenario` is a TOML file. `seed` replaces the scenario's. With `seeds`, 2 or more, the model runs
    with that number of seeds, counted from `seed`, and the result has mean and interval of each row.

    Raises PrairieError in the command's words, KeyboardInterrupt if interrupted.
    """
    names = ",".join(allocators)
    words = ["lab", "run", os.fspath(scenario), "--systems", names, *_option("--seed", seed)]
    given = {"scenario": _text(scenario), "allocators": names, "seed": seed}
    if seeds is None:
        return Simulation(_ask(words, called_as("simulate", given), progress))
    call = called_as("simulate", {**given, "seeds": seeds})
    return Seeds(_ask([*words, "--seeds", _several("simulate", seeds)], call, progress))


@overload
def fleet(
    folder: PathLike | None = ...,
    *,
    servers: int | None = ...,
    allocators: Iterable[str] | None = ...,
    workloads: Iterable[str] | None = ...,
    memory: str | None = ...,
    days: float | None = ...,
    pins: float | None = ...,
    seed: int | None = ...,
    seeds: None = ...,
    threads: int | None = ...,
    by: Iterable[str] | None = ...,
    rank: str | None = ...,
    progress: Progress | bool = ...,
) -> Fleet: ...


@overload
def fleet(
    folder: PathLike | None = ...,
    *,
    servers: int,
    allocators: Iterable[str] | None = ...,
    workloads: Iterable[str] | None = ...,
    memory: str | None = ...,
    days: float | None = ...,
    pins: float | None = ...,
    seed: int | None = ...,
    seeds: int,
    threads: int | None = ...,
    by: Iterable[str] | None = ...,
    rank: str | None = ...,
    progress: Progress | bool = ...,
) -> Seeds: ...


def fleet(
    folder: PathLike | None = None,
    *,
    servers: int | None = None,
    allocators: Iterable[str] | None = None,
    workloads: Iterable[str] | None = None,
    memory: str | None = None,
    days: float | None = None,
    pins: float | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    threads: int | None = None,
    by: Iterable[str] | None = None,
    rank: str | None = None,
    progress: Progress | bool = True,
) -> Fleet | Seeds:
    """Studies many servers, surveyed or simulated.

    With a `folder` alone it reports on the folder's files: parts of `prairie fleet run`, saved
    surveys, or both, or rows of `prairie survey --summary`, which `by` groups by labels and of which
    `rank` names the worst. With `servers` it simulates them first, into `folder` if one is given.
    `memory` is that of a server, as "16G"; `days` the longest uptime; `pins` the pinned memory in
    percent. With `seeds`, 2 or more, that number of studies is simulated, with seeds counted from
    `seed` and each in a folder of its own, and the result has mean and interval of each row.

    Raises PrairieError in the command's words, KeyboardInterrupt if interrupted.
    """
    options = {"--servers": servers, "--memory": memory, "--days": days, "--pins": pins}
    options |= {"--seed": seed, "--seeds": seeds, "--threads": threads}
    options["--systems"] = None if allocators is None else ",".join(allocators)
    options["--workloads"] = None if workloads is None else ",".join(workloads)
    given = {name[2:]: value for name, value in options.items() if value is not None}
    report = {"--by": None if by is None else ",".join(by), "--rank": rank}
    grouped = {name[2:]: value for name, value in report.items() if value is not None}
    call = called_as("fleet", {"folder": _text(folder), **given, **grouped})
    if servers is None:
        if given or folder is None:
            raise PrairieError("fleet: expected a folder to report on, or servers to simulate")
        words = ["fleet", "report", os.fspath(folder)]
        words += [word for name in report for word in _option(name, report[name])]
        return Fleet(_ask(words, call, progress))
    if grouped:
        raise PrairieError("fleet: by and rank are for rows of hosts, expected none with servers")
    result = Fleet if seeds is None else Seeds
    if seeds is not None:
        _several("fleet", seeds)
    words = ["fleet", "run", *(word for name in options for word in _option(name, options[name]))]
    if folder is not None:
        return result(_ask([*words, "--out", os.fspath(folder)], call, progress))
    with tempfile.TemporaryDirectory(prefix="prairie-") as own:
        return result(_ask([*words, "--out", own], call, progress))


def heap_playback(
    trace: PathLike,
    page_heaps: Iterable[str] = ("legacy", "temeraire"),
    *,
    release: str = "recorded",
    progress: Progress | bool = True,
) -> HeapPlayback:
    """Plays a program's page-heap calls back on several page heaps, without memory behind them.

    `release` is the memory released per second, as "10M", or "off", or "recorded".

    Raises PrairieError in the command's words, KeyboardInterrupt if interrupted.
    """
    names = ",".join(page_heaps)
    words = ["heap", "playback", os.fspath(trace), "--page-heap", names, "--release", release]
    call = called_as("heap_playback", {"trace": _text(trace), "page_heaps": names})
    return HeapPlayback(_ask(words, call, progress))


def _ask(
    words: list[str],
    call: str,
    progress: Progress | bool,
    policies: Iterable[Any] = (),
) -> Answer:
    shown = _shown() if progress is True else (progress or None)
    try:
        return _prairie.ask(["prairie", *words], call, list(policies), shown)
    finally:
        if isinstance(shown, _Bar):
            shown.close()


def _option(name: str, value: object) -> list[str]:
    return [] if value is None else [name, _text(value) or ""]


def _text(value: object) -> str | None:
    if value is None:
        return None
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _allocators(allocators: Iterable[Allocator]) -> tuple[list[str], list[str], list[Any]]:
    """Names, libraries, and policies."""
    names: list[str] = []
    libraries: list[str] = []
    policies: list[Any] = []
    if isinstance(allocators, (str, Policy, type)):
        allocators = [allocators]
    for allocator in allocators:
        if isinstance(allocator, type) and issubclass(allocator, Policy):
            policies.append(written(allocator()))
        elif isinstance(allocator, Policy):
            policies.append(written(allocator))
        elif isinstance(allocator, os.PathLike) or str(allocator).endswith(".so"):
            libraries.append(os.fspath(allocator))
        elif isinstance(allocator, str):
            names.append(allocator)
        else:
            raise PrairieError(f"{allocator!r}: expected a name, a Policy, or the path of a library")
    return names, libraries, policies


class _Bar:
    """Progress in a notebook or a terminal."""

    def __init__(self, notebook: Any) -> None:
        self.notebook = notebook
        self.handle: Any = None
        self.drawn = False

    def __call__(self, what: str, done: int, total: int | None) -> None:
        text = f"{what}: {done:,}" + (f" of {total:,}" if total else "")
        if self.notebook is None:
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
        elif self.handle is None:
            self.handle = self.notebook({"text/plain": text}, raw=True, display_id=True)
        else:
            self.handle.update({"text/plain": text}, raw=True)
        self.drawn = True

    def close(self) -> None:
        if self.drawn and self.notebook is None:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        elif self.handle is not None:
            self.handle.update({"text/plain": ""}, raw=True)


def _shown() -> _Bar | None:
    """A bar where one can be seen: in a notebook, or on a terminal."""
    shell = sys.modules.get("IPython")
    if shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None:
        from IPython.display import display

        return _Bar(display)
    return _Bar(None) if sys.stderr.isatty() else None


def _several(function: str, seeds: int) -> str:
    """The argument of --seeds. One seed has no spread, and another document."""
    if seeds < 2:
        raise PrairieError(f"{function}: seeds is {seeds}, expected 2 or more")
    return str(seeds)
