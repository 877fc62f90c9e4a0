# SPDX-License-Identifier: Apache-2.0
"""Bad input of the device keel: what is refused, by which message, and that work goes on."""

import gc
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from device_case import DeviceCase

import torch
from torch import nn

import keel_torch


def run_python(code, *arguments, **environment):
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True,
                          timeout=300, env={**os.environ, **environment})


class MissingTest(DeviceCase):
    may_fall_back = True

    def tearDown(self):
        keel_torch.forbid_fallback(False)

    def test_operator_without_kernel_runs_on_the_cpu_and_is_counted(self):
        x = torch.linspace(0.5, 4, 6).to(self.device)
        self.assert_same(torch.lgamma(x), torch.lgamma(x.cpu()))
        self.assertEqual(keel_torch.fallbacks(), {"aten::lgamma": 1})
        keel_torch.reset_fallbacks()
        self.assertEqual(keel_torch.fallbacks(), {})

    def test_types_without_kernel_run_on_the_cpu(self):
        x = torch.linspace(-4, 4, 9, dtype=torch.float64)
        self.assert_as_on_cpu(lambda x: nn.functional.gelu(x, approximate="tanh"), x)
        self.assert_as_on_cpu(lambda dy, x: torch.ops.aten.gelu_backward(dy, x, approximate="tanh"),
                              x + 1, x)
        a, b = torch.tensor([True, False, True]), torch.tensor([True, True, False])
        for alpha in (False, True):
            self.assert_as_on_cpu(lambda a, b: torch.add(a, b, alpha=alpha), a, b)
            self.assert_as_on_cpu(lambda a, b: a.add_(b, alpha=alpha), a, b)
            self.assert_as_on_cpu(lambda a, b: torch.add(a, b[0], alpha=alpha), a, b)

    def test_integers_beyond_float64_run_on_the_cpu(self):
        big, x = 2**53 + 1, torch.arange(1, 4)
        for function in (lambda x: torch.arange(big, big + 3, device=x.device),
                         lambda x: torch.arange(0, 3 * big, big, device=x.device),
                         lambda x: torch.add(x, x, alpha=big),
                         lambda x: x.clone().sub_(x, alpha=-big),
                         lambda x: torch.rsub(x, x, alpha=big),
                         lambda x: torch.addcmul(x, x, x, value=big)):
            keel_torch.reset_fallbacks()
            self.assert_as_on_cpu(function, x)
            self.assertEqual(len(keel_torch.fallbacks()), 1)
        keel_torch.reset_fallbacks()
        self.assert_as_on_cpu(lambda x: (x + big) * big, x)
        self.assert_as_on_cpu(lambda x: torch.arange(2**40, 2**40 + 3, device=x.device), x)
        self.assertEqual(keel_torch.fallbacks(), {})

    def test_forbidden_fallback_names_operator_and_ways_out(self):
        x = torch.linspace(0.5, 4, 6).to(self.device)
        keel_torch.forbid_fallback()
        with self.assertRaisesRegex(NotImplementedError, r"aten::lgamma") as caught:
            torch.lgamma(x)
        for part in ("keel:0", keel_torch.devices()[0], "forbid_fallback(False)", ".cpu()"):
            self.assertIn(part, str(caught.exception))
        self.assertEqual(keel_torch.fallbacks(), {})
        self.assert_same(x + 1, x.cpu() + 1)
        keel_torch.forbid_fallback(False)
        torch.lgamma(x)
        self.assertEqual(keel_torch.fallbacks(), {"aten::lgamma": 1})


