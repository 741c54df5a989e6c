"""What a lost worker and a lost machine cost when the machines are connected by a line of a given speed and delay.

  .venv/bin/python bench/recovery/over_a_link.py

Three machines, one of them a spare, as in tests/machines: network namespaces on an Ethernet in user space, whose lines
are made as slow and as late as asked. Every round plays each line and each loss in turns. Prints one JSON object: for
each the seconds from the loss until it was noticed, the new view was planned, the state was gathered, the steps had run
again and the job made its next commit, and what the line itself achieves (round trip, bytes a second of one stream).
"""
import argparse
import json
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "machines"))

from machines import Cluster, in_namespaces  # noqa: E402
from rounds import spread, tell  # noqa: E402

CONFIG = HERE.parent / "train" / "bench.toml"
SETTINGS = ["parallel.stages=2", "parallel.lanes=2", "train.precision=bf16", "train.micro_batches=4", "protection.window=4",
            "evaluate.every_steps=0", "evaluate.micro_batches=1"]
LINES = {
    "unshaped": {},
    "10 Gbit/s, 1 ms": dict(bytes_per_second=1.25e9, delay_seconds=0.001),
    "1 Gbit/s, 1 ms": dict(bytes_per_second=1.25e8, delay_seconds=0.001),
}
LOSSES = ["worker", "machine"]
PHASES = ("detect", "view", "load", "catch_up", "resume")
MTU = 65000  # so that a thread of Python moves gigabits

SINK = """
import socket
line = socket.create_server(("", 7000)).accept()[0]
line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for _ in range(50): line.sendall(line.recv(1))
while line.recv(1 << 20): pass
"""
SOURCE = """
import socket, statistics, time
line = socket.create_connection(("10.77.0.1", 7000)); block = bytes(1 << 20)
line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
trips = []
for _ in range(50):
    began = time.monotonic(); line.sendall(b"."); line.recv(1); trips.append(time.monotonic() - began)
began = time.monotonic()
for _ in range(256): line.sendall(block)
line.shutdown(socket.SHUT_WR); line.recv(1)
print(statistics.median(trips), (256 << 20) / (time.monotonic() - began), flush=True)
"""


def line_itself(fields):
    """Round trip in milliseconds, megabytes a second."""
    with Cluster(unittest.TestCase(), 2, mtu=MTU) as cluster:
        cluster.slow_down(**fields)
        out = cluster.folder / "line"
        cluster.machines[1].start([sys.executable, "-c", SINK], "/dev/null", "/dev/null", {})
        pid = cluster.machines[2].start([sys.executable, "-c", SOURCE], out, out, {})
        while cluster.machines[2].exit_code_of(pid) is None:
            subprocess.run(["sleep", "0.1"])
        trip, speed = map(float, out.read_text().split())
        return {"round_trip_ms": round(1e3 * trip, 2), "megabytes_a_second": round(speed / 1e6)}


def play(fields, loss, at_step, steps):
    """The failure's entry in the summary, and the digest."""
    test = unittest.TestCase()
    try:
        with Cluster(test, 3, mtu=MTU) as cluster:
            cluster.slow_down(**fields)
            job = cluster.train(*SETTINGS, f"train.steps={steps}", "checkpoint.every_steps=0", spares=1, config=CONFIG)
            job.wait_step(at_step)
            if loss == "machine":
                cluster.kill_machine(2)
            else:
                job.kill_worker("1.0")
        assert job.summary.get("status") == "finished" and len(job.summary["failures"]) == 1, job.story()
        return job.summary["failures"][0], job.summary["digest"]
    finally:
        test.doCleanups()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=18)
    args = parser.parse_args()
    lines = {name: line_itself(fields) for name, fields in LINES.items()}
    played = {(name, loss): [] for name in LINES for loss in LOSSES}
    digests = set()
    for number in range(args.rounds):
        for (name, loss), failures in played.items():
            failure, digest = play(LINES[name], loss, 11 + 2 * number % 5, args.steps)
            failures.append(failure)
            digests.add(digest)
            tell(f"round {number + 1}: {name}, {loss} lost: {failure['timeline']}")
    results = {f"{name}: {loss} lost": {phase: spread([f["timeline"][phase] for f in failures]) for phase in PHASES
                                       if all(f["timeline"].get(phase) is not None for f in failures)}
               for (name, loss), failures in played.items()}
    print(json.dumps({"benchmark": "over_a_link", "same_bits": len(digests) == 1, "lines": lines, "results": results}))


if __name__ == "__main__":
    in_namespaces(main)
