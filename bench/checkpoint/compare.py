"""Durable checkpoints against dd and against torch.distributed.checkpoint, interleaved.

  .venv/bin/python bench/checkpoint/compare.py --bench build/save_load_bench --directory /tmp/store-bench

Each round runs everything once, so that a disk that gets slower meets all alike. Prints one JSON
object: medians in seconds, and medians of the rounds' ratios. Nothing is left in the directory.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DD_VARIANTS = {
    "direct_4M": ["bs=4M", "oflag=direct", "conv=fsync"],
    "direct_16M": ["bs=16M", "oflag=direct", "conv=fsync"],
    "cached_4M": ["bs=4M", "conv=fsync"],
    "cached_16M": ["bs=16M", "conv=fsync"],
}


def json_lines(command):
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=900).stdout.decode()
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def dd_seconds(source, target, arguments):
    if os.path.exists(target):
        os.remove(target)
    start = time.perf_counter()
    subprocess.run(["dd", f"if={source}", f"of={target}", *arguments], check=True,
                   stderr=subprocess.DEVNULL, timeout=600)
    seconds = time.perf_counter() - start
    os.remove(target)
    return seconds


def random_file(path, size):
    with open(path, "wb") as file:
        for _ in range(0, size, 1 << 24):
            file.write(os.urandom(1 << 24))


def one_round(options, source):
    """Everything once; the first inner round of each program warms its memory up and is dropped."""
    directory = os.path.join(options.directory, "data")
    figures = {}
    for ranks in (4, 1):
        command = [options.bench, "--directory", directory, "--ranks", str(ranks),
                   "--bytes", str(options.bytes), "--rounds", "2"]
        for key, value in json_lines(command)[-1].items():
            if key.endswith("_s"):
                figures[f"evermoe_{ranks}_{key}"] = value
    for name, arguments in DD_VARIANTS.items():
        figures[f"dd_{name}_s"] = dd_seconds(source, os.path.join(options.directory, "dd"), arguments)
    if not options.no_dcp:
        command = [sys.executable, os.path.join(HERE, "dcp_bench.py"), "--directory", directory,
                   "--bytes", str(options.bytes), "--rounds", "2"]
        for key, value in json_lines(command)[-1].items():
            if key.endswith("_s"):
                figures[f"dcp_4_{key}"] = value
    return figures


def ratio(rounds, above, below):
    return round(statistics.median(figures[above] / figures[below] for figures in rounds), 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--bytes", type=int, default=1 << 30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-dcp", action="store_true", help="where there is no torch")
    options = parser.parse_args()
    os.makedirs(options.directory, exist_ok=True)
    # In memory, so that dd reads nothing from the disk it writes to.
    source = f"/dev/shm/evermoe-dd-{os.getpid()}"
    try:
        random_file(source, options.bytes)
        rounds = [one_round(options, source) for _ in range(options.rounds)]
    finally:
        os.remove(source)
        shutil.rmtree(options.directory, ignore_errors=True)
    medians = {key: round(statistics.median(figures[key] for figures in rounds), 4) for key in rounds[0]}
    best_dd = min((key for key in medians if key.startswith("dd_")), key=medians.get)
    summary = {"machine": platform.platform(), "cores": os.cpu_count(), "bytes": options.bytes,
               "rounds": options.rounds, "medians": medians, "best_dd": best_dd}
    # Above 1: faster than the other.
    summary["save_speed_against_best_dd"] = {
        str(ranks): ratio(rounds, best_dd, f"evermoe_{ranks}_save_s") for ranks in (4, 1)}
    if not options.no_dcp:
        summary["speed_against_dcp"] = {
            "save": ratio(rounds, "dcp_4_save_s", "evermoe_4_save_s"),
            "async_stall": ratio(rounds, "dcp_4_async_stall_s", "evermoe_4_stall_s"),
            "async_total": ratio(rounds, "dcp_4_async_total_s", "evermoe_4_save_s"),
            "load_cold": ratio(rounds, "dcp_4_load_cold_s", "evermoe_4_load_cold_s"),
            "load_warm": ratio(rounds, "dcp_4_load_warm_s", "evermoe_4_load_warm_s"),
        }
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
