"""What the tests share. `PRAIRIE` names the command to compare with."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def recording() -> Path:
    """The recording that ships."""
    return ROOT / "data" / "mixed.parquet"


@pytest.fixture
def scenario() -> Path:
    """The scenario that ships."""
    return ROOT / "data" / "small.toml"


def command(*words: object) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    program = os.environ.get("PRAIRIE", "prairie")
    line = [program, *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)


def results(document: str) -> str:
    """A document without the block at its end that says where it comes from."""
    text, block = document.split('\n  "provenance": {')
    assert '"sha256"' in block or '"inputs": []' in block
    return text


def same(document: str) -> str:
    """A document without the lines that name the call and the build; the command names its own."""
    lines = document.splitlines()
    named = [line for line in lines if not line.startswith(('    "command": ', '    "commit": '))]
    assert len(named) == len(lines) - 2
    return "\n".join(named)
