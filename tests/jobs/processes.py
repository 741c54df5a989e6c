"""Processes of a job by what their launcher has put into their environment."""
import contextlib
import os
import pathlib
import signal


def processes(program, **variables):
    """Numbers of the living processes of `program...` whose environment has these variables, the oldest one first."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if not (folder / "comm").read_text().startswith(program):
                continue
            words = (folder / "environ").read_bytes().split(b"\0")
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            if stat[0] != "Z" and all(f"{name}={value}".encode() in words for name, value in variables.items()):
                found[int(folder.name)] = int(stat[19])  # when it was started
    return sorted(found, key=found.get)


def kill(program, **variables):
    """All of them, at once and unasked."""
    pids = processes(program, **variables)
    assert pids, f"no {program} with {variables}"
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
