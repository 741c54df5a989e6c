"""The random mixtures of one machine (../jobs/mixture.py) on several: nodes that are lost are machines that are switched off,
the job is hosted by a controller apart or by whichever node etcd's election makes host, and in most jobs a cable is out for
a while.

EVERMOE_SEEDS=first..last for a campaign.
"""
import os
import signal
import time
import unittest

from machines import Cluster, EVERMOE, in_namespaces
from machines_case import NOTICES
from player import Player
from job import DEADLINE_SECONDS  # noqa: E402 (machines makes it known)
from mixture import STEPS, Mixture, PlaysMixtures  # noqa: E402 (likewise)

AWAY_SECONDS = 1.0  # a machine that comes back
CABLE_SECONDS = (0.3, 2, 12)  # how long one is out: lines may break, and from 10 s on a machine is lost
OF_MACHINES = ("kill_node", "lose_node", "return_node", "notice_node", "kill_controller")  # faults that are done from outside


class MixturePlayer(Player):
    """The machine behind those of the nodes has the controller, or etcd."""

    def __init__(self, cluster, mixture):
        super().__init__(cluster, mixture.nodes + mixture.spares)
        self.mixture = mixture
        self.apart = self.count + 1
        draws = mixture.random
        self.has_store = draws.random() < 0.4
        self.events = [(one["step"], one["kind"], one) for one in mixture.faults if one["kind"] in OF_MACHINES]
        self.events += [(step, "order", words) for step, words in mixture.orders]
        for _ in range(draws.choice((0, 1, 1, 2))):
            cable = dict(node=draws.randrange(self.count), seconds=draws.choice(CABLE_SECONDS))
            self.events.append((draws.randrange(3, STEPS * 2 // 3), "cable", cable))
        self.events.sort(key=lambda event: event[0])

    def play(self):
        settings = [s for s in self.mixture.settings if not s.startswith(("run.nodes=", "run.spares="))]
        if self.has_store:
            settings += [f"control.store={self.cluster.start_etcd(self.apart)}", "control.lease_seconds=3"]
        self.began = time.monotonic()
        self.job = self.cluster.train(
            *settings, NOTICES, spares=self.mixture.spares, count=self.count, host=None if self.has_store else self.apart,
            faults=[one for one in self.mixture.faults if one["kind"] not in OF_MACHINES])
        end = self.began + DEADLINE_SECONDS
        while not self.is_over():
            assert time.monotonic() < end, "the job does not end\n" + "\n".join([*self.told, self.job.story()])
            self.do_what_is_due()
            while self.events and self.events[0][0] <= self.job.step():
                self.strike(*self.events.pop(0))
            time.sleep(0.01)
        self.end()

    def is_over(self):
        if self.job.controller is not None:
            return self.job.controller.exit_code() is not None
        return not self.due and all(node.exit_code() is not None for node in self.job.living())

    def strike(self, step, kind, what):
        self.tell(f"after step {step}: {kind} {what}")
        if kind == "order":
            return self.ask(*what)
        if kind == "kill_controller":
            return self.kill_controller()
        number = what["node"] + 1
        if kind == "cable":
            self.shut(self.lines_of(number), what["seconds"])
        elif kind == "notice_node":
            self.give_notice(number, what["seconds"])
        elif kind == "return_node":
            self.start_machine(number)
        else:
            self.kill_node(number, AWAY_SECONDS if kind == "kill_node" else 0)

    def host(self):
        """None: its machine is switched off."""
        machine = self.cluster.machines[self.job.hosting_machine()]
        return machine if machine.is_up else None

    def kill_controller(self):
        if self.host():
            self.job.kill_controller(must_live=False)

    def ask(self, command, *words):
        if "--drain" in words and self.is_last(int(words[-1]) + 1):
            return self.tell("the only machine that is left is not drained")
        if machine := self.host():
            told = self.job.folder / "asked.told"
            machine.start([EVERMOE, command, self.job.out, *words], told, told, {})

    def give_notice(self, number, seconds):
        """Its machine is taken away so long after that, if its node is still there."""
        node = self.job.nodes[number]
        if not node.machine.is_up or self.is_last(number):
            return self.tell(f"machine {number} is left as it is")
        node.machine.kill(node.pid, signal.SIGUSR1)
        self.after(seconds, lambda: node.machine.is_up and node.exit_code() is None and self.kill_node(number))


class Mixtures(PlaysMixtures, unittest.TestCase):
    def play(self, seed):
        mixture = Mixture(seed, own_disk="/tmp")
        with Cluster(self, mixture.nodes + mixture.spares + 1, seed) as cluster:
            player = MixturePlayer(cluster, mixture)
            player.play()
        job = player.job
        if os.environ.get("EVERMOE_STORIES"):
            print(*player.told, sep="\n", flush=True)
        why = "\n".join([f"seed {seed}: {mixture}", *player.told, job.story()])
        self.assertLessEqual(set(job.exit_codes.values()), {0, None}, why)
        mixture.check(self, job.summary, why)


def main():
    unittest.main(verbosity=2)


if __name__ == "__main__":
    in_namespaces(main)
