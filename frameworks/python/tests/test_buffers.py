# SPDX-License-Identifier: Apache-2.0
import gc
import unittest
import weakref

import numpy as np

import keel
from devices_here import DEVICES, OTHERS, TIMEOUT, each_device, fails

try:
    import torch
except ImportError:
    torch = None

NUMPY_DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                "float32", "float64", "bool", "complex64", "complex128"]


class BufferTest(unittest.TestCase):
    @each_device
    def test_numpy_round_trip_keeps_every_dtype(self, device):
        for dtype in NUMPY_DTYPES:
            with self.subTest(dtype=dtype):
                array = np.arange(24).reshape(2, 3, 4).astype(dtype)
                buffer = keel.from_numpy(array, device)
                self.assertEqual((buffer.dtype, buffer.shape, buffer.strides),
                                 (dtype, (2, 3, 4), (12, 4, 1)))
                back = buffer.numpy()
                self.assertEqual(back.dtype, array.dtype)
                np.testing.assert_array_equal(back, array)

    @each_device
    def test_numpy_copies(self, device):
        array = np.arange(4, dtype=np.float32)
        buffer = keel.from_numpy(array, device)
        array[:] = 9
        copy = buffer.numpy()
        copy[:] = 8
        self.assertEqual(buffer.numpy().tolist(), [0, 1, 2, 3])

    @each_device
    def test_scalars_and_empty_tensors_have_their_shapes(self, device):
        self.assertEqual(keel.from_numpy(np.float32(3), device).numpy(), np.float32(3))
        empty = keel.from_numpy(np.zeros((2, 0, 3)), device)
        self.assertEqual((empty.shape, empty.size, empty.nbytes), ((2, 0, 3), 0, 0))
        self.assertEqual(empty.numpy().shape, (2, 0, 3))

    def test_strided_array_arrives_in_order(self):
        array = np.arange(24).reshape(4, 6)[::2, ::-3]
        np.testing.assert_array_equal(keel.from_numpy(array, "cpu:0").numpy(), array)

    def test_dtypes_are_named_as_in_numpy_and_torch(self):
        for given in ("float32", np.float32, np.dtype("float32")):
            self.assertEqual(keel.empty("cpu:0", [2], given).dtype, "float32")
        self.assertEqual(keel.empty("cpu:0", [2], "bfloat16").nbytes, 4)
        with fails(self, "KEEL_INVALID_ARGUMENT", "float33", "float32"):
            keel.empty("cpu:0", [2], "float33")

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_torch_dtypes_are_taken(self):
        self.assertEqual(keel.empty("cpu:0", [2], torch.bfloat16).dtype, "bfloat16")

    @each_device
    def test_kinds_of_memory(self, device):
        pinned = keel.empty(device, [4], "int32", memory="pinned")
        self.assertEqual(pinned.__dlpack_device__(), (1, 0))
        np.from_dlpack(pinned)[:] = 7
        self.assertEqual(pinned.numpy().tolist(), [7] * 4)
        with fails(self, "KEEL_INVALID_ARGUMENT", "shared"):
            keel.empty(device, [4], memory="shared")

    def test_impossible_shapes_are_refused(self):
        with fails(self, "KEEL_INVALID_ARGUMENT", "negative"):
            keel.empty("cpu:0", [2, -1])
        with fails(self, "KEEL_OUT_OF_RANGE"):
            keel.empty("cpu:0", [2**40, 2**40])
        with fails(self, "KEEL_INVALID_ARGUMENT", "rank 9"):
            keel.empty("cpu:0", [1] * 9)
        with self.assertRaises(TypeError):
            keel.empty("cpu:0", ["2"])

    def test_repr_has_dtype_shape_and_device(self):
        buffer = keel.empty("cpu:0", (2, 3))
        self.assertEqual(repr(buffer), "keel.Buffer(float32[2, 3] on cpu:0)")
        buffer.close()
        self.assertEqual(repr(buffer), "keel.Buffer(float32[2, 3], closed)")


