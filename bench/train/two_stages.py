"""What a pipeline of two stages makes of two cores when every boundary message is 4 MiB.

  .venv/bin/python bench/train/two_stages.py [--before PATH_OF_ANOTHER_EVERMOE]

Hidden 1024 and 1,024 tokens a micro-batch in fp32: activations and gradients of 4 MiB cross the boundary,
many times what a socket buffers. One worker, two stages and two jobs of one worker that do not talk (the
machine's own limit) train at the same time, in turns of a step (turns.py). m micro-batches fill two stages for
2m of m + 1 times, so two stages are ideally 2m / (m + 1) times as fast as one worker; what counts is the
share of that. Prints one JSON object: medians of the rounds with least and greatest.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics

from turns import Contender, ratios, spread, take_turns

HERE = pathlib.Path(__file__).resolve().parent
TARGET = 0.95
TOKENS = 1024
SHAPE = ["model.hidden=1024", "model.layers=2", "model.heads=8", "model.kv_heads=8", "model.head_dim=128",
         "model.vocabulary=256", "model.expert_hidden=512", "train.micro_batch_size=8", "train.precision=fp32"]
# Stopped programs must not take each other for dead, and nobody comes to an end.
ENDLESS = ["train.steps=1000000", "run.deadline_seconds=3600", "protection.strategy=none"]


def job(evermoe, settings, jobs=1):
    words = [word for s in [*SHAPE, *ENDLESS, *settings] for word in ("--set", s)]
    commands = [[os.path.abspath(evermoe), "run", HERE / "bench.toml", *words, "--out", f"FOLDER/{i}"] for i in range(jobs)]
    return lambda: Contender(commands, "FOLDER/0/metrics.jsonl", lambda line: '"seconds"' in line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--before", help="another build, whose two stages take turns with these")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the configuration")
    args = parser.parse_args()
    settings = [f"train.micro_batches={args.micro_batches}", *args.set]
    start = {"one_worker": job(args.evermoe, settings), "two_stages": job(args.evermoe, [*settings, "parallel.stages=2"])}
    if args.before:
        start["two_stages_before"] = job(args.before, [*settings, "parallel.stages=2"])
    start["two_jobs_apart"] = job(args.evermoe, settings, jobs=2)
    seconds = take_turns(start, args.rounds, steps=1, warmup=1)
    ideal = 2 * args.micro_batches / (args.micro_batches + 1)
    shares = {name: spread(ratios(seconds["one_worker"], [ideal * s for s in values]))
              for name, values in seconds.items() if name.startswith("two_stages")}
    tokens = args.micro_batches * TOKENS
    print(json.dumps({
        "benchmark": "two_stages", "boundary_bytes": TOKENS * 1024 * 4, "micro_batches": args.micro_batches,
        "machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0],
        "share_of_ideal": shares, "target": TARGET,
        "machine_limit": spread(ratios(seconds["one_worker"], seconds["two_jobs_apart"])),
        "tokens_per_s": {name: round(tokens / statistics.median(values), 1) for name, values in seconds.items()},
        "seconds": {name: spread(values) for name, values in seconds.items()},
    }))


if __name__ == "__main__":
    main()
