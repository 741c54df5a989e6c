"""A job that gets no processor: nobody is taken for hung because of it, and who really stands still is
found.
"""
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from job import Job

STEPS = 40
# A standstill is suspected after four seconds, and a probe takes two.
IMPATIENT = (f"train.steps={STEPS}", "checkpoint.every_steps=20", "evaluate.every_steps=1000", "run.deadline_seconds=4")
STARVED_SECONDS = 15
SHARE = 0.015  # of one processor, for the whole job


class QuotaGroup:
    """A group of processes that may use a share of one processor, with cgroups of version 1."""
    ROOT = "/sys/fs/cgroup/cpu"
    PERIOD_US = 100_000

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="evermoe-", dir=self.ROOT)
        self.write("cpu.cfs_period_us", self.PERIOD_US)

    def write(self, name, value):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(str(value))

    def enter(self):
        self.write("cgroup.procs", os.getpid())

    def starve(self):
        self.write("cpu.cfs_quota_us", int(SHARE * self.PERIOD_US))

    def feed(self):
        self.write("cpu.cfs_quota_us", -1)

    def close(self):
        self.feed()
        end = time.monotonic() + 30
        while time.monotonic() < end:  # until the last process has gone
            try:
                return os.rmdir(self.folder)
            except OSError:
                time.sleep(0.1)


def threads_below(parent):
    """Of all processes that a process has started, and those that they have."""
    with contextlib.suppress(OSError):  # one that has ended
        for task in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{task}/children") as file:
                children = list(map(int, file.read().split()))
            for child in children:
                yield from map(int, os.listdir(f"/proc/{child}/task"))
                yield from threads_below(child)


class IdleOnOneProcessor:
    """The same with priorities: the job gets what another process leaves of one processor."""

    def __init__(self):
        self.processor = min(os.sched_getaffinity(0))
        self.other = None

    def enter(self):
        os.sched_setaffinity(0, {self.processor})

    def starve(self):
        self.schedule(os.SCHED_IDLE)
        self.other = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                      preexec_fn=lambda: os.sched_setaffinity(0, {self.processor}))

    def feed(self):
        if self.other is not None:
            self.other.kill()
            self.other.wait()
            self.other = None
        self.schedule(os.SCHED_OTHER)

    def schedule(self, policy):
        for thread in threads_below(os.getpid()):
            with contextlib.suppress(OSError):  # it has ended
                os.sched_setscheduler(thread, policy, os.sched_param(0))

    close = feed


def starvation():
    try:
        return QuotaGroup()
    except OSError:
        return IdleOnOneProcessor()


class Starved(unittest.TestCase):
    def test_healthy_workers_are_kept(self):
        undisturbed = Job(self, *IMPATIENT, "protection.strategy=none").complete()
        processors = starvation()
        self.addCleanup(processors.close)
        with Job(self, *IMPATIENT).start(flags=["--nodes", "2"], preexec_fn=processors.enter) as run:
            run.wait_step(5)
            before = run.workers()
            processors.starve()
            end = time.monotonic() + STARVED_SECONDS
            while time.monotonic() < end and run.process.poll() is None:
                time.sleep(0.1)
            processors.feed()
            run.wait_step(10)
            self.assertEqual(run.workers(), before, run.story())
        self.assertEqual(run.summary["failures"], [], run.story())
        self.assertEqual(run.summary["digest"], undisturbed["digest"])

    def test_a_stopped_worker_is_found(self):
        with Job(self, *IMPATIENT).start() as run:
            run.kill("1.0", at_step=5, with_signal=signal.SIGSTOP)
        failure, = run.summary["failures"]
        self.assertEqual(failure["roles"], ["1.0"])
        self.assertIn("hung: no sign of life for ", failure["kind"], run.story())


if __name__ == "__main__":
    unittest.main(verbosity=2)
