"""Programs that train in turns: all are started, all but one are stopped (SIGSTOP), block by block.

A machine that is slow for seconds or minutes is then slow for all of them alike, which runs one after the
other cannot promise: between such runs this project has seen 30 % of difference where nothing differed.
"""
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

POLL_SECONDS = 0.001


def session_members(session):
    members = []
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session:
            members.append(int(folder.name))
    return members


class Contender:
    """One program and its processes; counts its steps by the lines of a file that it writes."""

    def __init__(self, command, steps_file, is_step=lambda line: True):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="evermoe-bench-"))
        self.steps_file, self.is_step = self.folder / steps_file, is_step
        self.read_to, self.steps = 0, 0
        words = [str(word).replace("FOLDER", str(self.folder)) for word in command]
        self.process = subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def count_steps(self):
        if self.process.poll() is not None:
            raise SystemExit(f"{self.process.args} ended with {self.process.returncode} before its turns were over")
        if self.steps_file.exists():
            with open(self.steps_file) as file:
                file.seek(self.read_to)
                text = file.read()
            whole = text[: text.rfind("\n") + 1]
            self.read_to += len(whole)
            self.steps += sum(self.is_step(line) for line in whole.splitlines())
        return self.steps

    def signal(self, number):
        """To every process of its session: workers are in process groups of their own."""
        for pid in session_members(self.process.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass  # it has ended meanwhile

    def turn(self, steps):
        """Lets it do so many steps while the others stand still; seconds per step."""
        self.signal(signal.SIGCONT)
        began, goal = time.perf_counter(), self.count_steps() + steps
        while self.count_steps() < goal:
            time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - began
        self.signal(signal.SIGSTOP)
        return seconds / (self.steps - goal + steps)

    def end(self):
        self.signal(signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def take_turns(starts, rounds, steps, warmup):
    """`starts`: name -> function that starts a Contender. Returns name -> seconds per step of every round.

    The order changes from round to round, so that nobody always follows the same one.
    """
    contenders, seconds = {}, {name: [] for name in starts}
    try:
        for name, start in starts.items():
            contenders[name] = start()
            contenders[name].turn(warmup)
        names = list(contenders)
        for number in range(rounds):
            first = number % len(names)
            order = names[first:] + names[:first]
            for name in order if number % 2 == 0 else reversed(order):
                seconds[name].append(contenders[name].turn(steps))
    finally:
        for contender in contenders.values():
            contender.end()
    return seconds


def spread(values):
    return {"median": round(statistics.median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}


def ratios(over, under):
    """Of two lists of the same rounds."""
    return spread([a / b for a, b in zip(over, under)])
