"""A study on a local Ray cluster of two nodes, of which one dies half-way.

Needs the command `prairie` in PRAIRIE; `make fleet-test` gives it.
"""

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

import prairie_fleet

PRAIRIE = os.environ["PRAIRIE"]
STUDY = ["--servers", "12", "--memory", "1G", "--days", "0.4", "--threads", "1"]
SHARDS = 6


def read(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*.parquet"))}


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
            target=lambda: ran.append(prairie_fleet.run(PRAIRIE, STUDY, SHARDS, tmp_path / "ray"))
        )
        ran: list[int] = []
        study.start()
        # Once a shard has ended, both nodes are at work on others.
        while not read(tmp_path / "ray"):
            time.sleep(0.05)
        cluster.remove_node(mortal, allow_graceful=False)
        study.join()
        assert ran == [SHARDS]
        # The head notices after some missed heartbeats.
        while len([node for node in ray.nodes() if node["Alive"]]) > 1:
            time.sleep(0.5)
        # Nothing is left to do the second time.
        assert prairie_fleet.run(PRAIRIE, STUDY, SHARDS, tmp_path / "ray") == 0
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert read(tmp_path / "ray") == read(alone)

    found = prairie_fleet.figures(tmp_path / "ray").fetchall()
    assert len(found) == 2 * 4 and sum(row[2] for row in found) == 24


def test_studies_are_not_mixed(tmp_path: Path) -> None:
    small = ["--servers", "2", "--memory", "256M", "--days", "0.02", "--threads", "1"]
    command = [PRAIRIE, "fleet", "run", "--out", str(tmp_path), "--shard", "0/2"]
    subprocess.run(command + small, check=True, capture_output=True)
    # Refused before anything runs, so that no cluster is needed.
    for arguments, shards in ((["--seed", "2"], 2), ([], 3)):
        with pytest.raises(prairie_fleet.MixedStudies):
            prairie_fleet.run(PRAIRIE, small + arguments, shards, tmp_path)
    part = tmp_path / "part-00000-of-00002.parquet"
    part.rename(tmp_path / "part-00001-of-00002.parquet")
    with pytest.raises(prairie_fleet.MixedStudies):
        prairie_fleet.figures(tmp_path)
