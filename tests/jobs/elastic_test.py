"""Elastic jobs of real processes: nodes are lost, return and come anew, by a script of faults. The end has the
bits of a job in which nothing happens and whose lanes train and rest as the summary says they did.
"""
import json
import unittest

from job import Job, command, refuses
from recovery_test import fault, kill

STEPS = 90
LANES = ("train.micro_batches=6", "parallel.stages=2", "parallel.lanes=3")
SMALL = (f"train.steps={STEPS}", "checkpoint.every_steps=15", "evaluate.every_steps=15", "evaluate.micro_batches=2",
         *LANES, "protection.strategy=gradients", "protection.copies=2", "run.nodes=6")
ELASTIC = ("elastic.enabled=true", "elastic.grow_wait_seconds=0.2")


def history_of(summary):
    """The setting that repeats it."""
    entries = [f"{change['step']} {' '.join(map(str, change['lanes']))}" for change in summary["membership_history"]]
    return "elastic.history=" + ", ".join(entries)


def trained_on(test, checkpoint):
    """By the checkpoint's own word: (step, lanes), and so on."""
    code, out, err = command("inspect", checkpoint, "--json")
    test.assertEqual(code, 0, err)
    return [(one["step"], one["lanes"]) for one in json.loads(out)["trained_on"]]


def assert_told_as_trained(test, summary, why=""):
    """The history that the summary tells is what the job's last checkpoint says."""
    told = []
    for change in summary["membership_history"]:
        if change["step"] < summary["steps"] and (not told or told[-1][1] != change["lanes"]):
            told.append((change["step"], change["lanes"]))
    test.assertEqual(trained_on(test, summary["checkpoint"]), told, why)


class Elastic(unittest.TestCase):
    def live_through(self, *faults, settings=SMALL, changes=1, restarts=0, first_lanes=(3, 3)):
        """Runs the job with these faults; its lanes change `changes` times at least. Gives its summary."""
        job = Job(self, *settings, *ELASTIC)
        with job.start(faults=faults) as run:
            pass
        summary = run.summary
        self.assertEqual(summary["status"], "finished", run.story())
        self.assertEqual(summary["exit_code"], 0)
        self.assertEqual(summary["restarts"], restarts, run.story())
        self.assertEqual(summary["samples_trained"], STEPS * 6)
        self.assertEqual(summary["samples_doubled"], 0)
        history = summary["membership_history"]
        self.assertEqual(history[0]["lanes"], list(first_lanes))
        self.assertGreaterEqual(len(history), 1 + changes, run.story())
        again = Job(self, *settings, history_of(summary)).complete()
        self.assertEqual(again["digest"], summary["digest"], f"{history}\n{run.story()}")
        self.assertEqual([change["lanes"] for change in again["membership_history"]],
                         [change["lanes"] for change in history])
        for told in (summary, again):
            assert_told_as_trained(self, told, run.story())
        return summary


class Losses(Elastic):
    def test_a_lost_node_costs_a_lane(self):
        summary = self.live_through(fault("lose_node", node=1, step=12))
        last = summary["membership_history"][-1]
        self.assertEqual((last["lanes"], last["nodes"]), ([2, 3], 5))
        self.assertIn("node 1 is lost", last["cause"])
        self.assertLessEqual(max(f["recomputed_steps"] for f in summary["failures"]), 1)

    def test_one_of_each_stage_and_a_third(self):
        summary = self.live_through(fault("lose_node", node=1, step=10), fault("lose_node", node=4, step=10),
                                    fault("lose_node", node=2, step=30), changes=2)
        self.assertEqual(summary["membership_history"][-1]["nodes"], 3)
        self.assertEqual(sum(summary["membership_history"][-1]["lanes"]), 3)

    def test_a_role_is_lost_while_lanes_change(self):
        # Three that the copies survive, should all be lost before the first is replaced.
        self.live_through(fault("lose_node", node=2, step=10), kill("1.1", step=12, point="step/before_verdict"),
                          kill("0.1", in_recovery=1, point="recovery/restored"))

    def test_windows_and_disk_snapshots_work_across_changes(self):
        for strategy in ("protection.strategy=sparse", "protection.strategy=peer-memory"):
            self.live_through(fault("lose_node", node=5, step=14), kill("0.1", step=40, point="step/backward"),
                              settings=(*SMALL, strategy))

    def test_without_copies_all_begin_anew_on_the_lanes_that_are_left(self):
        summary = self.live_through(fault("lose_node", node=1, step=4), settings=(*SMALL, "protection.strategy=none"),
                                    changes=0, restarts=1, first_lanes=(2, 3))
        self.assertEqual([(change["step"], change["nodes"]) for change in summary["membership_history"]], [(0, 5)])

    def test_all_are_lost_and_go_back_to_a_checkpoint_from_before_they_were_fewer(self):
        summary = self.live_through(fault("lose_node", node=1, step=24), fault("kill_node", node=0, step=28),
                                    settings=(*SMALL[:-1], "run.nodes=2"), restarts=1)
        self.assertEqual([(change["step"], change["lanes"]) for change in summary["membership_history"]],
                         [(0, [3, 3]), (15, [2, 1])])

    def test_a_history_is_followed_through_a_restart(self):
        job = Job(self, *SMALL, "protection.strategy=none", "elastic.history=8 2 3")
        with job.start(faults=[kill("1.0", step=24)]) as run:
            pass
        self.assertEqual(run.summary["restarts"], 1, run.story())
        self.assertEqual([(change["step"], change["lanes"]) for change in run.summary["membership_history"]],
                         [(0, [3, 3]), (8, [2, 3])])
        again = Job(self, *SMALL, history_of(run.summary)).complete()
        self.assertEqual(again["digest"], run.summary["digest"], run.story())

    def test_a_resting_process_that_is_lost_saves_with_the_others(self):
        job = Job(self, *SMALL, "protection.strategy=checkfreq", "elastic.history=8 2 3")
        with job.start() as run:
            run.kill("0.2", at_step=30)
        self.assertEqual((run.summary["status"], run.summary["restarts"]), ("finished", 0), run.story())
        self.assertEqual([failure["roles"] for failure in run.summary["failures"]], [["0.2"]], run.story())
        self.assertNotIn("cannot save", run.story())


