"""Sweeps: one table, resumed after a kill, with workers that die."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import prairie


def square(x: int, y: int = 0) -> dict[str, int]:
    return {"value": x * x + y}


def dies_once(x: int, marker: str) -> dict[str, int]:
    """Kills its worker the first time."""
    path = Path(marker)
    if x == 3 and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"value": x}


def raises(x: int) -> dict[str, int]:
    if x == 2:
        raise ValueError("no two")
    return {"value": x}


def test_a_grid_becomes_one_table() -> None:
    table = prairie.sweep(square, {"x": range(4), "y": [0, 10]}, workers=2)
    assert table.column_names == ["x", "y", "value"]
    assert table.column("x") == [0, 0, 1, 1, 2, 2, 3, 3]
    assert table.column("value") == [0, 10, 1, 11, 4, 14, 9, 19]
    block = json.loads(table.metadata["prairie.provenance"])
    assert block["command"] == "prairie.sweep(square)" and block["version"] == prairie.__version__
    listed = prairie.sweep(square, [{"x": 5}, {"x": 6}], workers=1)
    assert listed.column("value") == [25, 36]


def test_replays_over_options(recording: Path) -> None:
    def run(allocator: str) -> prairie.Table:
        return prairie.replay(recording, [allocator], progress=False).allocators

    table = prairie.sweep(run, {"allocator": ["buddy", "linux"]}, workers=2)
    assert table.column("system") == ["buddy", "linux"]


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    grid = {"x": range(8), "marker": [str(tmp_path / "died")]}
    assert prairie.sweep(dies_once, grid, workers=2).column("value") == list(range(8))


def test_a_run_that_raises_is_named(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with pytest.raises(prairie.SweepError, match="run with x=2: ValueError: no two"):
        prairie.sweep(raises, {"x": range(4)}, journal=journal, workers=1)
    with pytest.raises(prairie.SweepError, match="journal of another sweep, expected one of square"):
        prairie.sweep(square, {"x": range(4)}, journal=journal)
    (tmp_path / "text").write_text("{\n")
    with pytest.raises(prairie.SweepError, match="not a journal"):
        prairie.sweep(square, {"x": range(4)}, journal=tmp_path / "text")


def test_a_killed_sweep_goes_on(tmp_path: Path) -> None:
    program = f"""
import time, prairie
def slow(x):
    open({str(tmp_path / 'calls')!r}, "a").write(f"{{x}}\\n")
    time.sleep(0.05)
    return {{"value": 2 * x}}
table = prairie.sweep(slow, {{"x": range(30)}}, journal={str(tmp_path / 'journal')!r}, workers=2)
print(sum(table.column("value")))
"""
    line = [sys.executable, "-c", program]
    first = subprocess.Popen(line, start_new_session=True)
    journal = tmp_path / "journal"
    while not journal.exists() or journal.read_bytes().count(b"\n") < 6:
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    kept = journal.read_bytes().count(b"\n") - 1
    assert 5 <= kept < 30
    # As if the kill had come in the middle of a line.
    with open(journal, "ab") as file:
        file.write(b'{"arguments": {"x"')
    calls = (tmp_path / "calls").read_text().count("\n")
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout == f"{2 * sum(range(30))}\n"
    assert (tmp_path / "calls").read_text().count("\n") - calls == 30 - kept


def test_a_thousand_runs_add_little() -> None:
    """The work of a run is its own CPU time; all else is overhead."""

    def busy(x: int) -> dict[str, float]:
        began = time.process_time()
        while time.process_time() - began < 0.001:
            pass
        return {"cpu_s": time.process_time() - began}

    before = os.times()
    table = prairie.sweep(busy, {"x": range(1000)}, workers=2)
    after = os.times()
    assert table.num_rows == 1000
    spent = sum(after[:4]) - sum(before[:4])
    overhead = (spent - sum(table.column("cpu_s"))) / 1000
    # 5 % of runs of 40 ms; a bound against gross mistakes, on a busy machine.
    assert overhead < 0.002, f"{1e6 * overhead:.0f} us a run"
    print(f"{1e6 * overhead:.0f} us a run")
