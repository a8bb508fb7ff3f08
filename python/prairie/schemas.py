"""What the JSON schemas of Prairie's documents say of the columns of their tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from prairie import _prairie

Schema = Mapping[str, Any]

#: Columns that name a row, and so stand in the tables of its lists as well.
NAMING = ("system", "time_ns", "node", "zone", "name", "workload", "order")


class Column(NamedTuple):
    """A column, or all those whose names begin with its name."""

    name: str
    is_prefix: bool
    #: The types that JSON has for it: integer, number, string, boolean, null; array or object
    #: for a list or an object that may be null.
    types: frozenset[str]
    meaning: str


@cache
def load(name: str) -> Schema | None:
    """The schema of a kind of document; None for one that no call returns."""
    text = _prairie.schema(name)
    schema: Schema | None = None if text is None else json.loads(text)
    return schema


def columns(root: Schema, path: str) -> list[Column]:
    """The columns of a table in the order of the schema; none for a path that it does not have."""
    around: list[Column] = []
    node: Schema = root
    for step in path.split("."):
        node = entry(root, node)
        fields: Schema = node.get("properties", {})
        if step not in fields:
            return []
        here = flat(root, node, "")
        around += [column for column in here if column.name in NAMING and column.name in fields]
        node = fields[step]
    inner = entry(root, node)
    if "properties" in inner or "additionalProperties" in inner:
        own = flat(root, inner, "")
        names = {column.name for column in own}
        outer = [
            column._replace(name=f"outer_{column.name}") if column.name in names else column
            for column in around
        ]
        return outer + own
    position = Column("position", False, frozenset({"integer"}), "Place in the list, from 0.")
    about = Column("value", True, types(inner), inner.get("description") or describe(root, node))
    return [*around, position, about]


def find(known: list[Column], name: str) -> Column | None:
    """The column of that name, or the one whose name is its longest beginning."""
    fitting = [
        column
        for column in known
        if column.name == name or (column.is_prefix and name.startswith(column.name))
    ]
    return max(fitting, key=lambda column: len(column.name), default=None)


def flat(root: Schema, node: Schema, prefix: str) -> list[Column]:
    """The plain fields of an object and of the objects in it, and what may be null of them."""
    found: list[Column] = []
    for name, field in node.get("properties", {}).items():
        inner = resolved(root, field)
        if "properties" in inner or "additionalProperties" in inner:
            found += flat(root, inner, f"{prefix}{name}_")
            if "null" in types(inner):
                found.append(Column(f"{prefix}{name}", False, types(inner), describe(root, field)))
        elif types(inner) != {"array"}:
            column = Column(f"{prefix}{name}", False, types(inner), describe(root, field))
            found.append(column)
    rest = node.get("additionalProperties")
    if isinstance(rest, dict):
        about = rest.get("description") or node.get("description", "")
        found.append(Column(prefix, True, types(resolved(root, rest)), about))
    return found


def entry(root: Schema, node: Schema) -> Schema:
    """An object, or what a list of lists of objects holds."""
    node = resolved(root, node)
    while "items" in node:
        node = resolved(root, node["items"])
    return node


def resolved(root: Schema, node: Schema) -> Schema:
    """A schema without references, and of alternatives the one that is not null."""
    while True:
        if "$ref" in node:
            node = root["$defs"][node["$ref"].removeprefix("#/$defs/")]
        elif "anyOf" in node:
            node = next(each for each in node["anyOf"] if each.get("type") != "null")
        else:
            return node


def describe(root: Schema, node: Schema) -> str:
    text: str = node.get("description") or resolved(root, node).get("description", "")
    return text


def types(node: Schema) -> frozenset[str]:
    named = node.get("type", [])
    return frozenset([named] if isinstance(named, str) else named)
