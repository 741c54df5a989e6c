#!/usr/bin/env python3
"""What failures do to what a model learns, with each strategy: the same job of 2,000 steps, and the same kills.

    .venv/bin/python bench/experts/accuracy_study.py [--program build/evermoe] [--kept FILE] > data/results/accuracy.json

One run without failures, one with each exact strategy, whose digest must be the same to the last bit, and partial-expert
checkpoints of K = 1, 2, 4 and 8 of 8 experts, with all experts in memory as well (two levels) and without. Each kill takes
one worker, at steps that all runs share. Held-out text is evaluated in the end. Half an hour on two cores; progress is on
standard error. With --kept every finished run is kept in FILE, and a study that was interrupted goes on from there.
"""
import argparse
import json
import os
import pathlib
import platform
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = "configs/tiny.toml"
EXPERTS = 8
STAGES = LANES = 2
EXACT = {
    "sparse": [],
    "gradients": [],
    "dense": ["protection.dense_every_steps=4"],
    "peer-memory": ["protection.dense_every_steps=4"],
    "checkfreq": [],
    "none": [],
}


def processor():
    with open("/proc/cpuinfo") as lines:
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def kills(steps, count, seed):
    """A fault script: one worker each time, evenly spread with some luck."""
    luck = random.Random(seed)
    text = ""
    for i in range(count):
        step = int((i + 0.25 + 0.5 * luck.random()) * steps / count)
        text += (f'[[fault]]\nkind = "kill_worker"\nstage = {luck.randrange(STAGES)}\nlane = {luck.randrange(LANES)}\n'
                 f'step = {step}\npoint = "step/backward"\n\n')
    return text


def run(arguments, name, settings, faults, folder):
    out = pathlib.Path(folder) / name
    common = [f"train.steps={arguments.steps}", f"checkpoint.every_steps={arguments.save_every}", "evaluate.every_steps=0",
              "evaluate.micro_batches=all", "run.restarts_max=100"]
    command = [arguments.program, "run", ROOT / CONFIG, "--out", out, "--quiet", "--json",
               *(word for s in [*common, *settings] for word in ("--set", s))]
    if faults:
        script = pathlib.Path(folder) / f"{name}.toml"
        script.write_text(faults)
        command += ["--faults", script]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=3600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    summary = json.loads(done.stdout.splitlines()[-1])
    result = {"name": name, "settings": settings, "kills": faults.count("[[fault]]"),
              **{key: summary[key] for key in ("strategy", "is_exact", "digest", "lost_token_share", "final_loss",
                                               "validation_loss", "validation_accuracy", "seconds")}}
    print(f"{name}: loss {result['validation_loss']:.4f}, accuracy {result['validation_accuracy']:.4f}, "
          f"{100 * result['lost_token_share']:.2f} % of the tokens lost, {result['seconds']:.0f} s", file=sys.stderr)
    return result


def runs(faults):
    """Name, settings and faults of each run."""
    yield "undisturbed", ["protection.strategy=none"], ""
    for strategy, settings in EXACT.items():
        yield strategy, [f"protection.strategy={strategy}", *settings], faults
    for saved in (1, 2, 4, EXPERTS):
        for levels in (1, 2) if saved < EXPERTS else (1,):
            in_memory = saved if levels == 1 else 0
            yield f"partial-{saved}-levels-{levels}", [
                "protection.strategy=partial-experts", "protection.plt_max=1", f"protection.experts_saved={saved}",
                f"protection.experts_in_memory={in_memory}"], faults


class Kept:
    """Finished runs of this study, in a file: its first line says which study that is, the others a run each."""

    def __init__(self, path, study):
        self.path = path
        self.runs = {}
        if path is None:
            return
        lines = path.read_text().splitlines() if path.exists() else []
        if lines and json.loads(lines[0]) != study:
            sys.exit(f"{path} is of another study: {lines[0]}")
        self.runs = {each["name"]: each for each in map(json.loads, lines[1:])}
        if not lines:
            self.append(study)

    def append(self, line):
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")

    def run(self, name, settings, faults, arguments, folder):
        if name not in self.runs:
            self.runs[name] = run(arguments, name, settings, faults, folder)
            self.append(self.runs[name])
        return self.runs[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/evermoe", type=pathlib.Path)
    parser.add_argument("--steps", default=2000, type=int)
    parser.add_argument("--save-every", default=20, type=int, metavar="STEPS")
    parser.add_argument("--kills", default=8, type=int)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--kept", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    faults = kills(arguments.steps, arguments.kills, arguments.seed)
    build = subprocess.run([arguments.program, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    kept = Kept(arguments.kept, {"build": build, "steps": arguments.steps, "save_every": arguments.save_every,
                                 "kills": arguments.kills, "seed": arguments.seed})
    with tempfile.TemporaryDirectory(prefix="evermoe-bench-") as folder:
        results = [kept.run(*each, arguments, folder) for each in runs(faults)]
    wrong = [each["name"] for each in results if each["is_exact"] and each["digest"] != results[0]["digest"]]
    if wrong:
        sys.exit(f"not the bits of the undisturbed run: {', '.join(wrong)}")
    print(json.dumps({"version": 1, "kind": "accuracy", "machine": f"{len(os.sched_getaffinity(0))} cores of an {processor()}",
                      "command": "`bench/experts/accuracy_study.py`", "config": CONFIG, "steps": arguments.steps,
                      "save_every_steps": arguments.save_every, "kills": arguments.kills, "results": results}, indent=2))


if __name__ == "__main__":
    main()
