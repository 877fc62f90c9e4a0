# SPDX-License-Identifier: Apache-2.0
import unittest

import numpy as np

import keel
from devices_here import DEVICES, fails
from ranks import TIMEOUT, in_processes, in_threads


def ones(comm, count=1000, value=None, dtype=np.float32):
    value = comm.rank + 1 if value is None else value
    return keel.from_numpy(np.full(count, value, dtype), comm.device)


def every_collective(comm):
    """Returns what each collective left on this rank, as lists."""
    rank, world, device = comm.rank, comm.world, comm.device
    out = {}
    with keel.Stream(device) as stream:
        def keep(name, buffer):
            out[name] = buffer.numpy(stream).tolist()
        data = ones(comm, 4)
        comm.all_reduce(stream, data)
        keep("all_reduce", data)
        received = keel.empty(device, [4])
        comm.all_reduce(stream, ones(comm, 4), received, "max")
        keep("max", received)
        root = keel.empty(device, [4]) if rank == 1 else None
        comm.reduce(stream, ones(comm, 4), root, 1, "prod")
        if root is not None:
            keep("reduce", root)
        data = ones(comm, 3)
        comm.broadcast(stream, data, 1)
        keep("broadcast", data)
        gathered = keel.empty(device, [world * 2])
        comm.all_gather(stream, ones(comm, 2), gathered)
        keep("all_gather", gathered)
        counts = [1, 2]
        comm.all_gather(stream, ones(comm, counts[rank]), gathered.view([3]), counts=counts)
        keep("all_gather_v", gathered.view([3]))
        shard = keel.empty(device, [2])
        comm.reduce_scatter(stream, keel.from_numpy(np.arange(4, dtype=np.float32), device), shard)
        keep("reduce_scatter", shard)
        part = keel.empty(device, [counts[rank]])
        comm.reduce_scatter(stream, keel.from_numpy(np.arange(3, dtype=np.float32), device), part,
                            counts=counts)
        keep("reduce_scatter_v", part)
        sent = keel.from_numpy(np.arange(4, dtype=np.int64) + 10 * rank, device)
        exchanged = keel.empty(device, [4], "int64")
        comm.all_to_all(stream, sent, exchanged)
        keep("all_to_all", exchanged)
        # Rank 0 sends 1 to itself and 3 to rank 1; rank 1 sends 2 and 2.
        send_counts = [[1, 3], [2, 2]]
        receive_counts = [sends[rank] for sends in send_counts]
        received = keel.empty(device, [sum(receive_counts)], "int64")
        comm.all_to_all(stream, sent, received, send_counts=send_counts[rank],
                        receive_counts=receive_counts)
        keep("all_to_all_v", received)
        root = keel.empty(device, [world]) if rank == 0 else None
        comm.gather(stream, ones(comm, 1), root, 0)
        if root is not None:
            keep("gather", root)
        source = keel.from_numpy(np.float32([7, 8]), device) if rank == 0 else None
        single = keel.empty(device, [1])
        comm.scatter(stream, source, single, 0)
        keep("scatter", single)
        comm.barrier(stream)
        mine, theirs = ones(comm, 5), keel.empty(device, [5])
        with keel.group():
            comm.send(stream, mine, 1 - rank)
            comm.recv(stream, theirs, 1 - rank)
        keep("recv", theirs)
        data = ones(comm, 2)
        half = comm.premul_sum(0.5)
        comm.all_reduce(stream, data, reduction=half)
        comm.destroy_premul_sum(half)
        try:
            comm.destroy_premul_sum(half)
            raise AssertionError("a reduction was destroyed twice")
        except keel.Error as error:
            assert "none with a factor" in str(error), error
        keep("premul_sum", data)
    return out


EXPECTED = [
    {"all_reduce": [3] * 4, "max": [2] * 4, "broadcast": [2] * 3, "all_gather": [1, 1, 2, 2],
     "all_gather_v": [1, 2, 2], "reduce_scatter": [0, 2], "reduce_scatter_v": [0],
     "all_to_all": [0, 1, 10, 11], "all_to_all_v": [0, 10, 11], "gather": [1, 2], "scatter": [7],
     "recv": [2] * 5, "premul_sum": [1.5] * 2},
    {"all_reduce": [3] * 4, "max": [2] * 4, "reduce": [2] * 4, "broadcast": [2] * 3,
     "all_gather": [1, 1, 2, 2], "all_gather_v": [1, 2, 2], "reduce_scatter": [4, 6],
     "reduce_scatter_v": [2, 4], "all_to_all": [2, 3, 12, 13], "all_to_all_v": [1, 2, 3, 12, 13],
     "scatter": [8], "recv": [1] * 5, "premul_sum": [1.5] * 2},
]


