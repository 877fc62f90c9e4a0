# SPDX-License-Identifier: Apache-2.0
"""Works: asynchronous calls, futures, waits, coalescing, and groups beside one another."""

import datetime
import gc
import os
import subprocess
import sys
import threading
import unittest

import torch
import torch.distributed as dist

import keel_torch
from ranks import add_rank_tests, free_port, run_ranks


def check_async(rank, world):
    tensors = [torch.full((1000 * (i + 1),), float(rank + i)) for i in range(50)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    # Waited for in another order than called.
    for i in reversed(range(50)):
        works[i].wait()
        assert works[i].is_completed() and works[i].is_success()
        assert tensors[i].unique().tolist() == [sum(r + i for r in range(world))]
    group = dist.distributed_c10d._get_default_group()
    before = group._get_sequence_number_for_group()
    dist.barrier()
    assert group._get_sequence_number_for_group() == before + 1


def check_dropped(rank, world):
    """A Work that nobody keeps: its tensors live until the operation is done."""
    for _ in range(20):
        dist.all_reduce(torch.ones(300000), async_op=True)
    gc.collect()
    strided = torch.ones(1000, 3)[:, 1]
    dist.all_reduce(strided, async_op=True)
    dist.barrier()
    assert strided.sum() == 1000 * world


def check_futures(rank, world):
    tensor = torch.full((200000,), 1.0)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert doubled.wait().unique().tolist() == [2 * world]
    assert future.value()[0].data_ptr() == tensor.data_ptr()
    # A future of a Work that is done already.
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert work.get_future().wait()[0].unique().tolist() == [world * world]
    # A callback that calls a collective of the same group.
    chained = torch.ones(1)
    done = threading.Event()

    def call(_):
        dist.all_reduce(chained)
        done.set()

    dist.all_reduce(tensor, async_op=True).get_future().add_done_callback(call)
    assert done.wait(30)
    assert chained.item() == world


def check_nested_futures(rank, world):
    """Callbacks that wait for the future of an operation of their own, as PowerSGD's do."""
    def call(done):
        future = dist.all_reduce(done.value()[0], async_op=True).get_future()
        return future.then(lambda nested: nested.value()[0] + 1).wait()

    for _ in range(5):
        futures = [dist.all_reduce(torch.ones(1000), async_op=True).get_future() for _ in range(4)]
        assert futures[0].then(call).wait().unique().tolist() == [world * world + 1]
        for future in futures[1:]:
            assert future.wait()[0].unique().tolist() == [world]


def check_polling(rank, world):
    """A future, and a Work, that complete without a wait."""
    tensor = torch.ones(100000)
    work = dist.all_reduce(tensor, async_op=True)
    while not work.is_completed():
        pass
    assert tensor.unique().tolist() == [world]


def check_wait_timeout(rank, world):
    """A wait that runs out leaves the operation as it is."""
    tensor = torch.ones(10)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        try:
            work.wait(datetime.timedelta(milliseconds=50))
            raise AssertionError("the wait ended before the others had called")
        except RuntimeError as error:
            assert "timed out" in str(error) and "all_reduce" in str(error), error
        dist.distributed_c10d._get_default_store().set("may go on", "1")
        work.wait()
    else:
        dist.distributed_c10d._get_default_store().wait(["may go on"])
        dist.all_reduce(tensor)
    assert tensor.unique().tolist() == [world]


def check_coalescing(rank, world):
    tensors = [torch.full((n,), float(rank)) for n in (1, 100, 50000)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for tensor in tensors:
        assert tensor.unique().tolist() == [sum(range(world))]
    inputs = [torch.full((n,), float(rank)) for n in (3, 70)]
    outputs = [torch.empty(world * n) for n in (3, 70)]
    with dist._coalescing_manager():
        for output, source in zip(outputs, inputs):
            dist.all_gather_into_tensor(output, source)
    for output in outputs:
        assert output.view(world, -1)[:, 0].tolist() == list(range(world))
    with dist._coalescing_manager():
        for output, source in zip(outputs, inputs):
            dist.reduce_scatter_tensor(source, output)
    for source in inputs:
        assert source.unique().tolist() == [rank * world]


def check_coalescing_after_a_failure(rank, world):
    """What raised before the end of its coalescing is no part of the next."""
    group = dist.distributed_c10d._get_default_group()
    group._start_coalescing(torch.device("cpu"))
    for refused in (torch.ones(3 + rank), torch.ones(3).to_sparse()):
        try:
            group.allreduce([refused]).wait()
            raise AssertionError("the ranks got a sum")
        except RuntimeError:
            pass
    tensor = torch.ones(10)
    group._start_coalescing(torch.device("cpu"))
    group.allreduce([tensor])
    group._end_coalescing(torch.device("cpu")).wait()
    assert tensor.unique().tolist() == [world]


def check_wait_timeout_of_coalesced_works(rank, world):
    """The wait of all works together runs out, and leaves them as they are."""
    group = dist.distributed_c10d._get_default_group()
    store = dist.distributed_c10d._get_default_store()
    tensors = [torch.ones(10) for _ in range(3)]
    if rank != 0:
        store.wait(["ran out"])
    group._start_coalescing(torch.device("cpu"))
    for tensor in tensors:
        group.allreduce([tensor])
    work = group._end_coalescing(torch.device("cpu"))
    if rank == 0:
        try:
            work.wait(datetime.timedelta(milliseconds=50))
            raise AssertionError("the wait ended before the others had called")
        except RuntimeError as error:
            assert "timed out" in str(error), error
        store.set("ran out", "1")
    work.wait()
    for tensor in tensors:
        assert tensor.unique().tolist() == [world]


def check_groups_in_threads(rank, world):
    """Two groups, each driven by a thread of its own."""
    groups = [dist.new_group(), dist.new_group(ranks=list(reversed(range(world))))]
    failures = []

    def drive(number):
        try:
            for turn in range(200):
                tensor = torch.full((1 + turn * 50,), float(rank + number))
                dist.all_reduce(tensor, group=groups[number])
                assert tensor.unique().tolist() == [sum(r + number for r in range(world))]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=drive, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    for group in groups:
        dist.destroy_process_group(group)


def check_subgroups(rank, world):
    group = dist.new_group([0, 1])
    if rank < 2:
        tensor = torch.ones(5)
        dist.all_reduce(tensor, group=group)
        assert tensor.unique().tolist() == [2]
        assert dist.get_backend(group) == "keel"
    single = dist.new_group([1])
    if rank == 1:
        tensor = torch.ones(5)
        dist.all_reduce(tensor, group=single)
        assert tensor.unique().tolist() == [1]
    dist.barrier()


def check_many_groups(rank, world):
    """Groups that come and go leave nothing behind."""
    for _ in range(20):
        group = dist.new_group()
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=group)
        dist.destroy_process_group(group)


def check_profiler(rank, world):
    """Profilers see each operation by Keel's name."""
    tensor = torch.ones(7)
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        dist.all_reduce(tensor)
        dist.all_gather_into_tensor(torch.empty(7 * world), tensor)
    events = {event.name: event for event in profile.function_events}
    assert events["keel:all_reduce"].input_shapes == [[7]], events["keel:all_reduce"]
    assert "keel:all_gather" in events


def check_monitored_barrier(rank, world):
    """A missing rank is named, and the group goes on."""
    group = dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu"))
    store = dist.distributed_c10d._get_default_store()
    backend.monitored_barrier(datetime.timedelta(seconds=30), False)
    if rank == world - 1:
        store.wait(["others failed"])
    else:
        try:
            backend.monitored_barrier(datetime.timedelta(milliseconds=200), True)
            raise AssertionError("the barrier passed without a rank")
        except RuntimeError as error:
            wanted = f"Rank {world - 1} failed" if rank == 0 else "Rank 0 timed out"
            assert wanted in str(error), error
        if rank == 0:
            store.set("others failed", "1")
    dist.all_reduce(torch.ones(5))


def check_allocator(rank, world):
    keel_torch.use_allocator()
    tensor = torch.full((1000000,), float(rank))
    dist.all_reduce(tensor)
    assert tensor.unique().tolist() == [sum(range(world))]
    tensor = torch.full((2000000,), 1.0)
    work = dist.all_reduce(tensor, async_op=True)
    del tensor  # the Work keeps it
    assert work.result()[0].numel() == 2000000
    work.wait()
    matrix = torch.randn(500, 500)
    assert torch.allclose(torch.linalg.inv(matrix) @ matrix, torch.eye(500), atol=1e-1)
    grown = torch.empty(10)
    grown.resize_(100000).fill_(3)
    assert grown.sum() == 300000


def leave_with_work(rank, world):
    """Ends the process while an operation waits for the other rank."""
    if rank == 0:
        dist.all_reduce(torch.ones(100000), async_op=True)


class WorksTest(unittest.TestCase):
    def test_exit_with_work_in_flight(self):
        run_ranks(2, leave_with_work)

    def test_exit_without_destroying_the_group(self):
        program = """
import torch, torch.distributed as dist, keel_torch
dist.init_process_group("keel")
dist.all_reduce(torch.ones(10))
work = dist.all_reduce(torch.ones(100000), async_op=True) if dist.get_rank() == 0 else None
"""
        port = str(free_port())
        ranks = [subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True,
                                  env=dict(os.environ, RANK=str(rank), WORLD_SIZE="2",
                                           MASTER_ADDR="127.0.0.1", MASTER_PORT=port))
                 for rank in range(2)]
        for rank in ranks:
            _, printed = rank.communicate(timeout=60)
            self.assertEqual(rank.returncode, 0, printed)


add_rank_tests(WorksTest, {name[6:]: function for name, function in list(globals().items())
                           if name.startswith("check_")})


if __name__ == "__main__":
    unittest.main()
