"""Routing that is drawn instead of learned: the same bits wherever a micro-batch runs, and after a loss."""
import json
import pathlib
import unittest

from job import Job, Undisturbed, command, run_with
from recovery_test import kill

STEPS = 30
SMALL = (f"train.steps={STEPS}", "checkpoint.every_steps=10", "evaluate.every_steps=10", "evaluate.micro_batches=2",
         "protection.window=3")


class Routing(unittest.TestCase):
    """Synthetic routing, skewed and drifting."""
    DRAWN = (*SMALL, "model.routing=synthetic", "model.routing_skew=0.5", "model.routing_drift_steps=7")

    def test_the_bits_are_the_same_after_losses(self):
        expected = Undisturbed.digest(self, *self.DRAWN, "protection.strategy=none")
        self.assertNotEqual(expected, Undisturbed.digest(self, *SMALL, "protection.strategy=none"))
        for strategy in ("sparse", "gradients", "peer-memory"):
            with self.subTest(strategy=strategy):
                run = run_with(self, (*self.DRAWN, f"protection.strategy={strategy}"),
                               kill("1.0", step=14, point="step/backward"), kill("0.1", step=22))
                self.assertEqual(run.summary["digest"], expected, run.words)

    def test_popularity_is_as_skewed_as_was_asked_for(self):
        means = []
        for skew in (0, 0.3, 0.8):
            job = Job(self, *SMALL, "model.routing=synthetic", f"model.routing_skew={skew}", "model.routing_drift_steps=1",
                      "model.top_k=1")
            self.assertEqual(job.complete()["status"], "finished")
            lines = [json.loads(line) for line in (pathlib.Path(job.out) / "metrics.jsonl").read_text().splitlines()]
            values = [value for line in lines if "loss" in line for value in line["routing_skew"]]
            self.assertEqual(len(values), 2 * STEPS, "one of each layer")
            self.assertTrue(all(0 <= value <= 1 for value in values))
            means.append(sum(values) / len(values))
        self.assertLess(means[0], 0.1)
        self.assertAlmostEqual(means[1], 0.3, delta=0.12)
        self.assertAlmostEqual(means[2], 0.8, delta=0.12)

    def test_bad_input_is_one_line(self):
        config = str(pathlib.Path(__file__).with_name("job.toml"))
        for settings, line in (
                (("model.routing_skew=0.5",), "model.routing_skew: found 0.5, allowed: 0, or model.routing = synthetic"),
                (("model.routing_drift_steps=3",),
                 "model.routing_drift_steps: found 3, allowed: 0, or model.routing = synthetic"),
                (("model.routing=synthetic", "model.routing_skew=1"), "allowed: number x with 0 <= x < 1")):
            words = [word for setting in settings for word in ("--set", setting)]
            code, _, errors = command("run", config, *words, "--out", "/nowhere")
            self.assertEqual(code, 2, errors)
            self.assertEqual(len(errors.strip().splitlines()), 1, errors)
            self.assertIn(line, errors)


if __name__ == "__main__":
    unittest.main()
