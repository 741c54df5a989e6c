"""examples/lab/lab.sh, as its users have it: machines that are namespaces, commands from another terminal."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "jobs"))

from job import CONFIG, DEADLINE_SECONDS, ENDLESS, EVERMOE, SMALL, Job, Undisturbed, wait_for  # noqa: E402
from processes import processes  # noqa: E402

LAB = ROOT / "examples" / "lab" / "lab.sh"
LONG = (*SMALL, "train.steps=150")


class Lab:
    """`lab.sh up` in a terminal of its own, from its start to its end. A context."""

    def __init__(self, test, *settings, machines=4):
        self.job = Job(test, *settings)
        self.out = pathlib.Path(self.job.out)
        self.folder = pathlib.Path(self.job.folder) / "lab"
        self.environment = dict(os.environ, EVERMOE=EVERMOE, LAB=str(self.folder))
        self.log = pathlib.Path(self.job.folder) / "up.log"
        words = [word for s in settings for word in ("--set", s)]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([LAB, "up", "-n", str(machines), CONFIG, self.out, *words], stdout=log, stderr=log,
                                            env=self.environment, start_new_session=True,
                                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))

    def run(self, *words):
        """A command of another terminal: (exit code, stdout, lines of stderr)."""
        done = subprocess.run([LAB, *words], env=self.environment, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        return done.returncode, done.stdout, done.stderr.splitlines()

    def do(self, *words):
        code, out, error = self.run(*words)
        assert code == 0, (words, error, self.story())
        return out

    def states(self):
        code, out, _ = self.run("status", "--json")
        return [node["state"] for node in json.loads(out)["nodes"]] if code == 0 else []

    def wait_states(self, *states):
        wait_for(lambda: self.states() == list(states), lambda: f"{states}, not {self.states()}\n{self.story()}")

    def wait_step(self, step):
        def is_there():
            with contextlib.suppress(OSError, IndexError):
                return json.loads((self.out / "metrics.jsonl").read_text().splitlines()[-1])["step"] >= step
        wait_for(is_there, lambda: f"step {step}\n{self.story()}")

    def processes(self):
        """Whatever was started in it or beside it; the commands of this test have ended."""
        return processes("", LAB=self.folder)

    def story(self):
        return self.log.read_text()[-8000:]

    def exit_code(self):
        return self.process.wait(timeout=DEADLINE_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class LabTest(unittest.TestCase):
    def around(self):
        """What of the system a lab could leave behind."""
        links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
        names = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
        return sorted(line.split()[1] for line in links.splitlines()), names, pathlib.Path("/proc/self/mounts").read_text()

    def setUp(self):
        before = self.around()
        self.addCleanup(lambda: self.assertEqual(self.around(), before, "left behind"))

    def assert_nothing_left(self, lab):
        wait_for(lambda: not lab.processes(), lambda: f"the end of {lab.processes()}")
        self.assertFalse(lab.folder.exists())


class Jobs(LabTest):
    def test_a_machine_is_killed_and_the_job_finishes(self):
        with Lab(self, *LONG) as lab:
            lab.wait_step(8)
            lab.do("kill", "1")
            self.assertEqual(lab.exit_code(), 0, lab.story())
        self.assertIn("node 1 is lost", lab.story())
        done = subprocess.run([EVERMOE, "digest", lab.out], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), Undisturbed.digest(self, *LONG), lab.story())
        self.assert_nothing_left(lab)

    def test_machines_come_and_go_until_ctrl_c(self):
        with Lab(self, *ENDLESS, machines=3) as lab:
            lab.wait_step(8)
            self.assertEqual(lab.do("enter", "2", "hostname"), "m2\n")
            lab.wait_states("in use", "in use", "spare")
            lab.do("leave", "1")
            lab.wait_states("in use", "absent", "in use")
            wait_for(lambda: lab.run("leave", "1")[0] == 1, "machine 1 to be off")
            lab.do("start", "1")
            lab.wait_states("in use", "spare", "in use")
            lab.do("cut", "2")
            lab.wait_states("in use", "in use", "lost")
            lab.do("heal", "2")
            lab.wait_states("in use", "in use", "spare")
            lab.do("slow", "1", "8mbit")
            os.killpg(lab.process.pid, signal.SIGINT)
            self.assertEqual(lab.exit_code(), 0, lab.story())
        self.assertIn("drained: step", lab.story())
        self.assert_nothing_left(lab)


class Ends(LabTest):
    def test_at_once(self):
        """However: nothing of it lives on."""
        def kill(lab):
            lab.process.kill()
        def ask(lab):
            lab.do("down")
        for way, code in (kill, -signal.SIGKILL), (ask, 128 + signal.SIGTERM):
            with self.subTest(way=way.__name__), Lab(self, *ENDLESS, machines=2) as lab:
                wait_for(lambda: lab.run("enter", "1", "true")[0] == 0, "machine 1")
                way(lab)
                self.assertEqual(lab.exit_code(), code, lab.story())
                wait_for(lambda: not lab.processes(), lambda: f"the end of {lab.processes()}")
                self.assertEqual(lab.run("status")[::2], (1, ["lab.sh: no lab is up"]))


class BadInput(LabTest):
    def assert_refused(self, lab, *words, code=2):
        got, _, error = lab.run(*words)
        self.assertEqual((got, len(error)), (code, 1), (words, error))
        self.assertRegex(error[0], "^lab.sh: ")

    def test_each_kind_is_one_line(self):
        with Lab(self, *ENDLESS, machines=2) as lab:
            wait_for(lambda: lab.run("enter", "1", "true")[0] == 0, "machine 1")
            for words in (("fly",), ("up",), ("up", "-n"), ("up", "-n", "1", CONFIG, "out"), ("up", "-s", "4", CONFIG, "out"),
                          ("up", "-x", CONFIG, "out"), ("up", "missing.toml", "out"), ("up", CONFIG, "/run/out"), ("kill",),
                          ("kill", "2"), ("cut", "x"), ("slow", "1"), ("slow", "1", "fast"), ("delay", "1", "-5"),
                          ("delay", "1", "5", "100")):
                with self.subTest(words=words):
                    self.assert_refused(lab, *words)
            self.assert_refused(lab, "start", "1", code=1)
            self.assert_refused(lab, "up", CONFIG, "out", code=1)  # another one of this name
            code, _, error = lab.run("delay", "1", "5")  # not every kernel can
            self.assertIn((code, len(error)), [(0, 0), (1, 1)], error)
            lab.do("down")


if __name__ == "__main__":
    unittest.main(verbosity=2)
