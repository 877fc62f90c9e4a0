# SPDX-License-Identifier: Apache-2.0
"""Trains models of two layers on the CPU and on the last keel device, and prints what differs.

    KEEL_DEVICES=cpu:0,cuda:0 python emulated_training.py

test_device_emulated.py runs it with the emulated chip's driver. Prints a JSON object: the device's
name, and of each model the losses on both and the fallbacks.
"""

import json
import pathlib
import sys

import torch

import keel_torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from device_models import MODELS, train  # noqa: E402

STEPS = 2  # the second loss shows the first step's gradients and optimizer


def main():
    torch.set_num_threads(1)
    names = keel_torch.devices()
    device = f"keel:{len(names) - 1}"
    results = {"device": names[-1], "models": {}}
    for name, make in MODELS.items():
        wanted = train(make, "cpu", STEPS)
        keel_torch.reset_fallbacks()
        losses = train(make, device, STEPS)
        results["models"][name] = {"cpu": wanted, "device": losses,
                                   "fallbacks": keel_torch.fallbacks()}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
