"""The first process of a machine of a test: makes its network, starts and kills what it is told, and reaps the rest.

Started in fresh network, process, host name and mount namespaces; whoever kills it kills the machine. Reads and writes
lines of JSON on a socket, whose descriptor is its second argument; the third is the size of its largest packets, the
others name the networks it has a device on. The first answer carries the tap devices.
"""
import json
import os
import signal
import socket
import subprocess
import sys

from ethernet import mac_of, open_tap, plug_of


def make_network(machine, network, mtu):
    device = f"eth{network}"
    tap = open_tap(device)
    mac = ":".join(f"{byte:02x}" for byte in mac_of(plug_of(machine, network)))
    for words in ("link set lo up", f"link set {device} address {mac} mtu {mtu}",
                  f"addr add 10.{77 + network}.0.{machine}/24 dev {device}", f"link set {device} up"):
        subprocess.run(["ip", *words.split()], check=True)
    return tap


def make_private_folders():
    """What machines do not share. /sys shows the devices of the namespace that mounts it."""
    for kind, folder in (("sysfs", "/sys"), ("tmpfs", "/tmp"), ("tmpfs", "/dev/shm"), ("tmpfs", "/run")):
        subprocess.run(["mount", "-t", kind, kind, folder], check=True)


def start(command):
    log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    out = os.open(command["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    environment = {**os.environ, **command["environment"]}
    try:
        return os.posix_spawn(command["argv"][0], command["argv"], environment, setpgroup=0,
                              file_actions=[(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, log, 2)])
    finally:
        os.close(log)
        os.close(out)


class Init:
    def __init__(self, line):
        self.line = line
        self.exits = {}

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.exits[pid] = os.waitstatus_to_exitcode(status)

    def answer(self, command):
        if command["do"] == "start":
            return start(command)
        if command["do"] == "kill":
            try:
                os.kill(command["pid"], command["signal"])
                return True
            except ProcessLookupError:
                return False
        if command["do"] == "signal all":
            try:
                os.kill(-1, command["signal"])  # but for this process
                return True
            except ProcessLookupError:
                return False
        assert command["do"] == "exit code of", command
        return self.exits.get(command["pid"])

    def serve(self):
        for text in self.line.makefile("r"):
            reply = self.answer(json.loads(text))
            self.line.sendall((json.dumps(reply) + "\n").encode())


def main():
    machine = int(sys.argv[1])
    line = socket.socket(fileno=int(sys.argv[2]))
    line.set_inheritable(False)
    socket.sethostname(f"machine-{machine}")
    make_private_folders()
    taps = [make_network(machine, int(network), int(sys.argv[3])) for network in sys.argv[4:]]
    socket.send_fds(line, [b"up\n"], taps)
    for tap in taps:
        os.close(tap)
    init = Init(line)
    signal.signal(signal.SIGCHLD, lambda *_: init.reap())
    init.serve()


if __name__ == "__main__":
    main()
