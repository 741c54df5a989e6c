"""Roles go to other machines while the job trains (docs/moves.md), whatever becomes of these machines meanwhile."""
import itertools
import time
import unittest

from machines import Cluster, in_namespaces
from machines_case import NOTICES, STEPS, MachinesTest
from job import Undisturbed, wait_for  # noqa: E402 (machines_case makes it known)


class Moves(MachinesTest):
    """Roles go to other machines while the job trains."""
    DONE = ": done at step"

    def states(self, job):
        return [(sorted(move["roles"]), move["state"]) for move in job.summary["moves"]]

    def test_every_role_moves_once_over_slow_lines_and_nobody_else_is_disturbed(self):
        roles = ("0.0", "0.1", "1.0", "1.1")
        with self.running(3, "train.steps=600") as (cluster, job):
            cluster.slow_down(delay_seconds=0.005, bytes_per_second=5e6, queue_seconds=0.4)
            for count, role in enumerate(roles, 1):
                before = job.workers()
                self.assertEqual(job.move("--role", role)["accepted"], True, job.story())
                job.wait_told(self.DONE, count)
                self.assertEqual({r: pid for r, pid in job.workers().items() if r != role},
                                 {r: pid for r, pid in before.items() if r != role}, job.story())
            cluster.slow_down(delay_seconds=0, bytes_per_second=0)
        self.assertEqual(self.states(job), [([role], "done") for role in roles], job.story())
        self.assertEqual(job.summary["failures"], [], job.story())

    def test_a_machine_is_emptied_and_can_be_switched_off(self):
        with self.running(3, "train.steps=300") as (cluster, job):
            self.assertEqual(job.move("--drain", "1")["accepted"], True, job.story())
            wait_for(lambda: job.nodes[2].exit_code() is not None, f"the end of node 1\n{job.story()}")
            cluster.kill_machine(2)
        self.assertEqual(self.states(job), [(["1.0", "1.1"], "done")], job.story())
        self.assertEqual(job.summary["failures"], [], job.story())

    def lost_in_a_move(self, number, seconds, kills):
        """A machine is switched off, or its cable is out, so long after a move of role 1.0 from machine 2 to 3 began."""
        with self.running(4, "train.steps=300", noticed=[NOTICES], spares=2) as (cluster, job):
            self.assertEqual(job.move("--role", "1.0", "--to", "2")["accepted"], True, job.story())
            time.sleep(seconds)
            (cluster.kill_machine if kills else cluster.unplug_cable)(number)
            job.wait_step(job.step() + 20)
            if not kills:
                cluster.plug_cable(number)
        ((roles, state),) = self.states(job)
        self.assertEqual(roles, ["1.0"], job.story())
        return state, {role for failure in job.summary["failures"] for role in failure["roles"]}

    def test_the_machine_that_a_role_leaves_is_lost_meanwhile(self):
        for seconds, kills in self.LOST_AFTER:
            with self.subTest(seconds=seconds, kills=kills):
                state, lost = self.lost_in_a_move(2, seconds, kills)
                self.assertEqual(lost, {"1.1"} if state == "done" else {"1.0", "1.1"})

    ENDS = [("called off", set()), ("done", set()), ("done", {"1.0"}), ("called off", {"1.0"})]

    def test_the_machine_that_a_role_moves_to_is_lost_meanwhile(self):
        for seconds, kills in self.LOST_AFTER:
            with self.subTest(seconds=seconds, kills=kills):
                state, lost = self.lost_in_a_move(3, seconds, kills)
                self.assertIn((state, lost), self.ENDS)

    LOST_AFTER = [(0.4, True), (0.9, False)]

    # In their order, each with the words that tell of its beginning.
    PHASES = {"preparing": "an operator wants it", "copying": "copies go to it", "leaving": "handed over at step",
              "switching": "the states are handed over"}
    SLOW = ("protection.window=8", "protection.copies=2")  # there is much to copy; one copy may be lost with a host

    def states_from(self, phase):
        states = [*self.PHASES, "done"]
        return states[states.index(phase):]

    def begin_move(self, job, phase, seconds):
        """A move of role 1.0 has been in this phase for so long."""
        self.assertEqual(job.move("--role", "1.0", "--to", "5")["accepted"], True, job.story())
        job.wait_told(self.PHASES[phase])
        time.sleep(seconds)

    def kill_controller_in(self, phase, seconds=0):
        """The state of a move that the next controller does not know of: the last that its host heard."""
        with self.running(6, *self.SLOW, "train.steps=300", spares=2) as (_, job):
            self.begin_move(job, phase, seconds)
            job.kill_controller()
            job.wait_told("the controller is lost")
            job.wait_step(job.step() + 20)
        ((roles, state),) = self.states(job)
        self.assertEqual(roles, ["1.0"], job.story())
        self.assertEqual(job.summary["failures"][0]["roles"], ["controller"], job.story())
        return state

    def test_the_controller_ends_in_each_phase_and_takes_the_wish_with_it(self):
        for phase in self.PHASES:
            with self.subTest(phase=phase):
                self.assertIn(self.kill_controller_in(phase), self.states_from(phase))


class EveryMove(Moves):
    LOST_AFTER = [(seconds / 10, kills) for seconds in range(0, 16, 3) for kills in (True, False)]

    MOMENTS = list(itertools.product(Moves.PHASES, (0, 0.1, 0.3)))

    def test_the_controller_ends_at_any_time(self):
        for phase, seconds in self.MOMENTS:
            with self.subTest(phase=phase, seconds=seconds):
                self.assertIn(self.kill_controller_in(phase, seconds), self.states_from(phase))

    def lose_host_in(self, phase, seconds):
        steps = "train.steps=500"  # workers need no host: they must not be done before there is another one
        with Cluster(self, machines=7) as cluster:
            election = (f"control.store={cluster.start_etcd(7)}", "control.lease_seconds=3")
            job = cluster.train(*STEPS, *self.SLOW, steps, *election, spares=2, count=6, host=None)
            job.wait_step(8)
            self.begin_move(job, phase, seconds)
            cluster.kill_machine(job.hosting_machine())
            job.wait_told("takes the job over")
        self.assertEqual(job.summary.get("status"), "finished", job.story())
        self.assertEqual(job.summary["digest"], Undisturbed.digest(self, *STEPS, steps), job.story())
        self.assertEqual(job.summary["restarts"], 0, job.story())

    def test_the_machine_of_the_controller_is_lost_at_any_time(self):
        for phase, seconds in self.MOMENTS:
            with self.subTest(phase=phase, seconds=seconds):
                self.lose_host_in(phase, seconds)


def main():
    unittest.main(verbosity=2)


if __name__ == "__main__":
    in_namespaces(main)
