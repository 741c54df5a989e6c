"""What replicas by load are worth, and what they cost where loads are even.

  .venv/bin/python bench/experts/by_load.py

Jobs of one stage with experts that are most of the work, in turns so that a slow minute is slow for all: `static`
(every expert once, where it is), `by-load` (experts.replicas = "by-load") and, for comparison, `everywhere` (every
expert on every lane). Routing is drawn with the given skews (normalised HHI of the experts' popularity; 0: even).
Prints one JSON object: for each number of lanes and skew the ratios of tokens/s against `static` of the same round,
medians with the least and the greatest, and the busiest lane by the mean before and after the first move.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

CONFIG = pathlib.Path(__file__).resolve().parents[1] / "train" / "bench.toml"
EVERY = 6  # steps; experts move once at least before what is measured
SETTINGS = ["model.layers=2", "model.vocabulary=256", "model.expert_hidden=1024", "model.routing=synthetic",
            "train.micro_batches=4", "protection.strategy=none", f"experts.rebalance_every_steps={EVERY}"]
KINDS = {"static": [], "by-load": ["experts.replicas=by-load"], "everywhere": ["parallel.expert_replicas={lanes}"]}


def run(evermoe, kind, lanes, skew, steps):
    """Median tokens/s behind the first move, and the summary."""
    folder = tempfile.mkdtemp(prefix="evermoe-bench-")
    try:
        settings = [*SETTINGS, f"model.routing_skew={skew}", f"parallel.lanes={lanes}", f"train.steps={steps}",
                    *(setting.format(lanes=lanes) for setting in KINDS[kind])]
        words = [word for s in settings for word in ("--set", s)]
        done = subprocess.run([evermoe, "run", CONFIG, *words, "--out", folder + "/out", "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=1800)
        if done.returncode != 0:
            raise SystemExit(f"the {kind} job did not end well")
        lines = [json.loads(line) for line in open(folder + "/out/metrics.jsonl")]
        speed = [line["tokens_per_second"] for line in lines if "loss" in line and line["step"] > EVERY + 1]
        return statistics.median(speed), json.loads(done.stdout.strip().splitlines()[-1])
    finally:
        shutil.rmtree(folder)


def spread(values):
    return {"median": round(statistics.median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}


def measure(evermoe, lanes, skew, rounds, steps):
    ratios = {kind: [] for kind in KINDS if kind != "static"}
    speeds, moves = [], []
    for _ in range(rounds):
        speed = {}
        for kind in KINDS:
            speed[kind], summary = run(evermoe, kind, lanes, skew, steps)
            if kind == "by-load":
                moves = summary["rebalances"]
        speeds.append(speed["static"])
        for kind, values in ratios.items():
            values.append(speed[kind] / speed["static"])
    first = moves[0] if moves else {}
    return {"lanes": lanes, "skew": skew, "static_tokens_per_second": spread(speeds),
            **{kind: spread(values) for kind, values in ratios.items()},
            **{key: round(first[key], 3) for key in ("imbalance_before", "imbalance_after", "pause_seconds")
               if key in first}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--lanes", default="2,4")
    parser.add_argument("--skews", default="0,0.3,0.6,0.9")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=18)
    args = parser.parse_args()
    results = [measure(os.path.abspath(args.evermoe), int(lanes), float(skew), args.rounds, args.steps)
               for lanes in args.lanes.split(",") for skew in args.skews.split(",")]
    print(json.dumps({"benchmark": "experts by load", "results": results}))


if __name__ == "__main__":
    main()
