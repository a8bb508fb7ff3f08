"""`prairie-fleet`: a study on Ray, from the command line."""

import argparse
import sys
from pathlib import Path

import ray

from . import figures, run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="prairie-fleet",
        description="Run the shards of `prairie fleet run` on Ray, then show the figures.",
        epilog="Example: prairie-fleet --shards 50 --out study -- --servers 1000",
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder for the results")
    parser.add_argument("--shards", type=int, default=16, help="parts of the study [16]")
    parser.add_argument("--address", help="a Ray cluster's; this machine alone if none is given")
    parser.add_argument("--prairie", default="prairie", help="the command, on every node")
    parser.add_argument("arguments", nargs="*", help="of `prairie fleet run`, after --")
    given = parser.parse_args()
    if given.shards < 1:
        parser.error("--shards must be 1 or more")
    ray.init(address=given.address, log_to_driver=False)
    arguments = [*given.arguments, "--threads", "1"]
    try:
        ran = run(given.prairie, arguments, given.shards, given.out)
    except (ray.exceptions.RayTaskError, RuntimeError) as error:
        print(f"prairie-fleet: {getattr(error, 'cause', error)}", file=sys.stderr)
        return 1
    print(f"{ran} of {given.shards} shards ran; the others were there already")
    figures(given.out).show(max_width=200)
    return 0


if __name__ == "__main__":
    sys.exit(main())
