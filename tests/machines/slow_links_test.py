"""Links between machines that become slow: they are named, no role is, and no bit changes. A busy processor slows none."""
import random
import re
import signal
import time
import unittest

from machines import Cluster, in_namespaces
from job import ROOT, Undisturbed  # noqa: E402 (machines makes it known)

STEPS = ("train.steps=100000", "checkpoint.every_steps=100000", "evaluate.every_steps=0", "stragglers.probe_seconds=0.1")
# Tests run beside others, which take processors, now from one role and now from another one.
NOBODY = "stragglers.slower_than=4"
LINKS = 12  # between four machines, each with a role


class SlowLinks(unittest.TestCase):
    def known(self, job):
        """Waits until the controller knows what is usual of all links."""
        job.wait_step(1)
        while job.status()["links_known"] < LINKS:
            job.wait_step(job.step() + 10)

    def stand_still(self, job, role, seconds):
        machine, pid = job.cluster.machines[job.machine_of(role)], job.workers()[role]
        machine.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        machine.kill(pid, signal.SIGCONT)

    def drain(self, job):
        job.nodes[1].machine.kill(job.nodes[1].pid, signal.SIGTERM)
        summary = job.finish()
        self.assertEqual(summary.get("status"), "drained", job.story())
        self.assertEqual(summary["failures"], [], job.story())
        return summary

    def test_a_cable_that_is_slow_one_way_is_named_until_it_is_well(self):
        with Cluster(self, 4) as cluster:
            cluster.slow_down(bytes_per_second=40e6, delay_seconds=0.0002)
            job = cluster.train(*STEPS, NOBODY)
            self.known(job)
            cluster.ethernet.change([3], [1], bytes_per_second=8e6, delay_seconds=0.004)
            job.wait_told("the link from node 2 to node 0 is slow: messages take")
            told = job.status()["slow_links"]
            cluster.ethernet.change([3], [1], bytes_per_second=40e6, delay_seconds=0.0002)
            job.wait_told("the link from node 2 to node 0 is slow no more")
            summary = self.drain(job)
        self.assertEqual(summary["stragglers"], [], job.story())
        expected = Undisturbed.digest(self, f"train.steps={summary['steps']}", *STEPS[1:3])
        self.assertEqual(summary["digest"], expected, job.story())
        self.assertIn((2, 0), [(link["from"], link["to"]) for link in told], job.story())
        # Answers, and what TCP says about them, go back that way.
        named = {(link["from"], link["to"]) for link in summary["slow_links"]}
        self.assertLessEqual(named, {(2, 0), (0, 2)}, job.story())
        (only,) = [link for link in summary["slow_links"] if link["from"] == 2]
        documented = re.findall(r"^\| `slow_links\[\]\.(\w+)` \|", (ROOT / "docs" / "run-summary.md").read_text(), re.M)
        self.assertEqual(sorted(documented), sorted(only))
        self.assertGreater(only["factor"], 3)
        self.assertGreater(only["until_step"], only["step"])

    def test_a_processor_that_others_use_half_of_the_time_makes_no_link_slow(self):
        times = random.Random(7)
        with Cluster(self, 4) as cluster:
            job = cluster.train(*STEPS, NOBODY)
            self.known(job)
            end = time.monotonic() + 45  # a link that were slow would be named in half of that
            while time.monotonic() < end:
                self.stand_still(job, "1.0", times.uniform(0.002, 0.016))
                time.sleep(times.uniform(0.004, 0.016))
            summary = self.drain(job)
        self.assertEqual(summary["slow_links"], [], job.story())


def main():
    unittest.main(verbosity=2)


if __name__ == "__main__":
    in_namespaces(main)
