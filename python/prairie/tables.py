"""Tables of a document: each of its lists becomes one, whose rows are the list's entries.

A table is named by the path of its list, such as `systems.samples`. Objects inside a row become
columns with a prefix, lists inside a row become tables of their own. A row of those also has the
columns of the rows around it that name them: the allocator, the time, the zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prairie import schemas
from prairie._prairie import Table
from prairie.schemas import NAMING, Column

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


def table(
    found: list[Row], metadata: Mapping[str, str], known: list[Column] | None = None
) -> Table:
    """An Arrow table of rows; a column that a row does not have is null there.

    `known` are the columns that the schema has. Without rows the table has them all.
    """
    known = known or []
    columns: dict[str, list[Any]] = {}
    if not found:
        columns = {column.name: [] for column in known if not column.is_prefix}
    for number, each in enumerate(found):
        for name, value in each.items():
            if name not in columns:
                columns[name] = [None] * number
            columns[name].append(value)
        for values in columns.values():
            if len(values) == number:
                values.append(None)
    given = []
    for name, values in columns.items():
        column = schemas.find(known, name)
        if column is not None and column.name == name and column.types & {"array", "object"}:
            # A list or an object that is null; others are tables and columns of their own.
            continue
        given.append((name, *typed(name, values, column), about(name, column)))
    return Table(given, dict(metadata))


#: The Arrow types of a column that has no value, by the type in the schema.
EMPTY = {"integer": "int64", "number": "float64", "boolean": "bool", "string": "string"}


def typed(name: str, values: list[Any], column: Column | None) -> tuple[str, list[Any]]:
    """The Arrow type of a column, and its values in that type."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        named = [EMPTY[kind] for kind in sorted(column.types) if kind in EMPTY] if column else []
        return (named[0] if named else "float64" if unit(name) else "string"), values
    if kinds == {bool}:
        return "bool", values
    if kinds == {int} and not (column and "number" in column.types):
        return "int64", values
    if kinds <= {int, float}:
        return "float64", [None if value is None else float(value) for value in values]
    return "string", [None if value is None else str(value) for value in values]


def unit(name: str) -> str:
    """The unit that a column's name says; empty without one."""
    if name in EXCEPTIONS:
        return EXCEPTIONS[name]
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "")


def about(name: str, column: Column | None) -> dict[str, str]:
    """The metadata of a column."""
    meaning = column.meaning if column is not None else ""
    return {key: text for key, text in (("unit", unit(name)), ("meaning", meaning)) if text}


def described(found: Table, metadata: Mapping[str, str]) -> Table:
    """The columns of a table as a table: name, type, unit, and meaning."""
    rows: list[Row] = []
    for name, kind in zip(found.column_names, found.column_types):
        about = found.column_metadata(name)
        rows.append({"column": name, "type": kind, "unit": about.get("unit", "")})
        rows[-1]["meaning"] = about.get("meaning", "")
    return table(rows, metadata)
