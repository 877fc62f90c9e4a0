# SPDX-License-Identifier: Apache-2.0
"""NaN, infinities and empty tensors through every family of operators of the device keel."""

import unittest
import warnings

from device_case import DeviceCase

import torch
from torch import nn

import keel_torch

SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -2.5, 1e-40,
                        3e38, 0.5])
CLOSE = {"rtol": 3e-6, "atol": 1e-6}

UNARY = ("neg abs sign floor ceil round trunc sqrt rsqrt reciprocal exp exp2 expm1 log log2 log1p "
         "tanh sigmoid relu erf isnan logical_not").split()
BINARY = ("add sub mul div maximum minimum eq ne lt le gt ge logical_and logical_or logical_xor "
          "atan2").split()
REDUCTIONS = {
    "sum": lambda x: x.sum(-1), "mean": lambda x: x.mean(-1), "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(-1), "argmax": lambda x: x.argmax(-1), "all": lambda x: x.all(-1),
    "argmin": lambda x: x.argmin(-1), "any": lambda x: x.any(-1), "prod": lambda x: x.prod(-1),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "abs_sum": lambda x: torch.linalg.vector_norm(x, 1, dim=-1),
    "abs_max": lambda x: torch.linalg.vector_norm(x, float("inf"), dim=-1),
    "max with index": lambda x: x.max(-1), "whole": lambda x: (x.sum(), x.mean()),
    "kept": lambda x: x.sum((0, 1), keepdim=True),
    "var": lambda x: (x.var(-1), x.var(), x.var((0, 1), correction=0, keepdim=True)),
    "std": lambda x: (x.std(-1), x.std(0)),
}
ROWS = {
    "softmax": lambda x: torch.softmax(x, -1), "log_softmax": lambda x: torch.log_softmax(x, -1),
    "layer_norm": lambda x: nn.functional.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: nn.functional.rms_norm(x, x.shape[-1:], eps=1e-5),
    "gelu": nn.functional.gelu, "silu": nn.functional.silu,
    "clamp": lambda x: x.clamp(-1, 2), "clamp_min": lambda x: x.clamp(min=0.25),
    "masked_fill": lambda x: x.masked_fill(x > 0, 7), "where": lambda x: torch.where(x > 0, x, -x),
    "lerp": lambda x: x.lerp(x.flip(0) if x.device.type == "cpu" else x.cpu().flip(0).to(x.device),
                             0.25),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x, x, value=0.5), "pow": lambda x: x.pow(2),
    "cat": lambda x: torch.cat((x, x), -1), "triu": torch.triu, "tril": torch.tril,
    "index_select": lambda x: x.index_select(
        0, torch.zeros(3, dtype=torch.int64, device=x.device)) if x.shape[0] else x.clone(),
    "gather": lambda x: x.gather(-1, torch.zeros(*x.shape[:-1], 1, dtype=torch.int64,
                                                 device=x.device)) if x.shape[-1] else x.clone(),
    "product": lambda x: x @ x.transpose(-1, -2),
    "threshold": lambda x: nn.functional.threshold(x, 0.25, 7),
    "threshold in place": lambda x: nn.functional.threshold_(x.clone(), 0.25, 7),
}


