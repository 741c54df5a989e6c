"""Roles of real jobs that compute slower than others: they are named, and move, and no bit changes.
"""
import os
import unittest

from job import SMALL, Job, Undisturbed, refuses

# Tests run beside others, which take processors: what is looked for is much slower.
# Steps of a tenth of a second, in which standing still for milliseconds is felt.
LONG = ("model.sequence_length=64", "train.micro_batch_size=8")
SETTINGS = (*SMALL[1:], *LONG, "train.steps=100", "run.nodes=2", "run.spares=1", "protection.window=2", "stragglers.slower_than=1.5",
            "stragglers.for_steps=10")
SLOW = '[[fault]]\nkind = "slow_worker"\nstage = 1\nlane = 0\nfactor = 4\nstep = 12\n'


class Stragglers(unittest.TestCase):
    def summary(self, *more):
        settings = (*SETTINGS, *more)
        job = Job(self, *settings)
        script = os.path.join(job.folder, "faults.toml")
        with open(script, "w") as file:
            file.write(SLOW)
        with job.start(flags=("--faults", script)) as run:
            pass
        self.assertEqual(run.summary["status"], "finished", run.story())
        plain = [s for s in settings if "nodes" not in s and "spares" not in s and "stragglers" not in s]
        self.assertEqual(run.summary["digest"], Undisturbed.digest(self, *plain), run.story())
        self.assertEqual((run.summary["failures"], run.summary["restarts"]), ([], 0), run.story())
        self.assertEqual([s["role"] for s in run.summary["stragglers"]], ["1.0"], run.story())
        (only,) = run.summary["stragglers"]
        self.assertGreater(only["factor"], 1.5)
        self.assertGreater(only["step"], 12)
        self.assertEqual(only["node"], 1)
        return run.summary

    def test_people_are_told(self):
        self.assertEqual(self.summary()["moves"], [])

    def test_it_moves_to_a_free_machine(self):
        (only,) = self.summary("stragglers.action=move")["moves"]
        self.assertEqual((only["roles"], only["from"], only["to"], only["state"]), (["1.0"], [1], [2], "done"))
        self.assertIn("straggler: it computes", only["cause"])
        self.assertIn("steps that are left take", only["cause"])

    def test_what_makes_no_sense_is_refused(self):
        refuses(self, ("stragglers.slower_than=1",), "stragglers.slower_than: found 1, allowed: number")
        refuses(self, ("stragglers.for_steps=3",), "stragglers.for_steps: found 3")
        refuses(self, ("stragglers.action=kill",), "allowed: tell, move")
        refuses(self, ("stragglers.action=move", "protection.strategy=none"), 'allowed: "tell" with protection.strategy')


if __name__ == "__main__":
    unittest.main()
