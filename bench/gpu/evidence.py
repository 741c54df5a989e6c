"""What is seen on a machine with a GPU: bits, recoveries, speed. One script, some minutes, one table.

  .venv/bin/python bench/gpu/evidence.py --build build

Real processes share one GPU (run.shares_gpus), so nothing here speaks of several. Prints one JSON object. What
is timed runs one after the other, in rounds; nothing else uses the GPU meanwhile.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
JOB = ROOT / "tests" / "jobs" / "job.toml"
STRATEGIES = ["sparse", "gradients", "dense", "peer-memory"]
# Lanes that send each other tokens; and lanes alone in BF16, which plan and compute on the device with kernels of its own.
JOBS = {"lanes": [], "alone": ["train.precision=bf16", "parallel.stages=2", "parallel.lanes=1"]}
KILLED_ROLE, KILL_AT_STEP = "1.0", 25


def words(settings):
    return [word for one in settings for word in ("--set", one)]


class Machine:
    def __init__(self, build, folder, device, settings):
        self.build, self.folder, self.runs = pathlib.Path(build).resolve(), pathlib.Path(folder), itertools.count(1)
        self.device, self.settings = device, settings

    def program(self, name):
        places = [self.build / name, self.build / "tests_bin" / name, self.build / "bench_bin" / name]
        return next((place for place in places if place.exists()), None)

    def start(self, config, settings):
        out = self.folder / f"run-{next(self.runs)}"
        command = [self.program("evermoe"), "run", config,
                   *words([f"train.device={self.device}", "run.shares_gpus=true", *settings]),
                   "--out", out, "--json"]
        return out, subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=open(f"{out}.log", "w"), text=True)

    def finish(self, started, seconds=240):
        out, process = started
        lines = process.communicate(timeout=seconds)[0].strip().splitlines()
        if not lines:
            sys.exit(f"{out}: no summary\n" + pathlib.Path(f"{out}.log").read_text()[-2000:])
        return json.loads(lines[-1])

    def run(self, config, *settings):
        return self.finish(self.start(config, settings))

    def killed(self, config, *settings):
        out, process = started = self.start(config, settings)
        while newest_step(out) < KILL_AT_STEP and process.poll() is None:
            time.sleep(0.01)
        os.kill(json.loads((out / "workers.json").read_text())[KILLED_ROLE], signal.SIGKILL)
        return self.finish(started)


def metrics(out):
    try:
        return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    except (OSError, ValueError):
        return []


def newest_step(out):
    return max((line["step"] for line in metrics(out) if "step" in line), default=0)


def identity(machine):
    ask = [str(machine.program("evermoe-worker")), "arithmetic", "--device", machine.device]
    texts = {subprocess.check_output(ask, text=True) for _ in range(2)}
    assert len(texts) == 1, "two processes come to other bits in the same trial"
    return dict(line.split("=", 1) for line in texts.pop().splitlines())


def tests(machine, seconds):
    """The tests of the trainer, as on the CPU."""
    environment = {**os.environ, "EVERMOE_TEST_DEVICE": machine.device}
    running = {}
    for name in ["tensor_test", "exactness_test", "reference_test", "trainer_state_test", "training_step_test",
                 "torch_recovery_test"]:
        program = machine.program(name)
        if program:
            log = open(machine.folder / f"{name}.log", "w")
            running[name] = subprocess.Popen(["timeout", str(seconds), str(program)], env=environment, stdout=log, stderr=log)
    results = {}
    for name, process in running.items():
        code = process.wait()
        text = (machine.folder / f"{name}.log").read_text()
        passed, failed = text.count("[       OK ]"), sorted({line.split()[3] for line in text.splitlines()
                                                             if line.startswith("[  FAILED  ] ") and "." in line})
        results[name] = {"passed": passed, "failed": failed, "exit_code": code}
    return results


def bits(machine):
    """Undisturbed twice, and killed once for each strategy, all at once: one digest a job."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = {job: ([pool.submit(machine.run, JOB, "train.steps=60", *settings) for _ in range(2)],
                      {strategy: pool.submit(machine.killed, JOB, "train.steps=60", f"protection.strategy={strategy}", *settings)
                       for strategy in STRATEGIES})
                for job, settings in JOBS.items()}
        return {job: compared([run.result()["digest"] for run in undisturbed],
                              {strategy: run.result() for strategy, run in killed.items()})
                for job, (undisturbed, killed) in runs.items()}


def compared(undisturbed, killed):
    result = {"undisturbed": undisturbed, "equal": len(set(undisturbed)) == 1, "killed": {}}
    for strategy, summary in killed.items():
        failure = (summary["failures"] or [{}])[0]
        result["killed"][strategy] = {"equal": summary["digest"] == undisturbed[0], "failures": len(summary["failures"]),
                                      "steps_again": failure.get("recomputed_steps"),
                                      "seconds": failure.get("timeline", {}).get("resume")}
    return result


