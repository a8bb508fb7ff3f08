"""Tables of a document: each of its lists becomes one, whose rows are the list's entries.

A table is named by the path of its list, such as `systems.samples`. Objects inside a row become
columns with a prefix, lists inside a row become tables of their own. A row of those also has the
columns of the rows around it that name them: the allocator, the time, the zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prairie._prairie import Table

#: Columns that name a row, and so stand in the tables of its lists as well.
NAMING = ("system", "time_ns", "node", "zone", "name", "workload", "order")

#: What the end of a column's name says of its unit.
UNITS = {
    "_ns": "ns",
    "_s": "s",
    "_seconds": "s",
    "_bytes": "bytes",
    "_pages": "pages",
    "frames": "frames of 4 KiB",
    "_share": "share from 0 to 1",
    "_blocks": "blocks",
    "_2_mib": "blocks of 2 MiB",
    "_4_mib": "blocks of 4 MiB",
    "_32_mib": "blocks of 32 MiB",
    "_1_gib": "blocks of 1 GiB",
    "_mib_2": "blocks of 2 MiB",
    "_mib_32": "blocks of 32 MiB",
    "_gib_1": "blocks of 1 GiB",
}

#: Columns whose unit is not what their end says.
EXCEPTIONS = {"unusable_2_mib": "share from 0 to 1"}

Row = dict[str, Any]


def names(document: Mapping[str, Any]) -> list[str]:
    """The names of a document's tables."""
    found: list[str] = []

    def visit(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                visit(inner, f"{path}.{key}" if path else key)
        elif isinstance(value, list):
            found.append(path)
            if value and isinstance(value[0], dict):
                visit(value[0], path)

    visit(document, "")
    return found


def rows(document: Mapping[str, Any], path: str) -> Iterator[Row]:
    """The rows of one table."""

    def follow(value: Any, steps: list[str], around: Row) -> Iterator[Row]:
        if isinstance(value, list):
            for at, entry in enumerate(value):
                if steps:
                    yield from follow(entry, steps, around)
                else:
                    yield row(entry, at, around)
        elif isinstance(value, dict) and steps and steps[0] in value:
            naming = {key: value[key] for key in NAMING if is_plain(value.get(key))}
            yield from follow(value[steps[0]], steps[1:], {**around, **naming})

    yield from follow(document, path.split("."), {})


def row(entry: Any, at: int, around: Row) -> Row:
    """One entry of a list, with the columns that name what is around it."""
    if isinstance(entry, dict):
        own = flat(entry, "")
        outer = {(f"outer_{key}" if key in own else key): v for key, v in around.items()}
        return {**outer, **own}
    if isinstance(entry, list):
        values = {f"value_{number}": value for number, value in enumerate(entry)}
        return {**around, "position": at, **values}
    return {**around, "position": at, "value": entry}


def flat(entry: Mapping[str, Any], prefix: str) -> Row:
    """The plain values of an object and of the objects in it."""
    found: Row = {}
    for key, value in entry.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{key}_"))
        elif not isinstance(value, list):
            found[f"{prefix}{key}"] = value
    return found


def is_plain(value: Any) -> bool:
    """Whether a value fits a cell and is one."""
    return value is not None and not isinstance(value, (dict, list))


def table(found: list[Row], metadata: Mapping[str, str]) -> Table:
    """An Arrow table of rows; a column that a row does not have is null there."""
    columns: dict[str, list[Any]] = {}
    for number, each in enumerate(found):
        for name, value in each.items():
            if name not in columns:
                columns[name] = [None] * number
            columns[name].append(value)
        for values in columns.values():
            if len(values) == number:
                values.append(None)
    return Table(
        [(name, *typed(name, values), about(name)) for name, values in columns.items()],
        dict(metadata),
    )


def typed(name: str, values: list[Any]) -> tuple[str, list[Any]]:
    """The Arrow type of a column, and its values in that type."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return ("float64" if unit(name) else "string"), values
    if kinds == {bool}:
        return "bool", values
    if kinds == {int}:
        return "int64", values
    if kinds <= {int, float}:
        return "float64", [None if value is None else float(value) for value in values]
    return "string", [None if value is None else str(value) for value in values]


def unit(name: str) -> str:
    """The unit that a column's name says; empty without one."""
    if name in EXCEPTIONS:
        return EXCEPTIONS[name]
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "")


def about(name: str) -> dict[str, str]:
    """The metadata of a column."""
    return {"unit": unit(name)} if unit(name) else {}
