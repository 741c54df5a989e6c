"""One number for one event: what the logs of all nodes say of a failure is found by its incident."""
import os
import pathlib
import re
import signal
import unittest

from job import SMALL, Nodes, Undisturbed, wait_for

STEPS = (*SMALL, "train.steps=60")


class Incidents(unittest.TestCase):
    def speakers_of(self, nodes, incident):
        """Who wrote of it: the story and nodes, on standard error, and files of OUT/logs."""
        lines = re.findall(rf"^(.*)\] incident {incident}: ", pathlib.Path(nodes.log.name).read_text(), re.MULTILINE)
        speakers = {line.split("[")[1] if "[node" in line else "story" for line in lines}
        logs = nodes.out / "logs"
        files = {str(log.relative_to(logs)) for log in logs.glob("**/*.log") if f" incident {incident}: " in log.read_text()}
        return speakers, files

    def test_the_workers_of_a_node_and_then_a_whole_node(self):
        with Nodes(self, 3, *STEPS, flags=["--spares", "1"]) as nodes:
            nodes.wait_step(8)
            for role in "1.0", "1.1":
                os.kill(nodes.pid_of(role), signal.SIGKILL)
            nodes.wait_step(25)
            wait_for(lambda: len(nodes.workers()) == 4, "all workers")
            nodes.processes[1].kill()
        summary = nodes.summary
        self.assertEqual(summary["status"], "finished", nodes.story())
        self.assertEqual(summary["digest"], Undisturbed.digest(self, *STEPS), nodes.story())
        first, second = summary["failures"]
        self.assertEqual(sorted(first["roles"]), ["1.0", "1.1"], nodes.story())
        self.assertEqual(sorted(second["roles"]), ["1.0", "1.1"], nodes.story())
        self.assertEqual([f["incident"] for f in summary["failures"]], [1, 2], nodes.story())

        for incident, node in (1, 1), (2, 2):
            speakers, files = self.speakers_of(nodes, incident)
            self.assertEqual(speakers, {"story", "node 0", f"node {node}"}, nodes.story())
            self.assertEqual(files, {"controller.log", "node-0/worker-0.0.log", "node-0/worker-0.1.log",
                                     f"node-{node}/worker-1.0.log", f"node-{node}/worker-1.1.log"}, nodes.story())
        for words in ("incident 1: worker 1.0 is lost", "incident 1: recovered from the failure",
                      "incident 2: worker 1.1 is lost: node 1 is lost", "incident 2: recovered from the failure"):
            self.assertIn(words, pathlib.Path(nodes.log.name).read_text())


if __name__ == "__main__":
    unittest.main()