def reduce_much(comm):
    with keel.Stream(comm.device) as stream:
        data = ones(comm, 1_000_000)
        comm.all_reduce(stream, data)
        array = data.numpy(stream)
    return float(array.min()), float(array.max())


def reduce_numpy(comm):
    array = np.full(100_000, comm.rank + 1, np.float32)
    with keel.Stream(comm.device) as stream:
        comm.all_reduce(stream, keel.from_dlpack(array))
    return float(array.min()), float(array.max())


class CollectiveTest(unittest.TestCase):
    def test_every_collective_among_two_threads(self):
        # Any two makes that are here, the CPU's twice where it is alone.
        devices = [DEVICES[0].name, DEVICES[-1].name]
        self.assertEqual(in_threads(devices, every_collective), EXPECTED)

    def test_every_collective_among_two_processes(self):
        devices = [DEVICES[0].name, DEVICES[-1].name]
        self.assertEqual(in_processes(devices, every_collective), EXPECTED)

    def test_large_reduction_among_threads(self):
        self.assertEqual(in_threads(["cpu:0"] * 3, reduce_much), [(6, 6)] * 3)

    def test_numpys_own_memory_is_reduced(self):
        self.assertEqual(in_threads(["cpu:0"] * 2, reduce_numpy), [(3, 3)] * 2)
        self.assertEqual(in_processes(["cpu:0"] * 2, reduce_numpy), [(3, 3)] * 2)

    def test_one_thread_drives_all_ranks(self):
        comms = keel.Communicator.all(["cpu:0", "cpu:0"])
        self.assertEqual([(comm.rank, comm.world) for comm in comms], [(0, 2), (1, 2)])
        streams = [keel.Stream(comm.device) for comm in comms]
        data = [ones(comm) for comm in comms]
        for comm, stream, each in zip(comms, streams, data):
            comm.all_reduce(stream, each, reduction="avg")
        for stream, each in zip(streams, data):
            self.assertTrue((each.numpy(stream) == 1.5).all())
        self.assertTrue(comms[0].explain())
        for comm in comms:
            comm.check()
            comm.finalize(TIMEOUT)

    def test_split_makes_parts(self):
        def run(comm):
            part = comm.split(comm.rank % 2, -comm.rank)
            none = comm.split(-1)
            twin = comm.duplicate()
            return part.rank, part.world, none, twin.world
        self.assertEqual(in_threads(["cpu:0"] * 4, run), [(1, 2, None, 4), (1, 2, None, 4),
                                                          (0, 2, None, 4), (0, 2, None, 4)])

    def test_buffers_of_a_group_are_kept_until_its_end(self):
        def run(comm):
            with keel.Stream(comm.device) as stream:
                received = [keel.empty(comm.device, [1000]) for _ in range(8)]
                sent = [ones(comm, 1000, i) for i in reversed(range(8))]
                with keel.group():
                    for each in received:
                        comm.send(stream, sent.pop(), 1 - comm.rank)  # nobody else has it
                        comm.recv(stream, each, 1 - comm.rank)
                return [float(each.numpy(stream).sum()) for each in received]
        self.assertEqual(in_threads(["cpu:0"] * 2, run), [[1000 * i for i in range(8)]] * 2)


