# SPDX-License-Identifier: Apache-2.0
"""all_reduce by keel.h alone: ctypes calls the libkeel that keel_torch has loaded."""

import ctypes
import os
import time

import keel_torch

FLOAT32, MAX = 11, 3  # of keel/abi.h
TIMEOUT_DEFAULT = -1
ALL_REDUCE = (ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64,
              ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64)
SYNCHRONIZE = (ctypes.c_int, ctypes.c_uint64, ctypes.c_int64)


class Calls:
    """A communicator of the ranks' CPUs and a stream. Handles are structures of one uint64."""

    def __init__(self, store, rank, world):
        self.library = ctypes.CDLL(os.path.join(os.path.dirname(keel_torch.__file__), "lib",
                                                "libkeel.so.0"))
        self.all_reduce = ctypes.CFUNCTYPE(*ALL_REDUCE)(("keel_all_reduce", self.library))
        self.synchronize = ctypes.CFUNCTYPE(*SYNCHRONIZE)(("keel_stream_synchronize", self.library))
        device, self.comm, self.stream = (ctypes.c_uint64() for _ in range(3))
        self._check(self.library.keel_device_find(b"cpu", ctypes.byref(device)))
        text = ctypes.create_string_buffer(128)
        if rank == 0:
            self._check(self.library.keel_unique_id_create(text))
            store.set("bench/keel.h", text.raw.hex())
        text.raw = bytes.fromhex(store.get("bench/keel.h").decode())
        self._check(self.library.keel_comm_init_rank(device, text, ctypes.c_uint32(rank),
                                                     ctypes.c_uint32(world), None,
                                                     ctypes.byref(self.comm)))
        self._check(self.library.keel_stream_create(device, ctypes.c_int32(0),
                                                    ctypes.byref(self.stream)))

    def close(self):
        self._check(self.library.keel_comm_destroy(self.comm))
        self._check(self.library.keel_stream_destroy(self.stream))

    def seconds(self, tensor, calls):
        """Seconds a call of |calls| times all_reduce of |tensor| and a wait."""
        comm, stream = self.comm.value, self.stream.value
        data, count = tensor.data_ptr(), tensor.numel()
        all_reduce, synchronize = self.all_reduce, self.synchronize
        begin = time.perf_counter()
        for _ in range(calls):
            if (all_reduce(comm, data, data, count, FLOAT32, MAX, stream)
                    or synchronize(stream, TIMEOUT_DEFAULT)):
                self._check(1)
        return (time.perf_counter() - begin) / calls

    def cost(self, calls):
        """Seconds that ctypes takes of a call of seconds(): two functions of the same arguments."""
        own = ctypes.CDLL(None)
        first = ctypes.CFUNCTYPE(*ALL_REDUCE)(("abs", own))
        second = ctypes.CFUNCTYPE(*SYNCHRONIZE)(("abs", own))
        data = id(self)
        begin = time.perf_counter()
        for _ in range(calls):
            if first(0, data, data, 0, FLOAT32, MAX, 0) or second(0, TIMEOUT_DEFAULT):
                return None
        return (time.perf_counter() - begin) / calls

    def _check(self, status):
        if status:
            self.library.keel_last_error.restype = ctypes.c_char_p
            raise RuntimeError(self.library.keel_last_error().decode())
