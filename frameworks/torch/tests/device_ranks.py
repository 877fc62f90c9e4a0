# SPDX-License-Identifier: Apache-2.0
"""Runs a function in ranks whose keel devices are of one make or of two."""

import functools
import os
import unittest

import torch

import keel_torch
from ranks import run_ranks

PAIRS = {"two_cpus": ("cpu", "cpu"), "cpu_and_vulkan": ("cpu", "vulkan:0")}


def enter(rank, world, names, function, *arguments):
    """function(rank, world, keel:0, *arguments); names[rank]: KEEL_DEVICES of the rank."""
    # Keel loads the plugins of a rank's devices on their first use, in the rank.
    os.environ["KEEL_DEVICES"] = names[rank]
    return function(rank, world, torch.device("keel", 0), *arguments)


def _count(rank, world, device):
    return keel_torch._C.device_count()


@functools.cache
def has_device(name):
    return run_ranks(1, enter, (name,), _count, backend=None)[0] > 0


def run_device_ranks(names, function, *arguments, **options):
    """run_ranks of function(rank, world, device, *arguments); the device of rank r is names[r]."""
    for name in names:
        if name != "cpu" and not has_device(name):
            raise unittest.SkipTest(f"no device {name} on this machine")
    return run_ranks(len(names), enter, names, function, *arguments, **options)


def add_device_tests(case, functions):
    """Adds a test to the class |case| for each function by name, and each pair of devices."""
    for name, function in functions.items():
        for pair, names in PAIRS.items():
            def test(self, function=function, names=names):
                run_device_ranks(names, function)
            setattr(case, f"test_{name}_of_{pair}", test)
