"""The native half of the module."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, final

__all__ = [
    "PrairieError",
    "PolicyError",
    "__version__",
    "ASK",
    "Answer",
    "Table",
    "TraceFile",
    "Batches",
    "Core",
    "Region",
    "FreeList",
    "Request",
    "Requests",
    "Block",
    "ask",
    "provenance",
    "schema",
    "command",
]

__version__: str
ASK: int

class PrairieError(Exception): ...
class PolicyError(PrairieError): ...

@final
class Answer:
    @property
    def json(self) -> str: ...
    def titles(self) -> tuple[str, str]: ...
    def html(self) -> str: ...
    def maps(self, theme: str = "auto") -> list[str]: ...
    def tables(self) -> list[tuple[str, list[str], list[list[str]]]]: ...
    def warnings(self) -> list[str]: ...

@final
class Table:
    """A table in Arrow's memory, which other libraries read without copying.

    `pyarrow.table(t)`, `polars.from_arrow(t)`, and `duckdb` after `t = table.to_arrow()` do.
    """

    def __new__(
        cls,
        columns: Sequence[tuple[str, str, list[Any], dict[str, str]]],
        metadata: dict[str, str],
    ) -> Table: ...
    @property
    def column_names(self) -> list[str]: ...
    @property
    def column_types(self) -> list[str]: ...
    def column_metadata(self, name: str) -> dict[str, str]:
        """The unit and the meaning of a column. Raises KeyError for an unknown one."""
    @property
    def metadata(self) -> dict[str, str]:
        """Where the table comes from; `prairie.provenance` is a block of JSON, as Parquet files have."""
    @property
    def num_rows(self) -> int: ...
    def __len__(self) -> int: ...
    def column(self, name: str) -> list[Any]:
        """The values of a column. Raises KeyError for an unknown one."""
    def to_arrow(self) -> Any:
        """The table as a `pyarrow.Table`, which shares its memory. Needs pyarrow."""
    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`. Needs pandas and pyarrow."""
    def to_polars(self) -> Any:
        """The table as a `polars.DataFrame`, which shares its memory. Needs polars."""
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def _repr_html_(self) -> str: ...

@final
class TraceFile:
    def __new__(cls, path: str | PathLike[str]) -> TraceFile: ...
    @property
    def kernel_release(self) -> str: ...
    @property
    def events(self) -> int: ...
    @property
    def lost_events(self) -> int: ...
    @property
    def duration_ns(self) -> int | None: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def has_snapshot(self) -> bool: ...
    def batches(self) -> Batches: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Batches:
    """The events of a trace, a table at a time."""

    def __iter__(self) -> Iterator[Table]: ...
    def __next__(self) -> Table: ...

@final
class Core:
    """The free lists of a machine, by region. Usable while the policy is called.

    Every operation raises PolicyError for wrong arguments. It changes nothing then, and the replay
    ends even if the policy catches the exception.
    """

    @property
    def regions(self) -> list[Region]:
        """The machine's zones, and the parts that `divide` made of them."""
    def regions_for(self, request: Request) -> tuple[int, ...]:
        """The numbers of the regions that a request may use, best first."""
    def take_block(
        self,
        order: int,
        region: Region | int | None = None,
        list: int = 0,
        near: int | None = None,
    ) -> int | None:
        """Takes a block of 2**order frames and returns its first frame; None if there is none.

        It splits the first of the smallest blocks that suffice, or takes the one nearest to the frame
        `near`, in time proportional to the list's length. Without a region it tries those that the
        request may use, best first.
        """
    def put(self, frame: int, list: int = 0, tail: bool = False) -> None:
        """Puts a taken block on a list, after merging it with its free buddies."""
    def split(self, frame: int) -> int:
        """Splits a taken block into halves, both taken; returns the upper one."""
    def merge(self, frame: int) -> int | None:
        """Merges a taken block with its buddy, if that is taken or on a list."""
    def move_block(self, source: int, target: int) -> None:
        """Migrates a movable block in use to a taken block of the same size."""
    def block_at(self, frame: int) -> tuple[int, str] | None:
        """The order and the mobility of the block that starts at a frame."""
    def divide(self, region: Region | int, frame: int) -> Region:
        """Divides a region at a frame, rounded down to 4 MiB, in `boot` only.

        The region keeps what lies below; the upper part is returned. Blocks never merge across.
        """
    def set_free_rule(self, mobility: str, list: int = 0, tail: bool = False) -> None:
        """Sets where freed blocks of a mobility go when the policy has no `free`."""

@final
class Region:
    """A zone, or a part of one, with free lists of its own."""

    @property
    def index(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def frames(self) -> int: ...
    @property
    def free_frames(self) -> int: ...
    @property
    def zone(self) -> str: ...
    @property
    def node(self) -> int: ...
    def free_list(self, order: int, list: int = 0) -> FreeList: ...

@final
class FreeList:
    """The free blocks of one order on one list, head first."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    @property
    def first(self) -> int | None: ...

@final
class Request:
    """A request for a block."""

    @property
    def order(self) -> int: ...
    @property
    def mobility(self) -> str:
        """`movable` or `unmovable`."""
    @property
    def migrate_type(self) -> str:
        """As in /proc/pagetypeinfo: `Unmovable`, `Movable`, `Reclaimable`, ..."""
    @property
    def zone(self) -> str:
        """The highest zone that will do."""
    @property
    def node(self) -> int: ...
    @property
    def cpu(self) -> int: ...
    @property
    def gfp_flags(self) -> int: ...

@final
class Requests:
    """The requests that come next, as columns of one byte each."""

    def __len__(self) -> int: ...
    def __getitem__(self, at: int, /) -> Request: ...
    @property
    def order(self) -> bytes: ...
    @property
    def mobility(self) -> bytes:
        """1 movable, 2 unmovable."""
    @property
    def migrate_type(self) -> bytes:
        """0 unmovable, 1 movable, 2 reclaimable, 3 high-atomic, 4 CMA, 5 isolate."""
    @property
    def zone(self) -> bytes:
        """Highest zones: 0 DMA, 1 DMA32, 2 Normal, 3 HighMem, 4 Movable, 5 Device."""
    @property
    def node(self) -> bytes:
        """Nodes; 255 for any beyond."""

@final
class Block:
    """A freed block, which counts as taken."""

    @property
    def frame(self) -> int: ...
    @property
    def order(self) -> int: ...
    @property
    def mobility(self) -> str: ...
    @property
    def cpu(self) -> int: ...

def ask(
    arguments: Sequence[str],
    called_as: str,
    policies: Iterable[Any],
    progress: Callable[[str, int, int | None], None] | None = None,
) -> Answer: ...
def provenance(called_as: str) -> str: ...
def schema(name: str) -> str | None: ...
def command(arguments: Sequence[str]) -> int: ...