class SpecialTest(DeviceCase):
    def test_unary(self):
        for name in UNARY:
            for dtype in (torch.float32, torch.bfloat16, torch.float64):
                with self.subTest(name, dtype=dtype):
                    limits = CLOSE if dtype != torch.bfloat16 else {"rtol": 8e-3, "atol": 1e-6}
                    self.assert_as_on_cpu(getattr(torch, name), SPECIAL.to(dtype), **limits)

    def test_binary(self):
        a, b = SPECIAL[:, None], SPECIAL[None, :]
        for name in BINARY:
            with self.subTest(name):
                self.assert_as_on_cpu(getattr(torch, name), a, b, **CLOSE)

    def test_reductions(self):
        # Beside infinities nothing near the largest float: a sum's order is the device's.
        x = torch.stack([SPECIAL, SPECIAL.nan_to_num(1).clamp(-4, 4), SPECIAL.abs(),
                         torch.ones(10)])
        for name, function in REDUCTIONS.items():
            # PyTorch's CPU adds in float64 for variances alone, where 3e38 has a square.
            of = torch.where(x == 3e38, 3e18, x) if name in ("var", "std") else x
            with self.subTest(name):
                self.assert_as_on_cpu(function, of, **CLOSE)
                self.assert_as_on_cpu(function, of.view(2, 2, 10).transpose(0, 2), **CLOSE)

    def test_layer_norm_with_an_epsilon_below_0(self):
        # Rows of a variance above, at and below 0.5, and an epsilon that is no number.
        x = torch.tensor([[3.0, -1, 2, 0], [1, 1, 1, 1], [0.25, 0.5, 0.75, 1]])
        for dtype, limits in ((torch.float32, CLOSE), (torch.bfloat16, {"rtol": 2e-2,
                                                                        "atol": 2e-2})):
            for eps in (-0.5, float("nan")):
                for rows, count in ((1, 3), (3, 1), (3, 2), (3, 3)):
                    def gradients(*tensors, eps=eps):
                        inputs = [tensor.detach().requires_grad_() for tensor in tensors]
                        y = nn.functional.layer_norm(inputs[0], (4,), *inputs[1:], eps=eps)
                        return (y.detach(), *torch.autograd.grad(y.square().sum(), inputs))

                    tensors = (x[:rows], torch.linspace(1, 2, 4), torch.linspace(-1, 1, 4))
                    with self.subTest(dtype=dtype, eps=eps, rows=rows, count=count):
                        self.assert_as_on_cpu(
                            gradients, *[each.to(dtype) for each in tensors[:count]], **limits)

    def test_moments(self):
        x = torch.linspace(-3, 3, 24).view(2, 3, 4)
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            limits = CLOSE if dtype != torch.bfloat16 else {"rtol": 8e-3, "atol": 1e-3}
            for dims in (0, (0, 2), None):
                for correction in (0, 1, 1.5):
                    for function in (torch.var_mean, torch.std_mean):
                        self.assert_as_on_cpu(
                            lambda x: function(x, dims, correction=correction), x.to(dtype),
                            **limits)

    def test_rows(self):
        infinity = torch.tensor(float("inf"))
        x = torch.stack([SPECIAL, SPECIAL.nan_to_num(1).clamp(-4, 4), torch.ones(10),
                         torch.ones(10).index_fill(0, torch.tensor(3), infinity),
                         -infinity.expand(10)])
        for name, function in ROWS.items():
            with self.subTest(name):
                # Keel has the limits. PyTorch's CPU multiplies infinity by 0 and, on some
                # processors, overflows in gelu of 3e38.
                if name in ("gelu", "silu"):
                    limits = function(torch.stack([-infinity, infinity]).to(self.device))
                    self.assert_same(limits, torch.stack([torch.tensor(0.0), infinity]))
                    self.assert_as_on_cpu(function, x.clamp(-1e30, 1e30), **CLOSE)
                else:
                    self.assert_as_on_cpu(function, x, **CLOSE)

    def test_gradients(self):
        finite = torch.linspace(-3, 3, 24).view(2, 12)
        functions = {name: ROWS[name] for name in
                     ("softmax", "log_softmax", "layer_norm", "rms_norm", "gelu", "silu", "clamp",
                      "where", "addcmul", "pow", "index_select", "gather", "product", "cat")}
        functions.update(tanh=torch.tanh, sigmoid=torch.sigmoid, relu=torch.relu, exp=torch.exp,
                         sum=REDUCTIONS["sum"], mean=REDUCTIONS["mean"], amax=REDUCTIONS["amax"],
                         var=lambda x: x.var(-1), std=lambda x: x.std(0))

        for name, function in functions.items():
            def gradient(x, function=function):
                x = x.detach().requires_grad_()
                y = function(x)
                # Weights of the CPU, so that each element has a gradient of its own.
                weights = torch.arange(1.0, y.numel() + 1).view(y.shape).to(y.device)
                return torch.autograd.grad((y * weights).sum(), x)

            with self.subTest(name):
                self.assert_as_on_cpu(gradient, finite, rtol=1e-5, atol=2e-5)

    def test_attention_masks_of_minus_infinity(self):
        def attend(q, mask):
            return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)

        torch.manual_seed(1)
        q = torch.randn(2, 2, 5, 8)
        mask = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1) > 0, -float("inf"))
        self.assert_as_on_cpu(attend, q, mask, rtol=1e-5, atol=1e-6)
        self.assert_as_on_cpu(attend, q, mask == 0, rtol=1e-5, atol=1e-6)
        mask[2] = -float("inf")  # a query without a key
        self.assert_as_on_cpu(attend, q, mask, rtol=1e-5, atol=1e-6)
        self.assert_as_on_cpu(attend, q, mask == 0, rtol=1e-5, atol=1e-6)
        self.assert_as_on_cpu(
            lambda q: nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True),
            q.transpose(1, 2).contiguous().transpose(1, 2), rtol=1e-5, atol=1e-6)

    def test_losses_ignore_labels(self):
        def loss(x, labels):
            x = x.detach().requires_grad_()
            value = nn.functional.cross_entropy(x, labels, ignore_index=-1)
            return value.detach(), *torch.autograd.grad(value, x)

        x = torch.linspace(-2, 2, 20).view(5, 4)
        self.assert_as_on_cpu(loss, x, torch.tensor([0, -1, 3, 1, -1]), **CLOSE)
        self.assert_as_on_cpu(loss, x, torch.full((5,), -1), **CLOSE)
        x[1, 2] = float("nan")  # in an ignored row
        self.assert_as_on_cpu(loss, x, torch.tensor([0, -1, 3, 1, -1]), **CLOSE)
        self.assert_as_on_cpu(loss, x, torch.tensor([0, 2, 3, 1, -1]), **CLOSE)

    def test_indices(self):
        rows = torch.tensor([2, 0, 2])
        x = SPECIAL[:9].view(3, 3)
        self.assert_as_on_cpu(lambda x, i: nn.functional.embedding(i, x), x, rows)
        self.assert_as_on_cpu(lambda x, i: x.index_add(0, i[:2], x[:2]), x, rows)
        self.assert_as_on_cpu(lambda x, i: x.scatter(0, i.view(1, 3), x), x, rows)
        self.assert_as_on_cpu(lambda x, i: x[i], x, rows)

    def test_products(self):
        x = torch.ones(3, 3).index_put((torch.tensor(1), torch.tensor(2)),
                                       torch.tensor(float("nan")))
        self.assert_as_on_cpu(torch.mm, x, torch.ones(3, 4))
        self.assert_as_on_cpu(torch.bmm, x[None], torch.zeros(1, 3, 4))
        self.assert_as_on_cpu(torch.addmm, torch.full((4,), float("inf")), x, torch.ones(3, 4))


