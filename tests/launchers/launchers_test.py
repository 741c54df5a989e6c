"""Real launchers start the nodes of real jobs: Slurm, mpirun and torchrun, all nodes on this machine."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "jobs"))

from job import CONFIG, EVERMOE, SMALL, Job, Undisturbed, command, free_port, wait_for  # noqa: E402
from processes import kill, processes  # noqa: E402
from slurm import Slurm, missing  # noqa: E402

LONG = (*SMALL, "train.steps=300")
EXAMPLES = ROOT / "examples" / "slurm"


class Folder:
    """A job's configuration with its settings as a file, and its output folder."""

    def __init__(self, test, *settings):
        self.job = Job(test, *settings)
        self.out = pathlib.Path(self.job.out)
        self.config = pathlib.Path(self.job.folder) / "job.toml"
        words = [word for s in settings for word in ("--set", s)]
        code, text, error = command("config", CONFIG, *words, "--show")
        assert code == 0, error
        self.config.write_text(text)

    def step(self):
        """The newest committed step."""
        with contextlib.suppress(OSError, IndexError):
            return int(re.findall(r'"step":(\d+)', (self.out / "metrics.jsonl").read_text())[-1])
        return 0

    def wait_step(self, step):
        wait_for(lambda: self.step() >= step, f"step {step}")

    def digest(self):
        return command("digest", self.out)[1].strip()


class LauncherTest(unittest.TestCase):
    def assert_shown(self, output, summary="finished: step 24"):
        """Progress, story and summary of the one node that tells people."""
        self.assertIn("the job begins", output)
        self.assertRegex(output, r"step +1\b")
        self.assertEqual(output.count(summary), 1, output)
        self.assertRegex(output, r"digest +[0-9a-f]{32}")