class ViewTest(unittest.TestCase):
    @each_device
    def test_views_share_the_memory(self, device):
        buffer = keel.from_numpy(np.arange(12, dtype=np.int32), device)
        self.assertEqual(buffer.view((3, 4)).numpy().tolist(), np.arange(12).reshape(3, 4).tolist())
        self.assertEqual(buffer.view((2,), offset=10).numpy().tolist(), [10, 11])
        self.assertEqual(buffer.view((3,), strides=(4,), offset=1).numpy().tolist(), [1, 5, 9])
        transposed = buffer.view((3, 4)).permute([1, 0])
        self.assertEqual((transposed.shape, transposed.strides), ((4, 3), (1, 4)))
        np.testing.assert_array_equal(transposed.numpy(), np.arange(12).reshape(3, 4).T)
        rows = buffer.view((1, 4)).broadcast_to((2, 3, 4))
        self.assertEqual(rows.strides, (0, 0, 1))
        np.testing.assert_array_equal(rows.numpy(), np.broadcast_to(np.arange(4), (2, 3, 4)))

    def test_view_of_another_dtype_reads_the_bits(self):
        buffer = keel.from_numpy(np.float32([1, 2]), "cpu:0")
        self.assertEqual(buffer.view((2,), dtype="uint32").numpy().tolist(),
                         [0x3F800000, 0x40000000])
        self.assertEqual(buffer.view((4,), dtype="bfloat16").nbytes, 8)

    def test_views_beyond_the_memory_are_refused(self):
        buffer = keel.empty("cpu:0", (4,))
        for arguments in ({"shape": (5,)}, {"shape": (2,), "offset": 3}, {"shape": (2,), "offset": -1},
                          {"shape": (2,), "strides": (2**62,)}, {"shape": (2**62, 4)},
                          {"shape": (2,), "offset": 2**62}):
            with self.subTest(**arguments), fails(self, "KEEL_OUT_OF_RANGE"):
                buffer.view(**arguments)
        with fails(self, "KEEL_INVALID_ARGUMENT", "negative"):
            buffer.view((2,), strides=(-1,), offset=3)
        with fails(self, "KEEL_INVALID_ARGUMENT", "strides"):
            buffer.view((2, 2), strides=(1,))
        with fails(self, "KEEL_INVALID_ARGUMENT", "not dense"):
            buffer.view((2,), strides=(2,)).view((2,))
        with fails(self, "KEEL_INVALID_ARGUMENT", "broadcast_to"):
            buffer.broadcast_to((2, 3))
        for axes in ([0, 1], [1], [0, 0], []):
            with self.subTest(axes=axes), fails(self, "KEEL_INVALID_ARGUMENT", "permute"):
                buffer.permute(axes)
        with fails(self, "KEEL_INVALID_ARGUMENT", "aligned"):
            buffer.view((2,), dtype="uint8", offset=1).view((1,), dtype="float32")

    def test_numpy_of_a_dtype_that_it_lacks_is_refused(self):
        with fails(self, "KEEL_UNSUPPORTED", "bfloat16"):
            keel.empty("cpu:0", [2], "bfloat16").numpy()


class CloseTest(unittest.TestCase):
    def test_closed_memory_is_refused_in_every_view(self):
        buffer = keel.empty("cpu:0", (4,))
        view = buffer.view((2, 2))
        buffer.close()
        buffer.close()
        self.assertTrue(view.closed)
        stream = keel.Stream("cpu:0")
        for use in (buffer.numpy, view.numpy, lambda: view.view((4,)), lambda: view.address,
                    lambda: np.from_dlpack(view), lambda: stream.zero(view),
                    lambda: keel.ops.scale(stream, x=view, y=view)):
            with fails(self, "KEEL_INVALID_HANDLE", "closed"):
                use()

    def test_close_is_refused_while_numpy_shares_the_memory(self):
        buffer = keel.from_numpy(np.arange(3), "cpu:0")
        array = np.from_dlpack(buffer)
        with fails(self, "KEEL_FAILED_PRECONDITION", "1 arrays"):
            buffer.close()
        self.assertEqual(array.tolist(), [0, 1, 2])
        del array
        buffer.close()

    def test_with_closes(self):
        with keel.empty("cpu:0", (4,)) as buffer:
            self.assertFalse(buffer.closed)
        self.assertTrue(buffer.closed)


