# SPDX-License-Identifier: Apache-2.0
"""Tensors of keel devices: copies, devices, fallback, generators, streams, files, DLPack."""

import io
import os
import unittest

# The CPU twice: two devices of PyTorch whose memory may have equal addresses.
os.environ["KEEL_DEVICES"] = "cpu,cpu"

import torch

import keel_torch

torch.set_num_threads(1)


class DeviceTensorsTest(unittest.TestCase):
    def test_copies_keep_elements_and_strides(self):
        x = torch.randn(4, 6)
        for view in (x, x.t(), x[1:, ::2], x[:0], torch.tensor(3)):
            moved = view.to("keel")
            self.assertEqual(moved.device, torch.device("keel:0"))
            self.assertTrue(moved.cpu().equal(view))
            self.assertTrue(moved.to("keel:1").cpu().equal(view))
        self.assertTrue(x.to("keel").t()[1:, ::2].cpu().equal(x.t()[1:, ::2]))
        self.assertTrue(x.to("keel").to(torch.int64).cpu().equal(x.to(torch.int64)))

    def test_two_devices_in_one_operator_raise(self):
        one, other = torch.ones(2, 2, device="keel:0"), torch.ones(2, 2, device="keel:1")
        for operator in (torch.add, torch.mm, torch.fmod, torch.hypot):
            with self.assertRaisesRegex(RuntimeError, "keel:0 and keel:1"):
                operator(one, other)
        with self.assertRaisesRegex(RuntimeError, "same device"):
            one + torch.ones(2, 2)

    def test_missing_device_is_named(self):
        with self.assertRaisesRegex(RuntimeError, r"no device keel:7; there are keel:0 \(cpu:0\)"):
            torch.empty(1, device="keel:7")

    def test_fallback_is_named_counted_and_forbidden(self):
        x = torch.rand(3, device="keel")
        keel_torch.reset_fallbacks()
        self.assertTrue(torch.allclose(x.erfinv().cpu(), x.cpu().erfinv()))
        self.assertEqual(keel_torch.fallbacks(), {"aten::erfinv": 1})
        keel_torch.forbid_fallback()
        self.addCleanup(keel_torch.forbid_fallback, False)
        with self.assertRaisesRegex(NotImplementedError, "aten::erfinv.*keel:0.*forbid_fallback"):
            x.erfinv()

    def test_generator_repeats_by_seed_and_state(self):
        torch.manual_seed(3)
        first = torch.rand(10, device="keel").cpu()
        state = torch.keel.get_rng_state()
        second = torch.randn(10, device="keel").cpu()
        torch.keel.set_rng_state(state)
        self.assertTrue(torch.randn(10, device="keel").cpu().equal(second))
        torch.manual_seed(3)
        self.assertTrue(torch.rand(10, device="keel").cpu().equal(first))
        generator = torch.Generator(device="keel").manual_seed(3)
        self.assertTrue(torch.rand(10, device="keel", generator=generator).cpu().equal(first))

    def test_event_orders_two_streams(self):
        stream = torch.Stream(device="keel:0")
        x = torch.full((1 << 16,), 2.0, device="keel")
        event = torch.Event(device="keel")
        event.record()
        with stream:
            stream.wait_event(event)
            y = x * 3
        stream.synchronize()
        self.assertEqual(y.cpu().sum().item(), 6.0 * (1 << 16))

    def test_checkpoint_is_loaded_on_either_device(self):
        x = torch.randn(5, device="keel:0")
        file = io.BytesIO()
        torch.save({"x": x}, file)
        for place in (None, "cpu", "keel:1"):
            file.seek(0)
            loaded = torch.load(file, map_location=place)["x"]
            self.assertEqual(loaded.device, torch.device(place or "keel:0"))
            self.assertTrue(loaded.cpu().equal(x.cpu()))

    def test_dlpack_shares_memory(self):
        x = torch.zeros(4, device="keel")
        y = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
        y.fill_(1)
        self.assertEqual(x.cpu().tolist(), [1, 1, 1, 1])
        self.assertEqual(y.device, x.device)

    def test_nan_and_empty_tensors(self):
        x = torch.tensor([1.0, float("nan"), 3.0])
        y = x.to("keel")
        self.assertTrue(y.max().isnan().item() and (y + 1).sum().isnan().item())
        empty = torch.empty(0, 3, device="keel")
        self.assertEqual(empty.sum().item(), 0)
        self.assertEqual((empty @ torch.ones(3, 2, device="keel")).shape, (0, 2))


if __name__ == "__main__":
    unittest.main()
