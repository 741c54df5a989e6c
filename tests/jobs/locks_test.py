"""Strangers at running jobs: another user of the machine, and whoever reaches the job's ports. The job does not notice.

Other users are tried as root, who alone can become one."""
import contextlib
import os
import pathlib
import re
import socket
import stat
import subprocess
import sys
import unittest

from job import CONFIG, ENDLESS, EVERMOE, SMALL, Job, Nodes, assert_drained, command, free_port

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
# Says a few words to every socket named on its command line, and prints those that it reached and that did not hang up.
INTRUDER = r"""
import socket, sys
for name in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(5)
        try:
            line.connect("\0" + name[1:] if name[0] == "@" else name)
            line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 64)
            if line.recv(1000):
                print("heard", name)
        except TimeoutError:
            print("not hung up", name)
        except OSError as error:
            print("refused", name, error)
"""


def processes_below(pid):
    """It and what it has started, and what those have."""
    found = [pid]
    with contextlib.suppress(OSError):  # what ends meanwhile
        for thread in list(pathlib.Path(f"/proc/{pid}/task").iterdir()):
            with contextlib.suppress(OSError):
                for child in (thread / "children").read_text().split():
                    found += processes_below(int(child))
    return found


def sockets_of(run):
    """Names of the AF_UNIX sockets at which a process of this job listens: other tests have jobs on this machine, too."""
    held = set()
    for pid in processes_below(run.process.pid):
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    held.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    names = set()
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
        _, _, _, flags, _, _, inode, *name = line.split()
        if flags == "00010000" and name and f"socket:[{inode}]" in held:
            names.add(name[0])
    return sorted(names)


class Locks(unittest.TestCase):
    def test_keys_are_made_once_and_for_their_owner(self):
        job = Job(self)
        folder = pathlib.Path(job.out).parent / "keys"
        self.assertEqual(command("keys", "new", folder)[0], 0)
        self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o700)
        self.assertEqual({stat.S_IMODE(f.stat().st_mode) for f in folder.iterdir()}, {0o600})
        code, _, words = command("keys", "new", folder)
        self.assertEqual((code, len(words.splitlines())), (2, 1), words)
        code, _, words = command("node", CONFIG, "--out", job.out, "--node", "1", "--nodes", "2", "--join",
                                 f"127.0.0.1:{free_port()}", "--keys", folder / "none")
        self.assertEqual((code, len(words.splitlines())), (2, 1), words)
        self.assertIn("--keys: found ", words)
        os.chmod(folder / "key.pem", 0o644)
        code, _, words = command("node", CONFIG, "--out", job.out, "--node", "1", "--nodes", "2", "--join",
                                 f"127.0.0.1:{free_port()}", "--keys", folder)
        self.assertEqual(code, 2, words)
        self.assertIn(f"chmod 600 {folder}/key.pem", words.splitlines()[-1])

    def test_another_user_of_the_machine_reaches_nothing(self):
        if os.geteuid() != 0:
            return self.check_folders()
        job = Job(self, *ENDLESS)
        with job.start(flags=["--nodes", "2"]) as run:
            run.wait_step(4)
            names = sockets_of(run)
            self.assertTrue(any("controller" in name for name in names), names)
            tried = subprocess.run([*NOBODY, sys.executable, "-c", INTRUDER, *names], capture_output=True, text=True, timeout=60)
            self.assertEqual(tried.returncode, 0, tried.stderr)
            self.assertNotRegex(tried.stdout, "heard|not hung up")
            folder = next(os.path.dirname(name) for name in names if name.endswith("controller"))
            for attempt in (["touch", f"{folder}/agent-9-9"], ["ls", folder], ["cat", f"{folder}/secret"], ["rm", "-rf", folder]):
                self.assertNotEqual(subprocess.run([*NOBODY, *attempt], capture_output=True).returncode, 0, attempt)
            self.assertEqual(command("drain", run.out)[0], 0, run.story())
        self.assertEqual(run.summary["failures"], [], run.story())
        assert_drained(self, run, *ENDLESS)
        self.assertFalse(os.path.exists(folder))

    def check_folders(self):
        job = Job(self, *SMALL)
        with job.start(flags=["--nodes", "2"]) as run:
            run.wait_step(4)
            for name in sockets_of(run):
                if name[0] == "/":
                    self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(name)).st_mode), 0o700)

    def test_strangers_at_the_controllers_port_change_nothing(self):
        other = pathlib.Path(Job(self).out).parent / "other-keys"
        self.assertEqual(command("keys", "new", other)[0], 0)
        with Nodes(self, 2, *ENDLESS) as nodes:
            nodes.wait_step(4)
            agent = nodes.processes[1].args
            address = agent[agent.index("--join") + 1]
            host, port = address.split(":")
            silent = [socket.create_connection((host, int(port)), timeout=10) for _ in range(200)]
            for line in silent[:50]:
                line.sendall(b"GET / HTTP/1.1\r\n\r\n")
            imposter = subprocess.Popen([EVERMOE, "node", *agent[2:], "--keys", str(other)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
            words = ""
            while "no line to the controller" not in words:
                words += imposter.stderr.readline()
            step = nodes.step()
            nodes.wait_step(step + 4)  # while it tries again and again
            self.assertIsNone(imposter.poll(), words)
            imposter.kill()
            words += imposter.communicate()[1]
            for line in silent:
                line.close()
            self.assertEqual(command("drain", nodes.out)[0], 0, nodes.story())
        self.assertRegex(words, "no line to the controller: .*")
        self.assertNotIn("a controller answers", words)
        self.assertEqual(nodes.summary["failures"], [], nodes.story())
        assert_drained(self, nodes, *ENDLESS)
        said = re.findall("refused .* connections? that did not prove", (nodes.out / "logs/controller.log").read_text())
        self.assertIn(len(said), (1, 2), "one line, and no flood of them")


if __name__ == "__main__":
    unittest.main()
