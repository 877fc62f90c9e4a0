# SPDX-License-Identifier: Apache-2.0
"""Random numbers, streams and events of the device keel."""

import unittest

from device_case import DeviceCase

import torch
from torch import nn


# A state of the generator whose next four numbers of 24 bits contain a 0.
ZERO_SEED, ZERO_OFFSET = 0, 14_883_995


class GeneratorTest(DeviceCase):
    def draws(self, generator=None):
        options = {"device": self.device, "generator": generator}
        return [torch.rand(33, **options), torch.randn(3, 7, **options),
                torch.empty(17, device=self.device).bernoulli_(0.5, generator=generator),
                torch.empty(8, 8, device=self.device).t().uniform_(-1, 1, generator=generator)]

    def assert_equal_draws(self, ours, theirs, expected=True):
        for a, b in zip(ours, theirs):
            self.assertEqual(torch.equal(a, b), expected)

    def test_same_seed_gives_same_numbers(self):
        torch.manual_seed(5)
        first = self.draws()
        self.assert_equal_draws(first, self.draws(), False)
        torch.manual_seed(5)
        self.assert_equal_draws(first, self.draws())
        torch.keel.manual_seed(6)
        self.assert_equal_draws(first, self.draws(), False)
        self.assertEqual(torch.keel.initial_seed(), 6)

    def test_state_is_saved_and_restored(self):
        torch.rand(5, device=self.device)
        state = torch.keel.get_rng_state()
        first = self.draws()
        torch.keel.set_rng_state(state)
        self.assert_equal_draws(first, self.draws())
        with torch.random.fork_rng(devices=[0], device_type="keel"):
            second = self.draws()
        self.assert_equal_draws(second, self.draws())

    def test_generator_objects_have_their_own_numbers(self):
        generators = [torch.Generator(device=self.device).manual_seed(3) for _ in range(2)]
        torch.manual_seed(3)
        torch.rand(9, device=self.device)
        self.assert_equal_draws(self.draws(generators[0]), self.draws(generators[1]))
        state = generators[0].get_state()
        first = self.draws(generators[0])
        generators[1].set_state(state)
        self.assert_equal_draws(first, self.draws(generators[1]))
        self.assertEqual(generators[0].device, self.device)

    def test_numbers_are_below_the_end(self):
        torch.manual_seed(1)
        for dtype, begin, end in ((torch.bfloat16, 0, 1), (torch.float16, 0, 1),
                                  (torch.bfloat16, -3, -1), (torch.float32, 1000, 1001),
                                  (torch.float64, 1e12, 1e12 + 1)):
            with self.subTest(dtype=dtype, begin=begin):
                draws = torch.empty(1 << 18, dtype=dtype, device=self.device).uniform_(begin, end)
                self.assertTrue(begin <= draws.min().item() and draws.max().item() < end)
        self.assert_same(torch.empty(3, device=self.device).uniform_(2, 2), torch.full((3,), 2.0))

    def test_exponential_numbers_are_positive_and_finite(self):
        torch.manual_seed(1)
        for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
            with self.subTest(dtype=dtype):
                # 2^18 draws: 1 is one of 2^9 uniform numbers of bfloat16.
                draws = torch.empty(1 << 18, dtype=dtype, device=self.device).exponential_(2)
                self.assertTrue(0 < draws.min().item() and draws.max().item() < 12)
                self.assertAlmostEqual(draws.double().mean().item(), 0.5, delta=0.01)
        with self.assertRaisesRegex(RuntimeError, "floating"):
            torch.ones(3, dtype=torch.int32, device=self.device).exponential_()

    def test_exponential_of_the_least_uniform_number(self):
        generator = torch.Generator(device=self.device)
        state = torch.tensor([ZERO_SEED, ZERO_OFFSET]).view(torch.uint8)
        generator.set_state(state)
        self.assertEqual(torch.rand(4, device=self.device, generator=generator).min().item(), 0)
        generator.set_state(state)
        x = torch.empty(4, device=self.device).exponential_(generator=generator)
        self.assertTrue(0 < x.min().item() < 1e-7)
        torch.keel.set_rng_state(state)
        y = nn.functional.gumbel_softmax(torch.zeros(4, device=self.device), dim=0)
        self.assertFalse(y.isnan().any().item())

    def test_moments(self):
        torch.manual_seed(1)
        uniform = torch.rand(40_000, device=self.device).cpu()
        self.assertTrue(0 <= uniform.min() and uniform.max() < 1)
        self.assertAlmostEqual(uniform.mean().item(), 0.5, delta=0.01)
        self.assertAlmostEqual(uniform.var().item(), 1 / 12, delta=0.005)
        normal = torch.randn(40_000, device=self.device).cpu() * 3 + 1
        self.assertAlmostEqual(normal.mean().item(), 1, delta=0.08)
        self.assertAlmostEqual(normal.std().item(), 3, delta=0.08)
        draws = torch.full((40_000,), 0.25, device=self.device).bernoulli().cpu()
        self.assertAlmostEqual(draws.mean().item(), 0.25, delta=0.015)

    def test_dropout_and_its_gradient(self):
        torch.manual_seed(1)
        x = torch.ones(4000, device=self.device, requires_grad=True)
        y = nn.functional.dropout(x, 0.25)
        y.sum().backward()
        kept = y.detach().cpu()
        self.assertAlmostEqual((kept != 0).float().mean().item(), 0.75, delta=0.05)
        self.assertTrue(torch.equal(x.grad.cpu(), kept))
        self.assertEqual(kept.max().item(), torch.tensor(1 / 0.75).item())
        self.assertTrue(torch.equal(nn.functional.dropout(x, 0.25, training=False), x))


