"""Plans that agents get from each other over a network: real processes, lines with the job's keys. Workers are of the hash
model (tests/control/hash_job.cc): six of them begin in a second."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from job import DEADLINE_SECONDS, EVERMOE, command, free_port

HASH_JOB = pathlib.Path(EVERMOE).parent / "tests_bin" / "hash_job"
CONFIG = """
[train]
steps = 60
[parallel]
stages = 2
lanes = 3
[run]
nodes = 6
"""


class Plans(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="evermoe-plans-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.config = self.folder / "config.toml"
        self.config.write_text(CONFIG)
        self.keys = self.folder / "keys"
        self.assertEqual(command("keys", "new", self.keys)[0], 0)
        self.address = f"127.0.0.1:{free_port()}"

    def start(self, name, *words):
        with open(self.log(name), "w") as log:
            process = subprocess.Popen([HASH_JOB, *map(str, words)], stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def log(self, name):
        return self.folder / f"{name}.log"

    def start_controller(self):
        self.start("controller", "controller-process", "--config", self.config, "--address", self.address, "--keys", self.keys,
                   "--term", 1, "--term-owner", "test", "--term-job", "job")

    def start_agent(self, node):
        return self.start(f"agent-{node}", "agent-process", "--config", self.config, "--out", self.folder, "--node", node,
                          "--controller", self.address, "--keys", self.keys, "--secret", self.keys / "secret", "--worker", HASH_JOB,
                          "--", "train", "--config", self.config, "--out", self.folder, "--step-ms", 5)

    def test_the_controller_sends_the_first_plan_to_four_agents_and_they_tell_it_to_the_others(self):
        self.start_controller()
        agents = [self.start_agent(node) for node in range(6)]
        for agent in agents:
            self.assertEqual(agent.wait(timeout=DEADLINE_SECONDS), 0, self.log("controller").read_text())
        said = "".join(self.log(f"agent-{node}").read_text() for node in range(6))
        asked = re.findall(r"\[(agent \d)\] asks 127\.0\.0\.1:\d+ for the plan of view 1\n", said)
        self.assertEqual(sorted(asked), ["agent 4", "agent 5"], said)
        self.assertRegex(said, r"\[agent 0\] tells a plan to ")
        self.assertNotIn("asks the controller for the plan instead", said)
        self.assertIn("the job ends: finished", self.log("controller").read_text())


if __name__ == "__main__":
    unittest.main()
