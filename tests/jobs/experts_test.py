"""Jobs of real processes whose experts move by load: what is lost on the way costs no bit, a job that is stopped goes on
with its experts where they were, and what cannot be is refused.
"""
import unittest

from job import Job, refuses
from recovery_test import kill

SETTINGS = ("train.steps=40", "checkpoint.every_steps=10", "evaluate.every_steps=20", "evaluate.micro_batches=2",
            "parallel.lanes=2", "protection.strategy=gradients", "experts.replicas=by-load",
            "experts.rebalance_every_steps=8", "model.routing=synthetic", "model.routing_skew=0.2",
            "model.routing_drift_steps=15")


class Moves(unittest.TestCase):
    def disturbed(self, *faults):
        job = Job(self, *SETTINGS)
        with job.start(faults=faults) as run:
            pass
        self.assertEqual(run.summary["status"], "finished", run.story())
        return run.summary

    def test_a_loss_costs_no_bit_and_the_summary_tells_of_moves(self):
        undisturbed = Job(self, *SETTINGS).complete()
        moves = undisturbed["rebalances"]
        self.assertGreaterEqual(len(moves), 1)
        for move in moves:
            self.assertEqual(move["step"] % 8, 0)
            self.assertGreater(move["moved_bytes"], 0)
            self.assertLess(move["imbalance_after"], move["imbalance_before"])
            self.assertGreaterEqual(move["pause_seconds"], 0)
        disturbed = self.disturbed(kill("1.0", step=8, point="experts/moved"), kill("0.1", step=11),
                                   kill("1.1", step=30))
        self.assertEqual(disturbed["digest"], undisturbed["digest"])
        self.assertEqual(disturbed["restarts"], 0)
        self.assertGreaterEqual(len(disturbed["failures"]), 2)
        known = ("step", "moved_bytes", "imbalance_before", "imbalance_after")
        self.assertEqual([[move[key] for key in known] for move in disturbed["rebalances"]],
                         [[move[key] for key in known] for move in moves])

    def test_by_load_the_busiest_lane_has_less_to_do(self):
        skewed = [setting for setting in SETTINGS if "drift" not in setting]
        moves = Job(self, *skewed).complete()["rebalances"]
        self.assertGreater(moves[0]["imbalance_before"], 1.05 * moves[0]["imbalance_after"])
        self.assertLess(moves[0]["imbalance_after"], 1.1)


class Refusals(unittest.TestCase):
    def test_what_cannot_be_is_refused_in_one_line(self):
        by_load = "experts.replicas=by-load"
        for settings, why in (((by_load, "experts.slots=3"), "at least 4, so that the 2 lanes of stage 0 hold"),
                              ((by_load, "experts.faults=2"), "fewer than the 2 lanes of stage 0"),
                              (("experts.faults=1",), "less than parallel.expert_replicas (1)"),
                              (("experts.slots=5",), 'unless experts.replicas = "by-load"'),
                              ((by_load, "protection.strategy=partial-experts"), "experts.replicas")):
            refuses(self, settings, why)


if __name__ == "__main__":
    unittest.main()
