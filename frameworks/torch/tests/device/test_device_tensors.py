# SPDX-License-Identifier: Apache-2.0
"""Tensors of keel devices, as PyTorch's own code uses them: views, copies, types, torch.keel."""

import os
import threading
import unittest

from device_case import DTYPES, DeviceCase

import torch
from torch import nn

import keel_torch


class ViewsTest(DeviceCase):
    VIEWS = {
        "transposed": lambda x: x.t(), "permuted": lambda x: x.view(2, 3, 4).permute(2, 0, 1),
        "every second": lambda x: x[:, ::2], "row": lambda x: x[3], "corner": lambda x: x[1:4, 1:3],
        "expanded": lambda x: x[:, :1].expand(-1, 5), "diagonal": lambda x: x.diagonal(),
        "unfolded": lambda x: x.flatten().unfold(0, 4, 3), "split": lambda x: x.split(2)[1],
        "as_strided": lambda x: x.as_strided((3, 3), (1, 7), 2),
        "narrowed": lambda x: x.narrow(1, 1, 2), "reshaped": lambda x: x.t().reshape(8, 3),
        "number": lambda x: x[2, 3], "new dimension": lambda x: x[None, :, None],
        "unflattened": lambda x: x.unflatten(0, (2, -1)).movedim(0, -1),
        "empty": lambda x: x[6:], "bits": lambda x: x.view(torch.int32),
    }

    def test_views_have_values_and_strides_of_cpu(self):
        x = torch.arange(24.0).view(6, 4)
        ours = x.to(self.device)
        for name, view in self.VIEWS.items():
            with self.subTest(name):
                self.assert_same(view(ours), view(x))
                self.assertEqual(view(ours).stride(), view(x).stride())
                self.assertEqual(view(ours).storage_offset(), view(x).storage_offset())
                self.assert_same(view(ours).contiguous(), view(x).contiguous())
                self.assert_same(view(ours).clone(), view(x).clone())

    def test_writes_through_views_reach_the_base(self):
        def write(x):
            x[:, 1::2].add_(10)
            x[0] = 5
            x.t()[1].mul_(2)
            x[1:3, :2] = torch.ones(2, 2, device=x.device)
            x[4:].copy_(x[2:4].clone())
            x.diagonal().zero_()
            x[5].fill_(float("nan"))
            return x.sum(1)

        self.assert_as_on_cpu(write, torch.arange(24.0).view(6, 4))

    def test_copies_between_strides_and_types(self):
        x = (torch.arange(30).view(5, 6) - 15).float() / 2
        for source in DTYPES:
            for target in DTYPES:
                a = x.abs().to(source) if torch.uint8 in (source, target) else x.to(source)
                with self.subTest(source=source, target=target):
                    self.assert_as_on_cpu(lambda a: a.to(target), a)
                    self.assert_as_on_cpu(lambda a: a.t()[::2].to(target), a)
                    self.assert_as_on_cpu(
                        lambda a: torch.zeros(6, 5, dtype=target, device=a.device).copy_(a.t()), a)

    def test_to_host_and_back_of_any_layout(self):
        x = torch.arange(48.0).view(2, 3, 8)
        for view in (x, x.transpose(0, 2), x[:, :, ::3], x[:, :1].expand(2, 4, 8),
                     x.to(memory_format=torch.preserve_format)[1:, 1:]):
            ours = view.to(self.device)
            self.assert_same(ours, view)
            self.assertTrue(torch.equal(ours.to("cpu", torch.float64), view.double()))
            into = torch.empty(view.shape, device=self.device).transpose(0, 2)
            into.copy_(view.transpose(0, 2))
            self.assert_same(into, view.transpose(0, 2))
            a, b, _ = view.shape
            back = torch.empty_strided(view.shape, (1, a, a * b)).copy_(ours)
            self.assertTrue(torch.equal(back, view))

    def test_overlapping_writes_are_refused(self):
        x = torch.zeros(4, device=self.device)
        with self.assertRaisesRegex(RuntimeError, "single memory location"):
            x[:1].expand(4).add_(1)
        with self.assertRaisesRegex(RuntimeError, "memory location|overlap"):
            torch.add(x[:3], 1, out=x[1:])

    def test_out_of_another_size_is_resized(self):
        a, b = torch.arange(6.0, device=self.device), torch.ones(6, device=self.device)
        out = torch.empty(0, device=self.device)
        self.assertIs(torch.add(a, b, out=out), out)
        self.assert_same(out, torch.arange(6.0) + 1)
        strided = torch.zeros(6, 2, device=self.device)[:, 1]
        torch.mul(a, 2, out=strided)
        self.assert_same(strided, torch.arange(6.0) * 2)

    def test_resize_keeps_values(self):
        x = torch.arange(6.0, device=self.device)
        x.resize_(100_000)
        self.assert_same(x[:6], torch.arange(6.0))
        there = torch.arange(6.0, device=self.there)
        there.untyped_storage().resize_(4096)
        self.assertEqual(there.resize_(1024)[:6].tolist(), [0, 1, 2, 3, 4, 5])
        self.assertEqual(torch.keel.current_device(), 0)
        view = torch.empty(0, device=self.device)
        view.set_(x.untyped_storage(), 1, (2, 2), (2, 1))
        self.assert_same(view, torch.tensor([[1.0, 2], [3, 4]]))
        beyond = torch.arange(4.0, device=self.device).untyped_storage()
        self.assert_same(view.set_(beyond, 0, (1000,), (1,))[:4], torch.arange(4.0))
        with self.assertRaisesRegex(RuntimeError, "negative"):
            x.resize_(-1)


