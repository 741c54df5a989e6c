"""How do our collectives compare with Gloo's, on the same machine at the same time?

Runs collectives_bench and gloo_bench.py in turn, several rounds, and compares within each round, so
that a machine that is slow for a while is slow for both. Prints one JSON object: per call and size
the median time of each and the median of the rounds' ratios (Gloo's time / ours: above 1 we are
faster), with the least and the greatest. Run it with a Python that has torch.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

TARGETS = {("all_reduce", 4 << 10): 2.0, ("all_reduce", 256 << 10): 2.0, ("all_reduce", 16 << 20): 1.0}


def run(command):
    environment = dict(os.environ, UCX_MEM_EVENTS="n", UCX_HANDLE_ERRORS="none")
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=300)
    report = json.loads(done.stdout.strip().splitlines()[-1])
    return {(result["call"], result["bytes"]): result["us"] for result in report["results"]}


def compare(key, rounds):
    ratios = [theirs[key] / ours[key] for ours, theirs in rounds]
    result = {
        "call": key[0],
        "bytes": key[1],
        "ours_us": round(statistics.median(ours[key] for ours, _ in rounds), 1),
        "gloo_us": round(statistics.median(theirs[key] for _, theirs in rounds), 1),
        "ratio": round(statistics.median(ratios), 2),
        "ratio_min": round(min(ratios), 2),
        "ratio_max": round(max(ratios), 2),
    }
    if key in TARGETS:
        result["target"] = TARGETS[key]
        result["reached"] = result["ratio"] >= TARGETS[key]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bench", help="path of collectives_bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--transport", default="unix")
    parser.add_argument("--scale", type=float, default=1)
    args = parser.parse_args()
    common = ["--ranks", str(args.ranks), "--scale", str(args.scale)]
    gloo = [sys.executable, str(pathlib.Path(__file__).with_name("gloo_bench.py"))] + common
    ours = [args.bench, "--transport", args.transport] + common
    rounds = []
    for round_number in range(args.rounds):
        # Who goes first alternates.
        if round_number % 2 == 0:
            rounds.append((run(ours), run(gloo)))
        else:
            theirs = run(gloo)
            rounds.append((run(ours), theirs))
    print(json.dumps({
        "ranks": args.ranks,
        "cores": os.cpu_count(),
        "transport": args.transport,
        "rounds": args.rounds,
        "results": [compare(key, rounds) for key in rounds[0][0]],
    }, indent=1))


if __name__ == "__main__":
    main()
