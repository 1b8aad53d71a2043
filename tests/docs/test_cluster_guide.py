"""The invocations of docs/cluster.md: a harvest by several workers, and a job of two machines on one run folder."""

import socket
from pathlib import Path

import pytest

from quadric.cli import main
from quadric.run.telemetry import read_metrics
from tests import fresh_process
from tests.tiny_runs import flags, make_tiny_world, train_command

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def torchrun_flags() -> list[str]:
    """The flags of torchrun on the page, in the order in which they stand there."""
    command = PAGE.read_text().partition("torchrun --nnodes")[2].partition("-m quadric")[0]
    return ["--nnodes", *command.replace("\\\n", " ").split()]


def test_two_machines_train_what_one_process_trains(tmp_path: Path) -> None:
    """Both machines are this one; they meet by the c10d rendezvous over the loopback interface."""
    world, cache = make_tiny_world(tmp_path), tmp_path / "cache"
    harvest = ("harvest", *flags(world), "--layers", "2", "--tokens", "1500", "--out", str(cache))
    for shard in ("1/2", "0/2"):
        assert main([*harvest, "--sequences-per-shard", "4", "--shard", shard]) == 0
    given = {"$HEAD:29500": f"127.0.0.1:{free_port()}", "$JOB": "test", "8": "1"}
    command = [given.get(word, word) for word in torchrun_flags()]
    assert given.keys() <= set(torchrun_flags()), "the page has other flags"
    train = train_command(world, tmp_path / "two", "--cache", str(cache))
    torchrun = fresh_process.module("torch.distributed.run")
    running = [fresh_process.start(torchrun, *command, "-m", "quadric", *train) for _ in range(2)]
    nodes = [node.wait() for node in running]
    assert [node.returncode for node in nodes] == [0, 0], "\n".join(node.stderr for node in nodes)
    assert sum("8 of 8 steps" in node.stderr for node in nodes) == 1, "one machine reports"
    assert main(train_command(world, tmp_path / "one", "--cache", str(cache))) == 0
    alone, shared = read_metrics(tmp_path / "one"), read_metrics(tmp_path / "two")
    assert [line["tokens"] for line in alone] == [line["tokens"] for line in shared]
    for one, two in zip(alone, shared, strict=True):
        assert one["error"] == pytest.approx(two["error"], rel=1e-3)
