# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own distributed tests, those inside the installed wheel, over Keel.

    python judge.py [--update | --note] [--ranks N] [TEST...]

The tests choose what to run by the name of the backend, so Keel takes Gloo's name. Compares the
outcomes with judge.txt, or writes them there; the reasons of failures are then written by hand. The
list is of 4 ranks and of the PyTorch in its first line: with another number of ranks, or another
PyTorch, only failures that are not in the list count, and --note adds a line of numbers.
"""

import argparse
import os
import pathlib
import re
import sys
import time
import unittest

LIST_RANKS = 4


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write judge.txt, of 4 ranks")
    parser.add_argument("--note", action="store_true", help="write the line of numbers alone")
    parser.add_argument("--ranks", type=int, default=LIST_RANKS)
    parser.add_argument("tests", nargs="*")
    parsed = parser.parse_args()
    if parsed.update and parsed.ranks != LIST_RANKS:
        parser.error(f"the list is of {LIST_RANKS} ranks")
    return parsed


# Decorators of the tests read the number of ranks when they are imported.
options = parse()
os.environ.update(BACKEND="gloo", WORLD_SIZE=str(options.ranks), KEEL_COLLECTIVE_TABLE="builtin",
                  MASTER_ADDR="127.0.0.1")

import torch
import torch.distributed as dist

import keel_torch

# The tests are those of CPU tensors; a look for devices would start Keel before the ranks are
# forked.
torch.keel.is_available = torch.accelerator.is_available = lambda: False
torch.accelerator.device_count = lambda: 0
torch.accelerator.current_accelerator = lambda *arguments, **options: None

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
    names = options.tests or unittest.defaultTestLoader.getTestCaseNames(Judge)
    result = Outcomes()
    unittest.TestSuite(Judge(name) for name in names).run(result)
    counts = {outcome: sum(value[0] == outcome for value in result.by_name.values())
              for outcome in ("passed", "skipped", "failed")}
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    print(summary)
    head = f"PyTorch {torch.__version__}, {options.ranks} ranks: "
    # The first line is the list's own.
    first, others, tests = re.fullmatch(r"(PyTorch .*\n)((?:PyTorch .*\n)*)((?:.*\n)*)",
                                        LIST.read_text()).groups()
    is_of_list = first.startswith(head)
    if options.update:
        first = head + summary + "\n"
        tests = "".join(f"{name}: {outcome}" + (f": {reason}" if reason else "") + "\n"
                        for name, (outcome, reason) in sorted(result.by_name.items()))
    elif options.note and not is_of_list:
        lines = [line for line in others.splitlines() if not line.startswith(head)]
        others = "".join(line + "\n" for line in sorted([*lines, head + summary]))
    if options.update or options.note:
        LIST.write_text(first + others + tests)
    if options.update:
        return 0
    known = dict(re.findall(r"^(test_\w+): (\w+)", tests, re.MULTILINE))
    changed = [name for name, (outcome, _) in result.by_name.items()
               if known.get(name) != outcome and (is_of_list or outcome == "failed")]
    for name in changed:
        print(f"{name}: {known.get(name)} in judge.txt, {result.by_name[name][0]} now")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
