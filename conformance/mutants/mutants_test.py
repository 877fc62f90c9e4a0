#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests in which order mutants.py runs parts of the suite on a mutant, and what it remembers."""
import sys
import unittest

sys.dont_write_bytecode = True
import mutants  # noqa: E402
from lane import NoSuchCase  # noqa: E402

CASE = "core/copy/offsets"
OTHER = "core/fill"


def failed(case, outcome="fail"):
    return [(case, outcome, "text")]


class SuiteOf:
    """A lane whose runs end as |by_run| says: of "case", "level" and "suite", (case, outcome,
    message) of those that do not pass. A part that is missing passes; None: no such case."""

    prefix = "/nowhere"

    def __init__(self, **by_run):
        self.by_run = by_run
        self.ran = []

    def built(self, target, entry):
        return ["--plugin", "mutant"]

    def run(self, options, until_caught, variables):
        part = "suite"
        if "--level" in options:
            part = "level"
        elif "--filter" in options:
            part = "case"
        self.ran.append(part)
        cases = self.by_run.get(part, [])
        if cases is None:
            raise NoSuchCase("filter selects none")
        return cases, not cases


def examined(lane, remembered=None, **members):
    entry = {"id": "sample/x", "kind": "copies", "why": "", "level": "core", **members}
    return mutants.examine(lane, "sample", entry, remembered, wrong=None)


class OrderTest(unittest.TestCase):
    remembered = {"case": CASE, "outcome": "fail"}

    def expect(self, lane, result, ran, case=""):
        self.assertEqual((result["result"], result["case"], lane.ran),
                         ("caught" if case else "missed", case, ran))

    def test_remembered_case_is_all_that_runs(self):
        lane = SuiteOf(case=failed(CASE))
        self.expect(lane, examined(lane, self.remembered), ["case"], CASE)

    def test_case_that_passes_is_followed_by_the_level(self):
        lane = SuiteOf(level=failed(OTHER))
        self.expect(lane, examined(lane, self.remembered), ["case", "level"], OTHER)

    def test_case_that_is_gone_is_followed_by_the_level(self):
        lane = SuiteOf(case=None, suite=failed(OTHER))
        self.expect(lane, examined(lane, self.remembered), ["case", "level", "suite"], OTHER)

    def test_crash_of_a_case_that_failed_leaves_the_word_to_the_level(self):
        lane = SuiteOf(case=failed(CASE, "crash"), level=failed(OTHER))
        result = examined(lane, self.remembered)
        self.expect(lane, result, ["case", "level"], OTHER)
        self.assertNotIn("only", result)

    def test_crash_of_a_case_that_crashed_counts(self):
        lane = SuiteOf(case=failed(CASE, "timeout"))
        result = examined(lane, {"case": CASE, "outcome": "crash"})
        self.expect(lane, result, ["case"], CASE)
        self.assertEqual(result["only"], "timeout")

    def test_missed_fault_runs_the_suite_once(self):
        lane = SuiteOf()
        self.expect(lane, examined(lane, missed="a race"), ["suite"])

    def test_lawful_edit_always_runs_the_suite(self):
        lane = SuiteOf(case=failed(CASE))
        result = examined(lane, self.remembered, lawful=True)
        self.assertEqual((result["result"], lane.ran), ("lawful passed", ["suite"]))


class RememberTest(unittest.TestCase):
    def test_results_replace_what_was_known(self):
        known = {"case": OTHER, "outcome": "fail"}
        before = {name: known for name in ("cpu/a", "cpu/b", "cpu/c", "cpu/gone")}
        results = [{"id": "cpu/a", "result": "caught", "case": CASE, "outcome": "crash"},
                   {"id": "cpu/b", "result": "missed", "case": "", "outcome": ""},
                   {"id": "cpu/c", "result": "broken", "case": "", "outcome": ""},
                   {"id": "cpu/d", "result": "caught", "case": "loading", "outcome": "fail"},
                   {"id": "cpu/new", "result": "caught", "case": CASE, "outcome": "fail"}]
        ids = {"cpu/a", "cpu/b", "cpu/c", "cpu/d"}
        self.assertEqual(mutants.remember(before, results, ids),
                         {"cpu/a": {"case": CASE, "outcome": "crash"}, "cpu/c": known})


class ListTest(unittest.TestCase):
    def test_two_entries_that_make_one_source_are_a_defect(self):
        first = {"id": "cpu/a", "file": "conformance/mutants/lane.py",
                 "before": "class NoSuchCase(Broken)", "after": "class Other(Broken)",
                 "level": "core", "kind": "copies", "why": "w"}
        second = dict(first, id="cpu/b", before="class NoSuchCase", after="class Other")
        seen = {}
        self.assertIsNone(mutants.defect(first, "cpu", seen))
        self.assertEqual(mutants.defect(second, "cpu", seen), "makes the same source as cpu/a")


if __name__ == "__main__":
    unittest.main()
