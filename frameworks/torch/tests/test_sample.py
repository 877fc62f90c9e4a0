# SPDX-License-Identifier: Apache-2.0
"""The samples, started as their users start them, and the same scripts without Keel's two lines."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from device_ranks import has_device

SAMPLES = pathlib.Path(__file__).parent.parent / "samples"
SAMPLE = SAMPLES / "train.py"
ON_DEVICES = SAMPLES / "train_device_ddp.py"


def output_of(script, **environment):
    finished = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         str(script)], capture_output=True, text=True, timeout=300,
        env=dict(os.environ, **environment))
    if finished.returncode != 0:
        raise AssertionError(finished.stderr)
    return finished.stdout


class SampleTest(unittest.TestCase):
    def test_sample_trains_as_over_gloo(self):
        printed = output_of(SAMPLE)
        losses = [float(loss) for loss in re.findall(r"loss (\S+)", printed)]
        self.assertEqual(len(losses), 6, printed)
        self.assertLess(losses[-1], losses[0] / 2)
        stock = SAMPLE.read_text().replace("import keel_torch", "#")
        stock = stock.replace('init_process_group("keel")', 'init_process_group("gloo")')
        code = stock.split('"""')[2]
        self.assertNotIn("keel", code)
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "train.py"
            script.write_text(stock)
            self.assertEqual(output_of(script), printed)

    def test_sample_of_two_devices_trains_as_on_the_cpu(self):
        other = "vulkan:0" if has_device("vulkan:0") else "cpu:0"
        losses = re.findall(r"loss (\S+)", output_of(ON_DEVICES, KEEL_DEVICES=f"cpu:0,{other}"))
        self.assertEqual(len(losses), 4)
        text = ON_DEVICES.read_text()
        stock = text.replace('init_process_group("keel")', 'init_process_group("gloo")')
        stock = stock.replace('torch.device("keel", ', 'torch.device("cpu", ')
        changed = [line for line, former in zip(text.splitlines(), stock.splitlines())
                   if line != former]
        self.assertEqual(len(changed), 2, changed)
        self.assertEqual(re.findall(r"^(?:import|from) (?!torch)(\S+)", text, re.M), ["os"])
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "train.py"
            script.write_text(stock)
            wanted = re.findall(r"loss (\S+)", output_of(script))
        for loss, want in zip(losses, wanted, strict=True):
            self.assertAlmostEqual(float(loss), float(want), delta=1e-3)


if __name__ == "__main__":
    unittest.main()
