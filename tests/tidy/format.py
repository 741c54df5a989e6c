"""Is every C++ file formatted as .clang-format says?   format.py ROOT CLANG_FORMAT [--write]

Prints the places that differ and exits 1; with --write it formats the files instead.
"""
import pathlib
import subprocess
import sys


def main():
    root, clang_format = pathlib.Path(sys.argv[1]), sys.argv[2]
    files = [path for folder in ("src", "bench", "tests") for path in sorted((root / folder).rglob("*"))
             if path.suffix in {".cc", ".h", ".cu"}]
    if not files:
        sys.exit(f"no C++ files below {root}")
    mode = ["-i"] if "--write" in sys.argv[3:] else ["--dry-run", "--Werror"]
    sys.exit(subprocess.run([clang_format, "--style=file", *mode, *files]).returncode)


if __name__ == "__main__":
    main()
