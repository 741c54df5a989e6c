"""Schedules of `evermoe sim`, played with real processes on the machines of a test.

    schedule = schedule_of(seed)
    with Cluster(test, SchedulePlayer.machines_of(schedule)) as cluster:
        player = SchedulePlayer(cluster, schedule)
        player.play("train.steps=300")
    player.told, player.job.summary

The simulation waits for a tenth of what production waits for, so its seconds are stretched by STRETCH:

    how long                                         simulated  here
    an agent or a controller is silent until lost    1 s        10 s
    most of the agents are                           6 s        60 s
    a worker is                                      0.45 s     5 s
    no step comes until somebody is looked for       0.6 s      10 s (NOTICES, which the job is given)
    a report takes                                   0.5 s      10 s
    a line over a network may be broken              60 ms      1 s
    an envelope on a slow line takes                 0.15 s     1.5 s
    an agent waits for a controller                  30 s       5 min

A moment is a passing of a named point. The simulated one counts the passings of all ranks; here the fault is a fault
script's, of one role, at the step that lies as far in the job (STEPS) as the passing does in the simulated job; points of
recoveries are those of its first or second one. The worker that comes there does the fault to itself, or stands still
until it has been done to others.

Times count from the first process of a worker on, which takes as long to start here as all times of faults are.

Different from the simulation: agents and workers of a machine have one cable, so what cuts workers from each other cuts
their agents, too; the controller is on a machine apart and is started again where it was; and the last machine that is
there is not switched off, for nobody would switch it on again.
"""
import json
import re
import signal
import time

import machines  # noqa: F401 (makes job known)
from player import Player
from job import DEADLINE_SECONDS, command, wait_for

STAGES, LANES = 2, 2  # of tests/jobs/job.toml
STRETCH = 10
NOTICES = "run.deadline_seconds=10"
STEPS = 300
SIMULATED_SECONDS = 0.3  # times of faults are below that
MOMENTS_END = 0.6  # the share of the job's steps at which moments are: what follows needs some, too
SAVES_EVERY = 20  # steps, as the job is given
PAUSE_SECONDS = 0.04
SLOW_SECONDS = 0.15
RETURN_SECONDS = 1.0  # of a controller, here


def schedule_of(seed):
    """The shape and the faults, as `evermoe sim --schedules` prints them."""
    code, out, error = command("sim", "--seeds", f"{seed}..{seed}", "--stages", STAGES, "--lanes", LANES, "--playable",
                               "--schedules")
    assert code == 0, error
    return json.loads(out)


def moment_of(fault):
    """Keys of a fault script for when it is."""
    point = fault.get("point", "step/forward")
    share = fault["passing"] / fault["usual_passings"] if "point" in fault else fault["at_seconds"] / SIMULATED_SECONDS
    if point.startswith(("recovery/", "catch_up/")):
        return dict(in_recovery=1 if share < 0.7 else 2, point=point)
    step = 1 + int(min(share, 1.0) * MOMENTS_END * STEPS)
    if point == "step/save":
        step = SAVES_EVERY * max(1, round(step / SAVES_EVERY))
    return dict(step=step, point=point)


