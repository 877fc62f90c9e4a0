# SPDX-License-Identifier: Apache-2.0
"""The tests' devices, and tests that fail where an operator falls back to the CPU.

Imported before Keel starts: keel:0 and keel:1 are two devices of the CPU, whose memory the host
cannot read and has equal addresses. KEEL_DEVICES=cpu,vulkan names others.
"""

import os
import unittest

os.environ.setdefault("KEEL_DEVICES", "cpu:0,cpu:1")
os.environ.setdefault("KEEL_CPU_DEVICES", "2")
os.environ.setdefault("KEEL_CPU_GUARD", "1")

import torch

import keel_torch

torch.set_num_threads(1)

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
          torch.int16, torch.int8, torch.uint8, torch.bool)


class DeviceCase(unittest.TestCase):
    """A test that falls back to the CPU fails, unless may_fall_back."""
    may_fall_back = False

    def setUp(self):
        keel_torch.reset_fallbacks()
        self.device = torch.device("keel:0")
        self.there = torch.device("keel:1")

    def tearDown(self):
        if not self.may_fall_back:
            self.assertEqual(keel_torch.fallbacks(), {})

    def assert_same(self, ours, theirs, **limits):
        """|ours|, of keel:0, has the elements of |theirs|, of the CPU."""
        self.assertEqual(ours.device, self.device)
        torch.testing.assert_close(ours.cpu(), theirs, equal_nan=True,
                                   **(limits or {"rtol": 0, "atol": 0}))

    def assert_as_on_cpu(self, function, *tensors, **limits):
        """|function| on the device returns, and writes to |tensors|, the same as on the CPU."""
        ours = [tensor.to(self.device) for tensor in tensors]
        theirs = [tensor.clone() for tensor in tensors]
        result, expected = function(*ours), function(*theirs)
        if isinstance(expected, torch.Tensor):
            result, expected = [result], [expected]
        for our, their in zip((*ours, *result), (*theirs, *expected), strict=True):
            self.assert_same(our, their, **limits)
