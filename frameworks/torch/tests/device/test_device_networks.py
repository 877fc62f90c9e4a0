# SPDX-License-Identifier: Apache-2.0
"""Layers of PyTorch on keel devices: recurrent cells, and convolutions by the CPU."""

import unittest

from device_case import DeviceCase

import torch
from torch import nn

import keel_torch

CLOSE = {"rtol": 1e-5, "atol": 2e-6}


class NetworksTest(DeviceCase):
    def assert_trains_as_on_cpu(self, make, *inputs):
        """The results and all gradients of the module that |make| returns."""
        torch.manual_seed(1)
        theirs = make()
        ours = make()
        ours.load_state_dict(theirs.state_dict())
        ours.to(self.device)
        results = []
        for network, device in ((ours, self.device), (theirs, "cpu")):
            moved = [tensor.detach().to(device).requires_grad_() for tensor in inputs]
            y = network(*moved)
            y = y[0] if isinstance(y, tuple) else y
            (y * y).sum().backward()
            results.append([y.detach(), *(tensor.grad for tensor in moved),
                            *(parameter.grad for parameter in network.parameters())])
        for our, their in zip(*results, strict=True):
            self.assert_same(our, their, **CLOSE)

    def test_recurrent_networks(self):
        x = torch.linspace(-1, 1, 30).view(5, 2, 3)
        for kind in (nn.LSTM, nn.GRU):
            for options in ({}, {"bias": False, "num_layers": 2}):
                with self.subTest(kind.__name__, **options):
                    self.assert_trains_as_on_cpu(lambda: kind(3, 4, **options), x)
        self.assert_trains_as_on_cpu(lambda: nn.RNN(3, 4), x)
        for cell in (nn.LSTMCell, nn.GRUCell):
            self.assert_trains_as_on_cpu(lambda: cell(3, 4), x[0])

    def test_convolutions_fall_back(self):
        for make, shape in ((lambda: nn.Conv2d(2, 3, 3, padding=1, stride=2), (2, 2, 7, 7)),
                            (lambda: nn.Conv1d(2, 4, 3, groups=2, bias=False), (2, 2, 9)),
                            (lambda: nn.ConvTranspose2d(2, 3, 3), (1, 2, 4, 4))):
            keel_torch.reset_fallbacks()
            x = torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape)
            self.assert_trains_as_on_cpu(make, x)
            self.assertEqual(keel_torch.fallbacks(), {"aten::convolution": 1,
                                                      "aten::convolution_backward": 1})
        keel_torch.reset_fallbacks()


if __name__ == "__main__":
    unittest.main()
