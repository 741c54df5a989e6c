"""How soon a slow role is found, whether one is found that is none, and what a straggler costs with and without a move.

  .venv/bin/python bench/recovery/stragglers.py
  .venv/bin/python bench/recovery/stragglers.py --undisturbed-steps 10000 --rounds 6 --job-rounds 2

Three parts; prints one JSON object. `undisturbed`: small jobs in which nothing happens train so many steps, and who was
taken for a straggler. `found`: in jobs of two lanes one computes 1.2 times as long from a step on; after how many steps
it was named. `job`: TrainMover's Fig. 13, a role that is slower by a fifth from step 75 of 100 on, in turns: nothing
happens, people are told, it moves; seconds for the 100 steps, and how much of the efficiency is lost. Nothing else should
run on the machine.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from recoveries import CONFIG
from rounds import tell

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL, TINY = ROOT / "tests" / "jobs" / "job.toml", ROOT / "configs" / "tiny.toml"
QUIET = ("evaluate.every_steps=0", "evaluate.micro_batches=1", "checkpoint.every_steps=100000")
TWO_LANES = ("parallel.stages=1", "parallel.lanes=2", "train.micro_batches=2", "train.precision=bf16", "protection.window=2")
SLOW_FROM, STEPS_MAX = 101, 145
JOB_STEPS, JOB_SLOW_FROM = 100, 75


def run(evermoe, config, settings, slow=None):
    """The summary of a job, and the steps of its metrics. `slow`: a role, a factor and the first step."""
    folder = tempfile.mkdtemp(prefix="evermoe-bench-")
    try:
        words = [word for setting in (*QUIET, *settings) for word in ("--set", setting)]
        if slow is not None:
            (stage, lane), factor, step = slow
            script = folder + "/faults.toml"
            with open(script, "w") as file:
                file.write(f'[[fault]]\nkind = "slow_worker"\nstage = {stage}\nlane = {lane}\n'
                           f"factor = {factor}\nstep = {step}\n")
            words += ["--faults", script]
        done = subprocess.run([evermoe, "run", str(config), *words, "--out", folder + "/out", "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        with open(folder + "/out/metrics.jsonl") as file:
            steps = [one for one in map(json.loads, file) if "loss" in one]
        return json.loads(done.stdout.strip().splitlines()[-1]), steps
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def undisturbed(evermoe, steps):
    found = {}
    for name, config, count in (("2x2, steps of 0.02 s", SMALL, steps), ("2x2, steps of 0.1 s", TINY, steps // 10)):
        summary, _ = run(evermoe, config, [f"train.steps={count}", "run.nodes=2"])
        found[name] = {"steps": count, "stragglers": summary["stragglers"]}
    return found


def found(evermoe, rounds, factor):
    after = []
    for number in range(rounds):
        role = (0, number % 2)
        summary, _ = run(evermoe, CONFIG, [f"train.steps={STEPS_MAX}", *TWO_LANES, "run.nodes=2"],
                         (role, factor, SLOW_FROM))
        named = {one["role"]: one["step"] - SLOW_FROM + 1 for one in summary["stragglers"]}
        if set(named) - {f"0.{role[1]}"}:
            raise SystemExit(f"others were named: {summary['stragglers']}")
        after.append(named.get(f"0.{role[1]}"))
        tell(f"round {number + 1} of {rounds}: named after {after[-1]} steps")
    return {"factor": factor, "steps_until_named": after}


def seconds_of(steps, first):
    return sum(one["seconds"] for one in steps if one["step"] >= first)


def job(evermoe, rounds, factor, micro_batches, standbys):
    settings = [f"train.steps={JOB_STEPS}", *TWO_LANES, f"train.micro_batches={micro_batches}", "run.nodes=2", "run.spares=1",
                f"run.standbys={standbys}", "stragglers.for_steps=8"]
    slow = ((0, 1), factor, JOB_SLOW_FROM)
    kinds = {"undisturbed": ([], None), "told": ([], slow), "moved": (["stragglers.action=move"], slow)}
    seconds = {kind: [] for kind in kinds}
    moves = []
    for number in range(rounds):
        for kind, (more, what) in kinds.items():
            summary, steps = run(evermoe, CONFIG, [*settings, *more], what)
            seconds[kind].append(seconds_of(steps, 2))  # the first step warms up
            moves += summary["moves"]
            tell(f"round {number + 1} of {rounds}, {kind}: {seconds[kind][-1]:.1f} s")
    median = {kind: statistics.median(values) for kind, values in seconds.items()}
    lost = {kind: statistics.median(1 - u / s for u, s in zip(seconds["undisturbed"], values))
            for kind, values in seconds.items() if kind != "undisturbed"}
    return {"factor": factor, "standbys": standbys, "slow_from": JOB_SLOW_FROM, "steps": JOB_STEPS, "seconds": median,
            "efficiency_lost": lost, "moves": [{key: one[key] for key in ("state", "step", "pause_seconds")} for one in moves]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evermoe", default=os.environ.get("EVERMOE", str(ROOT / "build" / "evermoe")))
    parser.add_argument("--undisturbed-steps", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--job-rounds", type=int, default=2)
    parser.add_argument("--job-micro-batches", type=int, default=8, help="of a step: how long it takes")
    parser.add_argument("--job-standbys", type=int, default=1, help="processes that are warm before")
    parser.add_argument("--factor", type=float, default=1.2)
    options = parser.parse_args()
    result = {}
    if options.undisturbed_steps > 0:
        result["undisturbed"] = undisturbed(options.evermoe, options.undisturbed_steps)
    if options.rounds > 0:
        result["found"] = found(options.evermoe, options.rounds, options.factor)
    if options.job_rounds > 0:
        result["job"] = job(options.evermoe, options.job_rounds, options.factor, options.job_micro_batches,
                            options.job_standbys)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
