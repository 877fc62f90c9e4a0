# SPDX-License-Identifier: Apache-2.0
"""Order of messages by tags, and the ends of waits for messages that never come."""

import datetime
import os
import signal
import threading
import unittest
import warnings

import torch
import torch.distributed as dist

from device_ranks import run_device_ranks
from ranks import TIMEOUT, run_ranks

# Longer than the tests' limit: only the event under test ends a wait.
HOUR = datetime.timedelta(hours=1)
SECOND = datetime.timedelta(seconds=1)


def store():
    return dist.distributed_c10d._get_default_store()


def failure_of(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except RuntimeError as error:
        return str(error)
    return "nothing was raised"


def receive_behind_another_tag(rank, world, device=torch.device("cpu")):
    """A receive of tag 1 waits; the message of tag 2, which has come before, is received behind it."""
    # In one packet, empty, and in two parts. A send of the former two may end before they come.
    for size in (3, 0, 50000):
        for stride in (1, 2):
            one, acknowledged = torch.zeros(1, device=device), torch.zeros(1, device=device)
            dist.barrier()
            if rank == 0:
                dist.isend(torch.full((size,), 2.0, device=device), 1, tag=2).wait()
                dist.send(one, 1, tag=3)
                dist.recv(acknowledged, 1)
                dist.send(one + 1, 1, tag=1)
            else:
                waiting = dist.irecv(one, 0, tag=1)
                dist.recv(acknowledged, 0, tag=3)  # comes behind the message of tag 2
                message = torch.zeros(stride * size, device=device)[::stride]
                dist.recv(message, 0, tag=2)
                dist.send(acknowledged, 0)
                waiting.wait()
                assert one.item() == 1
                assert message.tolist() == [2.0] * size, message


def receive_another_size_behind(rank, world):
    dist.barrier()
    if rank == 0:
        for size, tag in ((5, 2), (1, 3), (1, 1)):
            dist.send(torch.ones(size), 1, tag=tag)
        return ""
    waiting = dist.irecv(torch.zeros(1), 0, tag=1)
    dist.recv(torch.zeros(1), 0, tag=3)
    text = failure_of(dist.recv, torch.zeros(4), 0, tag=2)
    waiting.wait()
    return text


def wait_for_the_dead(rank, world, sends):
    """Rank 2 ends, and its first message to or from rank 1 never comes. Ranks 0 and 1 go on."""
    group = dist.new_group(timeout=HOUR)
    dist.barrier(group)
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    text = ""
    if rank == 1:
        text = failure_of(dist.send if sends else dist.recv, torch.ones(10), 2, group=group)
    tensor = torch.full((10,), float(rank))
    works = [dist.isend(tensor, 1 - rank, group=group), dist.irecv(tensor + 0, 1 - rank, group=group)]
    for work in works:
        work.wait()
    return text


def wait_for_one_that_left(rank, world):
    group = dist.new_group(timeout=HOUR)
    dist.barrier(group)
    if rank == 2:
        dist.destroy_process_group(group)
    text = failure_of(dist.recv, torch.ones(10), 2, group=group) if rank == 1 else ""
    dist.barrier()  # rank 0 serves the store
    return text


def wait_for_one_that_called_and_left(rank, world, sends):
    """Rank 1 leaves a call that rank 0 answers too late: nobody joins the pair."""
    group = dist.new_group(timeout=HOUR)
    dist.barrier(group)
    own, other = (dist.irecv, dist.send) if sends else (dist.isend, dist.recv)
    if rank == 0:
        store().wait(["left"], TIMEOUT)
        return failure_of(other, torch.ones(10), 1, group=group)
    work = own(torch.ones(10), 0, group=group)
    dist.destroy_process_group(group)
    store().set("left", "1")
    return failure_of(work.wait)


def send_and_leave(rank, world):
    """The message is in Keel's buffer when its sender leaves."""
    for _ in range(20):
        group = dist.new_group(timeout=HOUR)
        tensor = torch.full((3,), float(rank))
        if rank == 0:
            dist.send(tensor, 1, group=group)
        else:
            dist.recv(tensor, 0, group=group)
            assert tensor.tolist() == [0] * 3, tensor
        dist.destroy_process_group(group)
    dist.barrier()  # rank 0 serves the store


def wait_while_another_aborts(rank, world, is_first):
    """Rank 1 waits for rank 2's message, the first or a later one, when rank 0 aborts."""
    group = dist.new_group(timeout=HOUR)
    tensor = torch.ones(10)
    if rank == 2 and not is_first:
        dist.send(tensor, 1, group=group)
    if rank == 1:
        if not is_first:
            dist.recv(tensor, 2, group=group)
        work = dist.irecv(tensor, 2, group=group)
    dist.barrier()
    if rank == 0:
        group._get_backend(torch.device("cpu")).abort()
    text = failure_of(work.wait) if rank == 1 else ""
    dist.barrier()
    return text


def shorten_the_timeout(rank, world):
    """The new timeout counts for messages between ranks that have exchanged some."""
    group = dist.new_group(timeout=HOUR)
    tensor = torch.ones(10)
    if rank == 0:
        dist.send(tensor, 1, group=group)
        while not store().check(["failed"]):
            pass
        return ""
    dist.recv(tensor, 0, group=group)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch 2.14 has no other name for set_timeout
        dist.distributed_c10d._set_pg_timeout(SECOND, group)
    text = failure_of(dist.recv, tensor, 0, group=group)
    store().set("failed", "1")
    return text


def end_the_group_in_a_callback(rank, world):
    """The callback of a message drops the last reference to the lane that runs the callback."""
    groups = [dist.new_group(timeout=HOUR)]
    ended = threading.Event()
    tensor = torch.ones(10)

    def end(_):
        dist.destroy_process_group(groups.pop())
        ended.set()

    if rank == 0:
        dist.isend(tensor, 1, group=groups[0]).get_future().add_done_callback(end)
    else:
        dist.irecv(tensor, 0, group=groups[0]).get_future().add_done_callback(end)
    assert ended.wait(60)
    dist.barrier()


class MessagesTest(unittest.TestCase):
    def test_receive_behind_one_of_another_tag(self):
        run_ranks(2, receive_behind_another_tag)
        run_device_ranks(("cpu", "cpu"), receive_behind_another_tag)

    def test_message_of_another_size_that_came_early(self):
        self.assertIn("the message has 20 bytes, the tensor 16",
                      run_ranks(2, receive_another_size_behind)[1])

    def test_first_message_of_a_dead_rank(self):
        for sends in (False, True):
            with self.subTest(sends=sends):
                text = run_ranks(3, wait_for_the_dead, sends, may_die=[2])[1]
                self.assertRegex(text, r"rank 1: (send|recv) .*KEEL_RANK_FAILED: rank 2 .*died")

    def test_first_message_of_a_rank_that_left(self):
        self.assertRegex(run_ranks(3, wait_for_one_that_left)[1], "recv .*rank 2 .*left")

    def test_first_message_of_a_rank_that_left_before_its_peer_came(self):
        for sends in (False, True):
            with self.subTest(sends=sends):
                texts = run_ranks(2, wait_for_one_that_called_and_left, sends)
                self.assertRegex(texts[0], "(send|recv) .*rank 1 .*left")
                self.assertIn("the process group has ended", texts[1])

    def test_message_of_a_rank_that_leaves(self):
        run_ranks(2, send_and_leave)

    def test_abort_of_another_rank(self):
        for is_first in (True, False):
            with self.subTest(is_first=is_first):
                self.assertRegex(run_ranks(3, wait_while_another_aborts, is_first)[1],
                                 "recv .*rank 0 .*abort")

    def test_timeout_that_changes(self):
        self.assertRegex(run_ranks(2, shorten_the_timeout)[1], "recv .*KEEL_TIMED_OUT.*rank 0")

    def test_group_that_ends_in_a_callback(self):
        run_ranks(2, end_the_group_in_a_callback)


if __name__ == "__main__":
    unittest.main()
