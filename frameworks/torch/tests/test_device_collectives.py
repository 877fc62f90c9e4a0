# SPDX-License-Identifier: Apache-2.0
"""Every collective and message of keel tensors, against what the CPU computes from all ranks'
inputs."""

import unittest

import torch
import torch.distributed as dist

from device_ranks import add_device_tests
from test_collectives import OPS, expect, reduced, values

REDUCED = [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64, torch.uint8,
           torch.float64]
COPIED = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64,
          torch.float8_e4m3fn]
SIZES = [0, 1, 7, 100003]


def check_reductions(rank, world, device):
    for dtype in REDUCED:
        for size in SIZES:
            inputs = [values(r, size, dtype) for r in range(world)]
            for op in OPS:
                bitwise = op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)
                if bitwise and dtype.is_floating_point:
                    continue
                wanted = reduced(op, inputs)
                tensor = inputs[rank].to(device, copy=True)
                dist.all_reduce(tensor, op)
                expect(tensor.cpu(), wanted, "all_reduce", op, dtype, size)
            root = size % world
            tensor = inputs[rank].to(device, copy=True)
            dist.reduce(tensor, root)
            if rank == root:
                expect(tensor.cpu(), sum(inputs), "reduce", dtype, size)
            inputs = [values(r, size * world, dtype) for r in range(world)]
            wanted = sum(inputs)[rank * size:(rank + 1) * size]
            output = torch.empty(size, dtype=dtype, device=device)
            dist.reduce_scatter_tensor(output, inputs[rank].to(device, copy=True))
            expect(output.cpu(), wanted, "reduce_scatter_tensor", dtype, size)
            output = torch.empty(size, dtype=dtype, device=device)
            dist.reduce_scatter(output, list(inputs[rank].to(device, copy=True).view(world, size)))
            expect(output.cpu(), wanted, "reduce_scatter", dtype, size)
    for dtype in (torch.bool, torch.complex64):
        inputs = [values(r, 1000, dtype) for r in range(world)]
        tensor = inputs[rank].to(device, copy=True)
        dist.all_reduce(tensor)
        expect(tensor.cpu(), sum(inputs[1:], inputs[0]), "all_reduce", dtype)
    for dtype in (torch.float32, torch.bfloat16):
        tensor = torch.full((1000,), float(rank + 1), dtype=dtype, device=device)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        expect(tensor.cpu(), torch.full((1000,), (world + 1) / 2, dtype=dtype), "avg", dtype)
        for factor in (0.5, torch.tensor(0.5, device=device)):
            tensor = torch.ones(1000, dtype=dtype, device=device)
            dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
            expect(tensor.cpu(), torch.full((1000,), world / 2, dtype=dtype), "premul", dtype)
    tensors = [torch.full((n,), float(rank), device=device) for n in (1, 100, 50000)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for tensor in tensors:
        assert tensor.cpu().unique().tolist() == [sum(range(world))]


def check_copies(rank, world, device):
    def empty(*shape, dtype=torch.float32):
        return torch.empty(*shape, dtype=dtype, device=device)

    for dtype in COPIED:
        for size in SIZES:
            inputs = [values(r, size, dtype) for r in range(world)]
            own, root = inputs[rank].to(device, copy=True), size % world
            tensor = own.clone()
            dist.broadcast(tensor, root)
            expect(tensor.cpu(), inputs[root], "broadcast", dtype, size)

            outputs = [empty(size, dtype=dtype) for _ in range(world)]
            dist.all_gather(outputs, own)
            whole = empty(world * size, dtype=dtype)
            dist.all_gather_into_tensor(whole, own)
            expect(whole.cpu(), torch.cat(inputs), "all_gather_into_tensor", dtype, size)
            for r in range(world):
                expect(outputs[r].cpu(), inputs[r], "all_gather", dtype, size)

            outputs = [empty(size, dtype=dtype) for _ in range(world)]
            dist.gather(own, outputs if rank == root else None, root)
            for r in range(world if rank == root else 0):
                expect(outputs[r].cpu(), inputs[r], "gather", dtype, size)
            output = empty(size, dtype=dtype)
            pieces = [values(root, size, dtype, r) for r in range(world)]
            dist.scatter(output, [piece.to(device, copy=True) for piece in pieces] if rank == root else None,
                         root)
            expect(output.cpu(), pieces[rank], "scatter", dtype, size)

            outputs = [empty(size, dtype=dtype) for _ in range(world)]
            dist.all_to_all(outputs, [values(rank, size, dtype, r).to(device, copy=True)
                                      for r in range(world)])
            for r in range(world):
                expect(outputs[r].cpu(), values(r, size, dtype, rank), "all_to_all", dtype, size)
    sends = [(rank + 1) * (to + 2) for to in range(world)]
    receives = [(r + 1) * (rank + 2) for r in range(world)]
    source = torch.arange(sum(sends) * 3.0).view(-1, 3) + 1000 * rank
    output = empty(sum(receives), 3)
    dist.all_to_all_single(output, source.to(device, copy=True), receives, sends)
    for r, got in enumerate(output.cpu().split(receives)):
        theirs = [(r + 1) * (to + 2) for to in range(world)]
        all_rows = torch.arange(sum(theirs) * 3.0).view(-1, 3) + 1000 * r
        expect(got, all_rows.split(theirs)[rank], "all_to_all_single", r)
    outputs = [empty(r + 1) for r in range(world)]
    dist.all_gather(outputs, torch.full((rank + 1,), float(rank), device=device))
    for r in range(world):
        expect(outputs[r].cpu(), torch.full((r + 1,), float(r)), "uneven all_gather")


def check_views(rank, world, device):
    base = torch.arange(60.0).view(6, 10)
    for name, view in {"transposed": lambda t: t.t(), "strided": lambda t: t[::2, ::3],
                       "offset": lambda t: t[2:4], "scalar": lambda t: t[1, 1]}.items():
        tensor = base.to(device, copy=True)
        dist.all_reduce(view(tensor))
        wanted = base.clone()
        view(wanted).mul_(world)
        expect(tensor.cpu(), wanted, name)
        tensor = (base + rank).to(device, copy=True)
        dist.broadcast(view(tensor), 1)
        wanted = base + rank
        view(wanted).copy_(view(base + 1))
        expect(tensor.cpu(), wanted, name, "broadcast")
    output = torch.zeros(world, 12, 20, device=device)[:, ::2, ::2]
    dist.all_gather(list(output), (base + rank).to(device, copy=True))
    for r in range(world):
        expect(output[r].cpu(), base + r, "all_gather to views")


def check_order(rank, world, device):
    """Collectives run after the caller's stream, and what follows a wait runs after them."""
    side = torch.Stream(device=device)
    for stream in (None, side):
        with stream or torch.keel.stream(None):
            tensor = torch.full((1000, 1000), float(rank), device=device)
            for _ in range(20):
                tensor = tensor + 1
            work = dist.all_reduce(tensor, async_op=True)
            work.wait()
            total = tensor.sum() * 2
            wanted = 2e6 * (sum(range(world)) + 20 * world)
            assert total.item() == wanted, (total.item(), wanted)
    # Works that nobody keeps, and whose tensors nobody keeps.
    for _ in range(20):
        dist.all_reduce(torch.ones(300000, device=device), async_op=True)
    works = [dist.all_reduce(torch.full((1000,), float(i), device=device), async_op=True)
             for i in range(20)]
    for i in reversed(range(20)):
        works[i].wait()
        assert works[i].is_completed() and works[i].is_success()
        assert works[i].result()[0].cpu().unique().tolist() == [world * i]
    # Callbacks of futures use the result; the future's value is on the device.
    tensor = torch.ones(200000, device=device)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert doubled.wait().cpu().unique().tolist() == [2 * world]
    work = dist.all_reduce(tensor, async_op=True)
    while not work.is_completed():
        pass
    assert work.get_future().wait()[0].cpu().unique().tolist() == [world * world]
    # Tensors of the CPU, objects and barriers in between.
    on_cpu = torch.ones(5)
    dist.all_reduce(on_cpu)
    assert on_cpu.tolist() == [world] * 5
    gathered = [None] * world
    dist.all_gather_object(gathered, rank)
    assert gathered == list(range(world))
    dist.barrier()
    # A group that is made later, and one that ends.
    for _ in range(3):
        group = dist.new_group()
        tensor = torch.ones(7, device=device)
        dist.all_reduce(tensor, group=group)
        assert tensor.cpu().tolist() == [world] * 7
        dist.destroy_process_group(group)


def check_messages(rank, world, device):
    peer = 1 - rank
    for size in SIZES:
        first, second = (values(rank, size, torch.int32, salt).to(device, copy=True) for salt in (0, 1))
        works = [dist.isend(first, peer, tag=5), dist.isend(second, peer, tag=9)]
        got_second, got_first = torch.empty_like(second), torch.empty_like(first)
        dist.recv(got_second, peer, tag=9)
        dist.recv(got_first, peer, tag=5)
        for work in works:
            work.wait()
        expect(got_first.cpu(), values(peer, size, torch.int32), "tag 5", size)
        expect(got_second.cpu(), values(peer, size, torch.int32, 1), "tag 9", size)
    received = torch.zeros(4, 6, device=device)[:, ::2]
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, torch.full((4, 3), float(rank), device=device) + 1, peer),
        dist.P2POp(dist.irecv, received, peer),
    ])
    for work in works:
        work.wait()
    expect(received.cpu(), torch.full((4, 3), float(peer + 1)), "batch_isend_irecv")
    # A message of the CPU's memory beside those of the device.
    received = torch.zeros(3)
    work = dist.isend(torch.full((3,), float(rank)), peer)
    dist.recv(received, peer)
    work.wait()
    expect(received, torch.full((3,), float(peer)), "of the CPU")


