"""The type hints hold: mypy --strict for the package and for a caller, and the stub against the extension.

Not part of what unittest discovers: it needs mypy (requirements-check.txt).
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import evermoe

PACKAGE = pathlib.Path(evermoe.__file__).parent

# The names that callers rely on, with numpy in and out.
CALLER = """
import numpy as np
from numpy.typing import NDArray

from evermoe import checkpoint, forecast, placement

replicas: NDArray[np.int64] = placement.allocate(np.array([3, 5]), 2, 2, 1)
nodes: list[list[int]] = placement.place(replicas, 2, 2, method="mro_q")
share: float = placement.survival(nodes, 1)
counts: NDArray[np.int64] = placement.dispatch(np.array([[4, 1]]), np.array([[1, 1]]))
window: list[tuple[int, int]] = checkpoint.minimal_window(np.array([6, 6]), [1, 1], 14)
chosen: list[list[int]] = checkpoint.select_experts(1, np.array([0, 1]))
seconds: float = forecast.optimal_interval(120, 7593.75, restart_s=0, method="exact")
moved: list[placement.Transfer] = placement.migration([[0], []], nodes, keeps_nodes=True).transfers
decided: str = placement.decide_rebalance(
    1, placement.RebalanceState(), slowdown_now=placement.slowdown(nodes, [3, 5]), slowdown_after=1, balanced_s=1, migration_s=1
).reason
exposed: int = checkpoint.LostTokens(layers=1, experts=2).exposed()
doubled: checkpoint.DynamicK = checkpoint.k_after_fault(checkpoint.DynamicK(k=1), 5, experts=8, lost_tokens_max=9)[0]
tiers: forecast.TierPlan = forecast.tier_intervals([forecast.Tier("a", 1, 1, 1)], [forecast.Failure("f", 100, "a")])
"""
WRONG = CALLER + 'placement.place(replicas, 2, 2, method="best")\n'


class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name  # where mypy runs and keeps what it knows of numpy

    def run_module(self, *arguments):
        done = subprocess.run([sys.executable, "-m", *arguments], cwd=self.folder, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def checked(self, text):
        caller = pathlib.Path(self.folder) / "caller.py"
        caller.write_text(text)
        return self.run_module("mypy", "--strict", str(caller))

    def test_the_package(self):
        code, said = self.run_module("mypy", "--strict", "-p", "evermoe")
        self.assertEqual(code, 0, said)

    def test_a_caller(self):
        code, said = self.checked(CALLER)
        self.assertEqual(code, 0, said)
        code, said = self.checked(WRONG)
        self.assertEqual((code, "arg-type" in said), (1, True), said)

    def test_the_stub_is_that_of_the_extension(self):
        # pybind11's classes have a metaclass of its own, which no stub can name; their methods are compared.
        allowed = pathlib.Path(self.folder) / "allowed.txt"
        allowed.write_text("evermoe._evermoe.LostTokens\n")
        code, said = self.run_module("mypy.stubtest", "evermoe._evermoe", "--allowlist", str(allowed))
        self.assertEqual(code, 0, said)


if __name__ == "__main__":
    unittest.main()
