"""Real jobs: same bits on every run, after every kill, hang and drain; bad input is refused early."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import unittest

from job import (CONFIG, ENDLESS, EVERMOE, ROOT, SMALL, Job, Nodes, Undisturbed, assert_drained, command, free_port,
                 random_of, seeds, wait_for)


class SameBits(unittest.TestCase):
    def test_two_runs_and_the_digest_command_agree(self):
        job = Job(self, *SMALL)
        summary = job.complete()
        self.assertEqual(summary["exit_code"], 0)
        self.assertEqual(summary["steps"], 24)
        self.assertEqual(summary["restarts"], 0)
        self.assertEqual(summary["failures"], [])
        self.assertEqual(summary["digest"], Undisturbed.digest(self, *SMALL))
        code, out, _ = command("digest", job.out)
        self.assertEqual((code, out), (0, summary["digest"] + "\n"))
        self.assertEqual(command("verify", job.out)[0], 0)

    def test_both_transports_give_the_same_bits(self):
        digest = Undisturbed.digest(self, *SMALL)
        self.assertEqual(Job(self, *SMALL, "parallel.transport=ucx").complete()["digest"], digest)

    def test_nothing_left_to_do(self):
        job = Job(self, *SMALL)
        first = job.complete()
        again = job.complete()
        self.assertEqual(again["status"], "nothing to do")
        self.assertEqual(again["digest"], first["digest"])
        self.assertEqual(again["exit_code"], 0)

    def test_goes_on_in_another_topology(self):
        job = Job(self, *SMALL)
        job.complete("train.steps=12")
        summary = job.complete("train.steps=24", "parallel.stages=1", "parallel.lanes=3")
        self.assertEqual((summary["status"], summary["steps"]), ("finished", 24))

    def test_the_checkpoint_that_it_goes_on_from_is_removed_when_no_window_needs_it(self):
        job = Job(self, *SMALL, "checkpoint.keep_newest=1", "checkpoint.keep_best=0")
        job.complete("train.steps=12")
        job.complete("train.steps=24")
        self.assertEqual(sorted(os.listdir(os.path.join(job.out, "checkpoints"))), ["latest", "step-00000024"])


class Killed(unittest.TestCase):
    def test_without_protection_all_start_again_from_disk(self):
        for seed in seeds():
            with self.subTest(seed=seed):
                random = random_of(seed)
                role = f"{random.randrange(2)}.{random.randrange(2)}"
                with Job(self, *ENDLESS, "protection.strategy=none").start() as run:
                    run.kill(role, at_step=random.randrange(1, 20), delay_seconds=random.random() * 0.3)
                    wait_for(lambda: f"worker {role} is lost" in run.story(), "the loss")
                    code, _, error = command("drain", run.out)
                    self.assertEqual(code, 0, error)
                assert_drained(self, run, *ENDLESS)
                self.assertEqual(run.summary["restarts"], 1, run.story())
                self.assertEqual(len(run.summary["failures"]), 1)
                self.assertIn(role, json.dumps(run.summary["failures"][0]))

    def test_kill_of_the_supervisor_leaves_no_worker_and_a_new_run_goes_on(self):
        job = Job(self, *SMALL)
        with job.start() as run:
            run.wait_step(8)
            pids = [run.pid_of(f"{s}.{l}") for s in range(2) for l in range(2)]
            run.process.kill()
            run.process.wait()
            run.summary = {}
            for pid in pids:
                self.assert_gone(pid)
        self.assertEqual(job.complete()["digest"], Undisturbed.digest(self, *SMALL))

    def assert_gone(self, pid):
        def gone():
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    return stat.read().rsplit(")", 1)[1].split()[0] in "ZX"
            except OSError:
                return True
        wait_for(gone, f"the end of worker {pid}")


class Hung(unittest.TestCase):
    def test_a_stopped_worker_is_noticed_and_named(self):
        with Job(self, *SMALL).start() as run:
            run.kill("1.1", at_step=8, with_signal=signal.SIGSTOP)
        self.assertEqual(run.summary["digest"], Undisturbed.digest(self, *SMALL), run.story())
        self.assertIn("1.1", json.dumps(run.summary["failures"][0]))


class Drained(unittest.TestCase):
    def test_sigterm_saves_and_a_new_run_goes_on(self):
        job = Job(self, *SMALL)
        with job.start() as run:
            run.wait_step(7)
            run.process.send_signal(signal.SIGTERM)
        self.assertEqual((run.summary["status"], run.summary["exit_code"]), ("drained", 0), run.story())
        self.assertLess(run.summary["steps"], 24)
        self.assertEqual(job.complete()["digest"], Undisturbed.digest(self, *SMALL))


class Diverged(unittest.TestCase):
    """A learning rate that multiplies every weight by 10,000 a step. Whether first numbers of the forward pass leave their
    range, or only the norm of the gradients, is a matter of bits, which other processors may have otherwise."""
    ABSURD = ("train.steps=400", "train.learning_rate=100", "train.weight_decay=100", "train.schedule=constant",
              "train.warmup_steps=0", "train.skipped_steps_max=4")

    def test_ends_with_one_line_a_record_and_the_last_good_checkpoint(self):
        for precision in ("fp32", "bf16"):
            with self.subTest(precision=precision):
                job = Job(self, *SMALL, f"train.precision={precision}")
                good = job.complete("train.steps=6")
                self.assertEqual(good["status"], "finished", good)
                with job.start(*self.ABSURD) as run:
                    pass
                self.assertEqual((run.summary["status"], run.summary["exit_code"]), ("failed", 4), run.story())
                self.assertIn("training diverged: 4 skipped steps in a row", run.summary["reason"])
                self.assertIn("the newest good checkpoint is that of step 6", run.summary["reason"])
                record = json.loads((run.out / "divergence.json").read_text())
                self.assertIn(str(run.out / "divergence.json"), run.summary["reason"])
                self.assertEqual(record["last_step"] - record["first_step"], 3)
                self.assertEqual(record["checkpoint"], 6)
                if record["loss"] is None:
                    first = record["first_non_finite"]
                    self.assertEqual((first["step"], first["micro_batch"]), (record["last_step"], 0))
                    self.assertIn(f"first in {first['operator']}, {first['phase']}", run.summary["reason"])
                # Nothing of it was published: a sane run goes on from what was there before.
                self.assertEqual(command("digest", job.out)[1].strip(), good["digest"])
                self.assertEqual(command("verify", job.out)[0], 0)
                self.assertEqual(job.complete("train.steps=8")["status"], "finished")

    def test_a_run_whose_last_state_is_not_finite_fails(self):
        job = Job(self, *SMALL, "train.precision=fp16")  # whose range the weights leave
        with job.start(*self.ABSURD, "train.skipped_steps_max=1000", "train.steps=20", "checkpoint.every_steps=0",
                       "evaluate.every_steps=0") as run:
            pass
        self.assertEqual((run.summary["status"], run.summary["exit_code"]), ("failed", 4), run.story())
        self.assertIn("the state at step 20 is not finite", run.summary["reason"])
        self.assertNotEqual(command("digest", job.out)[0], 0)


class Disk(unittest.TestCase):
    """What the disk refuses costs no step: people are told, and training goes on."""
    SETTINGS = ("train.steps=48", "checkpoint.every_steps=4", "checkpoint.keep_newest=1",
                "checkpoint.keep_best=0", "evaluate.every_steps=0", "evaluate.micro_batches=2")

    def assert_undisturbed(self, run):
        self.assertEqual(run.summary["status"], "finished", run.story())
        self.assertEqual(run.summary["digest"], Undisturbed.digest(self, *self.SETTINGS), run.story())
        self.assertEqual(run.summary["restarts"], 0)
        self.assertIn("training goes on", run.story())
        self.assertIn("checkpoints are saved again", run.story())

    def test_a_full_disk_and_a_lost_worker_meanwhile(self):
        job = Job(self, *self.SETTINGS)
        folder = os.path.join(job.out, "checkpoints")
        small_disk = pathlib.Path(job.folder, "small-disk")
        small_disk.write_text(f"#!/bin/sh\nmkdir -p {folder} && mount -t tmpfs -o size=40m none {folder} &&"
                              f" exec {EVERMOE} \"$@\"\n")
        small_disk.chmod(0o755)
        with job.start(program=small_disk, before=["unshare", "-rm"]) as run:
            run.wait_step(6)
            disk = pathlib.Path(f"/proc/{run.process.pid}/root{folder}")
            wait_for(lambda: (disk / "latest").is_symlink(), "a checkpoint")
            ballast = disk / "ballast"
            with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(65536))
            wait_for(lambda: "cannot save the checkpoint" in run.story(), "the warning")
            self.assertIn("No space left on device", run.story())
            before = os.readlink(disk / "latest")
            run.kill("1.0", at_step=run.step() + 2)
            run.wait_step(run.step() + 6)
            self.assertEqual(os.readlink(disk / "latest"), before, "the newest good one stays")
            ballast.unlink()
        self.assert_undisturbed(run)
        self.assertEqual([failure["roles"] for failure in run.summary["failures"]], [["1.0"]])
        self.assertFalse(run.summary["failures"][0]["restarted_all"])

    def test_a_folder_in_place_of_a_file_of_the_next_checkpoint(self):
        with Job(self, *self.SETTINGS).start() as run:
            run.wait_step(2)
            os.makedirs(run.out / "checkpoints" / "step-00000016.tmp" / "rank-0000.safetensors")
        self.assert_undisturbed(run)
        self.assertIn("cannot save the checkpoint of step 16", run.story())
        self.assertEqual(run.summary["failures"], [])


class Launchers(unittest.TestCase):
    """Nodes that a launcher has started: each an `evermoe node`, all on this machine's loopback."""

    def settings(self):
        return [word for s in SMALL for word in ("--set", s)]

    def test_torchrun_with_one_node_for_each_rank(self):
        job = Job(self, *SMALL)
        torchrun = ROOT / ".venv" / "bin" / "torchrun"
        subprocess.run([torchrun, "--nproc-per-node=4", f"--master-port={free_port()}", "--no-python", EVERMOE, "node", CONFIG,
                        *self.settings(), "--out", job.out], check=True, capture_output=True, timeout=200)
        self.assertEqual(command("digest", job.out)[1].strip(), Undisturbed.digest(self, *SMALL))

    def test_a_lost_worker_and_a_lost_node_cost_a_few_steps_of_a_stage(self):
        with Nodes(self, 3, *SMALL, "train.steps=60", flags=["--spares", "1"]) as nodes:
            nodes.wait_step(8)
            os.kill(nodes.pid_of("0.1"), signal.SIGKILL)
            nodes.wait_step(25)
            nodes.processes[1].kill()
        summary = nodes.summary
        self.assertEqual(summary["status"], "finished", nodes.story())
        self.assertEqual(summary["digest"], Undisturbed.digest(self, *SMALL, "train.steps=60"), nodes.story())
        self.assertEqual(summary["restarts"], 0, nodes.story())
        self.assertEqual([f["roles"] for f in summary["failures"]], [["0.1"], ["1.0", "1.1"]], nodes.story())
        self.assertEqual([p.returncode for p in nodes.processes], [0, -signal.SIGKILL, 0], nodes.story())

    def test_a_signal_to_any_node_drains_the_job(self):
        # A machine that leaves soon has a moment more, for others that say so too: the job must outlast it.
        with Nodes(self, 2, *SMALL, "train.steps=100000") as nodes:
            nodes.wait_step(7)
            nodes.processes[1].send_signal(signal.SIGTERM)
        self.assertEqual(nodes.summary["status"], "drained", nodes.story())
        self.assertEqual([p.returncode for p in nodes.processes], [0, 0], nodes.story())
        steps = f"train.steps={nodes.summary['steps'] + 10}"
        with Nodes(self, 2, *SMALL, steps, out=nodes.out) as again:
            pass
        self.assertEqual(again.summary["digest"], Undisturbed.digest(self, *SMALL, steps), again.story())
        with Nodes(self, 2, *SMALL, steps, out=nodes.out) as done:
            pass
        self.assertEqual(done.summary["status"], "nothing to do", done.story())
        self.assertEqual([p.returncode for p in done.processes], [0, 0], done.story())

    def test_ctrl_c_in_the_terminal_of_a_node_drains_the_job_and_costs_no_worker(self):
        with Nodes(self, 2, *SMALL, "train.steps=100000") as nodes:
            nodes.wait_step(7)
            os.killpg(nodes.processes[1].pid, signal.SIGINT)  # its workers are in its group
        self.assertEqual(nodes.summary["status"], "drained", nodes.story())
        self.assertEqual(nodes.summary["failures"], [], nodes.story())
        self.assertEqual([p.returncode for p in nodes.processes], [0, 0], nodes.story())

    def test_bad_input_ends_all_nodes(self):
        with Nodes(self, 2, *SMALL, "train.steps=2") as nodes:
            pass
        # Found by every node itself, and by node 0 alone.
        for settings, words in [(("train.stepz=3",), "train.stepz"), (("model.experts=4",), "experts")]:
            with Nodes(self, 2, *SMALL, *settings, out=nodes.out) as refused:
                pass
            self.assertEqual([p.returncode for p in refused.processes], [2, 2], refused.story())
            self.assertIn(words, refused.story())


