#!/usr/bin/python3
"""An OpenStack Swift of one machine with its S3 interface, which checks signatures, for tests.

swift_server.py FOLDER PORT keeps everything in FOLDER, which may be that of one that has ended, and
listens on 127.0.0.1:PORT and the three ports above. Prints "ready" when it serves; ends with
SIGTERM. The access key is test:tester, the secret testing. Needs Debian's python3-swift.
"""

import ctypes
import http.client
import os
import pwd
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
SERVERS = ("account", "container", "object")

SWIFT_CONF = """[swift-hash]
swift_hash_path_suffix = evermoe

[swift-constraints]
# Larger than the largest part that a test uploads.
max_file_size = 67108864
"""

STORAGE_CONF = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
mount_check = false
devices = {folder}/devices
swift_dir = {folder}/etc
user = {user}
fallocate_reserve = 0
log_facility = LOG_LOCAL0
# Swift expects many servers, and turns from one that is slow; here the only one may be slow.
conn_timeout = 20
node_timeout = 60

[pipeline:main]
pipeline = {name}-server

[app:{name}-server]
use = egg:swift#{name}
conn_timeout = 20
node_timeout = 60
container_update_timeout = 60
"""

PROXY_CONF = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
swift_dir = {folder}/etc
user = {user}

[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats bulk s3api tempauth slo proxy-server

[app:proxy-server]
use = egg:swift#proxy
allow_account_management = true
account_autocreate = true
conn_timeout = 20
node_timeout = 60
recoverable_node_timeout = 60
error_suppression_limit = 1000000

[filter:catch_errors]
use = egg:swift#catch_errors

[filter:gatekeeper]
use = egg:swift#gatekeeper

[filter:healthcheck]
use = egg:swift#healthcheck

[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:{memcache}

[filter:listing_formats]
use = egg:swift#listing_formats

[filter:bulk]
use = egg:swift#bulk

[filter:s3api]
use = egg:swift#s3api
location = us-east-1
min_segment_size = 1048576

[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin

[filter:slo]
use = egg:swift#slo
min_segment_size = 1
"""


def write_configuration(folder: str, port: int) -> None:
    from swift.common.ring.builder import RingBuilder

    user = pwd.getpwuid(os.getuid()).pw_name
    os.makedirs(f"{folder}/etc", exist_ok=True)
    os.makedirs(f"{folder}/devices/disk", exist_ok=True)
    with open(f"{folder}/etc/swift.conf", "w") as file:
        file.write(SWIFT_CONF)
    with open(f"{folder}/etc/proxy.conf", "w") as file:
        # Nobody listens on the last port: Swift does without its cache then.
        file.write(PROXY_CONF.format(port=port, folder=folder, user=user, memcache=port + 4))
    for i, name in enumerate(SERVERS):
        with open(f"{folder}/etc/{name}.conf", "w") as file:
            file.write(STORAGE_CONF.format(port=port + 1 + i, folder=folder, user=user, name=name))
        ring = RingBuilder(4, 1, 0)
        ring.add_dev({"region": 1, "zone": 1, "ip": "127.0.0.1", "port": port + 1 + i,
                      "device": "disk", "weight": 1})
        ring.rebalance(seed=1)
        ring.get_ring().save(f"{folder}/etc/{name}.ring.gz")


def start(folder: str, name: str) -> int:
    child = os.fork()
    if child:
        return child
    # Swift makes it a session of its own, which no signal to this one's group reaches.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    from swift.common.utils import set_swift_dir
    from swift.common.wsgi import run_wsgi

    log = os.open(f"{folder}/{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    set_swift_dir(f"{folder}/etc")
    os._exit(run_wsgi(f"{folder}/etc/{name}.conf", f"{name}-server"))


def answers(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        connection.request("GET", "/healthcheck")
        connection.getresponse()
        return True
    except OSError:
        return False


def main() -> int:
    folder, port = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    write_configuration(folder, port)
    children = [start(folder, name) for name in (*SERVERS, "proxy")]

    def end(*_: object) -> None:
        for child in children:
            os.kill(child, signal.SIGKILL)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    # All of them: a proxy whose container server is still starting says that there is no such bucket.
    while not all(answers(each) for each in range(port, port + 1 + len(SERVERS))):
        if os.waitpid(-1, os.WNOHANG)[0]:
            print("a server has ended: see", folder, file=sys.stderr)
            end()
        time.sleep(0.1)
    print("ready", flush=True)
    os.waitpid(-1, 0)
    end()
    return 1


if __name__ == "__main__":
    sys.exit(main())
