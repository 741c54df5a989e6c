"""Numbers that are not finite, in real processes: a machine that makes one loses its role and leaves no trace in the bits,
samples that make one again elsewhere are at fault, and are not trained again if that is wanted.
"""
import functools
import json
import pathlib
import unittest

import job as jobs
from job import Job, Undisturbed, command
from recovery_test import fault, kill

STEPS = 30
SMALL = (f"train.steps={STEPS}", "checkpoint.every_steps=10", "evaluate.every_steps=10", "evaluate.micro_batches=2",
         "protection.window=3")
# Two nodes of two roles each, and a spare.
run_with = functools.partial(jobs.run_with, flags=("--nodes", "2", "--spares", "1"))


def examined(run, step, role):
    return json.loads((run.out / "forensics" / f"step-{step}" / f"{role}.json").read_text())


def skipped(run):
    """The steps that were."""
    lines = [json.loads(line) for line in (run.out / "metrics.jsonl").read_text().splitlines()]
    return [line["step"] for line in lines if line.get("applied") is False]


class Machines(unittest.TestCase):
    EXAMINE = (*SMALL, "train.non_finite=examine")

    def undisturbed(self):
        return Undisturbed.digest(self, *SMALL, "protection.strategy=none")

    def test_a_machine_that_makes_one_is_quarantined_and_the_bits_are_those_without_it(self):
        run = run_with(self, self.EXAMINE,
                       fault("corrupt_result", stage=1, lane=0, step=9, point="step/forward"),
                       fault("corrupt_result", stage=0, lane=1, step=15, point="step/forward", reached=1),
                       fault("corrupt_result", stage=0, lane=0, step=21, point="step/backward"))
        self.assertEqual(run.summary["digest"], self.undisturbed(), run.words)
        self.assertEqual(skipped(run), [])
        first = examined(run, 9, "1.0")
        self.assertEqual((first["node"], first["second"]), (1, {"node": 2, "is_reproduced": False}), run.words)
        self.assertEqual((first["first_non_finite"]["operator"], first["first_non_finite"]["phase"]), ("head", "forward"))
        self.assertEqual([sample["micro_batch"] for sample in first["samples"]],
                         [first["first_non_finite"]["micro_batch"]])
        self.assertIn("worker 1.0 moves to node 2: node 1 is quarantined", run.words)
        self.assertIn("node 1 stays quarantined: a number that is not finite was made by role 1.0 on node 1", run.words)
        # Forward, of an activation: the role goes to the place that is left.
        self.assertEqual(examined(run, 15, "0.1")["second"], {"node": 2, "is_reproduced": False}, run.words)
        # Of a gradient of weights, and no other node has room.
        third = examined(run, 21, "0.0")
        self.assertEqual((third["node"], third["second"]), (0, {"node": 0, "is_reproduced": False}), run.words)
        self.assertEqual(third["first_non_finite"], {"micro_batch": None, "operator": "embedding", "phase": "weight gradient"})

    def test_a_gradient_on_its_way_back_is_met_where_it_is_made(self):
        run = run_with(self, self.EXAMINE, fault("corrupt_result", stage=1, lane=1, step=12, point="step/backward"))
        self.assertEqual(run.summary["digest"], self.undisturbed(), run.words)
        self.assertEqual([path.name for path in (run.out / "forensics" / "step-12").iterdir()], ["1.1.json"])
        self.assertEqual(examined(run, 12, "1.1")["first_non_finite"]["phase"], "backward")

    def test_all_may_go_back_to_the_disk_for_it(self):
        settings = (*self.EXAMINE, "protection.strategy=none")
        run = run_with(self, settings, fault("corrupt_result", stage=0, lane=0, step=14, point="step/forward"))
        self.assertEqual(run.summary["digest"], self.undisturbed(), run.words)
        self.assertEqual(examined(run, 14, "0.0")["second"], {"node": 2, "is_reproduced": False}, run.words)

    def test_without_examination_the_step_is_skipped(self):
        run = run_with(self, SMALL, fault("corrupt_result", stage=1, lane=0, step=9, point="step/forward"))
        self.assertEqual(skipped(run), [9])
        self.assertFalse((run.out / "forensics").exists())
        self.assertNotEqual(run.summary["digest"], self.undisturbed())

    def test_bad_input_is_one_line(self):
        config = str(pathlib.Path(__file__).with_name("job.toml"))
        code, _, errors = command("run", config, "--set", "train.non_finite=ignore", "--out", "/nowhere")
        self.assertEqual((code, len(errors.strip().splitlines())), (2, 1), errors)
        self.assertIn("train.non_finite: found \"ignore\", allowed: skip, examine, quarantine", errors)


class Samples(unittest.TestCase):
    """A text of 126 windows to train on, of which one is poisoned: an epoch has 31.5 steps."""
    POISON = fault("poison_samples", tokens_begin=1, tokens_end=9)

    def setUp(self):
        text = pathlib.Path(Job(self).folder) / "text.txt"
        text.write_text((pathlib.Path(__file__).resolve().parents[2] / "data" / "tinyshakespeare.txt").read_text()[:2250])
        self.settings = ("train.steps=60", *SMALL[1:], f"data.path={text}")

    def test_samples_that_do_it_again_elsewhere_are_at_fault_and_the_node_is_trusted(self):
        skip = run_with(self, self.settings, self.POISON)
        self.assertEqual(len(skipped(skip)), 2, "once in each epoch")
        run = run_with(self, (*self.settings, "train.non_finite=examine"), self.POISON)
        self.assertEqual(run.summary["digest"], skip.summary["digest"], run.words)
        self.assertEqual(skipped(run), skipped(skip))
        step = skipped(run)[0]
        (file,) = (run.out / "forensics" / f"step-{step}").iterdir()
        record = json.loads(file.read_text())
        self.assertEqual((record["node"], record["second"]), (1, {"node": 2, "is_reproduced": True}))
        (sample,) = record["samples"]
        self.assertEqual((sample["window"], sample["tokens_begin"], sample["tokens_end"]), (0, 0, 17))
        self.assertIn("node 1 is not quarantined", run.words)

    def test_quarantined_samples_are_trained_never_again_whatever_is_lost(self):
        settings = (*self.settings, "train.non_finite=quarantine")
        run = run_with(self, settings, self.POISON)
        (step,) = skipped(run)
        self.assertEqual(self.quarantined(run), [0])
        # A loss right after it, one of another stage, and one in the next epoch.
        killed = run_with(self, settings, self.POISON, kill("1.0", step=step + 1), kill("0.1", step=step + 3),
                          kill("1.1", step=step + 31, point="step/backward"))
        self.assertEqual(killed.summary["digest"], run.summary["digest"], killed.words)
        self.assertEqual(skipped(killed), [step])
        # Stopped after it, and continued from the disk.
        job = Job(self, *settings)
        run_with(self, settings, self.POISON, job=job)
        self.assertEqual(command("digest", job.out)[1].strip(), run.summary["digest"])
        parts = Job(self, *settings, f"train.steps={step + 3}")
        run_with(self, settings, self.POISON, job=parts)
        parts.settings[-1] = "train.steps=60"
        continued = run_with(self, settings, self.POISON, job=parts)
        self.assertEqual(continued.summary["digest"], run.summary["digest"], continued.words)

    def quarantined(self, run):
        manifest = json.loads("{" + (pathlib.Path(run.summary["checkpoint"]) / "manifest.json").read_text().split("\n", 1)[1])
        return manifest["position"]["quarantined_windows"]


if __name__ == "__main__":
    unittest.main()
