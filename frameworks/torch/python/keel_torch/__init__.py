# SPDX-License-Identifier: Apache-2.0
"""Keel for PyTorch: the devices keel:0, keel:1, ..., and the process group "keel".

    model.to("keel")
    torch.distributed.init_process_group("keel")

PyTorch imports this package itself, as an extension of the entry point torch.backends.
"""


def _autoload():
    """PyTorch calls this at the end of its import; importing the package has done the work. Before
    the import of PyTorch, which finds it in a script that imports this package first."""


import torch
import torch.distributed as dist
from torch.utils.dlpack import DLDeviceType

from . import _built_for


def _check_torch():
    """Raises ImportError where _C was compiled for another PyTorch, whose C++ interface differs."""
    here, built_for = torch.__version__.split("+")[0], _built_for.TORCH
    if here.split(".")[:2] != built_for.split(".")[:2]:
        raise ImportError(
            f"keel_torch: this wheel was built for PyTorch {built_for}, and this is PyTorch {here}: "
            f"KEEL_TORCH_VERSION={here} ./dev torch makes a wheel for it")


_check_torch()

from . import _C
from . import keel as _keel

__all__ = [
    "ProcessGroup", "device", "devices", "fallbacks", "forbid_fallback", "reset_fallbacks",
    "use_allocator", "version"
]

ProcessGroup = _C.ProcessGroup
use_allocator = _C.use_allocator
version = _C.version
fallbacks = _C.fallbacks
reset_fallbacks = _C.reset_fallbacks
forbid_fallback = _C.forbid_fallback


def device(name):
    """torch.device of the Keel device |name|, such as 'vulkan:0' or 'vulkan'."""
    return torch.device("keel", _C.device_find(name))


def devices():
    """The names of the Keel devices behind keel:0, keel:1, ..."""
    return [_C.device_name(index) for index in range(_C.device_count())]


def _create(store, rank, size, timeout):
    return ProcessGroup(store, rank, size, timeout)


def _register_device():
    _C.register_device()
    torch.utils.rename_privateuse1_backend("keel")
    torch._register_device_module("keel", _keel)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)


def _name_dlpack_device():
    """PyTorch knows the device of DLPack by the name that PrivateUse1 had before it was renamed."""
    by_torch = torch.Tensor.__dlpack_device__
    external = DLDeviceType.kDLExtDev

    def __dlpack_device__(self):
        if self.device.type == "keel":
            return external, self.device.index
        return by_torch(self)

    torch.Tensor.__dlpack_device__ = __dlpack_device__


_register_device()
_name_dlpack_device()
dist.Backend.register_backend("keel", _create, devices=["cpu", "keel"])
