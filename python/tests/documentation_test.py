"""The examples in docstrings and examples/ do what they show."""

import contextlib
import doctest
import io
import pathlib
import runpy
import unittest

from evermoe import checkpoint, forecast, placement

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


class Documentation(unittest.TestCase):
    def test_docstrings(self):
        for module in (checkpoint, forecast, placement):
            result = doctest.testmod(module)
            self.assertGreater(result.attempted, 0)
            self.assertEqual(result.failed, 0)

    def test_examples(self):
        for example, expected in [("planner.py", "1271 s of work"), ("what_if.py", "131072")]:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                runpy.run_path(str(EXAMPLES / example), run_name="__main__")
            self.assertIn(expected, printed.getvalue())


if __name__ == "__main__":
    unittest.main()
