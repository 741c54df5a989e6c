"""Random jobs with everything at once, and random faults that may meet: what they are, not how they are played.

    mixture = Mixture(seed)
    mixture.settings, mixture.faults, mixture.orders
"""
from elastic_test import assert_told_as_trained, history_of
from job import Job, random_of, seeds
from recovery_test import fault, roles_of

STEPS = 150
MICRO_BATCHES = 6
SMALL = (f"train.steps={STEPS}", "checkpoint.every_steps=25", "evaluate.every_steps=50", "evaluate.micro_batches=2",
         f"train.micro_batches={MICRO_BATCHES}")
STRATEGIES = ("sparse", "gradients", "dense", "peer-memory", "checkfreq", "none")
WITHOUT_COPIES = ("checkfreq", "none")
POINTS = ("step/forward", "step/backward", "step/before_verdict", "step/after_verdict", "step/updated", "capture/copied",
          "capture/sent", "copy/stored", "step/save", "evaluate/batch")
RECOVERY_POINTS = ("recovery/stopped", "recovery/plan", "recovery/opening", "recovery/restored", "catch_up/step")
LEAVER_POINTS = ("move/copying", "move/hand_over", "move/handed_over")
ORDERINGS = ("popularity", "soft", "decayed", "capacity", "ratio")
PRECISIONS = (("train.precision=bf16",), ("train.precision=bf16", "train.moments=bf16"),
              ("train.precision=fp16", "train.initial_loss_scale=16777216", "train.loss_scale_growth_steps=10"),
              ("train.precision=fp8", "train.moments=fp8"))


def entry(kind, **keys):
    return [dict(kind=kind, **keys)]


def script_of(faults):
    """As the file that `--faults` takes."""
    return "\n".join(fault(**one) for one in faults)


class PlaysMixtures:
    """Of a test case, which says how one is played."""

    def test_every_mixture_ends_exactly(self):
        for seed in seeds():
            with self.subTest(seed=seed):
                self.play(seed)


