# SPDX-License-Identifier: Apache-2.0
"""Attention on keel devices beside PyTorch's on the CPU, forward and backward."""

import unittest

from device_case import DeviceCase

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

FUSED = "aten._scaled_dot_product_fused_attention_overrideable"


class Operators(TorchDispatchMode):
    """The names of the operators that run within."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        self.names.add(str(function).removesuffix(".default"))
        return function(*arguments, **(keywords or {}))


def by_token(batch, heads, tokens, width):
    """As models make it: heads of a dense [batch, tokens, heads, width]."""
    return torch.randn(batch, tokens, heads, width).transpose(1, 2)


class DeviceAttentionTest(DeviceCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(5)

    def check(self, query, key, value, is_fused=True, tolerance=1e-5, **options):
        def results(device):
            given = [x.detach().to(device).requires_grad_() for x in (query, key, value)]
            on_device = {name: x.to(device) if isinstance(x, torch.Tensor) else x
                         for name, x in options.items()}
            with Operators() as operators:
                out = scaled_dot_product_attention(*given, **on_device)
            out.backward(gradient.to(device))
            return operators.names, [out, *(x.grad for x in given)]

        gradient = torch.randn(*query.shape[:3], value.shape[3]).to(query.dtype)
        names, ours = results("keel")
        self.assertEqual(FUSED in names, is_fused, names)
        for got, want in zip(ours, results("cpu")[1]):
            torch.testing.assert_close(got.cpu().float(), want.float(), atol=tolerance,
                                       rtol=tolerance)

    def test_layouts_and_lengths(self):
        for batch in (1, 3):
            for make in (by_token, torch.randn):
                for tokens in (1, 37):
                    x = [make(batch, 4, tokens, 16) for _ in range(3)]
                    with self.subTest(batch=batch, make=make, tokens=tokens):
                        self.check(*x)
                        self.check(*x, is_causal=True)
                        self.check(*x, scale=0.3)

    def test_keys_of_another_length(self):
        query, key, value = by_token(2, 2, 5, 8), by_token(2, 2, 11, 8), by_token(2, 2, 11, 8)
        self.check(query, key, value)
        # PyTorch's causal mask begins at the first key.
        self.check(query, key, value, is_causal=True, is_fused=False)

    def test_groups_of_heads(self):
        self.check(by_token(2, 6, 9, 8), by_token(2, 2, 9, 8), by_token(2, 2, 9, 8),
                   is_causal=True, enable_gqa=True)

    def test_bfloat16(self):
        x = [by_token(2, 2, 33, 32).bfloat16() for _ in range(3)]
        self.check(*x, is_causal=True, tolerance=0.05)

    def test_composed_with_masks_and_other_types(self):
        x = [by_token(2, 2, 6, 8) for _ in range(3)]
        self.check(*x, attn_mask=torch.rand(6, 6) < 0.8, is_fused=False)
        self.check(*x, attn_mask=torch.randn(2, 1, 6, 6), is_fused=False)
        narrow = by_token(2, 2, 6, 4)
        self.check(x[0], x[1], narrow, is_fused=False)

    def test_expanded_and_sliced(self):
        key = by_token(1, 2, 7, 8).expand(3, -1, -1, -1)
        self.check(by_token(3, 2, 7, 8), key, key)
        packed = torch.randn(2, 7, 3, 2, 8)
        self.check(*(packed[:, :, i].transpose(1, 2) for i in range(3)), is_causal=True)


if __name__ == "__main__":
    unittest.main()
