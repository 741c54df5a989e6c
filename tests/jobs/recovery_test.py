"""Protected jobs of real processes: whatever is killed or stopped, the others keep their processes, one
stage runs a few steps again, and the end has the bits of the run that was left alone.

With EVERMOE_SEEDS=first..last, as many more random faults. Campaign is a run for every role of two
topologies; ./check has them one after the other, in EveryRole.
"""
import os
import signal
import unittest

from job import Job, Undisturbed, random_of, seeds

# Windows of three steps: some operators are frozen while a stage catches up.
STEPS = 30
SMALL = (f"train.steps={STEPS}", "checkpoint.every_steps=10", "evaluate.every_steps=10", "evaluate.micro_batches=2",
         "protection.window=3")
TWO_BY_FOUR = (*SMALL, "parallel.stages=2", "parallel.lanes=4")
FOUR_BY_TWO = (*SMALL, "model.layers=4", "parallel.stages=4", "parallel.lanes=2")


def fault(kind, **keys):
    return "[[fault]]\nkind = \"%s\"\n" % kind + "".join(
        "%s = %s\n" % (name, f'"{value}"' if isinstance(value, str) else value) for name, value in keys.items())


def kill(role, **keys):
    stage, lane = map(int, role.split("."))
    return fault("kill_worker", stage=stage, lane=lane, **keys)


def roles_of(stages, lanes):
    return [f"{stage}.{lane}" for stage in range(stages) for lane in range(lanes)]


class Protected(unittest.TestCase):
    def undisturbed(self, settings):
        return Undisturbed.digest(self, *settings, "protection.strategy=none")

    def assert_exact(self, run, settings):
        self.assertEqual(run.summary["status"], "finished", run.story())
        self.assertEqual(run.summary["digest"], self.undisturbed(settings), run.story())
        self.assertEqual(run.summary["exit_code"], 0)

    def survive(self, settings, *faults, flags=()):
        """Runs a job with these faults. Gives its summary, and of every role whether it kept its process."""
        job = Job(self, *settings)
        with job.start(faults=faults, flags=flags) as run:
            run.wait_step(1)
            before = run.workers()
            run.wait_step(STEPS - 3)
            after = run.workers()
        self.assert_exact(run, settings)
        self.story = run.story()
        return run.summary, {role: after.get(role) == pid for role, pid in before.items()}

    def assert_local(self, summary, kept, lost, stages):
        """Nothing was read from disk, only these stages ran steps again, all others kept their processes."""
        self.assertEqual(summary["restarts"], 0, self.story)
        self.assertEqual({role for role, same in kept.items() if not same}, set(lost), self.story)
        for failure in summary["failures"]:
            self.assertFalse(failure["restarted_all"])
            self.assertLessEqual(failure["recomputed_steps"], 2 * 3)
            self.assertLessEqual(set(failure["rolled_back_stages"]), set(stages))
            moments = failure["timeline"]
            self.assertLessEqual(moments["detect"], moments["view"])
            self.assertLessEqual(moments["load"], moments["resume"])
        self.assertEqual({stage for f in summary["failures"] for stage in f["rolled_back_stages"]}, set(stages))
        named = " ".join(source for f in summary["failures"] for source in f["sources"])
        for role in lost:
            self.assertIn(f"{role}: window", named)


