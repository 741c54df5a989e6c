"""Everything at once: random jobs of real processes, any exact strategy, with standbys, spare nodes, lanes that come and
go, experts that move and roles that are moved, and random faults that may meet (mixture.py). Every one of them ends with the
bits of a job in which nothing happens and whose lanes train and rest as the summary says they did.

EVERMOE_SEEDS=first..last for a campaign.
"""
import contextlib
import signal
import subprocess
import threading
import unittest

from job import EVERMOE, Job
from mixture import Mixture, PlaysMixtures, script_of


def give(orders, run, out):
    """Each when its step is done, whatever is answered; until the run is over."""
    for step, (command, *words) in sorted(orders):
        with contextlib.suppress(AssertionError):
            run.wait_step(step)
            subprocess.run([EVERMOE, command, out, *words], capture_output=True, timeout=60, check=False)


class Mixtures(PlaysMixtures, unittest.TestCase):
    def play(self, seed):
        job = Job(self)
        mixture = Mixture(seed, own_disk=job.folder)
        job.settings = mixture.settings
        with job.start(faults=[script_of(mixture.faults)]) as run:
            orders = threading.Thread(target=give, args=(mixture.orders, run, job.out))
            orders.start()
            try:
                run.finish()
            finally:
                if run.process.poll() is None:
                    run.process.send_signal(signal.SIGKILL)
                orders.join()
        why = f"seed {seed}: {mixture}\n{run.story()}"
        self.assertEqual(run.summary["exit_code"], 0, why)
        mixture.check(self, run.summary, why)


if __name__ == "__main__":
    unittest.main(verbosity=2)
