"""The rules of docs/architecture.md that a machine can check. Prints every violation; exits 1 if any.

Rules: a module includes only lower levels; torch's headers stay in the folders named for them; every
source file is in its folder's CMakeLists.txt; time, threads and files come in through their doors; no
sleeping tests; no rooms called utils, helpers or manager.
"""
import pathlib
import re
import sys

LEVELS = {
    "base": 0,
    "env": 1, "operators": 1, "tensor": 1,
    "metrics": 2, "placement": 2, "pipeline": 2, "model": 2, "corpus": 2, "faults": 2,
    "comm": 3, "config": 3, "checkpoint": 3, "upstream": 3,
    "store": 4, "dispatch": 4, "snapshot": 4,
    "export": 5, "recovery": 5,
    "train": 6, "cluster": 6,
    "sim": 7, "forecast": 7,
    "cli": 8, "python": 8,
}
# Modules of one level that may include each other all the same, with the reason.
SAME_LEVEL = {
    ("model", "operators"),
}
TORCH_FOLDERS = {"tensor", "dispatch", "train", "python"}
BANNED = [
    # (pattern, folders where it is allowed, reason)
    (r"\bstd::chrono::system_clock\b|\babsl::Now\(", {"env", "comm"}, "time comes from env/clock.h"),
    (r"\bstd::this_thread::sleep|\busleep\(|\babsl::SleepFor\(", {"env"}, "wait for a condition instead of sleeping"),
    (r"\bthrow (?!;)", {"base", "tests"}, "errors are absl::Status; only StatusError is thrown, in base/"),
    (r"\bstd::random_device\b|\bmt19937\b|\brand\(\)", {"tests", "comm"}, "random numbers are counter-based (comm: socket names)"),
]
BAD_NAMES = re.compile(r"(^|[_/])(utils?|helpers?|manager)([_./]|$)")


def sources(root):
    for path in sorted((root / "src").rglob("*")):
        if path.suffix in {".cc", ".h"}:
            yield path


def is_test(path):
    return "test" in path.stem or "fuzz" in path.stem


def check_includes(path, module, text):
    for included in re.findall(r'^#include "([^"]+)"', text, re.M):
        other = included.split("/")[0]
        if "/" not in included or other == module:
            continue
        if other not in LEVELS:
            continue  # a library's header
        if LEVELS[other] >= LEVELS[module] and (module, other) not in SAME_LEVEL:
            yield f"includes {included}: level {LEVELS[other]} is not below {module}'s level {LEVELS[module]}"
    if module not in TORCH_FOLDERS and re.search(r"#include <(torch|ATen|c10)/", text):
        yield "includes torch outside " + ", ".join(sorted(TORCH_FOLDERS))


def check_text(path, module, text):
    code = re.sub(r"//[^\n]*", "", text)
    for pattern, allowed, reason in BANNED:
        if module in allowed or ("tests" in allowed and is_test(path)):
            continue
        if re.search(pattern, code):
            yield f"{re.search(pattern, code).group(0)!r}: {reason}"


def main():
    root = pathlib.Path(sys.argv[1])
    problems = []
    for path in sources(root):
        module = path.relative_to(root / "src").parts[0]
        name = path.relative_to(root)
        text = path.read_text()
        if module not in LEVELS:
            problems.append(f"{name}: module {module} has no level in tests/tidy/tidy.py")
            continue
        found = list(check_includes(path, module, text)) + list(check_text(path, module, text))
        if BAD_NAMES.search(str(name)):
            found.append("a name that says nothing: utils, helpers, manager")
        if path.suffix == ".h" and "#pragma once" not in text:
            found.append("a header without #pragma once")
        if path.suffix == ".cc":
            # A file counts as listed by its name in any CMakeLists.txt above it.
            lists = [p / "CMakeLists.txt" for p in path.parents if (p / "CMakeLists.txt").exists() and root / "src" in p.parents]
            if not any(re.search(rf"\b{re.escape(path.stem)}\b", l.read_text()) for l in lists):
                found.append("not in its folder's CMakeLists.txt: never compiled, never run")
        problems += [f"{name}: {f}" for f in found]
    for module in LEVELS:
        if f"`{module}/`" not in (root / "docs" / "architecture.md").read_text() and (root / "src" / module).exists():
            problems.append(f"docs/architecture.md: module {module}/ is not on the map")
    print("\n".join(problems) or f"tidy: {len(list(sources(root)))} files")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
