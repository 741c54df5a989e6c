"""Experiments: the real runtime under drawn failures, interrupted and taken up again."""
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import tomllib
import unittest

from job import CONFIG, DEADLINE_SECONDS, EVERMOE, command, wait_for

STEPS, SAVED_EVERY, RECOVERY = 400, 50, 6
SETTINGS = (f"train.steps={STEPS}", f"checkpoint.every_steps={SAVED_EVERY}", "run.backoff_seconds=0.05")
TEXT = f"""strategies = ["sparse", "none"]
seeds = [1]
[model]
config = "{CONFIG}"
settings = ["{SETTINGS[0]}", "{SETTINGS[1]}", "{SETTINGS[2]}"]
[[failures]]
law = "exponential"
mtbf_steps = 200
"""


def played(losses):
    """Seconds and recoveries of a job with steps of a second that goes back to its newest save."""
    runs_from = done = recoveries = 0
    for at in losses:
        progress = done + max(0, at - runs_from)
        if progress >= STEPS:
            break
        recoveries += at >= runs_from
        done = progress // SAVED_EVERY * SAVED_EVERY
        runs_from = at + RECOVERY
    return runs_from + STEPS - done, recoveries


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
        done = json.loads((self.out / "report.json").read_text())["runs"]
        self.assertEqual([run["strategy"] for run in done], ["sparse"], "what was done before is reported")
        code, printed, said = command("experiment", self.file, "--out", self.out, "--json")
        self.assertEqual(code, 0, said)
        for name, written in kept.items():
            self.assertEqual((self.out / name).stat().st_mtime_ns, written, f"{name} was run again")
        self.assertEqual((self.out / "profile.toml").read_text(), profile, "the job was measured again")
        runs = json.loads(printed.splitlines()[-1])["runs"]
        self.assertEqual([run["strategy"] for run in runs], ["sparse", "none"])
        yardstick = json.loads((self.out / "results" / "0-1-yardstick.json").read_text())
        for run in runs:
            self.assertEqual((run["failure_process"], run["seed"], run["status"]), ("exponential-200", 1, "finished"))
            self.assertEqual(run["lost_token_share"], 0)
            self.assertEqual(run["digest"], yardstick["digest"], "a recovery changed bits")
            self.assertGreater(run["failure_count"], 0, "no worker was killed")
            # Where others use the machine, too, a yardstick may be slower than a run with failures.
            self.assertGreater(run["ettr"], 0)
            self.assertAlmostEqual(run["prediction_error"], run["predicted_ettr"] - run["ettr"])
            self.assertGreater(run["predicted"]["recoveries"], 0, "the failures were not played to the profile")
            self.assertGreater(run["recovery"]["load_seconds"], 0)
            self.assertGreater(run["memory_peak_bytes"], 1 << 20)
        page = (self.out / "report.html").read_text()
        self.assertIn("Measured and predicted", page)
        self.assertNotIn("http://", page.split("<script>")[0])
        self.assertEqual(len((self.out / "runs.csv").read_text().splitlines()), 3)

    def test_another_experiment_is_refused_its_folder(self):
        text = TEXT.replace('law = "exponential"', 'trace = "t.csv"')
        trace = self.folder / "t.csv"
        trace.write_text("".join(f"0,add,n{i}\n" for i in (1, 2, 3)) + "".join(f"{1000 * i},remove,n{i}\n" for i in (1, 2, 3)))
        self.file.write_text(text)
        self.interrupted_after("results/0-1-yardstick.json")
        other_failures = trace.read_text().replace("3000", "3500")
        for file, changed in ((trace, other_failures), (self.file, text.replace("mtbf_steps = 200", "mtbf_steps = 201"))):
            before = file.read_text()
            file.write_text(changed)
            code, _, said = command("experiment", self.file, "--out", self.out)
            self.assertEqual((code, said.count("\n")), (2, 1), said)
            self.assertIn("another experiment", said)
            file.write_text(before)

    def profiled(self, **numbers):
        """A profile of the job, measured; then with these numbers instead of the measured ones."""
        profile = self.folder / "p.toml"
        settings = [word for s in SETTINGS for word in ("--set", s)]
        code, _, said = command("profile", "--job", CONFIG, "--strategy", "none", "--rounds", 1, "--kills", 1, "--directory", self.folder,
                                *settings, "--out", profile)
        self.assertEqual(code, 0, said)
        text = profile.read_text()
        for name, value in numbers.items():
            text = re.sub(rf"^{name} = \S+", f"{name} = {value}", text, flags=re.M)
        profile.write_text(text)
        return profile

    def losses(self, run):
        """When the failures of the newest turn come, in the run's undisturbed steps after the first one begins."""
        yardstick = json.loads((self.out / "results" / "0-1-yardstick.json").read_text())
        seconds = [float(at) for at in re.findall(r"after_seconds = (\S+)", (self.out / "faults.toml").read_text())]
        return [(at - yardstick["beside_seconds"]) / run["step_seconds"] for at in seconds]

    # A step of a second, and a recovery of six: what is lost can be counted.
    def test_the_prediction_is_what_the_failures_cost_by_the_profile(self):
        profile = self.profiled(step_seconds=1.0, begin_seconds=0.0, end_seconds=0.0, save_seconds=0.0, save_lag_steps=0.0,
                                detect_seconds=1.0, view_seconds=2.0, load_seconds=3.0, settle_seconds=0.0)
        self.file.write_text(TEXT.replace('"sparse", ', ""))
        code, printed, said = command("experiment", self.file, "--out", self.out, "--profile", profile, "--json")
        self.assertEqual(code, 0, said)
        run = json.loads(printed.splitlines()[-1])["runs"][0]
        seconds, recoveries = played(self.losses(run))
        self.assertGreater(recoveries, 0)
        self.assertEqual(run["predicted"]["recoveries"], recoveries)
        self.assertAlmostEqual(run["predicted"]["seconds"], seconds, places=6)
        self.assertAlmostEqual(run["predicted_ettr"], STEPS / seconds, places=9)
        profile.write_text(profile.read_text().replace("view_seconds = 2.0", "view_seconds = 2.5"))
        kept = (self.out / "profile.toml").read_text()
        code, _, said = command("experiment", self.file, "--out", self.out, "--profile", profile)
        self.assertEqual((code, said.count("\n")), (2, 1), said)
        self.assertIn("--profile: found", said)
        self.assertEqual((self.out / "profile.toml").read_text(), kept, "the folder's profile was overwritten")
        code, _, said = command("experiment", self.file, "--out", self.out, "--profile-rounds", 0)
        self.assertEqual((code, said.count("\n")), (2, 1), said)
        self.assertIn("--profile-rounds: found 0", said)

    def test_nodes_are_lost_together(self):
        self.file.write_text(TEXT.replace('"sparse", "none"', '"dense"').replace(
            '"run.backoff_seconds=0.05"', '"run.backoff_seconds=0.05", "run.nodes=4", "run.restarts_max=50"').replace(
            "mtbf_steps = 200", "mtbf_steps = 200\nlost_together = 2"))
        code, printed, said = command("experiment", self.file, "--out", self.out, "--profile-rounds", 1, "--json")
        self.assertEqual(code, 0, said)
        run = json.loads(printed.splitlines()[-1])["runs"][0]
        yardstick = json.loads((self.out / "results" / "0-1-yardstick.json").read_text())
        self.assertEqual((run["failure_process"], run["status"]), ("exponential-200-2-nodes", "finished"))
        self.assertEqual(run["digest"], yardstick["digest"], "a recovery changed bits")
        causes = [cause for failure in run["failures"] for cause in failure["causes"]]
        self.assertTrue([cause for cause in causes if "node" in cause], "no node was killed")
        self.assertEqual((self.out / "profile.toml").read_text().count("[strategy.node]"), 2, "of dense and of none")
        self.assertGreater(run["predicted"]["recoveries"], 0)

    # One node of three goes and comes back: two systems, under the same losses.
    def test_systems_live_through_nodes_that_are_gone(self):
        self.file.write_text("""seeds = [1]
[model]
config = "%s"
settings = ["train.steps=120", "train.micro_batches=6", "parallel.lanes=[2, 1]", "run.nodes=3", "run.backoff_seconds=0.05",
            "protection.copies=2", "checkpoint.every_steps=20"]
[[systems]]
name = "elastic"
settings = ["elastic.enabled=true", "elastic.grow_wait_seconds=0.1", "protection.strategy=gradients"]
[[systems]]
name = "restarts"
settings = ["elastic.enabled=true", "elastic.grow_wait_seconds=0.1", "protection.strategy=none", "elastic.widths=[1, 2]"]
[[failures]]
trace = "t.csv"
mtbf_steps = 60
lost = "node"
""" % CONFIG)
        (self.folder / "t.csv").write_text("0,add,a\n0,add,b\n0,add,c\n6000,remove,b\n12000,add,d\n24000,remove,d\n")
        code, printed, said = command("experiment", self.file, "--out", self.out, "--json")
        self.assertEqual(code, 0, said)
        runs = json.loads(printed.splitlines()[-1])["runs"]
        self.assertEqual([(run["system"], run["strategy"]) for run in runs], [("elastic", "gradients"), ("restarts", "none")])
        for run in runs:
            self.assertEqual((run["failure_process"], run["status"]), ("trace-t-60-gone", "finished"), said)
            self.assertIsNone(run["predicted_ettr"])
            nodes = [change["nodes"] for change in run["membership_history"]]
            self.assertIn(2, nodes, f"nobody was missed: {nodes}")
            self.assertGreater(run["ettr"], 0)
        self.assertFalse((self.out / "profile.toml").exists(), "nothing is predicted of systems")

    def test_a_run_that_did_not_finish_is_no_result(self):
        self.file.write_text(TEXT.replace('"sparse", ', "").replace("mtbf_steps = 200", "mtbf_steps = 20").replace(
            '"run.backoff_seconds=0.05"', '"run.backoff_seconds=0.05", "run.restarts_max=0"'))
        code, printed, said = command("experiment", self.file, "--out", self.out, "--profile-rounds", 0, "--json")
        self.assertEqual(code, 0, said)
        self.assertEqual(json.loads(printed.splitlines()[-1])["runs"][0]["status"], "failed", said)
        self.assertTrue((self.out / "results" / "0-1-yardstick.json").exists())
        self.assertFalse((self.out / "results" / "0-1-none.json").exists(), "it would not be run again")

    def test_a_profile_that_fails_leaves_the_log_that_it_names(self):
        code, _, said = command("profile", "--job", CONFIG, "--strategy", "none", "--run-seconds-max", 1, "--directory", self.folder,
                                "--set", "train.micro_batches=256")
        self.assertNotEqual(code, 0)
        log = pathlib.Path(said.splitlines()[-1].split("see ")[1])
        self.assertTrue(log.exists(), said)

    def test_a_profile_says_what_moves_and_standbys_cost(self):
        profile = self.folder / "p.toml"
        code, _, said = command("profile", "--job", CONFIG, "--strategy", "gradients", "--rounds", 1, "--directory", self.folder,
                                "--set", "run.nodes=2", "--out", profile)
        self.assertEqual(code, 0, said)
        self.assertIn("gradients, a node announced to go ... ", said)
        measured = tomllib.loads(profile.read_text())
        gradients, none = measured["strategy"]
        self.assertEqual(gradients["move"]["moves"], 1, said)
        self.assertLess(gradients["standby"]["view_seconds"], gradients["worker"]["view_seconds"])
        self.assertGreater(gradients["move"]["bytes"], 1e6)
        self.assertNotIn("move", none, "nothing could be moved")
        code, printed, said = command("forecast", "gpt-moe-7.3b", "A100-80GB", "--set", "cluster.nodes=4", "--set", "cluster.spares=1",
                                      "--set", "failures.announced_share=0.5", "--recovery", profile, "--runs", 1, "--json")
        self.assertEqual(code, 0, said)
        found = json.loads(printed)["strategy"]["recovery"]
        self.assertEqual(found["standby_seconds"], measured["recovery"]["standby_seconds"])
        self.assertGreater(found["move_seconds"], measured["recovery"]["migrate_seconds"], "its state's way is in it")

    def test_a_profile_of_another_job_is_refused(self):
        profile = self.folder / "p.toml"
        code, _, said = command("profile", "--job", CONFIG, "--strategy", "sparse", "--rounds", 1, "--kills", 1, "--directory",
                                self.folder, "--set", "run.backoff_seconds=0.05", "--out", profile)
        self.assertEqual(code, 0, said)
        self.assertEqual(profile.read_text().count("[[strategy]]"), 2, "sparse, and none")
        text = profile.read_text()
        another_job = TEXT.replace('"run.backoff_seconds=0.05"', '"run.backoff_seconds=0.05", "train.micro_batches=2"')
        another_build = re.sub('^build = "', 'build = "9', text, flags=re.M)
        for experiment, numbers, rounds, why in ((another_job, text, 2, "another job"), (TEXT, another_build, 2, "this build"),
                                                 (TEXT, text, 0, "--profile-rounds: found 0")):
            self.file.write_text(experiment)
            profile.write_text(numbers)
            code, _, said = command("experiment", self.file, "--out", self.out, "--profile", profile, "--profile-rounds", rounds)
            self.assertEqual((code, said.count("\n")), (2, 1), said)
            self.assertIn(why, said)
            self.assertFalse(self.out.exists(), "a folder was made for bad input")

    def test_bad_input_is_one_line(self):
        for found, instead, said in (('"none"', '"nothing"', "strategies"), ("[1]", "[]", "seeds"), ("job.toml", "no.toml", "no.toml"),
                                     ('law = "exponential"', 'trace = "no.csv"', "no.csv"), ("train.steps", "train.stops", "train.stops"),
                                     ("mtbf_steps = 200", "mtbf_steps = 200\nlost_together = 2", "lost_together: found 2 with run.nodes"),
                                     ("mtbf_steps = 200", 'mtbf_steps = 200\nlost = "node"', 'lost: found "node" with run.nodes = 1'),
                                     ("[1]", '[1]\n[[systems]]\nname = "a"\nsettings = ["train.steps=3"]\n', "systems.settings"),
                                     ("[1]", '[1]\n[[systems]]\nname = "a"\nsettings = ["elastic.min_nodes=0"]\n', "elastic.min_nodes")):
            with self.subTest(said):
                self.file.write_text(TEXT.replace(found, instead))
                code, _, error = command("experiment", self.file, "--out", self.out)
                self.assertEqual((code, error.count("\n")), (2, 1), error)
                self.assertIn(said, error)
                self.assertFalse(self.out.exists(), "a folder was made for bad input")


if __name__ == "__main__":
    unittest.main()
