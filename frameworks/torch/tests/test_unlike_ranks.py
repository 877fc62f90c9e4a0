# SPDX-License-Identifier: Apache-2.0
"""Collectives in which rank 0 has tensors of the CPU, and rank 1 tensors of a keel device."""

import datetime
import os
import signal
import threading
import unittest

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from device_models import BATCH, batch_of, run_step
from device_ranks import run_device_ranks
from test_collectives import expect
from test_device_collectives import check_copies, check_reductions, check_views
from test_device_ddp import losses_alone, make, train_with_buffers

STEPS = 20


def on_own_device(rank, world, device, function, *arguments):
    """function(rank, world, device, *arguments) with PyTorch's CPU in place of rank 0's device."""
    return function(rank, world, device if rank else torch.device("cpu"), *arguments)


def run_unlike_ranks(function, *arguments, names=("cpu", "vulkan:0")):
    return run_device_ranks(names, on_own_device, function, *arguments)


def train_ddp(rank, world, device, options):
    torch.manual_seed(1)
    parameters = make().state_dict()
    with torch.device(device):
        network = make()
    if rank == 0:
        network.load_state_dict(parameters)
    network = DistributedDataParallel(network, **options)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    share = BATCH // world
    losses = []
    for step in range(STEPS):
        tokens = batch_of(step)[rank * share:(rank + 1) * share].to(device)
        losses.append(run_step(network, optimizer, tokens))
    total = torch.stack(losses)
    dist.all_reduce(total, dist.ReduceOp.AVG)
    return total.cpu().tolist()


