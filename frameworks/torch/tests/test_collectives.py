# SPDX-License-Identifier: Apache-2.0
"""Every collective, type and size, against what one process computes from all ranks' inputs."""

import functools
import operator
import unittest

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from ranks import add_rank_tests

INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
COPIED = INTEGERS + FLOATS + COMPLEX + [torch.bool, torch.uint16, torch.float8_e4m3fn]
SIZES = [0, 1, 7, 1000, 100003]
LARGE = 3000001
OPS = {
    dist.ReduceOp.SUM: operator.add,
    dist.ReduceOp.PRODUCT: operator.mul,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}


def values(rank, size, dtype, salt=0):
    """Small whole numbers, whose sums and products over four ranks are exact in every type."""
    number = torch.arange(size, dtype=torch.int64) * (2 * rank + 3) + rank + salt
    return (number % 4 if dtype != torch.bool else number % 2).to(dtype)


def expect(got, wanted, *what):
    if got.dtype.itemsize == 1 or got.dtype == torch.uint16:
        same = torch.equal(got.contiguous().view(-1).view(torch.uint8),
                           wanted.contiguous().view(-1).view(torch.uint8))
    else:
        same = torch.equal(got, wanted)
    if not same:
        raise AssertionError(f"{what}: {got.flatten()[:8]} for {wanted.flatten()[:8]}")


def sizes_of(dtype, large=LARGE):
    return SIZES + ([large] if dtype in (torch.float32, torch.bfloat16) else [])


def reduced(op, inputs):
    return functools.reduce(OPS[op], inputs)


