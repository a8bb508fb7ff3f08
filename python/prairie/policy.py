"""Placement policies in Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from prairie._prairie import Block, Core, Region, Request, Requests


class Policy(ABC):
    """A placement policy: subclass it, and pass it to `prairie.replay`.

    The core owns the free lists. A policy takes blocks from it with `core.take_block`, and returns
    one from `allocate`. A block that was not taken, or was handed out before, ends the replay with a
    `PolicyError` that names the call. Frames are physical frame numbers.

    ```python
    class Lowest(prairie.Policy):
        def allocate(self, core, request):
            return core.take_block(request.order, near=0)
    ```

    `free`, `tick`, and `allocate_many` are called only if the policy has them.
    """

    #: The name in tables and charts; the class's in lower case if it is empty.
    name: str = ""

    def boot(self, core: Core) -> None:
        """Prepares regions, before any memory is there."""

    @abstractmethod
    def allocate(self, core: Core, request: Request) -> int | None:
        """Returns a block that was taken from the core, of `request.order`; None if none fits."""

    def free(self, core: Core, block: Block) -> None:
        """Puts a freed block, which counts as taken, on a free list, or keeps it.

        Without this method blocks go to the head of list 0, or where `core.set_free_rule` said.
        """
        raise NotImplementedError

    def tick(self, core: Core) -> None:
        """Upkeep off the allocation path, every 1024 events."""
        raise NotImplementedError

    def allocate_many(self, core: Core, requests: Requests) -> bytes:
        """Decides for many requests at once: one byte each, from `place`, or `ASK`.

        The core takes the blocks when their turn comes, and calls `allocate` for a request whose
        place is `ASK` or empty. Frees come in between. A `bytes.translate` of a column of `requests`
        decides for millions of requests a second.
        """
        raise NotImplementedError


def place(region: Region | int | None = None, list: int = 0) -> int:
    """The place of a region's free list for `Policy.allocate_many`.

    Without a region it is the best one that the request may use. Raises ValueError for a list that
    is not in 0 to 7.
    """
    if not 0 <= list < 8:
        raise ValueError(f"list {list}: expected a number from 0 to 7")
    if region is None:
        return list
    number = region if isinstance(region, int) else region.index
    return 8 * (number + 1) + list


class Written(NamedTuple):
    """A policy as the native module takes it."""

    name: str
    summary: str
    boot: Callable[[Core], None] | None
    allocate: Callable[[Core, Request], int | None]
    free: Callable[[Core, Block], None] | None
    tick: Callable[[Core], None] | None
    allocate_many: Callable[[Core, Requests], bytes] | None


def written(policy: Policy) -> Written:
    """The methods that a policy has of its own."""

    def own(method: str) -> Any:
        has = getattr(type(policy), method) is not getattr(Policy, method)
        return getattr(policy, method) if has else None

    lines = (type(policy).__doc__ or "").strip().splitlines()
    return Written(
        name=policy.name or type(policy).__name__.lower(),
        summary=lines[0].rstrip(".") if lines else "a policy in Python",
        boot=own("boot"),
        allocate=policy.allocate,
        free=own("free"),
        tick=own("tick"),
        allocate_many=own("allocate_many"),
    )
