"""Roles of real jobs that compute slower than others: they are named, and move, and no bit changes.
"""
import os
import signal
import unittest

from job import ENDLESS, Job, assert_drained, refuses, wait_for
from standbys_test import story

# Tests run beside others, which take processors: what is looked for is much slower, and waited for. Steps take a tenth of a
# second, in which standing still for milliseconds is felt.
SETTINGS = (*ENDLESS, "model.sequence_length=64", "train.micro_batch_size=4", "checkpoint.every_steps=100000",
            "evaluate.every_steps=0", "run.nodes=2", "run.spares=1", "protection.window=2", "stragglers.slower_than=1.5",
            "stragglers.for_steps=10")
SLOW = '[[fault]]\nkind = "slow_worker"\nstage = 1\nlane = 0\nfactor = 6\nstep = 4\n'


class Stragglers(unittest.TestCase):
    def until(self, words, *more):
        """The summary of a job with a slow role that is drained when its story has these words."""
        settings = (*SETTINGS, *more)
        job = Job(self, *settings)
        with job.start(faults=[SLOW]) as run:
            wait_for(lambda: words in story(run) or run.process.poll() is not None, run.story)
            os.kill(run.process.pid, signal.SIGINT)
            run.finish()
            assert_drained(self, run, *[s for s in settings if not s.startswith(("train.steps", "stragglers"))])
        self.assertEqual((run.summary["failures"], run.summary["restarts"]), ([], 0), run.story())
        (only,) = [s for s in run.summary["stragglers"] if s["role"] == "1.0"]
        self.assertGreater(only["factor"], 1.5)
        self.assertGreater(only["step"], 4)
        self.assertEqual(only["node"], 1)
        return run.summary

    def test_people_are_told(self):
        summary = self.until("role 1.0 on node 1 is a straggler: it computes")
        self.assertEqual(summary["moves"], [])

    def test_it_moves_to_a_free_machine(self):
        (only,) = self.until("moved role 1.0 to node 2: done", "stragglers.action=move")["moves"]
        self.assertEqual((only["roles"], only["from"], only["to"], only["state"]), (["1.0"], [1], [2], "done"))
        self.assertIn("straggler: it computes", only["cause"])
        self.assertIn("steps are left then and take", only["cause"])

    def test_what_makes_no_sense_is_refused(self):
        refuses(self, ("stragglers.slower_than=1",), "stragglers.slower_than: found 1, allowed: number")
        refuses(self, ("stragglers.link_slower_than=0.5",), "stragglers.link_slower_than: found 0.5, allowed: number")
        refuses(self, ("stragglers.probe_seconds=-1",), "stragglers.probe_seconds: found -1")
        refuses(self, ("stragglers.for_steps=3",), "stragglers.for_steps: found 3")
        refuses(self, ("stragglers.action=kill",), "allowed: tell, move")
        refuses(self, ("stragglers.action=move", "protection.strategy=none"), 'allowed: "tell" with protection.strategy')


if __name__ == "__main__":
    unittest.main()