class TwoDevicesTest(DeviceCase):
    def test_one_operator_refuses_tensors_of_two(self):
        a, b = torch.ones(4, 4, device=self.device), torch.ones(4, 4, device=self.there)
        calls = {
            "add": lambda: a + b, "add_": lambda: a.add_(b), "mm": lambda: a @ b,
            "where": lambda: torch.where(a > 0, a, b), "cat": lambda: torch.cat((a, b)),
            "addcmul": lambda: torch.addcmul(a, a, b), "lerp": lambda: a.lerp(b, 0.5),
            "index_select": lambda: a.index_select(0, torch.tensor([1], device=self.there)),
            "linear": lambda: nn.functional.linear(a, b), "out": lambda: torch.add(a, a, out=b),
            "layer_norm": lambda: nn.functional.layer_norm(a, (4,), b[0]),
            "layer_norm's gradient": lambda: torch.ops.aten.native_layer_norm_backward(
                a, a, (4,), a[:, :1], a[:, :1], b[0], None, [True, True, False]),
            "softmax's gradient": lambda: torch.ops.aten._softmax_backward_data(
                a, b, 1, torch.float32),
            "gather": lambda: a.gather(0, torch.zeros(4, 4, dtype=torch.int64, device=self.there)),
            "index_fill": lambda: a.index_fill(0, torch.tensor([1], device=self.there), 2.0),
            "nll_loss": lambda: nn.functional.nll_loss(
                a, torch.tensor([0, 1, 2, 3], device=self.device), weight=b[0]),
            "dropout's gradient": lambda: torch.ops.aten.native_dropout_backward(a, b > 0, 2.0),
            "gelu's gradient": lambda: torch.ops.aten.gelu_backward(a, b, approximate="tanh"),
            "fallback": lambda: torch.special.zeta(a, b),
        }
        for name, call in calls.items():
            with self.subTest(name):
                with self.assertRaisesRegex(RuntimeError, "device") as caught:
                    call()
                self.assertIn("keel:1", str(caught.exception))
                self.assertIn("keel:0", str(caught.exception))
        cpu = torch.ones(4, 4)
        for name, call in {"add": lambda: a + cpu, "mm": lambda: a @ cpu,
                           "layer_norm": lambda: nn.functional.layer_norm(a, (4,), cpu[0])}.items():
            with self.subTest(name), self.assertRaisesRegex(RuntimeError, "keel:0(.|\n)*cpu"):
                call()
        self.assert_same(a, torch.ones(4, 4))

    def twins(self):
        """Tensors of both devices at one address."""
        if keel_torch.devices()[:2] != ["cpu:0", "cpu:1"]:
            self.skipTest("devices with addresses of their own")
        gc.collect()
        torch.keel.empty_cache()  # both devices' addresses begin at the same one
        ours, theirs = [], []
        for _ in range(16):
            ours.append(torch.empty(4 << 20, device=self.device))
            theirs.append(torch.empty(4 << 20, device=self.there))
            for a in ours:
                for b in theirs:
                    offset = (b.data_ptr() - a.data_ptr()) // a.itemsize
                    if 0 <= offset <= a.numel() - 4096:
                        return a[offset:offset + 4096].fill_(1), b[:4096].fill_(2)
                    if 0 <= -offset <= b.numel() - 4096:
                        return a[:4096].fill_(1), b[-offset:4096 - offset].fill_(2)
        self.fail("no two tensors at one address")

    def test_equal_addresses_of_two_devices_are_apart(self):
        ours, theirs = self.twins()
        self.assertEqual(ours.data_ptr(), theirs.data_ptr())
        ours.copy_(theirs)
        self.assert_same(ours, torch.full((4096,), 2.0))
        ours.add_(1)
        theirs[:4000].copy_(ours[96:])  # ranges that would overlap in one memory
        self.assertTrue(bool((theirs.cpu()[:4000] == 3).all()))
        self.assertTrue(bool((theirs.cpu()[4000:] == 2).all()))
        theirs.copy_(ours)
        self.assert_same(ours, theirs.cpu())

    def test_equal_addresses_of_two_devices_through_dlpack(self):
        ours, theirs = self.twins()
        x, y = torch.from_dlpack(ours), torch.from_dlpack(theirs)
        self.assertEqual((x.device, y.device), (self.device, self.there))
        self.assertEqual((x.data_ptr(), y.data_ptr()), (ours.data_ptr(), theirs.data_ptr()))
        x.mul_(5)
        self.assert_same(ours, torch.full((4096,), 5.0))
        self.assertTrue(bool((theirs.cpu() == 2).all()))
        y.copy_(x)
        self.assertTrue(bool((theirs.cpu() == 5).all()))

    def test_more_devices_than_pytorch_can_have_are_refused(self):
        code = "import torch; torch.ones(1, device='keel')"
        finished = run_python(code, KEEL_DEVICES=",".join(["cpu:0"] * 17))
        self.assertIn("KEEL_DEVICES names 17 devices, of which PyTorch can have 16",
                      finished.stderr)
        self.assertEqual(finished.returncode, 1)
        finished = run_python(code, KEEL_DEVICES=",".join(["cpu:0"] * 16))
        self.assertEqual(finished.returncode, 0, finished.stderr)

    def test_device_beyond_the_list_is_named(self):
        names = keel_torch.devices()
        listed = rf"keel:0 \({names[0]}\), keel:1 \({names[1]}\)"
        with self.assertRaisesRegex(RuntimeError, "keel:9.*" + listed):
            torch.ones(3, device="keel:9")
        with self.assertRaisesRegex(RuntimeError, "'tpu'.*" + listed):
            keel_torch.device("tpu")


