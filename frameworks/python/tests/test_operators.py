# SPDX-License-Identifier: Apache-2.0
import inspect
import re
import unittest

import numpy as np

import keel
from devices_here import DEVICES, OTHERS, TIMEOUT, each_device, fails


def on(device, values, dtype=np.float32):
    return keel.from_numpy(np.asarray(values, dtype), device)


class OperatorTest(unittest.TestCase):
    @each_device
    def test_matmul_multiplies(self, device):
        rng = np.random.default_rng(1)
        a = rng.standard_normal((5, 7), dtype=np.float32)
        b = rng.standard_normal((7, 3), dtype=np.float32)
        c = keel.empty(device, (5, 3))
        with keel.Stream(device) as stream:
            keel.ops.matmul(stream, a=on(device, a), b=on(device, b), c=c, alpha=2.0)
        np.testing.assert_allclose(c.numpy(), 2 * (a @ b), rtol=1e-5, atol=1e-5)

    @each_device
    def test_attributes_of_every_kind_arrive(self, device):
        with keel.Stream(device) as stream:
            y = keel.empty(device, (3,), "int32")
            keel.ops.fill(stream, y=y, value=7)
            self.assertEqual(y.numpy(stream).tolist(), [7, 7, 7])
            x = on(device, [-1, 0, 2])
            for form in ("tanh", "erf", 0, 1):
                z = keel.empty(device, (3,))
                keel.ops.gelu(stream, x=x, y=z, form=form)
                np.testing.assert_allclose(z.numpy(stream), [-0.159, 0, 1.954], atol=1e-3)
            index, rows = on(device, [3, 1], np.int32), keel.empty(device, (2, 4))
            keel.ops.embedding(stream, table=on(device, np.eye(4)), indices=index, out=rows)
            self.assertEqual(rows.numpy(stream).tolist(), [[0, 0, 0, 1], [0, 1, 0, 0]])

    @each_device
    def test_optional_inputs_may_be_left_out(self, device):
        optional = [name for name in keel.ops.__all__ if name != "explain" and any(
            parameter.default is None
            for parameter in inspect.signature(getattr(keel.ops, name)).parameters.values())]
        self.assertIn("matmul", optional)
        a = on(device, np.ones((2, 2)))
        bias, c = on(device, [1, 2]), keel.empty(device, (2, 2))
        with keel.Stream(device) as stream:
            keel.ops.matmul(stream, a=a, b=a, bias=bias, c=c)
            self.assertEqual(c.numpy(stream).tolist(), [[3, 4], [3, 4]])
            keel.ops.matmul(stream, a=a, b=a, c=c)
            self.assertEqual(c.numpy(stream).tolist(), [[2, 2], [2, 2]])

    def test_every_operator_is_documented_and_hinted(self):
        for name in keel.ops.__all__:
            function = getattr(keel.ops, name)
            self.assertGreater(len(function.__doc__), 40, name)
            for parameter in inspect.signature(function).parameters.values():
                self.assertIsNot(parameter.annotation, parameter.empty, (name, parameter))

    def test_explain_lists_the_kernels(self):
        a, c = on("cpu:0", np.ones((2, 2))), keel.empty("cpu:0", (2, 2))
        text = keel.ops.explain("cpu:0", keel.ops.matmul, a=a, b=a, c=c)
        self.assertRegex(text, re.compile("cpu"))

    def test_fallbacks_are_counted(self):
        self.assertGreaterEqual(keel.fallback_count(), 0)
        keel.forbid_fallback()
        keel.forbid_fallback(False)


class BadInputTest(unittest.TestCase):
    def setUp(self):
        self.stream = keel.Stream("cpu:0")
        self.a = on("cpu:0", np.ones((2, 2)))
        self.c = keel.empty("cpu:0", (2, 2))

    def tearDown(self):
        self.stream.synchronize(TIMEOUT)

    def test_unknown_operator_and_attribute(self):
        with self.assertRaisesRegex(AttributeError, "matmull"):
            keel.ops.matmull
        with self.assertRaisesRegex(TypeError, "'alfa'"):
            keel.ops.matmul(self.stream, a=self.a, b=self.a, c=self.c, alfa=2)
        with self.assertRaisesRegex(TypeError, "'c'"):
            keel.ops.matmul(self.stream, a=self.a, b=self.a)

    def test_attributes_of_another_kind(self):
        with self.assertRaises((TypeError, ValueError)):
            keel.ops.scale(self.stream, x=self.a, y=self.c, alpha="two")
        with self.assertRaisesRegex(ValueError, "tanh, erf"):
            keel.ops.gelu(self.stream, x=self.a, y=self.c, form="sigmoid")
        with fails(self, "KEEL_INVALID_ARGUMENT", "form"):
            keel.ops.gelu(self.stream, x=self.a, y=self.c, form=2)
        with self.assertRaises(TypeError):
            keel.ops.dropout_add(self.stream, x=self.a, y=self.c, seed=1.5)
        with self.assertRaises(OverflowError):
            keel.ops.dropout_add(self.stream, x=self.a, y=self.c, seed=2**70)

    def test_wrong_dtype_and_shape_name_the_tensor(self):
        with fails(self, "KEEL_INVALID_ARGUMENT", "matmul"):
            keel.ops.matmul(self.stream, a=self.a, b=self.a, c=keel.empty("cpu:0", (2, 2), "int8"))
        with fails(self, "KEEL_INVALID_ARGUMENT", "matmul"):
            keel.ops.matmul(self.stream, a=self.a, b=self.a, c=keel.empty("cpu:0", (3, 2)))

    def test_what_is_no_buffer(self):
        with self.assertRaisesRegex(TypeError, "ndarray"):
            keel.ops.scale(self.stream, x=np.ones(4, np.float32), y=self.c)
        with self.assertRaises(TypeError):
            keel.ops.scale("cpu:0", x=self.a, y=self.c)

    def test_tensors_of_two_devices(self):
        for device in OTHERS:
            with self.subTest(device=device.name):
                other = keel.empty(device, (2, 2))
                with fails(self, "KEEL_INVALID_ARGUMENT", "input 1", device.name, "cpu:0"):
                    keel.ops.matmul(self.stream, a=self.a, b=other, c=self.c)
                with fails(self, "KEEL_INVALID_ARGUMENT", "output 0", device.name, "cpu:0"):
                    keel.ops.matmul(self.stream, a=self.a, b=self.a, c=other)

    def test_two_devices_may_have_equal_addresses(self):
        # Whatever the addresses are, the device decides.
        for first in DEVICES:
            for second in DEVICES:
                x, stream = on(first, [1, 2]), keel.Stream(second)
                if first == second:
                    keel.ops.scale(stream, x=x, y=x)
                    stream.synchronize(TIMEOUT)
                    continue
                with fails(self, "KEEL_INVALID_ARGUMENT", first.name, second.name):
                    keel.ops.scale(stream, x=x, y=x)


if __name__ == "__main__":
    unittest.main()
