# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own distributed tests, those inside the installed wheel, over Keel.

    python judge.py [--update] [TEST...]

The tests choose what to run by the name of the backend, so Keel takes Gloo's name. Compares the
outcomes with judge.txt, or writes them there; the reasons of failures are then written by hand.
"""

import argparse
import os
import pathlib
import re
import sys
import time
import unittest

os.environ.update(BACKEND="gloo", WORLD_SIZE="4", KEEL_COLLECTIVE_TABLE="builtin",
                  MASTER_ADDR="127.0.0.1")

import torch
import torch.distributed as dist

import keel_torch

dist.Backend.register_backend("gloo", keel_torch._create, devices=["cpu"])

from torch.testing._internal import common_distributed
from torch.testing._internal.distributed import distributed_test

_get_profiling_event = distributed_test.get_profiling_event


def get_profiling_event(name, *rest, **options):
    """Profilers see Keel's name; the tests look for Gloo's."""
    events = _get_profiling_event(name.replace("gloo:", "keel:"), *rest, **options)
    for event in events:
        event.name = event.name.replace("keel:", "gloo:")
    return events


distributed_test.get_profiling_event = get_profiling_event

LIST = pathlib.Path(__file__).with_name("judge.txt")
SECONDS = 60  # of a test

common_distributed.TIMEOUT_DEFAULT = SECONDS


class Judge(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def _spawn_processes(self):
        # Forked, as importing PyTorch takes seconds.
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


class Outcomes(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.by_name = {}

    def note(self, test, outcome, reason=""):
        name = test.id().rsplit(".", 1)[-1]
        reason = " ".join(reason.split())[:200]
        self.by_name[name] = (outcome, reason)
        print(f"{time.strftime('%H:%M:%S')} {outcome:7} {name} {reason}", flush=True)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)

    def addFailure(self, test, error):
        self.note(test, "failed", reason_of(self._exc_info_to_string(error, test)))

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error:
            self.addFailure(test, error)


def reason_of(text):
    """The exception's last line that says something."""
    errors = [error for error in re.findall(r"^(?:\w+\.)*(\w*(?:Error|Exception): .*)$", text,
                                            re.MULTILINE) if "exited with error" not in error]
    reason = errors[-1] if errors else text.strip().splitlines()[-1]
    return re.sub(r"\d+(\.\d+)? ?(seconds|ms)|0x\w+|process \d+", "...", reason)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write judge.txt")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    names = options.tests or unittest.defaultTestLoader.getTestCaseNames(Judge)
    result = Outcomes()
    unittest.TestSuite(Judge(name) for name in names).run(result)
    counts = {outcome: sum(value[0] == outcome for value in result.by_name.values())
              for outcome in ("passed", "skipped", "failed")}
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    lines = [f"{name}: {outcome}" + (f": {reason}" if reason else "") + "\n"
             for name, (outcome, reason) in sorted(result.by_name.items())]
    if options.update:
        LIST.write_text(f"PyTorch {torch.__version__}, 4 ranks: "
                        + ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
                        + "\n" + "".join(lines))
        return 0
    known = dict(re.findall(r"^(test_\w+): (\w+)", LIST.read_text(), re.MULTILINE))
    changed = [name for name, (outcome, _) in result.by_name.items() if known.get(name) != outcome]
    for name in changed:
        print(f"{name}: {known.get(name)} in judge.txt, {result.by_name[name][0]} now")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
