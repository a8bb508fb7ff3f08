"""Runs the shards of a fleet study on Ray, and gathers figures from what they wrote.

Needs the extra `prairie[fleet]`; the command is `prairie-fleet`.

The simulation is `prairie fleet run`; this only says where each shard runs. A shard is a pure
function of the study and its number, so one whose worker dies is run again elsewhere and gives the
same rows. Each part names its study and its shard in the metadata, and parts of different studies
are never mixed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import ray


def part_name(index: int, of: int) -> str:
    """The file that a shard writes."""
    return f"part-{index:05}-of-{of:05}.parquet"


class MixedStudies(RuntimeError):
    """Parts that are not of one study."""


def identity(prairie: str, arguments: list[str]) -> str:
    """The hash of the study that the arguments of `prairie fleet run` describe."""
    command = [prairie, "fleet", "run", "--out", ".", "--identity"]
    done = subprocess.run(command + arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return str(json.loads(done.stdout)["hash"])


def header(path: Path) -> tuple[str, str]:
    """The hash of a part's study, and its shard such as `0/4`."""
    query = "select decode(key), decode(value) from parquet_kv_metadata(?)"
    found: Any = duckdb.sql(query, params=[str(path)])
    pairs = dict(found.fetchall())
    try:
        return pairs["prairie.fleet.study_hash"], pairs["prairie.fleet.shard"]
    except KeyError as missing:
        raise MixedStudies(f"{path}: no {missing} in its metadata, expected a part") from None


def same_study(out: Path, study: str | None = None, shards: int | None = None) -> None:
    """Raises MixedStudies unless all parts in `out` are of one study, split in one way.

    `study` and `shards` are the hash and the number of shards to expect; without them, those of the
    first part.
    """
    for path in sorted(out.glob("part-*.parquet")):
        found, shard = header(path)
        index, of = (int(number) for number in shard.split("/"))
        study, shards = study or found, shards or of
        if (found, of, path.name) != (study, shards, part_name(index, of)):
            raise MixedStudies(
                f"{path}: shard {shard} of study {found}, expected one of {shards} of {study}"
            )


def run_shard(prairie: str, arguments: list[str], index: int, of: int) -> bytes:
    """Runs one shard and returns its file. Raises RuntimeError with what `prairie` said."""
    with tempfile.TemporaryDirectory() as folder:
        command = [prairie, "fleet", "run", "--out", folder, "--shard", f"{index}/{of}"]
        done = subprocess.run(command + arguments, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"shard {index}/{of}: {done.stderr.strip()}")
        return Path(folder, part_name(index, of)).read_bytes()


def keep(folder: Path, name: str, content: bytes) -> None:
    """Writes a file whole or not at all."""
    beside = folder / f".{name}.partial"
    beside.write_bytes(content)
    os.replace(beside, folder / name)


def run(
    prairie: str,
    arguments: list[str],
    shards: int,
    out: Path,
    cpus: float = 1.0,
    retries: int = -1,
) -> int:
    """Runs every shard whose file is not in `out` yet on the Ray cluster that is connected.

    `arguments` are those of `prairie fleet run` but for --out and --shard. Each shard runs on
    `cpus` CPUs; one whose worker dies is run again up to `retries` times (-1: always). Files are
    kept as shards end, so that an interrupted study goes on where it was. Returns how many ran.
    Raises MixedStudies if `out` holds parts of another study.
    """
    out.mkdir(parents=True, exist_ok=True)
    same_study(out, identity(prairie, arguments), shards)
    remote = ray.remote(num_cpus=cpus, max_retries=retries)(run_shard)
    missing = [i for i in range(shards) if not (out / part_name(i, shards)).exists()]
    running = {remote.remote(prairie, arguments, i, shards): i for i in missing}
    while running:
        (done,), _ = ray.wait(list(running), num_returns=1)
        keep(out, part_name(running.pop(done), shards), ray.get(done))
    return len(missing)


FIGURES = """
    select system, workload, count(*) as servers,
           round(100 * avg((free_2_mib = 0)::int), 1) as "without a free 2 MiB block, %",
           round(100 * avg(free_2_mib * 512 / free_frames), 1) as "free memory in 2 MiB blocks, %",
           round(100 * avg(potential_2_mib * 512 / frames), 1) as "could be 2 MiB, %",
           round(100 * avg(potential_32_mib * 8192 / frames), 1) as "could be 32 MiB, %",
           round(100 * avg(potential_1_gib * 262144 / frames), 1) as "could be 1 GiB, %",
           round(100 * avg(unmovable_frames / frames), 1) as "unmovable, %",
           round(100 * sum(network_frames) / sum(unmovable_frames), 1) as "of that network, %"
    from read_parquet(?) group by all order by system, workload
"""


def figures(out: Path) -> Any:
    """Figures 2 and 5 of the Contiguitas paper over a study, as a relation of DuckDB.

    Raises MixedStudies if the parts are not of one study.
    """
    same_study(out)
    return duckdb.sql(FIGURES, params=[str(out / "part-*.parquet")])


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