def scripted(fault):
    """The entry of the fault script; None if it comes by time."""
    if "point" not in fault and fault["kind"] != "cut":
        return None
    kind = {"kill worker": "kill_worker", "cut": "cut_connection"}.get(fault["kind"], "stop_worker")
    rank = fault["rank"] if fault["rank"] >= 0 else fault["passing"] % (STAGES * LANES)
    entry = dict(kind=kind, stage=rank // LANES, lane=rank % LANES, **moment_of(fault))
    if kind == "cut_connection":
        entry.update(other_stage=fault["other"] // LANES, other_lane=fault["other"] % LANES)
    return entry


def logged(entry):
    """What the log of the worker says when it is injected."""
    text = f"{entry['kind']} stage {entry['stage']} lane {entry['lane']}"
    if entry["kind"] == "cut_connection":
        text += f" to stage {entry['other_stage']} lane {entry['other_lane']}"
    text += f" at {entry['point']}"
    text += f" of step {entry['step']}" if "step" in entry else f" in recovery {entry['in_recovery']}"
    return f"a rehearsed fault is injected: {text}"


class SchedulePlayer(Player):
    """One job and its faults, from its start to its end. The machine behind those of the nodes is the controller's."""

    @staticmethod
    def machines_of(schedule):
        return schedule["shape"]["nodes"] + schedule["shape"]["spares"] + 1

    def __init__(self, cluster, schedule):
        super().__init__(cluster, self.machines_of(schedule) - 1)
        self.shape, self.faults = schedule["shape"], schedule["faults"]
        self.host = self.count + 1
        self.kinds = []  # of the faults that came
        self._timed = []  # until there are workers
        self._waiting = []  # (what its worker logs, entry, fault) of moments that have not come
        self._controller_is_due = False

    def play(self, *settings):
        late = self.shape["late_node"] + 1
        entries = [(fault, scripted(fault)) for fault in self.faults]
        self._waiting = [(logged(entry), entry, fault) for fault, entry in entries if entry]
        shape = self.shape
        self.job = self.cluster.train(
            *settings, NOTICES, f"protection.copies={shape['copies']}", f"protection.window={shape['window']}",
            f"protection.window_every_steps={shape['window_every_steps']}", spares=shape["spares"], count=self.count,
            host=self.host, begin=[n for n in range(1, self.count + 1) if n != late],
            faults=[entry for _, entry in entries if entry])
        self.began = time.monotonic()
        if late > 0:
            self.after(shape["late_seconds"] * STRETCH, lambda: self.start_node(late))
        self._timed = [fault for fault, entry in entries if entry is None]
        self._run()
        self.end()

    def _run(self):
        end = self.began + DEADLINE_SECONDS
        while not self.is_over():
            assert time.monotonic() < end, f"the job does not end\n{self.job.story()}"
            self.do_what_is_due()
            if self._timed and self._worker(0):
                for fault in self._timed:
                    self.after(fault["at_seconds"] * STRETCH, lambda fault=fault: self._strike(fault))
                self._timed = []
            self._look_for_moments()
            time.sleep(0.05)

    def is_over(self):
        return not self._controller_is_due and self.job.controller.exit_code() is not None

    # ---- moments

    def _look_for_moments(self):
        if not self._waiting:
            return
        logs = "\n".join(log.read_text() for log in self.job.out.glob("logs/node-*/worker-*.log"))
        for waiting in list(self._waiting):
            text, entry, fault = waiting
            if re.search(re.escape(text) + "$", logs, re.M):
                self._waiting.remove(waiting)
                self._strike_at(entry, fault)

    def _strike_at(self, entry, fault):
        rank = LANES * entry["stage"] + entry["lane"]
        if entry["kind"] != "stop_worker" or fault["kind"] in ("stop worker", "hang"):
            return self._note(fault)  # it has done it to itself
        if fault["kind"] != "pause":
            self._strike(fault)
            return self._wake(rank)
        self._note(fault)
        self.after(PAUSE_SECONDS * STRETCH, lambda: self._wake(rank))

    def _wake(self, rank):
        self._signal_worker(rank, signal.SIGCONT)

    # ---- workers

    def _worker(self, rank):
        """Of its newest process, which may have ended: (number of the machine, process number); None before there is one."""
        found = [(int(view), int(log.stem.split("-")[1]) + 1, int(pid)) for log in self.job.folder.glob("node-*.log")
                 for view, pid in re.findall(rf"worker of rank {rank} since view (\d+): process (\d+)", log.read_text())]
        return max(found)[1:] if found else None

    def _signal_worker(self, rank, number):
        found = self._worker(rank)
        if found is None:
            return False
        machine = self.cluster.machines[found[0]]
        # On a machine that stands still it goes on with the machine.
        if not machine.is_up or (number == signal.SIGCONT and found[0] in self.stopped):
            return False
        return machine.kill(found[1], number)

    # ---- what is done to others

    def _note(self, fault):
        self.kinds.append(fault["kind"])
        self.tell(fault["text"])

    def _strike(self, fault):
        seconds = fault["lasts_seconds"] * STRETCH
        kind, number = fault["kind"], fault["node"] + 1
        self._note(fault)
        if kind in ("kill worker", "stop worker"):
            self._signal_worker(fault["rank"], signal.SIGKILL if kind == "kill worker" else signal.SIGSTOP)
        elif kind == "kill node":
            self.kill_node(number, seconds)
        elif kind == "stop agent":
            self.stop_agent(number, seconds)
        elif kind == "stop node":
            self.stop_machine(number, seconds)
        elif kind == "stop controller":
            self.stop_machine(self.host, seconds)
        elif kind == "kill controller":
            self._kill_controller()
        elif kind == "slow the line of node":
            self._slow(self._lines_to_host(fault["node"], True, True), seconds)
        else:
            self.shut(self._lines(fault), seconds)

    def _lines(self, fault):
        """Directions between machines that are cut."""
        kind, number, peer = fault["kind"], fault["node"] + 1, fault["peer"] + 1
        both = {"cut the line of node": (True, True), "mute node": (True, False), "deafen node": (False, True)}
        if kind in both:
            return self._lines_to_host(fault["node"], *both[kind])
        if kind == "mute the workers of node":
            return [(number, peer)]
        if kind == "cut the workers of node":
            return [(number, peer), (peer, number)]
        assert kind == "unplug node", f"nobody has said how to play '{kind}'"
        return [pair for pair in self.lines_of(number) if fault["with_agent"] or self.host not in pair]

    def _lines_to_host(self, node, there, back):
        numbers = range(1, self.count + 1) if node < 0 else [node + 1]
        return ([(n, self.host) for n in numbers] if there else []) + ([(self.host, n) for n in numbers] if back else [])

    def _slow(self, lines, seconds):
        def delay(time_of_a_frame):
            for one, other in lines:
                self.cluster.ethernet.change([one], [other], delay_seconds=time_of_a_frame)
        delay(SLOW_SECONDS * STRETCH)
        self.after(seconds, lambda: delay(0.0))

    def _kill_controller(self):
        machine = self.cluster.machines[self.host]
        if self._controller_is_due or self.is_over():
            return
        self._controller_is_due = True
        machine.ask(do="signal all", signal=int(signal.SIGKILL))
        wait_for(lambda: self.job.controller.exit_code() is not None, "the end of the controller")
        self.after(RETURN_SECONDS, self._start_controller)

    def _start_controller(self):
        self.job.start_controller()
        self._controller_is_due = False
