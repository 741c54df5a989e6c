"""The rules of docs/architecture.md that a machine can check. Prints every violation; exits 1 if any.

Rules: a module includes only lower levels; torch's headers stay in the folders named for them; every
source file is in its folder's CMakeLists.txt; time, threads and files come in through their doors; no
sleeping tests; no rooms called utils, helpers or manager; files, folders and tests that pages and comments
name exist.
"""
import pathlib
import re
import subprocess
import sys

LEVELS = {
    "base": 0,
    "env": 1, "model": 1, "tensor": 1, "toml": 1,
    "metrics": 2, "data": 2, "faults": 2, "parallel": 2, "comm": 2, "protection": 2,
    "experts": 3,
    "checkpoint": 4,
    "config": 5, "recovery": 5,
    "export": 6, "train": 6, "control": 6,
    "planner": 7, "sim": 7,
    "worker": 8, "cli": 8, "python": 8,
}
TORCH_FOLDERS = {"tensor", "train", "worker"}
BANNED = [
    # (pattern, folders where it is allowed, reason)
    (r"\bstd::chrono::system_clock\b|\babsl::Now\(", {"env", "comm"}, "time comes from env/clock.h"),
    (r"\bstd::this_thread::sleep|\busleep\(|\babsl::SleepFor\(", {"env"}, "wait for a condition instead of sleeping"),
    (r"\bthrow (?!;)", {"base", "tests"}, "errors are absl::Status; only StatusError is thrown, in base/"),
    (r"\bdata_ptr\b|\bdata_ptr<", {"tensor", "tests"}, "tensors may be on a device: bytes come from tensor/host_bytes.h"),
    (r"\bstd::random_device\b|\bmt19937\b|\brand\(\)", {"tests", "comm"}, "random numbers are counter-based (comm: socket names)"),
]
FILES_MAX = 40  # of one folder: more than that has rooms that nobody has named
CODE_COLUMNS_MAX = 100
TEXT_COLUMNS_MAX = 120
BAD_NAMES = re.compile(r"(^|[_/])(utils?|helpers?|manager)([_./]|$)")


def sources(root):
    for path in sorted((root / "src").rglob("*")):
        if path.suffix in {".cc", ".h", ".cu"}:
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


def check_tops(root):
    listed = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True)
    if listed.returncode != 0:
        return  # not a checkout: nothing was committed by mistake
    for top in sorted({name.split("/")[0] for name in listed.stdout.splitlines() if "/" in name}):
        if not re.fullmatch(rf"{TOP_FOLDERS}|\.ci", top):
            yield f"{top}/: a folder that TOP_FOLDERS does not name; was it committed by mistake?"


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


PAGES = ["README.md", "CONTRIBUTING.md", "docs/**/*.md", "python/*.md"]
SOURCE_NAME = r"(?:[\w-]+/)*[\w-]+\.(?:h|cc|py)\b"
MADE_FOLDERS = {"checkpoints/", "logs/", "terms/", "libexec/evermoe/"}  # by a job, by an installation
TOP_FOLDERS = r"(?:src|bench|tests|docs|configs|scripts|examples|cmake|data|python|third_party)"


def tracked(root):
    """Files of the project by their paths, and their folders, which end in a slash."""
    tops = [root / name for name in re.findall(r"\w+", TOP_FOLDERS)]
    files = {str(path.relative_to(root)) for top in tops for path in top.rglob("*") if path.is_file()}
    files |= {path.name for path in root.iterdir() if path.is_file()}
    return files | {str(parent) + "/" for name in files for parent in pathlib.Path(name).parents}


def exists(name, tree):
    """A path from the root or from src/, or its end: pages leave out what a reader knows."""
    name = re.sub(r"^\./", "", name).replace(".*", "")  # `controller_core.*` is header and source
    pattern = "(^|/)" + re.escape(name).replace(r"\*", "[^/]*") + ("" if name.endswith("/") else r"(/?$|\.\w+$)")
    return any(re.search(pattern, path) for path in tree)


def test_names(root, tree):
    lists = "".join(path.read_text() for path in root.glob("src/**/CMakeLists.txt"))
    lists += "".join(path.read_text() for path in root.glob("tests/**/CMakeLists.txt"))
    return set(re.findall(r"(?:evermoe_test\(|NAME )(\w+_test)\b", lists)) | {pathlib.Path(name).stem for name in tree}


def check_paths(root):
    tree = tracked(root)
    tests = test_names(root, tree)
    for path in sorted({path for pattern in PAGES for path in root.glob(pattern)}):
        text = path.read_text()
        named = set(re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text))
        missing = {name for name in named if not (path.parent / name).exists()}
        missing |= set(re.findall(r"\b[a-z]\w*_test\b", text)) - tests
        fenced = re.findall(r"^```.*?^```", text, re.M | re.S)
        for quoted in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)) + fenced:
            for word in re.findall(rf"(?<![\w./-])(?:{TOP_FOLDERS}/[\w./*-]*[\w/*]|{SOURCE_NAME}|(?:[a-z_]+/)+(?!\S))", quoted):
                if word not in MADE_FOLDERS and not exists(word, tree):
                    missing.add(word)
        for name in sorted(missing):
            yield f"{path.relative_to(root)}: {name} does not exist"
    for path in sources(root):
        comments = " ".join(re.findall(r"//([^\n]*)", path.read_text()))
        for name in sorted(set(re.findall(rf"(?<![\w/.<]){SOURCE_NAME}", comments))):
            ours = name.split("/")[0] in LEVELS or re.match(TOP_FOLDERS + "/", name)
            if ours and "/" in name and not exists(name, tree):
                yield f"{path.relative_to(root)}: a comment names {name}, which does not exist"


def main():
    root = pathlib.Path(sys.argv[1])
    problems = [*check_folders(root), *check_tops(root), *check_columns(root), *check_paths(root)]
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
