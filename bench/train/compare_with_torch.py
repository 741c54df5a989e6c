"""Training speed: one worker against a plain PyTorch program, and two workers against one.

  .venv/bin/python bench/train/compare_with_torch.py

All programs train at the same time, in turns of a step (turns.py). Two workers are compared with one; the
machine's own limit is what two jobs of one worker reach that run at once and do not talk. Prints one JSON
object: medians of tokens per second, medians of the rounds' ratios with least and greatest. Limit: the matrix
products; a worker waits for nothing else on one machine.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib

from turns import Contender, ratios, spread, take_turns

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = HERE / "bench.toml"
TARGETS = {"against_torch": 1.0, "scaling_1_to_2": 0.9}
# Stopped programs must not take each other for dead, and nobody comes to an end.
ENDLESS = ["train.steps=1000000", "run.deadline_seconds=3600", "protection.strategy=none"]


def words(settings):
    return [word for s in settings for word in ("--set", s)]


def ours(evermoe, settings, jobs=1):
    commands = [[evermoe, "run", CONFIG, *words([*settings, *ENDLESS]), "--out", f"FOLDER/{job}"] for job in range(jobs)]
    return lambda: Contender(commands, "FOLDER/0/metrics.jsonl", lambda line: '"seconds"' in line)


def theirs(evermoe, settings):
    return lambda: Contender([[sys.executable, HERE / "plain_torch.py", CONFIG, "--evermoe", evermoe, *words(settings)]])


def natural_tokens(evermoe, folder):
    """Shakespeare in 8192 pieces: settings that make a job train on it."""
    tokens, model = folder + "/text.tokens", folder + "/text.model"
    subprocess.run([evermoe, "tokenize", HERE.parents[1] / "data" / "tinyshakespeare.txt", "--out", tokens,
                    "--train-vocabulary", "8192", "--model", model], check=True, stdout=subprocess.DEVNULL, timeout=300)
    return [f"data.path={tokens}", f"data.tokenizer={model}"]


def tokens_per_step(evermoe, settings):
    config = tomllib.loads(subprocess.check_output([evermoe, "config", CONFIG, "--show", *words(settings)], text=True))
    return config["train"]["micro_batches"] * config["train"]["micro_batch_size"] * config["model"]["sequence_length"]


def compare(evermoe, settings, args):
    seconds = take_turns({
        "one_worker": ours(evermoe, settings),
        "plain_torch": theirs(evermoe, settings),
        "two_workers": ours(evermoe, [*settings, "parallel.lanes=2"]),
        "two_workers_nothing_put_off": ours(evermoe, [*settings, "parallel.lanes=2", "train.deferred_bytes=0B"]),
        "two_jobs_apart": ours(evermoe, settings, jobs=2),
    }, args.rounds, args.steps, warmup=2)
    tokens = tokens_per_step(evermoe, settings)
    half = [s / 2 for s in seconds["one_worker"]]
    result = {
        "settings": settings,
        "tokens_per_s": {name: round(tokens / spread(values)["median"], 1) for name, values in seconds.items()},
        "against_torch": spread(ratios(seconds["plain_torch"], seconds["one_worker"])),
        "scaling_1_to_2": spread(ratios(half, seconds["two_workers"])),
        "scaling_1_to_2_nothing_put_off": spread(ratios(half, seconds["two_workers_nothing_put_off"])),
        "scaling_of_two_jobs_apart": spread(ratios(seconds["one_worker"], seconds["two_jobs_apart"])),
    }
    for name, target in TARGETS.items():
        result[name]["target"] = target
        result[name]["reached"] = result[name]["median"] >= target
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=1, help="of one turn")
    parser.add_argument("--precision", action="append")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the configuration")
    args = parser.parse_args()
    evermoe = os.path.abspath(args.evermoe)
    with tempfile.TemporaryDirectory(prefix="evermoe-bench-") as folder:
        data = natural_tokens(evermoe, folder)
        results = [compare(evermoe, [f"train.precision={p}", *args.set, *data], args) for p in args.precision or ["fp32", "bf16"]]
    print(json.dumps({"benchmark": "train", "results": results}))


if __name__ == "__main__":
    main()
