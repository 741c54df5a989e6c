"""What protection costs while nothing fails.

  .venv/bin/python bench/recovery/overhead.py
  .venv/bin/python bench/recovery/overhead.py --free-core --micro-batches 4

A job without protection and the same job with each strategy train at the same time, in turns of a window
(bench/train/turns.py): a machine that is slow for a while is slow for all of them. Prints one JSON object: of each
strategy the ratio of step times and of processor time to those of the bare job, by turns and of all together; of rank
0 what was captured, the processor time of copying, how long the optimizer waited for captures and steps for copies,
and the memory that was used. The control is one more bare job: processes of the same program differ for as long as
they live, so a ratio says nothing that is nearer to 1 than the control's. Limit: where all cores train, every byte
that is captured, sent, checked and kept takes time from a step. With --free-core they do not: the threads that train
share core 0, and everything else has core 1, as where a machine has cores beside its accelerators.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "train"))
from rounds import spread, tell  # noqa: E402
from turns import Contender, ratios, session_members, take_turns  # noqa: E402

CONFIG = HERE.parent / "train" / "bench.toml"
TARGET = 1.01
WINDOW = 8
CONTROL = "control"
STRATEGIES = {"sparse": [f"protection.window={WINDOW}"], "gradients": [f"protection.base_every_steps={WINDOW}"]}
SHAPES = {"2 stages": ["parallel.stages=2", "parallel.lanes=1"], "2 lanes": ["parallel.stages=1", "parallel.lanes=2"]}
# Two workers, one per core, and large batches of small micro-batches, as real jobs have them. Stopped programs must not
# take each other for dead, and nobody comes to an end.
SETTINGS = ["train.micro_batch_size=4", "evaluate.every_steps=0", "evaluate.micro_batches=1", "checkpoint.every_steps=0",
            "train.steps=1000000", "run.deadline_seconds=3600"]
# Two windows and one more, until memory is no longer taken from the system for the first time.
WARMUP = 3 * WINDOW + 3
FREE_CORE = 1  # the other one is 0
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid):
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(fields[11]) + int(fields[12])) / TICKS


def pin(pid, trains):
    """The first thread of a worker trains; nothing else of a job does."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread), {0 if trains and int(thread) == pid else FREE_CORE})


class Job(Contender):
    def __init__(self, evermoe, settings, has_free_core):
        words = [word for setting in settings for word in ("--set", setting)]
        self.has_free_core = has_free_core
        self.processor = []  # seconds of all its processes, per step of each turn
        self.lines = []      # of metrics.jsonl, when it has ended
        super().__init__([[evermoe, "run", CONFIG, *words, "--out", "FOLDER/out"]], "FOLDER/out/metrics.jsonl",
                         lambda line: '"seconds"' in line)

    def members(self):
        return session_members(self.programs[0].pid)

    def processor_seconds(self):
        return sum(processor_seconds(pid) for pid in self.members())

    def pin(self):
        with contextlib.suppress(OSError, ValueError):
            workers = json.loads(pathlib.Path(self.in_folder("FOLDER/out/workers.json")).read_text()).values()
            for pid in self.members():
                pin(pid, pid in workers)

    def turn(self, steps):
        if self.has_free_core:
            self.pin()
        before, first = self.processor_seconds(), self.steps
        seconds = super().turn(steps)
        self.processor.append((self.processor_seconds() - before) / (self.steps - first))
        return seconds

    def end(self):
        with contextlib.suppress(OSError):
            lines = [json.loads(line) for line in self.steps_file.read_text().splitlines()]
            self.lines = [line for line in lines if "seconds" in line][WARMUP:]
        super().end()


def counted(lines, usual):
    """What rank 0 says of its steps; of times those that were not stopped meanwhile."""
    whole = [line for line in lines if line["seconds"] < 1.5 * usual]
    share = lambda name: round(sum(line[name] for line in whole) / sum(line["seconds"] for line in whole), 6)  # noqa: E731
    return {
        "copying_share": share("copying_seconds"),  # of one core
        "optimizer_waited_share": share("read_wait_seconds"),
        "steps_waited_share": share("copy_wait_seconds"),
        "captured_bytes_per_step": round(statistics.mean(line["captured_bytes"] for line in lines)),
        "snapshot_bytes_max": max(line["snapshot_bytes"] for line in lines),
        "log_bytes_max": max(line["log_bytes"] for line in lines),
    }


def compared(seconds, jobs, name):
    ratio = ratios(seconds[name], seconds["none"])
    processor = ratios(jobs[name].processor[1:], jobs["none"].processor[1:])
    return {
        "ratio": {**spread(ratio), "target": TARGET, "reached": statistics.median(ratio) <= TARGET},
        "ratio_of_all": round(sum(seconds[name]) / sum(seconds["none"]), 4),
        "ratio_of_processor_time": spread(processor),
        "seconds_per_step": spread(seconds[name]),
        **counted(jobs[name].lines, statistics.median(seconds[name])),
    }


def measure(evermoe, shape, args):
    settings = [*SETTINGS, *SHAPES[shape], f"train.micro_batches={args.micro_batches}", f"train.precision={args.precision}",
                *args.set]
    jobs = {}

    def start(name):
        strategy = "none" if name == CONTROL else name
        jobs[name] = Job(evermoe, [*settings, f"protection.strategy={strategy}", *STRATEGIES.get(name, [])], args.free_core)
        return jobs[name]

    names = ["none", CONTROL, *args.strategy.split(",")]
    seconds = take_turns({name: lambda name=name: start(name) for name in names}, args.rounds, WINDOW, WARMUP)
    result = {"shape": shape, "free_core": args.free_core, "seconds_per_bare_step": spread(seconds["none"]),
              CONTROL: {"ratio": spread(ratios(seconds[CONTROL], seconds["none"])),
                        "ratio_of_all": round(sum(seconds[CONTROL]) / sum(seconds["none"]), 4)},
              **{name: compared(seconds, jobs, name) for name in names[2:]}}
    tell(f"{shape}: " + ", ".join(f"{name} {result[name]['ratio']['median']}" for name in names[1:]))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--micro-batches", type=int, default=16)
    parser.add_argument("--free-core", action="store_true", help="training has core 0 alone, all else core 1")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--strategy", default=",".join(STRATEGIES), help="some of " + ",".join(STRATEGIES))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the job's configuration")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="default: 2 stages")
    args = parser.parse_args()
    if unknown := set(args.strategy.split(",")) - set(STRATEGIES):
        parser.error(f"--strategy: found {', '.join(sorted(unknown))}, allowed: {', '.join(STRATEGIES)}")
    results = [measure(os.path.abspath(args.evermoe), shape, args) for shape in args.shape or ["2 stages"]]
    print(json.dumps({"benchmark": "overhead", "results": results}))


if __name__ == "__main__":
    main()