class OpenMpi(LauncherTest):
    def run_nodes(self, folder, count, *flags):
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                           MASTER_PORT=str(free_port()))
        return subprocess.run(["mpirun", "--oversubscribe", "-n", str(count), EVERMOE, "node", folder.config, "--out", folder.out,
                               *flags], env=environment, capture_output=True, text=True, timeout=200)

    def test_a_job_with_a_spare(self):
        folder = Folder(self, *SMALL)
        done = self.run_nodes(folder, 3, "--spares", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_shown(done.stdout)
        self.assertEqual(folder.digest(), Undisturbed.digest(self, *SMALL))


class Torchrun(LauncherTest):
    def test_one_node_for_each_agent_of_torchrun(self):
        folder = Folder(self, *SMALL)
        port = free_port()
        agents = [subprocess.Popen(
            [ROOT / ".venv" / "bin" / "torchrun", "--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=1",
             "--master-addr=127.0.0.1", f"--master-port={port}", "--no-python", EVERMOE, "node", folder.config, "--out",
             folder.out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(2)]
        texts = [agent.communicate(timeout=200) for agent in agents]
        self.assertEqual([agent.returncode for agent in agents], [0, 0], texts)
        self.assert_shown(texts[0][0])
        self.assertEqual(folder.digest(), Undisturbed.digest(self, *SMALL))


class SlurmTest(LauncherTest):
    """slurmctld, munged, and a slurmd for each of four nodes."""

    @classmethod
    def setUpClass(cls):
        assert not missing(), f"install slurmctld, slurmd, slurm-client and munge: {missing()} are missing"
        cls.slurm = Slurm(nodes=4)
        cls.slurm.__enter__()
        cls.addClassCleanup(cls.slurm.__exit__)

    def setUp(self):
        self.port = free_port()

    def submit(self, script, folder, *flags, spares=0):
        environment = dict(EVERMOE=EVERMOE, CONFIG=folder.config, OUT=folder.out, SPARES=spares, MASTER_PORT=self.port,
                           DRAIN_POLL_SECONDS=1)
        exported = ",".join(f"{name}={value}" for name, value in environment.items())
        done = self.slurm.run("sbatch", "--parsable", f"--export=ALL,{exported}", f"--output={folder.job.folder}/%x-%j.log",
                              *flags, EXAMPLES / script)
        return done.stdout.strip()

    def state(self, job):
        return self.slurm.run("scontrol", "show", "job", "-o", job).stdout

    def wait_state(self, job, *states):
        def reached():
            return any(f"JobState={state} " in self.state(job) for state in states)
        wait_for(reached, f"job {job}: {states}")

    def log(self, folder, job):
        return "".join(path.read_text() for path in pathlib.Path(folder.job.folder).glob(f"*-{job}.log"))


class RealSlurm(SlurmTest):
    def test_srun_on_three_machines(self):
        folder = Folder(self, *SMALL)
        done = self.slurm.run("srun", "-N3", "--ntasks-per-node=1", "--export=ALL," + f"MASTER_PORT={self.port}", EVERMOE, "node",
                              folder.config, "--out", folder.out, "--spares", "1", check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_shown(done.stdout)
        self.assertEqual(folder.digest(), Undisturbed.digest(self, *SMALL))

    def test_a_machine_that_is_drained_is_empty_before_the_job_ends(self):
        folder = Folder(self, *LONG)
        job = self.submit("requeue.sh", folder, "--nodes=3", spares=1)
        folder.wait_step(8)
        self.slurm.run("scontrol", "update", "NodeName=m1", "State=DRAIN", "Reason=maintenance")
        self.addCleanup(self.slurm.run, "scontrol", "update", "NodeName=m1", "State=RESUME")
        wait_for(lambda: not processes("evermoe", **self.slurm.tasks("m1", job)), "the machine is empty")
        self.assertLess(folder.step(), 300)
        self.wait_state(job, "COMPLETED")
        log = self.log(folder, job)
        self.assertIn("node 1 leaves", log)
        self.assertNotIn("is lost", log)
        self.assert_shown(log, "finished: step 300")
        self.assertEqual(folder.digest(), Undisturbed.digest(self, *LONG))

    def test_two_tasks_on_a_machine_are_refused(self):
        folder = Folder(self, *SMALL)
        done = self.slurm.run("srun", "-N1", "--ntasks-per-node=2", EVERMOE, "node", folder.config, "--out", folder.out, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("allowed: one on each (srun --ntasks-per-node=1)", done.stderr)

    def test_a_chain_of_short_jobs(self):
        folder = Folder(self, *LONG)
        jobs = [self.submit("chain.sh", folder, "--nodes=2") for _ in range(3)]
        folder.wait_step(8)
        self.slurm.run("scancel", "--signal=USR1", "--batch", jobs[0])
        for job in jobs:
            self.wait_state(job, "COMPLETED")
        logs = [self.log(folder, job) for job in jobs]
        self.assertIn("drained: step", logs[0])
        self.assertIn("finished: step 300", logs[1])
        self.assertIn("nothing to do", logs[2])
        self.assertEqual(folder.digest(), Undisturbed.digest(self, *LONG))


class RequeuedBySlurm(SlurmTest):
    """A part of the long campaign: what is queued again waits for two minutes."""

    def test_a_job_whose_time_is_over_is_queued_again_and_goes_on(self):
        folder = Folder(self, *LONG)
        job = self.submit("requeue.sh", folder, "--nodes=3", spares=1)
        folder.wait_step(8)
        # A machine is lost, all its processes at once.
        kill("evermoe", **self.slurm.tasks("m1", job))
        folder.wait_step(folder.step() + 20)
        self.slurm.run("scancel", "--signal=USR1", "--batch", job)  # as at the end of its time
        wait_for(lambda: "queued again" in self.log(folder, job), "the end of the first part")
        self.assertLess(folder.step(), 300)
        self.assertIn("exit code 3: queued again", self.log(folder, job))
        self.wait_state(job, "COMPLETED")
        log = self.log(folder, job)
        self.assertIn("is lost", log)
        self.assert_shown(log, "finished: step 300")
        self.assertEqual(folder.digest(), Undisturbed.digest(self, *LONG))

    def test_bad_input_is_not_queued_again(self):
        folder = Folder(self, *SMALL)
        folder.config.write_text(folder.config.read_text() + "\n[nonsense]\nkey = 1\n")
        job = self.submit("requeue.sh", folder, "--nodes=2")
        self.wait_state(job, "FAILED")
        self.assertIn("exit code 2: starting it again would not help", self.log(folder, job))
        self.assertIn("ExitCode=2:0", self.state(job))

    def test_scancel_drains_the_job(self):
        folder = Folder(self, *SMALL, "train.steps=100000")
        job = self.submit("chain.sh", folder, "--nodes=2")
        folder.wait_step(8)
        self.slurm.run("scancel", "--signal=TERM", job)  # every process of the job
        wait_for(lambda: "drained: step" in self.log(folder, job), "the end")
        self.assertNotIn("is lost", self.log(folder, job))


class Scripts(unittest.TestCase):
    def test_they_are_shell(self):
        for script in EXAMPLES.glob("*.sh"):
            self.assertEqual(subprocess.run(["bash", "-n", script]).returncode, 0, script)
            self.assertTrue(os.access(script, os.X_OK), script)


if __name__ == "__main__":
    unittest.main(verbosity=2)
