"""The examples in docstrings and examples/planner.py do what they show."""

import contextlib
import doctest
import io
import pathlib
import runpy
import unittest

from evermoe import checkpoint, forecast, placement

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "planner.py"


class Documentation(unittest.TestCase):
    def test_docstrings(self):
        for module in (checkpoint, forecast, placement):
            result = doctest.testmod(module)
            self.assertGreater(result.attempted, 0)
            self.assertEqual(result.failed, 0)

    def test_example(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(EXAMPLE), run_name="__main__")
        self.assertIn("1271 s of work", printed.getvalue())


if __name__ == "__main__":
    unittest.main()