class Strategies(Protected):
    def test_dense_copies_send_one_stage_back(self):
        summary, kept = self.survive((*SMALL, "parallel.stages=2", "parallel.lanes=2", "protection.strategy=dense",
                                      "protection.dense_every_steps=3"), kill("1.0", step=14, point="step/backward"))
        self.assert_local(summary, kept, ["1.0"], [1])
        self.assertEqual((summary["strategy"], summary["is_exact"], summary["lost_token_share"]), ("dense", True, 0))

    def test_with_gradients_nobody_runs_a_step_again(self):
        settings = (*SMALL, "parallel.stages=2", "parallel.lanes=2", "protection.strategy=gradients",
                    "protection.base_every_steps=4")
        summary, kept = self.survive(settings, kill("1.0", step=14, point="step/backward"),
                                     kill("0.1", step=19, point="step/updated"))
        self.assertEqual({role for role, same in kept.items() if not same}, {"1.0", "0.1"}, self.story)
        self.assertEqual((summary["strategy"], summary["is_exact"], summary["lost_token_share"]), ("gradients", True, 0))
        self.assertEqual(summary["restarts"], 0, self.story)
        self.assertEqual([f["rolled_back_stages"] for f in summary["failures"]], [[1], [0]], self.story)
        for failure in summary["failures"]:
            self.assertEqual((failure["recomputed_steps"], failure["survivor_recomputed_steps"]), (0, 0), self.story)
            self.assertTrue(any("window" in source for source in failure["sources"]), self.story)

    def test_peer_memory_sends_everybody_back_to_copies_in_memory(self):
        settings = (*SMALL, "parallel.stages=2", "parallel.lanes=2", "protection.strategy=peer-memory",
                    "protection.dense_every_steps=3")
        summary, kept = self.survive(settings, kill("1.0", step=14, point="step/backward"),
                                     kill("0.1", step=20, point="step/updated"))
        self.assertEqual({role for role, same in kept.items() if not same}, {"1.0", "0.1"}, self.story)
        self.assertEqual((summary["strategy"], summary["is_exact"]), ("peer-memory", True))
        self.assertEqual(summary["restarts"], 0, self.story)
        self.assertEqual([f["rolled_back_stages"] for f in summary["failures"]], [[0, 1], [0, 1]], self.story)
        for failure in summary["failures"]:
            self.assertEqual(len(failure["sources"]), 4, self.story)
            self.assertTrue(all("window" in source for source in failure["sources"]), self.story)
            self.assertGreater(failure["survivor_recomputed_steps"], 0, self.story)

    def test_checkfreq_goes_back_to_saves_at_its_own_pace(self):
        settings = (*SMALL, "parallel.stages=2", "parallel.lanes=2", "protection.strategy=checkfreq",
                    "protection.overhead_budget=1", "checkpoint.every_steps=0")
        summary, _ = self.survive(settings, kill("1.0", step=16, point="step/backward"),
                                  kill("0.1", step=24, point="step/updated"))
        self.assertEqual((summary["strategy"], summary["is_exact"]), ("checkfreq", True))
        self.assertEqual(summary["restarts"], 2, self.story)
        self.assertEqual([f["roles"] for f in summary["failures"]], [["1.0"], ["0.1"]], self.story)
        for failure in summary["failures"]:
            self.assertTrue(failure["restarted_all"], self.story)
            self.assertGreaterEqual(failure["restarted_from_step"], 8, self.story)


class Lossy(Protected):
    SETTINGS = (*SMALL, "parallel.stages=2", "parallel.lanes=2", "protection.strategy=partial-experts",
                "protection.plt_max=1", "checkpoint.every_steps=3")
    FIRST = 3

    def lose_one_of_four(self, *settings):
        """Its last steps are lost; the summary of the run and what it told."""
        for _ in range(5):
            summary = self.lose_one_once(*settings)
            # The first checkpoint has everything; a busy disk may have nothing newer by then.
            if summary["failures"][0]["restarted_from_step"] > self.FIRST:
                return summary
        self.fail(f"each time from the first checkpoint\n{summary}")

    def lose_one_once(self, *settings):
        job = Job(self, *self.SETTINGS, *settings)
        with job.start(faults=[kill("1.0", step=27, point="step/backward")]) as run:
            run.wait_step(STEPS - 3)
        self.assertEqual((run.summary["status"], run.summary["exit_code"]), ("finished", 0), run.story())
        self.assertEqual((run.summary["strategy"], run.summary["is_exact"]), ("partial-experts", False))
        (failure,) = run.summary["failures"]
        self.assertTrue(failure["restarted_all"], run.story())
        self.assertIn("LOSSY", run.story())
        return run.summary

    def test_experts_lose_what_storage_and_memory_lack(self):
        without_memory = self.lose_one_of_four("protection.experts_in_memory=1")
        self.assertGreater(without_memory["lost_token_share"], 0)
        self.assertNotEqual(without_memory["digest"],
                            self.undisturbed((*SMALL, "parallel.stages=2", "parallel.lanes=2")))
        # Three of four ranks have all their experts in memory.
        with_memory = self.lose_one_of_four()
        self.assertGreater(with_memory["lost_token_share"], 0)
        self.assertLess(with_memory["lost_token_share"], without_memory["lost_token_share"])

    def test_nothing_is_lost_if_all_experts_are_saved(self):
        summary = self.lose_one_of_four("protection.experts_saved=8")
        self.assertEqual(summary["lost_token_share"], 0)
        self.assertEqual(summary["digest"],
                         self.undisturbed((*SMALL, "parallel.stages=2", "parallel.lanes=2")))


class EveryRole(Protected):
    """One after the other in one run."""

    def one_after_the_other(self, settings, roles):
        faults = [kill(role, step=3 + 3 * i, point=("step/forward", "step/backward", "step/before_verdict", "step/updated")[i % 4])
                  for i, role in enumerate(roles)]
        summary, kept = self.survive(settings, *faults)
        self.assertFalse(any(kept.values()))
        self.assertEqual([f["roles"] for f in summary["failures"]], [[role] for role in roles], self.story)
        self.assertEqual([f["rolled_back_stages"] for f in summary["failures"]], [[int(role[0])] for role in roles])
        self.assertEqual(summary["restarts"], 0)

    def test_of_two_stages_with_four_lanes(self):
        self.one_after_the_other(TWO_BY_FOUR, roles_of(2, 4))

    def test_of_four_stages_with_two_lanes(self):
        self.one_after_the_other(FOUR_BY_TWO, roles_of(4, 2))


