"""The programs as a user has them.

What they link and load, how they find each other, what they refuse.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "jobs"), str(ROOT / "bench" / "control")]
from job import CONFIG, ENDLESS, EVERMOE, Job, command, wait_for  # noqa: E402
from start import control_plane  # noqa: E402

BUILD = os.path.dirname(EVERMOE)
WORKER = os.path.join(BUILD, "evermoe-worker")
# What only computing processes need. A control plane that maps it is large and slow to start.
HEAVY = re.compile(r"libtorch|libc10|libuc[pstm]\.|libmkl|libgomp")


def program(*command, **options):
    """Runs a program to its end: (exit code, stdout, lines of stderr)."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120,
                          **options)
    return done.returncode, done.stdout, done.stderr.splitlines()


def maps_of(pid):
    return pathlib.Path(f"/proc/{pid}/maps").read_text()


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="evermoe-program-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"

    def refusal(self, *command, worker=None, **options):
        """The one line of a command that ends with exit code 2 and prints nothing else."""
        environment = {**os.environ, "EVERMOE_WORKER": str(worker)} if worker else None
        code, out, error = program(*command, env=environment, **options)
        self.assertEqual((code, out, len(error)), (2, "", 1), error)
        return error[0]


class ControlPlane(Scratch):
    def test_evermoe_links_nothing_that_computes(self):
        libraries = program("ldd", EVERMOE)[1]
        self.assertIn("libgrpc", libraries)
        self.assertEqual(HEAVY.findall(libraries), [])

    def test_a_live_controller_and_agent_are_small(self):
        sizes = [self.sizes_of_control_plane(start) for start in range(3)]
        # The kernel maps pages around those that are needed: how many, differs by 3 % from start to start.
        for least in map(min, zip(*sizes)):
            self.assertLess(least, 20_000, "kB")

    def sizes_of_control_plane(self, start):
        controller, agent = control_plane(EVERMOE, self.folder, start)
        with controller, agent() as agent:
            sizes = []
            for started in controller, agent:
                maps = maps_of(started.process.pid)
                self.assertIn("evermoe", maps)
                self.assertEqual(HEAVY.findall(maps), [])
                # Instrumented programs are larger.
                sizes.append(0 if re.search(r"lib[atub]+san", maps) else started.facts()["Rss"])
        return sizes


class Output(Scratch):
    """Tried as somebody who may not write: root may write everywhere."""
    def test_a_folder_that_cannot_be_written_is_bad_input(self):
        somebody = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
        there = self.folder / "there"
        there.mkdir()
        there.chmod(0o555)
        self.folder.chmod(0o555)
        self.addCleanup(self.folder.chmod, 0o755)
        for out in there, self.folder / "new":
            line = self.refusal(EVERMOE, "run", CONFIG, "--out", out, worker="/bin/true", **somebody)
            self.assertRegex(line, f"^evermoe: --out: found {out}, which cannot be written: .*, "
                                   "allowed: a folder where you may create files$")


class Room(Scratch):
    def test_a_job_that_the_machine_cannot_carry_is_refused_with_the_arithmetic(self):
        too_large = ["--nodes", "64", "--set", "model.preset=mixtral-8x7b",
                     "--set", "model.layers=320", "--set", "protection.strategy=none"]
        line = self.refusal(EVERMOE, "run", CONFIG, *too_large, "--out", self.out, worker="/bin/true")
        self.assertRegex(line, r"^evermoe: too large for this machine: run.nodes \+ run.spares = "
                               r"64 agents, 1 controller and 4 workers need at least 65 x 2 MiB \+ "
                               r"4 x 80 MiB \+ \d+\.\d GB for the model = \d+\.\d GB, allowed: the "
                               r"\d+\.\d GB of memory that are available$")
        self.assertFalse(self.out.exists())
        line = self.refusal(EVERMOE, "run", CONFIG, "--nodes", "4097", "--out", self.out)
        self.assertIn("--nodes", line)


class WorkerProgram(Scratch):
    def test_a_missing_one_is_named_before_anything_starts(self):
        none = self.folder / "none"
        line = self.refusal(EVERMOE, "run", CONFIG, "--out", self.out, worker=none)
        self.assertEqual(line, f"evermoe: EVERMOE_WORKER: found {none}, which is no program, "
                               "allowed: the path of evermoe-worker")
        alone = self.folder / "evermoe"
        alone.write_bytes(pathlib.Path(EVERMOE).read_bytes())
        alone.chmod(0o755)
        line = self.refusal(alone, "run", CONFIG, "--out", self.out)
        self.assertIn(f"found neither {self.folder}/evermoe-worker nor ", line)
        line = self.refusal(alone, "node", CONFIG, "--out", self.out, "--node", "0", "--nodes", "1")
        self.assertIn("the program of the workers is missing", line)
        self.assertFalse(self.out.exists())

    def test_one_of_another_build_is_refused_with_both(self):
        builds = [program(p, "--version")[1].split()[1] for p in (EVERMOE, WORKER)]
        self.assertEqual(builds[0], builds[1])
        says = f"evermoe is of build 0.0.1-other, evermoe-worker of build {builds[1]}"
        # A worker of another build ends the job; it is not started again and again.
        other = self.folder / "other"
        other.write_text('#!/bin/sh\n[ "$2" = --build ] || exit 9\nshift 3\n'
                         f'exec {WORKER} train --build 0.0.1-other "$@"\n')
        other.chmod(0o755)
        code, _, error = program(EVERMOE, "run", CONFIG, "--worker", other, "--out", self.out,
                                 "--quiet")
        self.assertEqual(code, 2, error)
        self.assertIn(says, error[-1])

    def test_its_kernels_run_with_whatever_is_left_of_the_cpu(self):
        for capability in ("DEFAULT", "AVX2"):
            with self.subTest(capability=capability):
                lowered = {**os.environ, "ATEN_CPU_CAPABILITY": capability.lower()}
                code, said, error = program(WORKER, "arithmetic", env=lowered)
                self.assertEqual(code, 0, error)
                self.assertIn(f"cpu_capability={capability}\n", said)


