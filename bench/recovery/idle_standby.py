"""What a warm standby costs while it waits.

  .venv/bin/python bench/recovery/idle_standby.py

A job of two workers, one per core, with a standby and without, in turns. Prints one JSON object: the ratio of step times
once it is warm (every step takes part in training, so whatever the standby does is missing there), the processor time
that it took meanwhile as a share of one core, its memory beside a worker's, and how long it warmed up.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from rounds import spread, tell

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = HERE.parent / "train" / "bench.toml"
SETTINGS = ["train.micro_batch_size=4", "train.micro_batches=4", "evaluate.every_steps=0", "evaluate.micro_batches=1",
            "checkpoint.every_steps=0", "parallel.stages=2", "parallel.lanes=1", "protection.strategy=gradients"]
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def standby_of(out):
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "comm").read_text().strip() == "evermoe.standby" and \
                    out.encode() in (folder / "cmdline").read_bytes():
                return int(folder.name)
    return None


def steps_of(out):
    with contextlib.suppress(OSError):
        lines = [json.loads(line) for line in open(out + "/metrics.jsonl").read().splitlines()]
        return [line for line in lines if "seconds" in line]
    return []


def run(evermoe, standbys, steps):
    """Of a job whose standby, if it has one, is warm: seconds of each step from then on, and what the standby took."""
    folder = tempfile.mkdtemp(prefix="evermoe-bench-")
    out = folder + "/out"
    words = [word for s in [*SETTINGS, "train.steps=100000", f"run.standbys={standbys}"] for word in ("--set", s)]
    story = open(folder + "/story", "w+")
    job = subprocess.Popen([evermoe, "run", CONFIG, *words, "--out", out, "--json"], stdout=subprocess.DEVNULL, stderr=story)
    try:
        began, found = time.monotonic(), {}
        while standbys and "is warm" not in pathlib.Path(story.name).read_text():
            if job.poll() is not None or time.monotonic() > began + 600:
                raise SystemExit("no standby became warm:\n" + pathlib.Path(story.name).read_text()[-2000:])
            time.sleep(0.05)
        while len(steps_of(out)) < 3:
            time.sleep(0.1)
        first, start = len(steps_of(out)) + 1, time.monotonic()
        pid = standby_of(out) if standbys else None
        before = processor_seconds(pid) if pid else 0
        while len(steps_of(out)) < first + steps:
            if job.poll() is not None:
                raise SystemExit("the job ended:\n" + pathlib.Path(story.name).read_text()[-2000:])
            time.sleep(0.2)
        if pid:
            worker = json.load(open(out + "/workers.json"))["0.0"]
            found = {"core_share": (processor_seconds(pid) - before) / (time.monotonic() - start),
                     "warm_up_seconds": before, "memory_ratio": resident_bytes(pid) / resident_bytes(worker)}
        return [line["seconds"] for line in steps_of(out)[first:first + steps]], found
    finally:
        job.terminate()
        job.wait(timeout=300)
        story.close()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    evermoe = os.path.abspath(args.evermoe)
    ratios, founds = [], []
    for number in range(args.rounds):
        seconds = {}
        for standbys in ((1, 0) if number % 2 == 0 else (0, 1)):
            times, found = run(evermoe, standbys, args.steps)
            seconds[standbys] = statistics.median(times)
            founds += [found] if found else []
        ratios.append(seconds[1] / seconds[0])
        tell(f"round {number + 1} of {args.rounds}: a step {seconds[1]:.3f} s beside a standby, {seconds[0]:.3f} s without")
    print(json.dumps({"benchmark": "idle_standby", "step_ratio": spread(ratios, 5),
                      **{name: spread([found[name] for found in founds], 5) for name in founds[0]}}))


if __name__ == "__main__":
    main()
