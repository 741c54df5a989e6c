#!/usr/bin/env python3
"""Bytes of partial-expert checkpoints on disk, by the number of experts that they hold.

    .venv/bin/python bench/experts/partial_checkpoints.py [--program build/evermoe] > data/results/partial-checkpoints.json

Real jobs of one small model, a GPT with 8 experts in every second layer, as PEC's: for each K six steps on four workers
with a checkpoint after every second one. The first and the last hold everything; counted are all files of the second, which
is whole for K = 8. Some seconds each.
"""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = "configs/gpt-moe-tiny.toml"
SETTINGS = ["model.layers=12", "model.hidden=128", "model.expert_hidden=512", "model.dense_hidden=512"]
RUN = ["train.steps=6", "parallel.stages=1", "parallel.lanes=4", "checkpoint.every_steps=2", "evaluate.every_steps=0",
       "protection.strategy=partial-experts", "protection.plt_max=1"]
EXPERTS = 8


def processor():
    with open("/proc/cpuinfo") as lines:
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def bytes_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def checkpoint_bytes(program, saved, folder):
    job = pathlib.Path(folder) / f"saved-{saved}"
    settings = [*SETTINGS, *RUN, f"protection.experts_saved={saved}"]
    command = [program, "run", ROOT / CONFIG, "--out", job, "--quiet", *(word for s in settings for word in ("--set", s))]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    (partial,) = (job / "checkpoints").glob("step-*4")
    return bytes_of(partial)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=ROOT / "build/evermoe", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evermoe-bench-") as folder:
        results = [{"experts_saved": saved, "bytes": checkpoint_bytes(arguments.program, saved, folder)}
                   for saved in (EXPERTS, 4, 2, 1)]
    print(json.dumps({"version": 1, "kind": "partial-checkpoints", "machine": f"{len(os.sched_getaffinity(0))} cores of an {processor()}",
                      "command": "`bench/experts/partial_checkpoints.py`", "config": CONFIG, "settings": SETTINGS,
                      "results": results}, indent=2))


if __name__ == "__main__":
    main()
