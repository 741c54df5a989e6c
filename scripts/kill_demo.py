"""Trains the tiny model twice, once undisturbed and once with a worker killed by SIGKILL, and compares
the digests of the two final states. Exits 0 if they are equal."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

EVERMOE, CONFIG = "build/evermoe", "configs/tiny.toml"
OUT = pathlib.Path("out/kill-demo")
ROLE, KILL_AT_STEP = "1.0", 35


def start(out):
    return subprocess.Popen([EVERMOE, "run", CONFIG, "--out", str(out), "--json"], stdout=subprocess.PIPE, text=True)


def finish(run):
    lines = run.communicate()[0].strip().splitlines()
    if run.returncode != 0 or not lines:
        sys.exit("the run failed: see above")
    return json.loads(lines[-1])


def newest_step(out):
    try:
        return json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["step"]
    except (OSError, IndexError, ValueError, KeyError):
        return 0


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    print("\n== a run that is never disturbed")
    undisturbed = finish(start(OUT / "undisturbed"))
    print(f"\n== the same run; worker {ROLE} (stage 1, lane 0) gets kill -9 after step {KILL_AT_STEP}")
    out = OUT / "killed"
    run = start(out)
    while newest_step(out) < KILL_AT_STEP and run.poll() is None:
        time.sleep(0.01)
    pid = json.loads((out / "workers.json").read_text())[ROLE]
    print(f"$ kill -9 {pid}", flush=True)
    os.kill(pid, signal.SIGKILL)
    killed = finish(run)
    same = killed["digest"] == undisturbed["digest"]
    print(f"\nnever disturbed   {undisturbed['digest']}")
    failure = killed["failures"][0]
    print(f"worker killed     {killed['digest']}   stage {ROLE[0]} ran {failure['recomputed_steps']} steps again, "
          f"went on after {failure['timeline']['resume']:.1f} s")
    print("equal: every master weight, moment and compute weight has the same bits" if same else "DIFFERENT")
    sys.exit(0 if same and killed["restarts"] == 0 else 1)


if __name__ == "__main__":
    main()
