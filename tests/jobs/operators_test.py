"""What people do with a job that runs: look, drain, stop, take machines away; and the exit codes that scripts act on."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

from job import CONFIG, ENDLESS, EVERMOE, SMALL, Job, Nodes, assert_drained, command, wait_for


def status_of(job):
    """What `evermoe status --json` says."""
    code, out, error = command("status", job, "--json")
    assert code == 0 and out, error  # of a job that has ended there is no status, but the reason
    return json.loads(out)


class Status(unittest.TestCase):
    def test_a_running_job_tells_how_it_is(self):
        with Job(self, *ENDLESS).start(flags=["--nodes", "2", "--spares", "1"]) as run:
            run.wait_step(8)
            status = wait_for(lambda: (s := status_of(run.out)) and s["window"] and s["durable_step"] and s, "a window")
            self.assertGreaterEqual(status["step"], 8)
            self.assertEqual((status["steps"], status["view"], status["open"]), (100000, 1, True))
            self.assertEqual([node["state"] for node in status["nodes"]], ["in use", "in use", "spare"])
            self.assertEqual([node["host"] for node in status["nodes"]], [os.uname().nodename] * 3)
            self.assertEqual({role["role"]: role["pid"] for role in status["roles"]}, run.workers())
            self.assertEqual([role["node"] for role in status["roles"]], [0, 0, 1, 1])
            self.assertEqual(status["survives"]["text"], "any one node; any two but 0+1")
            self.assertEqual(status["failures"], 0)
            self.assertTrue(0 < status["ettr"] <= 1, status)
            code, out, _ = command("status", run.out)
            self.assertEqual(code, 0)
            self.assertRegex(out, r"job +step \d+ of 100000")
            self.assertRegex(out, r"   2  \S+ +spare ")
            self.assertRegex(out, r"1\.1 +1 +\d+  running")
            os.kill(run.pid_of("0.1"), signal.SIGKILL)
            wait_for(lambda: status_of(run.out)["failures"] == 1, "the failure")
            watch = subprocess.Popen([EVERMOE, "status", str(run.out), "--watch"], stdout=subprocess.PIPE, text=True)
            out = ""
            while out.count("survives") < 2 and (line := watch.stdout.readline()):
                out += line
            self.assertEqual(command("drain", run.out)[0], 0)
            out += watch.communicate(timeout=60)[0]
            self.assertEqual(watch.returncode, 0)
            self.assertGreaterEqual(out.count("survives"), 2)
            self.assertIn("the job is drained", out)
        self.assertEqual((run.summary["status"], run.summary["exit_code"]), ("drained", 0))

    def test_where_no_job_runs(self):
        job = Job(self, *SMALL)
        for where, words in [(job.out, "found"), (job.folder, "no job runs in"), ("nowhere", "HOST:PORT")]:
            code, _, error = command("status", where)
            self.assertEqual((code, len(error.splitlines())), (2, 1), error)
            self.assertIn(words, error)
        job.complete("train.steps=2")
        self.assertEqual(command("drain", job.out)[0], 2, "it has ended")
        code, _, error = command("status", "127.0.0.1:1")
        self.assertEqual((code, len(error.splitlines())), (2, 1), error)
        self.assertIn("--keys", error)
        keys = os.path.join(job.folder, "keys")
        self.assertEqual(command("keys", "new", keys)[0], 0)
        code, _, error = command("status", "127.0.0.1:1", "--keys", keys)
        self.assertEqual((code, len(error.splitlines())), (1, 1), error)
        self.assertIn("does not answer", error)


class Ended(unittest.TestCase):
    """What an operator's wishes and failures end with."""

    def test_drain_saves_and_the_next_run_goes_on(self):
        job = Job(self, *SMALL)
        with job.start("train.steps=100000", flags=["--drained-exit-code", "3"]) as run:
            run.wait_step(7)
            code, out, error = command("drain", run.out)
        self.assertEqual(code, 0, error)
        self.assertIn("the job is drained", out)
        self.assertRegex(error, r"step \d+ of 100000")
        self.assertEqual((run.summary["status"], run.summary["exit_code"]), ("drained", 3), run.story())
        self.assertIn("an operator drains the job", run.story())
        self.assertGreaterEqual(run.summary["steps"], 7)

    def test_drain_without_waiting(self):
        with Job(self, *ENDLESS).start() as run:
            run.wait_step(3)
            code, out, error = command("drain", run.out, "--no-wait")
            self.assertEqual(code, 0, error)
            self.assertIn("the job drains: the workers finish", out, "it does not wait for the end")
        self.assertEqual(run.summary["status"], "drained")

    def test_drain_outlasts_a_controller_that_is_silent_for_a_while(self):
        with Nodes(self, 2, *ENDLESS) as nodes:
            nodes.wait_step(3)
            worker = nodes.pid_of("1.1")
            os.kill(worker, signal.SIGSTOP)  # so that the end waits
            drain = subprocess.Popen([EVERMOE, "drain", str(nodes.out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     text=True)
            self.assertIn("of 100000", drain.stderr.readline(), "the controller drains the job")
            nodes.processes[0].send_signal(signal.SIGSTOP)
            os.kill(worker, signal.SIGCONT)
            time.sleep(8)  # longer than an answer may take
            self.assertIsNone(drain.poll(), "it waits")
            nodes.processes[0].send_signal(signal.SIGCONT)
            out, error = drain.communicate(timeout=120)
        self.assertEqual(drain.returncode, 0, error)
        self.assertIn("the job is drained", out)
        assert_drained(self, nodes, *ENDLESS)

    def test_stop_saves_nothing_and_nobody_starts_it_again(self):
        job = Job(self, *ENDLESS)
        with job.start() as run:
            run.wait_step(8)
            wait_for(lambda: (run.out / "checkpoints" / "latest").is_symlink(), "a checkpoint")
            code, out, error = command("stop", run.out)
        self.assertEqual(code, 0, error)
        self.assertIn("stopped", out)
        self.assertEqual((run.summary["status"], run.summary["exit_code"]), ("failed", 4), run.story())
        self.assertIn("evermoe stop", run.summary["reason"])
        self.assertEqual(int(re.findall(r"\d+", run.summary["checkpoint"])[-1]) % 6, 0, "only what was there before")

    def test_a_signal_while_agents_are_started_is_read(self):
        job = Job(self, *ENDLESS)
        with job.start(flags=["--nodes", "40"]) as run:
            wait_for(lambda: (run.out / "control.json").exists(), "the first process")
            run.process.send_signal(signal.SIGTERM)
        self.assertIn("signal 15: the workers finish their step", run.story().partition("the job begins")[0])
        self.assertEqual((run.summary["status"], run.summary["exit_code"]), ("drained", 0), run.story())

    def test_a_second_signal_ends_a_job_that_cannot_finish_its_step(self):
        job = Job(self, *ENDLESS, "protection.heartbeat_seconds=10", "protection.step_deadline_medians=1000000")
        with job.start() as run:
            run.wait_step(4)
            os.kill(run.pid_of("1.1"), signal.SIGSTOP)
            run.process.send_signal(signal.SIGTERM)
            wait_for(lambda: "signal 15: the workers finish their step" in run.story(), "the first signal")
            time.sleep(1.2)  # two within a second are one wish
            run.process.send_signal(signal.SIGTERM)
        self.assertEqual(run.summary["exit_code"], 128 + signal.SIGTERM, run.story())

    def test_too_little_address_space_is_said_at_once(self):
        job = Job(self, *SMALL)
        done = subprocess.run(["bash", "-c", f"ulimit -v 716800; exec {EVERMOE} run {CONFIG} --out {job.out} --json"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
        self.assertIn("ulimit -v", done.stderr)


class Leaving(unittest.TestCase):
    """A machine that will be taken away soon."""

    def test_a_spare_takes_over_and_the_node_may_come_back(self):
        for number in (signal.SIGUSR1, signal.SIGTERM):
            with self.subTest(number=number):
                with Nodes(self, 3, *ENDLESS, flags=["--spares", "1"]) as nodes:
                    nodes.wait_step(8)
                    wait_for(lambda: status_of(nodes.out)["nodes"][2]["state"] == "spare", "the spare")
                    survivor = nodes.pid_of("0.0")
                    nodes.processes[1].send_signal(number)
                    self.assertEqual(nodes.processes[1].wait(timeout=60), 0, nodes.story())
                    self.assertIn("node 1 leaves", nodes.story())
                    wait_for(lambda: [node["state"] for node in status_of(nodes.out)["nodes"]] == ["in use", "absent", "in use"],
                             "its roles on the spare")
                    nodes.start_again(1)
                    wait_for(lambda: status_of(nodes.out)["nodes"][1]["state"] == "spare", "its return")
                    self.assertEqual(nodes.pid_of("0.0"), survivor)
                    code, _, error = command("drain", nodes.out)
                    self.assertEqual(code, 0, error + nodes.story())
                assert_drained(self, nodes, *ENDLESS)
                self.assertEqual(nodes.summary["restarts"], 0)
                self.assertEqual([p.returncode for p in nodes.processes], [0, 0, 0], nodes.story())

    def test_without_a_spare_all_save_and_end(self):
        with Nodes(self, 2, *ENDLESS, flags=["--drained-exit-code", "3"]) as nodes:
            nodes.wait_step(8)
            nodes.processes[1].send_signal(signal.SIGUSR1)
        self.assertEqual(nodes.summary["status"], "drained", nodes.story())
        self.assertEqual(nodes.summary["failures"], [])
        self.assertIn("node 1 leaves and no other can take its place", nodes.story())
        self.assertEqual([p.returncode for p in nodes.processes], [3, 3], nodes.story())

    def test_with_the_only_host_all_save_and_end(self):
        with Nodes(self, 3, *ENDLESS, flags=["--spares", "1"]) as nodes:
            nodes.wait_step(4)
            nodes.processes[0].send_signal(signal.SIGUSR1)
            nodes.processes[0].wait(timeout=60)
        self.assertEqual(nodes.summary["status"], "drained", nodes.story())
        self.assertEqual(nodes.summary["failures"], [])
        self.assertEqual([p.returncode for p in nodes.processes], [0, 0, 0], nodes.story())


if __name__ == "__main__":
    unittest.main(verbosity=2)
