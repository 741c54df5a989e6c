"""Jobs of real processes whose state is narrower than FP32 and whose products are in FP8 (MoEtion, Table 7): a killed
worker costs no bit, a run goes on in another topology, and the result is exported."""
import json
import unittest

from job import CONFIG, Job, command
from recovery_test import SMALL, Protected, kill

TYPES = {
    "fp16 master, fp16 moments": ("train.precision=fp16", "train.master=fp16", "train.moments=fp16"),
    "fp8, fp16 master, fp8 and fp16 moments": ("train.precision=fp8", "train.master=fp16", "train.moments=fp8+fp16"),
    "fp8, fp8 master, fp8 and fp16 moments": ("train.precision=fp8", "train.master=fp8", "train.moments=fp8+fp16"),
}


class Precision(Protected):
    def test_a_killed_worker_costs_no_bit(self):
        for name, types in TYPES.items():
            with self.subTest(types=name):
                summary, kept = self.survive((*SMALL, *types), kill("1.0", step=14, point="step/backward"))
                self.assert_local(summary, kept, ["1.0"], [1])

    def test_goes_on_in_another_topology_and_is_exported(self):
        for name, types in TYPES.items():
            with self.subTest(types=name):
                job = Job(self, "train.steps=12", "checkpoint.every_steps=6", "evaluate.every_steps=6", *types)
                first = job.complete()
                self.assertEqual(first["status"], "finished", first)
                self.assertEqual(command("verify", job.out)[0], 0)
                # Nothing is left to do: the state is saved again by other ranks.
                again = job.complete("parallel.stages=1", "parallel.lanes=3", "train.steps=12")
                self.assertEqual(again["digest"], first["digest"])
                report = json.loads(command("inspect", job.out, "--json")[1])
                self.assertEqual(report["state_types"]["master"], types[1].split("=")[1])
                self.assertEqual(job.complete("parallel.stages=1", "train.steps=14")["status"], "finished")
                code, _, error = command("export", job.out, "--out", f"{job.folder}/exported")
                self.assertEqual(code, 0, error)

    def test_what_does_not_go_together_is_one_line(self):
        for settings, words in (
                (["train.master=fp16"], ["train.master", "fp32"]),
                (["train.precision=bf16", "train.master=fp8"], ["train.master", "bf16"]),
                (["train.precision=fp64", "train.moments=fp16"], ["train.moments", "auto"])):
            job = Job(self)
            code, _, error = command("run", CONFIG, "--out", job.out, *(w for s in settings for w in ("--set", s)))
            self.assertEqual(code, 2, error)
            self.assertEqual(len(error.strip().splitlines()), 1, error)
            for word in words:
                self.assertIn(word, error)


if __name__ == "__main__":
    unittest.main()
