"""Jobs on several machines: whatever becomes of machines and cables, the bits of the undisturbed run."""
import contextlib
import itertools
import re
import signal
import time
import unittest

from machines import Cluster, in_namespaces
from machines_case import NOTICES, STEPS, MachinesTest
from schedules import STEPS as SCHEDULED_STEPS, SchedulePlayer, schedule_of
from job import Undisturbed, seeds, wait_for  # noqa: E402 (machines makes it known)

FIRST = dict(step=15, point="step/before_verdict")


class Lost(MachinesTest):
    def test_a_machine_and_then_a_worker(self):
        with self.running(3) as (cluster, job):
            cluster.kill_machine(2)
            job.wait_step(25)
            job.kill_worker("0.1")
        self.assertEqual([f["roles"] for f in job.summary["failures"]], [["1.0", "1.1"], ["0.1"]], job.story())
        self.assertEqual(job.exit_codes, {1: 0, 2: None, 3: 0}, job.story())

    def test_both_machines_of_a_stage_whose_copies_are_elsewhere(self):
        with self.running(6, at_step=17, spares=2) as (cluster, _):
            cluster.kill_machine(3)
            cluster.kill_machine(4)


class EveryPair(MachinesTest):
    def test_all_that_the_copies_allow(self):
        """Of the machines of four roles, but for the one with the controller."""
        allowed = {1: 0, 2: 0}
        for pair, copies in itertools.product(itertools.combinations((2, 3, 4), 2), allowed):
            with self.subTest(pair=pair, copies=copies), Cluster(self, 6) as cluster:
                job = cluster.train(*STEPS, f"protection.copies={copies}", spares=2)
                job.wait_step(17)
                if [number - 1 for number in pair] in job.status()["survives"]["fatal"]:
                    continue
                allowed[copies] += 1
                for number in pair:
                    cluster.kill_machine(number)
            self.assert_undisturbed(job, *STEPS)
        self.assertGreater(allowed[1], 0)
        self.assertEqual(allowed[2], 3)


class Moments(MachinesTest):
    """A machine is switched off at the very moment when one of its workers comes to a named point."""

    def lose_at(self, *moments):
        """Roles play on machines of their own; (role, when) after (role, when): with the machine the role moves on."""
        faults = [dict(kind="stop_worker", stage=int(role[0]), lane=int(role[2]), **when) for role, when in moments]
        with self.running(6, spares=2, faults=faults, at_step=1) as (cluster, job):
            began = job.workers()
            for count in range(1, len(moments) + 1):
                cluster.kill_machine(job.wait_fault(count))
            job.wait_step(45)
            lost = {role for role, _ in moments}
            self.assertEqual({r: pid for r, pid in job.workers().items() if r not in lost},
                             {r: pid for r, pid in began.items() if r not in lost}, job.story())
        self.assertEqual({role for f in job.summary["failures"] for role in f["roles"]}, lost, job.story())

    def test_capture(self):
        for point in self.CAPTURE:
            with self.subTest(point=point):
                self.lose_at(("1.1", dict(step=15, point=point)))

    def test_save(self):
        self.lose_at(("0.1", dict(step=20, point="step/save")))

    def test_recovery(self):
        for point in self.RECOVERY:
            with self.subTest(point=point):
                self.lose_at(("1.0", FIRST), ("1.0", dict(in_recovery=1, point=point)))

    CAPTURE = ["capture/sent"]
    RECOVERY = ["recovery/restored"]


class EveryMoment(Moments):
    def test_training(self):
        for point in ("step/forward", "step/backward", "step/accumulated", "step/before_verdict", "commit/reduced",
                      "step/after_verdict", "step/updated"):
            with self.subTest(point=point):
                self.lose_at(("1.0", dict(step=15, point=point)))

    def test_survivor_in_a_recovery(self):
        for point in ("recovery/stopped", "recovery/plan", "recovery/opening", "recovery/restored", "catch_up/step",
                      "catch_up/verified"):
            with self.subTest(point=point):
                self.lose_at(("1.0", FIRST), ("1.1", dict(in_recovery=1, point=point)))

    CAPTURE = ["capture/copied", "capture/sent", "copy/stored"]
    RECOVERY = ["recovery/plan", "recovery/opening", "recovery/restored", "catch_up/step"]


