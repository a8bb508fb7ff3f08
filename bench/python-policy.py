#!/usr/bin/env python3
# Events a second of a policy in Python, in batches and one by one, beside the built-in `buddy`.
"""Replays a trace under `buddy` and a policy in Python, each alone, and prints events a second.

Usage: python bench/python-policy.py [TRACE.parquet] [ROUNDS]

The best of some rounds counts. Without a trace it replays the recording that ships, again and again.
"""

import sys
import time
from pathlib import Path

import prairie

SHIPPED = Path(__file__).parents[1] / "data" / "mixed.parquet"


class OneByOne(prairie.Policy):
    """the first block that fits"""

    def allocate(self, core, request):
        return core.take_block(request.order)


class FreesToo(OneByOne):
    """the same with a `free` of its own"""

    def free(self, core, block):
        core.put(block.frame)


class Batched(OneByOne):
    """the same, decided for many requests at once"""

    def allocate_many(self, core, requests):
        return bytes(len(requests))


def seconds(trace, allocator):
    began = time.perf_counter()
    replay = prairie.replay(trace, [allocator], progress=False)
    return time.perf_counter() - began, replay.document["events"]


def main():
    trace = Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    print(f"{'policy':<12}{'events/s':>12}{'of buddy':>10}")
    buddy = None
    for name, policy in [
        ("buddy", "buddy"), ("batched", Batched), ("one by one", OneByOne), ("frees too", FreesToo),
    ]:
        spent, events = min(seconds(trace, policy) for _ in range(rounds))
        rate = events / spent
        buddy = buddy or rate
        print(f"{name:<12}{rate:>12,.0f}{rate / buddy:>9.0%}")


if __name__ == "__main__":
    main()
