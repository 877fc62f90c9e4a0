# SPDX-License-Identifier: Apache-2.0
"""Optimizer steps on keel devices: Adam and AdamW, fused into Keel's adamw, as on the CPU."""

import unittest

from device_case import DeviceCase

import torch
from torch import nn

import keel_torch

CLOSE = {"rtol": 2e-6, "atol": 1e-7}


class FusedTest(DeviceCase):
    def gradients(self, step):
        generator = torch.Generator().manual_seed(step)
        return [torch.randn(5, 4, generator=generator), torch.randn(3, generator=generator),
                torch.empty(0)]

    def trained(self, device, make, steps=3, scaler=None, **settings):
        """The parameters after some steps; one is a transpose, and one empty."""
        start = [torch.linspace(-1, 1, 20).view(4, 5), torch.ones(3), torch.empty(0)]
        start = [tensor.to(device) for tensor in start]
        parameters = [nn.Parameter(start[0].t()), *map(nn.Parameter, start[1:])]
        optimizer = make(parameters, lr=0.1, **settings)
        for step in range(steps):
            for parameter, gradient in zip(parameters, self.gradients(step)):
                parameter.grad = gradient.to(device)
            optimizer.step()
        return [parameter.detach() for parameter in parameters]

    def assert_trained_as_on_cpu(self, make, **settings):
        for ours, theirs in zip(self.trained("keel:0", make, fused=True, **settings),
                                self.trained("cpu", make, **settings)):
            self.assert_same(ours, theirs, **CLOSE)

    def test_fused_steps_are_those_of_cpu(self):
        for settings in ({}, {"weight_decay": 0.3, "betas": (0.5, 0.9), "eps": 1e-3},
                         {"maximize": True}, {"maximize": True, "weight_decay": 0.2}):
            for make in (torch.optim.AdamW, torch.optim.Adam):
                with self.subTest(make.__name__, **settings):
                    self.assert_trained_as_on_cpu(make, **settings)

    def test_learning_rate_may_be_a_tensor(self):
        for device in ("cpu", self.device):
            parameter = nn.Parameter(torch.ones(2, device=self.device))
            optimizer = torch.optim.AdamW([parameter], lr=torch.tensor(0.5, device=device),
                                          fused=True, weight_decay=0)
            parameter.grad = torch.ones(2, device=self.device)
            optimizer.step()
            self.assert_same(parameter.detach(), torch.full((2,), 0.5), rtol=1e-5, atol=1e-5)

    def test_amsgrad_falls_back(self):
        self.assert_trained_as_on_cpu(torch.optim.AdamW, amsgrad=True)
        self.assertEqual(keel_torch.fallbacks(), {"aten::_fused_adamw_": 9})
        keel_torch.reset_fallbacks()

    def test_scaled_gradients_are_unscaled_and_infinite_ones_skipped(self):
        parameter = nn.Parameter(torch.ones(4, device=self.device))
        other = nn.Parameter(torch.ones(4))
        optimizer = torch.optim.AdamW([parameter], lr=0.1, fused=True)
        plain = torch.optim.AdamW([other], lr=0.1)
        scaler = torch.amp.GradScaler("keel", init_scale=1024.0)
        factors = torch.tensor([1.0, -2.0, 0.5, 1e-3])
        for factor in (1.0, float("inf"), 3.0):
            optimizer.zero_grad()
            scaler.scale((parameter * factors.to(self.device) * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            if factor != float("inf"):
                other.grad = factors * factor
                plain.step()
            self.assert_same(parameter.detach(), other.detach(), **CLOSE)
        self.assertEqual(scaler.get_scale(), 512.0)
        self.assert_same(parameter.grad, factors * 3, **CLOSE)

    def test_gradients_of_16_bits(self):
        steps = torch.ones((), device=self.device)
        for dtype in (torch.bfloat16, torch.float16):
            gradient = torch.tensor([0.5, -1.0, 2.0])
            ours = [torch.ones(3, device=self.device), gradient.to(self.device, dtype),
                    *(torch.zeros(3, device=self.device) for _ in range(2))]
            theirs = [torch.ones(3), gradient, torch.zeros(3), torch.zeros(3)]
            for tensors, step in ((ours, steps), (theirs, torch.ones(()))):
                torch._fused_adamw_(*([tensor] for tensor in tensors), [], [step], lr=0.1,
                                    beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8,
                                    amsgrad=False, maximize=False)
            for our, their in zip((ours[0], *ours[2:]), (theirs[0], *theirs[2:])):
                self.assert_same(our, their, **CLOSE)


if __name__ == "__main__":
    unittest.main()
