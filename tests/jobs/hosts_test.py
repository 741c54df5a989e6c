"""Jobs whose host dies, with or without its machine: another one takes over, what lives goes on, with the same bits."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from job import (CONFIG, DEADLINE_SECONDS, ENDLESS, EVERMOE, Run, Undisturbed, assert_drained, free_port, random_of,
                 seeds, wait_for)

SMALL = ("train.steps=60", "checkpoint.every_steps=12", "evaluate.every_steps=30", "evaluate.micro_batches=2")
SELDOM_SAVED = (*ENDLESS, "checkpoint.every_steps=100", "evaluate.every_steps=100")


class Cluster(Run):
    """Processes of one job, each a "machine" of its own: a process group. A context, which ends what is left."""

    def __init__(self, test, count, *settings, spares=1, flags=()):
        folder = tempfile.mkdtemp(prefix="evermoe-job-")
        test.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.out = pathlib.Path(folder, "out")
        self.log = open(pathlib.Path(folder, "log"), "a+")
        self.words = [word for s in (*SMALL, *settings) for word in ("--set", s)]
        self.count, self.spares, self.flags = count, spares, list(flags)
        self.address = f"127.0.0.1:{free_port()}"
        self.nodes = {}
        self.started = []
        self.summary = None

    def start(self, *words):
        process = subprocess.Popen(
            [EVERMOE, *words, "--out", str(self.out), "--nodes", str(self.count), "--spares", str(self.spares), "--json"],
            stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True)
        self.started.append(process)
        return process

    def start_node(self, node, *flags):
        self.nodes[node] = self.start("node", CONFIG, *self.words, "--node", str(node), "--join", self.address,
                                      *(flags or self.flags))
        return self.nodes[node]

    def start_controller(self):
        return self.start("controller", CONFIG, *self.words, "--listen", self.address)

    def host_apart(self):
        """A controller that has the job. Of this one and node 0, which want it at once, the one that was quicker gives way;
        an operator starts it again."""
        host = self.start_controller()

        def has_begun():
            nonlocal host
            if host.poll() is not None:
                assert host.returncode == 0, self.story()
                host = self.start_controller()
            return self.is_host(host)
        wait_for(has_begun, lambda: "the host apart\n" + self.whole_story())
        return host

    def start_all(self):
        for node in range(self.count):
            self.start_node(node)
        return self

    def is_host(self, process):
        """Whether it has the newest term."""
        terms = self.out / "terms"
        newest = max((name for name in os.listdir(terms) if name.isdigit()), default=None)
        return newest is not None and os.readlink(terms / newest).startswith(f"process {process.pid} on ")

    def is_answered(self):
        host, port = self.address.split(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def drain(self):
        """As soon as a controller answers where the folder says that there is one."""
        wait_for(lambda: subprocess.run([EVERMOE, "drain", str(self.out)], capture_output=True).returncode == 0,
                 lambda: "a controller that drains the job\n" + self.whole_story())

    def lose(self, process):
        """The machine and all that runs on it."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def pids_on(self, node):
        """Role to process, of the workers in the process group of a node."""
        group = self.nodes[node].pid
        return {role: pid for role, pid in self.workers().items() if os.path.exists(f"/proc/{pid}") and os.getpgid(pid) == group}

    def whole_story(self):
        return pathlib.Path(self.log.name).read_text()

    def wait_step(self, step):
        wait_for(lambda: self.step() >= step or all(p.poll() is not None for p in self.started), f"step {step}")
        assert self.step() >= step, f"the job ended before step {step}\n" + self.story()

    def summary_of(self, process):
        try:
            out, _ = process.communicate(timeout=DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError("a process did not end\n" + self.whole_story()) from None
        return json.loads(out.strip().splitlines()[-1]) if out.strip() else None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in self.started:
            if kind is None and process.poll() is None:
                try:
                    process.wait(timeout=DEADLINE_SECONDS)
                except subprocess.TimeoutExpired:
                    kind = process
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()
        self.log.close()
        assert kind is None or isinstance(kind, type), "a process did not end\n" + self.story()


class Hosts(unittest.TestCase):
    def digest(self, steps=60):
        return Undisturbed.digest(self, *SMALL, f"train.steps={steps}")

    def assert_done(self, cluster, summary):
        self.assertIsNotNone(summary, cluster.story())
        self.assertEqual(summary["status"], "finished", cluster.story())
        self.assertEqual(summary["digest"], self.digest(), cluster.story())

    def test_the_machine_of_the_host_dies_and_a_new_node_0_takes_over(self):
        for seed in seeds():
            with self.subTest(seed=seed), Cluster(self, 3).start_all() as cluster:
                cluster.wait_step(random_of(seed).randrange(2, 30))
                pids = cluster.pids_on(1)
                self.assertEqual(len(pids), 2, cluster.story())
                cluster.lose(cluster.nodes[0])
                summary = cluster.summary_of(cluster.start_node(0))
                self.assert_done(cluster, summary)
                self.assertIn("takes the job over", cluster.story())
                for failure in summary["failures"]:
                    self.assertFalse(set(failure["roles"]) & set(pids), "a worker of the other machine was lost")
                    self.assertFalse(failure["restarted_all"])

    def test_two_processes_for_one_node(self):
        with Cluster(self, 2, *SELDOM_SAVED, spares=0) as cluster:
            cluster.start_all()
            cluster.wait_step(8)
            before = cluster.workers()
            first, second = cluster.nodes[1], cluster.start_node(1)
            self.assertEqual(second.wait(timeout=DEADLINE_SECONDS), 2, cluster.whole_story())
            self.assertIn(f"node 1 of this job runs already: process {first.pid} on ", cluster.whole_story())
            self.assertEqual(cluster.workers(), before, cluster.whole_story())
            cluster.drain()
            summary = cluster.summary_of(cluster.nodes[0])
            self.assertEqual(first.wait(timeout=DEADLINE_SECONDS), 0, cluster.whole_story())
        self.assertEqual(summary["failures"], [], cluster.whole_story())

    def test_a_host_apart_dies_and_costs_nothing(self):
        with Cluster(self, 2, *SELDOM_SAVED, "checkpoint.every_steps=100000", spares=0) as cluster:
            host = cluster.start_controller()
            wait_for(cluster.is_answered, "the controller")
            cluster.start_all()
            cluster.wait_step(8)
            before = cluster.workers()
            cluster.lose(host)
            cluster.wait_step(cluster.step() + 2)
            second = cluster.host_apart()
            wait_for(lambda: cluster.workers() == before, "the same workers under it")
            # The first one was lost; the second one is alive and has to give way, whatever the newest checkpoint is like
            # at that moment: others write it.
            newest = cluster.out / "checkpoints" / "step-00000001"
            newest.mkdir(parents=True)
            (newest / "manifest.json").write_text("{}")
            newest.with_name("latest").symlink_to(newest.name)
            third = cluster.start_controller()
            second.wait(timeout=DEADLINE_SECONDS)
            self.assertEqual(second.returncode, 0, cluster.story())
            self.assertIn("which has the job now", cluster.story())
            wait_for(lambda: cluster.workers() == before, "the same workers under the third\n" + cluster.story())
            cluster.drain()
            # Again node 0 may have been quicker.
            told = [summary for host in (third, cluster.nodes[0]) if (summary := cluster.summary_of(host))]
            self.assertEqual([summary["status"] for summary in told], ["drained"], cluster.story())
            summary = told[0]
            # Of controllers that wanted the same address at the same moment.
            self.assertLessEqual({role for f in summary["failures"] for role in f["roles"]}, {"controller"}, cluster.story())
            self.assertEqual(sum(f["recomputed_steps"] for f in summary["failures"]), 0, cluster.story())
            self.assertEqual(summary["digest"], self.digest(summary["steps"]), cluster.story())
        self.assertEqual([cluster.nodes[n].returncode for n in (0, 1)], [0, 0], cluster.story())

    def test_hosts_that_cannot_begin_leave_the_job_alone(self):
        with Cluster(self, 2, "train.steps=100000", "checkpoint.every_steps=100000", spares=0) as cluster:
            host = cluster.start_controller()
            wait_for(cluster.is_answered, "the controller")
            cluster.start_all()
            cluster.wait_step(3)
            before = cluster.workers()
            in_the_way = cluster.out / "run.probe"
            in_the_way.mkdir()
            cluster.lose(host)
            # Whoever is quicker tries first: node 0, which plays roles, or an operator's.
            wait_for(lambda: "cannot host the job now, which goes on without it" in cluster.whole_story(), "an attempt of node 0")
            self.assertEqual(cluster.start_controller().wait(timeout=DEADLINE_SECONDS), 1, cluster.story())
            in_the_way.rmdir()
            wait_for(lambda: "takes the job over" in cluster.whole_story(), "the next host")
            wait_for(lambda: cluster.workers() == before, "the same workers under it")
            cluster.wait_step(cluster.step() + 3)
            cluster.drain()
        self.assertEqual([cluster.nodes[n].returncode for n in (0, 1)], [0, 0], cluster.story())

    def test_a_second_signal_ends_a_node_at_once(self):
        with Cluster(self, 2, "train.steps=100000", spares=0).start_all() as cluster:
            cluster.wait_step(3)
            stopped = cluster.workers().values()
            for pid in stopped:  # so that the first one is not done before the second
                os.kill(pid, signal.SIGSTOP)
            for node in (1, 0):
                cluster.nodes[node].send_signal(signal.SIGINT)
            wait_for(lambda: cluster.whole_story().count("signal 2\n") >= 2, "the first")
            time.sleep(1.2)  # a second one soon after the first is the same
            for node in (1, 0):
                cluster.nodes[node].send_signal(signal.SIGINT)
        self.assertEqual([cluster.nodes[n].returncode for n in (0, 1)], [130, 130], cluster.story())

    def test_a_host_that_comes_as_the_job_ends_ends_with_it(self):
        with Cluster(self, 2, "train.steps=100000", spares=0) as cluster:
            first = cluster.start_controller()
            wait_for(cluster.is_answered, "the controller")
            cluster.start_all()
            cluster.wait_step(3)
            # It does not hear how the job ends, and then sees its own controller's end first.
            os.kill(first.pid, signal.SIGSTOP)
            second = cluster.start_controller()
            wait_for(lambda: "takes the job over" in cluster.story(), "the second host")
            subprocess.run([EVERMOE, "drain", str(cluster.out)], check=True, stdout=subprocess.DEVNULL)
            for node in cluster.nodes.values():
                node.wait(timeout=DEADLINE_SECONDS)
            summary = cluster.summary_of(second)
            self.assertEqual(summary["status"], "drained", cluster.story())
            wait_for(lambda: self.has_no_child(first), "the end of the first controller")
            os.kill(first.pid, signal.SIGCONT)
        self.assertEqual([p.returncode for p in cluster.started], [0, 0, 0, 0], cluster.story())

    def test_a_host_that_stood_still_at_the_end_ends_as_the_job_did(self):
        with Cluster(self, 2, "train.steps=100000", spares=0) as cluster:
            host = cluster.start_controller()
            wait_for(cluster.is_answered, "the controller")
            cluster.start_all()
            cluster.wait_step(3)
            os.kill(host.pid, signal.SIGSTOP)
            subprocess.run([EVERMOE, "drain", str(cluster.out)], check=True, stdout=subprocess.DEVNULL)
            wait_for(lambda: self.has_no_child(host), "the end of the controller")
            self.assertEqual(os.readlink(cluster.out / "terms" / "00000001.end"), "drained", "another host could not know")
            os.kill(host.pid, signal.SIGCONT)
            self.assertEqual(cluster.summary_of(host)["status"], "drained", cluster.story())
        self.assertEqual([p.returncode for p in cluster.started], [0, 0, 0], cluster.story())

    def has_no_child(self, process):
        """None that runs: what has ended stays as long as its parent is stopped."""
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return all(pathlib.Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z" for child in children)

    def test_another_job_in_the_folder_ends_the_first(self):
        # It would be done before the other one comes, or have saved a later step than that one wants.
        with Cluster(self, 2, "train.steps=2000", "checkpoint.every_steps=2000", spares=0).start_all() as cluster:
            cluster.wait_step(6)
            self.assertEqual([name for name in os.listdir(cluster.out / "terms") if name.isdigit()], ["00000001"])
            first = dict(cluster.nodes)
            cluster.words += ["--set", "train.steps=20"]
            cluster.address = f"127.0.0.1:{free_port()}"
            cluster.start_all()
            for process in first.values():
                process.wait(timeout=DEADLINE_SECONDS)
            summary = cluster.summary_of(cluster.nodes[0])
            self.assertEqual((summary["status"], summary["steps"]), ("finished", 20), cluster.story())
        self.assertEqual([first[n].returncode for n in (0, 1)], [4, 4], cluster.story())


class Etcd:
    """Real servers of one cluster on loopback. A context."""

    def __init__(self, test, count):
        # In memory: the job's checkpoints keep the disk busy, and a store that waits for it loses hosts their elections.
        self.folder = tempfile.mkdtemp(prefix="evermoe-etcd-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        test.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.clients = [f"127.0.0.1:{free_port()}" for _ in range(count)]
        self.peers = [f"http://127.0.0.1:{free_port()}" for _ in range(count)]
        self.servers = {}
        for member in range(count):
            self.start(member)

    def start(self, member):
        client, peer = "http://" + self.clients[member], self.peers[member]
        self.servers[member] = subprocess.Popen(
            ["etcd", "--name", f"m{member}", "--data-dir", f"{self.folder}/m{member}", "--listen-client-urls", client,
             "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--initial-cluster", ",".join(f"m{m}={url}" for m, url in enumerate(self.peers)), "--log-level", "panic"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self, member):
        self.servers[member].kill()
        self.servers[member].wait()

    def setting(self):
        return "control.store=etcd://" + ",".join(self.clients)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in self.servers:
            self.kill(member)


class Elected(unittest.TestCase):
    """With a store any node hosts, and nobody helps."""

    def started(self, etcd, *settings, spares=1):
        cluster = Cluster(self, 2 + spares, *SELDOM_SAVED, etcd.setting(), *settings, spares=spares)
        for node in range(2 + spares):
            cluster.address = f"127.0.0.1:{free_port()}"
            cluster.start_node(node, "--listen", cluster.address)
        return cluster

    def host_of(self, cluster):
        """The node whose process is the parent of the controller."""
        def look():
            try:
                pid = json.loads((cluster.out / "control.json").read_text())["controller"]
                with open(f"/proc/{pid}/stat") as stat:
                    parent = int(stat.read().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError, KeyError):
                return None
            return next(((n, p) for n, p in cluster.nodes.items() if p.pid == parent), None)
        return wait_for(look, "a host")

    def assert_drained(self, cluster, lost=()):
        cluster.drain()
        left = [process for node, process in cluster.nodes.items() if node not in lost]
        summaries = [summary for process in left if (summary := cluster.summary_of(process))]
        self.assertEqual([summary["status"] for summary in summaries], ["drained"], cluster.story())
        self.assertEqual([process.returncode for process in left], [0] * len(left), cluster.story())
        cluster.summary = summaries[0]
        assert_drained(self, cluster, *SMALL, *SELDOM_SAVED)

    def test_the_machine_of_the_host_dies_and_nobody_helps(self):
        for seed in seeds():
            with (self.subTest(seed=seed), Etcd(self, 3) as etcd,
                  self.started(etcd, "control.lease_seconds=4") as cluster):
                cluster.wait_step(random_of(seed).randrange(1, 60))
                node, process = self.host_of(cluster)
                kept = {n: cluster.pids_on(n) for n in cluster.nodes if n != node}
                cluster.lose(process)
                wait_for(lambda: "takes the job over" in cluster.story(), "the next host")
                cluster.wait_step(cluster.step() + 10)
                for survivor, pids in kept.items():
                    wait_for(lambda survivor=survivor, pids=pids: pids.items() <= cluster.pids_on(survivor).items(),
                             f"the same workers of node {survivor} under the next host\n{cluster.story()}")
                self.assert_drained(cluster, lost=[node])

    def test_the_store_is_away_and_back_and_then_the_host_is_told_to_leave(self):
        with Etcd(self, 1) as etcd, self.started(etcd, "control.lease_seconds=4") as cluster:
            cluster.wait_step(5)
            self.host_of(cluster)
            before = cluster.workers()
            etcd.kill(0)
            wait_for(lambda: "leaves the job" in cluster.story(), "the host to resign")
            cluster.wait_step(cluster.step() + 5)
            etcd.start(0)
            wait_for(lambda: "takes the job over" in cluster.story(), "the next host")
            wait_for(lambda: cluster.workers() == before, "the same workers under it")
            story = cluster.whole_story()
            began = story.index("view 1: the job begins")
            self.assertLess(story.index("this host leaves the job"),
                            story.index("no line to the controller: it is elsewhere now: \n", began),
                            "its agent stays until the host has ended\n" + story)
            # "This machine leaves soon": its roles and hosting are others' at once.
            node, process = self.host_of(cluster)
            hosts = cluster.whole_story().count("takes the job over")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=DEADLINE_SECONDS), 0, cluster.story())
            wait_for(lambda: cluster.whole_story().count("takes the job over") > hosts,
                     lambda: "the third host\n" + cluster.whole_story())
            self.assert_drained(cluster, lost=[node])

    def test_a_host_whose_term_is_taken_resigns(self):
        with Etcd(self, 1) as etcd, self.started(etcd) as cluster:
            cluster.wait_step(5)
            before = cluster.workers()
            # As by somebody who was elected before, stood still, and is gone now.
            first, second = (cluster.out / "terms" / f"0000000{n}" for n in (1, 2))
            owner = os.readlink(first)
            second.symlink_to(owner.replace(owner.split()[1], "1", 1))
            wait_for(lambda: "takes the job over" in cluster.whole_story(), lambda: "the next host\n" + cluster.whole_story())
            wait_for(lambda: cluster.workers() == before, "the same workers under it")
            cluster.wait_step(cluster.step() + 3)
            self.assert_drained(cluster)

    def test_a_node_that_missed_the_end_does_not_begin_the_job_again(self):
        with Etcd(self, 1) as etcd, self.started(etcd, spares=2) as cluster:
            cluster.wait_step(5)
            host, _ = self.host_of(cluster)
            wait_for(lambda: cluster.whole_story().count("a controller answers") >= len(cluster.nodes), "all nodes")
            spare = next(node for node in cluster.nodes if node != host and not cluster.pids_on(node))
            os.killpg(cluster.nodes[spare].pid, signal.SIGSTOP)
            subprocess.run([EVERMOE, "drain", str(cluster.out)], check=True, stdout=subprocess.DEVNULL)
            for node, process in cluster.nodes.items():
                if node != spare:
                    process.wait(timeout=DEADLINE_SECONDS)
            os.killpg(cluster.nodes[spare].pid, signal.SIGCONT)
            cluster.nodes[spare].wait(timeout=DEADLINE_SECONDS)
            self.assertEqual([p.returncode for p in cluster.nodes.values()], [0, 0, 0, 0], cluster.story())
            # By the folder, or by words of the controller that were still on the line.
            self.assertEqual(cluster.story().count("the job begins"), 1, cluster.story())
            self.assertNotIn("takes the job over", cluster.story())


if __name__ == "__main__":
    unittest.main(verbosity=2)