class CutMoments(MachinesTest):
    """The cable of a machine is out from the very moment when its worker comes to a named point; it comes back later, to
    the job that has gone on without it."""

    def cut_at(self, *moments):
        """Roles play on machines of their own; (role, when): the last one's is cut, those before it are switched off."""
        faults = [dict(kind="stop_worker", stage=int(role[0]), lane=int(role[2]), **when) for role, when in moments]
        with self.running(6, spares=2, faults=faults, at_step=1) as (cluster, job):
            for count in range(1, len(moments)):
                cluster.kill_machine(job.wait_fault(count))
            machine = job.wait_fault(len(moments))
            cluster.unplug_cable(machine)
            job.wake_worker(moments[-1][0])
            job.wait_step(45)
            cluster.plug_cable(machine)
        lost = {role for failure in job.summary["failures"] for role in failure["roles"]}
        self.assertEqual(lost, {role for role, _ in moments}, job.story())

    def test_training(self):
        self.cut_at(("1.0", FIRST))

    def test_capture(self):
        self.cut_at(("1.1", dict(step=15, point="capture/sent")))

    def test_save(self):
        self.cut_at(("0.1", dict(step=20, point="step/save")))

    def test_recovery(self):
        self.cut_at(("1.0", FIRST), ("1.1", dict(in_recovery=1, point="recovery/restored")))


class Elastic(MachinesTest):
    """Nobody takes a lost machine's place. The bits are those of a job of one machine with the same lanes at each step."""
    LANES = ("train.micro_batches=6", "parallel.stages=2", "parallel.lanes=3", "protection.strategy=gradients",
             "protection.copies=2")
    LONG = (*STEPS, "train.steps=250", "checkpoint.every_steps=100", *LANES)
    BY_LOAD = ("experts.replicas=by-load", "experts.rebalance_every_steps=15", "model.routing=synthetic",
               "model.routing_skew=0.2", "model.routing_drift_steps=40")

    @contextlib.contextmanager
    def elastic(self, machines, changes, more=(), **how):
        with Cluster(self, machines) as cluster:
            job = cluster.train(*self.LONG, *more, "elastic.enabled=true", "elastic.grow_wait_seconds=1", count=6, **how)
            job.wait_step(8)
            yield cluster, job
        self.assertEqual(job.summary.get("status"), "finished", job.story())
        self.assertEqual((job.summary["restarts"], job.summary["samples_doubled"]), (0, 0), job.story())
        history = job.summary["membership_history"]
        self.assertGreaterEqual(len(history), 1 + changes, job.story())
        again = ", ".join(f"{change['step']} {' '.join(map(str, change['lanes']))}" for change in history if change["step"])
        self.assertEqual(job.summary["digest"], Undisturbed.digest(self, *self.LONG, *more, f"elastic.history={again}"),
                         job.story())

    def test_three_are_lost_in_a_row_and_one_comes_back_while_experts_move(self):
        with self.elastic(6, changes=3, more=self.BY_LOAD) as (cluster, job):
            for number, step in ((3, 40), (5, 75), (2, 110)):
                cluster.kill_machine(number)
                job.wait_step(step)
            cluster.start_machine(3)
            job.start_node(3)
        self.assertEqual(job.summary["membership_history"][-1]["nodes"], 4, job.story())
        self.assertTrue(job.summary["rebalances"], job.story())

    def test_one_of_each_stage_at_once_and_a_machine_that_never_was_there(self):
        with self.elastic(7, changes=2) as (cluster, job):
            cluster.kill_machine(2)
            cluster.kill_machine(6)
            job.wait_step(60)
            job.start_node(7)
        self.assertEqual(job.summary["membership_history"][-1]["nodes"], 5, job.story())

    def test_a_machine_that_is_asked_to_leave_does_and_the_others_train_on(self):
        with self.elastic(6, changes=1) as (_, job):
            job.nodes[4].machine.kill(job.nodes[4].pid, signal.SIGTERM)
            wait_for(lambda: job.nodes[4].exit_code() is not None, "the end of node 3")
        self.assertEqual(job.exit_codes[4], 0, job.story())
        self.assertEqual(job.summary["membership_history"][-1]["nodes"], 5, job.story())


