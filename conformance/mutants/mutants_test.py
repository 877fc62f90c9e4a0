#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests in which order mutants.py runs parts of the suite on a mutant, what it remembers, and that
no mutant meets what another one left."""
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
import lane as lanes  # noqa: E402
import mutants  # noqa: E402
from lane import Broken, Lane, NoSuchCase, call  # noqa: E402

CASE = "core/copy/offsets"
OTHER = "core/fill"


def failed(case, outcome="fail"):
    return [(case, outcome, "text")]


class SuiteOf:
    """A lane whose runs end as |by_run| says: of "case", "level" and "suite", (case, outcome,
    message) of those that do not pass. A part that is missing passes; None: no such case. |red|:
    the cases that fail on the unedited plugin."""

    def __init__(self, red=(), **by_run):
        self.by_run = by_run
        self.red = red
        self.ran = []
        self.ran_unedited = []

    def built(self, target, entry):
        return ["--plugin", "mutant"]

    def run(self, options, until_caught, variables, known):
        part = "suite"
        if "--level" in options:
            part = "level"
        elif "--filter" in options:
            part = "case"
        self.ran.append(part)
        cases = self.by_run.get(part, [])
        if cases is None:
            raise NoSuchCase("filter selects none")
        cases = [each for each in cases if each[0] not in known]
        return cases, not cases

    def run_unedited(self, target, entry, only=()):
        self.ran_unedited.append(only[1] if only else "suite")
        if self.red is None:
            raise Broken("neither done nor caught after 300 s")
        return [(case, "fail", "text") for case in self.red if not only or only[1] == case]


ENTRY = {"id": "sample/x", "kind": "copies", "why": "", "level": "core",
         "file": "samples/out_of_tree_plugin/chip.cc"}


def examined(lane, remembered=None, unedited=None, **members):
    return mutants.examine(lane, "sample", {**ENTRY, **members}, remembered,
                           unedited or mutants.Unedited(), wrong=None)


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


class UneditedTest(unittest.TestCase):
    """A case that is red without the edit says nothing of the edit."""

    remembered = {"case": CASE, "outcome": "fail"}

    def test_red_case_catches_nothing_in_any_part(self):
        lane = SuiteOf(red=[CASE], case=failed(CASE), level=failed(CASE), suite=failed(CASE))
        result = examined(lane, self.remembered)
        self.assertEqual(result["result"], "missed")
        # Each part that a red case has ended runs once more without it; the case itself runs once.
        self.assertEqual(lane.ran, ["case", "case", "level", "suite"])
        self.assertEqual(lane.ran_unedited, [CASE])

    def test_case_behind_a_red_one_catches(self):
        lane = SuiteOf(red=[CASE], level=failed(CASE) + failed(OTHER))
        result = examined(lane)
        self.assertEqual((result["result"], result["case"]), ("caught", OTHER))

    def test_lawful_edit_is_not_blamed_for_a_red_case(self):
        lane = SuiteOf(red=[CASE], suite=failed(CASE))
        self.assertEqual(examined(lane, lawful=True)["result"], "lawful passed")

    def test_case_runs_once_for_all_mutants_of_a_plugin(self):
        unedited = mutants.Unedited()
        lane = SuiteOf(level=failed(CASE))
        for _ in range(2):
            self.assertEqual(examined(lane, unedited=unedited)["result"], "caught")
        self.assertEqual(lane.ran_unedited, [CASE])
        examined(lane, unedited=unedited, environment={"KEEL_X": "1"})
        self.assertEqual(lane.ran_unedited, [CASE, CASE])  # there the plugin may differ

    def test_whole_suite_before_leaves_no_case_to_run(self):
        unedited = mutants.Unedited()
        lane = SuiteOf(red=[OTHER], level=failed(OTHER) + failed(CASE))
        unedited.run_all(lane, "sample")
        result = examined(lane, unedited=unedited)
        self.assertEqual((result["result"], result["case"]), ("caught", CASE))
        self.assertEqual(lane.ran_unedited, ["suite"])

    def test_plugin_that_does_not_load_catches(self):
        lane = SuiteOf(level=failed("loading"))
        self.assertEqual(examined(lane)["result"], "caught")
        self.assertEqual(lane.ran_unedited, [])

    def test_unedited_plugin_that_does_not_load_ends_the_run(self):
        with self.assertRaisesRegex(Broken, "does not load: text"):
            mutants.Unedited().run_all(SuiteOf(red=["loading"]), "sample")

    def test_suite_that_does_not_end_breaks_the_mutant_alone(self):
        lane = SuiteOf(red=None, level=failed(CASE))
        result = examined(lane)
        self.assertEqual((result["result"], result["message"]),
                         ("broken", "neither done nor caught after 300 s"))


class UnfinishedTest(unittest.TestCase):
    """A runner that reports one red case and then hangs."""

    def run_in(self, until_caught):
        with tempfile.TemporaryDirectory() as folder:
            lane = Lane.__new__(Lane)
            lane.build = pathlib.Path(folder)
            keel = lane.build / "bin/keel"
            keel.parent.mkdir()
            keel.write_text("#!/bin/sh\n"
                            "echo '{\"results\": [{\"id\": \"core/fill\", \"outcome\": \"crash\", "
                            "\"message\": \"text\"}]}' > part && mv part report.json\n"
                            "exec sleep 1000\n")
            keel.chmod(0o700)

            def has_reported(process, seconds):
                while not (lane.build / "report.json").exists():
                    pass
                return False

            with mock.patch.object(lanes, "has_ended", has_reported), \
                    mock.patch.object(lanes, "RUN_SECONDS", 0):
                return lane.run_in(lane.build, "", [], until_caught, {}, frozenset())

    def test_cases_of_half_a_suite_catch_a_mutant(self):
        self.assertEqual(self.run_in(until_caught=True), (failed(OTHER, "crash"), False))

    def test_cases_of_half_a_suite_are_not_taken_for_all(self):
        with self.assertRaisesRegex(Broken, "neither done nor caught"):
            self.run_in(until_caught=False)


class LeftoverTest(unittest.TestCase):
    def test_processes_of_other_sessions_end_with_the_command(self):
        # Two of them: the child of the first is an orphan only once its parent was ended.
        status, output = call(
            ["sh", "-c", "setsid sh -c 'sleep 1000 > /dev/null 2>&1 & echo $!; exec > /dev/null 2>&1; "
             "wait' & echo $!"], "/", 60)
        self.assertEqual((status, len(output.split())), (0, 2))
        for pid in output.split():
            with self.assertRaises(ProcessLookupError, msg=pid):
                os.kill(int(pid), 0)


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

    def test_missed_fault_names_a_row_of_the_page(self):
        page = ("\n## Not covered yet\n\n| what |\n|---|\n| `A`, `B` | x |\n| two words | y |\n"
                "\n## Next\n| C |\n")
        self.assertEqual(mutants.rows_not_covered(page),
                         {"what", "---", "A, B", "A", "B", "two words"})
        entry = {"id": "cpu/a", "file": "conformance/mutants/lane.py", "before": "class NoSuchCase",
                 "after": "class Other", "level": "core", "kind": "copies", "why": "w"}
        self.assertIsNone(mutants.defect(dict(entry, missed="threads: a race"), "cpu", {}))
        self.assertIn("Not covered yet", mutants.defect(dict(entry, missed="a race"), "cpu", {}))


class Neighbours(unittest.TestCase):
    def test_a_case_needs_a_lawful_edit_of_the_same_plugin_that_passes_it(self):
        neighbours = mutants.Neighbours()
        neighbours.note("sample", ENTRY, {CASE})
        self.assertFalse(neighbours.lacks("sample", ENTRY, CASE))
        self.assertTrue(neighbours.lacks("sample", ENTRY, OTHER))
        self.assertTrue(neighbours.lacks("cpu", ENTRY, CASE))
        with_ccl = {**ENTRY, "file": "conformance/faulty/plain_ccl.cc"}
        self.assertTrue(neighbours.lacks("sample", with_ccl, CASE))

    def test_a_plugin_that_does_not_load_has_no_case(self):
        self.assertFalse(mutants.Neighbours().lacks("sample", ENTRY, "loading"))


if __name__ == "__main__":
    unittest.main()
