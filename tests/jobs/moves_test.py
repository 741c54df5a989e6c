"""Planned moves in real jobs: roles go to other nodes while the job trains, nobody goes back, and no bit changes.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

from job import ENDLESS, SMALL, Job, Undisturbed, assert_drained, command, wait_for
from standbys_test import standbys, story

SETTINGS = (*ENDLESS, "run.nodes=2", "run.spares=1")
PLOT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "plot_timeline.py"
ROLES = ("0.0", "0.1", "1.0", "1.1")


def move(job, *args):
    """What `evermoe move` answers: exit code and the object."""
    code, out, told = command("move", job.out, *args, "--json")
    return code, json.loads(out) if out.strip() else told


class Moves(unittest.TestCase):
    def setUp(self):
        self.done = 0

    def wait_done(self, run, count=1):
        """So many more moves are done."""
        self.done += count
        wait_for(lambda: story(run).count(": done at step") >= self.done or run.process.poll() is not None, run.story)
        self.assertIsNone(run.process.poll(), run.story())

    def drain(self, run, *settings):
        os.kill(run.process.pid, signal.SIGINT)
        run.finish()
        assert_drained(self, run, *[s for s in settings if "train.steps" not in s])
        self.assertEqual(run.summary["failures"], [], run.story())
        self.assertEqual(run.summary["restarts"], 0, run.story())

    def every_role_moves_once(self, *settings):
        job = Job(self, *settings)
        with job.start() as run:
            run.wait_step(3)
            for role in ROLES:
                before = run.workers()
                code, answer = move(job, "--role", role)
                self.assertEqual((code, answer["accepted"]), (0, True), answer)
                self.wait_done(run)
                after = run.workers()
                self.assertNotEqual(after[role], before[role])
                self.assertEqual({r: after[r] for r in ROLES if r != role}, {r: before[r] for r in ROLES if r != role})
            self.drain(run, *settings)
        moves = run.summary["moves"]
        self.assertEqual([(m["roles"], m["state"]) for m in moves], [([role], "done") for role in ROLES])
        for one in moves:
            self.assertNotEqual(one["from"], one["to"])
            self.assertGreater(one["bytes"], 0)
            self.assertEqual(one["connections_opened"], 4)  # the new process with all, and the one before
            seconds = [moment["seconds"] for moment in one["timeline"]]
            self.assertEqual(seconds, sorted(seconds))
            self.assertLessEqual(one["pause_seconds"], seconds[-1] - seconds[0])

    def test_every_role_moves_once_under_sparse_windows(self):
        self.every_role_moves_once(*SETTINGS, "protection.window=3")

    def test_every_role_moves_once_under_kept_gradients(self):
        self.every_role_moves_once(*SETTINGS, "protection.strategy=gradients")

    def test_a_node_is_drained_and_all_its_roles_move_in_one_switch(self):
        settings = (*SETTINGS, "protection.window=2", "evaluate.every_steps=0", "checkpoint.every_steps=100000")
        job = Job(self, *settings)
        with job.start() as run:
            run.wait_step(3)
            before = run.workers()
            code, answer = move(job, "--drain", "1")
            self.assertEqual((code, answer["reason"]), (0, "node 1 leaves when others play 1.0, 1.1"))
            self.wait_done(run)
            wait_for(lambda: "node 1 has left the job" in story(run), run.story)
            after = run.workers()
            self.assertEqual([after[r] for r in ("0.0", "0.1")], [before[r] for r in ("0.0", "0.1")])
            self.drain(run, *settings)
        (only,) = run.summary["moves"]
        self.assertEqual((sorted(only["roles"]), only["from"], only["to"]), (["1.0", "1.1"], [1, 1], [2, 2]))
        self.draw(job, run.summary)

    def draw(self, job, summary):
        """The picture of docs/moves.md, of this run."""
        path, picture = pathlib.Path(job.folder) / "summary.json", pathlib.Path(job.folder) / "move.png"
        path.write_text(json.dumps(summary))
        drawn = subprocess.run([sys.executable, PLOT, "move", path, "--save", picture], capture_output=True, text=True)
        self.assertEqual((drawn.returncode, drawn.stdout), (0, f"drawn: {picture}\n"), drawn.stderr)
        self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        lost = subprocess.run([sys.executable, PLOT, "failure", path, "--save", picture], capture_output=True, text=True)
        self.assertEqual((lost.returncode, lost.stderr), (1, f"{path}: no failure from which the job went on locally\n"))

    def test_roles_change_places_as_a_file_says(self):
        settings = (*SETTINGS, "protection.window=2")
        job = Job(self, *settings)
        places = os.path.join(job.folder, "places.toml")
        with open(places, "w") as file:
            file.write('# two change places, one stays\n"0.0" = 1\n"1.0" = 1\n"1.1" = 0\n')
        with job.start() as run:
            run.wait_step(3)
            before = run.workers()
            code, answer = move(job, "--rebalance", places)
            self.assertEqual((code, answer["accepted"]), (0, True), answer)
            self.wait_done(run)
            after = run.workers()
            self.assertEqual([after[r] for r in ("0.1", "1.0")], [before[r] for r in ("0.1", "1.0")])
            self.assertEqual(move(job, "--rebalance", places),
                             (0, {"accepted": True, "reason": f"all roles are where {places} wants them"}))
            self.drain(run, *settings)
        (only,) = run.summary["moves"]
        self.assertEqual((only["roles"], only["from"], only["to"]), (["0.0", "1.1"], [0, 1], [1, 0]))

    def test_the_job_outlives_the_new_process_and_the_old_one(self):
        settings = (*SETTINGS, "protection.window=2")
        job = Job(self, *settings)
        with job.start() as run:
            run.wait_step(3)
            move(job, "--role", "1.0")
            (joiner,) = wait_for(lambda: standbys(job), run.story)
            os.kill(joiner, signal.SIGKILL)
            wait_for(lambda: "a standby on node 2 has ended" in story(run), run.story)
            os.kill(run.workers()["1.0"], signal.SIGKILL)
            wait_for(lambda: "is called off: role 1.0 is lost" in story(run), run.story)
            wait_for(lambda: "recovered from the failure" in story(run), run.story)
            os.kill(run.process.pid, signal.SIGINT)
            run.finish()
            assert_drained(self, run, *[s for s in settings if "train.steps" not in s])
        (only,) = run.summary["moves"]
        self.assertEqual((only["state"], only["reason"]), ("called off", "role 1.0 is lost"))
        self.assertEqual(only["pause_seconds"], 0)

    def test_a_lost_node_that_comes_back_gets_its_roles_back(self):
        settings = (*ENDLESS, "run.nodes=2", "protection.window=2", "elastic.grow_wait_seconds=0.5")
        job = Job(self, *settings)
        faults = ('[[fault]]\nkind = "lose_node"\nnode = 1\nstep = 4\n',
                  '[[fault]]\nkind = "return_node"\nnode = 1\nstep = 20\n')
        with job.start(faults=faults) as run:
            self.wait_done(run)
            os.kill(run.process.pid, signal.SIGINT)
            run.finish()
            assert_drained(self, run, *[s for s in settings if "train.steps" not in s])
        (loss,) = run.summary["failures"]
        self.assertEqual(sorted(loss["roles"]), ["1.0", "1.1"], run.story())
        (only,) = run.summary["moves"]
        self.assertEqual((sorted(only["roles"]), only["from"], only["to"]), (["1.0", "1.1"], [0, 0], [1, 1]), run.story())
        self.assertEqual((only["cause"], only["state"]), ("node 1 has room", "done"))

    def test_whoever_has_handed_its_role_over_takes_the_next_one(self):
        settings = (*SETTINGS, "run.standbys=2", "protection.window=2")
        job = Job(self, *settings)
        with job.start() as run:
            warm = lambda: len(re.findall(r"a standby on node \d+ is warm", story(run)))
            wait_for(lambda: warm() == 2, run.story)
            processes = {*run.workers().values(), *standbys(job)}
            self.assertEqual(len(processes), 6, run.story())
            for count, stage in enumerate((0, 1, 0), start=1):
                before = run.workers()
                self.assertEqual(move(job, "--role", f"{stage}.0", "--role", f"{stage}.1")[0], 0)
                self.wait_done(run)
                wait_for(lambda: warm() == 2 + 2 * count, run.story)
                self.assertEqual({*run.workers().values(), *standbys(job)}, processes, run.story())
                self.assertEqual(standbys(job), {before[f"{stage}.0"], before[f"{stage}.1"]}, run.story())
            self.drain(run, *[s for s in settings if "standbys" not in s])
        self.assertEqual([m["state"] for m in run.summary["moves"]], ["done"] * 3, run.story())

    def disturbed(self, faults, *moves):
        """A job that finishes, with these faults and moves: its summary."""
        settings = (*SMALL[1:], "train.steps=240", "run.nodes=2", "run.spares=1", "protection.window=2")
        job = Job(self, *settings)
        with job.start(faults=[faults]) as run:
            run.wait_step(3)
            for args in moves:
                self.assertEqual(move(job, *args)[0], 0)
        self.assertEqual(run.summary["status"], "finished", run.story())
        plain = [s for s in settings if "nodes" not in s and "spares" not in s]
        self.assertEqual(run.summary["digest"], Undisturbed.digest(self, *plain), run.story())
        self.assertEqual(run.summary["restarts"], 0, run.story())
        return run.summary

    def test_a_leaver_that_dies_before_its_state_is_there_is_an_ordinary_loss(self):
        summary = self.disturbed('[[fault]]\nkind = "kill_leaver"\nstage = 1\nlane = 0\npoint = "move/hand_over"\n', ("--role", "1.0"))
        self.assertEqual([f["roles"] for f in summary["failures"]], [["1.0"]])
        self.assertEqual([m["reason"] for m in summary["moves"]], ["role 1.0 is lost"])

    def test_a_leaver_that_dies_afterwards_has_nothing_more_to_give(self):
        summary = self.disturbed('[[fault]]\nkind = "kill_leaver"\nstage = 1\nlane = 0\n', ("--role", "1.0"))
        self.assertLessEqual(max([f["recomputed_steps"] for f in summary["failures"]], default=0), 0)

    def test_a_joiner_that_dies_is_an_ordinary_loss(self):
        summary = self.disturbed('[[fault]]\nkind = "kill_joiner"\nstage = 1\nlane = 0\n', ("--role", "1.0"))
        self.assertEqual([f["roles"] for f in summary["failures"]], [["1.0"]])
        self.assertEqual([m["state"] for m in summary["moves"]], ["done"])

    def test_a_machine_that_will_be_taken_away_is_empty_by_then(self):
        summary = self.disturbed('[[fault]]\nkind = "notice_node"\nnode = 1\nseconds = 60\nstep = 4\n')
        (only,) = summary["moves"]
        self.assertEqual((sorted(only["roles"]), only["state"]), (["1.0", "1.1"], "done"))
        self.assertEqual(summary["failures"], [])

    def test_a_machine_that_is_gone_before_it_is_empty_is_a_lost_one(self):
        summary = self.disturbed('[[fault]]\nkind = "notice_node"\nnode = 1\nseconds = 0\nstep = 4\n')
        self.assertEqual([sorted(f["roles"]) for f in summary["failures"]], [["1.0", "1.1"]])

    def test_wishes_that_cannot_be_met_are_refused(self):
        job = Job(self, *SETTINGS)
        with job.start() as run:
            run.wait_step(3)
            self.assertEqual(move(job, "--role", "1.0", "--to", "1"),
                             (2, {"accepted": False, "reason": "role 1.0 is on node 1 already"}))
            self.assertEqual(move(job, "--role", "1.0", "--to", "7")[1]["reason"], "node 7 is not in this job")
            self.assertEqual(move(job, "--drain", "7")[1]["reason"], "node 7 is not in this job")
            for args, why in ((("--role", "5.0"), "--role: found 5.0, allowed: 0.0, 0.1, 1.0, 1.1"),
                              (("--rebalance", job.folder + "/none"), "none"),
                              (("--to", "1", "--drain", "0"), "found --to without --role"),
                              ((), "found 0 of --role, --drain and --rebalance")):
                code, _, told = command("move", job.out, *args)
                self.assertEqual((code, len(told.strip().splitlines())), (2, 1), told)
                self.assertIn(why, told)
            self.drain(run, *SETTINGS)
        self.assertEqual(run.summary["moves"], [])


if __name__ == "__main__":
    unittest.main()
