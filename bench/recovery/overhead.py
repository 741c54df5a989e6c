"""What protection costs while nothing fails.

  .venv/bin/python bench/recovery/overhead.py
  .venv/bin/python bench/recovery/overhead.py --blocks 0 --window 8 --set protection.strategy=gradients
  .venv/bin/python bench/recovery/overhead.py --blocks 0 --free-core --set protection.strategy=gradients

Two comparisons. *Inside one run* windows have gaps, so that steps with captures and steps without follow each
other in the same processes: blocks of one kind against the mean of the two beside them, so that a machine that
grows slower is slow for both. *Between runs*, in turns, a protected job against the same job without protection.
Prints one JSON object: ratios of step times with least and greatest; between runs the ratio of the processor time of
all processes, start and end included, which says what protection costs where all cores train and does not depend on
what else the machine does; of rank 0 what was copied, the processor
time of copying, how long the optimizer waited for captures and steps for copies, and the memory that was used.
Limit: here all cores train, so every byte that is captured, sent, checked and kept takes time from a step. With
--free-core they do not: the threads that train share core 0, and everything else has core 1, as where a machine has
cores beside its accelerators.
"""
import argparse
import contextlib
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

from rounds import spread, tell

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = HERE.parent / "train" / "bench.toml"
TARGET = 1.01
# Two workers, one per core. Large batches of small micro-batches, as real jobs have them.
SETTINGS = ["train.micro_batch_size=4", "evaluate.every_steps=0", "evaluate.micro_batches=1", "checkpoint.every_steps=0"]
SHAPES = {"2 stages": ["parallel.stages=2", "parallel.lanes=1"], "2 lanes": ["parallel.stages=1", "parallel.lanes=2"]}


FREE_CORE = 1  # the other one is 0
SECONDS_MAX = 1800


def pin_training(out):
    """The first thread of a worker trains; those that it starts begin beside it."""
    with contextlib.suppress(OSError, ValueError):
        for pid in json.load(open(out + "/workers.json")).values():
            for thread in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(int(thread), {0 if int(thread) == pid else FREE_CORE})


def play(command, out, has_free_core):
    """The job, to its end."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if has_free_core:
        os.sched_setaffinity(process.pid, {FREE_CORE})
    end = time.monotonic() + SECONDS_MAX
    while process.poll() is None:
        if time.monotonic() > end:
            process.kill()
            raise SystemExit(f"the job did not end: {command}")
        if has_free_core:
            pin_training(out)
        time.sleep(0.5)
    if process.returncode != 0:
        raise SystemExit(f"exit code {process.returncode}: {command}")


def run(evermoe, warmup, steps, settings, has_free_core=False):
    folder = tempfile.mkdtemp(prefix="evermoe-bench-")
    try:
        words = [word for s in [*SETTINGS, *settings, f"train.steps={steps + warmup}"] for word in ("--set", s)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        play([evermoe, "run", CONFIG, *words, "--out", folder + "/out", "--json"], folder + "/out", has_free_core)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        lines = [json.loads(line) for line in open(folder + "/out/metrics.jsonl")]
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return [line for line in lines if "seconds" in line][warmup:], processor
    finally:
        shutil.rmtree(folder)


def quantile(values, share):
    return sorted(values)[int(share * (len(values) - 1))]


def seconds(lines):
    return statistics.median(line["seconds"] for line in lines)


def inside_one_run(evermoe, name, args):
    """Step times with captures against without, block by block."""
    slots = 8
    shape = [*SHAPES[name], f"train.micro_batches={args.micro_batches}", f"protection.window={slots}",
             f"protection.window_every_steps={2 * slots}"]
    # The capture of a state runs beside the step that follows it.
    lines, _ = run(evermoe, 4 * slots, 2 * slots * args.blocks + slots, shape, args.free_core)
    blocks = [lines[at:at + slots] for at in range(0, len(lines) - slots + 1, slots)]
    with_captures = [b[0]["captured_bytes"] > 0 and b[-1]["captured_bytes"] > 0 for b in blocks]
    times = [statistics.median(line["seconds"] for line in b) for b in blocks]
    ratios = []
    for i in range(1, len(blocks) - 1):
        if with_captures[i] == with_captures[i - 1] or with_captures[i] == with_captures[i + 1]:
            continue
        beside = (times[i - 1] + times[i + 1]) / 2
        ratios.append(times[i] / beside if with_captures[i] else beside / times[i])
    captured = [line for b, c in zip(blocks, with_captures) if c for line in b]
    return {
        "shape": name,
        "blocks_of_steps": [slots, len(ratios)],
        "seconds_per_step": spread(times),
        "ratio": {**spread(ratios), "target": TARGET, "reached": statistics.median(ratios) <= TARGET},
        "copying_share": sum(line["copying_seconds"] for line in captured) / sum(line["seconds"] for line in captured),
        "captured_bytes_per_step": statistics.mean(line["captured_bytes"] for line in captured),
    }


def compare(evermoe, name, args):
    shape = [*SHAPES[name], f"train.micro_batches={args.micro_batches}"]
    protected = [*shape, f"protection.window={args.window}"]
    bare = [*shape, "protection.strategy=none"]
    # A window of 4 and one more until the length is chosen, then two of at most 8: until these are complete, memory is
    # taken from the system for the first time.
    warmup = 26 if args.window == "auto" else 2 * int(args.window) + 3
    on, off = [], []
    for number in range(args.rounds):
        turns = [lambda: on.append(run(evermoe, warmup, args.steps, protected, args.free_core)),
                 lambda: off.append(run(evermoe, warmup, args.steps, bare, args.free_core))]
        for turn in turns if number % 2 == 0 else reversed(turns):
            turn()
        tell(f"round {number + 1} of {args.rounds}, {name}: steps of {seconds(on[-1][0]):.3f} s protected, "
             f"{seconds(off[-1][0]):.3f} s bare")
    processor = [a / b for (_, a), (_, b) in zip(on, off)]
    on, off = [lines for lines, _ in on], [lines for lines, _ in off]
    every = [line for lines in on for line in lines]
    ratios = [seconds(a) / seconds(b) for a, b in zip(on, off)]
    # What disturbs a machine only makes steps longer: the faster steps say most about the rest.
    fast = {name: quantile([line["seconds"] for lines in runs for line in lines], 0.25) for name, runs in (("on", on), ("off", off))}
    return {
        "shape": name,
        "window": every[-1]["window_steps"],
        "seconds_per_step_protected": spread([seconds(lines) for lines in on]),
        "seconds_per_step_bare": spread([seconds(lines) for lines in off]),
        "ratio_of_processor_time": spread(processor),
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
    parser.add_argument("--blocks", type=int, default=8, help="of steps with captures, inside one run; 0: between runs only")
    parser.add_argument("--free-core", action="store_true", help="training has core 0 alone, all else core 1")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the job's configuration")
    parser.add_argument("--shape", action="append", choices=SHAPES)
    args = parser.parse_args()
    SETTINGS.extend([f"train.precision={args.precision}", *args.set])
    evermoe = os.path.abspath(args.evermoe)
    shapes = args.shape or SHAPES
    inside = [inside_one_run(evermoe, name, args) for name in shapes] if args.blocks > 0 else []
    between = [compare(evermoe, name, args) for name in shapes] if args.rounds > 0 else []
    print(json.dumps({"benchmark": "overhead", "inside_one_run": inside, "between_runs": between}))


if __name__ == "__main__":
    main()
