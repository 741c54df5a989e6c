"""Warm standbys of real jobs: one takes the role of a lost process without a start, and no bit changes.
"""
import contextlib
import os
import pathlib
import re
import signal
import unittest

from job import ENDLESS, Job, assert_drained, wait_for

SETTINGS = (*ENDLESS, "run.nodes=2", "run.spares=1", "run.standbys=1", "protection.strategy=gradients")


def standbys(job):
    """Numbers of the processes of this job that wait for a role."""
    found = set()
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "comm").read_text().strip() == "evermoe.standby" and \
                    job.out.encode() in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
    return found


def story(run):
    """All of it, and not its end alone."""
    return pathlib.Path(run.log.name).read_text()


class Standbys(unittest.TestCase):
    def setUp(self):
        self.warm = 0

    def wait_warm(self, run, count=1):
        """So many more of them are warm."""
        self.warm += count
        wait_for(lambda: len(re.findall(r"a standby on node \d+ is warm", story(run))) >= self.warm or run.process.poll() is not None, run.story)
        self.assertIsNone(run.process.poll(), run.story())

    def wait_recoveries(self, run, count):
        wait_for(lambda: story(run).count("recovered from the failure") >= count or run.process.poll() is not None,
                 run.story)
        self.assertIsNone(run.process.poll(), run.story())

    def drain(self, run, settings=SETTINGS):
        os.kill(run.process.pid, signal.SIGINT)
        run.finish()
        assert_drained(self, run, *[s for s in settings if "standbys" not in s and "train.steps" not in s])

    def test_one_takes_the_role_of_a_killed_process_and_the_next_one_is_warmed(self):
        job = Job(self, *SETTINGS)
        with job.start() as run:
            self.wait_warm(run)
            before, (standby,) = run.workers(), standbys(job)
            os.kill(before["1.0"], signal.SIGKILL)
            self.wait_recoveries(run, 1)
            after = run.workers()
            self.assertEqual(after, {**before, "1.0": standby}, run.story())
            self.assertIn("1.0 by a warm standby", story(run))
            self.wait_warm(run)
            (next_one,) = standbys(job)
            os.kill(after["0.1"], signal.SIGKILL)
            self.wait_recoveries(run, 2)
            self.assertEqual(run.workers(), {**after, "0.1": next_one}, run.story())
            self.drain(run)
        self.assertEqual([(f["roles"], f["standby"]) for f in run.summary["failures"]],
                         [(["1.0"], True), (["0.1"], True)], run.story())
        self.assertEqual(run.summary["restarts"], 0)
        # What it wrote as a standby is apart from what it wrote as the role.
        logs = pathlib.Path(job.out) / "logs" / "node-2"
        self.assertIn("takes this role", (logs / "worker-1.0.log").read_text())
        self.assertIn("a first step took", (logs / "standby-1.log").read_text())

    def test_of_two_lost_roles_one_is_started_afresh(self):
        job = Job(self, *SETTINGS)
        with job.start() as run:
            self.wait_warm(run)
            before = run.workers()
            for role in ("0.0", "1.1"):
                os.kill(before[role], signal.SIGKILL)
            self.wait_recoveries(run, 1)
            self.drain(run)
        taken = [role for f in run.summary["failures"] for role in f["standby_roles"]]
        self.assertEqual(len(taken), 1, run.story())
        self.assertEqual(run.summary["restarts"], 0, run.story())

    def test_one_that_dies_is_replaced_and_a_role_that_it_took_may_be_lost_again(self):
        job = Job(self, *SETTINGS)
        with job.start() as run:
            self.wait_warm(run)
            (first,) = standbys(job)
            os.kill(first, signal.SIGKILL)
            self.wait_warm(run)
            self.assertIn("a standby on node 2 has ended: killed by signal 9 (Killed)", story(run))
            for count in (1, 2):
                os.kill(run.workers()["1.1"], signal.SIGKILL)
                self.wait_recoveries(run, count)
            self.drain(run)
        self.assertTrue(run.summary["failures"][0]["standby"], run.story())


if __name__ == "__main__":
    unittest.main()