class Late(MachinesTest):
    def test_machines_that_join_one_after_the_other(self):
        with Cluster(self, machines=3) as cluster:
            job = cluster.train(*STEPS, spares=1, begin=[2])
            wait_for(lambda: any(words in job.story() for words in ("no line to the controller", "waits until node 0")),
                     "a node that waits")
            job.start_node(1)
            job.wait_step(8)
            job.start_node(3)
            wait_for(lambda: "a controller answers" in job.nodes[3].log.read_text(), "the late node")
            cluster.kill_machine(2)
        self.assert_undisturbed(job, *STEPS)


class Unequal(MachinesTest):
    def test_spares_with_other_kernels_are_left_out(self):
        left_out = "node %d is left out: it would compute other bits .* %s"
        with self.running(5, "train.steps=400", spares=3, environments={3: {"ATEN_CPU_CAPABILITY": "default"}},
                          begin=[1, 2, 3, 4]) as (cluster, job):
            wait_for(lambda: re.search(left_out % (2, "cpu_capability is .* DEFAULT here"), job.story()), "the spare is left out")
            job.start_node(5, environment={"MKL_CBWR": "COMPATIBLE"})
            wait_for(lambda: re.search(left_out % (4, "bits is"), job.story()), "the late node is left out")
            cluster.kill_machine(2)
        self.assertEqual([sorted(f["roles"]) for f in job.summary["failures"]], [["1.0", "1.1"]], job.story())

    def test_a_node_that_differs_at_the_beginning_is_refused_with_both_values(self):
        with Cluster(self, machines=2) as cluster:
            job = cluster.train(*STEPS, environments={2: {"ATEN_CPU_CAPABILITY": "default"}})
        self.assertEqual(job.exit_codes, {1: 2, 2: 2}, job.story())
        self.assertIn("would compute other bits", job.story())


class Unfit(MachinesTest):
    """A machine whose own disk is full, or that does not reach the others."""
    NAMED = r"node 1 is left out: its machine is not fit to play a role: disk: 0\.0 MB free in /tmp/evermoe-\S+, needed: at least"

    def test_a_spare_takes_its_place(self):
        with Cluster(self, machines=3) as cluster:
            cluster.machines[2].fill_private_folders()
            job = cluster.train(*STEPS, spares=1)
        self.assert_undisturbed(job, *STEPS)
        self.assertRegex(job.story(), self.NAMED)
        self.assertEqual(job.summary["failures"], [], job.story())
        self.assertFalse(list((job.out / "logs" / "node-1").glob("worker-*")), job.story())
        self.assertEqual(job.exit_codes, {1: 0, 2: 0, 3: 0}, job.story())

    def test_the_job_begins_when_there_is_room_again(self):
        with Cluster(self, machines=2) as cluster:
            cluster.machines[2].fill_private_folders()
            job = cluster.train(*STEPS)
            # None is there yet where this one was the first to come.
            wait_for(lambda: re.search("[01] of the 2 machines that the job needs are there and fit", job.story()), "a line on it")
            cluster.machines[2].empty_private_folders()
        self.assert_undisturbed(job, *STEPS)
        self.assertRegex(job.story(), self.NAMED)
        self.assertIn("node 1 is fit again", job.story())

    def test_with_too_few_others_the_job_is_refused(self):
        with Cluster(self, machines=2) as cluster:
            cluster.machines[2].fill_private_folders()
            job = cluster.train(*STEPS)
        self.assertEqual(job.exit_codes, {1: 2, 2: 2}, job.story())
        self.assertRegex(job.story(), "1 of the 2 machines that the job needs are there and fit: node 1: disk: ")

    CUT_OFF = r"node 2 is left out: its machine is not fit to play a role: network: \d of \d machines cannot be reached \(node \d: "

    def test_a_spare_takes_the_place_of_a_machine_that_reaches_only_the_controllers(self):
        with Cluster(self, machines=4) as cluster:
            cluster.cut([3], [2, 4])
            # All four are asked before three can begin: the spare is there first, and can judge but not yet play.
            cluster.machines[4].fill_private_folders()
            job = cluster.train(*STEPS, spares=1, begin=[1, 2, 4])
            wait_for(lambda: job.story().count("a controller answers") == 3, "the others")
            job.start_node(3)
            wait_for(lambda: re.search(self.CUT_OFF, job.story()), "the verdict")
            cluster.machines[4].empty_private_folders()
        self.assert_undisturbed(job, *STEPS)
        self.assertRegex(job.story(), self.CUT_OFF)
        self.assertEqual(job.summary["failures"], [], job.story())
        self.assertFalse(list((job.out / "logs" / "node-2").glob("worker-*")), job.story())
        self.assertEqual(job.exit_codes, {1: 0, 2: 0, 3: 0, 4: 0}, job.story())

    def test_two_that_do_not_reach_each_other_are_named_and_the_job_goes_on(self):
        with Cluster(self, machines=4) as cluster:
            cluster.cut([2], [3])
            job = cluster.train(*STEPS, NOTICES, spares=1)
        self.assertEqual(job.summary.get("status"), "finished", job.story())
        self.assertEqual(job.summary["digest"], Undisturbed.digest(self, *STEPS), job.story())
        self.assertIn("network: node 1 and node 2 do not reach each other: ", job.story())
        self.assertNotIn("not fit to play a role", job.story())

    def test_the_job_begins_when_all_machines_reach_each_other_again(self):
        with Cluster(self, machines=4) as cluster:
            cluster.cut([3], [2, 4])
            job = cluster.train(*STEPS)
            wait_for(lambda: re.search("3 of the 4 machines that the job needs are there and fit", job.story()), "a line on it")
            cluster.heal([3], [2, 4])
        self.assert_undisturbed(job, *STEPS)
        self.assertRegex(job.story(), self.CUT_OFF)
        self.assertIn("node 2 is fit again", job.story())
        self.assertTrue(list((job.out / "logs" / "node-2").glob("worker-*")), job.story())


