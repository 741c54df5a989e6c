"""Every benchmark of docs/benchmarks.md, one after the other; one JSON object on stdout.

  .venv/bin/python bench/run.py             the full run, about an hour on 2 quiet cores
  .venv/bin/python bench/run.py --quick     toy sizes: shows that nothing has rotted

Needs `cmake --build build` and the packages of requirements-check.txt. Keep the machine quiet.
"""
import argparse
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def run(name, command):
    print(f"== {name}: {' '.join(map(str, command[1:]))}", file=sys.stderr, flush=True)
    done = subprocess.run(list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=3600)
    if done.returncode != 0:
        sys.exit(f"{name} failed with exit code {done.returncode}")
    return {"command": " ".join(map(str, command[1:])), "result": json.loads(done.stdout[done.stdout.index("{"):])}


def changes(transport, quick, *ranks):
    return run(f"changes_{transport}", ["./build/change_bench", "--transport", transport, "--ranks", *(ranks[:2] if quick else ranks),
                                        "--rounds", 1 if quick else 9])


def quick_times(quick):
    return ["--benchmark_min_time=0"] if quick else ["--benchmark_repetitions=3"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    python = sys.executable
    with tempfile.TemporaryDirectory(prefix="evermoe-bench-", dir=ROOT) as folder:
        report = {
            "machine": {"processor": processor(), "cores": len(__import__("os").sched_getaffinity(0)), "system": platform.platform()},
            "collectives": run("collectives", [python, "bench/comm/compare_with_gloo.py", "build/collectives_bench",
                                               *(["--rounds", 1, "--scale", 0.05] if args.quick else ["--rounds", 5])]),
            "overlap": run("overlap", ["./build/overlap_bench", *(["--rounds", 1, "--compute-ms", 20] if args.quick else [])]),
            "changes": [changes("unix", args.quick, 2, 4, 8, 16, 32, 64, 128), changes("ucx", args.quick, 2, 4, 8, 16, 32, 64, 128),
                        changes("simulated", args.quick, 32, 64, 128, 256, 1024, 4096)],
            "store": run("store", [python, "bench/checkpoint/compare.py", "--bench", "build/save_load_bench", "--directory", folder,
                                   *(["--rounds", 1, "--bytes", 64 << 20] if args.quick else [])]),
            "train": run("train", [python, "bench/train/compare_with_torch.py",
                                   *(["--rounds", 1, "--precision", "fp32", "--set", "train.micro_batches=2"] if args.quick else [])]),
            "two_stages": run("two_stages", [python, "bench/train/two_stages.py",
                                             *(["--rounds", 1, "--micro-batches", 2] if args.quick else [])]),
            "overhead": run("overhead", [python, "bench/recovery/overhead.py",
                                         *(["--rounds", 1, "--micro-batches", 2] if args.quick else [])]),
            "recoveries": run("recoveries", [python, "bench/recovery/recoveries.py", *(["--rounds", 1] if args.quick else [])]),
            "idle_standby": run("idle_standby", [python, "bench/recovery/idle_standby.py",
                                                 *(["--rounds", 1, "--steps", 3] if args.quick else [])]),
            "moves": run("moves", [python, "bench/recovery/moves.py", *(["--rounds", 1, "--together", 1] if args.quick else [])]),
            "rebalancing": run("rebalancing", [python, "bench/recovery/rebalancing.py",
                                               *(["--rounds", 1, "--every", 12] if args.quick else [])]),
            "over_a_link": run("over_a_link", [python, "bench/recovery/over_a_link.py", *(["--rounds", 1] if args.quick else [])]),
            "start": run("start", [python, "bench/control/start.py", "--json", *(["--runs", 1] if args.quick else [])]),
            "placement": run("placement", ["./build/placement_bench", "--benchmark_format=json", *quick_times(args.quick)]),
            "forecast": run("forecast", ["./build/forecast_bench", "--benchmark_format=json", *quick_times(args.quick)]),
        }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
