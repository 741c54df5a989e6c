"""Training speed: one worker against a careful PyTorch program, and two workers against one.

  .venv/bin/python bench/train/compare_with_torch.py

What is compared trains at the same time, in turns of a step (turns.py). Two workers are compared with one; the
machine's own limit is what two jobs of one worker reach that run at once and do not talk. Prints one JSON
object: medians of the rounds' ratios with least and greatest, and of tokens per second. Limit: the matrix
products; a worker waits for nothing else on one machine.
"""
import argparse
import ctypes.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import tomllib

from turns import Contender, ratios, spread, take_turns

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = HERE / "bench.toml"
PAIRS = {
    "against_torch": ("compiled_torch", "one_worker", 1),
    "gained_by_torch_compile": ("plain_torch", "compiled_torch", 1),
    "scaling_1_to_2": ("one_worker", "two_workers", 0.5),
    "scaling_of_two_jobs_apart": ("one_worker", "two_jobs_apart", 1),
    "gained_by_putting_off": ("two_workers_nothing_put_off", "two_workers", 1),
}
TARGETS = {"against_torch": 1.0, "scaling_1_to_2": 0.9}
# Stopped programs must not take each other for dead, and nobody comes to an end.
ENDLESS = ["train.steps=1000000", "run.deadline_seconds=3600", "protection.strategy=none"]


def words(settings):
    return [word for s in settings for word in ("--set", s)]


def ours(evermoe, settings, jobs=1):
    commands = [[evermoe, "run", CONFIG, *words([*settings, *ENDLESS]), "--out", f"FOLDER/{job}"] for job in range(jobs)]
    return lambda: Contender(commands, "FOLDER/0/metrics.jsonl", lambda line: '"seconds"' in line)


# What evermoe-worker has (src/tensor/host_memory.h): tcmalloc that gives nothing back, and large pages.
ALLOCATOR = ["env", f"LD_PRELOAD={ctypes.util.find_library('tcmalloc_minimal')}", "TCMALLOC_RELEASE_RATE=0",
             "THP_MEM_ALLOC_ENABLE=1"]


def theirs(evermoe, settings, *more):
    command = [*ALLOCATOR, sys.executable, HERE / "plain_torch.py", CONFIG, "--evermoe", evermoe, *words(settings), *more]
    return lambda: Contender([command])


def natural_tokens(evermoe, folder):
    """Shakespeare in 8192 pieces: settings that make a job train on it."""
    tokens, model = folder + "/text.tokens", folder + "/text.model"
    subprocess.run([evermoe, "tokenize", HERE.parents[1] / "data" / "tinyshakespeare.txt", "--out", tokens,
                    "--train-vocabulary", "8192", "--model", model], check=True, stdout=subprocess.DEVNULL, timeout=300)
    return [f"data.path={tokens}", f"data.tokenizer={model}"]


def tokens_per_step(evermoe, settings):
    config = tomllib.loads(subprocess.check_output([evermoe, "config", CONFIG, "--show", *words(settings)], text=True))
    return config["train"]["micro_batches"] * config["train"]["micro_batch_size"] * config["model"]["sequence_length"]


def contenders(evermoe, settings):
    return {
        "plain_torch": theirs(evermoe, settings),
        "compiled_torch": theirs(evermoe, settings, "--compile"),
        "one_worker": ours(evermoe, settings),
        "two_workers": ours(evermoe, [*settings, "parallel.lanes=2"]),
        "two_workers_nothing_put_off": ours(evermoe, [*settings, "parallel.lanes=2", "train.deferred_bytes=0B"]),
        "two_jobs_apart": ours(evermoe, settings, jobs=2),
    }


def compare_pair(tokens, start, pair, args):
    """How many times as fast as the first the second is, counting `share` of the first's time."""
    first, second, share = PAIRS[pair]
    seconds = take_turns({name: start[name] for name in (first, second)}, args.rounds, args.steps, warmup=2)
    result = spread(ratios([share * s for s in seconds[first]], seconds[second]))
    if pair in TARGETS:
        result |= {"target": TARGETS[pair], "reached": result["median"] >= TARGETS[pair]}
    return result | {"tokens_per_s": {name: round(tokens / statistics.median(values), 1) for name, values in seconds.items()}}


def compare(evermoe, settings, args):
    start, tokens = contenders(evermoe, settings), tokens_per_step(evermoe, settings)
    pairs = args.pair or PAIRS
    return {"settings": settings} | {pair: compare_pair(tokens, start, pair, args) for pair in pairs}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1, help="of one turn")
    parser.add_argument("--precision", action="append")
    parser.add_argument("--pair", action="append", choices=PAIRS, help="all of them if none is named")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the configuration")
    args = parser.parse_args()
    evermoe = os.path.abspath(args.evermoe)
    with tempfile.TemporaryDirectory(prefix="evermoe-bench-") as folder:
        data = natural_tokens(evermoe, folder)
        results = [compare(evermoe, [f"train.precision={p}", *args.set, *data], args) for p in args.precision or ["fp32", "bf16"]]
    print(json.dumps({"benchmark": "train", "results": results}))


if __name__ == "__main__":
    main()