class MemoryTest(DeviceCase):
    def test_out_of_memory_is_pytorchs_error_and_work_goes_on(self):
        for size in (1 << 60, 1 << 50):
            with self.assertRaisesRegex(torch.OutOfMemoryError, "KEEL_OUT_OF_MEMORY"):
                torch.empty(size, dtype=torch.uint8, device=self.device)
        self.assert_same(torch.ones(3, device=self.device) + 1, torch.full((3,), 2.0))

    def test_cached_memory_is_returned_before_a_failure(self):
        """Half of the memory is freed, and then fits only once the cache is returned."""
        code = """if True:
            import resource, torch
            x = torch.ones(1, device="keel:0")
            used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), resource.RLIM_INFINITY))
            for size in (200, 300, 400, 500, 600):  # MiB; the sum does not fit
                torch.empty(size << 20, dtype=torch.uint8, device="keel:0")
            try:
                torch.empty(4 << 30, dtype=torch.uint8, device="keel:0")
                raise SystemExit("4 GiB were found")
            except torch.OutOfMemoryError as error:
                print(error)
            assert (x + 1).item() == 2
        """
        # A guarded device reserves its addresses beforehand.
        finished = run_python(code, KEEL_CPU_GUARD="0", KEEL_CPU_DEVICES="1", KEEL_DEVICES="cpu")
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        self.assertIn("KEEL_OUT_OF_MEMORY", finished.stdout)


class ForkedTest(DeviceCase):
    class Data(torch.utils.data.Dataset):
        def __init__(self, tensor):
            self.tensor = tensor

        def __len__(self):
            return 4

        def __getitem__(self, index):
            return self.tensor[index] + 1

    def test_forked_loader_with_tensors_of_the_device_says_so(self):
        x = torch.arange(4.0, device=self.device)
        loader = torch.utils.data.DataLoader(self.Data(x), num_workers=1, timeout=120,
                                             multiprocessing_context="fork")
        with self.assertRaisesRegex(RuntimeError, "(?i)fork(.|\n)*spawn"):
            list(loader)
        self.assert_same(x + 1, torch.arange(1.0, 5))

    def test_forked_loader_with_tensors_of_the_cpu_works(self):
        loader = torch.utils.data.DataLoader(self.Data(torch.arange(4.0)), num_workers=1,
                                             batch_size=4, multiprocessing_context="fork")
        for batch in loader:
            self.assert_same(batch.to(self.device), torch.arange(1.0, 5))


class FilesElsewhereTest(DeviceCase):
    def load(self, path, locations, **environment):
        """What a new process prints that loads |path| to each of |locations|."""
        code = f"""if True:
            import sys, torch
            for location in {locations}:
                try:
                    value = torch.load(sys.argv[1], map_location=location)["x"]
                    print(value.device, value.tolist())
                except Exception as error:
                    print("refused:", str(error).replace(chr(10), " "))
        """
        finished = run_python(code, path, **environment)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        return finished.stdout.splitlines()

    def test_file_of_a_device_that_is_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "model.pt")
            torch.save({"x": torch.arange(3.0, device="keel:1")}, path)
            refused, *moved = self.load(path, [None, "cpu", "keel:0", {"keel:1": "keel:0"}],
                                        KEEL_DEVICES="cpu:0")
            self.assertRegex(refused, "refused: .*keel.*map_location")
            self.assertEqual(moved, ["cpu [0.0, 1.0, 2.0]", "keel:0 [0.0, 1.0, 2.0]",
                                     "keel:0 [0.0, 1.0, 2.0]"])

    def test_file_where_the_package_is_not_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "model.pt")
            torch.save({"x": torch.arange(3.0, device="keel:0")}, path)
            refused, moved = self.load(path, [None, "cpu"], PYTHONPATH="")
            self.assertRegex(refused, "refused: .*keel:0")
            self.assertEqual(moved, "cpu [0.0, 1.0, 2.0]")