class DlpackTest(unittest.TestCase):
    def test_numpy_shares_the_memory_of_a_cpu_buffer(self):
        buffer = keel.from_numpy(np.arange(6, dtype=np.float32), "cpu:0").view((2, 3)).permute([1, 0])
        array = np.from_dlpack(buffer)
        self.assertEqual((array.shape, array.strides), ((3, 2), (4, 12)))
        array[2, 1] = 50
        self.assertEqual(buffer.numpy()[2, 1], 50)

    def test_array_keeps_the_memory_alive(self):
        array = np.from_dlpack(keel.from_numpy(np.arange(1000), "cpu:0"))
        gc.collect()
        others = [keel.from_numpy(np.zeros(1000, np.int64), "cpu:0") for _ in range(4)]
        self.assertEqual(array.sum(), 499500)
        del others

    def test_cpu_operators_run_in_numpys_memory(self):
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        buffer = keel.from_dlpack(array)
        self.assertEqual((buffer.device.name, buffer.shape), ("cpu:0", (2, 3)))
        self.assertEqual(buffer.address, array.ctypes.data)
        with keel.Stream("cpu:0") as stream:
            keel.ops.scale(stream, x=buffer, y=buffer, alpha=3.0)
        self.assertEqual(array.tolist(), [[0, 3, 6], [9, 12, 15]])

    def test_views_of_numpy_keep_their_strides(self):
        array = np.arange(24, dtype=np.int64).reshape(4, 6)[1::2, 2:5]
        buffer = keel.from_dlpack(array)
        self.assertEqual((buffer.shape, buffer.strides), ((2, 3), (12, 1)))
        np.testing.assert_array_equal(buffer.numpy(), array)

    def test_buffer_keeps_the_array_alive_and_no_longer(self):
        class Array(np.ndarray):
            pass
        array = np.arange(4.0).view(Array)
        alive = weakref.ref(array)
        buffer = keel.from_dlpack(array)
        del array
        gc.collect()
        self.assertIsNotNone(alive())
        buffer.close()
        del buffer
        gc.collect()
        self.assertIsNone(alive())

    def test_work_in_flight_keeps_the_array_alive(self):
        class Array(np.ndarray):
            pass
        array = np.arange(4, dtype=np.float32).view(Array)
        alive = weakref.ref(array)
        gate, stream = keel.Gate(), keel.Stream("cpu:0")
        stream.wait(gate)
        keel.ops.scale(stream, x=keel.from_dlpack(array), y=keel.from_dlpack(array), alpha=2.0)
        del array
        gc.collect()
        self.assertIsNotNone(alive())
        gate.open()
        stream.close()
        # Marked by Keel's callback thread, which close() does not wait for.
        marker = keel.Stream("cpu:0")
        for _ in range(int(TIMEOUT * 100)):
            if alive() is None:
                break
            marker.synchronize()
            import time
            time.sleep(0.01)
        self.assertIsNone(alive())

    @each_device
    def test_buffer_of_a_device_comes_back_by_dlpack(self, device):
        buffer = keel.from_numpy(np.arange(6, dtype=np.float32), device)
        again = keel.from_dlpack(buffer)
        self.assertEqual((again.device, again.address), (device, buffer.address))
        self.assertEqual(again.numpy().tolist(), [0, 1, 2, 3, 4, 5])

    def test_numpy_refuses_memory_that_the_host_cannot_reach(self):
        for device in OTHERS:
            with self.subTest(device=device.name), self.assertRaises((BufferError, RuntimeError)):
                np.from_dlpack(keel.empty(device, [2]))

    def test_host_memory_is_not_shared_with_another_device(self):
        for device in OTHERS:
            with self.subTest(device=device.name), fails(self, "KEEL_UNSUPPORTED", "from_numpy"):
                keel.from_dlpack(np.zeros(4), device=device)

    def test_what_is_no_array_is_refused(self):
        for given in (3, "text", None, [1, 2]):
            with self.subTest(given=given), self.assertRaises(TypeError):
                keel.from_dlpack(given)

    def test_constant_and_backward_arrays_are_refused(self):
        array = np.arange(4)
        with fails(self, "KEEL_UNSUPPORTED", "negative strides"):
            keel.from_dlpack(array[::-1])
        array.flags.writeable = False
        with fails(self, "KEEL_UNSUPPORTED", "from_numpy"):
            keel.from_dlpack(array)
        self.assertEqual(keel.from_numpy(array, "cpu:0").numpy().tolist(), [0, 1, 2, 3])

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_torch_shares_memory_both_ways(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool):
            with self.subTest(dtype=dtype):
                tensor = torch.arange(6).reshape(2, 3).to(dtype)
                buffer = keel.from_dlpack(tensor)
                self.assertEqual(buffer.address, tensor.data_ptr())
                again = torch.from_dlpack(buffer)
                self.assertEqual(again.data_ptr(), tensor.data_ptr())
                self.assertTrue(torch.equal(again, tensor))

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_torch_reads_a_buffer_and_keeps_it(self):
        tensor = torch.from_dlpack(keel.from_numpy(np.arange(6, dtype=np.float32), "cpu:0"))
        gc.collect()
        tensor += 1
        self.assertEqual(tensor.tolist(), [1, 2, 3, 4, 5, 6])


class DevicesTest(unittest.TestCase):
    def test_cpu_is_there(self):
        self.assertIn("cpu", [device.backend for device in DEVICES])


if __name__ == "__main__":
    unittest.main()