class Campaign(Protected):
    def each(self, settings, roles):
        for role in roles:
            with self.subTest(role=role), Job(self, *settings).start() as run:
                run.wait_step(1)
                before = run.workers()
                run.kill(role, at_step=14, delay_seconds=0.05)
                run.wait_step(STEPS - 3)
                after = run.workers()
            self.assert_exact(run, settings)
            self.story = run.story()
            self.assert_local(run.summary, {r: after.get(r) == pid for r, pid in before.items()}, [role], [int(role[0])])

    def test_two_stages_with_four_lanes(self):
        self.each(TWO_BY_FOUR, roles_of(2, 4))

    def test_four_stages_with_two_lanes(self):
        self.each(FOUR_BY_TWO, roles_of(4, 2))


class Several(Protected):
    def test_two_lanes_of_one_stage(self):
        lost = ["1.1", "1.2"]
        summary, kept = self.survive(TWO_BY_FOUR, *[kill(role, step=17) for role in lost])
        self.assert_local(summary, kept, lost, [1])

    def test_two_adjacent_stages(self):
        lost = ["1.0", "2.1"]
        summary, kept = self.survive(FOUR_BY_TWO, *[kill(role, step=17) for role in lost])
        self.assert_local(summary, kept, lost, [1, 2])

    def test_two_disjoint_stages(self):
        lost = ["0.0", "2.1"]
        summary, kept = self.survive(FOUR_BY_TWO, *[kill(role, step=17) for role in lost])
        self.assert_local(summary, kept, lost, [0, 2])

    def test_a_second_kill_during_catch_up(self):
        summary, kept = self.survive(TWO_BY_FOUR, kill("1.0", step=17),
                                     kill("1.3", in_recovery=1, point="catch_up/step"))
        self.assert_local(summary, kept, ["1.0", "1.3"], [1])
        self.assertEqual(len(summary["failures"]), 1, "one recovery")
        self.assertEqual(summary["failures"][0]["roles"], ["1.0", "1.3"])


class Control(Protected):
    def test_the_controller(self):
        summary, kept = self.survive(TWO_BY_FOUR, fault("kill_controller", step=15))
        self.assertTrue(all(kept.values()))
        self.assertEqual(summary["failures"][0]["roles"], ["controller"])
        self.assertEqual(summary["failures"][0]["rolled_back_stages"], [])

    def test_a_node_with_two_workers(self):
        summary, kept = self.survive(FOUR_BY_TWO, fault("kill_node", node=2, step=17), flags=["--nodes", "4", "--spares", "1"])
        self.assert_local(summary, kept, ["2.0", "2.1"], [2])
        self.assertIn("node 2", summary["failures"][0]["kind"])

    def test_a_stopped_worker(self):
        with Job(self, *TWO_BY_FOUR).start() as run:
            run.kill("0.2", at_step=12, with_signal=signal.SIGSTOP)
        self.assert_exact(run, TWO_BY_FOUR)
        self.assertEqual(run.summary["failures"][0]["roles"], ["0.2"])
        self.assertIn("hung", run.summary["failures"][0]["kind"])
        self.assertEqual(run.summary["restarts"], 0)

    def test_a_cut_connection_and_a_damaged_copy(self):
        settings = (*TWO_BY_FOUR, "protection.copies=2")
        summary, _ = self.survive(settings, fault("cut_connection", stage=0, lane=0, other_stage=1, other_lane=3, step=8),
                                  fault("corrupt_copy", stage=1, lane=0, step=17, point="step/forward"),
                                  kill("1.0", step=17, point="step/before_verdict"))
        # Every copy is damaged: all go back to the durable checkpoint, and it is exact still.
        self.assertTrue(summary["failures"][-1]["restarted_all"], self.story)


class Random(Protected):
    def test_kills_at_any_instant(self):
        settings = (*SMALL, "protection.copies=2")  # the second may come while the first is repaired
        for seed in seeds():
            with self.subTest(seed=seed):
                random = random_of(seed)
                with Job(self, *settings).start() as run:
                    for at_step in sorted(random.sample(range(2, STEPS - 4), 2)):
                        role = f"{random.randrange(2)}.{random.randrange(2)}"
                        run.kill(role, at_step=at_step, delay_seconds=random.random() * 0.3)
                self.assert_exact(run, settings)
                self.assertEqual(run.summary["restarts"], 0, run.story())

    def test_all_at_once_go_back_to_the_durable_state(self):
        with Job(self, *SMALL).start() as run:
            run.wait_step(14)
            for role in roles_of(2, 2):
                os.kill(run.pid_of(role), signal.SIGKILL)
        self.assert_exact(run, SMALL)
        self.assertTrue(run.summary["failures"][0]["restarted_all"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
