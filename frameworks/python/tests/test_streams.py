# SPDX-License-Identifier: Apache-2.0
import os
import signal
import threading
import time
import unittest

import numpy as np

import keel
from devices_here import DEVICES, TIMEOUT, each_device, fails


class StreamTest(unittest.TestCase):
    @each_device
    def test_uploads_and_copies_run_in_order(self, device):
        array = np.arange(1000, dtype=np.float32)
        with keel.Stream(device) as stream:
            first, second = stream.empty([1000]), keel.empty(device, [1000])
            stream.upload(first, array)
            stream.copy(second, first)
            stream.zero(first)
            np.testing.assert_array_equal(second.numpy(stream), array)
            self.assertEqual(first.numpy(stream).any(), False)
        self.assertTrue(stream.closed)

    def test_copies_cross_devices(self):
        array = np.arange(5000, dtype=np.int32)
        for source in DEVICES:
            for destination in DEVICES:
                with self.subTest(source=source.name, destination=destination.name):
                    buffer = keel.empty(destination, [5000], "int32")
                    with keel.Stream(source) as stream:
                        stream.copy(buffer, keel.from_numpy(array, source))
                    np.testing.assert_array_equal(buffer.numpy(), array)

    def test_upload_keeps_the_array_until_it_is_done(self):
        gate, stream = keel.Gate(), keel.Stream("cpu:0")
        buffer = keel.empty("cpu:0", [100_000])
        stream.wait(gate)
        stream.upload(buffer, np.full(100_000, 3, np.float32))
        others = [np.full(100_000, 4, np.float32) for _ in range(4)]
        gate.open()
        stream.synchronize(TIMEOUT)
        self.assertTrue((buffer.numpy() == 3).all())
        del others

    def test_arguments_that_do_not_fit_are_refused(self):
        stream = keel.Stream("cpu:0")
        buffer = keel.empty("cpu:0", [4])
        with fails(self, "KEEL_INVALID_ARGUMENT", "float64[4]", "float32[4]"):
            stream.upload(buffer, np.zeros(4))
        with fails(self, "KEEL_INVALID_ARGUMENT", "float32[5]"):
            stream.upload(buffer, np.zeros(5, np.float32))
        with fails(self, "KEEL_INVALID_ARGUMENT", "float32[4]", "int8[4]"):
            stream.copy(buffer, keel.empty("cpu:0", [4], "int8"))
        with fails(self, "KEEL_INVALID_ARGUMENT", "not dense"):
            stream.zero(buffer.view((2,), strides=(2,)))
        with self.assertRaises(TypeError):
            stream.copy(buffer, np.zeros(4, np.float32))

    def test_wait_that_times_out_leaves_the_work(self):
        gate, stream = keel.Gate(), keel.Stream("cpu:0")
        event = keel.Event()
        stream.wait(gate)
        buffer = keel.from_numpy(np.ones(4, np.float32), "cpu:0")
        stream.zero(buffer)
        event.record(stream)
        for wait in (stream.synchronize, event.wait):
            for timeout in (0, 0.01, 0.25):
                with fails(self, "KEEL_TIMED_OUT"):
                    wait(timeout)
        self.assertFalse(stream.is_done)
        self.assertFalse(event.is_done)
        gate.open()
        stream.synchronize(TIMEOUT)
        event.wait(TIMEOUT)
        self.assertTrue(stream.is_done and event.is_done)
        self.assertEqual(buffer.numpy().tolist(), [0] * 4)

    def test_timeouts_that_make_no_sense_are_refused(self):
        stream = keel.Stream("cpu:0")
        for timeout in (-1, float("nan")):
            with fails(self, "KEEL_INVALID_ARGUMENT"):
                stream.synchronize(timeout)
        stream.synchronize(float("inf"))

    def test_other_threads_run_during_a_wait(self):
        gate, stream = keel.Gate(), keel.Stream("cpu:0")
        stream.wait(gate)
        opener = threading.Thread(target=gate.open)
        opener.start()
        stream.synchronize(TIMEOUT)  # with the GIL, the thread could not open the gate
        opener.join()

    def test_signal_handler_ends_a_wait(self):
        class Interrupted(Exception):
            pass

        def interrupt(*_):
            raise Interrupted
        gate, stream = keel.Gate(), keel.Stream("cpu:0")
        stream.wait(gate)
        stream.zero(keel.empty("cpu:0", [4]))
        former = signal.signal(signal.SIGUSR1, interrupt)
        try:
            sender = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
            sender.start()
            with self.assertRaises(Interrupted):
                stream.synchronize(TIMEOUT)
            sender.join()
        finally:
            signal.signal(signal.SIGUSR1, former)
        gate.open()
        stream.synchronize(TIMEOUT)

    def test_events_order_streams_of_all_devices(self):
        for first in DEVICES:
            for second in DEVICES:
                with self.subTest(first=first.name, second=second.name):
                    gate, event = keel.Gate(), keel.Event()
                    one, two = keel.Stream(first), keel.Stream(second)
                    one.wait(gate)
                    event.record(one)
                    two.wait(event)
                    buffer = keel.from_numpy(np.ones(4, np.float32), second)
                    two.zero(buffer)
                    self.assertFalse(two.is_done)
                    gate.open()
                    self.assertEqual(buffer.numpy(two).tolist(), [0] * 4)
                    one.synchronize(TIMEOUT)

    def test_timing_events_measure(self):
        begin, end = keel.Event(timing=True), keel.Event(timing=True)
        with keel.Stream("cpu:0") as stream:
            begin.record(stream)
            stream.zero(keel.empty("cpu:0", [1 << 20]))
            end.record(stream)
        self.assertGreaterEqual(end.elapsed_since(begin), 0)

    def test_closed_gate_fails_the_stream_until_it_recovers(self):
        gate, stream = keel.Gate(), keel.Stream("cpu:0")
        stream.wait(gate)
        buffer = keel.from_numpy(np.ones(4, np.float32), "cpu:0")
        stream.zero(buffer)
        gate.close()
        with fails(self, "KEEL_CANCELLED"):
            stream.synchronize(TIMEOUT)
        with fails(self, "KEEL_STREAM_FAILED"):
            stream.zero(buffer)
        stream.recover(TIMEOUT)
        stream.zero(buffer)
        self.assertEqual(buffer.numpy(stream).tolist(), [0] * 4)

    def test_closed_objects_are_refused(self):
        stream, event, gate = keel.Stream("cpu:0"), keel.Event(), keel.Gate()
        live = keel.Stream("cpu:0")
        buffer = keel.empty("cpu:0", [4])
        for each in (stream, event, gate):
            each.close()
            each.close()
        for use in (stream.synchronize, lambda: stream.is_done, lambda: stream.zero(buffer),
                    lambda: buffer.numpy(stream), lambda: stream.empty([1]), lambda: event.wait(1),
                    lambda: event.record(live), lambda: live.wait(event), lambda: live.wait(gate),
                    gate.open):
            with fails(self, "KEEL_INVALID_HANDLE", "closed"):
                use()

    def test_failure_in_a_with_block_is_not_replaced(self):
        with self.assertRaises(KeyError):
            with keel.Stream("cpu:0"):
                raise KeyError("of the block")

    def test_many_threads_use_one_stream(self):
        stream = keel.Stream("cpu:0")
        buffers = [keel.from_numpy(np.ones(100, np.float32), "cpu:0") for _ in range(4)]

        def work(buffer):
            for _ in range(50):
                keel.ops.scale(stream, x=buffer, y=buffer, alpha=2.0)
                keel.ops.scale(stream, x=buffer, y=buffer, alpha=0.5)
            stream.synchronize(TIMEOUT)
        threads = [threading.Thread(target=work, args=(buffer,)) for buffer in buffers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * TIMEOUT)
        for buffer in buffers:
            self.assertEqual(buffer.numpy().tolist(), [1] * 100)


class ThreadTest(unittest.TestCase):
    def test_close_during_a_wait_of_another_thread(self):
        gate, stream = keel.Gate(), keel.Stream("cpu:0")
        stream.wait(gate)
        stream.zero(keel.empty("cpu:0", [4]))
        ended = []

        def wait():
            try:
                stream.synchronize(TIMEOUT)
                ended.append("done")
            except keel.Error as error:
                ended.append(error.status)
        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(0.05)
        stream.close()  # cancels what the gate holds
        waiter.join(TIMEOUT)
        self.assertEqual(len(ended), 1)


if __name__ == "__main__":
    unittest.main()