def check_errors(rank, world, device):
    def refused(text, function, *arguments, **options):
        try:
            function(*arguments, **options)
        except (RuntimeError, ValueError) as error:
            assert text in str(error), f"no '{text}' in: {error}"
            return
        raise AssertionError(f"not refused: {text}")

    on_device = torch.ones(2, device=device)
    dist.all_reduce(on_device)
    mixed = [on_device, torch.ones(2)]
    refused("all_gather: tensors of keel:0 and of cpu in one call", dist.all_gather, mixed,
            on_device)
    refused("all_gather: tensors of cpu and of keel:0 in one call", dist.all_gather_into_tensor,
            torch.ones(2 * world), on_device)
    refused("in one call", dist.all_to_all, mixed, [on_device, on_device])
    # A mismatch names the odd rank, and the group goes on.
    try:
        dist.all_reduce(torch.ones(3 if rank == 0 else 4, device=device))
        raise AssertionError("ranks with different sizes got a sum")
    except RuntimeError as error:
        assert "all_reduce" in str(error) and f"rank {rank}" in str(error), error
    tensor = torch.ones(5, device=device)
    dist.all_reduce(tensor)
    expect(tensor.cpu(), torch.full((5,), float(world)), "after a mismatch")


class DeviceCollectivesTest(unittest.TestCase):
    """Each check above, with two ranks."""


add_device_tests(DeviceCollectivesTest, {name[6:]: function
                                         for name, function in list(globals().items())
                                         if name.startswith("check_")})


if __name__ == "__main__":
    unittest.main()
