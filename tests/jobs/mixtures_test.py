"""Everything at once: random jobs of real processes, any exact strategy, with standbys, spare nodes, lanes that come and
go, experts that move and roles that are moved, and random faults that may meet. Every one of them ends with the bits of a
job in which nothing happens and whose lanes train and rest as the summary says they did.

EVERMOE_SEEDS=first..last for a campaign.
"""
import contextlib
import os
import signal
import subprocess
import threading
import unittest

from elastic_test import history_of
from job import EVERMOE, Job, random_of, seeds
from recovery_test import fault, roles_of

STEPS = 150
SMALL = (f"train.steps={STEPS}", "checkpoint.every_steps=25", "evaluate.every_steps=50", "evaluate.micro_batches=2",
         "train.micro_batches=6")
STRATEGIES = ("sparse", "gradients", "dense", "peer-memory", "checkfreq", "none")
POINTS = ("step/forward", "step/backward", "step/before_verdict", "step/after_verdict", "step/updated", "capture/copied",
          "capture/sent", "copy/stored", "step/save", "evaluate/batch")
RECOVERY_POINTS = ("recovery/stopped", "recovery/plan", "recovery/opening", "recovery/restored", "catch_up/step")
LEAVER_POINTS = ("move/copying", "move/hand_over", "move/handed_over")


class Mixture:
    """A job, what befalls it and what is asked of it."""

    def __init__(self, seed):
        self.random = random = random_of(seed)
        self.stages, self.lanes = random.choice(((1, 3), (2, 2), (2, 3), (3, 1)))
        self.nodes = random.choice((self.stages, self.stages * self.lanes))
        self.spares = random.choice((0, 1, 2))
        self.strategy = random.choice(STRATEGIES)
        self.is_elastic = self.lanes > 1 and random.random() < 0.5
        bits = [f"parallel.stages={self.stages}", f"parallel.lanes={self.lanes}", "model.layers=3"]
        if self.lanes > 1 and random.random() < 0.5:
            bits += ["experts.replicas=by-load", f"experts.rebalance_every_steps={random.choice((5, 20))}",
                     "model.routing=synthetic", "model.routing_skew=0.2", "model.routing_drift_steps=30"]
        self.bits = (*SMALL, *bits)
        run = [f"protection.strategy={self.strategy}", f"run.nodes={self.nodes}", f"run.spares={self.spares}",
               f"run.standbys={random.choice((0, 1))}", f"protection.copies={min(2, self.nodes - 1)}"]
        if self.strategy == "sparse":
            run += [f"protection.window={random.choice((1, 2, 4))}"]
        if self.is_elastic:
            run += ["elastic.enabled=true", "elastic.grow_wait_seconds=0.2"]
        self.settings = (*self.bits, *run)
        self.together = random.choice((None, None, random.randrange(5, STEPS // 2)))  # about which step faults come
        self.faults = [self.draw_fault() for _ in range(random.choice((1, 2, 2, 3, 4, 6)))]
        self.orders = [self.draw_order() for _ in range(random.choice((0, 1, 2)))]
        if random.random() < 0.15:
            self.orders.append((random.randrange(3, STEPS * 2 // 3), ("drain",)))

    def may_be_drained(self):
        """Asked to, or because a node leaves and no other can take its roles."""
        return (any(words[0] == "drain" or "--drain" in words for _, words in self.orders)
                or any('"notice_node"' in one for one in self.faults))

    def draw_fault(self):
        random = self.random
        stage, lane = random.randrange(self.stages), random.randrange(self.lanes)
        step = random.randrange(3, STEPS * 2 // 3) if self.together is None else self.together + random.randrange(4)
        node = random.randrange(self.nodes)
        draws = [lambda: fault("kill_worker", stage=stage, lane=lane, step=step, point=random.choice(POINTS)),
                 lambda: fault("kill_worker", stage=stage, lane=lane, in_recovery=random.choice((1, 2)),
                               point=random.choice(RECOVERY_POINTS)),
                 lambda: fault("kill_node", node=node, step=step, point=random.choice(POINTS)),
                 lambda: fault("kill_controller", stage=stage, lane=lane, step=step, point=random.choice(POINTS)),
                 lambda: fault("stop_worker", stage=stage, lane=lane, step=step, point=random.choice(POINTS)),
                 lambda: fault("kill_leaver", stage=stage, lane=lane, point=random.choice(LEAVER_POINTS)),
                 lambda: fault("kill_joiner", stage=stage, lane=lane, point="recovery/restored"),
                 lambda: fault("corrupt_copy", stage=stage, lane=lane, step=step, point="step/forward"),
                 lambda: fault("slow_worker", stage=stage, lane=lane, step=step, factor=2)]
        if self.lanes > 1:
            other = (lane + 1) % self.lanes
            draws += [lambda: fault("cut_connection", stage=stage, lane=lane, other_stage=stage, other_lane=other, step=step)]
        if self.is_elastic or self.spares > 0:
            draws += [lambda: fault("lose_node", node=node, step=step),
                      lambda: fault("lose_node", node=node, step=step) +
                      fault("return_node", node=node, step=step + random.randrange(10, 40)),
                      lambda: fault("notice_node", node=node, step=step, seconds=random.choice((0.3, 2)))]
        return random.choice(draws)()

    def draw_order(self):
        """A step, and what the job is asked then: the command, and its options."""
        role = self.random.choice(roles_of(self.stages, self.lanes))
        words = self.random.choice((("--role", role), ("--drain", str(self.random.randrange(self.nodes)))))
        return self.random.randrange(3, STEPS * 2 // 3), ("move", *words)

    def __str__(self):
        return "\n".join([" ".join(self.settings), *self.faults, *map(str, self.orders)])


def give(orders, run, out):
    """Each when its step is done, whatever is answered; until the run is over."""
    for step, (command, *words) in sorted(orders):
        with contextlib.suppress(AssertionError):
            run.wait_step(step)
            subprocess.run([EVERMOE, command, out, *words], capture_output=True, timeout=60, check=False)


class Mixtures(unittest.TestCase):
    def test_every_mixture_ends_exactly(self):
        for seed in seeds():
            with self.subTest(seed=seed):
                self.play(seed)

    def play(self, seed):
        mixture = Mixture(seed)
        job = Job(self, *mixture.settings)
        script = os.path.join(job.folder, "faults.toml")
        with open(script, "w") as file:
            file.write("\n".join(mixture.faults))
        with job.start(flags=["--faults", script]) as run:
            orders = threading.Thread(target=give, args=(mixture.orders, run, job.out))
            orders.start()
            try:
                run.finish()
            finally:
                if run.process.poll() is None:
                    run.process.send_signal(signal.SIGKILL)
                orders.join()
        why = f"seed {seed}: {mixture}\n{run.story()}"
        summary = run.summary
        ends = ("finished", "drained") if mixture.may_be_drained() else ("finished",)
        self.assertIn(summary["status"], ends, why)
        self.assertEqual(summary["exit_code"], 0, why)
        steps = summary["steps"]
        self.assertEqual((summary["samples_trained"], summary["samples_doubled"]), (steps * 6, 0), why)
        again = Job(self, *mixture.bits, f"train.steps={steps}", "protection.strategy=none", history_of(summary)).complete()
        self.assertEqual(again["digest"], summary["digest"], f"{summary['membership_history']}\n{why}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