class Growth(Elastic):
    def test_a_node_that_returns_trains_again(self):
        summary = self.live_through(fault("lose_node", node=3, step=8), fault("return_node", node=3, step=20), changes=2)
        last = summary["membership_history"][-1]
        self.assertEqual((last["lanes"], last["nodes"]), ([3, 3], 6))
        self.assertIn("node 3 has come", last["cause"])
        self.assertEqual(summary["failures"][-1]["rolled_back_stages"], [], "for a newcomer nobody goes back")
        self.assertEqual(len(summary["failures"]), 2)

    def test_a_node_that_never_was_there_is_used(self):
        summary = self.live_through(fault("lose_node", node=3, step=8), fault("add_node", node=11, step=16), changes=2)
        self.assertEqual(summary["membership_history"][-1]["lanes"], [3, 3])

    def test_a_job_that_begins_with_few_nodes_grows(self):
        settings = (*SMALL[:-1], "run.nodes=3")
        summary = self.live_through(fault("lose_node", node=2, step=8), fault("add_node", node=5, step=20),
                                    settings=settings, changes=2)
        self.assertEqual(summary["membership_history"][-1]["lanes"], [3, 3])

    def test_too_few_nodes_save_and_end_and_the_job_goes_on_later(self):
        job = Job(self, *SMALL, *ELASTIC, "elastic.min_nodes=6")
        with job.start(faults=[fault("lose_node", node=1, step=12)]) as run:
            pass
        self.assertEqual(run.summary["status"], "drained", run.story())
        self.assertIn("elastic.min_nodes", run.story())
        self.assertLess(run.summary["steps"], STEPS)
        summary = job.complete()
        self.assertEqual((summary["status"], summary["steps"]), ("finished", STEPS))


    def test_a_job_that_goes_on_from_a_checkpoint_tells_what_was_before(self):
        job = Job(self, *SMALL, *ELASTIC)
        with job.start("train.steps=40", faults=[fault("lose_node", node=1, step=12)]) as run:
            pass
        self.assertEqual(len(run.summary["membership_history"]), 2, run.story())
        summary = job.complete()  # on all nodes again
        self.assertEqual([change["lanes"] for change in summary["membership_history"]], [[3, 3], [2, 3], [3, 3]])
        self.assertEqual(summary["membership_history"][-1]["step"], 40)
        assert_told_as_trained(self, summary)
        again = Job(self, *SMALL, history_of(summary)).complete()
        self.assertEqual(again["digest"], summary["digest"])


class Refusals(unittest.TestCase):
    def test_what_cannot_be_is_refused_in_one_line(self):
        for settings, why in ((("elastic.history=12 2",), "one for each of parallel.stages (2)"),
                              (("elastic.history=12 2 4", *LANES), "at most those of parallel.lanes (3)"),
                              (("elastic.enabled=true", "elastic.min_nodes=9"), "at most run.nodes"),
                              (("elastic.enabled=true", "protection.strategy=partial-experts"), "elastic.enabled")):
            refuses(self, settings, why)


if __name__ == "__main__":
    unittest.main()
