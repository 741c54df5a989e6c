"""What it costs to shrink and to grow: a node is lost and one comes later, the same each round.

  .venv/bin/python bench/recovery/elastic.py

Two stages of three lanes on six nodes, all on this machine. Prints one JSON object. Every step's seconds come from
metrics.jsonl; a pause is what the step in question took longer than the median of the steps with as many lanes:
`loss` of the step in which the node is lost, `shrink` and `grow` of the first step on other lanes, `wake` of the last two
before `grow`, in which a role that rests moves to the newcomer, and `newcomer` of those before that, in which the
newcomer's machine is measured and a process becomes warm there, on the cores that all share here. `tokens_share`: tokens/s with five nodes against six, of the same
run; the processes of all nodes share this machine's cores, so that says how well they are used, not what a machine is
worth.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from rounds import spread, tell

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = HERE.parent / "train" / "bench.toml"
LOST, BACK = 10, 20
SETTINGS = ["train.precision=bf16", "train.micro_batches=6", "evaluate.every_steps=0", "evaluate.micro_batches=1",
            "checkpoint.every_steps=0", "parallel.stages=2", "parallel.lanes=3", "protection.copies=2",
            "run.nodes=6", "elastic.enabled=true", "elastic.grow_wait_seconds=0"]
FAULTS = f"""
[[fault]]
kind = "lose_node"
node = 1
step = {LOST}

[[fault]]
kind = "return_node"
node = 1
step = {BACK}
"""


def run(evermoe, config, settings, script):
    """A job with these faults: its metrics by step, and the summary."""
    folder = tempfile.mkdtemp(prefix="evermoe-bench-")
    try:
        faults = pathlib.Path(folder) / "faults.toml"
        faults.write_text(script)
        words = [word for s in settings for word in ("--set", s)]
        done = subprocess.run([evermoe, "run", config, *words, "--faults", faults, "--out", folder + "/out", "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=1800)
        if done.returncode != 0:
            raise SystemExit(f"a job did not end well: {done.stderr.strip().splitlines()[-1:]}")
        summary = json.loads(done.stdout.strip().splitlines()[-1])
        lines = [json.loads(line) for line in open(folder + "/out/metrics.jsonl")]
        return {line["step"]: line for line in lines if "loss" in line}, summary
    finally:
        shutil.rmtree(folder)


def figures(steps, summary):
    changes = [change["step"] for change in summary["membership_history"]]
    if len(changes) < 3:
        raise SystemExit("the lanes did not change twice; more --steps?")
    shrunk, grown = changes[1], changes[-1]
    usual = {
        "before": statistics.median(steps[s]["seconds"] for s in range(3, LOST)),
        "fewer": statistics.median(steps[s]["seconds"] for s in range(shrunk + 2, BACK)),
    }
    slow = lambda s, of: steps[s]["seconds"] - usual[of]  # noqa: E731
    tokens = lambda a, b: statistics.median(steps[s]["tokens_per_second"] for s in range(a, b))  # noqa: E731
    return {
        "step_seconds": usual["before"],
        "loss": max(slow(s, "before") for s in range(LOST + 1, shrunk + 1)),
        "shrink": slow(shrunk + 1, "fewer"),
        "newcomer": max((slow(s, "fewer") for s in range(BACK, grown - 1)), default=0),
        "wake": max(slow(s, "fewer") for s in range(max(BACK, grown - 1), grown + 1)),
        "grow": slow(grown + 1, "before"),
        "steps_run_again": max(f["recomputed_steps"] for f in summary["failures"]),
        "tokens_share": tokens(shrunk + 2, BACK) / tokens(3, LOST),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=36)
    parser.add_argument("--strategies", default="gradients,sparse")
    args = parser.parse_args()
    results = {}
    for strategy in args.strategies.split(","):
        settings = [*SETTINGS, f"protection.strategy={strategy}", f"train.steps={args.steps}"]
        rounds = []
        for number in range(args.rounds):
            rounds.append(figures(*run(os.path.abspath(args.evermoe), CONFIG, settings, FAULTS)))
            tell(f"round {number + 1} of {args.rounds}, {strategy}: {rounds[-1]}")
        results[strategy] = {name: spread([r[name] for r in rounds]) for name in rounds[0]}
    print(json.dumps({"benchmark": "elastic", "results": results}))


if __name__ == "__main__":
    main()