def mix_with_cpu_tensors(rank, world, device):
    """Tensors of the CPU on all ranks, objects and barriers, before and after unlike tensors."""
    for _ in range(2):
        on_cpu = torch.full((5,), float(rank))
        dist.all_reduce(on_cpu)
        expect(on_cpu, torch.full((5,), 1.0), "of the CPU")
        gathered = [None] * world
        dist.all_gather_object(gathered, f"rank {rank}")
        assert gathered == ["rank 0", "rank 1"], gathered
        dist.barrier()
        # Several in flight, and the last one is waited for.
        tensors = [torch.full((1000,), rank + number, device=device) for number in range(4)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        works[-1].wait()
        for number, tensor in enumerate(tensors):
            works[number].wait()
            expect(tensor.cpu(), torch.full((1000,), 1 + 2 * number), "all_reduce", number)
        # Polled, and by futures.
        tensor = torch.ones(300, device=device)
        work = dist.all_reduce(tensor, async_op=True)
        while not work.is_completed():
            pass
        future = dist.all_reduce(tensor, async_op=True).get_future()
        doubled = future.then(lambda done: done.value()[0] * 2)
        assert doubled.wait().cpu().unique().tolist() == [8]


def begin_by_polling(rank, world, device):
    work = dist.all_reduce(torch.ones(3, device=device), async_op=True)
    while not work.is_completed():
        pass
    return work.result()[0].tolist()


def order_with_streams(rank, world, device):
    """What a stream of the device has to do before, and does afterwards."""
    side = torch.Stream(device=device) if rank else torch.Stream(device=torch.device("keel"))
    with side:
        tensor = torch.full((300, 300), float(rank), device=device)
        for _ in range(20):
            tensor = tensor + 1
        dist.all_reduce(tensor)
        return (tensor.sum() * 2).item()


def exchange_dlpack(rank, world, device):
    """Memory of the device that PyTorch knows by DLPack."""
    own = torch.full((64,), float(rank + 1), device=device)
    tensor = torch.from_dlpack(own)
    assert tensor.device == own.device
    dist.all_reduce(tensor)
    return own.tolist()


def mismatch(rank, world, device):
    dist.all_reduce(torch.ones(2, device=device))
    try:
        dist.all_reduce(torch.ones(3 + rank, device=device))
        text = "nothing was raised"
    except RuntimeError as error:
        text = str(error)
    tensor = torch.ones(5, device=device)
    dist.all_reduce(tensor)
    return text, tensor.tolist()


def wait_for_the_cpu(rank, world, device):
    """Rank 0 waits in a collective of CPU tensors that rank 1 has called, and rank 2 not yet; rank 1
    is in the next one, of keel tensors."""
    store = dist.distributed_c10d._get_default_store()
    if rank == 2:
        store.wait(["waited"])
    work = dist.all_reduce(torch.ones(3), async_op=True)
    if rank == 0:
        try:
            work.wait(datetime.timedelta(seconds=2))
        except RuntimeError:
            store.set("waited", "1")
    dist.all_reduce(torch.ones(3, device=device))
    work.wait()
    return dist.distributed_c10d._get_default_group()._get_backend(device).goes_through_cpu()


def call_none(rank, world, device):
    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    store = dist.distributed_c10d._get_default_store()
    text = None
    if rank == 1:
        try:
            dist.all_reduce(torch.ones(3, device=device), group=group)
        except RuntimeError as error:
            text = str(error)
        store.set("failed", "1")
    else:
        store.wait(["failed"])
    return text


def end_the_wait(rank, world, device, how):
    """Rank 1 waits for rank 0's first collective of keel tensors until |how| ends the wait."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    group = dist.new_group(timeout=datetime.timedelta(seconds=30))
    default = dist.distributed_c10d._get_default_store()
    agreement = dist.PrefixStore("cpu/", dist.distributed_c10d._world.pg_map[group][1])

    def end():
        while not agreement.check(["keel/lanes/asking"]):
            pass
        if how == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        elif how == "destroy":
            dist.destroy_process_group(group)
        else:
            group._get_backend(device).abort()

    ends_here = rank == (0 if how == "abort of the peer" else 1)
    text = None
    if rank == 1:
        if ends_here:
            threading.Thread(target=end).start()
        try:
            # dist.all_reduce wants the name of the group that another thread destroys.
            group.allreduce([torch.ones(3, device=device)]).wait()
            text = "nothing was raised"
        except (RuntimeError, KeyboardInterrupt) as error:
            text = f"{type(error).__name__}: {error}"
        default.set("ended", "1")
    else:
        if ends_here:
            end()
        default.wait(["ended"])
    if how == "interrupt":  # the group goes on
        tensor = torch.ones(3, device=device)
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [2] * 3, tensor
    return text


class UnlikeRanksTest(unittest.TestCase):
    def test_reductions(self):
        run_unlike_ranks(check_reductions)

    def test_copies(self):
        run_unlike_ranks(check_copies)

    def test_views(self):
        run_unlike_ranks(check_views)

    def test_keel_device_of_the_cpu_meets_cpu_tensors(self):
        run_unlike_ranks(check_copies, names=("cpu", "cpu"))

    def test_tensors_of_the_cpu_in_between(self):
        run_unlike_ranks(mix_with_cpu_tensors)

    def test_first_operation_may_be_polled(self):
        self.assertEqual(run_unlike_ranks(begin_by_polling), [[2, 2, 2]] * 2)

    def test_streams_are_ordered(self):
        self.assertEqual(run_unlike_ranks(order_with_streams), [2 * 90000 * 41] * 2)

    def test_memory_by_dlpack(self):
        self.assertEqual(run_unlike_ranks(exchange_dlpack), [[3] * 64] * 2)

    def test_mismatch_names_the_ranks_and_the_group_goes_on(self):
        for text, values in run_unlike_ranks(mismatch):
            self.assertRegex(text, "all_reduce.*rank [01]")
            self.assertEqual(values, [2] * 5)

    def test_ddp_trains_as_one_process(self):
        for options in ({"bucket_cap_mb": 0.02}, {"gradient_as_bucket_view": True}):
            wanted = losses_alone()
            for losses in run_unlike_ranks(train_ddp, options):
                for step, (loss, want) in enumerate(zip(losses, wanted, strict=True)):
                    self.assertAlmostEqual(loss, want, delta=1e-4, msg=f"step {step}")

    def test_ddp_with_buffers_and_unused_parameters(self):
        first, second = run_unlike_ranks(train_with_buffers)
        for name, values in first.items():
            for ours, theirs in zip(values, second[name], strict=True):
                self.assertAlmostEqual(ours, theirs, delta=1e-5, msg=name)

    def test_late_rank_is_not_taken_for_one_with_other_tensors(self):
        self.assertEqual(run_device_ranks(("cpu",) * 3, wait_for_the_cpu), [False] * 3)

    def test_ranks_that_never_call_are_named(self):
        self.assertRegex(run_device_ranks(("cpu",) * 3, call_none)[1],
                         "Timed out after 2000 ms: rank 0, rank 2 made no collective")

    def test_wait_for_the_ranks_tensors_can_be_ended(self):
        for how, wanted in (("abort", "DistBackendError: .*keel devices: .*abort"),
                            ("abort of the peer", "DistBackendError: .*keel devices: .*rank 0"),
                            ("destroy", "DistBackendError: .*the process group has ended"),
                            ("interrupt", "KeyboardInterrupt")):
            with self.subTest(how):
                text = run_device_ranks(("cpu", "cpu"), end_the_wait, how)[1]
                self.assertRegex(text, wanted)


if __name__ == "__main__":
    unittest.main()
