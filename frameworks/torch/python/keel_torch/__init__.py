# SPDX-License-Identifier: Apache-2.0
"""The process group "keel" for PyTorch: collectives of CPU tensors over Keel.

    import keel_torch
    torch.distributed.init_process_group("keel")
"""

import torch.distributed as dist

from . import _C

__all__ = ["ProcessGroup", "use_allocator", "version"]

ProcessGroup = _C.ProcessGroup
use_allocator = _C.use_allocator
version = _C.version


def _create(store, rank, size, timeout):
    return ProcessGroup(store, rank, size, timeout)


dist.Backend.register_backend("keel", _create, devices=["cpu"])
