"""Results equal the command's, bit for bit, and other libraries read their tables."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import ROOT, command, results, same

import prairie

#: A shell starts what runs in the background with interrupts ignored, and programs inherit that.
HEED_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


def printed(*words: object) -> str:
    """What the command prints with --json."""
    done = command(*words, "--json")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_survey_equals_the_command(recording: Path) -> None:
    survey = prairie.survey(recording)
    assert same(survey.json) == same(printed("survey", "--from", recording))
    assert prairie.Trace(recording).snapshot.json == survey.json
    assert survey.zones.num_rows == len(survey.document["zones"])
    shown = survey._repr_html_()
    assert "<img" in shown and "image/svg+xml" in shown and "<table>" in shown
    assert all(map.startswith("<svg") for map in survey.maps() + survey.maps("dark"))
    assert survey.zones.metadata["prairie.kernel_release"] == survey.document["kernel_release"]


def test_a_live_survey(tmp_path: Path) -> None:
    """The host changes between two surveys; a copy of its texts does not."""
    proc = tmp_path / "proc"
    proc.mkdir()
    for name in ("buddyinfo", "zoneinfo", "meminfo", "vmstat", "uptime"):
        (proc / name).write_bytes(Path("/proc", name).read_bytes())
    survey = prairie.survey(proc=proc)
    document = json.loads(printed("survey", "--proc", proc))
    for changing in ("taken_at_unix_ns", "provenance"):
        document.pop(changing), survey.document.pop(changing)
    assert survey.document == document
    assert prairie.survey().zones.num_rows > 0


def test_a_replay_equals_the_command(recording: Path) -> None:
    allocators = ["buddy", "linux+no-boost", "contiguitas"]
    for initial in ("as-found", "replaced"):
        replay = prairie.replay(recording, allocators, initial=initial)  # type: ignore[arg-type]
        words = ("replay", recording, "--systems", ",".join(allocators), "--initial", initial)
        assert same(replay.json) == same(printed(*words))
    rows = [sample for system in replay.document["systems"] for sample in system["samples"]]
    assert replay.samples.num_rows == len(rows)
    for name in ("time_ns", "free_frames", "unusable_2_mib", "polluted_blocks"):
        column = replay.samples.column(name)
        assert column == [row[name] for row in rows], name
        assert type(column[0]) is type(rows[0][name])
    assert replay.samples.column_metadata("time_ns")["unit"] == "ns"
    assert replay.samples.column_metadata("free_frames")["unit"] == "frames of 4 KiB"
    assert replay.samples.metadata["prairie.table"] == "systems.samples"
    assert replay.allocators.column("system") == allocators
    assert set(replay.counters.column("system")) <= set(allocators)
    assert "F_u(9)" in replay.samples.column_metadata("unusable_2_mib")["meaning"]
    assert replay["systems.samples.zones.free_blocks"].num_rows > replay.samples.num_rows
    assert "image/svg+xml" in replay._repr_html_()
    page = replay.html()
    assert page.startswith("<!DOCTYPE html>") and "prairie.replay(" in page


def test_a_simulation_equals_the_command(scenario: Path) -> None:
    simulation = prairie.simulate(scenario, ["buddy", "linux"], seed=3)
    words = ("lab", "run", scenario, "--systems", "buddy,linux", "--seed", 3)
    assert same(simulation.json) == same(printed(*words))
    assert simulation.samples.num_rows > 10
    block = json.loads(simulation.samples.metadata["prairie.provenance"])
    assert block == simulation.document["provenance"] and block["seed"] == 3
    assert block["command"].startswith("prairie.simulate(") and block["command"] in simulation.html()
    assert [file["path"] for file in block["inputs"]] == [str(scenario)]


def test_a_fleet_equals_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    fleet = prairie.fleet(folder, servers=2, memory="256M", days=0.02, seed=5)
    assert results(fleet.json) == results(printed("fleet", "report", folder))
    assert same(prairie.fleet(folder).json) == same(printed("fleet", "report", folder))
    again = prairie.fleet(servers=2, memory="256M", days=0.02, seed=5)
    assert again.document["rows"] == fleet.document["rows"]
    assert fleet.servers.num_rows == 4
    assert sorted(set(fleet.servers.column("system"))) == ["contiguitas", "linux"]


def test_several_seeds_equal_the_command(scenario: Path, tmp_path: Path) -> None:
    simulations = prairie.simulate(scenario, ["buddy", "linux"], seed=3, seeds=2)
    words = ("lab", "run", scenario, "--systems", "buddy,linux", "--seed", 3, "--seeds", 2)
    assert same(simulations.json) == same(printed(*words))
    assert simulations.document["seeds"] == [3, 4]
    rows = simulations.rows
    assert rows.num_rows > 10 and set(rows.column("count")) == {2}
    assert {"name", "mean", "interval_low", "interval_high"} <= set(rows.column_names)

    folder = tmp_path / "studies"
    fleets = prairie.fleet(folder, servers=2, memory="256M", days=0.02, seed=5, seeds=2)
    study = ("--servers", 2, "--memory", "256M", "--days", 0.02, "--seed", 5, "--seeds", 2)
    assert same(fleets.json) == same(printed("fleet", "run", "--out", folder, *study))
    assert fleets.rows.num_rows > 5 and set(fleets.rows.column("count")) == {2}
    assert prairie.fleet(folder / "seed-6").servers.num_rows == 4
    for call in (prairie.simulate, prairie.fleet):
        with pytest.raises(prairie.PrairieError, match="seeds is 1, expected 2 or more"):
            call(scenario, seeds=1, **({"servers": 2} if call is prairie.fleet else {}))


def test_a_heap_playback_equals_the_command(tmp_path: Path) -> None:
    trace = tmp_path / "heap.parquet"
    done = command("heap", "driver", "--heap", "64M", "--time", "5s", "--out", trace)
    assert done.returncode == 0, done.stderr
    playback = prairie.heap_playback(trace)
    assert same(playback.json) == same(printed("heap", "playback", trace))
    assert playback.page_heaps.column("system") == ["legacy", "temeraire"]


def test_the_events_of_a_trace(recording: Path) -> None:
    trace = prairie.Trace(recording)
    batches = list(trace.batches())
    assert sum(batch.num_rows for batch in batches) == trace.events
    kinds: dict[str, int] = {}
    for batch in batches:
        for kind in batch.column("event"):
            kinds[kind] = kinds.get(kind, 0) + 1
    counts = prairie.replay(trace, ["buddy"]).document["systems"][0]["counts"]
    assert kinds["alloc"] == counts["allocations"] and kinds["free"] == counts["frees"]
    first = batches[0]
    at = first.column("event").index("alloc")
    assert first.column("pfn")[at] > 0 and first.column("migrate_type")[at] in (
        "Unmovable", "Movable", "Reclaimable",
    )
    # Dropped half-way, the reader ends.
    next(iter(trace.batches()))


def test_tables_are_shared_with_other_libraries(recording: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    samples = prairie.replay(recording, ["buddy"]).samples
    arrow = samples.to_arrow()
    assert arrow.schema.metadata[b"prairie.schema"] == b"prairie-replay"
    assert arrow.column("time_ns").to_pylist() == samples.column("time_ns")
    # The same memory: a second import has the same addresses.
    address = [pyarrow.table(samples).column(0).chunk(0).buffers()[2].address for _ in range(2)]
    assert address[0] == address[1]
    frame = samples.to_pandas()
    assert list(frame.columns) == samples.column_names
    assert math.isclose(frame["unusable_2_mib"].iloc[0], samples.column("unusable_2_mib")[0])
    events = pyarrow.RecordBatchReader.from_stream(prairie.Trace(recording)).read_all()
    assert events.num_rows == prairie.Trace(recording).events


def test_every_column_is_documented(recording: Path, scenario: Path, tmp_path: Path) -> None:
    heap = tmp_path / "heap.parquet"
    assert command("heap", "driver", "--heap", "64M", "--time", "2s", "--out", heap).returncode == 0
    rows = tmp_path / "rows"
    rows.mkdir()
    for name in ("a", "b"):
        words = ("--summary", rows / f"{name}.jsonl", "--label", f"rack={name}")
        assert command("survey", "--from", recording, *words).returncode == 0
    hosts = prairie.fleet(rows, by=["rack"], rank="unusable")
    assert hosts.groups.num_rows == 1 and hosts.document["by"] == ["rack"]
    results: list[prairie.Result] = [
        prairie.survey(recording),
        prairie.replay(recording),
        prairie.simulate(scenario, ["linux"]),
        prairie.fleet(servers=2, memory="256M", days=0.02),
        prairie.heap_playback(heap),
        hosts,
    ]
    documented = 0
    for result in results:
        for name in result.tables:
            about = result.columns(name)
            missing = [
                column
                for column, meaning in zip(about.column("column"), about.column("meaning"))
                if not meaning
            ]
            assert not missing, (type(result).__name__, name, missing)
            documented += about.num_rows
    assert documented > 300
    # A table without rows has the columns of its schema.
    distance = prairie.replay(recording, ["buddy"])["distance_to_kernel"]
    assert distance.num_rows == 0 and {"zone", "node"} <= set(distance.column_names)


def changed(recording: Path, path: Path, old: bytes, new: bytes) -> Path:
    """A copy of a trace with another footer."""
    data = recording.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[start:]
    assert old in footer and len(old) == len(new)
    path.write_bytes(data[:start] + footer.replace(old, new))
    return path


def test_errors_are_those_of_the_command(recording: Path, tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("no parquet")
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(recording.read_bytes()[:-400])
    version = b"prairie.schema_version\x18\x01"
    newer = changed(recording, tmp_path / "newer.parquet", version + b"1", version + b"9")
    wrong = changed(recording, tmp_path / "wrong.parquet", b"time_ns", b"time_us")
    for path in (newer, wrong):
        with pytest.raises(prairie.PrairieError) as raised:
            prairie.Trace(path)
        assert command("replay", path).stderr == f"prairie: {raised.value}\n"
    cases = [
        (lambda: prairie.replay(newer), ("replay", newer)),
        (lambda: prairie.replay(wrong), ("replay", wrong)),
        (lambda: prairie.survey(newer), ("survey", "--from", newer)),
        (lambda: prairie.replay(recording, ["lunix"]), ("replay", recording, "--systems", "lunix")),
        (lambda: prairie.replay("gone"), ("replay", "gone")),
        (lambda: prairie.replay(damaged), ("replay", damaged)),
        (lambda: prairie.survey(tmp_path / "text.parquet"),
         ("survey", "--from", tmp_path / "text.parquet")),
        (lambda: prairie.simulate("gone.toml"), ("lab", "run", "gone.toml")),
        (lambda: prairie.fleet(tmp_path / "gone"), ("fleet", "report", tmp_path / "gone")),
        (lambda: prairie.heap_playback(recording), ("heap", "playback", recording)),
        (lambda: prairie.replay(recording, every="soon"),
         ("replay", recording, "--every", "soon")),
    ]
    for call, words in cases:
        done = command(*words)
        assert done.returncode in (1, 2), words
        line = done.stderr.removesuffix("\n").removesuffix(" (see --help)")
        line = line.removeprefix("prairie: ")
        with pytest.raises(prairie.PrairieError) as raised:
            call()
        assert str(raised.value) == line
    with pytest.raises(prairie.PrairieError, match="systems.sample: no such table, expected one of"):
        prairie.replay(recording, ["buddy"]).table("systems.sample")
    with pytest.raises(KeyError, match="no such column"):
        prairie.survey(recording).zones.column("wrong")
    with pytest.raises(prairie.PrairieError):
        prairie.Trace(tmp_path / "text.parquet")
    with pytest.raises(prairie.PrairieError, match="expected a folder"):
        prairie.fleet()


def test_the_lock_is_released_and_progress_is_told(scenario: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    counted = 0
    over = threading.Event()

    def count() -> None:
        nonlocal counted
        while not over.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    prairie.simulate(scenario, ["linux"], progress=lambda *now: told.append(now))
    over.set()
    thread.join()
    assert counted > 10
    assert told and told[-1][0] == "Simulating" and told[-1][2] == 1000


def interrupted(program: str, times: int) -> tuple[str, int]:
    """What a program of Python prints after `ready`, and its exit code, if it is interrupted."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(times):
            time.sleep(0.7)
            process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        return output, process.returncode
    finally:
        # One that ignores interrupts would never end.
        process.kill()


