"""What a lost worker costs: sparse windows, dense snapshots at peers from which one stage or everybody goes back,
snapshots with the gradients since, the same with a warm standby, and restarts from durable checkpoints, the same kill.

  .venv/bin/python bench/recovery/recoveries.py

Each round kills the same role at the same step of a job of each kind, in turns. Prints one JSON object: the seconds lost
(between the last commit before the kill and the first new one, less an undisturbed step), the timeline from the kill to
the next commit, and the work that was run again, in steps of one rank.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from rounds import spread, tell

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
    "standby": ["protection.strategy=gradients", "protection.base_every_steps=4", "run.standbys=1"],
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


def seconds_lost(reached, kill_at):
    """`reached`: when each step was first committed; that it is run again after a restart changes nothing. The usual step is
    the median of all but the first, which is slow, and the one that the kill hits."""
    usual = statistics.median(reached[step + 1] - reached[step] for step in reached
                              if step + 1 in reached and step > 1 and step != kill_at)
    return reached[kill_at + 1] - reached[kill_at] - usual


def run(evermoe, kind, kill_at, steps):
    """The summary of a job whose role 1.0 is killed once step `kill_at` is committed, and the seconds lost."""
    folder = tempfile.mkdtemp(prefix="evermoe-bench-")
    out = folder + "/out"
    try:
        words = [word for s in [*SETTINGS, *KINDS[kind], f"train.steps={steps}", f"checkpoint.every_steps={CHECKPOINT_EVERY}"]
                 for word in ("--set", s)]
        with open(folder + "/summary", "w+") as printed:
            job = subprocess.Popen([evermoe, "run", CONFIG, *words, "--out", out, "--json"], stdout=printed,
                                   stderr=subprocess.DEVNULL, text=True)
            reached, began, is_killed = {}, time.monotonic(), False
            while job.poll() is None and time.monotonic() < began + 1800:
                step = newest_step(out)
                reached.setdefault(step, time.monotonic())
                if step >= kill_at and not is_killed:
                    os.kill(pid_of(out, "1.0"), 9)
                    is_killed = True
                time.sleep(0.02)
            if job.poll() != 0 or not is_killed:
                job.kill()
                raise SystemExit(f"the {kind} job did not end well")
            printed.seek(0)
            summary = json.loads(printed.read().strip().splitlines()[-1])
        return summary, seconds_lost(reached, kill_at)
    finally:
        shutil.rmtree(folder)


def steps_again(summary):
    """Of one rank."""
    failure = summary["failures"][0]
    if failure["restarted_from_step"] is not None:
        return (failure["step"] - failure["restarted_from_step"]) * STAGES * LANES
    return failure["recomputed_steps"] * LANES * len(failure["rolled_back_stages"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=18)
    parser.add_argument("--kinds", default="", help="some of " + ",".join(KINDS) + " (default: all)")
    args = parser.parse_args()
    evermoe = os.path.abspath(args.evermoe)
    kinds = args.kinds.split(",") if args.kinds else list(KINDS)
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"--kinds: found {', '.join(sorted(unknown))}, allowed: {', '.join(KINDS)}")
    all_of = {kind: [] for kind in kinds}
    for number in range(args.rounds):
        turn = number % len(kinds)
        for kind in kinds[turn:] + kinds[:turn]:
            # Anywhere between two checkpoints.
            summary, lost = run(evermoe, kind, 11 + 2 * number % 5, args.steps)
            all_of[kind].append((summary, lost))
            tell(f"round {number + 1} of {args.rounds}, {kind}: {lost:.2f} s lost, {steps_again(summary)} steps again")
    digests = {summary["digest"] for runs in all_of.values() for summary, _ in runs if summary["is_exact"]}
    results = {}
    for kind, runs in all_of.items():
        timelines = [summary["failures"][0]["timeline"] or {} for summary, _ in runs]
        results[kind] = {
            "seconds_lost": spread([lost for _, lost in runs]),
            "by_standby": all(summary["failures"][0]["standby"] for summary, _ in runs),
            "rank_steps_run_again": spread([steps_again(summary) for summary, _ in runs]),
            "timeline": {name: spread([t[name] for t in timelines]) for name in ("detect", "view", "load", "catch_up", "resume")
                         if all(t.get(name) is not None for t in timelines)},
        }
    print(json.dumps({"benchmark": "recoveries", "same_bits": len(digests) == 1, "results": results}))


if __name__ == "__main__":
    main()