class NoDeviceTest(DeviceCase):
    def test_errors_say_why_and_the_cpu_goes_on(self):
        code = """if True:
            import sys, torch
            for call in (lambda: torch.ones(1, device="keel"), lambda: torch.load(sys.argv[1])):
                try:
                    call()
                except RuntimeError as error:
                    print(error)
            weight = torch.load(sys.argv[1], map_location="cpu")["x"].requires_grad_()
            (weight * 2).sum().backward()
            print(weight.tolist(), weight.grad.tolist())
        """
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "model.pt")
            torch.save({"x": torch.ones(2, device=self.device)}, path)
            finished = run_python(code, path, KEEL_DEVICES="tpu:0")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        why, refused, numbers = finished.stdout.splitlines()
        self.assertRegex(why, "no device keel:0; there is none: .*'tpu:0' is no device.*cpu:0")
        self.assertRegex(refused, r"torch.keel.is_available\(\).*map_location")
        self.assertEqual(numbers, "[1.0, 1.0] [2.0, 2.0]")


class ImportTest(unittest.TestCase):
    def test_package_may_be_imported_before_torch(self):
        finished = run_python("import keel_torch, torch; print(torch.ones(2).to('keel').sum())")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("tensor(2., device='keel:0')", finished.stdout)


class OtherTorchTest(unittest.TestCase):
    def test_wheel_of_another_torch_is_named(self):
        code = """if True:
            import torch
            torch.__version__ = "2.1.0"
            try:
                import keel_torch
            except ImportError as error:
                print(error)
        """
        finished = run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        self.assertIn("2.1.0", finished.stdout, finished.stderr)
        self.assertIn(torch.__version__.split("+")[0], finished.stdout)


class IndicesTest(DeviceCase):
    CALLS = """if True:
        import torch
        from torch.nn import functional
        x = torch.arange(1.0, 10, device="keel").view(3, 3)
        for out in (-4, 3):
            row, rows = (torch.tensor(value, device="keel") for value in ([out], [[0, out, 0]]))
            for call in (lambda: x.index_select(0, row), lambda: functional.embedding(row, x),
                         lambda: x.gather(0, rows), lambda: x[row],
                         lambda: functional.nll_loss(x[:1], row),
                         lambda: x.scatter(0, rows, 9.0), lambda: x.scatter_add(0, rows, x),
                         lambda: x.index_add(0, row, x[:1]), lambda: x.index_fill(0, row, 9.0),
                         lambda: x.index_put((row,), x[0])):
                try:
                    print(call().flatten().tolist())
                except IndexError as error:
                    print("refused:", error)
        assert x.gather(0, rows.clamp(0, 2)).numel() == 3
    """

    def lines(self, **environment):
        finished = run_python(self.CALLS, **environment)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        return finished.stdout.splitlines()

    def test_index_out_of_range_reads_0_and_writes_nothing(self):
        same = [float(value) for value in range(1, 10)]
        none, first = [0.0] * 3, [1.0, 0.0, 3.0]
        written, added = [9.0, 2.0, 9.0, *same[3:]], [2.0, 2.0, 6.0, *same[3:]]
        wanted = [none, none, first, none, [0.0], written, added, same, same, same]
        self.assertEqual(self.lines(), [str(line) for line in wanted * 2])

    def test_index_out_of_range_is_refused_on_demand(self):
        lines = self.lines(KEEL_TORCH_CHECK_INDICES="1")
        self.assertEqual(len(lines), 20)
        for line in lines:
            self.assertRegex(line, r"refused: keel: index (-4|-1|3) is out of bounds for "
                             "dimension [01] with size 3")


class ShapesTest(DeviceCase):
    may_fall_back = True  # which refuses as the CPU does

    def test_bad_shapes_and_types_are_refused_as_on_cpu(self):
        def calls(device):
            a, b = torch.ones(2, 3, device=device), torch.ones(4, device=device)
            tokens = torch.tensor([0, 7], device=device)
            return {
                "broadcast": lambda: a + b, "mm": lambda: a @ a, "view": lambda: a.view(4),
                "cat": lambda: torch.cat((a, a[:, :2])), "type": lambda: a.add_(1j),
                "integers": lambda: torch.ones(2, dtype=torch.int64, device=device).mul_(0.5),
                "axis": lambda: a.sum(4), "index": lambda: a[2], "empty": lambda: a[:0].max(),
                "normalized": lambda: nn.functional.layer_norm(a, (4,)),
                "normalized evenly": lambda: nn.functional.layer_norm(a.repeat(2, 1), (4,)),
                "half": lambda: a.half() @ a.t(), "gather": lambda: a.gather(0, tokens),
                "file": lambda: torch.save(a, io.StringIO()),
            }

        ours, theirs = calls(self.device), calls("cpu")
        for name in ours:
            with self.subTest(name):
                with self.assertRaises(Exception) as expected:
                    theirs[name]()
                with self.assertRaises(type(expected.exception)):
                    ours[name]()


if __name__ == "__main__":
    unittest.main()
