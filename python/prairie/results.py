"""Results: documents as the command prints them, their tables, maps, and pages."""

from __future__ import annotations

import base64
import html
import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from prairie import schemas, tables
from prairie._prairie import Answer, PrairieError, Table


class Result:
    """What a call found.

    `json` is the text that the command prints with `--json`. `result["systems.samples"]` is one of
    its `tables`. In a notebook a result shows its maps of memory and its first table.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._tables: dict[str, Table] = {}

    @property
    def json(self) -> str:
        """The document as the command prints it with `--json`."""
        return self._answer.json

    @cached_property
    def document(self) -> dict[str, Any]:
        """The document as Python values."""
        document: dict[str, Any] = json.loads(self.json)
        return document

    @property
    def metadata(self) -> dict[str, str]:
        """Where the tables come from; the metadata of their Arrow schemas.

        `prairie.provenance` is the same block, as JSON, that Prairie's Parquet files carry: the call,
        version, commit, host, kernel, SHA-256 of each input, and random seed.
        """
        plain = {
            f"prairie.{key}": str(value)
            for key, value in self.document.items()
            if tables.is_plain(value)
        }
        provenance = json.dumps(self.document["provenance"])
        return {**plain, "prairie.provenance": provenance}

    @cached_property
    def tables(self) -> list[str]:
        """The names of the tables."""
        return tables.names(self.document)

    def table(self, name: str) -> Table:
        """The table of one of the document's lists. Raises PrairieError if there is none."""
        if name not in self.tables:
            names = ", ".join(self.tables)
            raise PrairieError(f"{name}: no such table, expected one of {names}")
        if name not in self._tables:
            found = list(tables.rows(self.document, name))
            schema = schemas.load(self.document["schema"])
            known = schemas.columns(schema, name) if schema is not None else []
            metadata = {**self.metadata, "prairie.table": name}
            self._tables[name] = tables.table(found, metadata, known)
        return self._tables[name]

    def columns(self, name: str) -> Table:
        """The columns of a table, a row each: `column`, `type`, `unit`, and `meaning`.

        The units and meanings are also in the metadata of the table's Arrow schema. Raises
        PrairieError if there is no such table.
        """
        return tables.described(self.table(name), self.metadata)

    def __getitem__(self, name: str) -> Table:
        return self.table(name)

    def html(self) -> str:
        """The report as a page that needs nothing else, as the command writes it."""
        return self._answer.html()

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the page, whole or not at all."""
        path = Path(path)
        beside = path.with_name(f".{path.name}.partial")
        beside.write_text(self.html(), encoding="utf-8")
        os.replace(beside, path)

    def maps(self, theme: Literal["auto", "light", "dark"] = "auto") -> list[str]:
        """The maps of memory as SVG. "auto" follows the reader's screen."""
        return self._answer.maps(theme)

    def _repr_html_(self) -> str:
        title, subtitle = self._answer.titles()
        parts = [f"<h4>{html.escape(title)}</h4><p>{html.escape(subtitle)}</p>"]
        parts += [f"<p><b>Warning:</b> {html.escape(w)}</p>" for w in self._answer.warnings()]
        parts += [_image(svg) for svg in self.maps("light")[:1]]
        parts += [_html_table(*table) for table in self._answer.tables()[:1]]
        return "".join(parts)

    def __repr__(self) -> str:
        title, subtitle = self._answer.titles()
        return f"<{type(self).__name__}: {title} ({subtitle}); tables: {', '.join(self.tables)}>"


class Survey(Result):
    """How fragmented a host is, and why."""

    @property
    def zones(self) -> Table:
        """One row per zone: frames, free lists, watermarks."""
        return self.table("zones")

    @property
    def classes(self) -> Table:
        """Frames and pageblocks by class of memory. Needs root when the survey is made."""
        return self.table("frames.by_class")


class Replay(Result):
    """A trace under several allocators."""

    @property
    def allocators(self) -> Table:
        """One row per allocator: counts of events, and huge pages that could be allocated."""
        return self.table("systems")

    @property
    def samples(self) -> Table:
        """One row per allocator and instant: free and unmovable frames, F_u(9), contiguity."""
        return self.table("systems.samples")

    @property
    def counters(self) -> Table:
        """One row per allocator and counter of its policy."""
        return self.table("systems.counters")


class Simulation(Result):
    """A workload model under several allocators."""

    @property
    def allocators(self) -> Table:
        """One row per allocator: counters by the kernel's names."""
        return self.table("systems")

    @property
    def samples(self) -> Table:
        """One row per allocator and instant of simulated time."""
        return self.table("systems.moments")


class Fleet(Result):
    """Many servers, simulated or surveyed, or rows of hosts."""

    @property
    def servers(self) -> Table:
        """One row per server and allocator. Rows of hosts have `groups` instead."""
        return self.table("rows")

    @property
    def allocators(self) -> Table:
        """One row per allocator: means over the servers."""
        return self.table("systems")

    @property
    def groups(self) -> Table:
        """One row per group of hosts, of rows by `prairie survey --summary`."""
        return self.table("groups")

    @property
    def worst(self) -> Table:
        """One row per host, the worst first, of rows by `prairie survey --summary`."""
        return self.table("worst")


class Seeds(Result):
    """The results of runs with several random seeds: mean, spread, and 95 % interval of each."""

    @property
    def rows(self) -> Table:
        """One row per result that all runs have, named as `prairie diff` names it."""
        return self.table("rows")


class HeapPlayback(Result):
    """A program's page-heap calls on several page heaps."""

    @property
    def page_heaps(self) -> Table:
        """One row per page heap: means over time, and totals."""
        return self.table("systems")

    @property
    def samples(self) -> Table:
        """One row per page heap and instant."""
        return self.table("systems.samples")


def _image(svg: str) -> str:
    """A map no wider than its cell, whose styles and names stay its own."""
    data = base64.b64encode(svg.encode()).decode()
    style = "max-width:100%;background:#fff"
    return f'<p><img alt="Map of memory" style="{style}" src="data:image/svg+xml;base64,{data}"></p>'


def _html_table(title: str, headings: list[str], rows: list[list[str]]) -> str:
    def cells(kind: str, texts: list[str]) -> str:
        return "".join(f"<{kind}>{html.escape(text)}</{kind}>" for text in texts)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    return f"<table>{caption}<tr>{cells('th', headings)}</tr>{body}</table>"


def called_as(function: str, arguments: Mapping[str, Any]) -> str:
    """A call as its reports name it."""
    given = [f"{name}={value!r}" for name, value in arguments.items() if value is not None]
    return f"prairie.{function}({', '.join(given)})"
