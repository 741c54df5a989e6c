"""Machines that are lost, join and leave while a real launcher has started the others; all on this machine.

Each job has room for four nodes, of which two play roles; the launcher starts three, and others come later.
"""
import contextlib
import json
import os
import re
import signal
import subprocess
import unittest

from launchers_test import ROOT, Folder, SlurmTest
from job import DEADLINE_SECONDS, ENDLESS, EVERMOE, Undisturbed, command, free_port, wait_for
from processes import kill, processes


class Launched:
    """A command to its end. A context: nothing of it lives afterwards."""

    def __init__(self, argv, environment, log):
        self.log = log
        with open(log, "a") as file:
            self.process = subprocess.Popen(list(map(str, argv)), env=environment, stdout=file, stderr=file,
                                            start_new_session=True)

    def exit_code(self):
        return self.process.wait(timeout=DEADLINE_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class ChangingJob:
    """Nodes of one job that lasts until it is drained: those of a launcher, and those that join by a plain command."""

    def __init__(self, test):
        self.test = test
        self.folder = Folder(test, *ENDLESS)
        self.id = os.path.basename(self.folder.job.folder)
        self.environment = dict(os.environ, EVERMOE_TEST_JOB=self.id)
        self.argv = [EVERMOE, "node", self.folder.config, "--out", self.folder.out, "--nodes", 4, "--spares", 2, "--json"]
        self.log = self.folder.out.parent / "launcher.log"
        test.addCleanup(self.end)

    def end(self):
        with contextlib.suppress(AssertionError):
            self.lose()

    def launched(self, launcher, *flags, **environment):
        """By a launcher's command, with more flags for the nodes."""
        return Launched([*launcher, *self.argv, *flags], {**self.environment, **environment}, self.log)

    def joined(self, node, port):
        """By a plain command."""
        return self.launched((), "--node", node, "--join", f"127.0.0.1:{port}", EVERMOE_TEST_NODE=str(node))

    def lose(self, **variables):
        """A node with its workers, at once."""
        kill("evermoe", EVERMOE_TEST_JOB=self.id, **variables)

    def tell_to_leave(self, **variables):
        os.kill(processes("evermoe", EVERMOE_TEST_JOB=self.id, **variables)[0], signal.SIGUSR1)

    def status(self):
        code, out, _ = command("status", self.folder.out, "--json")
        return json.loads(out) if code == 0 else None

    def wait_until(self, *numbers, state):
        """The nodes with these numbers, of all, are so, and the next loss would be survived."""
        def is_so():
            status = self.status()
            return (status and status["open"] and status["survives"]["any_nodes"] >= 1
                    and set(numbers) == {node["node"] for node in status["nodes"] if node["state"] == state}
                    and all(role["phase"] == "running" for role in status["roles"]) and status)

        def story():
            return f"{state}: {numbers}; {self.status()}\n{self.story()}"
        step = wait_for(is_so, story)["step"] or 0
        # What was lost before is recovered: another loss is a failure of its own.
        wait_for(lambda: ((is_so() or {}).get("step") or 0) > step + 1, story)

    def drain(self):
        code, _, error = command("drain", self.folder.out)
        assert code == 0, error + self.story()

    def assert_undisturbed(self, failures):
        """It was drained with the bits of the job that nobody disturbed, and nothing sent all back to the disk; the roles of
        the node that left have moved."""
        told = re.findall(r'\{"status":.*\}', self.log.read_text())
        self.test.assertEqual(len(told), 1, self.story())
        summary = json.loads(told[0])
        self.test.assertEqual((summary["status"], summary["restarts"]), ("drained", 0), self.story())
        self.test.assertEqual(len(summary["failures"]), failures, self.story())
        self.test.assertEqual([move["state"] for move in summary["moves"]], ["done"], self.story())
        steps = f"train.steps={summary['steps']}"
        self.test.assertEqual(summary["digest"], Undisturbed.digest(self.test, *ENDLESS, steps), self.story())

    def story(self):
        """Crashes first: long outputs are cut."""
        text = self.log.read_text()
        crashes = [text[max(0, at.start() - 500):at.start() + 3000] for at in re.finditer("crashed: process", text)]
        return "\n".join([*crashes, text[-8000:]])


class OpenMpi(unittest.TestCase):
    ROOT = dict(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    MPIRUN = ("mpirun", "--oversubscribe", "-n", 3)

    def test_with_recovery_nodes_are_lost_join_and_leave(self):
        job, port = ChangingJob(self), free_port()
        with job.launched((*self.MPIRUN, "--enable-recovery"), **self.ROOT, MASTER_PORT=str(port)) as launcher:
            job.wait_until(0, 1, state="in use")
            job.wait_until(2, state="spare")
            job.lose(OMPI_COMM_WORLD_RANK=1)
            job.wait_until(0, 2, state="in use")
            with job.joined(3, port) as late, job.joined(1, port) as again:
                job.wait_until(1, 3, state="spare")
                job.tell_to_leave(OMPI_COMM_WORLD_RANK=2)
                job.wait_until(0, 1, state="in use")
                job.lose(EVERMOE_TEST_NODE=1)
                job.wait_until(0, 3, state="in use")
                job.drain()
                self.assertEqual([late.exit_code(), again.exit_code()], [0, -signal.SIGKILL], job.story())
            self.assertEqual(launcher.exit_code(), 0, job.story())
        job.assert_undisturbed(failures=2)

    def test_without_it_all_end(self):
        job = ChangingJob(self)
        with job.launched(self.MPIRUN, **self.ROOT, MASTER_PORT=str(free_port())) as launcher:
            job.wait_until(0, 1, state="in use")
            job.lose(OMPI_COMM_WORLD_RANK=1)
            self.assertEqual(launcher.exit_code(), 128 + signal.SIGKILL, job.story())


class Torchrun(unittest.TestCase):
    def agents(self, job, port):
        flags = ["--nnodes=3", "--nproc-per-node=1", "--max-restarts=2", "--master-addr=127.0.0.1", f"--master-port={port}",
                 "--no-python"]
        return [job.launched((ROOT / ".venv" / "bin" / "torchrun", f"--node-rank={rank}", *flags)) for rank in range(3)]

    def test_nodes_are_started_again_join_and_leave(self):
        job, port = ChangingJob(self), free_port()
        with contextlib.ExitStack() as stack:
            agents = [stack.enter_context(agent) for agent in self.agents(job, port)]
            job.wait_until(0, 1, state="in use")
            job.wait_until(2, state="spare")
            job.lose(RANK=1)
            job.wait_until(0, 2, state="in use")
            job.wait_until(1, state="spare")  # started again by its torchrun
            late = stack.enter_context(job.joined(3, port + 1))
            job.wait_until(1, 3, state="spare")
            job.tell_to_leave(RANK=2)
            job.wait_until(0, 1, state="in use")
            job.lose(RANK=1)
            job.wait_until(0, 3, state="in use")
            job.wait_until(1, state="spare")
            job.drain()
            self.assertEqual([one.exit_code() for one in (*agents, late)], [0] * 4, job.story())
        job.assert_undisturbed(failures=2)


class Srun(SlurmTest):
    def srun(self, job, name, machines, *flags):
        """A step of its own, with a node on each of so many machines."""
        step = ("srun", "-J", name, "-N", len(machines), "-w", ",".join(machines), "--ntasks-per-node=1", "--no-kill",
                "--kill-on-bad-exit=0")
        return job.launched(step, *flags, **self.slurm.environment, MASTER_ADDR="127.0.0.1",
                            MASTER_PORT=str(self.port))  # Slurm's names of machines are known inside its jobs only

    def number(self, name):
        """Of the Slurm job of that name."""
        return wait_for(lambda: self.slurm.run("squeue", "-h", "-n", name, "-o", "%i").stdout.strip(), name)

    def test_nodes_are_lost_join_and_leave(self):
        job, where = ChangingJob(self), ("--join", f"127.0.0.1:{self.port}")
        with self.srun(job, "first", ("m0", "m1", "m2")) as first:
            job.wait_until(0, 1, state="in use")
            job.wait_until(2, state="spare")
            number = self.number("first")
            job.lose(**self.slurm.tasks("m1", number))
            job.wait_until(0, 2, state="in use")
            with self.srun(job, "late", ("m3",), "--node", 3, *where) as late:
                job.wait_until(3, state="spare")
                job.lose(**self.slurm.tasks("m2", number))
                job.wait_until(0, 3, state="in use")
                with self.srun(job, "again", ("m1",), "--node", 1, *where) as again:
                    job.wait_until(1, state="spare")
                    self.slurm.run("scancel", "--signal=USR1", self.number("late"))
                    job.wait_until(0, 1, state="in use")
                    self.assertEqual(late.exit_code(), 0, job.story())
                    job.drain()
                    self.assertEqual(again.exit_code(), 0, job.story())
            self.assertEqual(first.exit_code(), 128 + signal.SIGKILL, job.story())
        job.assert_undisturbed(failures=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
