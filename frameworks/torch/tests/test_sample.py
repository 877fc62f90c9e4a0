# SPDX-License-Identifier: Apache-2.0
"""The sample, started as its user starts it, and the same script without Keel's two lines."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SAMPLE = pathlib.Path(__file__).parent.parent / "samples" / "train.py"


def output_of(script):
    finished = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         str(script)], capture_output=True, text=True, timeout=300)
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


if __name__ == "__main__":
    unittest.main()
