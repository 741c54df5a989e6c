"""A small language for tests of jobs on several machines: namespaces with an Ethernet between them, real processes.

    def story():
        with Cluster(test, machines=3) as cluster:
            job = cluster.train("train.steps=30", spares=1)
            job.wait_step(12)
            cluster.kill_machine(2)
        job.summary["digest"]

    in_namespaces(main)

Machines are numbered from 1; node N of a job runs on machine N + 1. They share the file system but for /tmp, /run and
/dev/shm, and nothing else: host names, processes and networks are their own.
"""
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "jobs"))

from ethernet import Ethernet, plug_of  # noqa: E402
from job import CONFIG, DEADLINE_SECONDS, EVERMOE, wait_for  # noqa: E402

PORT = 7711
INIT = pathlib.Path(__file__).resolve().parent / "machine_init.py"
INSIDE = "EVERMOE_INSIDE_NAMESPACES"


def in_namespaces(main):
    """Runs main() where machines can be made: as root, or else as root of a user namespace. Nothing that it starts outlives
    it."""
    if os.environ.get(INSIDE):
        return main()
    rootless = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", *rootless, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable,
                          *sys.argv])


class Machine:
    """Namespaces of its own, and a first process that starts others."""

    def __init__(self, number, ethernet, mtu=9000, networks=1):
        self.number = number
        self.address = f"10.77.0.{number}"
        own, its = socket.socketpair()
        own.settimeout(DEADLINE_SECONDS)
        self._line = own
        with its:
            self._init = subprocess.Popen(
                ["unshare", "--net", "--pid", "--uts", "--ipc", "--mount", "--fork", "--kill-child", "--mount-proc",
                 sys.executable, str(INIT), str(number), str(its.fileno()), str(mtu), *map(str, range(networks))],
                pass_fds=[its.fileno()])
        words, taps, _, _ = socket.recv_fds(own, 16, networks)
        assert words == b"up\n" and len(taps) == networks, f"machine {number} did not come up"
        for network, tap in enumerate(taps):
            ethernet.connect(plug_of(number, network), tap)
        self._answers = own.makefile("r")
        self.is_up = True

    def ask(self, **command):
        self._line.sendall((json.dumps(command) + "\n").encode())
        return json.loads(self._answers.readline())

    def start(self, argv, out, log, environment):
        return self.ask(do="start", argv=list(map(str, argv)), out=str(out), log=str(log), environment=environment)

    def kill(self, pid, with_signal=signal.SIGKILL):
        return self.ask(do="kill", pid=pid, signal=int(with_signal))

    def exit_code_of(self, pid):
        """Of a process that start() returned; None while it lives."""
        return self.ask(do="exit code of", pid=pid)

    def run(self, words):
        """A command of the shell to its end."""
        pid = self.start(["/bin/sh", "-c", words], "/dev/null", "/dev/null", {})
        wait_for(lambda: self.exit_code_of(pid) is not None, words)
        assert self.exit_code_of(pid) == 0, words

    def fill_private_folders(self):
        """Nothing more can be written to what it does not share."""
        self.run("mount -o remount,size=64k /tmp && ! cat /dev/zero > /tmp/full")

    def empty_private_folders(self):
        self.run("rm /tmp/full")
        self.run("mount -o remount,size=64m /tmp")

    def stop(self):
        """All its processes stand still, but for the first one; go_on() lets them run again."""
        return self.ask(do="signal all", signal=int(signal.SIGSTOP))

    def go_on(self):
        return self.ask(do="signal all", signal=int(signal.SIGCONT))

    def power_off(self):
        """All its processes end at once, and nobody is told."""
        self.is_up = False
        self._init.kill()
        self._init.wait()
        self._answers.close()
        self._line.close()


class Process:
    """One `evermoe node` or `evermoe controller` on a machine."""

    def __init__(self, machine, argv, folder, environment, name=None):
        self.machine = machine
        name = name or f"node-{machine.number - 1}"
        self.out = folder / f"{name}.out"
        self.log = folder / f"{name}.log"
        self.pid = machine.start(argv, self.out, self.log, environment)

    def exit_code(self):
        """None while it runs, or if its machine is gone."""
        return self.machine.exit_code_of(self.pid) if self.machine.is_up else None


