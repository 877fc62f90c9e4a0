# SPDX-License-Identifier: Apache-2.0
"""The module torch.keel: what torch.cuda is for CUDA, for the devices keel:0, keel:1, ..."""

import contextlib

import torch

from . import _C

__all__ = [
    "Event", "Stream", "current_device", "current_stream", "default_stream", "device",
    "device_count", "empty_cache", "get_device_name", "get_rng_state", "get_rng_state_all",
    "initial_seed", "is_available", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state",
    "set_rng_state_all", "stream", "synchronize"
]

_DEVICE_TYPE = 20  # PrivateUse1 in c10::DeviceType

device_count = _C.device_count
current_device = _C.current_device
is_initialized = _C.is_initialized
empty_cache = _C.empty_cache


def _index(device=None):
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "keel":
        raise ValueError(f"keel: expected a keel device, not {device}")
    return current_device() if device.index is None else device.index


def __getattr__(name):
    # torch.utils.checkpoint keeps the random state of modules that say so.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_available():
    return device_count() > 0


def _is_in_bad_fork():
    return _C.is_forked()


def _lazy_init():
    device_count()


def set_device(device):
    _C.set_device(_index(device))


def get_device_name(device=None):
    """The Keel device behind |device|, such as 'vulkan:0'."""
    return _C.device_name(_index(device))


class device(contextlib.AbstractContextManager):
    """Makes |device| the calling thread's device inside the with statement."""

    def __init__(self, device):
        self.index = _index(device)

    def __enter__(self):
        self.former = current_device()
        set_device(self.index)

    def __exit__(self, *exception):
        set_device(self.former)


def synchronize(device=None):
    _C.synchronize(_index(device))


class Stream(torch.Stream):
    def __new__(cls, device=None, priority=0):
        return super().__new__(cls, device=f"keel:{_index(device)}", priority=priority)


class Event(torch.Event):
    def __new__(cls, enable_timing=False):
        return super().__new__(cls, device="keel", enable_timing=enable_timing)


def current_stream(device=None):
    return torch.accelerator.current_stream(torch.device("keel", _index(device)))


def default_stream(device=None):
    return torch.Stream(stream_id=0, device_index=_index(device), device_type=_DEVICE_TYPE)


@contextlib.contextmanager
def stream(stream):
    """Makes |stream| the calling thread's stream inside the with statement."""
    if stream is None:
        yield
        return
    with stream:
        yield


def _generator(device=None):
    return _C.default_generator(_index(device))


def manual_seed(seed):
    _generator().manual_seed(int(seed))


def manual_seed_all(seed):
    # Generators exist before their devices do: seeding initialises nothing.
    for index in range(16):
        _C.default_generator(index).manual_seed(int(seed))


def seed():
    return _generator().seed()


def seed_all():
    value = seed()
    manual_seed_all(value)
    return value


def initial_seed():
    return _generator().initial_seed()


def get_rng_state(device="keel"):
    return _generator(device).get_state()


def set_rng_state(state, device="keel"):
    _generator(device).set_state(state)


def get_rng_state_all():
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(states):
    for index, state in enumerate(states):
        set_rng_state(state, index)


def memory_stats(device=None):
    return _C.memory_stats(_index(device))


def memory_allocated(device=None):
    return memory_stats(device)["allocated"]


def max_memory_allocated(device=None):
    return memory_stats(device)["allocated_peak"]


def memory_reserved(device=None):
    return memory_stats(device)["reserved"]


def reset_peak_memory_stats(device=None):
    _C.reset_peak_memory_stats(_index(device))


def get_amp_supported_dtype():
    return [torch.bfloat16, torch.float16]