class BadInputTest(unittest.TestCase):
    """Rank 0 passes something wrong; rank 1 learns of it at once."""

    def check(self, call, status, *words):
        def run(comm):
            stream = keel.Stream(comm.device)
            try:
                if comm.rank == 0:
                    call(comm, stream)
                else:
                    data = ones(comm, 4)
                    comm.all_reduce(stream, data)
                stream.synchronize(TIMEOUT)
            except keel.Error as error:
                return error.status, error.message
            return None
        ours, theirs = in_threads(["cpu:0"] * 2, run)
        self.assertIsNotNone(ours)
        self.assertEqual(ours[0], status, ours)
        for word in words:
            self.assertIn(word, ours[1])
        self.assertIsNotNone(theirs, "rank 1 has not learnt of it")
        self.assertEqual(theirs[0], "KEEL_RANK_FAILED", theirs)
        self.assertIn("rank 0", theirs[1])

    def test_two_dtypes(self):
        self.check(lambda comm, stream: comm.all_reduce(
            stream, ones(comm, 4), keel.empty("cpu:0", [4], "int32")),
            "KEEL_INVALID_ARGUMENT", "int32", "float32")

    def test_receive_of_another_size(self):
        self.check(lambda comm, stream: comm.all_reduce(
            stream, ones(comm, 4), keel.empty("cpu:0", [5])), "KEEL_INVALID_ARGUMENT", "5 elements")
        self.check(lambda comm, stream: comm.all_gather(
            stream, ones(comm, 4), keel.empty("cpu:0", [4])), "KEEL_INVALID_ARGUMENT", "8")

    def test_unknown_reduction(self):
        self.check(lambda comm, stream: comm.all_reduce(stream, ones(comm, 4), reduction="mean"),
                   "KEEL_INVALID_ARGUMENT", "mean", "avg")

    def test_counts_for_other_ranks(self):
        self.check(lambda comm, stream: comm.all_gather(
            stream, ones(comm, 4), keel.empty("cpu:0", [12]), counts=[4, 4, 4]),
            "KEEL_INVALID_ARGUMENT", "3 entries for 2 ranks")

    def test_strided_buffer(self):
        self.check(lambda comm, stream: comm.all_reduce(
            stream, keel.empty("cpu:0", [8]).view([4], strides=[2])), "KEEL_INVALID_ARGUMENT",
            "not dense")

    def test_closed_buffer(self):
        def call(comm, stream):
            data = ones(comm, 4)
            data.close()
            comm.all_reduce(stream, data)
        self.check(call, "KEEL_INVALID_ARGUMENT", "closed")

    def test_buffer_of_another_device(self):
        for device in DEVICES:
            if device.backend == "cpu":
                continue
            self.check(lambda comm, stream: comm.all_reduce(stream, keel.empty(device, [4])),
                       "KEEL_INVALID_ARGUMENT", device.name, "cpu:0")

    def test_root_that_is_none(self):
        self.check(lambda comm, stream: comm.broadcast(stream, ones(comm, 4), 2),
                   "KEEL_INVALID_ARGUMENT", "root")

    def test_missing_rank_times_out(self):
        def run(comm):
            if comm.rank == 1:
                return None
            comm.set_timeout(0.5)
            stream = keel.Stream(comm.device)
            data = keel.empty(comm.device, [4])
            with self.assertRaises(keel.Error) as caught:
                comm.recv(stream, data, 1)
                stream.synchronize(TIMEOUT)
            return caught.exception.status
        status, _ = in_threads(["cpu:0"] * 2, run)
        # Rank 1 leaves meanwhile, or not yet.
        self.assertIn(status, ("KEEL_TIMED_OUT", "KEEL_ABORTED"))

    def test_joining_alone_times_out(self):
        with fails(self, "KEEL_TIMED_OUT", "1"):
            keel.Communicator("cpu:0", 0, 2, keel.unique_id(), timeout=0.5)

    def test_arguments_of_joining(self):
        with fails(self, "KEEL_INVALID_ARGUMENT"):
            keel.Communicator("cpu:0", 2, 2, keel.unique_id(), timeout=TIMEOUT)
        with fails(self, "KEEL_INVALID_ARGUMENT"):
            keel.Communicator("cpu:0", 0, 1, "no id", timeout=TIMEOUT)
        with fails(self, "KEEL_INVALID_ARGUMENT"):
            keel.Communicator("cpu:0", 0, 1, "x" * 500, timeout=TIMEOUT)
        with self.assertRaises(TypeError):
            keel.Communicator("cpu:0", -1, 1, keel.unique_id(), timeout=TIMEOUT)

    def test_closed_communicator_is_refused(self):
        comm, = keel.Communicator.all(["cpu:0"])
        stream, data = keel.Stream("cpu:0"), ones(comm)
        comm.close()
        comm.close()
        for use in (lambda: comm.rank, lambda: comm.all_reduce(stream, data), comm.check,
                    lambda: comm.barrier(stream), comm.abort):
            with fails(self, "KEEL_INVALID_HANDLE", "closed"):
                use()

    def test_aborted_communicator_fails(self):
        comms = keel.Communicator.all(["cpu:0"] * 2)
        stream = keel.Stream("cpu:0")
        comms[0].all_reduce(stream, ones(comms[0]))
        comms[1].abort()
        with fails(self, "KEEL_ABORTED"):
            stream.synchronize(TIMEOUT)
        with fails(self, "KEEL_ABORTED"):
            comms[0].check()

    def test_shrink_goes_on_without_a_rank(self):
        def run(comm):
            if comm.rank == 2:
                comm.close()
                return None
            stream = keel.Stream(comm.device)
            try:
                comm.all_reduce(stream, ones(comm))
                stream.synchronize(TIMEOUT)
            except keel.Error:
                pass
            stream.recover(TIMEOUT)
            with comm.shrink(TIMEOUT) as left:
                data = ones(left)
                left.all_reduce(stream, data)
                return left.world, float(data.numpy(stream)[0])
        self.assertEqual(in_threads(["cpu:0"] * 3, run), [(2, 3.0), (2, 3.0), None])


if __name__ == "__main__":
    unittest.main()
