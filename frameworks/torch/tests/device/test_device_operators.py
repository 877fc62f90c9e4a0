# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own samples of operators on a keel device: as many pass as the list says.

Runs a third of the claimed operators; KEEL_TORCH_TEST_OPERATORS=all runs all of them.
"""

import os
import unittest
import warnings

import device_case  # names the devices

import torch

import operators

SEED, PARTS = 1, 3


class DeviceOperatorsTest(unittest.TestCase):
    def test_samples_pass_as_listed(self):
        names = operators.CLAIMED
        if os.environ.get("KEEL_TORCH_TEST_OPERATORS") != "all":
            names = operators.part_of(names, SEED, PARTS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            counts = operators.judge("keel:0", names)
        samples = sum(of for _, of in counts.values())
        print(f"{samples} samples of {len(counts)} operators and types, {len(names)} names")
        # An operator of another PyTorch may have another name.
        self.assertGreater(len({name.split()[0] for name in counts}), 0.9 * len(names))
        self.assertEqual(operators.shortfalls(counts, operators.committed("keel:0")), [])

    def test_part_is_fixed_and_parts_differ(self):
        first = operators.part_of(operators.CLAIMED, SEED, PARTS)
        self.assertEqual(first, operators.part_of(operators.CLAIMED, SEED, PARTS))
        self.assertNotEqual(first, operators.part_of(operators.CLAIMED, SEED + 1, PARTS))
        self.assertGreater(len(first), len(operators.CLAIMED) / PARTS / 2)

    def test_shortfalls_name_what_is_worse(self):
        listed = {"add float32": (9, 10), "mul float32": (5, 5)}
        counts = {"add float32": (9, 10), "mul float32": (4, 5), "div float32": (1, 1)}
        self.assertEqual(operators.shortfalls(counts, listed), [
            "mul float32: 4 of 5, 5 of 5 listed", "div float32: 1 of 1, not listed"
        ])

    def test_wrong_result_is_no_pass(self):
        operator = next(each for each in operators.op_db if each.name == "add")

        def spoiled(result):
            return result * 1.5 if result.device.type == "keel" else result

        class Wrong:
            name = operator.name
            sample_inputs = operator.sample_inputs

            def __call__(self, *inputs, **options):
                return spoiled(operator(*inputs, **options))

            def inplace_variant(self, *inputs, **options):
                return spoiled(operator.inplace_variant(*inputs, **options))

        for name, run in operators.RUNS.items():
            with self.subTest(name):
                passed, samples = operators.count(operator, torch.float32, "keel:0", [], run)
                self.assertEqual(passed, samples)
                reasons = []
                wrong = operators.count(Wrong(), torch.float32, "keel:0", reasons, run)
                # A sample without elements has no wrong ones.
                self.assertLess(wrong[0], samples / 4)
                self.assertEqual(len(reasons), samples - wrong[0])


if __name__ == "__main__":
    unittest.main()
