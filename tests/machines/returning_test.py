"""Machines that come back to their job, and the machine of the host."""
import unittest

from machines import Cluster, in_namespaces
from machines_case import STEPS, MachinesTest
from job import Undisturbed, wait_for  # noqa: E402 (machines_case makes it known)


class Returning(MachinesTest):
    def test_a_machine_comes_back_and_takes_over_from_the_next_one(self):
        with Cluster(self, machines=3) as cluster:
            job = cluster.train(*STEPS, "train.steps=100", spares=1)
            job.wait_step(8)
            cluster.kill_machine(3)
            cluster.start_machine(3)
            job.start_node(3)
            job.wait_step(20)
            cluster.kill_machine(2)
        self.assert_undisturbed(job, *STEPS, "train.steps=100")
        self.assertEqual(job.exit_codes, {1: 0, 2: None, 3: 0}, job.story())

    def test_without_a_spare_it_gets_its_roles_back_while_the_job_trains(self):
        steps = "train.steps=3000"  # so many that a move pays
        with Cluster(self, machines=2) as cluster:
            job = cluster.train(*STEPS, steps, "elastic.grow_wait_seconds=1")
            job.wait_step(8)
            cluster.kill_machine(2)
            job.wait_told("recovered from the failure")
            cluster.start_machine(2)
            job.start_node(2)
        self.assert_undisturbed(job, *STEPS, steps)
        (move,) = job.summary["moves"]
        self.assertEqual((sorted(move["roles"]), move["to"], move["cause"], move["state"]),
                         (["1.0", "1.1"], [1, 1], "node 1 has room", "done"), job.story())
        self.assertEqual(job.exit_codes, {1: 0, 2: 0}, job.story())

    def test_a_machine_that_stands_still_and_goes_on_later(self):
        with Cluster(self, machines=3) as cluster:
            job = cluster.train(*STEPS, "train.steps=150", spares=1)
            job.wait_step(8)
            cluster.machines[2].stop()
            job.wait_step(20)
            cluster.machines[2].go_on()
        self.assert_undisturbed(job, *STEPS, "train.steps=150")
        self.assertEqual([f["roles"] for f in job.summary["failures"]], [["1.0", "1.1"]], job.story())
        self.assertEqual(job.exit_codes, {1: 0, 2: 0, 3: 0}, job.story())


class Host(MachinesTest):
    """The machine of the controller, which plays roles, too."""

    def test_it_comes_back_and_takes_the_job_over(self):
        with Cluster(self, machines=3) as cluster:
            job = cluster.train(*STEPS, "train.steps=100", spares=1)
            job.wait_step(17)
            cluster.kill_machine(1)
            cluster.start_machine(1)
            job.start_node(1)
        self.assertEqual(job.summary.get("status"), "finished", job.story())
        self.assertEqual(job.summary["digest"], Undisturbed.digest(self, *STEPS, "train.steps=100"), job.story())
        self.assertEqual(job.exit_codes, {1: 0, 2: 0, 3: 0}, job.story())

    def test_with_etcd_nobody_has_to_help(self):
        steps = "train.steps=500"  # workers need no host: they must not be done before there is another one
        with Cluster(self, machines=4) as cluster:
            store = cluster.start_etcd(4)
            election = (f"control.store={store}", "control.lease_seconds=3")
            job = cluster.train(*STEPS, steps, *election, spares=1, count=3, host=None)
            job.wait_step(17)
            lost = job.hosting_machine()
            cluster.kill_machine(lost)
        self.assertEqual(job.summary.get("status"), "finished", job.story())
        self.assertEqual(job.summary["digest"], Undisturbed.digest(self, *STEPS, steps), job.story())
        self.assertEqual(job.exit_codes, {n: None if n == lost else 0 for n in (1, 2, 3)}, job.story())

    def test_one_that_stood_still_does_not_take_roles_from_those_that_live(self):
        settings = (*STEPS, "train.steps=300", "checkpoint.every_steps=100")
        with Cluster(self, machines=4) as cluster:
            election = (f"control.store={cluster.start_etcd(4)}", "control.lease_seconds=3", "protection.heartbeat_seconds=0.1")
            job = cluster.train(*settings, *election, spares=1, count=3, host=None)
            job.wait_step(17)
            former = job.hosting_machine()
            cluster.machines[former].stop()
            wait_for(lambda: job.hosting_machine() != former, f"another host\n{job.story()}")
            job.wait_step(job.step() + 40)
            cluster.machines[former].go_on()
        self.assert_undisturbed(job, *settings)
        self.assertEqual(job.exit_codes, {1: 0, 2: 0, 3: 0}, job.story())


def main():
    unittest.main(verbosity=2)


if __name__ == "__main__":
    in_namespaces(main)