class EmptyTest(DeviceCase):
    SHAPES = ((0,), (0, 3), (2, 0), (0, 0))

    def each(self, functions, shapes=SHAPES):
        for name, function in functions.items():
            for shape in shapes:
                for dtype in (torch.float32, torch.bfloat16):
                    with self.subTest(name, shape=shape, dtype=dtype):
                        self.assert_as_on_cpu(function, torch.empty(shape, dtype=dtype))

    def test_elementwise(self):
        self.each({name: getattr(torch, name) for name in UNARY})
        self.each({name: lambda x, name=name: getattr(torch, name)(x, x) for name in BINARY})
        self.each({"number": lambda x: x * 2 + 1, "in place": lambda x: x.add_(x).mul_(2),
                   "cast": lambda x: x.to(torch.int64), "fill": lambda x: x.fill_(3)})

    def test_reductions(self):
        named = {name: REDUCTIONS[name] for name in ("sum", "mean", "all", "any", "prod", "norm",
                                                     "abs_sum", "whole")}
        named["var"] = lambda x: (x.var(-1), x.std())
        warnings.filterwarnings("ignore", "(var|std).*degrees of freedom")
        self.each(named)
        others = ("amax", "amin", "argmax", "argmin", "max with index")
        self.each({name: REDUCTIONS[name] for name in others}, ((0, 3),))
        for name in others:
            with self.subTest(name), self.assertRaises((IndexError, RuntimeError)):
                REDUCTIONS[name](torch.empty(2, 0, device=self.device))
        keel_torch.reset_fallbacks()  # the CPU refuses these

    def test_rows(self):
        self.each({name: function for name, function in ROWS.items()
                   if name not in ("triu", "tril", "layer_norm", "rms_norm", "product", "lerp")})
        self.each({name: ROWS[name] for name in ("triu", "tril", "product", "lerp")},
                  ((0, 3), (2, 0)))
        self.each({name: ROWS[name] for name in ("layer_norm", "rms_norm")})

    def test_gradients_of_layer_norm(self):
        def gradients(x, weight, bias):
            inputs = [tensor.detach().requires_grad_() for tensor in (x, weight, bias)]
            y = nn.functional.layer_norm(inputs[0], weight.shape, *inputs[1:])
            return torch.autograd.grad(y.sum(), inputs)

        for shape in self.SHAPES[1:]:
            x = torch.empty(shape)
            self.assert_as_on_cpu(gradients, x, torch.ones(x.shape[-1]), torch.ones(x.shape[-1]))

    def test_gradients_of_log_softmax(self):
        def gradient(x):
            x = x.detach().requires_grad_()
            return torch.autograd.grad(torch.log_softmax(x, -1).sum(), x)

        self.each({"log_softmax": gradient})

    def test_products_over_nothing_are_zero(self):
        self.assert_as_on_cpu(torch.mm, torch.empty(3, 0), torch.empty(0, 4))
        self.assert_as_on_cpu(torch.bmm, torch.empty(2, 3, 0), torch.empty(2, 0, 4))
        self.assert_as_on_cpu(nn.functional.linear, torch.empty(0, 3), torch.ones(2, 3),
                              torch.ones(2))
        self.assert_as_on_cpu(torch.addmm, torch.ones(4), torch.empty(3, 0), torch.empty(0, 4))

    def test_indices(self):
        none = torch.empty(0, dtype=torch.int64)
        self.assert_as_on_cpu(nn.functional.embedding, none.view(2, 0), torch.ones(3, 4))
        self.assert_as_on_cpu(lambda x, i: x.index_add(0, i, x[:0]), torch.ones(3, 4), none)
        self.assert_as_on_cpu(lambda x, i: x.scatter_add(0, i.view(0, 4), x), torch.ones(3, 4),
                              none)
        self.assert_as_on_cpu(lambda x, i: x.index_fill(0, i, 2), torch.ones(3, 4), none)

    def test_losses(self):
        labels = torch.empty(0, dtype=torch.int64)
        for reduction in ("mean", "sum", "none"):
            self.assert_as_on_cpu(
                lambda x, labels: nn.functional.cross_entropy(x, labels, reduction=reduction),
                torch.empty(0, 4), labels)
            self.assert_as_on_cpu(lambda x: nn.functional.mse_loss(x, x, reduction=reduction),
                                  torch.empty(0, 4))

    def test_attention(self):
        attend = nn.functional.scaled_dot_product_attention
        full, empty = torch.ones(2, 2, 5, 8), torch.ones(2, 2, 0, 8)
        self.assert_as_on_cpu(attend, empty, full, full)
        self.assert_as_on_cpu(attend, full, empty, empty)
        self.assert_as_on_cpu(attend, full[:0], full[:0], full[:0])

    def test_random_numbers(self):
        self.assert_as_on_cpu(lambda x: nn.functional.dropout(x.uniform_().normal_(), 0.5),
                              torch.empty(0, 3))
        self.assertEqual(torch.rand(2, 0, device=self.device).shape, (2, 0))


if __name__ == "__main__":
    unittest.main()