class BadInput(unittest.TestCase):
    def assert_refused(self, *settings, says):
        job = Job(self)
        arguments = [word for s in settings for word in ("--set", s)]
        code, out, error = command("run", CONFIG, *arguments, "--out", job.out)
        self.assertEqual(code, 2, error)
        self.assertEqual(len(error.strip().splitlines()), 1, error)
        for words in says:
            self.assertIn(words, error)
        self.assertFalse(os.path.exists(os.path.join(job.out, "workers.json")), "a worker was started")

    def test_each_kind_is_refused_with_one_line(self):
        for settings, says in [
            (["train.stepz=3"], ["train.stepz", "train.steps"]),
            (["train.steps=many"], ["train.steps", "many"]),
            (["train.steps=-1"], ["train.steps", "-1"]),
            (["train.precision=int8"], ["train.precision", "fp32", "bf16"]),
            (["parallel.stages=9"], ["parallel.stages", "layers"]),
            (["model.top_k=9"], ["top_k", "experts"]),
            (["model.hidden=100"], ["model.hidden", "64"]),
            (["parallel.lanes=[1,2,3]"], ["parallel.lanes"]),
            (["data.path=/nowhere/text.txt"], ["data.path", "/nowhere/text.txt"]),
        ]:
            with self.subTest(settings=settings):
                self.assert_refused(*settings, says=says)

    def test_gpus_that_are_not_there_are_refused(self):
        """None at all, or fewer than workers."""
        code, _, error = command("run", CONFIG, "--set", "train.device=cuda", "--set", "parallel.lanes=5", "--out", Job(self).out)
        self.assertEqual(code, 2, error)
        lines = [line for line in error.splitlines() if line.startswith("evermoe: ")]
        self.assertEqual(len(lines), 1, error)
        self.assertIn("evermoe: train.device: ", lines[0])

    def test_a_checkpoint_of_another_model_is_refused(self):
        job = Job(self, "train.steps=2", "evaluate.every_steps=0", "evaluate.micro_batches=1")
        job.complete()
        code, _, error = command("run", CONFIG, "--set", "model.experts=4", "--out", job.out)
        self.assertEqual(code, 2)
        self.assertIn("experts", error)

    def test_a_text_that_changes_under_a_running_job_is_refused(self):
        job = Job(self, *SMALL)
        text = pathlib.Path(job.folder) / "text.txt"
        text.write_bytes((ROOT / "data" / "tinyshakespeare.txt").read_bytes()[:200_000])
        with job.start(f"data.path={text}") as run:
            run.wait_step(8)
            text.write_bytes(text.read_bytes()[::-1])
            run.kill("1.0", at_step=8)
        self.assertEqual(run.summary["exit_code"], 2, run.story())
        self.assertIn(f"{text}: has changed since the job began", run.summary["reason"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
