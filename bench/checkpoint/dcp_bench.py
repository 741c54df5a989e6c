"""The yardstick for save_load_bench: torch.distributed.checkpoint with the same bytes.

4 gloo processes hold BYTES of random fp32 tensors together, each its own (no replicas, no DTensors:
the cheapest case for DCP), and save them with dcp.save (sync, files fsynced), with dcp.async_save
(stall: until the call returns; total: until its future is done), and load them in place. Prints one
JSON line per round.
"""
import argparse
import json
import os
import shutil
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as multiprocessing

OPERATORS = 64
PARTS = ("master", "exp_avg", "exp_avg_sq")


def rank_state(rank, world, total_bytes):
    elements = total_bytes // (OPERATORS * len(PARTS) * 4) // world
    generator = torch.Generator().manual_seed(rank)
    return {
        f"rank.{rank}.layer.{op:02d}.expert.0.{part}": torch.randn(elements, generator=generator)
        for op in range(OPERATORS) for part in PARTS
    }


def drop_page_cache(directory):
    for name in os.listdir(directory):
        descriptor = os.open(os.path.join(directory, name), os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def slowest(seconds):
    value = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value.item()


def timed(action):
    """Seconds from a common start until the slowest rank has done it."""
    dist.barrier()
    start = time.perf_counter()
    action()
    return slowest(time.perf_counter() - start)


def fresh(directory, rank):
    dist.barrier()
    if rank == 0:
        shutil.rmtree(directory, ignore_errors=True)
    dist.barrier()


def measure_round(options, rank, state, number):
    directory = options.directory
    writer = lambda: dcp.FileSystemWriter(directory, thread_count=options.threads, sync_files=True)
    fresh(directory, rank)
    result = {"round": number, "ranks": options.ranks, "bytes": options.bytes, "threads": options.threads}
    result["save_s"] = timed(lambda: dcp.save(state, storage_writer=writer()))
    if rank == 0:
        drop_page_cache(directory)
    result["load_cold_s"] = timed(lambda: dcp.load(state, checkpoint_id=directory))
    result["load_warm_s"] = timed(lambda: dcp.load(state, checkpoint_id=directory))
    fresh(directory, rank)
    dist.barrier()
    start = time.perf_counter()
    pending = dcp.async_save(state, storage_writer=writer())
    stall = time.perf_counter() - start
    # No collective of ours before this: DCP's background thread uses the same group.
    pending.result()
    total = time.perf_counter() - start
    result["async_stall_s"] = slowest(stall)
    result["async_total_s"] = slowest(total)
    fresh(directory, rank)
    if rank == 0:
        print(json.dumps(result), flush=True)


def work(rank, options, port):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
    state = rank_state(rank, options.ranks, options.bytes)
    for number in range(options.rounds):
        measure_round(options, rank, state, number)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--bytes", type=int, default=1 << 30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="DCP's own writer threads per rank")
    options = parser.parse_args()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port = store.port  # a port that is free now
    del store
    multiprocessing.spawn(work, (options, port), nprocs=options.ranks)


if __name__ == "__main__":
    main()