@pytest.mark.parametrize("code", [
    "prairie.fleet(servers=4000, memory='256M', days=0.5)",
    "prairie.replay(TRACE, ['buddy', Forever()])",
    "prairie.replay(TRACE, ['buddy', Sleeps()])",
])
def test_long_calls_are_interrupted(code: str, recording: Path) -> None:
    program = f"""
{HEED_INTERRUPTS}
import time, prairie
TRACE = {str(recording)!r}
class Forever(prairie.Policy):
    def allocate(self, core, request):
        while True: pass
class Sleeps(prairie.Policy):
    def allocate(self, core, request):
        time.sleep(1000)
print("ready", flush=True)
try:
    {code}
except KeyboardInterrupt:
    print("interrupted")
"""
    assert interrupted(program, 1) == ("interrupted\n", 0)


def test_a_library_that_never_returns_is_left_at_the_second_interrupt(
    recording: Path, tmp_path: Path
) -> None:
    if "PRAIRIE_POLICY" not in os.environ:
        pytest.skip("python/test sets PRAIRIE_POLICY where cargo builds policies")
    assert command("allocators", "new", tmp_path / "forever").returncode == 0
    source = tmp_path / "forever" / "src" / "lib.rs"
    text = source.read_text()
    first = "let unmovable = "
    assert first in text
    source.write_text(text.replace(first, f"while request.order < 99 {{}} {first}"))
    build = ["cargo", "build", "--quiet", "--offline"]
    subprocess.run(build, cwd=source.parents[1], check=True)
    library = tmp_path / "forever" / "target" / "debug" / "libforever.so"
    program = f"""
{HEED_INTERRUPTS}
import prairie
print("ready", flush=True)
try:
    prairie.replay({str(recording)!r}, ["buddy", {str(library)!r}])
except KeyboardInterrupt:
    print("interrupted")
"""
    assert interrupted(program, 2) == ("interrupted\n", 0)


def test_the_command_of_the_package() -> None:
    line = [sys.executable, "-m", "prairie", "--version"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout == command("--version").stdout
    done = subprocess.run([*line[:-1], "replay"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr == command("replay").stderr
    assert "<FILE>" in done.stderr
    assert prairie.__version__ in command("--version").stdout
    assert ROOT.exists()
