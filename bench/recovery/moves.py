"""What a planned move costs, and what it costs to drain the whole job and start it again, in the same job.

  .venv/bin/python bench/recovery/moves.py
  .venv/bin/python bench/recovery/moves.py --strategy sparse,gradients --layouts 2x1,2x2,2x4 --together 1,2

For every strategy, layout and number of roles that move together a job trains, so many roles of its last stage, which is
on a node of its own, move to a spare node, and when it has trained on it is drained and started again. Says what each job
gave, and prints one JSON object: how long the job stood for each (between the last commit before and the next one, less
a usual step; for a move a step at the same place of a window, because those in which one begins are longer), the moves'
phases, and the ratios.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

from recoveries import CONFIG, newest_step
from rounds import spread, tell

SETTINGS = ["train.precision=bf16", "train.micro_batches=4", "evaluate.every_steps=0", "evaluate.micro_batches=1",
            "train.steps=100000", "checkpoint.every_steps=1000"]
WINDOW = 4  # steps until the same is captured again
STRATEGIES = {"sparse": [f"protection.window={WINDOW}"], "gradients": [f"protection.base_every_steps={WINDOW}"],
              "dense": [f"protection.dense_every_steps={WINDOW}"],
              "peer-memory": [f"protection.dense_every_steps={WINDOW}"]}
BEFORE, AFTER = 8, 6  # steps that are trained before something is done, and after it
SECONDS_MAX = 600


class Job:
    def __init__(self, evermoe, out, settings):
        words = [word for setting in settings for word in ("--set", setting)]
        self.command = [evermoe, "run", str(CONFIG), *words, "--out", out, "--json"]
        self.evermoe, self.out = evermoe, out
        self.reached = {}

    def start(self):
        self.printed = open(self.out + "-summary", "w+")
        self.process = subprocess.Popen(self.command, stdout=self.printed, stderr=subprocess.DEVNULL, text=True)

    def wait_steps(self, count, condition=lambda: True):
        """Until so many more steps are done, and the condition holds."""
        first, end = newest_step(self.out), time.monotonic() + SECONDS_MAX
        while newest_step(self.out) < first + count or not condition():
            self.reached.setdefault(newest_step(self.out), time.monotonic())
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"the job did not train on: {self.command}")
            time.sleep(0.005)

    def drain(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=SECONDS_MAX)
        self.printed.seek(0)
        return json.loads(self.printed.read().strip().splitlines()[-1])

    def usual(self, like=None):
        """Of the steps that were watched; `like`: of those that follow a commit at the same place of a window as this one."""
        return statistics.median(self.reached[step + 1] - self.reached[step] for step in self.reached
                                 if step + 1 in self.reached and step > 1
                                 and (like is None or (step - like) % WINDOW == 0))


def workers(out):
    return json.load(open(out + "/workers.json"))


def restarted(job, usual):
    """Drains the job, starts it again and ends it: the summary until then, and for how long it stood, less a usual step."""
    began = time.monotonic()
    summary = job.drain()
    job.start()
    while newest_step(job.out) <= summary["steps"]:
        if job.process.poll() is not None or time.monotonic() > began + SECONDS_MAX:
            raise SystemExit("the job did not start again")
        time.sleep(0.005)
    restart = time.monotonic() - began - usual
    job.drain()
    return summary, restart


def measure(evermoe, strategy, layout, together):
    """A move as the summary has it, a usual step, and for how long the move and a restart stopped the job."""
    stages, lanes = (int(part) for part in layout.split("x"))
    folder = tempfile.mkdtemp(prefix="evermoe-bench-")
    out = folder + "/out"
    try:
        job = Job(evermoe, out, [*SETTINGS, f"parallel.stages={stages}", f"parallel.lanes={lanes}",
                                 f"run.nodes={stages}", "run.spares=1",
                                 f"protection.strategy={strategy}", *STRATEGIES[strategy]])
        job.start()
        job.wait_steps(BEFORE)
        # Of one node, so that their holders stay.
        roles = [f"{stages - 1}.{lane}" for lane in range(together)]
        before = workers(out)
        words = [word for role in roles for word in ("--role", role)]
        subprocess.run([evermoe, "move", out, *words], check=True, stdout=subprocess.DEVNULL)
        job.wait_steps(AFTER, lambda: all(workers(out).get(role) not in (None, before[role]) for role in roles))
        # What warms up beside it takes processors: the usual step is that of afterwards.
        job.reached.clear()
        job.wait_steps(5 * WINDOW)
        usual = job.usual()
        summary, restart = restarted(job, usual)
        (move,) = summary["moves"]
        if move["state"] != "done" or summary["failures"]:
            raise SystemExit(f"the move was {move['state']}: {move['reason']}")
        at = {moment["what"]: moment["seconds"] for moment in move["timeline"]}
        pause = at["next commit"] - at["last commit"] - job.usual(like=move["step"])
        return {"move": move, "usual": usual, "pause": max(pause, 0.001), "restart": max(restart, 0.001)}
    finally:
        shutil.rmtree(folder)


def phases(move):
    at = {moment["what"]: moment["seconds"] for moment in move["timeline"]}
    names = ["last commit", "handed over", "planned", "restored", "next commit"]
    return {f"{a} to {b}": at[b] - at[a] for a, b in zip(names, names[1:]) if a in at and b in at}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--strategy", default="sparse,gradients", help="some of " + ",".join(STRATEGIES))
    parser.add_argument("--layouts", default="2x2", help="stages x lanes")
    parser.add_argument("--together", default="1,2", help="roles that move at once")
    args = parser.parse_args()
    cases = [(strategy, layout, int(together)) for strategy in args.strategy.split(",")
             for layout in args.layouts.split(",") for together in args.together.split(",")]
    measured = {case: [] for case in cases}
    for number in range(args.rounds):
        turn = number % len(cases)
        for case in cases[turn:] + cases[:turn]:
            strategy, layout, together = case
            run = measure(os.path.abspath(args.evermoe), *case)
            measured[case].append(run)
            tell(f"round {number + 1} of {args.rounds}, {strategy} {layout}, {together} at once: a move "
                 f"{run['pause']:.3f} s, a restart {run['restart']:.2f} s, a step {run['usual']:.3f} s")
    results = []
    for (strategy, layout, together), runs in measured.items():
        named = [phases(run["move"]) for run in runs]
        results.append({
            "strategy": strategy, "layout": layout, "together": together,
            "usual_step_seconds": spread([run["usual"] for run in runs]),
            "pause_seconds": spread([run["pause"] for run in runs]),
            "restart_seconds": spread([run["restart"] for run in runs]),
            "restart_by_pause": spread([run["restart"] / run["pause"] for run in runs]),
            "megabytes": spread([run["move"]["bytes"] / 1e6 for run in runs]),
            "phases": {name: spread([one[name] for one in named]) for name in named[0]},
        })
    print(json.dumps({"benchmark": "moves", "results": results}))


if __name__ == "__main__":
    main()
