"""Programs that train in turns: all are started, all but one are stopped (SIGSTOP), a few steps each.

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

# Where all cores train, looking takes time from a step: every millisecond would take a tenth of it.
POLL_SECONDS = 0.02
TURN_SECONDS_MAX = 600


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
    """Programs that run at the same time. Those that `steps_file` belongs to are counted: a line is a step.

    FOLDER in a command and in `steps_file` stands for a folder of its own; standard output goes to FOLDER/output.
    """

    def __init__(self, commands, steps_file="FOLDER/output", is_step=lambda line: True):
        self.folder = tempfile.mkdtemp(prefix="evermoe-bench-")
        self.steps_file, self.is_step = pathlib.Path(self.in_folder(steps_file)), is_step
        self.read_to, self.steps = 0, 0
        self.programs = []
        with open(self.in_folder("FOLDER/output"), "w") as output:
            for command in commands:
                self.programs.append(subprocess.Popen([self.in_folder(word) for word in command], start_new_session=True,
                                                      stdout=output, stderr=subprocess.DEVNULL))

    def in_folder(self, word):
        return str(word).replace("FOLDER", self.folder)

    def count_steps(self):
        for program in self.programs:
            if program.poll() is not None:
                raise SystemExit(f"ended with {program.returncode} before its turns were over: {program.args}")
        if self.steps_file.exists() and self.steps_file.stat().st_size > self.read_to:
            with open(self.steps_file) as file:
                file.seek(self.read_to)
                text = file.read()
            whole = text[: text.rfind("\n") + 1]
            self.read_to += len(whole)
            self.steps += sum(self.is_step(line) for line in whole.splitlines())
        return self.steps

    def signal(self, number):
        """To every process of the programs' sessions: workers are in process groups of their own."""
        for program in self.programs:
            for pid in session_members(program.pid):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass  # it has ended meanwhile

    def turn(self, steps):
        """Lets it do so many steps while the others stand still; seconds per step."""
        self.signal(signal.SIGCONT)
        began, before = time.perf_counter(), self.count_steps()
        while self.count_steps() < before + steps:
            if time.perf_counter() - began > TURN_SECONDS_MAX:
                raise SystemExit(f"no {steps} steps within {TURN_SECONDS_MAX} s: {self.programs[0].args}")
            time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - began
        self.signal(signal.SIGSTOP)
        return seconds / (self.steps - before)

    def end(self):
        self.signal(signal.SIGKILL)
        for program in self.programs:
            program.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def take_turns(starts, rounds, steps, warmup):
    """`starts`: name -> function that starts a Contender. Returns name -> seconds per step of every round.

    They always follow each other in this order, so that each has the other's leavings in the caches.
    """
    contenders, seconds = {}, {name: [] for name in starts}
    try:
        for name, start in starts.items():
            contenders[name] = start()
            contenders[name].turn(warmup)
        for _ in range(rounds):
            for name, contender in contenders.items():
                seconds[name].append(contender.turn(steps))
    finally:
        for contender in contenders.values():
            contender.end()
    return seconds


def spread(values):
    return {"median": round(statistics.median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}


def ratios(over, under):
    """Of two lists of the same rounds."""
    return [a / b for a, b in zip(over, under)]
