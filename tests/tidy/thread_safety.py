"""Compiles what locks with clang's thread-safety analysis as an error: fields that are ABSL_GUARDED_BY a mutex are
touched only while it is held (base/mutex.h). Prints every violation; exits 1 if there are any.

  thread_safety.py SOURCE_FOLDER CLANG FLAG...
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT, CLANG, FLAGS = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
TORCH = re.compile(r'#include (<(torch|ATen|c10)/|"tensor/torch.h")')


def reachable(path, seen):
    """Every file of the project that `path` includes, directly or not."""
    for included in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M):
        other = ROOT / "src" / included
        if other.exists() and other not in seen:
            seen.add(other)
            reachable(other, seen)
    return seen


def files():
    for path in sorted((ROOT / "src").rglob("*.cc")):
        text = path.read_text()
        own = path.with_suffix(".h")
        locks = text + (own.read_text() if own.exists() else "")
        if not re.search(r"\bMutexLock\b|GUARDED_BY", locks):
            continue
        if any(TORCH.search(p.read_text()) for p in reachable(path, {path})):
            continue  # clang 14 does not compile this wheel's headers as errors-clean code
        yield path


def units():
    """What is compiled at once, because its headers take longer than itself: a module's files; tests alone."""
    of_module = {}
    for path in files():
        is_test = path.stem.endswith("_test")
        of_module.setdefault(path if is_test else path.relative_to(ROOT / "src").parts[0], []).append(path)
    return list(of_module.values())


def check(paths):
    command = [CLANG, "-std=c++20", "-fsyntax-only", "-Wno-everything", "-Werror=thread-safety",
               f"-I{ROOT / 'src'}", *FLAGS, "-x", "c++", "-"]
    source = "".join(f'#include "{path.resolve()}"\n' for path in paths)
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr


def bare_mutexes():
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in {".cc", ".h"} or path.name == "mutex.h" or "test" in path.stem:
            continue
        code = re.sub(r"//[^\n]*", "", path.read_text())
        if re.search(r"\bstd::(mutex|recursive_mutex|shared_mutex|condition_variable)\b", code):
            yield f"{path.relative_to(ROOT)}: a mutex without annotations: use base/mutex.h"


def main():
    checked = units()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [p for p in pool.map(check, checked) if p] + list(bare_mutexes())
    print("\n".join(problems) or f"thread safety: {sum(map(len, checked))} files that lock")
    sys.exit(1 if problems or not checked else 0)


if __name__ == "__main__":
    main()
