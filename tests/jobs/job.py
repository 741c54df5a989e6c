"""A small language for tests of real jobs: real processes, real kills.

    job = Job(self, "train.steps=30")
    with job.start() as run:
        run.kill("1.0", at_step=12)
    run.summary["digest"]
"""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVERMOE = os.environ.get("EVERMOE", str(ROOT / "build" / "evermoe"))
CONFIG = str(ROOT / "tests" / "jobs" / "job.toml")
DEADLINE_SECONDS = 240
SMALL = ("train.steps=24", "checkpoint.every_steps=6", "evaluate.every_steps=12", "evaluate.micro_batches=2")
# Until somebody drains it: what is tested takes as long as it takes.
ENDLESS = (*SMALL[1:], "train.steps=100000")


def wait_for(condition, what):
    """Polls until condition() gives something; fails with `what`, which may be a function, after DEADLINE_SECONDS."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"waited {DEADLINE_SECONDS} s in vain for {what() if callable(what) else what}")


def command(*args):
    """Runs evermoe to its end: (exit code, stdout, stderr)."""
    try:
        done = subprocess.run([EVERMOE, *map(str, args)], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"{late}; until then it said:\n{(late.stderr or b'').decode()}") from late
    return done.returncode, done.stdout, done.stderr


def refuses(test, settings, why):
    """A job with these settings is refused in one line that says `why`, with exit code 2."""
    job = Job(test, *settings)
    words = [word for setting in settings for word in ("--set", setting)]
    code, _, told = command("run", job.config, *words, "--out", job.out)
    test.assertEqual(code, 2, told)
    test.assertEqual(len(told.strip().splitlines()), 1, told)
    test.assertIn(why, told)


class Run:
    """One `evermoe run`, from its start to its end."""

    def __init__(self, out, args, program=EVERMOE, before=(), preexec_fn=None):
        self.out = pathlib.Path(out)
        self.log = open(self.out.parent / (self.out.name + ".log"), "a+")
        self.process = subprocess.Popen(
            [*before, str(program), "run", *args, "--out", str(out), "--json"], stdout=subprocess.PIPE, stderr=self.log, text=True,
            preexec_fn=preexec_fn)
        self.summary = None

    def step(self):
        """The newest committed step."""
        try:
            lines = (self.out / "metrics.jsonl").read_text().splitlines()
            return json.loads(lines[-1])["step"]
        except (OSError, IndexError, ValueError, KeyError):
            return 0

    def workers(self):
        """Role to process, as it is now."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.out / "workers.json").read_text())
        return {}

    def pid_of(self, role):
        return wait_for(lambda: self.workers().get(role), f"worker {role} in workers.json")

    def wait_step(self, step):
        wait_for(lambda: self.step() >= step or self.process.poll() is not None, f"step {step}")
        assert self.step() >= step, f"the run ended before step {step}\n{self.story()}"

    def kill(self, role, at_step, with_signal=signal.SIGKILL, delay_seconds=0.0):
        """Sends the signal `delay_seconds` after the step was committed: an instant inside a later one."""
        self.wait_step(at_step)
        pid = self.pid_of(role)
        end = time.monotonic() + delay_seconds
        while time.monotonic() < end:
            pass
        os.kill(pid, with_signal)

    def finish(self):
        try:
            out, _ = self.process.communicate(timeout=DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it is not over after {DEADLINE_SECONDS} s\n{self.story()}") from None
        lines = out.strip().splitlines()
        assert lines, "no summary\n" + self.story()
        self.summary = json.loads(lines[-1])
        self.summary["exit_code"] = self.process.returncode
        return self.summary

    def story(self):
        return pathlib.Path(self.log.name).read_text()[-8000:]


CLAIMED_PORTS = []  # names in the kernel, as long as this process lives: other tests run beside it


def free_port():
    """Of loopback, below those that the kernel gives to whoever calls: it stays free while a server is started again."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        end = max(int(file.read().split()[0]), 20_000)
    while True:
        port = random.SystemRandom().randrange(10_000, end)
        with socket.socket() as probe, contextlib.suppress(OSError):
            claim = socket.socket(socket.AF_UNIX)
            claim.bind(f"\0evermoe-test-port-{port}")
            CLAIMED_PORTS.append(claim)
            probe.bind(("127.0.0.1", port))
            return port


class Nodes(Run):
    """The nodes of one job, each a process of its own. A context: its end waits for all of them."""

    def __init__(self, test, count, *settings, out=None, flags=()):
        if out is None:
            folder = tempfile.mkdtemp(prefix="evermoe-job-")
            test.addCleanup(shutil.rmtree, folder, ignore_errors=True)
            out = os.path.join(folder, "out")
        self.out = pathlib.Path(out)
        self.log = open(str(out) + ".log", "a+")
        words = [word for s in settings for word in ("--set", s)]
        address = f"127.0.0.1:{free_port()}"
        self.arguments = [EVERMOE, "node", CONFIG, *words, "--out", str(out), "--nodes", str(count), "--join", address, "--json",
                          *flags]
        self.processes = [self._started(node) for node in range(count)]
        self.process = self.processes[0]
        self.summary = None

    def _started(self, node):
        return subprocess.Popen([*self.arguments, "--node", str(node)], stdout=subprocess.PIPE, stderr=self.log, text=True,
                                start_new_session=True)

    def start_again(self, node):
        """A node that has ended."""
        self.processes[node].stdout.close()
        self.processes[node] = self._started(node)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                out, _ = self.process.communicate(timeout=DEADLINE_SECONDS)
                self.summary = json.loads(out.strip().splitlines()[-1]) if out.strip() else None
                for process in self.processes[1:]:
                    process.wait(timeout=DEADLINE_SECONDS)
        finally:
            for process in self.processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                process.stdout.close()
            self.log.close()


class Job:
    """A configuration and an output directory of its own, removed with the test."""

    def __init__(self, test, *settings, config=CONFIG):
        self.folder = tempfile.mkdtemp(prefix="evermoe-job-")
        test.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = os.path.join(self.folder, "out")
        self.config = config
        self.settings = list(settings)

    def script(self, *faults):
        """A file with these faults, as TOML (docs/recovery.md)."""
        script = pathlib.Path(self.folder, "faults.toml")
        script.write_text("\n".join(faults))
        return script

    @contextlib.contextmanager
    def start(self, *more, faults=(), flags=(), program=EVERMOE, before=(), preexec_fn=None):
        args = [self.config, *flags]
        if faults:
            args += ["--faults", self.script(*faults)]
        for setting in [*self.settings, *more]:
            args += ["--set", setting]
        run = Run(self.out, args, program, before, preexec_fn)
        try:
            yield run
            if run.summary is None:
                run.finish()
        finally:
            if run.process.poll() is None:
                run.process.kill()
                run.process.wait()
            run.process.stdout.close()
            run.log.close()

    def complete(self, *more, **how):
        with self.start(*more, **how) as run:
            pass
        return run.summary


def run_with(test, settings, *faults, flags=("--nodes", "2"), job=None):
    """A whole run with these faults, which ends well."""
    job = job or Job(test, *settings)
    with job.start(faults=faults, flags=flags) as run:
        pass
    test.assertEqual((run.summary["status"], run.summary["exit_code"]), ("finished", 0), run.story())
    run.words = run.story()
    return run


class Undisturbed:
    """The digest every disturbed run must reach; computed once a process."""
    known = {}

    @classmethod
    def digest(cls, test, *settings):
        if settings not in cls.known:
            summary = Job(test, *settings).complete()
            assert summary["status"] == "finished", summary
            cls.known[settings] = summary["digest"]
        return cls.known[settings]


def assert_drained(test, run, *settings):
    """It was saved as the job that nobody disturbed is after as many steps."""
    test.assertEqual(run.summary["status"], "drained", run.story())
    steps = f"train.steps={run.summary['steps']}"
    test.assertEqual(run.summary["digest"], Undisturbed.digest(test, *settings, steps), run.story())


def seeds():
    """The seeds of this run: EVERMOE_SEEDS=first..last for a campaign, three by default."""
    first, last = map(int, os.environ.get("EVERMOE_SEEDS", "1..3").split(".."))
    return range(first, last + 1)


def random_of(seed):
    return random.Random(seed)
