"""An Ethernet between the machines of a test, in user space: frames come from one tap device and go out at another, over
lines that a test can cut, slow down or make lossy, each direction apart.

Needs /dev/net/tun and a network namespace of its own for each machine, but no root and no kernel modules.
"""
import dataclasses
import fcntl
import heapq
import itertools
import os
import random
import selectors
import struct
import threading
import time

TUNSETIFF = 0x400454CA
IFF_TAP_WITHOUT_HEADER = 0x0002 | 0x1000
FRAME_BYTES_MAX = 1 << 16
BROADCAST = b"\xff" * 6


def open_tap(name):
    """A tap device in the network namespace of the caller; its frames are read from and written to the descriptor."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP_WITHOUT_HEADER))
    return tap


NETWORK_PLUGS = 100


def plug_of(machine, network):
    """Where its device on that network is plugged in; on the first network (0) its number."""
    return network * NETWORK_PLUGS + machine


def mac_of(plug):
    return bytes([2, 0, 0, 0, 0, plug])


@dataclasses.dataclass
class Line:
    """What happens to frames from one machine to another."""
    is_up: bool = True
    delay_seconds: float = 0.0
    loss: float = 0.0  # probability
    bytes_per_second: float = 0.0  # 0: as fast as they come
    queue_seconds: float = 0.2  # what waits longer than that for a slow line is dropped, as by a router
    is_free_at: float = 0.0

    def arrival(self, now, size, chance):
        """When a frame that is sent now arrives; None: never."""
        if not self.is_up or chance < self.loss:
            return None
        if self.bytes_per_second:
            begins = max(now, self.is_free_at)
            if begins - now > self.queue_seconds:
                return None
            self.is_free_at = begins + size / self.bytes_per_second
            return self.is_free_at + self.delay_seconds
        return now + self.delay_seconds


class Ethernet:
    """One thread moves the frames from connect() to close(). Lines may be changed from any thread."""

    def __init__(self, seed=1):
        self._taps = {}  # machine -> descriptor
        self._lines = {}  # (from, to) -> Line
        self._lock = threading.Lock()
        self._random = random.Random(seed)
        self._late = []  # heap of (arrival, number, to, frame)
        self._numbers = itertools.count()
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = os.pipe()
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def connect(self, machine, tap):
        """Takes the descriptor; the machine's former one is unplugged."""
        with self._lock:
            if machine in self._taps:
                self._unplug(machine)
            self._taps[machine] = tap
            self._selector.register(tap, selectors.EVENT_READ, machine)

    def unplug(self, machine):
        with self._lock:
            self._unplug(machine)

    def change(self, sources, targets, **fields):
        """Sets fields of the lines from each source to each target, as of Line."""
        with self._lock:
            for pair in itertools.product(sources, targets):
                if pair[0] != pair[1]:
                    line = self._lines.setdefault(pair, Line())
                    for name, value in fields.items():
                        setattr(line, name, value)

    def close(self):
        self._is_closed = True
        os.write(self._wake, b".")
        self._thread.join()
        for tap in self._taps.values():
            os.close(tap)
        for end in (self._woken, self._wake):
            os.close(end)

    def _unplug(self, machine):
        tap = self._taps.pop(machine)
        self._selector.unregister(tap)
        os.close(tap)

    def _run(self):
        while not self._is_closed:
            now = time.monotonic()
            timeout = max(0.0, self._late[0][0] - now) if self._late else None
            ready = self._selector.select(timeout)
            with self._lock:
                for key, _ in ready:
                    if key.data is not None and self._taps.get(key.data) == key.fd:
                        self._take_frames(key.data, key.fd)
                self._deliver_late(time.monotonic())

    def _take_frames(self, source, tap):
        for _ in range(64):  # of one machine at a time
            try:
                frame = os.read(tap, FRAME_BYTES_MAX)
            except OSError:
                return
            self._forward(source, frame)

    def _forward(self, source, frame):
        now = time.monotonic()
        for target in self._targets(source, frame[:6]):
            line = self._lines.setdefault((source, target), Line())
            arrival = line.arrival(now, len(frame), self._random.random())
            if arrival is None:
                continue
            if arrival <= now:
                self._deliver(target, frame)
            else:
                heapq.heappush(self._late, (arrival, next(self._numbers), target, frame))

    def _targets(self, source, address):
        if address[0] & 1:  # to all of its network
            return [plug for plug in self._taps if plug != source and plug // NETWORK_PLUGS == source // NETWORK_PLUGS]
        machine = address[5]
        return [machine] if address == mac_of(machine) and machine in self._taps else []

    def _deliver_late(self, now):
        while self._late and self._late[0][0] <= now:
            _, _, target, frame = heapq.heappop(self._late)
            self._deliver(target, frame)

    def _deliver(self, target, frame):
        try:
            os.write(self._taps[target], frame)
        except (KeyError, OSError):
            pass  # unplugged, or its device is full: frames may be lost
