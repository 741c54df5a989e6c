"""Experiments: the real runtime under drawn failures, interrupted and taken up again."""
import json
import pathlib
import signal
import subprocess
import tempfile
import unittest

from job import CONFIG, DEADLINE_SECONDS, EVERMOE, command, wait_for

TEXT = f"""strategies = ["sparse", "none"]
seeds = [1]
[model]
config = "{CONFIG}"
settings = ["train.steps=600", "checkpoint.every_steps=50", "run.backoff_seconds=0.05"]
[[failures]]
law = "exponential"
mtbf_steps = 300
"""


class Experiment(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="evermoe-experiment-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "e.toml"
        self.file.write_text(TEXT)
        self.out = self.folder / "out"

    def interrupted_after(self, result):
        """Starts the experiment and sends SIGINT once this result is there."""
        process = subprocess.Popen([EVERMOE, "experiment", str(self.file), "--out", str(self.out), "--profile-rounds", "1"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: (self.out / result).exists() or process.poll() is not None, result)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE_SECONDS)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, said)

    def test_goes_on_and_compares(self):
        self.interrupted_after("results/0-1-sparse.json")
        names = ("results/0-1-yardstick.json", "results/0-1-sparse.json")
        kept = {name: (self.out / name).stat().st_mtime_ns for name in names}
        profile = (self.out / "profile.toml").read_text()
        self.assertFalse((self.out / "report.json").exists())
        code, printed, said = command("experiment", self.file, "--out", self.out, "--json")
        self.assertEqual(code, 0, said)
        for name, written in kept.items():
            self.assertEqual((self.out / name).stat().st_mtime_ns, written, f"{name} was run again")
        self.assertEqual((self.out / "profile.toml").read_text(), profile, "the job was measured again")
        runs = json.loads(printed.splitlines()[-1])["runs"]
        self.assertEqual([run["strategy"] for run in runs], ["sparse", "none"])
        yardstick = json.loads((self.out / "results" / "0-1-yardstick.json").read_text())
        for run in runs:
            self.assertEqual((run["failure_process"], run["seed"], run["status"]), ("exponential-300", 1, "finished"))
            self.assertEqual(run["lost_token_share"], 0)
            self.assertEqual(run["digest"], yardstick["digest"], "a recovery changed bits")
            self.assertGreater(run["failure_count"], 0, "no worker was killed")
            # Where others use the machine, too, a yardstick may be slower than a run with failures.
            self.assertGreater(run["ettr"], 0)
            # Of a profile that was measured on a machine as busy as one that tests: no more than that there is one.
            self.assertGreater(run["predicted_ettr"], 0)
            self.assertAlmostEqual(run["prediction_error"], run["predicted_ettr"] - run["ettr"])
            self.assertGreater(run["predicted"]["recoveries"], 0, "the failures were not played to the profile")
            self.assertGreater(run["recovery"]["load_seconds"], 0)
            self.assertGreater(run["memory_peak_bytes"], 1 << 20)
        page = (self.out / "report.html").read_text()
        self.assertIn("Measured and predicted", page)
        self.assertNotIn("http://", page.split("<script>")[0])
        self.assertEqual(len((self.out / "runs.csv").read_text().splitlines()), 3)

    def test_another_experiment_is_refused_its_folder(self):
        self.interrupted_after("results/0-1-yardstick.json")
        self.file.write_text(TEXT.replace("mtbf_steps = 300", "mtbf_steps = 301"))
        code, _, said = command("experiment", self.file, "--out", self.out)
        self.assertEqual((code, said.count("\n")), (2, 1), said)
        self.assertIn("another experiment", said)

    def test_a_profile_of_another_job_is_refused(self):
        profile = self.folder / "p.toml"
        code, _, said = command("profile", "--job", CONFIG, "--strategy", "sparse", "--rounds", 1, "--kills", 1, "--directory",
                                self.folder, "--set", "run.backoff_seconds=0.05", "--out", profile)
        self.assertEqual(code, 0, said)
        self.assertEqual(profile.read_text().count("[[strategy]]"), 2, "sparse, and none")
        self.file.write_text(TEXT.replace('"run.backoff_seconds=0.05"', '"run.backoff_seconds=0.05", "train.micro_batches=2"'))
        code, _, said = command("experiment", self.file, "--out", self.out, "--profile", profile)
        self.assertEqual((code, said.count("\n")), (2, 1), said)
        self.assertIn("another job", said)
        self.assertFalse(self.out.exists(), "a folder was made for bad input")

    def test_bad_input_is_one_line(self):
        for found, instead, said in (('"none"', '"nothing"', "strategies"), ("[1]", "[]", "seeds"), ("job.toml", "no.toml", "no.toml"),
                                     ('law = "exponential"', 'trace = "no.csv"', "no.csv"), ("train.steps", "train.stops", "train.stops"),
                                     ("mtbf_steps = 300", "mtbf_steps = 300\nlost_together = 2", "lost_together: found 2 with run.nodes")):
            with self.subTest(said):
                self.file.write_text(TEXT.replace(found, instead))
                code, _, error = command("experiment", self.file, "--out", self.out)
                self.assertEqual((code, error.count("\n")), (2, 1), error)
                self.assertIn(said, error)
                self.assertFalse(self.out.exists(), "a folder was made for bad input")


if __name__ == "__main__":
    unittest.main()
