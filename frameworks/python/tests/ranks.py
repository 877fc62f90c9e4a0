# SPDX-License-Identifier: Apache-2.0
"""Runs a function as the ranks of a communicator, in threads or in processes."""

import faulthandler
import multiprocessing
import queue
import threading
import traceback

import keel

# Seconds. A rank that takes longer prints where it is and ends, and the test fails.
LIMIT = 120
TIMEOUT = 60.0


def in_threads(devices, function, *arguments):
    """Returns [function(comm, *arguments) of each rank], with a thread a rank; raises what one
    raised."""
    world, id = len(devices), keel.unique_id()
    results = [None] * world

    def run(rank):
        try:
            with keel.Communicator(devices[rank], rank, world, id, timeout=TIMEOUT) as comm:
                results[rank] = (None, function(comm, *arguments))
        except BaseException as error:
            results[rank] = (error, None)
    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
        if thread.is_alive():
            faulthandler.dump_traceback()
            raise AssertionError("a rank does not end")
    for error, _ in results:
        if error is not None:
            raise error
    return [result for _, result in results]


def _main(rank, world, id, device, function, arguments, results):
    faulthandler.dump_traceback_later(LIMIT - 5, exit=True)
    try:
        with keel.Communicator(device, rank, world, id, timeout=TIMEOUT) as comm:
            results.put((rank, None, function(comm, *arguments)))
    except BaseException:
        results.put((rank, traceback.format_exc(), None))
        raise SystemExit(1) from None


def in_processes(devices, function, *arguments):
    """The same with a process a rank; |function| and its results are picklable."""
    # Not forked: Keel runs in this process.
    context = multiprocessing.get_context("spawn")
    results, world, id = context.Queue(), len(devices), keel.unique_id()
    processes = [context.Process(target=_main, args=(rank, world, id, devices[rank], function,
                                                     arguments, results), daemon=True)
                 for rank in range(world)]
    for process in processes:
        process.start()
    returned = {}
    try:
        while len(returned) < world:
            rank, failure, result = results.get(timeout=LIMIT)
            if failure:
                raise AssertionError(f"rank {rank} of {world}:\n{failure}")
            returned[rank] = result
    except queue.Empty:
        raise AssertionError(f"only ranks {sorted(returned)} of {world} have ended") from None
    finally:
        for process in processes:
            process.join(5 if len(returned) == world else 0)
            process.kill()
    return [returned[rank] for rank in range(world)]
