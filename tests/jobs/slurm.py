"""A real Slurm on this machine: munged, slurmctld and one slurmd for each node, on free ports of the loopback, with all
files in a folder of its own.

    with Slurm(nodes=3) as slurm:
        slurm.run("sbatch", "script.sh")
"""
import contextlib
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import tempfile
import time

from job import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "squeue")
START_SECONDS = 60


def missing():
    """Programs of Slurm that this machine does not have."""
    path = os.environ["PATH"] + ":/usr/sbin"
    return [program for program in PROGRAMS if not shutil.which(program, path=path)]


class Slurm:
    def __init__(self, nodes):
        # Sockets have short names.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        self.nodes = nodes
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"))
        self.environment["PATH"] += ":/usr/sbin"
        self.processes = []

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for process in reversed(self.processes):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *command, check=True, timeout=120):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=timeout,
                              cwd=self.folder)
        assert not check or done.returncode == 0, (command, done.returncode, done.stdout, done.stderr, self.logs())
        return done

    def start(self, *command, **kwargs):
        return subprocess.Popen(command, env=self.environment, cwd=self.folder, **kwargs)

    def tasks(self, node, job):
        """What the environment of a job's processes on that node has."""
        return dict(SLURMD_NODENAME=node, SLURM_JOB_ID=job, SLURM_CONF=self.folder / "slurm.conf")

    def logs(self):
        return {path.name: path.read_text(errors="replace")[-800:] for path in sorted(self.folder.glob("*.log"))}

    def _write(self, name, text, mode=0o600):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def _start(self):
        user = pwd.getpwuid(os.getuid()).pw_name
        self.folder.chmod(0o755)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        munge = self.folder / "munge.socket"
        self._spawn("munged", "--foreground", "--force", f"--socket={munge}", f"--key-file={key}",
                    f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munge.seed",
                    f"--log-file={self.folder}/munged.log")
        self._wait(munge.exists, "munged")
        for name in ("spool", "state"):
            (self.folder / name).mkdir()
        control, *ports = [free_port() for _ in range(1 + self.nodes)]
        nodes = "\n".join(f"NodeName=m{i} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs=2"
                          f" RealMemory=1000 State=UNKNOWN" for i, port in enumerate(ports))
        self._write("slurm.conf", f"""
ClusterName=test
SlurmctldHost={socket.gethostname()}(127.0.0.1)
SlurmctldPort={control}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={munge}
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool/%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.%n.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SchedulerParameters=sched_interval=1,requeue_delay=1
KillWait=10
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""", 0o644)
        self._spawn("slurmctld", "-D")
        # The names of the machines are known to what runs on them.
        hosts = self._write("hosts", pathlib.Path("/etc/hosts").read_text() + "".join(
            f"127.0.0.1 m{i}\n" for i in range(self.nodes)), 0o644)
        for i in range(self.nodes):
            self._spawn("unshare", "-m", "sh", "-c", f"mount --bind {hosts} /etc/hosts && exec slurmd -D -N m{i}")
        self._wait(lambda: self._idle() == self.nodes, "nodes")

    def _idle(self):
        done = self.run("sinfo", "-h", "-N", "-o", "%t", check=False)
        return done.stdout.split().count("idle")

    def _spawn(self, *command):
        with open(self.folder / f"{pathlib.Path(command[0]).name}-{len(self.processes)}.log", "w") as log:
            self.processes.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))

    def _wait(self, condition, what):
        end = time.monotonic() + START_SECONDS
        while not condition():
            ended = [p.args for p in self.processes if p.poll() is not None]
            assert not ended and time.monotonic() < end, f"no {what}: {ended}, {self.logs()}"
            time.sleep(0.1)
