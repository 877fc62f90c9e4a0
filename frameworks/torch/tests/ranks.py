# SPDX-License-Identifier: Apache-2.0
"""Runs a function in several processes that form a process group."""

import datetime
import faulthandler
import multiprocessing
import os
import socket
import time
import traceback

import torch
import torch.distributed as dist

import keel_torch  # noqa: F401 (registers the backend)

# Not what somebody has measured on this machine.
os.environ.setdefault("KEEL_COLLECTIVE_TABLE", "builtin")

# Seconds. A rank that takes longer prints where it is and ends, and the test fails.
LIMIT = int(os.environ.get("KEEL_TORCH_TEST_LIMIT", 120))
TIMEOUT = datetime.timedelta(seconds=60)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _main(rank, world, port, function, backend, arguments, results):
    faulthandler.dump_traceback_later(LIMIT - 5, exit=True)
    # A thread a rank: more would only take turns, and the bits of sums may depend on the number.
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank),
                      LOCAL_WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    try:
        if backend:
            dist.init_process_group(backend, timeout=TIMEOUT)
        results.put((rank, None, function(rank, world, *arguments)))
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException:  # a KeyboardInterrupt too: the parent prints it
        results.put((rank, traceback.format_exc(), None))
        raise SystemExit(1) from None


def run_ranks(world, function, *arguments, backend="keel", may_die=()):
    """Returns what function(rank, world, *arguments) returned in each of |world| processes.

    The function runs in a process group of |backend|, or in none if that is None. Raises if a rank
    raised or died, other than those of |may_die|, whose results are None.
    """
    # Forked, as importing PyTorch takes seconds. Nothing here has started Keel, or a thread.
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    port = free_port()
    processes = [context.Process(target=_main, args=(rank, world, port, function, backend,
                                                     arguments, results))
                 for rank in range(world)]
    for process in processes:
        process.start()
    end = time.monotonic() + LIMIT
    returned = {}
    while len(returned) < world:
        if not results.empty():
            rank, failure, result = results.get()
            if failure and rank not in may_die:
                for process in processes:
                    process.kill()
                raise AssertionError(f"rank {rank} of {world}:\n{failure}")
            returned[rank] = result
            continue
        for rank, process in enumerate(processes):
            if rank in returned or process.exitcode is None or not results.empty():
                continue
            if rank not in may_die:
                raise AssertionError(f"rank {rank} of {world} ended with {process.exitcode}")
            returned[rank] = None
        if time.monotonic() > end:
            for process in processes:
                process.kill()
            missing = sorted(set(range(world)) - set(returned))
            raise AssertionError(f"ranks {missing} of {world} did not end in {LIMIT} s")
        time.sleep(0.001)
    for process in processes:
        process.join(LIMIT)
        if process.exitcode is None:
            process.kill()
            raise AssertionError(f"a rank of {world} returned, and its process did not end")
    return [returned[rank] for rank in range(world)]


def add_rank_tests(case, functions, worlds=(2, 4)):
    """Adds a test to the class |case| for each function by name, and each number of ranks."""
    for name, function in functions.items():
        for world in worlds:
            def test(self, function=function, world=world):
                run_ranks(world, function)
            setattr(case, f"test_{name}_of_{world}", test)
