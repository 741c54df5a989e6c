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
    "env": 1, "model": 1, "tensor": 1,
    "metrics": 2, "data": 2, "faults": 2, "parallel": 2, "comm": 2, "protection": 2,
    "experts": 3, "checkpoint": 3,
    "config": 4, "recovery": 4,
    "export": 5, "train": 5, "control": 5,
    "planner": 6, "sim": 6,
    "worker": 7, "cli": 7, "python": 7,
}
TORCH_FOLDERS = {"tensor", "train", "worker", "python"}
BANNED = [
    # (pattern, folders where it is allowed, reason)
    (r"\bstd::chrono::system_clock\b|\babsl::Now\(", {"env", "comm"}, "time comes from env/clock.h"),
    (r"\bstd::this_thread::sleep|\busleep\(|\babsl::SleepFor\(", {"env"}, "wait for a condition instead of sleeping"),
    (r"\bthrow (?!;)", {"base", "tests"}, "errors are absl::Status; only StatusError is thrown, in base/"),
    (r"\bstd::random_device\b|\bmt19937\b|\brand\(\)", {"tests", "comm"}, "random numbers are counter-based (comm: socket names)"),
]
FILES_MAX = 40  # of one folder: more than that has rooms that nobody has named
CODE_COLUMNS_MAX = 100
TEXT_COLUMNS_MAX = 120
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
        if LEVELS[other] >= LEVELS[module]:
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


def check_folders(root):
    for folder in sorted({path.parent for path in sources(root)}):
        files = [path for path in folder.iterdir() if path.is_file()]
        if len(files) > FILES_MAX:
            yield f"{folder.relative_to(root)}: {len(files)} files; a folder has at most {FILES_MAX}"


def is_unbreakable(line):
    """A string or an include that is one long word, or an address."""
    return re.search(r'#include|https?://|"[^" ]{40,}', line)


def check_columns(root):
    for path in sources(root):
        is_raw = False  # inside R"(...)", whose lines are somebody else's text
        for number, line in enumerate(path.read_text().splitlines(), 1):
            is_raw |= 'R"' in line
            if len(line) > CODE_COLUMNS_MAX and not is_raw and not is_unbreakable(line):
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns; clang-format wraps at {CODE_COLUMNS_MAX}"
            is_raw &= ')"' not in line
    for path in [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]:
        text = path.read_text()
        is_code = "<!-- Written by" in text[:500]  # pages that a test writes are wrapped by nobody
        for number, line in enumerate(text.splitlines(), 1):
            is_code ^= line.startswith("```")
            if len(line) > TEXT_COLUMNS_MAX and not is_code and not line.startswith(("|", "![", "[")):
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns; texts wrap at {TEXT_COLUMNS_MAX}"


def main():
    root = pathlib.Path(sys.argv[1])
    problems = list(check_folders(root)) + list(check_columns(root))
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
