# SPDX-License-Identifier: Apache-2.0
"""Conversions between any two types on a keel device: by its kernels, with PyTorch's values. float64
to a 16-bit float has no value here that float32 between the two would round another way: Keel rounds
once."""

import itertools
import math
import unittest

from device_case import DTYPES, DeviceCase

import torch

import keel_torch

FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 0.999, -0.999, 2.5, -2.5, 126.9, -127.9, 254.75,
          32766.5, 65504.0, 65520.0, 2.0**24 - 0.5, 2.0**24 + 1, 2.0**31 - 128, -2.0**31, 2.0**53,
          2.0**53 + 2, 2.0**62, 1e300, -1e300, 1e-300, 1 + 2.0**-11, 1 + 2.0**-8, 1 + 2.0**-24)
INTEGERS = (0, 1, -1, 127, 128, -128, -129, 255, 256, 32768, -32769, 65535, 2**24 + 1, 2**24 + 3,
            -2**24 - 1, 2**31 - 1, 2**31, -2**31 - 1, 2**32 + 5, 2**53 + 1, 2**53 + 3,
            2**53 + 2**29 + 1, 2**63 - 1, -2**63)


def values(source, target):
    """Numbers of |source| that PyTorch defines in |target|."""
    if not source.is_floating_point:
        return torch.tensor(INTEGERS).to(source)
    x = torch.tensor(FLOATS, dtype=torch.float64).to(source)
    if target.is_floating_point or target == torch.bool:
        return x
    limits = torch.iinfo(torch.int32 if target == torch.uint8 else target)
    whole = x.double().trunc()
    # float64 rounds the largest int64 to the next number.
    return x[(whole >= limits.min) & (whole < float(limits.max))]


class CastsTest(DeviceCase):
    def test_hard_values_become_those_of_the_cpu(self):
        keel_torch.forbid_fallback(True)
        self.addCleanup(keel_torch.forbid_fallback, False)
        for source, target in itertools.product(DTYPES, DTYPES):
            x = values(source, target)
            with self.subTest(source=source, target=target):
                self.assert_as_on_cpu(lambda x: x.to(target), x)
                self.assert_as_on_cpu(lambda x: x[::2].to(target), x)
                self.assert_as_on_cpu(
                    lambda x: torch.zeros(len(x), 3, dtype=target, device=x.device).copy_(
                        x[:, None]), x)

    def test_empty_tensors_become_empty_ones(self):
        for source, target in itertools.product(DTYPES, DTYPES):
            self.assert_as_on_cpu(lambda x: x.to(target), torch.empty(3, 0, dtype=source))


class FallbackTest(DeviceCase):
    may_fall_back = True

    def test_a_type_without_kernels_is_a_fallback_of_the_copy(self):
        x = torch.arange(6.0, device=self.device)
        self.assert_same(x.to(torch.complex64), torch.arange(6.0).to(torch.complex64))
        self.assertEqual(keel_torch.fallbacks(), {"aten::copy_": 1})
        keel_torch.forbid_fallback(True)
        self.addCleanup(keel_torch.forbid_fallback, False)
        with self.assertRaisesRegex(NotImplementedError, "aten::copy_ has no kernel"):
            x.to(torch.complex64)
        # A move to the CPU needs no kernel.
        wide = torch.arange(6.0).to(torch.complex128).view(2, 3)
        self.assertTrue(torch.equal(wide.to(self.device).t()[:2].cpu(), wide.t()[:2]))


if __name__ == "__main__":
    unittest.main()