def check_reductions(rank, world):
    for dtype in INTEGERS + FLOATS + COMPLEX + [torch.bool]:
        for size in sizes_of(dtype):
            inputs = [values(r, size, dtype) for r in range(world)]
            for op in OPS:
                bitwise = op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)
                if bitwise and dtype not in INTEGERS + [torch.bool]:
                    continue
                if dtype in COMPLEX and op != dist.ReduceOp.SUM:
                    continue
                if dtype == torch.bool and op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX):
                    continue  # torch.minimum has no bool of its own
                wanted = reduced(op, inputs)
                tensor = inputs[rank].clone()
                dist.all_reduce(tensor, op)
                expect(tensor, wanted, "all_reduce", op, dtype, size)
                root = size % world
                tensor = inputs[rank].clone()
                dist.reduce(tensor, root, op)
                if rank == root:
                    expect(tensor, wanted, "reduce", op, dtype, size)
    for dtype in FLOATS:
        tensor = torch.full((1000,), float(rank + 1), dtype=dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        expect(tensor, torch.full((1000,), (world + 1) / 2, dtype=dtype), "avg", dtype)
        tensor = torch.ones(1000, dtype=dtype)
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
        expect(tensor, torch.full((1000,), world / 2, dtype=dtype), "premul", dtype)
    # A factor that is not a number, among others.
    for factor in (0.25, float("nan"), 0.5, float("nan"), 0.25, 2.0):
        tensor = torch.ones(3)
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
        wanted = torch.full((3,), factor * world)
        assert torch.equal(tensor.nan_to_num(-1), wanted.nan_to_num(-1)), (factor, tensor)


def check_many_factors(rank, world):
    """More factors than a communicator has at a time."""
    group = [dist.new_group([r]) for r in range(world)][rank]
    tensor = torch.empty(1)
    for number in range(66000):
        group.allreduce([tensor.fill_(2)], dist._make_nccl_premul_sum(number / 8)).wait()
    assert tensor.item() == 2 * number / 8


def check_reduce_scatter(rank, world):
    for dtype in INTEGERS + FLOATS:
        for size in sizes_of(dtype, LARGE // world):
            inputs = [values(r, size * world, dtype) for r in range(world)]
            for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
                wanted = reduced(op, inputs)[rank * size:(rank + 1) * size]
                output = torch.empty(size, dtype=dtype)
                dist.reduce_scatter_tensor(output, inputs[rank], op)
                expect(output, wanted, "reduce_scatter_tensor", op, dtype, size)
                output = torch.empty(size, dtype=dtype)
                pieces = [piece.clone() for piece in inputs[rank].split(size)] if size else [
                    torch.empty(0, dtype=dtype)] * world
                dist.reduce_scatter(output, pieces, op)
                expect(output, wanted, "reduce_scatter", op, dtype, size)
    # Parts of several sizes.
    parts = [values(rank, 10 * (r + 1), torch.float32, r) for r in range(world)]
    output = torch.empty(10 * (rank + 1))
    dist.reduce_scatter(output, parts)
    expect(output, sum(values(r, 10 * (rank + 1), torch.float32, rank) for r in range(world)),
           "uneven reduce_scatter")


def check_copies(rank, world):
    for dtype in COPIED:
        for size in sizes_of(dtype):
            inputs = [values(r, size, dtype) for r in range(world)]
            root = size % world
            tensor = inputs[rank].clone()
            dist.broadcast(tensor, root)
            expect(tensor, inputs[root], "broadcast", dtype, size)

            outputs = [torch.empty(size, dtype=dtype) for _ in range(world)]
            dist.all_gather(outputs, inputs[rank])
            for r in range(world):
                expect(outputs[r], inputs[r], "all_gather", dtype, size)
            whole = torch.empty(world * size, dtype=dtype)
            dist.all_gather_into_tensor(whole, inputs[rank])
            for r in range(world):
                expect(whole[r * size:(r + 1) * size], inputs[r], "all_gather_into_tensor", dtype)
            if size:
                whole = torch.zeros(world * size, dtype=torch.float32).to(dtype)
                own = whole[rank * size:(rank + 1) * size]
                own.copy_(inputs[rank])
                dist.all_gather_into_tensor(whole, own)
                for r in range(world):
                    expect(whole[r * size:(r + 1) * size], inputs[r], "all_gather in place", dtype)

            outputs = [torch.empty(size, dtype=dtype) for _ in range(world)]
            dist.gather(inputs[rank], outputs if rank == root else None, root)
            for r in range(world if rank == root else 0):
                expect(outputs[r], inputs[r], "gather", dtype, size)
            output = torch.empty(size, dtype=dtype)
            pieces = [values(root, size, dtype, r) for r in range(world)]
            dist.scatter(output, pieces if rank == root else None, root)
            expect(output, pieces[rank], "scatter", dtype, size)

            outputs = [torch.empty(size, dtype=dtype) for _ in range(world)]
            dist.all_to_all(outputs, [values(rank, size, dtype, r) for r in range(world)])
            for r in range(world):
                expect(outputs[r], values(r, size, dtype, rank), "all_to_all", dtype, size)


def check_uneven(rank, world):
    # Rank r sends (r + 1) * (to + 2) rows of 3 to rank |to|.
    sends = [(rank + 1) * (to + 2) for to in range(world)]
    receives = [(r + 1) * (rank + 2) for r in range(world)]
    source = torch.arange(sum(sends) * 3.0).view(-1, 3) + 1000 * rank
    output = torch.empty(sum(receives), 3)
    dist.all_to_all_single(output, source, receives, sends)
    for r, got in enumerate(output.split(receives)):
        theirs = [(r + 1) * (to + 2) for to in range(world)]
        all_rows = torch.arange(sum(theirs) * 3.0).view(-1, 3) + 1000 * r
        expect(got, all_rows.split(theirs)[rank], "all_to_all_single", r)
    # Nothing for rank 0, and nothing from it.
    sends = [0 if to == 0 or rank == 0 else 5 for to in range(world)]
    output = torch.zeros(sum(sends))
    dist.all_to_all_single(output, torch.full((sum(sends),), float(rank)), sends, sends)
    for r, got in enumerate(output.split(sends)):
        expect(got, torch.full((sends[r],), float(r)), "all_to_all_single with zeros", r)
    outputs = [torch.empty(r + 1) for r in range(world)]
    dist.all_gather(outputs, torch.full((rank + 1,), float(rank)))
    for r in range(world):
        expect(outputs[r], torch.full((r + 1,), float(r)), "uneven all_gather")


def check_views(rank, world):
    base = torch.arange(60.0).view(6, 10)
    total = world * base
    for name, view in {"transposed": lambda t: t.t(), "strided": lambda t: t[::2, ::3],
                       "offset": lambda t: t[2:4], "column": lambda t: t[:, 3],
                       "scalar": lambda t: t[1, 1]}.items():
        tensor = base.clone()
        dist.all_reduce(view(tensor))
        expect(view(tensor), view(total), name)
        rest = tensor.clone()
        view(rest).copy_(view(base))
        expect(rest, base, name, "the rest of the tensor")
        tensor = base.clone() + rank
        dist.broadcast(view(tensor), 1)
        expect(view(tensor), view(base + 1), name, "broadcast")
        output = torch.zeros(world, 12, 20)[:, ::2, ::2]
        dist.all_gather(list(output), base + rank)
        for r in range(world):
            expect(output[r], base + r, "all_gather to views")
    parameter = torch.nn.Parameter(torch.full((3,), float(rank)))
    dist.broadcast(parameter.data, 1)
    expect(parameter.data, torch.ones(3), "parameter")


def check_functional(rank, world):
    """What compiled code and DTensor call: results are new tensors, and inputs stay."""
    group = dist.group.WORLD
    for size in (1, 7, 100003):
        inputs = [values(r, size * world, torch.float32) for r in range(world)]
        own = inputs[rank].clone()
        total = functional.all_reduce(own, "sum", group)
        gathered = torch.ops._c10d_functional.all_gather_into_tensor(own, world, group.group_name)
        part = torch.ops._c10d_functional.reduce_scatter_tensor(own, "max", world,
                                                                group.group_name)
        exchanged = functional.all_to_all_single(own, None, None, group)
        sent = functional.broadcast(own, 1, group)
        both = functional.all_reduce_coalesced([own, own + 1], "sum", group)
        wait = functional.wait_tensor
        pieces = [one.split(size) for one in inputs]
        # Waits in another order than that of the calls.
        expect(wait(sent), inputs[1], "functional broadcast", size)
        expect(wait(exchanged), torch.cat([pieces[r][rank] for r in range(world)]),
               "functional all_to_all_single", size)
        expect(wait(part), reduced(dist.ReduceOp.MAX, [pieces[r][rank] for r in range(world)]),
               "functional reduce_scatter", size)
        expect(wait(gathered), torch.cat(inputs), "functional all_gather", size)
        expect(wait(total), sum(inputs), "functional all_reduce", size)
        expect(wait(both[0]), sum(inputs), "functional all_reduce_coalesced", size)
        expect(wait(both[1]), sum(inputs) + world, "functional all_reduce_coalesced", size)
        expect(own, inputs[rank], "input of functional collectives", size)


def check_objects(rank, world):
    gathered = [None] * world
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank})
    assert gathered == [{"rank": r, "text": "x" * r} for r in range(world)], gathered
    objects = [[rank], "second"]
    dist.broadcast_object_list(objects, 1)
    assert objects == [[1], "second"], objects