class Cut(MachinesTest):
    def test_the_cable_of_the_controller_for_four_seconds(self):
        with self.running(3) as (cluster, job):
            cluster.unplug_cable(1)
            time.sleep(4)  # less than a silence that counts
            cluster.plug_cable(1)
        self.assertEqual(job.summary["failures"], [], job.story())

    def test_two_data_nodes_from_each_other(self):
        with self.running(4, noticed=[NOTICES]) as (cluster, _):
            cluster.cut([2], [3])


class DataNetwork(MachinesTest):
    """Workers have a network of their own; agents and the controller, which are on another one, are reached all the time."""

    def test_a_node_whose_data_cable_is_out(self):
        """Who of its stage is at fault cannot be told while they wait for each other; then all miss one."""
        with self.running(5, noticed=[NOTICES], data_network=True) as (cluster, job):
            cluster.unplug_data_cable(2)
        lost = {role for failure in job.summary["failures"] for role in failure["roles"]}
        self.assertIn("0.1", lost, job.story())
        self.assertLessEqual(lost, {"0.0", "0.1"}, job.story())
        self.assertIn("worker 0.1 moves to node 4: it was not reached by others on node 1", job.story())
        self.assertEqual(job.exit_codes, {n: 0 for n in range(1, 6)}, job.story())


class Partitioned(MachinesTest):
    def test_a_node_from_all(self):
        with self.running(3) as (cluster, job):
            cluster.unplug_cable(2)
            job.wait_step(25)
            cluster.plug_cable(2)

    def test_one_way_loss(self):
        with self.running(4, noticed=[NOTICES]) as (cluster, _):
            cluster.cut([2], [3], both_ways=False)

    def test_a_node_from_all_that_misses_the_end(self):
        """It finds it in the job's folder."""
        with self.running(3) as (cluster, job):
            cluster.unplug_cable(2)
        self.assertEqual(job.exit_codes, {1: 0, 2: 0, 3: 0}, job.story())

    def test_one_with_all_roles_that_ends_the_job_unheard(self):
        """Whoever takes its place finds nothing left to do."""
        with Cluster(self, machines=3) as cluster:
            job = cluster.train(*STEPS, spares=1, count=2, host=3)
            job.wait_step(8)
            cluster.unplug_cable(1)
        self.assertEqual(job.summary.get("status"), "finished", job.story())
        self.assertEqual(job.summary["digest"], Undisturbed.digest(self, *STEPS), job.story())
        self.assertEqual(job.summary["restarts"], 1, job.story())
        self.assertEqual(job.exit_codes, {1: 0, 2: 0}, job.story())

    def test_a_node_from_all_for_good(self):
        with self.running(3) as (cluster, job):
            cluster.unplug_cable(2)
            job.wait_step(25)
            cluster.kill_machine(2)
        self.assertEqual([f["roles"] for f in job.summary["failures"]], [["1.0", "1.1"]], job.story())