class Mixture:
    """A job (`bits`: the settings that its bits depend on), what befalls it and what is asked of it. `own_disk`: a folder on
    each machine's own disk."""

    def __init__(self, seed, own_disk):
        self.own_disk = own_disk
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
        self.bits = (*SMALL, *bits, *self.draw_arithmetic(random_of(f"arithmetic of {seed}")))
        run = [f"protection.strategy={self.strategy}", f"run.nodes={self.nodes}", f"run.spares={self.spares}",
               f"run.standbys={random.choice((0, 1))}", f"protection.copies={min(2, self.nodes - 1)}"]
        if self.strategy == "sparse":
            run += [f"protection.window={random.choice((1, 2, 4))}"]
        if self.is_elastic:
            run += ["elastic.enabled=true", "elastic.grow_wait_seconds=0.2"]
        self.settings = (*self.bits, *run, *self.draw_protection(random_of(f"protection of {seed}")))
        self.together = random.choice((None, None, random.randrange(5, STEPS // 2)))  # about which step faults come
        self.faults = [one for _ in range(random.choice((1, 2, 2, 3, 4, 6))) for one in self.draw_fault()]
        self.orders = [self.draw_order() for _ in range(random.choice((0, 1, 2)))]
        if random.random() < 0.15:
            self.orders.append((random.randrange(3, STEPS * 2 // 3), ("drain",)))

    def draw_arithmetic(self, random):
        bits = [random.choice(((), (), *PRECISIONS))]
        if self.lanes > 1 and not self.is_elastic:
            bits += [random.choice(((), (), ("parallel.expert_replicas=2",)))]
        bits += [random.choice(((), (), ("train.schedule=cosine", f"train.schedule_steps={STEPS}")))]
        return [setting for settings in bits for setting in settings]

    def draw_protection(self, random):
        """Of what changes no bit."""
        drawn = [setting for setting in ("protection.part_bytes=20000", "train.deferred_bytes=0", "train.recompute=layer")
                 if random.random() < 0.2]
        if self.strategy not in WITHOUT_COPIES and random.random() < 0.3:
            drawn += ["stragglers.action=move", f"protection.copies={min(1, self.nodes - 1)}"]
        if random.random() < 0.2:
            drawn += [f"checkpoint.local_directory={self.own_disk}/local-{{node}}", "checkpoint.local_every_steps=10"]
        if self.nodes + self.spares > 1 and random.random() < 0.2:
            drawn += ["run.racks=2", "protection.failure_domain=rack"]
        if self.strategy == "sparse" and random.random() < 0.4:
            drawn += ["protection.window_every_steps=6", f"protection.ordering={random.choice(ORDERINGS)}"]
        if self.is_elastic and random.random() < 0.3:
            drawn += [f"elastic.widths=[1,{self.lanes}]"]
        return drawn

    def may_be_drained(self):
        """Asked to, or because a node leaves and no other can take its roles."""
        return (any(words[0] == "drain" or "--drain" in words for _, words in self.orders)
                or any(one["kind"] == "notice_node" for one in self.faults))

    def draw_fault(self):
        """Entries of a fault script."""
        random = self.random
        role = dict(stage=random.randrange(self.stages), lane=random.randrange(self.lanes))
        step = random.randrange(3, STEPS * 2 // 3) if self.together is None else self.together + random.randrange(4)
        node = random.randrange(self.nodes)
        draws = [lambda: entry("kill_worker", **role, step=step, point=random.choice(POINTS)),
                 lambda: entry("kill_worker", **role, in_recovery=random.choice((1, 2)), point=random.choice(RECOVERY_POINTS)),
                 lambda: entry("kill_node", node=node, step=step, point=random.choice(POINTS)),
                 lambda: entry("kill_controller", **role, step=step, point=random.choice(POINTS)),
                 lambda: entry("stop_worker", **role, step=step, point=random.choice(POINTS)),
                 lambda: entry("kill_leaver", **role, point=random.choice(LEAVER_POINTS)),
                 lambda: entry("kill_joiner", **role, point="recovery/restored"),
                 lambda: entry("corrupt_copy", **role, step=step, point="step/forward"),
                 lambda: entry("slow_worker", **role, step=step, factor=2)]
        if self.lanes > 1:
            other = dict(other_stage=role["stage"], other_lane=(role["lane"] + 1) % self.lanes)
            draws += [lambda: entry("cut_connection", **role, **other, step=step)]
        if self.is_elastic or self.spares > 0:
            draws += [lambda: entry("lose_node", node=node, step=step),
                      lambda: entry("lose_node", node=node, step=step) +
                      entry("return_node", node=node, step=step + random.randrange(10, 40)),
                      lambda: entry("notice_node", node=node, step=step, seconds=random.choice((0.3, 2)))]
        return random.choice(draws)()

    def draw_order(self):
        """A step, and what the job is asked then: the command, and its options."""
        role = self.random.choice(roles_of(self.stages, self.lanes))
        words = self.random.choice((("--role", role), ("--drain", str(self.random.randrange(self.nodes)))))
        return self.random.randrange(3, STEPS * 2 // 3), ("move", *words)

    def __str__(self):
        return "\n".join([" ".join(self.settings), *map(str, self.faults), *map(str, self.orders)])

    def check(self, test, summary, why):
        """The job has ended, with the bits of one in which nothing happens and whose lanes train and rest as the summary
        says they did."""
        ends = ("finished", "drained") if self.may_be_drained() else ("finished",)
        test.assertIn(summary["status"], ends, why)
        steps = summary["steps"]
        samples = (summary["samples_trained"], summary["samples_doubled"])
        test.assertEqual(samples, (steps * MICRO_BATCHES, 0), why)
        again = Job(test, *self.bits, f"train.steps={steps}", "protection.strategy=none", history_of(summary)).complete()
        test.assertEqual(again["digest"], summary["digest"], f"{summary['membership_history']}\n{why}")
        if self.is_elastic:
            assert_told_as_trained(test, summary, why)
