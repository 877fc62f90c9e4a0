# SPDX-License-Identifier: Apache-2.0
"""Tensors of keel devices in files, pickles, prints and DLPack."""

import copy
import io
import pickle
import unittest

from device_case import DTYPES, DeviceCase

import torch
from torch import nn
from torch.utils import dlpack


class FilesTest(DeviceCase):
    def saved(self, value):
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        return file

    def test_tensors_come_back_to_their_device(self):
        x = torch.arange(12.0, device=self.device).view(3, 4)
        loaded = torch.load(self.saved({"whole": x, "view": x[1:, ::2]}))
        self.assert_same(loaded["whole"], x.cpu())
        self.assert_same(loaded["view"], x.cpu()[1:, ::2])
        loaded["whole"].zero_()  # one storage, as saved
        self.assert_same(loaded["view"], torch.zeros(2, 2))

    def test_map_location_moves(self):
        ours, theirs = torch.arange(3, device=self.device), torch.arange(3)
        for place in ("cpu", torch.device("cpu"), {"keel:0": "cpu"}, lambda storage, tag: storage):
            self.assertTrue(torch.equal(torch.load(self.saved(ours), map_location=place), theirs))
        for place in ("keel", "keel:0", self.device):
            self.assert_same(torch.load(self.saved(theirs), map_location=place), theirs)
        there = torch.load(self.saved(ours), map_location="keel:1")
        self.assertEqual(there.device, torch.device("keel:1"))

    def test_state_of_model_and_optimizer_continues(self):
        torch.manual_seed(1)
        network = nn.Linear(4, 4).to(self.device)
        optimizer = torch.optim.AdamW(network.parameters())

        def step():
            loss = network(torch.ones(2, 4, device=self.device)).square().sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.item()

        step()
        file = self.saved([network.state_dict(), optimizer.state_dict()])
        expected = [step(), step()]
        states = torch.load(file, map_location="cpu")
        network.load_state_dict(states[0])
        optimizer.load_state_dict(states[1])
        self.assertEqual([step(), step()], expected)

    def test_copies_and_pickles(self):
        x = nn.Parameter(torch.arange(3.0, device=self.device))
        self.assert_same(copy.deepcopy(x).detach(), torch.arange(3.0))
        self.assert_same(pickle.loads(pickle.dumps(x)).detach(), torch.arange(3.0))

    def test_prints_as_on_cpu(self):
        for x in (torch.arange(6.0).view(2, 3) / 4, torch.arange(3), torch.tensor([True, False]),
                  torch.tensor(float("nan")), torch.empty(0, 3), torch.randn(3, 2000),
                  torch.arange(4).bfloat16(), torch.arange(6.0).view(2, 3).t()):
            text = repr(x.to(self.device))
            self.assertIn("device='keel:0'", text)
            plain = "".join(text.replace("device='keel:0'", "").split()).replace(",,", ",")
            self.assertEqual(plain.replace(",)", ")"), "".join(repr(x).split()))
        self.may_fall_back = True  # choosing a format takes more operators than a model


class DlpackTest(DeviceCase):
    def test_tensors_share_memory(self):
        x = torch.arange(12.0, device=self.device).view(3, 4)
        for passed in (lambda t: dlpack.from_dlpack(dlpack.to_dlpack(t)), torch.from_dlpack):
            y = passed(x.t())
            self.assertEqual(y.device, self.device)
            self.assertEqual(y.stride(), (1, 4))
            self.assertEqual(y.data_ptr(), x.data_ptr())
            y.add_(1)
        self.assert_same(x, torch.arange(12.0).view(3, 4) + 2)

    def test_memory_lives_while_the_other_side_uses_it(self):
        x = torch.full((1000,), 3.0, device=self.device)
        y = torch.from_dlpack(x)
        del x
        torch.zeros(1000, device=self.device)
        self.assert_same(y, torch.full((1000,), 3.0))

    def test_every_type(self):
        for dtype in DTYPES:
            x = torch.ones(5, dtype=dtype, device=self.device)
            y = torch.from_dlpack(x)
            self.assertEqual(y.dtype, dtype)
            self.assert_same(y, torch.ones(5, dtype=dtype))

    def test_tensor_of_second_device_stays_there(self):
        y = torch.from_dlpack(torch.ones(5, device="keel:1"))
        self.assertEqual(y.device, torch.device("keel:1"))


if __name__ == "__main__":
    unittest.main()