class ArithmeticTest(DeviceCase):
    def test_types_mix_as_on_cpu(self):
        for left in DTYPES:
            for right in DTYPES:
                a = torch.tensor([1, 0, 3, 1]).to(left)
                b = torch.tensor([1, 1, 2, 0]).to(right)
                with self.subTest(left=left, right=right):
                    self.assert_as_on_cpu(lambda a, b: a + b, a, b)
                    self.assert_as_on_cpu(lambda a, b: a * b[:, None], a, b)
                    self.assert_as_on_cpu(lambda a, b: a < b, a, b)

    def test_scalars_of_any_kind(self):
        x = torch.arange(1, 7)
        for number in (2, 2.5, True, torch.tensor(3), torch.tensor(1.5)):
            self.assert_as_on_cpu(lambda x: x * number + number, x)
            self.assert_as_on_cpu(lambda x: 2.5 - x * number, x)
            self.assert_as_on_cpu(lambda x: x - int(number), x.float())
            self.assert_as_on_cpu(lambda x: x / number, x.float(), rtol=1e-6, atol=0)

    def test_outputs_of_another_type_do_not_change_the_arithmetic(self):
        tiny = torch.tensor([2.0**-9])
        inputs = {
            "int8": (torch.tensor([100], dtype=torch.int8),) * 2,
            "bool": (torch.tensor([True]),) * 2, "bfloat16": (tiny.bfloat16() + 1, tiny.bfloat16()),
            "float32": (tiny, tiny * 2.0**-25), "float64": (tiny.double(), tiny.double() * 2.0**-25),
            "int64": (torch.tensor([2**24 + 1]), torch.tensor([2**24])),
        }
        functions = {"add": torch.add, "mul": torch.mul, "div": torch.div, "eq": torch.eq,
                     "exp": lambda a, b, out: torch.exp(b, out=out),
                     "add number": lambda a, b, out: torch.add(a, 1, out=out)}
        for name, (a, b) in inputs.items():
            for out in DTYPES:
                for operation, function in functions.items():
                    def call(a, b, function=function, out=out):
                        return function(a, b, out=torch.zeros(1, dtype=out, device=a.device))

                    try:
                        call(a, b)
                    except RuntimeError:  # PyTorch does not convert to the type
                        continue
                    with self.subTest(name, out=out, operation=operation):
                        close = {"rtol": 1e-6, "atol": 0} if operation == "exp" else {}
                        self.assert_as_on_cpu(call, a, b, **close)

    def test_sums_and_products_of_bool(self):
        for x in (torch.ones(256, dtype=torch.bool), torch.tensor([2, 256, 0]),
                  torch.tensor([[0.5, -0.5], [0, 0]]), torch.zeros(0, 3)):
            for function in (torch.sum, torch.prod):
                self.assert_as_on_cpu(lambda x: function(x, dtype=torch.bool), x)
                self.assert_as_on_cpu(lambda x: function(x, 0, dtype=torch.bool), x)
                self.assert_as_on_cpu(lambda x: function(x, 0, True, dtype=torch.bool), x)

    def test_triangles_far_from_the_diagonal(self):
        for diagonal in (2**31 - 1, 2**31, 2**32, 2**63 - 1, -2**31, -2**32, -2**63, 3, -4, 4, -5):
            for function in (torch.tril, torch.triu):
                self.assert_as_on_cpu(lambda x: function(x, diagonal), torch.ones(4, 3))

    def test_broadcasts(self):
        a, b = torch.arange(12.0).view(3, 1, 4), torch.arange(5.0).view(5, 1)
        self.assert_as_on_cpu(lambda a, b: a + b, a, b)
        self.assert_as_on_cpu(lambda a, b: torch.where(a > b, a, b), a, b)
        self.assert_as_on_cpu(lambda a, b: a.expand(3, 5, 4).clone().sub_(b), a, b)

    def test_results_read_as_python_numbers(self):
        x = torch.arange(4, device=self.device)
        self.assertEqual(x.sum().item(), 6)
        self.assertEqual(x.tolist(), [0, 1, 2, 3])
        self.assertTrue(bool((x < 4).all()))
        self.assertEqual(int(x.argmax()), 3)
        self.assertEqual(float(torch.tensor(2.5, dtype=torch.bfloat16, device=self.device)), 2.5)
        self.assertEqual([int(number) for number in x], [0, 1, 2, 3])

    def test_complex_views_share_memory(self):
        pairs = torch.arange(6.0, device=self.device).view(3, 2)
        numbers = torch.view_as_complex(pairs)
        self.assert_same(numbers, torch.tensor([1j, 2 + 3j, 4 + 5j]))
        torch.view_as_real(numbers).mul_(2)
        self.assert_same(pairs, torch.arange(6.0).view(3, 2) * 2)

    def test_neg_and_conj_views(self):
        x = torch.tensor([1 + 2j, 3 - 1j])
        imag = x.conj().imag
        self.assertTrue(imag.is_neg())
        self.assert_same(imag.to(self.device) + 1, imag + 1)

    def test_copy_into_neg_and_conj_views(self):
        for part in (lambda x: x.conj().imag, lambda x: x.conj()[::2], lambda x: x.conj()):
            want = torch.zeros(4, dtype=torch.complex64)
            got = want.to(self.device)
            source = torch.arange(1.0, 1 + part(want).numel()).to(part(want).dtype)
            if source.is_complex():
                source += 2j
            part(want).copy_(source)
            part(got).copy_(source)
            self.assertTrue(torch.equal(got.cpu(), want))

    def test_autograd_through_copies(self):
        x = torch.arange(4.0, requires_grad=True)
        (x.to(self.device) ** 2).sum().backward()
        self.assertTrue(torch.equal(x.grad, 2 * torch.arange(4.0)))

    def test_threads_work_beside_each_other(self):
        failures = []

        def work(number):
            try:
                x = torch.full((100,), float(number), device=self.device)
                for _ in range(50):
                    x = x * 2 - number
                if not torch.equal(x.cpu(), torch.full((100,), float(number))):
                    failures.append(x[0].item())
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class ModuleTest(DeviceCase):
    def test_devices_have_names(self):
        names = keel_torch.devices()
        wanted = os.environ["KEEL_DEVICES"].split(",")
        self.assertEqual(len(names), len(wanted))
        self.assertEqual(torch.keel.device_count(), len(names))
        for index, (name, begin) in enumerate(zip(names, wanted)):
            self.assertTrue(name.startswith(begin))
            self.assertEqual(torch.keel.get_device_name(index), name)
            self.assertEqual(keel_torch.device(name), torch.device(f"keel:{index}"))
        self.assertTrue(torch.keel.is_available())
        self.assertEqual(torch.accelerator.current_accelerator(), torch.device("keel"))
        self.assertIs(torch.get_device_module("keel"), torch.keel)

    def test_current_device(self):
        self.assertEqual(torch.ones(1, device="keel").device, torch.device("keel:0"))
        with torch.keel.device(1):
            self.assertEqual(torch.keel.current_device(), 1)
            self.assertEqual(torch.ones(1, device="keel").device, torch.device("keel:1"))
        with torch.device("keel:1"):
            self.assertEqual(nn.Linear(2, 2).weight.device, torch.device("keel:1"))
        self.assertEqual(torch.keel.current_device(), 0)
        self.assertEqual(torch.ones(3).keel().device, self.device)
        self.assertTrue(torch.ones(3).keel().is_keel)

    def test_second_device_computes_while_the_first_is_current(self):
        def gradients(device):
            torch.manual_seed(1)
            network = nn.Sequential(nn.Embedding(8, 6), nn.LayerNorm(6), nn.Linear(6, 5),
                                    nn.GELU(), nn.Softmax(-1)).to(device)
            y = network(torch.arange(6, device=device).view(2, 3))
            torch.cat((y, y.tril()), 1).flatten(1).std(1).sum().backward()
            return [parameter.grad for parameter in network.parameters()]

        for ours, theirs in zip(gradients(self.there), gradients("cpu")):
            self.assertEqual(ours.device, self.there)
            torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-6)
        self.assertEqual(torch.rand(3, device=self.there).bernoulli_().device, self.there)
        self.assertEqual(torch.keel.current_device(), 0)

    def test_copies_between_devices(self):
        for view in (torch.arange(24.0).view(4, 6), torch.arange(24.0).view(4, 6).t()[::2],
                     torch.arange(4.0)[:, None].expand(4, 3)):
            there = view.to(self.device).to("keel:1")
            self.assertEqual(there.device, torch.device("keel:1"))
            self.assertTrue(torch.equal((there * 2).cpu(), view * 2))
            here = torch.zeros(view.shape, dtype=torch.float64, device=self.device)
            self.assert_same(here.copy_(there), view.double())

    def test_memory_is_counted(self):
        before = torch.keel.memory_allocated()
        torch.keel.reset_peak_memory_stats()
        x = torch.empty(3 << 20, dtype=torch.uint8, device=self.device)
        self.assertGreaterEqual(torch.keel.memory_allocated(), before + x.nbytes)
        del x
        self.assertLess(torch.keel.memory_allocated(), before + (3 << 20))
        self.assertGreaterEqual(torch.keel.max_memory_allocated(), before + (3 << 20))
        torch.keel.empty_cache()
        self.assertEqual(torch.accelerator.memory_allocated(), torch.keel.memory_allocated())
        self.assertEqual(torch.accelerator.max_memory_allocated(),
                         torch.keel.max_memory_allocated())
        self.assertEqual(torch.accelerator.memory_reserved(1), torch.keel.memory_reserved(1))
        torch.accelerator.reset_peak_memory_stats()
        torch.accelerator.empty_cache()

    def test_autocast_computes_products_in_bfloat16(self):
        network = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)).to(self.device)
        x = torch.ones(2, 8, device=self.device)
        with torch.autocast("keel", torch.bfloat16):
            y = network(x)
            self.assertEqual(y.dtype, torch.bfloat16)
            self.assertEqual((x @ x.t()).dtype, torch.bfloat16)
            self.assertEqual(torch.softmax(y, 1).dtype, torch.float32)
        y.float().square().sum().backward()
        self.assertEqual(network[0].weight.grad.dtype, torch.float32)
        self.assertEqual((x @ x.t()).dtype, torch.float32)

    def test_grad_scaler_skips_infinite_steps(self):
        weight = nn.Parameter(torch.ones(3, device=self.device))
        optimizer = torch.optim.SGD([weight], lr=1.0)
        scaler = torch.amp.GradScaler("keel", init_scale=4.0, growth_interval=1)
        scaler.scale((weight * 0.5).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        self.assert_same(weight.detach(), torch.full((3,), 0.5))
        self.assertEqual(scaler.get_scale(), 8.0)
        optimizer.zero_grad()
        scaler.scale((weight * float("inf")).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        self.assert_same(weight.detach(), torch.full((3,), 0.5))
        self.assertEqual(scaler.get_scale(), 4.0)

    def test_checkpointing_recomputes_with_the_same_numbers(self):
        from torch.utils.checkpoint import checkpoint

        x = torch.ones(64, device=self.device, requires_grad=True)
        torch.manual_seed(1)
        y = checkpoint(lambda x: nn.functional.dropout(x, 0.5) * x, x, use_reentrant=False)
        y.sum().backward()
        self.assert_same(x.grad, 2 * y.detach().cpu())


if __name__ == "__main__":
    unittest.main()
