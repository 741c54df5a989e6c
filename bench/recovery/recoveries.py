"""What a lost worker costs: sparse windows, dense snapshots at peers from which one stage or everybody goes back,
snapshots with the gradients since, and restarts from durable checkpoints, the same kill.

  .venv/bin/python bench/recovery/recoveries.py

Each round kills the same role at the same step of a job of each kind, in turns. Prints one JSON object: seconds from
the kill until the job stood where it was, where they went, and the work that was run again, in steps of one
rank.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = HERE.parent / "train" / "bench.toml"
STAGES, LANES = 2, 2
SETTINGS = ["train.precision=bf16", "train.micro_batches=4", "evaluate.every_steps=0", "evaluate.micro_batches=1",
            f"parallel.stages={STAGES}", f"parallel.lanes={LANES}"]
CHECKPOINT_EVERY = 8
KINDS = {
    "sparse": ["protection.strategy=sparse", "protection.window=4"],
    "dense": ["protection.strategy=dense", "protection.dense_every_steps=4"],
    "gradients": ["protection.strategy=gradients", "protection.base_every_steps=4"],
    "peer-memory": ["protection.strategy=peer-memory", "protection.dense_every_steps=4"],
    "checkfreq": ["protection.strategy=checkfreq"],
    "partial-experts": ["protection.strategy=partial-experts"],
    "restart": ["protection.strategy=none"],
}


def pid_of(out, role):
    return json.load(open(out + "/workers.json"))[role]


def newest_step(out):
    try:
        lines = open(out + "/metrics.jsonl").read().splitlines()
        return json.loads(lines[-1])["step"]
    except (OSError, IndexError, ValueError, KeyError):
        return 0


def run(evermoe, kind, kill_at, steps):
    """The summary of a job whose role 1.0 is killed once step `kill_at` is committed."""
    folder = tempfile.mkdtemp(prefix="evermoe-bench-")
    out = folder + "/out"
    try:
        words = [word for s in [*SETTINGS, *KINDS[kind], f"train.steps={steps}", f"checkpoint.every_steps={CHECKPOINT_EVERY}"]
                 for word in ("--set", s)]
        job = subprocess.Popen([evermoe, "run", CONFIG, *words, "--out", out, "--json"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
        while newest_step(out) < kill_at:
            if job.poll() is not None:
                raise SystemExit(f"the {kind} job ended before step {kill_at}")
            subprocess.run(["sleep", "0.02"])
        os.kill(pid_of(out, "1.0"), 9)
        text, _ = job.communicate(timeout=1800)
        return json.loads(text.strip().splitlines()[-1])
    finally:
        shutil.rmtree(folder)


def steps_again(summary):
    """Of one rank."""
    failure = summary["failures"][0]
    if failure["restarted_from_step"] is not None:
        return (failure["step"] - failure["restarted_from_step"]) * STAGES * LANES
    return failure["recomputed_steps"] * LANES * len(failure["rolled_back_stages"])


def spread(values):
    return {"median": round(statistics.median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=18)
    args = parser.parse_args()
    evermoe = os.path.abspath(args.evermoe)
    all_of = {kind: [] for kind in KINDS}
    for number in range(args.rounds):
        order = list(KINDS)
        turn = number % len(order)
        for kind in order[turn:] + order[:turn]:
            # Anywhere between two checkpoints.
            all_of[kind].append(run(evermoe, kind, 11 + 2 * number % 5, args.steps))
    digests = {summary["digest"] for summaries in all_of.values() for summary in summaries if summary["is_exact"]}
    results = {}
    for kind, summaries in all_of.items():
        timelines = [s["failures"][0]["timeline"] or {} for s in summaries]
        results[kind] = {
            "seconds_lost": spread([s["failures"][0]["seconds_lost"] for s in summaries]),
            "rank_steps_run_again": spread([steps_again(s) for s in summaries]),
            "timeline": {name: spread([t[name] for t in timelines]) for name in ("detect", "view", "load", "catch_up", "resume")
                         if all(t.get(name) is not None for t in timelines)},
        }
    print(json.dumps({"benchmark": "recoveries", "same_bits": len(digests) == 1, "results": results}))


if __name__ == "__main__":
    main()
