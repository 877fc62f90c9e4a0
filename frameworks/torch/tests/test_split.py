# SPDX-License-Identifier: Apache-2.0
"""Groups that PyTorch splits from one whose ranks have a device_id."""

import unittest

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from device_ranks import run_device_ranks
from ranks import TIMEOUT


def check_sum(group, rank, ranks, device):
    """Sums of keel tensors, of CPU tensors, and a message, in |group| of |ranks|."""
    for place in (device, torch.device("cpu")):
        tensor = torch.full((5,), float(rank), device=place)
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [sum(ranks)] * 5, (ranks, place, tensor)
    if rank == ranks[0]:
        dist.send(torch.full((3,), float(rank), device=device), ranks[1], group=group)
    elif rank == ranks[1]:
        tensor = torch.zeros(3, device=device)
        dist.recv(tensor, ranks[0], group=group)
        assert tensor.tolist() == [ranks[0]] * 3, tensor


def split_by_mesh(rank, world, device):
    dist.init_process_group("keel", device_id=device, timeout=TIMEOUT)
    mesh = init_device_mesh("keel", (2, 2), mesh_dim_names=("data", "tensor"))
    row, column = rank // 2, rank % 2
    check_sum(mesh.get_group("data"), rank, [column, column + 2], device)
    check_sum(mesh.get_group("tensor"), rank, [2 * row, 2 * row + 1], device)
    # One group of keel takes the tensors of both devices.
    group = mesh.get_group("data")
    assert group._get_backend(device) is group._get_backend(torch.device("cpu"))
    dist.barrier()  # rank 0 serves the store, by which first messages meet


def split_by_ranks(rank, world, device):
    dist.init_process_group("keel", device_id=device, timeout=TIMEOUT)
    for _ in range(2):  # the second time, the keys of the first are in the store
        for ranks in ([0, 1], [1, 2, 3]):
            group = dist.split_group(split_ranks=[ranks], timeout=TIMEOUT)
            if rank in ranks:
                check_sum(group, rank, ranks, device)
                dist.destroy_process_group(group)
            else:
                assert group is dist.GroupMember.NON_GROUP_MEMBER, group
            group = dist.new_group(ranks)
            if rank in ranks:
                check_sum(group, rank, ranks, device)
    dist.barrier()


def split_unlike_ranks(rank, world, device):
    """A rank with CPU tensors, and one with keel tensors, in a group that was split."""
    dist.init_process_group("keel", device_id=device, timeout=TIMEOUT)
    group = dist.split_group(split_ranks=[[0, 1]], timeout=TIMEOUT)
    tensor = torch.ones(5, device=device if rank else "cpu")
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [2] * 5, tensor


def drop_a_split(rank, world, device):
    """A group that nobody keeps ends, beside the group that it was split from."""
    dist.init_process_group("keel", device_id=device, timeout=TIMEOUT)
    parent = dist.distributed_c10d._get_default_group()
    group = parent.split_group([0, 1], TIMEOUT, group_name="dropped")
    if rank == 0:
        del group
    else:
        try:
            group.recv([torch.zeros(3)], 0, 0).wait()
            raise AssertionError("a message came from a rank that left")
        except RuntimeError as error:
            assert "left" in str(error), error
    dist.barrier()


class SplitTest(unittest.TestCase):
    def test_groups_of_a_mesh(self):
        run_device_ranks(("cpu",) * 4, split_by_mesh, backend=None)

    def test_groups_of_some_ranks(self):
        run_device_ranks(("cpu",) * 4, split_by_ranks, backend=None)

    def test_group_that_is_dropped(self):
        run_device_ranks(("cpu",) * 2, drop_a_split, backend=None)

    def test_unlike_tensors_meet(self):
        run_device_ranks(("cpu",) * 2, split_unlike_ranks, backend=None)


if __name__ == "__main__":
    unittest.main()
