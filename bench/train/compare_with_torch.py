"""Training speed: one worker against a plain PyTorch program, and two workers against one.

  .venv/bin/python bench/train/compare_with_torch.py

Each round runs everything once, in turns, so that a machine that is slow for a while is slow for all.
Prints one JSON object: medians of tokens per second, medians of the rounds' ratios with least and
greatest. Limit: the matrix products; a worker waits for nothing else on one machine.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = HERE / "bench.toml"
WARMUP = 2
TARGETS = {"against_torch": 1.0, "scaling_1_to_2": 0.9, "scaling_1_to_2_balanced": 0.9}
# The same work per token with the same traffic, but every token goes to both experts, so to both lanes: what
# is lost then is lost by talking, not by routing.
BALANCED = ["model.experts=2"]


def ours(evermoe, lanes, steps, settings):
    folder = tempfile.mkdtemp(prefix="evermoe-bench-")
    try:
        words = [word for s in [*settings, "protection.strategy=none", f"parallel.lanes={lanes}", f"train.steps={steps + WARMUP}"] for word in ("--set", s)]
        subprocess.run([evermoe, "run", CONFIG, *words, "--out", folder + "/out", "--json"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=900)
        lines = [json.loads(line) for line in open(folder + "/out/metrics.jsonl")]
        rates = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
        return statistics.median(rates[WARMUP:])
    finally:
        shutil.rmtree(folder)


def theirs(evermoe, steps, settings):
    words = [word for s in settings for word in ("--set", s)]
    output = subprocess.check_output([sys.executable, HERE / "plain_torch.py", CONFIG, "--evermoe", evermoe, "--steps", str(steps),
                                      "--warmup", str(WARMUP), *words], text=True, timeout=900)
    return statistics.median(json.loads(output.strip().splitlines()[-1])["tokens_per_second"])


def spread(values):
    return {"median": round(statistics.median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}


def natural_tokens(evermoe, folder):
    """Shakespeare in 8192 pieces: settings that make a job train on it."""
    tokens, model = folder + "/text.tokens", folder + "/text.model"
    subprocess.run([evermoe, "tokenize", HERE.parents[1] / "data" / "tinyshakespeare.txt", "--out", tokens,
                    "--train-vocabulary", "8192", "--model", model], check=True, stdout=subprocess.DEVNULL, timeout=300)
    return [f"data.path={tokens}", f"data.tokenizer={model}"]


def compare(evermoe, precision, rounds, steps, data):
    settings = [f"train.precision={precision}", *data]
    one, two, torch = [], [], []
    one_balanced, two_balanced = [], []
    for number in range(rounds):
        turns = [lambda: one.append(ours(evermoe, 1, steps, settings)),
                 lambda: torch.append(theirs(evermoe, steps, settings)),
                 lambda: two.append(ours(evermoe, 2, steps, settings)),
                 lambda: one_balanced.append(ours(evermoe, 1, steps, settings + BALANCED)),
                 lambda: two_balanced.append(ours(evermoe, 2, steps, settings + BALANCED))]
        first = number % len(turns)
        for turn in turns[first:] + turns[:first]:
            turn()
    result = {
        "precision": precision,
        "one_worker_tokens_per_s": spread(one),
        "two_workers_tokens_per_s": spread(two),
        "torch_tokens_per_s": spread(torch),
        "against_torch": spread([a / b for a, b in zip(one, torch)]),
        "scaling_1_to_2": spread([b / (2 * a) for a, b in zip(one, two)]),
        "scaling_1_to_2_balanced": spread([b / (2 * a) for a, b in zip(one_balanced, two_balanced)]),
    }
    for name, target in TARGETS.items():
        result[name]["target"] = target
        result[name]["reached"] = result[name]["median"] >= target
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--precision", action="append")
    args = parser.parse_args()
    evermoe = os.path.abspath(args.evermoe)
    with tempfile.TemporaryDirectory(prefix="evermoe-bench-") as folder:
        data = natural_tokens(evermoe, folder)
        results = [compare(evermoe, p, args.rounds, args.steps, data) for p in args.precision or ["fp32", "bf16"]]
    print(json.dumps({"benchmark": "train", "results": results}))


if __name__ == "__main__":
    main()