class StreamsTest(DeviceCase):
    def test_events_order_streams(self):
        x = torch.zeros(1 << 16, device=self.device)
        first, second = (torch.Stream(device=self.device) for _ in range(2))
        self.assertNotEqual(first, second)
        first.wait_stream(torch.keel.current_stream())  # for the zeros
        for turn in range(20):
            with first:
                x.add_(1)
                done = first.record_event()
            second.wait_event(done)
            with second:
                x.mul_(2).sub_(turn)
            first.wait_stream(second)
        torch.keel.synchronize()
        y = torch.zeros(1)
        for turn in range(20):
            y.add_(1).mul_(2).sub_(turn)
        self.assertTrue(bool((x.cpu() == y).all()))

    def test_streams_come_from_pools_of_32(self):
        for options in ({}, {"priority": -1}):
            ids = [torch.Stream(device=self.device, **options).stream_id for _ in range(1100)]
            self.assertEqual(len(set(ids)), 32)
            self.assertEqual(ids[:32], ids[32:64])
            self.assertNotIn(0, ids)
            if not options:
                normal = set(ids)
        self.assertFalse(normal & set(ids))

    def test_events_measure_and_tell(self):
        begin, end = (torch.Event(device="keel", enable_timing=True) for _ in range(2))
        begin.record()
        torch.ones(1000, device=self.device).sum()
        end.record()
        end.synchronize()
        self.assertTrue(end.query() and begin.query())
        self.assertGreaterEqual(begin.elapsed_time(end), 0)
        with self.assertRaisesRegex((RuntimeError, ValueError), "timing"):
            torch.Event(device="keel").elapsed_time(end)

    def test_stream_is_current_inside_with_alone(self):
        stream = torch.keel.Stream()
        before = torch.keel.current_stream()
        with torch.keel.stream(stream):
            self.assertEqual(torch.keel.current_stream().stream_id, stream.stream_id)
            x = torch.ones(8, device=self.device) + 1
        self.assertEqual(torch.keel.current_stream(), before)
        self.assertEqual(torch.accelerator.current_stream(), before)
        x.record_stream(torch.keel.current_stream())
        stream.synchronize()
        self.assertTrue(stream.query())
        self.assert_same(x, torch.full((8,), 2.0))

    def test_memory_used_on_another_stream_is_not_reused_early(self):
        stream = torch.Stream(device=self.device)
        for turn in range(20):
            x = torch.full((1000,), float(turn), device=self.device)
            stream.wait_stream(torch.keel.current_stream())
            with stream:
                y = x + 1
                x.record_stream(stream)
            del x
            torch.full((1000,), -1.0, device=self.device)
            stream.synchronize()
            self.assertTrue(bool((y.cpu() == turn + 1).all()))

    def test_pinned_memory(self):
        x = torch.arange(1000.0).pin_memory()
        self.assertTrue(x.is_pinned())
        self.assertFalse(torch.arange(3.0).is_pinned())
        y = x.to(self.device, non_blocking=True)
        back = torch.empty(1000, pin_memory=True).copy_(y, non_blocking=True)
        torch.keel.synchronize()
        self.assertTrue(torch.equal(back, x))


if __name__ == "__main__":
    unittest.main()
