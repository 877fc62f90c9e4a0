# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import sys
import unittest

import keel
from devices_here import DEVICES, each_device, fails

COMMAND = pathlib.Path(os.environ.get("KEEL_TEST_BIN", "/nonexistent")) / "keel"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


class DeviceTest(unittest.TestCase):
    def test_cpu_is_listed_and_found_by_name(self):
        self.assertIn(keel.Device("cpu:0"), keel.devices())
        self.assertEqual(keel.Device("cpu"), keel.Device("cpu:0"))
        self.assertEqual(str(keel.Device("cpu:0")), "cpu:0")
        self.assertEqual(repr(keel.Device("cpu:0")), "keel.Device('cpu:0')")

    def test_equal_devices_have_one_hash_and_differ_from_others(self):
        self.assertEqual(len({keel.Device("cpu:0"), keel.Device("cpu:0")}), 1)
        self.assertEqual(len(set(keel.devices())), len(keel.devices()))
        self.assertNotEqual(keel.Device("cpu:0"), "cpu:0")
        self.assertNotEqual(keel.Device("cpu:0"), None)

    @each_device
    def test_info_describes_the_device(self, device):
        info = device.info()
        self.assertIn(info["type"], ("cpu", "gpu", "npu", "other"))
        self.assertIn("ops", info["capabilities"])
        self.assertGreaterEqual(info["alignment"], 64)
        self.assertEqual(device.backend, device.name.split(":")[0])

    @each_device
    def test_memory_stats_count_what_is_allocated(self, device):
        before = device.memory_stats()["requested"]
        buffer = keel.empty(device, [1000])
        self.assertEqual(device.memory_stats()["requested"], before + 4000)
        buffer.close()
        self.assertEqual(device.memory_stats()["requested"], before)
        device.trim_memory()

    def test_unknown_device_names_the_existing_ones(self):
        with fails(self, "KEEL_NOT_FOUND", "cpu:0"):
            keel.Device("nosuch:0")
        with fails(self, "KEEL_NOT_FOUND"):
            keel.empty("nosuch:0", [1])

    def test_error_is_a_runtime_error_with_status_and_message(self):
        with self.assertRaises(RuntimeError) as caught:
            keel.Device("nosuch:0")
        error = caught.exception
        self.assertEqual(str(error), f"{error.status}: {error.message}")

    def test_second_init_is_refused(self):
        with fails(self, "KEEL_ALREADY_EXISTS"):
            keel.init()


class CommandTest(unittest.TestCase):
    def test_module_lists_every_device(self):
        text = run(sys.executable, "-m", "keel", "devices")
        for device in DEVICES:
            self.assertIn(f"\n{device.name:<14} ", text)
        listed = json.loads(run(sys.executable, "-m", "keel", "devices", "--json"))
        self.assertEqual([row["name"] for row in listed["devices"]],
                         [device.name for device in keel.devices()])

    @unittest.skipUnless(COMMAND.exists(), "build/bin/keel was not built")
    def test_module_prints_what_the_command_prints(self):
        # Both with the plugins of the wheel.
        plugins = str(pathlib.Path(keel.__file__).parent / "lib" / "keel" / "plugins")
        command = ["env", f"KEEL_PLUGIN_PATH={plugins}"]
        self.assertEqual(run(*command, sys.executable, "-m", "keel", "devices"),
                         run(*command, COMMAND, "devices"))
        self.assertEqual(
            json.loads(run(*command, sys.executable, "-m", "keel", "devices", "--json")),
            json.loads(run(*command, COMMAND, "devices", "--json")))

    def test_unknown_command_is_refused(self):
        done = subprocess.run([sys.executable, "-m", "keel", "nosuch"], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, 2)
        self.assertIn("nosuch", done.stderr)


class ProcessTest(unittest.TestCase):
    """Programs of their own: Keel starts and ends there."""

    def check(self, program, stderr=""):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, f"^{stderr}$")

    def test_init_chooses_the_plugins(self):
        self.check("import keel\n"
                   "keel.init(backends='cpu', timeout=5)\n"
                   "assert [d.backend for d in keel.devices()] == ['cpu'], keel.devices()\n")

    def test_objects_of_before_a_shutdown_are_invalid(self):
        self.check("import keel\n"
                   "stream = keel.Stream('cpu:0')\n"
                   "buffer = keel.empty('cpu:0', [4])\n"
                   "keel.shutdown()\n"
                   "for use in (stream.synchronize, buffer.numpy, lambda: buffer.device.name):\n"
                   "    try:\n"
                   "        use()\n"
                   "    except keel.Error as error:\n"
                   "        assert error.status in ('KEEL_FAILED_PRECONDITION',\n"
                   "                                'KEEL_INVALID_HANDLE'), error\n"
                   "    else:\n"
                   "        raise AssertionError(use)\n"
                   "assert keel.empty('cpu:0', [4]).numpy().shape == (4,)\n",
                   "(keel warning: .*\n)*")  # one stream, one allocation

    def test_shutdown_is_refused_while_numpy_shares_memory(self):
        self.check("import keel, numpy\n"
                   "array = numpy.from_dlpack(keel.from_numpy(numpy.arange(4), 'cpu:0'))\n"
                   "try:\n"
                   "    keel.shutdown()\n"
                   "except keel.Error as error:\n"
                   "    assert error.status == 'KEEL_FAILED_PRECONDITION', error\n"
                   "else:\n"
                   "    raise AssertionError('shut down')\n"
                   "assert array.tolist() == [0, 1, 2, 3]\n"
                   "del array\n"
                   "keel.shutdown()\n")

    def test_arrays_may_outlive_the_module(self):
        self.check("import keel, numpy\n"
                   "kept = numpy.from_dlpack(keel.from_numpy(numpy.arange(4), 'cpu:0'))\n")

    def test_import_needs_no_torch(self):
        self.check("import sys, keel\n"
                   "keel.devices()\n"
                   "assert 'torch' not in sys.modules\n")

    def test_forked_child_gets_an_error(self):
        self.check("import keel, os\n"
                   "keel.devices()\n"
                   "if os.fork() == 0:\n"
                   "    try:\n"
                   "        keel.empty('cpu:0', [1])\n"
                   "    except keel.Error as error:\n"
                   "        os._exit(0 if error.status == 'KEEL_FORKED' else 1)\n"
                   "    os._exit(2)\n"
                   "assert os.wait()[1] == 0\n")


if __name__ == "__main__":
    unittest.main()