class ControllerApart(MachinesTest):
    """On a machine without roles: nobody is lost for its cables while the job goes on."""

    def cut(self, *pairs, both_ways=True):
        # Steps for longer than the cut: at its end the job waits for all anyway.
        with self.running(4, "train.steps=2000", spares=1, count=3, host=4) as (cluster, job):
            for some, others in pairs:
                cluster.cut(some, others, both_ways)
            time.sleep(20)  # longer than a silence of the controller that an agent bears
            for some, others in pairs:
                cluster.heal(some, others, both_ways)
            time.sleep(3)  # for whatever is said late of the cut
        self.assertEqual(job.summary["failures"], [], job.story())

    def test_it_is_cut_off_for_a_while(self):
        self.cut(([4], [1, 2, 3]))

    def test_another_one_on_another_machine(self):
        with self.running(5, "train.steps=2000", spares=1, count=3, host=4) as (cluster, job):
            cluster.kill_machine(4)
            job.start_controller(on=5)
        self.assertEqual(job.summary["failures"], [], job.story())

    def test_one_node_does_not_reach_it(self):
        self.cut(([4], [2]))

    def test_what_it_says_does_not_reach_a_node(self):
        self.cut(([4], [2]), both_ways=False)

    def test_what_a_node_says_does_not_reach_it(self):
        self.cut(([2], [4]), both_ways=False)


class Slow(MachinesTest):
    def test_one_percent_is_lost_and_delayed(self):
        with Cluster(self, machines=3) as cluster:
            cluster.slow_down(delay_seconds=0.05, loss=0.01)
            job = cluster.train(*STEPS, "train.steps=20", spares=1)
            job.wait_step(9)
            job.kill_worker("1.0")
        self.assert_undisturbed(job, *STEPS, "train.steps=20")

    def test_two_megabits_a_second(self):
        with Cluster(self, machines=3) as cluster:
            job = cluster.train(*STEPS, "train.steps=20", spares=1)
            job.wait_step(9)
            cluster.slow_down(bytes_per_second=250e3, queue_seconds=0.4)
            job.kill_worker("1.0")
        self.assert_undisturbed(job, *STEPS, "train.steps=20")


class Schedules(MachinesTest):
    """Schedules of `evermoe sim` on real machines (schedules.py): EVERMOE_SEEDS=first..last for a campaign.

    Played are deaths, standstills and cut or slow lines of workers, agents, machines and the controller, one to three of
    them, at any time or when a worker passes a named point. Not played, because nothing can do it to real processes from
    outside: damaged copies and full disks at random, roles that die again and again, connections of the control plane that
    break though both ends live, agents that are cut from each other though their workers are not, and the faults of jobs
    with a store.
    """

    def test_every_fault_ends_exactly(self):
        for seed in seeds():
            with self.subTest(seed=seed):
                self.play(seed)

    def play(self, seed):
        schedule = schedule_of(seed)
        with Cluster(self, SchedulePlayer.machines_of(schedule), seed) as cluster:
            player = SchedulePlayer(cluster, schedule)
            player.play(*STEPS, self.LONGER)
        job, summary = player.job, player.job.summary
        why = "\n".join([f"seed {seed}: {schedule}", *player.told, job.story()])
        self.assertIn(summary.get("status"), ("finished", "nothing to do"), why)
        self.assertEqual(summary["digest"], Undisturbed.digest(self, *STEPS, self.LONGER), why)
        lost = [role for failure in summary["failures"] for role in failure["roles"] if role != "controller"]
        back = [failure for failure in summary["failures"] if failure["restarted_all"] and failure["step"]]
        if len(lost) <= schedule["shape"]["copies"]:
            self.assertEqual(back, [], "all went back to the disk though copies were left\n" + why)
        # What a controller has noticed just before its death nobody has written down.
        if not back and summary["restarts"] == 0 and "kill controller" not in player.kinds:
            self.assertLessEqual(job.started_again(), set(lost), "who was not lost keeps its process\n" + why)

    LONGER = f"train.steps={SCHEDULED_STEPS}"  # faults come for seconds, or as far as at the 181st step


def main():
    unittest.main(verbosity=2)


if __name__ == "__main__":
    in_namespaces(main)
