# SPDX-License-Identifier: Apache-2.0
"""Models trained on keel devices: losses as on the CPU, and nothing that runs on the CPU."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import device_case  # names the devices

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import torch

import keel_torch
from device_models import Encoder, Gpt, Llama, train

torch.set_num_threads(1)
STEPS = int(os.environ.get("KEEL_TORCH_TEST_STEPS", 50))
SAMPLE = pathlib.Path(__file__).parents[2] / "samples" / "train_device.py"


class DeviceTrainingTest(unittest.TestCase):
    def check(self, make):
        wanted = train(make, "cpu", STEPS)
        for index, name in enumerate(keel_torch.devices()):
            if name == "cpu:1":
                continue
            with self.subTest(device=name):
                keel_torch.reset_fallbacks()
                losses = train(make, f"keel:{index}", STEPS)
                fallbacks = keel_torch.fallbacks()
                print(f"{make.__name__} on {name}: fallbacks {fallbacks}")
                for step, (loss, want) in enumerate(zip(losses, wanted)):
                    self.assertAlmostEqual(loss, want, delta=1e-4, msg=f"step {step}")
                self.assertEqual(fallbacks, {})

    def test_transformer_encoder_trains_as_on_the_cpu(self):
        self.check(Encoder)

    def test_gpt2_trains_as_on_the_cpu(self):
        self.check(Gpt)

    def test_llama_trains_as_on_the_cpu(self):
        self.check(Llama)


class DeviceSampleTest(unittest.TestCase):
    def output_of(self, script):
        finished = subprocess.run([sys.executable, str(script)], capture_output=True, text=True,
                                  timeout=300)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        return [float(loss) for loss in re.findall(r"loss (\S+)", finished.stdout)]

    def test_script_trains_with_two_lines_changed(self):
        losses = self.output_of(SAMPLE)
        self.assertEqual(len(losses), 4)
        self.assertLess(losses[-1], losses[0])
        text = SAMPLE.read_text()
        stock = text.replace('.to("keel")', "")
        changed = [line for line, other in zip(text.splitlines(), stock.splitlines())
                   if line != other]
        self.assertEqual(len(changed), 2, changed)
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "train.py"
            script.write_text(stock)
            for loss, want in zip(losses, self.output_of(script)):
                self.assertAlmostEqual(loss, want, delta=1e-3)


if __name__ == "__main__":
    unittest.main()