def check_messages(rank, world):
    following, former = (rank + 1) % world, (rank - 1) % world
    for size in SIZES + [LARGE]:
        # Both sides send before they receive, and tags are received in another order.
        first, second = values(rank, size, torch.int32), values(rank, size, torch.int32, 1)
        works = [dist.isend(first, following, tag=5), dist.isend(second, following, tag=9)]
        got_second, got_first = torch.empty_like(second), torch.empty_like(first)
        dist.recv(got_second, former, tag=9)
        dist.recv(got_first, former, tag=5)
        for work in works:
            work.wait()
        expect(got_first, values(former, size, torch.int32), "tag 5", size)
        expect(got_second, values(former, size, torch.int32, 1), "tag 9", size)
    received = torch.zeros(4, 6)[:, ::2]
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, torch.full((4, 3), float(rank)).t().contiguous().t(), following),
        dist.P2POp(dist.irecv, received, former),
    ])
    for work in works:
        work.wait()
    expect(received, torch.full((4, 3), float(former)), "batch_isend_irecv")
    # A collective between a send and its receive.
    work = dist.isend(torch.ones(100000), following)
    dist.barrier()
    received = torch.zeros(100000)
    dist.recv(received, former)
    work.wait()
    expect(received, torch.ones(100000), "across a barrier")


def check_errors(rank, world):
    def refused(text, function, *arguments, **options):
        try:
            function(*arguments, **options)
        except (RuntimeError, ValueError) as error:
            assert text in str(error), f"no '{text}' in: {error}"
            return
        raise AssertionError(f"not refused: {text}")

    refused("an output of type Long", dist.all_gather_into_tensor,
            torch.empty(world, dtype=torch.int64), torch.empty(1))
    refused("bool", dist.all_reduce, torch.ones(1, dtype=torch.bool), dist.ReduceOp.AVG)
    refused("integers", dist.all_reduce, torch.ones(1), dist.ReduceOp.BAND)
    refused("complex", dist.all_reduce, torch.ones(1, dtype=torch.complex64), dist.ReduceOp.MAX)
    refused("from any rank", dist.recv, torch.empty(1))
    refused("add up", dist.all_to_all_single, torch.empty(9), torch.empty(9), [1] * world,
            [1] * world)
    dist.barrier()  # the group goes on
    # A mismatch names the odd rank, and the group goes on.
    try:
        dist.all_reduce(torch.ones(3 if rank == 0 else 4))
        raise AssertionError("ranks with different sizes got a sum")
    except RuntimeError as error:
        assert "all_reduce" in str(error) and f"rank {rank}" in str(error), error
    tensor = torch.ones(5)
    dist.all_reduce(tensor)
    expect(tensor, torch.full((5,), float(world)), "after a mismatch")


class CollectivesTest(unittest.TestCase):
    """Each check above, with 2 and with 4 ranks."""


add_rank_tests(CollectivesTest, {name[6:]: function for name, function in list(globals().items())
                                 if name.startswith("check_")})


if __name__ == "__main__":
    unittest.main()
