"""The cases of collectives_bench, done by torch.distributed with Gloo. Prints one JSON object.

Same shape: real processes with one thread each, a barrier before each batch, the median over
batches of the time per call on rank 0.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

CASES = [
    ("all_reduce", 4 << 10, 300),
    ("all_reduce", 256 << 10, 60),
    ("all_reduce", 16 << 20, 3),
    ("all_gather", 256 << 10, 60),
    ("all_to_all", 256 << 10, 60),
]


def prepare(call, size, ranks):
    import torch
    import torch.distributed as dist

    values = torch.ones(size // 4)
    parts = list(values.chunk(ranks))
    if call == "all_reduce":
        return lambda: dist.all_reduce(values, op=dist.ReduceOp.MAX)
    if call == "all_gather":
        own = parts[dist.get_rank()].clone()
        return lambda: dist.all_gather(parts, own)
    # Gloo has no list form of all_to_all; the single-tensor form moves the same bytes.
    received = torch.empty_like(values)
    return lambda: dist.all_to_all_single(received, values)


def measure(call, calls, batches):
    import torch.distributed as dist

    for _ in range(max(2, calls // 4)):
        call()
    times = []
    for _ in range(batches):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(times)


def run_rank(args):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{args.port}", rank=args.rank, world_size=args.ranks)
    results = []
    for name, size, calls in CASES:
        call = prepare(name, size, args.ranks)
        us = measure(call, max(1, int(calls * args.scale)), args.batches)
        results.append({"call": name, "bytes": size, "us": us})
    dist.barrier()
    if args.rank == 0:
        print(json.dumps({"library": f"gloo of torch {torch.__version__}", "ranks": args.ranks, "results": results}))
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--batches", type=int, default=9)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank is not None:
        return run_rank(args)
    port = free_port()
    environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    command = [sys.executable, __file__, "--port", str(port), "--ranks", str(args.ranks),
               "--batches", str(args.batches), "--scale", str(args.scale)]
    ranks = [subprocess.Popen(command + ["--rank", str(rank)], env=environment) for rank in range(args.ranks)]
    sys.exit(max(abs(rank.wait()) for rank in ranks))


if __name__ == "__main__":
    main()
