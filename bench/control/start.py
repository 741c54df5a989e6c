#!/usr/bin/env python3
"""What a controller and an agent cost: time from exec until they work, and memory.

    python3 bench/control/start.py [--program build/evermoe] [--runs 10] [--json]

A job of many nodes starts one agent on each, and a lost controller is replaced while the job runs, so both have to be
small and quick: the target is an agent of less than 20 MB that is attached within 50 ms. Started is what a user's job
starts: a controller until it listens, then an agent until that answers it. Memory is /proc/PID/smaps_rollup's: Rss
counts every page that is mapped and present, Pss shares pages among the processes that map them. Medians of all runs.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 30


def memory(pid):
    """Rss and Pss of a process, in kB."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {name: int(re.search(rf"^{name}:\s+(\d+) kB", rollup, re.M).group(1)) for name in ("Rss", "Pss")}


class Started:
    """A process of the control plane, from exec until its log has `word`; ended with the block."""

    def __init__(self, command, word, log):
        with open(log, "w") as out:
            began = time.monotonic()
            self.process = subprocess.Popen([str(c) for c in command], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        while word not in log.read_text():
            if self.process.poll() is not None or time.monotonic() > began + DEADLINE_SECONDS:
                self.process.kill()
                sys.exit(f"{command[1]} does not come up:\n{log.read_text()}")
            time.sleep(0.0005)
        self.milliseconds = 1000 * (time.monotonic() - began)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def facts(self):
        pid = self.process.pid
        return {"ms": self.milliseconds, "threads": len(os.listdir(f"/proc/{pid}/task")), **memory(pid)}


def control_plane(program, folder, number=0):
    """A controller and one agent of a job in `folder`, which nobody else may search: both as context managers, the agent
    made by a call."""
    config = folder / "config.toml"
    config.write_text("[parallel]\nstages = 2\nlanes = 2\n[run]\nnodes = 2\n")
    (folder / "logs").mkdir(exist_ok=True)
    address = f"unix:{folder}/controller-{number}"
    controller = Started([program, "controller-process", "--config", config, "--address", address], "listens",
                         folder / "controller.log")
    return controller, lambda: Started(
        [program, "agent-process", "--config", config, "--out", folder, "--node", "0", "--controller", address,
         "--address", address + "-agent", "--worker", "/bin/true"], "a controller answers", folder / "agent.log")


def measure(program, runs):
    facts = {"controller": [], "agent": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(runs):
            controller, agent = control_plane(program, pathlib.Path(folder), number)
            with controller, agent() as agent:
                facts["controller"].append(controller.facts())
                facts["agent"].append(agent.facts())
    return {name: {key: statistics.median(row[key] for row in rows) for key in rows[0]} for name, rows in facts.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build" / "evermoe")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure(arguments.program, arguments.runs)
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{'':12}{'start':>10}{'Rss':>12}{'Pss':>12}{'threads':>9}")
    for name, row in result.items():
        print(f"{name:12}{row['ms']:7.0f} ms{row['Rss'] / 1000:9.1f} MB{row['Pss'] / 1000:9.1f} MB{row['threads']:9.0f}")


if __name__ == "__main__":
    main()
