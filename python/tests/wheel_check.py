"""The wheel holds all that the package needs: built, installed into an empty folder, and tested from there.

wheel_check.py BUILD, a build folder with the extension. Nothing is fetched and nothing is left behind.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(sys.argv.pop()).resolve()


class Wheel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONDONTWRITEBYTECODE": "1", "EVERMOE_BUILD_DIR": str(BUILD)}
        self.environment.pop("PYTHONPATH", None)

    def python(self, *arguments):
        done = subprocess.run([sys.executable, *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_built_installed_and_tested(self):
        shutil.copytree(PACKAGE, self.folder / "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "tests"))
        self.python("-m", "pip", "wheel", "./source", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", "wheels")
        (wheel,) = (self.folder / "wheels").iterdir()
        names = [name.removeprefix("evermoe/") for name in zipfile.ZipFile(wheel).namelist()]
        for name in ("__init__.py", "py.typed", "_evermoe.pyi"):
            self.assertIn(name, names)
        self.python("-m", "pip", "install", "--no-deps", "--no-index", "--target", "site", str(wheel))
        self.environment["PYTHONPATH"] = str(self.folder / "site")
        self.assertIn(str(self.folder / "site"), self.python("-c", "import evermoe._evermoe; print(evermoe._evermoe.__file__)"))
        said = self.python("-m", "unittest", "discover", "-s", str(PACKAGE / "tests"), "-p", "*_test.py")
        self.assertRegex(said, r"Ran \d\d+ tests")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
