"""What can be done to the machines of a job while it runs, at which time; and what ends them when it is over."""
import collections
import heapq
import itertools
import signal
import time

ENDS_WITHIN_SECONDS = 30  # nodes that the job's end has reached


class Player:
    """One job on the first machines of a cluster. It begins when `job` is set."""

    def __init__(self, cluster, count):
        self.cluster = cluster
        self.count = count  # of machines with a node
        self.job = None
        self.told = []  # for people
        self.began = None
        self.due = []  # heap of (time, number, what to do then)
        self.stopped = set()  # machines
        self._numbers = itertools.count()
        self._cut = collections.Counter()  # how often a line from one machine to another is cut now

    def tell(self, text):
        self.told.append(f"{time.monotonic() - self.began:.1f} s: {text}")

    def after(self, seconds, what):
        heapq.heappush(self.due, (time.monotonic() + seconds, next(self._numbers), what))

    def do_what_is_due(self):
        while self.due and self.due[0][0] <= time.monotonic() and not self.is_over():
            heapq.heappop(self.due)[2]()

    def is_over(self):
        raise NotImplementedError

    def end(self):
        """Lines are whole and all go on; who does not hear of the end is switched off."""
        for pair in [pair for pair, times in self._cut.items() if times > 0]:
            self.cluster.heal([pair[0]], [pair[1]], both_ways=False)
        self.cluster.slow_down(delay_seconds=0.0)
        for machine in self.cluster.machines.values():
            if machine.is_up:
                machine.go_on()
        end = time.monotonic() + ENDS_WITHIN_SECONDS
        while any(node.exit_code() is None for node in self.job.living()) and time.monotonic() < end:
            time.sleep(0.05)
        for node in self.job.living():
            if node.exit_code() is None:
                self.tell(f"machine {node.machine.number} has not heard of the end")
                self.cluster.kill_machine(node.machine.number)
        self.job.finish()

    # ---- machines

    def is_last(self, number):
        """No other machine with a node is there: nobody would switch one on again."""
        others = [n for n in range(1, self.count + 1) if n != number and self.cluster.machines[n].is_up]
        return not others

    def kill_node(self, number, seconds=0):
        """Its machine is switched off; on again after so long, or never if that is 0."""
        if self.is_last(number) or not self.cluster.machines[number].is_up:
            return self.tell(f"machine {number} is left as it is")
        self.cluster.kill_machine(number)
        self.stopped.discard(number)
        if seconds > 0:
            self.after(seconds, lambda: self.start_machine(number))

    def start_machine(self, number):
        if not self.cluster.machines[number].is_up:
            self.cluster.start_machine(number)
            self.start_node(number)

    def start_node(self, number):
        if self.cluster.machines[number].is_up and not self.is_over():
            self.job.start_node(number)

    def stop_agent(self, number, seconds):
        node = self.job.nodes.get(number)
        if node is None or not node.machine.is_up or not node.machine.kill(node.pid, signal.SIGSTOP):
            return
        self.after(seconds, lambda: node.machine.is_up and node.machine.kill(node.pid, signal.SIGCONT))

    def stop_machine(self, number, seconds):
        machine = self.cluster.machines[number]
        if not machine.is_up:
            return
        machine.stop()
        self.stopped.add(number)
        self.after(seconds, lambda: self._let_go_on(machine))

    def _let_go_on(self, machine):
        if machine.is_up:
            machine.go_on()
            self.stopped.discard(machine.number)

    # ---- cables; a line is one direction between two machines

    def lines_of(self, number):
        """To and from all others."""
        others = set(self.cluster.machines) - {number}
        return [pair for other in others for pair in ((number, other), (other, number))]

    def shut(self, lines, seconds):
        for line in lines:
            self._cut[line] += 1
            self.cluster.cut([line[0]], [line[1]], both_ways=False)
        self.after(seconds, lambda: self._open(lines))

    def _open(self, lines):
        for line in lines:
            self._cut[line] -= 1
            if self._cut[line] == 0:
                self.cluster.heal([line[0]], [line[1]], both_ways=False)
