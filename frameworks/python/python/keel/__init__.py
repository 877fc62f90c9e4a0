# SPDX-License-Identifier: Apache-2.0
"""Keel: devices, memory, operators and collectives of every AI chip, behind one interface.

    import keel, numpy as np
    stream = keel.Stream("vulkan:0")
    a = keel.from_numpy(np.ones((2, 3), np.float32), stream.device)
    b = keel.from_numpy(np.ones((3, 4), np.float32), stream.device)
    c = keel.empty(stream.device, (2, 4))
    keel.ops.matmul(stream, a=a, b=b, c=c)
    print(c.numpy(stream))

Failures are keel.Error. Calls on a stream return at once; waits release the GIL and take a timeout in
seconds. Keel starts with the first call and ends with the process. `python -m keel devices` lists the
devices.
"""

import atexit

from . import _C, ops
from ._C import (Buffer, Communicator, Device, Event, Gate, Stream, backends, devices, empty,
                 fallback_count, forbid_fallback, from_dlpack, from_numpy, group, init, shutdown,
                 unique_id)
from ._C import version as __version__
from .errors import Error

__all__ = [
    "Buffer", "Communicator", "Device", "Error", "Event", "Gate", "Stream", "backends", "devices",
    "empty", "fallback_count", "forbid_fallback", "from_dlpack", "from_numpy", "group", "init", "ops",
    "shutdown", "unique_id",
]

for _each in (Buffer, Communicator, Device, Error, Event, Gate, Stream, group):
    _each.__module__ = "keel"

atexit.register(_C._at_exit)
