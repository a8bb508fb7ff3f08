"""The tutorial's code runs."""

import re
import shutil
from pathlib import Path

import pytest
from conftest import ROOT

PAGE = ROOT / "docs" / "src" / "tutorials" / "python.md"


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    shutil.copy(ROOT / "data" / "boot-processes-2cpu" / "trace.parquet", tmp_path)
    shutil.copy(ROOT / "data" / "mixed.parquet", tmp_path / "host.parquet")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, object] = {"__name__": "tutorial"}
    for block in blocks:
        include = re.match(r"{{#include (\S+):confine}}", block)
        if include:
            source = (PAGE.parent / include[1]).read_text()
            block = source.split("# ANCHOR: confine")[1].split("# ANCHOR_END")[0]
        exec(compile(block, str(PAGE), "exec"), names)
    assert (tmp_path / "sweep.jsonl").exists()
