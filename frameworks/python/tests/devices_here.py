# SPDX-License-Identifier: Apache-2.0
"""What several tests need: the devices that operators run on here, and expected failures."""

import contextlib
import os

# Not what somebody has measured on this machine.
os.environ.setdefault("KEEL_COLLECTIVE_TABLE", "builtin")

import keel  # noqa: E402

# Seconds; generous, for loaded machines.
TIMEOUT = 60.0

# A device a backend: "cpu:0", and "vulkan:0" where its plugin finds one.
DEVICES = [keel.Device(backend["name"]) for backend in keel.backends() if backend["device_count"]]
OTHERS = [device for device in DEVICES if device.backend != "cpu"]


@contextlib.contextmanager
def fails(test, status, *words):
    """Expects keel.Error with |status| and |words| in the message."""
    with test.assertRaises(keel.Error) as caught:
        yield
    test.assertEqual(caught.exception.status, status, str(caught.exception))
    for word in words:
        test.assertIn(word, caught.exception.message)


def each_device(method):
    """Runs a test method once for each of DEVICES."""
    def run(self):
        for device in DEVICES:
            with self.subTest(device=device.name):
                method(self, device)
    return run
