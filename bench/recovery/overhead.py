"""What protection costs while nothing fails: steps of a protected job against steps of the same job without.

  .venv/bin/python bench/recovery/overhead.py

Each round runs both jobs, in turns, so that a machine that is slow for a while is slow for both. Prints one
JSON object: median seconds of a step, medians of the rounds' ratios with least and greatest; of rank 0 what
was copied, how long the optimizer waited for captures and steps for copies, and the memory that was used.
Limit: here all cores train, so every byte that is captured, sent, checked and kept takes time from a step.
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
TARGET = 1.01
# Two workers, one per core. Large batches of small micro-batches, as real jobs have them.
SETTINGS = ["train.precision=bf16", "train.micro_batch_size=4", "evaluate.every_steps=0", "evaluate.micro_batches=1",
            "checkpoint.every_steps=0"]
SHAPES = {"2 stages": ["parallel.stages=2", "parallel.lanes=1"], "2 lanes": ["parallel.stages=1", "parallel.lanes=2"]}


def run(evermoe, warmup, steps, settings):
    folder = tempfile.mkdtemp(prefix="evermoe-bench-")
    try:
        words = [word for s in [*SETTINGS, *settings, f"train.steps={steps + warmup}"] for word in ("--set", s)]
        subprocess.run([evermoe, "run", CONFIG, *words, "--out", folder + "/out", "--json"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=1800)
        lines = [json.loads(line) for line in open(folder + "/out/metrics.jsonl")]
        return [line for line in lines if "seconds" in line][warmup:]
    finally:
        shutil.rmtree(folder)


def spread(values):
    return {"median": round(statistics.median(values), 4), "min": round(min(values), 4), "max": round(max(values), 4)}


def quantile(values, share):
    return sorted(values)[int(share * (len(values) - 1))]


def seconds(lines):
    return statistics.median(line["seconds"] for line in lines)


def compare(evermoe, name, args):
    shape = [*SHAPES[name], f"train.micro_batches={args.micro_batches}"]
    protected = [*shape, f"protection.window={args.window}"]
    bare = [*shape, "protection.strategy=none"]
    # A window of 4 and one more until the length is chosen, then two of at most 8: until these are complete, memory is
    # taken from the system for the first time.
    warmup = 26 if args.window == "auto" else 2 * int(args.window) + 3
    on, off = [], []
    for number in range(args.rounds):
        turns = [lambda: on.append(run(evermoe, warmup, args.steps, protected)), lambda: off.append(run(evermoe, 3, args.steps, bare))]
        for turn in turns if number % 2 == 0 else reversed(turns):
            turn()
    every = [line for lines in on for line in lines]
    ratios = [seconds(a) / seconds(b) for a, b in zip(on, off)]
    # What disturbs a machine only makes steps longer: the faster steps say most about the rest.
    fast = {name: quantile([line["seconds"] for lines in runs for line in lines], 0.25) for name, runs in (("on", on), ("off", off))}
    return {
        "shape": name,
        "window": every[-1]["window_steps"],
        "seconds_per_step_protected": spread([seconds(lines) for lines in on]),
        "seconds_per_step_bare": spread([seconds(lines) for lines in off]),
        "ratio_of_lower_quartiles": round(fast["on"] / fast["off"], 4),
        "ratio": {**spread(ratios), "target": TARGET, "reached": statistics.median(ratios) <= TARGET},
        # Of one core: low in noise, and where all cores train it is what protection takes from them.
        "copying_share": sum(line["copying_seconds"] for line in every) / sum(line["seconds"] for line in every),
        "optimizer_waited_share": sum(line["read_wait_seconds"] for line in every) / sum(line["seconds"] for line in every),
        "steps_waited_share": sum(line["copy_wait_seconds"] for line in every) / sum(line["seconds"] for line in every),
        "log_bytes_max": max(line["log_bytes"] for line in every),
        "snapshot_bytes_max": max(line["snapshot_bytes"] for line in every),
        "copied_bytes_per_step": statistics.mean(line["captured_bytes"] for line in every),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--window", default="auto")
    parser.add_argument("--micro-batches", type=int, default=16)
    parser.add_argument("--shape", action="append", choices=SHAPES)
    args = parser.parse_args()
    evermoe = os.path.abspath(args.evermoe)
    results = [compare(evermoe, name, args) for name in args.shape or SHAPES]
    print(json.dumps({"benchmark": "overhead", "results": results}))


if __name__ == "__main__":
    main()