def long_runs(machine, steps):
    settings = [f"train.steps={steps}", "parallel.stages=1", "parallel.lanes=1", "protection.strategy=none",
                "evaluate.every_steps=0", "checkpoint.every_steps=0"]
    both = [machine.finish(started) for started in [machine.start(JOB, settings) for _ in range(2)]]
    return {"steps": steps, "equal": both[0]["digest"] == both[1]["digest"]}


def steps_of(process, read, count, warm=2, seconds=120, at_end=lambda: None):
    """What `read` says of `count` steps behind the first `warm`, once they are done, and at_end() by then; ends the program."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None and len(read()) < warm + count:
        time.sleep(0.05)
    steps, seen = read()[warm:warm + count], at_end()
    process.kill()
    process.wait()
    return steps, seen


def ours(machine, settings, count):
    out, process = machine.start(HERE / "bench.toml", [*settings, *machine.settings])
    seconds, _ = steps_of(process, lambda: [line["seconds"] for line in metrics(out) if "seconds" in line], count)
    time.sleep(1)  # until the workers are gone, too
    return seconds


def theirs(machine, count, *more):
    log, tokens = machine.folder / f"torch-{next(machine.runs)}.log", machine.folder / "text.tokens"
    if not tokens.exists():
        subprocess.run([machine.program("evermoe"), "tokenize", ROOT / "data" / "tinyshakespeare.txt", "--out", tokens],
                       check=True, stdout=subprocess.DEVNULL)
    command = [sys.executable, ROOT / "bench" / "train" / "plain_torch.py", HERE / "bench.toml", "--device", machine.device,
               *words(machine.settings), "--data", tokens, "--evermoe", machine.program("evermoe"), *more]
    process = subprocess.Popen(list(map(str, command)), stdout=open(log, "w"), stderr=open(f"{log}.err", "w"))
    return steps_of(process, lambda: [json.loads(line)["seconds"] for line in log.read_text().splitlines()
                                      if line.startswith("{") and line.endswith("}")], count)[0]


def refusals(machine):
    """More workers than GPUs, and more state than memory: one line each, exit code 2."""
    results = {}
    for what, settings in {"shared": ["run.shares_gpus=false"],
                           "memory": ["model.hidden=4096", "model.expert_hidden=2048", "parallel.lanes=1", "parallel.stages=1",
                                      "model.layers=4", "model.experts=64"]}.items():
        out, process = machine.start(JOB, settings)
        process.communicate(timeout=120)
        lines = [line for line in pathlib.Path(f"{out}.log").read_text().splitlines() if line.startswith("evermoe: ")]
        results[what] = {"exit_code": process.returncode, "line": lines[-1] if lines else None}
    return results


def copies(machine):
    bench = next((p for p in [machine.build / "gpu_copy_bench", machine.program("gpu_copy_bench")] if p and p.exists()), None)
    if bench is None:
        return None
    report = json.loads(subprocess.check_output([str(bench), "--benchmark_format=json"], stderr=subprocess.DEVNULL))
    return {b["name"].removesuffix("/real_time"): round(b["bytes_per_second"] / 1e9, 1) for b in report["benchmarks"]}


def tokens_of_step(machine):
    shown = subprocess.check_output([str(machine.program("evermoe")), "config", str(HERE / "bench.toml"), "--show",
                                     *words(machine.settings)], text=True)
    config = tomllib.loads(shown)
    return config["train"]["micro_batches"] * config["train"]["micro_batch_size"] * config["model"]["sequence_length"]


def gpu_memory(machine):
    if machine.device != "cuda":
        return None
    return int(subprocess.check_output(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], text=True).split()[0])


# All operators once in so many steps. "alone": kept in the own memory, which is what captures alone cost.
EVERY = 40
SPARSE = ["protection.strategy=sparse", "protection.window=4", f"protection.window_every_steps={EVERY}"]
DENSE = ["protection.strategy=dense", f"protection.dense_every_steps={EVERY}"]
PROTECTED = {"none": ["protection.strategy=none"],
             "peer-memory": ["protection.strategy=peer-memory", f"protection.dense_every_steps={EVERY}"],
             "sparse": SPARSE,
             "sparse alone": [*SPARSE, "protection.copies=0"],
             "dense": DENSE,
             "dense alone": [*DENSE, "protection.copies=0"],
             "gradients": ["protection.strategy=gradients", f"protection.base_every_steps={EVERY}"]}


def stall(machine, named, warm, count):
    """What protection costs a step of two stages, against the same job without, before and after the others."""
    two = ["parallel.stages=2", "run.nodes=2", "protection.memory_budget=48GiB", "protection.copy_bandwidth=2GiB"]
    results = {}
    for name in ["none", *[name for name in named if name != "none"], "none"]:
        out, process = machine.start(HERE / "bench.toml", [*two, *PROTECTED[name], *machine.settings])
        lines, memory = steps_of(process, lambda: [line for line in metrics(out) if "seconds" in line], count, warm,
                                 seconds=150, at_end=lambda: gpu_memory(machine))
        time.sleep(1)  # as in ours()
        if not lines:
            continue
        seconds = [line["seconds"] for line in lines]
        one = {"steps": len(lines), "mean_seconds": round(statistics.mean(seconds), 5), "median_seconds": round(statistics.median(seconds), 5),
               "gpu_memory_mib": memory,
               **{key: round(sum(line.get(key, 0) for line in lines) / len(lines), 5)
                  for key in ("captured_bytes", "read_wait_seconds", "copy_wait_seconds")}}
        results[f"{name} again" if name in results else name] = one
        print(json.dumps({name: one}), file=sys.stderr, flush=True)
    usual = statistics.mean(results[name]["mean_seconds"] for name in ("none", "none again") if name in results)
    for one in results.values():
        one["over_none"] = round(one["mean_seconds"] / usual, 4)
    return results


def moves(machine, steps):
    """Roles that move while they train: the digest of the undisturbed run, and for how long the job stood."""
    settings = [f"train.steps={steps}", "run.nodes=2", "run.spares=1", "parallel.stages=2", "parallel.lanes=1", "train.precision=bf16",
                "evaluate.every_steps=0"]
    undisturbed = machine.start(JOB, settings)
    out, process = moved = machine.start(JOB, settings)
    while newest_step(out) < 10 and process.poll() is None:
        time.sleep(0.01)
    subprocess.run([machine.program("evermoe"), "move", out, "--role", "1.0"], check=True, stdout=subprocess.DEVNULL)
    digest, summary = machine.finish(undisturbed)["digest"], machine.finish(moved)
    return {"equal": summary["digest"] == digest, "failures": len(summary["failures"]), "moves": summary["moves"]}


CONTENDERS = ["plain_torch", "compiled_torch", "one_worker", "two_stages", "two_stages_sparse"]


def speed(machine, rounds, named):
    two = ["parallel.stages=2", "run.nodes=2", "protection.memory_budget=64GiB"]
    contenders = {"plain_torch": lambda: theirs(machine, 20),
                  "compiled_torch": lambda: theirs(machine, 20, "--compile"),
                  "one_worker": lambda: ours(machine, ["protection.strategy=none"], 20),
                  "two_stages": lambda: ours(machine, ["protection.strategy=none", *two], 20),
                  "two_stages_sparse": lambda: ours(machine, ["protection.strategy=sparse", *two], 20)}
    seconds = {name: [] for name in named}
    for _ in range(rounds):
        for name in named:
            found = contenders[name]()
            if found:
                seconds[name].append(statistics.median(found))
                print(json.dumps({name: seconds[name]}), file=sys.stderr, flush=True)
    tokens = tokens_of_step(machine)
    result = {name: {"step_seconds": [round(s, 4) for s in all_rounds],
                     "tokens_per_s": round(tokens / statistics.median(all_rounds))} if all_rounds else None
              for name, all_rounds in seconds.items()}
    return result


PARTS = ["tests", "bits", "long", "moves", "refusals", "copies", "speed", "stall"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder of the programs")
    parser.add_argument("--part", action="append", choices=PARTS, help="all if none is named")
    parser.add_argument("--test-seconds", type=int, default=150)
    parser.add_argument("--long-steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cuda", help="cpu: to try the script where there is no GPU")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of bench.toml")
    parser.add_argument("--contender", action="append", choices=CONTENDERS, help="of the part speed; all if none is named")
    parser.add_argument("--strategy", action="append", choices=list(PROTECTED), help="of the part stall; all if none is named")
    parser.add_argument("--warm-steps", type=int, default=3 * EVERY)
    parser.add_argument("--stall-steps", type=int, default=2 * EVERY)
    parser.add_argument("--move-steps", type=int, default=400)
    args = parser.parse_args()
    parts = args.part or PARTS
    with tempfile.TemporaryDirectory(prefix="evermoe-gpu-") as folder:
        machine = Machine(args.build, folder, args.device, args.set)
        result = {"benchmark": "gpu", "identity": identity(machine)}
        for part, measure in {"bits": lambda: bits(machine), "long": lambda: long_runs(machine, args.long_steps),
                              "refusals": lambda: refusals(machine), "copies": lambda: copies(machine),
                              "speed": lambda: speed(machine, args.rounds, args.contender or CONTENDERS),
                              "stall": lambda: stall(machine, args.strategy or list(PROTECTED), args.warm_steps, args.stall_steps),
                              "moves": lambda: moves(machine, args.move_steps),
                              "tests": lambda: tests(machine, args.test_seconds)}.items():
            if part in parts:
                result[part] = measure()
                print(json.dumps({part: result[part]}), file=sys.stderr, flush=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
