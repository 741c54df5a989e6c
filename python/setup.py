"""Builds the extension with the project's CMake. pyproject.toml has everything else.

    pip wheel python/ --no-build-isolation --no-deps

EVERMOE_BUILD_DIR: a build folder to take the built extension from; by default a fresh one is made, without torch.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class CMakeBuild(build_ext):
    def build_extension(self, extension):
        source = pathlib.Path(__file__).resolve().parent.parent
        build = pathlib.Path(os.environ.get("EVERMOE_BUILD_DIR", self.build_temp)).resolve()
        if "EVERMOE_BUILD_DIR" not in os.environ:
            subprocess.run(
                ["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DEVERMOE_TORCH=OFF",
                 "-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={sys.executable}"],
                check=True,
            )
            subprocess.run(["cmake", "--build", build, "--target", "_evermoe"], check=True)
        built = build / "python" / "evermoe" / f"_evermoe{sysconfig.get_config_var('EXT_SUFFIX')}"
        target = pathlib.Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(built, target)


setup(ext_modules=[Extension("evermoe._evermoe", sources=[])], cmdclass={"build_ext": CMakeBuild})
