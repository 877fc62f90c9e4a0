# SPDX-License-Identifier: Apache-2.0
"""Ranks that die, leave or abort, and what the others are told."""

import datetime
import os
import signal
import threading
import time
import unittest

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ranks import run_ranks


def die_in_backward(rank, world, how):
    class Dying(torch.autograd.Function):
        @staticmethod
        def forward(context, tensor):
            return tensor.clone()

        @staticmethod
        def backward(context, gradient):
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("a fault in backward")

    # Each linear layer is a bucket, so that some are summed when the rank dies.
    layers = [torch.nn.Linear(200, 200) for _ in range(4)]
    network = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.01)
    source = torch.randn(8, 200)
    network(source).sum().backward()
    if rank == world - 1:
        output = layers[3](layers[2](Dying.apply(layers[1](layers[0](source)))))
        hidden = network.module
        hidden.forward = lambda tensor: output
        network(source).sum().backward()
    begin = time.monotonic()
    try:
        network(source).sum().backward()
    except RuntimeError as error:
        return str(error), time.monotonic() - begin
    return "nothing was raised", 0


def die_in_collective(rank, world):
    dist.all_reduce(torch.ones(10))
    if rank == world - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    try:
        dist.all_reduce(torch.ones(100000))
    except RuntimeError as error:
        # The group is over: every later call says why, at once.
        try:
            dist.barrier()
        except RuntimeError as later:
            return str(error), str(later), time.monotonic() - begin
    return "nothing was raised", "", 0


def die_in_message(rank, world):
    tensor = torch.ones(100000)
    if rank == 2:
        dist.send(tensor, 1)
        os.kill(os.getpid(), signal.SIGKILL)
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:  # which serves the store
        store.wait(["over"])
        return "", 0
    dist.recv(tensor, 2)
    begin = time.monotonic()
    try:
        dist.recv(tensor, 2)
    except RuntimeError as error:
        return str(error), time.monotonic() - begin
    finally:
        store.set("over", "1")
    return "nothing was raised", 0


def late(function):
    """Rank 0 calls |function|, which the other ranks do not before it has failed."""
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() != 0:
        store.wait(["failed"])
        return ""
    try:
        function()
    except RuntimeError as error:
        return str(error)
    finally:
        store.set("failed", "1")
    return "nothing was raised"


def miss_a_deadline(rank, world):
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    dist.broadcast(torch.ones(10), 0, group=group)
    return late(lambda: dist.all_reduce(torch.ones(10), group=group))


def miss_the_deadline_of_one_operation(rank, world):
    group = dist.group.WORLD  # whose own is a minute
    second = datetime.timedelta(seconds=1)
    return late(lambda: group.allreduce([torch.ones(10)], timeout=second).wait())


def miss_the_deadline_after_a_longer_one(rank, world):
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    hour = datetime.timedelta(hours=1)
    group.allreduce([torch.ones(10)], timeout=hour).wait()
    return late(lambda: group.allreduce([torch.ones(10)]).wait())


def interrupt(rank, world):
    # A shell's background jobs inherit an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    dist.barrier()
    if rank == 1:
        # Interrupts itself in a collective that the other rank joins only later.
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            dist.all_reduce(torch.ones(10))
        except KeyboardInterrupt:
            dist.distributed_c10d._get_default_store().set("interrupted", "1")
            return "interrupted"
        return "not interrupted"
    dist.distributed_c10d._get_default_store().wait(["interrupted"])
    dist.all_reduce(torch.ones(10))
    return "done"


def interrupt_joining(rank, world, joining):
    """Rank |joining| interrupts itself while it waits for the other to join a group."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    store = dist.distributed_c10d._get_default_store()
    if rank != joining:
        store.wait(["interrupted"])
        return ""
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        dist.new_group(timeout=datetime.timedelta(seconds=20))
    except (RuntimeError, KeyboardInterrupt) as error:
        return type(error).__name__
    finally:
        store.set("interrupted", "1")
    return "nothing was raised"


def abort(rank, world):
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    dist.all_reduce(torch.ones(10))
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.wait(["summed"])  # else the abort may end the sum on the other rank
        backend.abort()
    else:
        store.set("summed", "1")
    try:
        dist.all_reduce(torch.ones(10))
    except RuntimeError as error:
        return str(error)
    return "nothing was raised"


class FailuresTest(unittest.TestCase):
    def test_rank_that_dies_in_backward_is_named(self):
        for how in ("kill", "raise"):
            for text, seconds in run_ranks(3, die_in_backward, how, may_die=[2])[:2]:
                self.assertIn("rank 2", text)
                self.assertIn("all_reduce", text)
                self.assertLess(seconds, 3)

    def test_rank_that_dies_in_a_collective_is_named(self):
        for text, later, seconds in run_ranks(3, die_in_collective, may_die=[2])[:2]:
            for said in (text, later):
                self.assertRegex(said, "KEEL_RANK_FAILED: .*rank 2 .*died")
            self.assertRegex(text, r"rank \d: all_reduce \(operation 1, 100000 x Float\)")
            self.assertIn("barrier", later)
            self.assertLess(seconds, 3)

    def test_rank_that_dies_in_a_message_is_named(self):
        text, seconds = run_ranks(3, die_in_message, may_die=[2])[1]
        self.assertRegex(text, r"rank 1: recv .*rank 2 \(cpu:0, process \d+\) died")
        self.assertLess(seconds, 3)

    def test_missing_rank_is_named_at_the_deadline(self):
        text = run_ranks(2, miss_a_deadline)[0]
        self.assertIn("KEEL_TIMED_OUT", text)
        self.assertIn("rank 1", text)
        self.assertIn("all_reduce", text)
        self.assertIn("Last operations: rank 0: all_reduce #1 failed; rank 1: broadcast #0 done",
                      text)

    def test_deadline_of_one_operation(self):
        for function in (miss_the_deadline_of_one_operation, miss_the_deadline_after_a_longer_one):
            with self.subTest(function.__name__):
                text = run_ranks(2, function)[0]
                self.assertIn("KEEL_TIMED_OUT", text)
                self.assertIn("rank 1", text)
                self.assertIn("Last operations: rank 0: all_reduce #", text)

    def test_interrupt_ends_a_wait(self):
        self.assertEqual(run_ranks(2, interrupt), ["done", "interrupted"])

    def test_interrupt_ends_joining_a_group(self):
        for joining in range(2):
            with self.subTest(joining=joining):
                self.assertEqual(run_ranks(2, interrupt_joining, joining)[joining],
                                 "KeyboardInterrupt")

    def test_abort_ends_the_group_on_all_ranks(self):
        for text in run_ranks(2, abort):
            self.assertIn("abort", text)


if __name__ == "__main__":
    unittest.main()
