"""A study and a sweep on a local Ray cluster of two nodes, of which one dies half-way.

Needs the command `prairie` in PRAIRIE; `make fleet-test` gives it.
"""

import os
import subprocess
import threading
import time
from pathlib import Path

import duckdb
import pytest
import ray
from ray.cluster_utils import Cluster

import prairie
from prairie import ray as prairie_ray

PRAIRIE = os.environ["PRAIRIE"]
STUDY = ["--servers", "12", "--memory", "1G", "--days", "0.4", "--threads", "1"]
SHARDS = 6


def read(folder: Path) -> dict[str, list[object]]:
    """The rows of each part. Their metadata also names the command, and so the folder."""
    parts = sorted(folder.glob("part-*.parquet"))
    return {path.name: duckdb.read_parquet(str(path)).fetchall() for path in parts}


def test_a_node_that_dies_loses_nothing(tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    for index in range(SHARDS):
        command = [PRAIRIE, "fleet", "run", "--out", str(alone), "--shard", f"{index}/{SHARDS}"]
        subprocess.run(command + STUDY, check=True, capture_output=True)

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    mortal = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        study = threading.Thread(
            target=lambda: ran.append(prairie_ray.run(PRAIRIE, STUDY, SHARDS, tmp_path / "ray"))
        )
        ran: list[int] = []
        study.start()
        # Once a shard has ended, both nodes are at work on others.
        while not list((tmp_path / "ray").glob("part-*.parquet")):
            time.sleep(0.05)
        cluster.remove_node(mortal, allow_graceful=False)
        study.join()
        assert ran == [SHARDS]
        # The head notices after some missed heartbeats.
        while len([node for node in ray.nodes() if node["Alive"]]) > 1:
            time.sleep(0.5)
        # Nothing is left to do the second time.
        assert prairie_ray.run(PRAIRIE, STUDY, SHARDS, tmp_path / "ray") == 0
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert read(tmp_path / "ray") == read(alone)

    found = prairie_ray.figures(tmp_path / "ray").fetchall()
    assert len(found) == 2 * 4 and sum(row[2] for row in found) == 24


def test_studies_are_not_mixed(tmp_path: Path) -> None:
    small = ["--servers", "2", "--memory", "256M", "--days", "0.02", "--threads", "1"]
    command = [PRAIRIE, "fleet", "run", "--out", str(tmp_path), "--shard", "0/2"]
    subprocess.run(command + small, check=True, capture_output=True)
    # Refused before anything runs, so that no cluster is needed.
    for arguments, shards in ((["--seed", "2"], 2), ([], 3)):
        with pytest.raises(prairie_ray.MixedStudies):
            prairie_ray.run(PRAIRIE, small + arguments, shards, tmp_path)
    part = tmp_path / "part-00000-of-00002.parquet"
    part.rename(tmp_path / "part-00001-of-00002.parquet")
    with pytest.raises(prairie_ray.MixedStudies):
        prairie_ray.figures(tmp_path)


def slow_square(x: int) -> dict[str, int]:
    time.sleep(0.2)
    return {"value": x * x}


def quick_square(x: int, bad: int = -1) -> dict[str, int]:
    return {"value": x * x // (x != bad)}


def test_a_sweep_outlives_a_node(tmp_path: Path) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    mortal = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    journal = tmp_path / "journal"
    tables: list[prairie.Table] = []
    try:
        grid = {"x": range(40)}
        work = threading.Thread(
            target=lambda: tables.append(
                prairie.sweep(slow_square, grid, on="ray", journal=journal)
            )
        )
        work.start()
        # Once some runs have ended, both nodes are at work.
        while not journal.exists() or journal.read_bytes().count(b"\n") < 8:
            assert work.is_alive(), "the sweep ended early"
            time.sleep(0.05)
        cluster.remove_node(mortal, allow_graceful=False)
        work.join()
        again = prairie.sweep(slow_square, grid, on="ray", journal=journal)
        many = prairie.sweep(quick_square, {"x": range(1000)}, on="ray")
        with pytest.raises(prairie.SweepError, match="run with x=7, bad=7: ZeroDivisionError: "):
            prairie.sweep(quick_square, {"x": range(10), "bad": [7]}, on="ray")
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert many.column("value") == [x * x for x in range(1000)]
    assert tables[0].column("value") == again.column("value") == [x * x for x in range(40)]
