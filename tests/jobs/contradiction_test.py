"""A machine that computes wrong bits during a catch-up: the job ends on every node, says what differs, keeps the
witnesses, and does not go on before somebody has looked.
"""
import json
import pathlib
import shutil
import unittest

from job import Job, Nodes, command
from recovery_test import fault, kill

SMALL = ("train.steps=20", "checkpoint.every_steps=5", "evaluate.every_steps=20", "evaluate.micro_batches=1",
         "protection.window=3")
FINGERPRINTS = "fingerprint ([0-9a-f]{32}) instead of ([0-9a-f]{32})"


def is_alive(pid):
    try:
        return " Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


class Contradiction(unittest.TestCase):
    def test_an_operator_differs_on_one_of_two_nodes(self):
        job = Job(self, *SMALL)
        script = job.script(kill("1.0", step=12), fault("corrupt_state", stage=1, lane=1, step=11, in_recovery=1,
                                                         point="step/updated"))
        with Nodes(self, 2, *SMALL, flags=["--faults", script]) as run:
            run.wait_step(5)
            pids = run.workers().values()
        self.assertEqual([process.returncode for process in run.processes], [4, 4], run.story())
        self.assertEqual(run.summary["status"], "failed", run.story())
        self.assertFalse([pid for pid in pids if is_alive(pid)], "every worker has ended")
        line = r"role 1\.1: step 11: operator (\S+), ([^:]+): " + FINGERPRINTS
        self.assertRegex(run.story(), line)
        self.assertRegex(run.summary["reason"], line)
        folder = run.out / "contradiction" / "1.1-step-11"
        self.assertIn(str(folder), run.summary["reason"])
        first = json.loads((folder / "witness.json").read_text())["differences"][0]
        for known in first["what"], first["before"], first["now"]:
            self.assertIn(known, run.summary["reason"])
        self.assertGreater((folder / first["bytes_now"]).stat().st_size, 0)
        self.refused_until_somebody_has_looked(run, line, job)

    def refused_until_somebody_has_looked(self, run, line, job):
        steps = run.step()
        log = pathlib.Path(run.log.name)
        said_before = log.stat().st_size
        with Nodes(self, 2, *SMALL, out=run.out) as again:
            pass
        self.assertEqual([process.returncode for process in again.processes], [4, 4], again.story())
        self.assertRegex(log.read_text()[said_before:], line)
        self.assertEqual(again.step(), steps)
        shutil.move(run.out / "contradiction", run.out / "looked-at")
        words = [word for setting in SMALL for word in ("--set", setting)]
        code, summary, said = command("run", job.config, "--out", run.out, "--json", *words)
        self.assertEqual(code, 0, said)
        self.assertEqual(json.loads(summary.splitlines()[-1])["digest"], job.complete()["digest"], "the right bits after all")


if __name__ == "__main__":
    unittest.main(verbosity=2)