class Summary(Scratch):
    def fields(self, value, name=""):
        """Names of everything in a JSON value: "a", "a.b", "a[].b"."""
        if isinstance(value, dict):
            for key, inner in value.items():
                path = f"{name}.{key}" if name else key
                yield path
                yield from self.fields(inner, path)
        elif isinstance(value, list):
            for inner in value:
                yield from self.fields(inner, name + "[]")

    def test_every_field_is_documented(self):
        moving = ("experts.replicas=by-load", "experts.rebalance_every_steps=4", "experts.rebalance_gain=1.01",
                  "model.routing=synthetic", "model.routing_skew=0.3")
        watching = ("stragglers.slower_than=1.5", "stragglers.for_steps=4")
        job = Job(self, *ENDLESS, "run.nodes=2", "run.spares=1", *moving, *watching)
        slow = '[[fault]]\nkind = "slow_worker"\nstage = 0\nlane = 0\nfactor = 8\nstep = 2\n'
        with job.start(faults=[slow]) as run:
            run.kill("1.0", at_step=8)
            run.wait_step(12)
            self.assertEqual(command("move", job.out, "--role", "0.1")[0], 0)
            wait_for(lambda: "moved role 0.1" in run.story() or run.process.poll() is not None, run.story)
            wait_for(lambda: "is a straggler" in run.story() or run.process.poll() is not None, run.story)
            os.kill(run.process.pid, signal.SIGINT)
        self.assertEqual(run.summary.pop("exit_code"), 0, run.story())
        self.assertEqual(len(run.summary["failures"]), 1, run.story())
        page = (ROOT / "docs" / "run-summary.md").read_text()
        # A cable that is slow needs machines: tests/machines/slow_links_test.py.
        documented = [name for name in re.findall(r"^\| `([^`]+)` \|", page, re.M) if not name.startswith("slow_links[]")]
        self.assertEqual(sorted(documented), sorted(set(self.fields(run.summary))))


class Installed(Scratch):
    def setUp(self):
        super().setUp()
        self.prefix = self.folder / "prefix"
        code, _, error = program("cmake", "--install", BUILD, "--prefix", self.prefix)
        self.assertEqual(code, 0, error)

    def test_it_trains_without_the_build_folder(self):
        bin_folder = self.prefix / "bin"
        for name in "evermoe", "evermoe-worker":
            libraries = program("ldd", bin_folder / name)[1]
            self.assertNotIn("not found", libraries)
            self.assertNotIn(BUILD + "/", libraries)
        config = self.prefix / "share/evermoe/configs/tiny.toml"
        job = Job(self, "train.steps=12", "evaluate.micro_batches=1", config=str(config))
        with job.start(program=bin_folder / "evermoe") as run:
            run.wait_step(3)
            control = json.loads((run.out / "control.json").read_text())
            for role, pid in {**control, **run.workers()}.items():
                maps = maps_of(pid)
                self.assertIn(f"{bin_folder}/evermoe", maps, role)
                self.assertNotIn(BUILD + "/", maps, role)
        self.assertEqual((run.summary["status"], run.summary["exit_code"]), ("finished", 0),
                         run.story())

    def test_documents_and_licence_are_there(self):
        for name in "README.md", "LICENSE", "docs/run-summary.md":
            self.assertTrue((self.prefix / "share/doc/evermoe" / name).is_file(), name)

    def test_the_examples_can_be_run(self):
        for name in "lab/lab.sh", "slurm/requeue.sh":
            self.assertTrue(os.access(self.prefix / "share/evermoe/examples" / name, os.X_OK), name)

    def test_the_python_package_is_there_if_it_is_built(self):
        packages = list(self.prefix.glob("lib*/**/site-packages"))
        if not list((pathlib.Path(BUILD) / "python" / "evermoe").glob("_evermoe*.so")):
            self.assertEqual(packages, [])
            return
        code, out, error = program(ROOT / ".venv/bin/python", "-c",
                                   "import evermoe; print(evermoe.__file__)",
                                   env={"PYTHONPATH": str(packages[0])})
        self.assertEqual((code, out.strip()), (0, f"{packages[0]}/evermoe/__init__.py"), error)


if __name__ == "__main__":
    unittest.main()
