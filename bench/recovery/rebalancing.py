"""What it costs to put roles on other machines again and again (TrainMover's periodic rebalancing).

  .venv/bin/python bench/recovery/rebalancing.py

A job of two stages on two nodes and a spare trains for intervals of so many steps, in turns: in one
nothing happens, at the beginning of the other all roles of a node move to the spare one, where
standbys are warm: after the first move the processes that the roles have left. Then it is drained
and started again. Prints one JSON object: the share of an interval that is useful (the
seconds of one in which nothing happens, by those of the other one), the same if only the pause of
the move counted, as where a process that warms up takes no processors from others, and the same
with a restart in place of the move.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

from moves import AFTER, BEFORE, SECONDS_MAX, SETTINGS, STRATEGIES, Job, phases, restarted, workers
from rounds import spread, tell

EVERY = 207  # MoEtion's 10 minutes, in steps of its largest model (docs/experiments.md)


def interval(job, steps):
    """The seconds that so many steps take from now on."""
    job.wait_steps(1)
    began = time.monotonic()
    job.wait_steps(steps)
    return time.monotonic() - began


def wait_warm(evermoe, out, standbys):
    end = time.monotonic() + SECONDS_MAX
    while time.monotonic() < end:
        status = subprocess.run([evermoe, "status", out, "--json"], stdout=subprocess.PIPE, check=True)
        if sum(node["standbys"] for node in json.loads(status.stdout)["nodes"]) >= standbys:
            return
        time.sleep(0.5)
    raise SystemExit("no standby has become warm")


def rebalance(evermoe, out, stage):
    """Asks for it; what tells that it is done."""
    before, roles = workers(out), [f"{stage}.{lane}" for lane in range(2)]
    words = [word for role in roles for word in ("--role", role)]
    subprocess.run([evermoe, "move", out, *words], check=True, stdout=subprocess.DEVNULL)
    return lambda: all(workers(out).get(role) not in (None, before[role]) for role in roles)


def measure(evermoe, strategy, every, rounds, standbys):
    folder = tempfile.mkdtemp(prefix="evermoe-bench-")
    out = folder + "/out"
    try:
        job = Job(evermoe, out, [*SETTINGS, "parallel.stages=2", "parallel.lanes=2", "run.nodes=2", "run.spares=1",
                                 f"run.standbys={standbys}",
                                 f"protection.strategy={strategy}", *STRATEGIES[strategy]])
        job.start()
        job.wait_steps(BEFORE + AFTER)
        wait_warm(evermoe, out, standbys)
        still, moved = [interval(job, every)], []
        for number in range(rounds):
            is_done = rebalance(evermoe, out, number % 2)
            moved.append(interval(job, every))
            if not is_done():
                raise SystemExit(f"the move was not done within {every} steps")
            still.append(interval(job, every))
            tell(f"round {number + 1} of {rounds}: {every} steps with a move {moved[-1]:.1f} s, without one "
                 f"{still[-2]:.1f} and {still[-1]:.1f} s")
        usual = statistics.median(still) / every
        summary, restart = restarted(job, usual)
        moves = summary["moves"]
        if len(moves) != rounds or any(move["state"] != "done" for move in moves) or summary["failures"]:
            raise SystemExit(f"not all was as planned: {moves}, {summary['failures']}")
        return still, moved, moves, restart
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--strategy", default="sparse", choices=STRATEGIES)
    parser.add_argument("--every", type=int, default=EVERY, help="steps from one move to the next")
    parser.add_argument("--standbys", type=int, default=2, help="processes that are warm before the first move")
    args = parser.parse_args()
    still, moved, moves, restart = measure(os.path.abspath(args.evermoe), args.strategy, args.every, args.rounds,
                                           args.standbys)
    # Of the interval before and the one behind it, as machines change.
    useful = [(before + behind) / 2 for before, behind in zip(still, still[1:])]
    pauses = [move["pause_seconds"] for move in moves]
    print(json.dumps({
        "benchmark": "rebalancing", "strategy": args.strategy, "steps": args.every, "standbys": args.standbys,
        "interval_seconds": spread(still), "with_a_move_seconds": spread(moved),
        "ettr": spread([a / b for a, b in zip(useful, moved)]),
        "ettr_by_pause": spread([a / (a + pause) for a, pause in zip(useful, pauses)]),
        "ettr_by_restart": spread([a / (a + restart) for a in useful]),
        "pause_seconds": spread(pauses), "restart_seconds": restart,
        "phases": [phases(move) for move in moves],
        "prepared_seconds": spread([move["timeline"][1]["seconds"] - move["timeline"][0]["seconds"] for move in moves]),
    }))


if __name__ == "__main__":
    main()
