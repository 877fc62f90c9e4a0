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

    def test_masks(self):
        x = [by_token(2, 4, 6, 8), by_token(2, 4, 9, 8), by_token(2, 4, 9, 8)]
        for shape in ((6, 9), (1, 9), (1, 6, 9), (4, 1, 9), (2, 1, 1, 9), (2, 1, 6, 9),
                      (1, 4, 6, 9), (2, 4, 6, 9)):
            with self.subTest(shape=shape):
                seen = torch.rand(shape) < 0.7
                self.check(*x, attn_mask=seen)
                self.check(*x, attn_mask=torch.randn(shape).masked_fill(~seen, -torch.inf))
                self.check(*x, attn_mask=torch.randn(shape), scale=0.3)
        one = [by_token(1, 6, 5, 8), by_token(1, 2, 5, 8), by_token(1, 2, 5, 8)]
        self.check(*one, attn_mask=torch.randn(6, 5, 5), enable_gqa=True)

    def test_masks_that_hide_all_keys(self):
        x = [by_token(2, 2, 6, 8) for _ in range(3)]
        seen = torch.rand(2, 1, 6, 6) < 0.5
        seen[0, 0, 2] = False
        self.check(*x, attn_mask=seen)
        # The lowest number in place of -infinity: the weights of such a query are equal.
        lowest = torch.zeros(2, 1, 6, 6).masked_fill(~seen, torch.finfo(torch.float32).min)
        self.check(*x, attn_mask=lowest)

    def test_masks_of_16_bits(self):
        x = [by_token(2, 2, 33, 32).bfloat16() for _ in range(3)]
        self.check(*x, attn_mask=torch.randn(2, 1, 33, 33).bfloat16(), tolerance=0.05)
        self.check(*x, attn_mask=torch.rand(33, 33) < 0.8, tolerance=0.05)

    def test_masks_that_are_views(self):
        x = [by_token(3, 2, 7, 8).to("keel") for _ in range(3)]
        row = torch.randn(3, 1, 1, 7, device="keel")
        mask = torch.randn(3, 2, 7, 12, device="keel")[..., 2:9]
        turned = torch.randn(7, 7, device="keel").T
        every_key = torch.randn(3, 2, 7, 1, device="keel").expand(3, 2, 7, 7)
        for view in (row.expand(3, 2, 7, 7), mask, turned, every_key):
            with Operators() as operators:
                got = scaled_dot_product_attention(*x, attn_mask=view)
            self.assertIn(FUSED, operators.names)
            want = scaled_dot_product_attention(*(each.cpu() for each in x), attn_mask=view.cpu())
            torch.testing.assert_close(got.cpu(), want, atol=1e-5, rtol=1e-5)

    def test_composed_with_gradients_of_masks_and_other_types(self):
        x = [by_token(2, 2, 6, 8) for _ in range(3)]
        gradients = {}
        for device in ("cpu", "keel"):
            mask = torch.linspace(-1, 1, 36).view(6, 6).to(device).requires_grad_()
            with Operators() as operators:
                out = scaled_dot_product_attention(*(each.to(device) for each in x),
                                                   attn_mask=mask)
            out.sum().backward()
            gradients[device] = mask.grad.cpu()
        self.assertNotIn(FUSED, operators.names)
        torch.testing.assert_close(gradients["keel"], gradients["cpu"], atol=1e-5, rtol=1e-5)
        self.check(*x, attn_mask=torch.randn(6, 1), is_fused=False)
        narrow = by_token(2, 2, 6, 4)
        self.check(x[0], x[1], narrow, is_fused=False)

    def check_dropout(self, query, key, value, p, **options):
        """The weights of a first call give the factors of a second one with the same seed."""
        tokens = key.shape[2]
        self.assertEqual(key.shape[3], tokens)  # values that are the unit matrix

        def run(value, dropout):
            torch.manual_seed(9)
            given = [x.to("keel").requires_grad_() for x in (query, key, value)]
            on_device = {name: x.to("keel") if isinstance(x, torch.Tensor) else x
                         for name, x in options.items()}
            with Operators() as operators:
                out = scaled_dot_product_attention(*given, dropout_p=dropout, **on_device)
            self.assertIn(FUSED, operators.names)
            return out, given

        unit = torch.eye(tokens).expand(*key.shape[:2], -1, -1).contiguous()
        weights = run(unit, 0)[0].detach().cpu()
        dropped = run(unit, p)[0].detach().cpu()
        kept = dropped != 0
        torch.testing.assert_close(dropped, weights * kept / (1 - p), atol=1e-6, rtol=1e-6)
        share = kept.sum().item() / (weights != 0).sum().item()
        self.assertTrue(abs(share - (1 - p)) < 0.15, share)

        out, ours = run(value, p)
        gradient = torch.randn(out.shape)
        out.backward(gradient.to("keel"))
        theirs = [x.detach().clone().requires_grad_() for x in (query, key, value)]
        groups = query.shape[1] // key.shape[1]
        keys, values = (x.repeat_interleave(groups, 1) for x in theirs[1:])
        scores = theirs[0] @ keys.transpose(2, 3) / key.shape[3] ** 0.5
        if options.get("is_causal"):
            seen = torch.ones(query.shape[2], tokens, dtype=torch.bool).tril()
            scores = scores.masked_fill(~seen, -torch.inf)
        scores = scores + options.get("attn_mask", 0)
        want = (scores.softmax(-1) * kept / (1 - p)) @ values
        want.backward(gradient)
        for got, expected in zip((out, *(x.grad for x in ours)),
                                 (want, *(x.grad for x in theirs))):
            torch.testing.assert_close(got.cpu(), expected, atol=2e-5, rtol=2e-5)

    def test_dropout_and_its_gradient(self):
        x = [by_token(2, 4, 14, 14) for _ in range(3)]
        self.check_dropout(*x, p=0.25)
        self.check_dropout(*x, p=0.5, is_causal=True)
        self.check_dropout(*x, p=0.25, attn_mask=torch.randn(2, 1, 14, 14))
        grouped = [by_token(1, 4, 9, 13), by_token(1, 2, 13, 13), by_token(1, 2, 13, 13)]
        self.check_dropout(*grouped, p=0.25, enable_gqa=True)

    def test_dropout_draws_from_the_generator(self):
        x = [by_token(2, 2, 7, 8).to("keel") for _ in range(3)]

        def run(dropout):
            return scaled_dot_product_attention(*x, dropout_p=dropout).cpu()

        torch.manual_seed(3)
        first, second = run(0.5), run(0.5)
        torch.manual_seed(3)
        before = torch.keel.get_rng_state()
        plain = run(0.0)
        self.assertTrue(torch.equal(torch.keel.get_rng_state(), before))
        again = run(0.5)
        # 2 heads of 14 queries, and 14 keys: four counters a row.
        counters = torch.keel.get_rng_state()[8:].view(torch.int64) - before[8:].view(torch.int64)
        self.assertEqual(counters.item(), 2 * 14 * 4)
        self.assertTrue(torch.equal(first, again))
        self.assertFalse(torch.equal(first, second))
        self.assertFalse(torch.equal(first, plain))

    def test_dropout_of_all_weights(self):
        x = [by_token(2, 2, 7, 8).to("keel") for _ in range(3)]
        with Operators() as operators:
            out = scaled_dot_product_attention(*x, dropout_p=1.0)
        self.assertNotIn(FUSED, operators.names)
        self.assertTrue(torch.equal(out.cpu(), torch.zeros(2, 2, 7, 8)))

    def test_expanded_and_sliced(self):
        key = by_token(1, 2, 7, 8).expand(3, -1, -1, -1)
        self.check(by_token(3, 2, 7, 8), key, key)
        packed = torch.randn(2, 7, 3, 2, 8)
        self.check(*(packed[:, :, i].transpose(1, 2) for i in range(3)), is_causal=True)


if __name__ == "__main__":
    unittest.main()