class ClusterJob:
    """A job with a node on every machine."""

    def __init__(self, cluster, folder, settings, spares, count, host, config=CONFIG):
        self.cluster = cluster
        self.config = config
        self.folder = folder
        self.out = folder / "out"
        self.settings = settings
        self.spares = spares
        self.count = count  # of nodes
        self.host = host  # the machine where nodes look for the controller; None: they agree on one
        self.controller = None  # the process of one apart, on that machine
        self.faults = None  # a script that all nodes are given
        self.nodes = {}  # by machine number
        self.summary = None
        self.exit_codes = {}  # at the end, by machine number; None: the machine is gone

    def start_node(self, machine, *settings, environment=None, flags=()):
        words = [word for s in (*self.settings, *settings) for word in ("--set", s)]
        argv = [EVERMOE, "node", self.config, *words, "--out", self.out, "--node", machine - 1, "--nodes", self.count,
                "--spares", self.spares, "--join" if self.host else "--listen",
                f"{self.cluster.machines[self.host or machine].address}:{PORT}", "--json",
                *(["--faults", self.faults] if self.faults else []), *flags]
        environment = {**self.cluster.environment, **(environment or {})}
        self.nodes[machine] = Process(self.cluster.machines[machine], argv, self.folder, environment)

    def start_controller(self, on=None):
        """On a machine of its own: where nodes look for it, or elsewhere."""
        words = [word for s in self.settings for word in ("--set", s)]
        machine = self.cluster.machines[on or self.host]
        argv = [EVERMOE, "controller", self.config, *words, "--out", self.out, "--nodes", self.count, "--spares", self.spares,
                "--listen", f"{machine.address}:{PORT}", "--json"]
        self.controller = Process(machine, argv, self.folder, {}, "controller")

    def step(self):
        """The newest committed step."""
        with contextlib.suppress(OSError, IndexError, ValueError, KeyError):
            return json.loads((self.out / "metrics.jsonl").read_text().splitlines()[-1])["step"]
        return 0

    def wait_step(self, step):
        def is_there():
            return self.step() >= step or all(node.exit_code() is not None for node in self.living())
        wait_for(is_there, lambda: f"step {step}\n{self.story()}")
        assert self.step() >= step, f"the job ended before step {step}\n{self.story()}"

    def hosting_machine(self):
        """Where the controller listens."""
        address = json.loads((self.out / "controller.json").read_text())["address"]
        return int(address.split(":")[0].split(".")[-1])

    def status(self):
        """As `evermoe status --json` tells it on the machine of the controller."""
        machine, told = self.cluster.machines[self.hosting_machine()], self.folder / "status.json"
        asked = machine.start([EVERMOE, "status", self.out, "--json"], told, "/dev/null", {})
        wait_for(lambda: machine.exit_code_of(asked) is not None, "the status")
        return json.loads(told.read_text().splitlines()[-1])

    def move(self, *words):
        """What `evermoe move --json` answers on the machine of the controller."""
        machine, told = self.cluster.machines[self.hosting_machine()], self.folder / "move.json"
        asked = machine.start([EVERMOE, "move", self.out, *words, "--json"], told, self.folder / "move.told", {})
        wait_for(lambda: machine.exit_code_of(asked) is not None, "the answer to a move")
        return json.loads(told.read_text().splitlines()[-1])

    def wait_told(self, words, count=1):
        """Until nodes have said this so often."""
        def told():
            return sum(log.read_text().count(words) for log in self.folder.glob("node-*.log"))
        wait_for(lambda: told() >= count or all(node.exit_code() is not None for node in self.living()),
                 lambda: f"{words}\n{self.story()}")
        assert told() >= count, f"the job ended before {words}\n{self.story()}"

    def workers(self):
        """Role to process number on its machine."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.out / "workers.json").read_text())
        return {}

    def machine_of(self, role):
        """The number of the machine that a role began on."""
        stage, lane = map(int, role.split("."))
        rank, world, nodes = 2 * stage + lane, 4, min(4, self.count - self.spares)
        return 1 + rank * nodes // world

    def wait_fault(self, count):
        """The number of the machine where the `count`th fault of its script was injected."""
        def injected():
            logs = self.out.glob("logs/node-*/worker-*.log")
            return sorted((line, int(log.parent.name.split("-")[1]) + 1) for log in logs
                          for line in log.read_text().splitlines() if "a rehearsed fault is injected" in line)
        return wait_for(lambda: len(injected()) >= count and injected(), lambda: f"fault {count}\n{self.story()}")[-1][1]

    def wake_worker(self, role):
        """One that a fault has stopped."""
        machine = self.cluster.machines[self.machine_of(role)]
        assert machine.kill(self.workers()[role], signal.SIGCONT), f"worker {role} is gone"

    def started_again(self):
        """Roles that had more than one process."""
        starts = collections.Counter(
            int(rank) for log in self.folder.glob("node-*.log")
            for rank in re.findall(r"worker of rank (\d+) since view", log.read_text()))
        return {f"{rank // 2}.{rank % 2}" for rank, count in starts.items() if count > 1}

    def kill_worker(self, role, must_live=True):
        """Where it began; whether it was still there."""
        pid = wait_for(lambda: self.workers().get(role), f"worker {role} in workers.json")
        machine = self.cluster.machines[self.machine_of(role)]
        was_killed = machine.is_up and machine.kill(pid)
        assert was_killed or not must_live, f"worker {role} did not live"
        return was_killed

    def kill_controller(self, must_live=True):
        """Its process; whoever hosts the job starts the next one."""
        pid = json.loads((self.out / "control.json").read_text())["controller"]
        was_killed = self.cluster.machines[self.hosting_machine()].kill(pid)
        assert was_killed or not must_live, "the controller did not live"

    def living(self):
        return [node for node in self.nodes.values() if node.machine.is_up]

    def finish(self):
        """Waits for the end of all nodes; the summary, told by the one that hosted the job at its end."""
        for node in self.living():
            wait_for(lambda node=node: node.exit_code() is not None or not node.machine.is_up,
                     lambda node=node: f"the end of machine {node.machine.number}\n{self.story()}")
        hosts = [self.controller] if self.controller else self.living()
        if self.controller:
            wait_for(lambda: self.controller.exit_code() is not None, lambda: f"the end of the controller\n{self.story()}")
        told = [process.out.read_text().strip().splitlines() for process in hosts]
        summaries = [json.loads(lines[-1]) for lines in told if lines]
        self.summary = summaries[0] if len(summaries) == 1 else {"status": f"{len(summaries)} summaries"}
        self.exit_codes = {number: node.exit_code() for number, node in self.nodes.items()}
        if os.environ.get("EVERMOE_STORIES"):
            print(self.story(), self.summary, flush=True)
        return self.summary

    def story(self):
        """What all nodes wrote."""
        parts = []
        for log in sorted(self.folder.glob("*.log")):
            parts.append(f"---- {log.name}\n" + log.read_text()[-6000:])
        return "\n".join(parts)


class Cluster:
    """Machines on one Ethernet. A context: at its end the job, if it is well, is waited for, and the machines are gone.
    Large packets (`mtu`) make it faster. `data_network`: workers have a network of their own, all else uses the first."""

    def __init__(self, test, machines, seed=1, mtu=9000, data_network=False):
        folder = tempfile.mkdtemp(prefix="evermoe-machines-", dir="/var/tmp")
        test.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.folder = pathlib.Path(folder)
        self.ethernet = Ethernet(seed)
        self.environment = {"UCX_NET_DEVICES": "eth1"} if data_network else {}  # of every node
        self.machines = {number: Machine(number, self.ethernet, mtu, 2 if data_network else 1)
                         for number in range(1, machines + 1)}
        self.job = None

    def train(self, *settings, spares=0, environments=None, begin=None, count=None, host=1, faults=(),
              config=CONFIG):
        """Starts nodes on the first `count` machines (None: all), or on those in `begin`. `environments`: more variables, by
        machine; `host`: where the controller is, None with control.store, apart if that machine has no node; `faults`: those
        of docs/recovery.md, as dicts."""
        count = len(self.machines) if count is None else count
        self.job = ClusterJob(self, self.folder, settings, spares, count, host, config)
        if faults:
            self.job.faults = self.folder / "faults.toml"
            self.job.faults.write_text("\n".join(
                "[[fault]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fault.items()) for fault in faults))
        if host is not None and host > count:
            self.job.start_controller()
        for number in range(1, count + 1) if begin is None else begin:
            self.job.start_node(number, environment=(environments or {}).get(number))
        return self.job

    def kill_machine(self, number):
        self.machines[number].power_off()
        self.ethernet.unplug(number)

    def start_etcd(self, number):
        """One etcd on a machine that has no node of the job; its address for control.store."""
        address = f"{self.machines[number].address}:2379"
        data, log = self.folder / "etcd", self.folder / "etcd.log"
        self.machines[number].start(
            [shutil.which("etcd"), "--name", "one", "--data-dir", data, "--listen-client-urls", f"http://{address}",
             "--advertise-client-urls", f"http://{address}"], log, log, {})
        return f"etcd://{address}"

    def start_machine(self, number):
        """A machine that was killed is there again, with nothing in it."""
        self.machines[number] = Machine(number, self.ethernet)

    def cut(self, some, others, both_ways=True):
        self._set_lines(some, others, both_ways, is_up=False)

    def heal(self, some, others, both_ways=True):
        self._set_lines(some, others, both_ways, is_up=True)

    def unplug_cable(self, number):
        self.cut([number], self.machines)

    def plug_cable(self, number):
        self.heal([number], self.machines)

    def unplug_data_cable(self, number):
        """Its agent is reached as before."""
        plugs = [plug_of(other, 1) for other in self.machines]
        self._set_lines([plug_of(number, 1)], plugs, both_ways=True, is_up=False)

    def slow_down(self, **fields):
        """All lines; fields of ethernet.Line."""
        self.ethernet.change(self.machines, self.machines, **fields)

    def _set_lines(self, some, others, both_ways, **fields):
        self.ethernet.change(some, others, **fields)
        if both_ways:
            self.ethernet.change(others, some, **fields)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None and self.job is not None and self.job.summary is None:
                self.job.finish()
        finally:
            for machine in self.machines.values():
                if machine.is_up:
                    machine.power_off()
            self.ethernet.close()


def try_machines():
    """Whether machines can be made here: the exit code, for CMake."""
    import unittest
    with Cluster(unittest.TestCase(), machines=2) as cluster:
        assert cluster.machines[1].start(["/bin/true"], "/dev/null", "/dev/null", {}) > 0


if __name__ == "__main__":
    in_namespaces(try_machines)
