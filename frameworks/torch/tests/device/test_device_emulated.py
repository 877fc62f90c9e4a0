# SPDX-License-Identifier: Apache-2.0
"""Training through the CUDA plugin over the emulated chip, which needs no GPU: losses as on the
CPU, and every operator by a kernel of the plugin."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import torch  # imports keel_torch

import keel_torch

SCRIPT = pathlib.Path(__file__).with_name("emulated_training.py")
# The build whose wheel this is: BUILD/torch/site/keel_torch/__init__.py.
LIBRARIES = pathlib.Path(keel_torch.__file__).resolve().parents[3] / "lib" / "keel"
PLUGINS, EMULATED = LIBRARIES / "plugins", LIBRARIES / "emulated" / "cuda"


class DeviceEmulatedTest(unittest.TestCase):
    def setUp(self):
        for file in (PLUGINS / "libkeel_cuda.so", EMULATED / "libcuda.so.1",
                     EMULATED / "libkeel_simt_host.so"):
            if not file.exists():
                self.skipTest(f"the build has no {file}")

    def test_models_train_on_the_emulated_gpu_as_on_the_cpu(self):
        # PyTorch's own CUDA would find the emulated driver, since it is loaded.
        environment = {**os.environ, "KEEL_PLUGIN_PATH": str(PLUGINS),
                       "KEEL_CUDA_LIBRARY_FOLDER": str(EMULATED), "CUDA_VISIBLE_DEVICES": "",
                       "KEEL_DEVICES": "cpu:0,cuda:0", "KEEL_EMULATED_CUDA": "devices=1"}
        environment.pop("KEEL_BACKENDS", None)
        finished = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True,
                                  env=environment, timeout=300)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        results = json.loads(finished.stdout.splitlines()[-1])
        self.assertEqual(results["device"], "cuda:0")
        self.assertEqual(len(results["models"]), 3)
        for name, result in results["models"].items():
            with self.subTest(model=name):
                self.assertEqual(result["fallbacks"], {})
                self.assertEqual(len(result["device"]), len(result["cpu"]))
                for loss, want in zip(result["device"], result["cpu"]):
                    self.assertAlmostEqual(loss, want, delta=1e-4)


if __name__ == "__main__":
    unittest.main()
