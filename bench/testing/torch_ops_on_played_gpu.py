# SPDX-License-Identifier: Apache-2.0
"""torch_ops.py on a CPU that PyTorch takes for a GPU, so that what it does on one runs without.

    torch_ops_on_played_gpu.py DEVICE THREADS SETS      as torch_ops.py
"""

import pathlib
import runpy
import sys
import time
import types

try:
    import torch
except ImportError:
    torch = None  # as torch_ops.py says

on_cpu = torch and torch.device


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.time = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return (end.time - self.time) * 1e3


def device(name):
    return types.SimpleNamespace(type="cuda") if name.startswith("cuda") else on_cpu(name)


def is_played(place):
    return getattr(place, "type", None) == "cuda"


def make_on_cpu(function):
    def make(*arguments, **options):
        if is_played(options.get("device")):
            del options["device"]
        return function(*arguments, **options)

    return make


def play():
    torch.device = device
    for name in ("empty", "randint", "randperm"):
        setattr(torch, name, make_on_cpu(getattr(torch, name)))
    to = torch.Tensor.to
    torch.Tensor.to = lambda self, place: self if is_played(place) else to(self, place)
    torch.cuda.is_available = lambda: True
    torch.cuda.set_device = lambda number: None
    torch.cuda.empty_cache = lambda: None
    torch.cuda.Event = Event
    torch.version.cuda = "9.9"
    torch.compile = lambda function, fullgraph, dynamic: function


if torch:
    play()
script = pathlib.Path(__file__).resolve().parent.parent / "peers" / "torch_ops.py"
sys.argv[0] = str(script)
runpy.run_path(str(script), run_name="__main__")
