"""What tests of jobs on several machines have in common: a job that is disturbed ends with the bits of one that is not."""
import contextlib
import unittest

from machines import Cluster
from job import Undisturbed  # noqa: E402 (machines makes it known)

STEPS = ("train.steps=60", "checkpoint.every_steps=20", "evaluate.every_steps=0", "evaluate.micro_batches=2")

NOTICES = "run.deadline_seconds=10"  # sooner than by default that the job does not move


class MachinesTest(unittest.TestCase):
    def assert_undisturbed(self, job, *settings):
        self.assertEqual(job.summary.get("status"), "finished", job.story())
        self.assertEqual(job.summary["digest"], Undisturbed.digest(self, *settings), job.story())
        self.assertEqual(job.summary["restarts"], 0, job.story())
        gone = {role for entry in job.summary["failures"] + job.summary["moves"] for role in entry["roles"]}
        self.assertLessEqual(job.started_again(), gone, "who was neither lost nor moved keeps its process\n" + job.story())

    @contextlib.contextmanager
    def running(self, machines, *settings, noticed=(), at_step=8, spares=1, data_network=False, **how):
        """A job that has come to a step, on so many machines: whatever is done to it then, it ends with the bits of the
        undisturbed one. `noticed`: settings that change no bit."""
        with Cluster(self, machines, data_network=data_network) as cluster:
            job = cluster.train(*STEPS, *settings, *noticed, spares=spares, **how)
            job.wait_step(at_step)
            yield cluster, job
        self.assert_undisturbed(job, *STEPS, *settings)
