"""Policies in Python: in the same pass, in every table, contained whatever they do."""

import os
import random
import re
import threading
from pathlib import Path

import pytest
from conftest import ROOT, command, results, same
from policies import Batched, Confine

import prairie


@pytest.fixture
def recording() -> Path:
    """A smaller one than that of the other tests: a kernel's first seconds."""
    return ROOT / "data" / "boot-processes-2cpu" / "trace.parquet"


def test_a_policy_is_replayed_beside_the_others(recording: Path) -> None:
    replay = prairie.replay(recording, ["buddy", Confine, "linux"])
    assert replay.allocators.column("system") == ["buddy", "linux", "confine"]
    samples = replay.samples.to_arrow().to_pandas() if _has("pandas") else None
    if samples is not None:
        free = samples.pivot(index="time_ns", columns="system", values="free_frames")
        assert (free["buddy"] == free["confine"]).all()
    assert "confine" in replay.html()
    assert prairie.replay(recording, [Confine()]).allocators.column("system") == ["confine"]


def _has(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def test_batches_decide_as_single_calls_do(recording: Path) -> None:
    replay = prairie.replay(recording, [Confine, Batched])
    single, batched = replay.document["systems"]
    for system in (single, batched):
        del system["system"], system["parts"]
    assert batched == single


def test_rust_and_python_are_bit_identical(recording: Path) -> None:
    library = os.environ.get("PRAIRIE_POLICY")
    if library is None:
        pytest.skip("PRAIRIE_POLICY names no library of the template")
    done = command("replay", recording, "--systems", "buddy", "--policy", library, "--json")
    assert done.returncode == 0, done.stderr
    # The library is an input of its own; the class is none.
    assert results(prairie.replay(recording, ["buddy", Confine]).json) == results(done.stdout)
    assert same(prairie.replay(recording, ["buddy", library]).json) == same(done.stdout)


def test_regions_and_free_lists_are_objects(recording: Path) -> None:
    seen: list[str] = []
    ticks: list[int] = []

    class Looks(prairie.Policy):
        def allocate(self, core: prairie.Core, request: prairie.Request) -> int | None:
            if not seen:
                for region in core.regions:
                    assert region.start < region.end == region.start + region.frames
                    lists = [region.free_list(order) for order in range(11)]
                    assert region.free_frames == sum(len(l) << j for j, l in enumerate(lists))
                    for free in lists:
                        assert len(list(free)) == len(free)
                        assert free.first == next(iter(free), None)
                    seen.append(repr(region))
                seen.append(repr(request))
                block = core.take_block(2)
                assert block is not None and core.block_at(block) == (2, "free")
                upper = core.split(block)
                assert core.merge(upper) == block
                core.put(block, tail=True)
            return core.take_block(request.order)

        def free(self, core: prairie.Core, block: prairie.Block) -> None:
            assert core.block_at(block.frame) == (block.order, "free")
            core.put(block.frame)

        def tick(self, core: prairie.Core) -> None:
            ticks.append(sum(region.free_frames for region in core.regions))

    prairie.replay(recording, [Looks])
    assert re.match(r"Region\(0, \w+, frames 0x\w+ to 0x\w+\)", seen[0])
    assert len(ticks) > 1 and min(ticks) > 0


def fault(policy: prairie.Policy, recording: Path) -> str:
    with pytest.raises(prairie.PolicyError) as raised:
        prairie.replay(recording, ["buddy", policy])
    return str(raised.value)


def test_faults_name_the_call(recording: Path) -> None:
    class Raises(prairie.Policy):
        def allocate(self, core: prairie.Core, request: prairie.Request) -> int | None:
            raise ValueError("two\nlines")

    text = fault(Raises(), recording)
    assert re.fullmatch(r"policy raises: allocate\(order \d+\), call \d+: ValueError: two lines", text)
    with pytest.raises(prairie.PolicyError) as raised:
        prairie.replay(recording, [Raises])
    assert isinstance(raised.value.__cause__, ValueError)

    class Forges(prairie.Policy):
        def allocate(self, core: prairie.Core, request: prairie.Request) -> int | None:
            return 1 << 50

    assert "outside memory, expected a frame of it" in fault(Forges(), recording)

    class Twice(prairie.Policy):
        block: int | None = None

        def allocate(self, core: prairie.Core, request: prairie.Request) -> int | None:
            if self.block is None or request.order != 0:
                taken = core.take_block(request.order)
                self.block = taken if request.order == 0 else self.block
                return taken
            return self.block

    assert "expected a block from take_block" in fault(Twice(), recording)

    class Text(prairie.Policy):
        def allocate(self, core: prairie.Core, request: prairie.Request) -> int | None:
            return "frame"  # type: ignore[return-value]

    assert "returned a value of type str, expected a frame number or None" in fault(Text(), recording)

    class Plans(prairie.Policy):
        def allocate(self, core: prairie.Core, request: prairie.Request) -> int | None:
            return core.take_block(request.order)

        def allocate_many(self, core: prairie.Core, requests: prairie.Requests) -> bytes:
            return b"\x00"

    assert re.search(r"allocate_many\(\d+ requests\), call \d+: 1 places, expected", fault(Plans(), recording))

    class Boots(prairie.Policy):
        def boot(self, core: prairie.Core) -> None:
            core.divide(99, 0)

        def allocate(self, core: prairie.Core, request: prairie.Request) -> int | None:
            return None

    assert fault(Boots(), recording).endswith("boot, call 1: divide: region 99: no such region")

    class Keeps(prairie.Policy):
        def allocate(self, core: prairie.Core, request: prairie.Request) -> int | None:
            self.core = core
            return core.take_block(request.order)

    keeps = Keeps()
    prairie.replay(recording, [keeps])
    with pytest.raises(prairie.PolicyError, match="used outside a call"):
        keeps.core.take_block(0)

    class Exits(prairie.Policy):
        def allocate(self, core: prairie.Core, request: prairie.Request) -> int | None:
            raise SystemExit(3)

    with pytest.raises(SystemExit):
        prairie.replay(recording, [Exits])


class Wild(prairie.Policy):
    """does what chance says"""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seen: list[int] = [0, 1, 4096, 1 << 60]

    def act(self, core: prairie.Core) -> None:
        chance = self.random
        frame = chance.choice(self.seen)
        match chance.randrange(400):
            case 0: core.put(frame, list=chance.randrange(9))
            case 1: self.seen.append(core.split(frame))
            case 2: core.merge(frame)
            case 3: core.move_block(frame, chance.choice(self.seen))
            case 4: core.take_block(chance.randrange(14), region=chance.randrange(6))
            case 5: raise RuntimeError("chance")
            case 6: core.divide(0, frame)
            case 7: core.set_free_rule(chance.choice(["movable", "wrong"]), chance.randrange(9))
            case _: pass

    def allocate(self, core: prairie.Core, request: prairie.Request) -> int | None:
        self.act(core)
        block = core.take_block(request.order, near=self.random.choice([None, None, 5000]))
        if block is not None and len(self.seen) < 500:
            self.seen.append(block)
        return self.random.choice(self.seen) if self.random.random() < 0.001 else block

    def free(self, core: prairie.Core, block: prairie.Block) -> None:
        self.act(core)
        if self.random.random() < 0.9999:
            core.put(block.frame, tail=self.random.random() < 0.5)


@pytest.mark.parametrize("seed", range(24))
def test_wild_policies_raise_and_never_abort(seed: int, recording: Path) -> None:
    try:
        replay = prairie.replay(recording, ["buddy", Wild(seed)])
    except prairie.PolicyError as error:
        assert str(error).startswith("policy wild: "), error
        assert ", call " in str(error)
    else:
        assert replay.document["systems"][1]["counts"]["allocations"] > 0


class WildBatches(Wild):
    """decides by chance for many requests, and calls what it must not"""

    def allocate_many(self, core: prairie.Core, requests: prairie.Requests) -> bytes:
        chance = self.random
        match chance.randrange(60):
            case 0: return b""
            case 1: return b"\x00" * (len(requests) + 1)
            case 2: return None  # type: ignore[return-value]
            case 3: raise KeyError("chance")
            case 4: return bytearray(len(requests))  # type: ignore[return-value]
        return bytes(chance.choice([0, 0, 0, 1, 9, 200, prairie.ASK]) for _ in range(len(requests)))

    def tick(self, core: prairie.Core) -> None:
        match self.random.randrange(50):
            case 0: core.take_block(0)
            case 1: core.regions[0].free_list(99)
            case 2: core.regions[99]
            case _: pass


@pytest.mark.parametrize("seed", range(24))
def test_wild_batches_raise_and_never_abort(seed: int, recording: Path) -> None:
    try:
        replay = prairie.replay(recording, ["buddy", WildBatches(seed)])
    except prairie.PolicyError as error:
        assert str(error).startswith("policy wildbatches: "), error
        assert ", call " in str(error)
    else:
        assert replay.document["systems"][1]["counts"]["allocations"] > 0


def test_a_policy_may_replay_and_start_threads(recording: Path) -> None:
    inner: list[int] = []
    threads: list[threading.Thread] = []

    class Nested(prairie.Policy):
        def allocate(self, core: prairie.Core, request: prairie.Request) -> int | None:
            if not inner:
                inner.append(prairie.replay(recording, [Confine]).document["events"])
            return core.take_block(request.order)

    outer = prairie.replay(recording, ["buddy", Nested]).document
    assert inner == [outer["events"]]
    buddy, nested = outer["systems"]
    assert nested["counts"]["failed_allocations"] == buddy["counts"]["failed_allocations"]

    class Threads(prairie.Policy):
        """lets a thread take blocks when no call may be under way"""

        def allocate(self, core: prairie.Core, request: prairie.Request) -> int | None:
            if len(threads) < 8:
                thread = threading.Thread(target=self.take, args=(core,))
                threads.append(thread)
                thread.start()
            return core.take_block(request.order)

        def take(self, core: prairie.Core) -> None:
            for _ in range(100):
                try:
                    core.take_block(0)
                except prairie.PolicyError:
                    pass

    try:
        prairie.replay(recording, [Threads])
    except prairie.PolicyError as error:
        assert ", call " in str(error)
    for thread in threads:
        thread.join()
