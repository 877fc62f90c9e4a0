#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite on plugins with one edit each, and prints which it catches.

  mutants.py [--check] [--build BUILD] [--scratch FOLDER] [--lanes N] [--json FILE] [FILTER...]
  mutants.py --update RESULTS...

FILTER: globs of ids (sample/*, cpu/copy_*); a bare word stands for WORD/* and for */WORD*.

Each list beside this script has the mutants of one plugin: an edit of one source, the level that
should see it, and the sentence of abi.h that it breaks. A mutant is built in a scratch copy of the
tree. cases.json names the case that caught a mutant last: that case runs first and alone, then the
level, then the whole suite, until one finds the fault. --update puts the cases of results into
cases.json. A case there that no longer exists, or passes, costs its own time and no more.

A case that fails on the unedited plugin too catches nothing. A run of all mutants begins with the
plugins as they are; otherwise the case that catches a mutant runs on the unedited plugin once.

An entry with "lawful" is an edit that a right plugin may have (slower, another order, another
alignment), and the whole suite must pass on it. Such an edit is a neighbour of the mutants of its
plugin: of the cases that caught one, those that passed on no neighbour are named.
One with "missed", "ROW: REASON", is known not to be caught; ROW begins a row of "Not covered yet" in
docs/conformance.md. A backend that no longer has operators that it has
without the edit is not judged, since the suite would judge the loss and not the edit; kind
"capabilities", and "loses": the reason why the fault itself takes them away, allow it.
"environment": variables in which alone the edited lines run; {prefix} stands for the folder with
bin/ and lib/.

Exit status: 0, or 1 where a lawful edit fails, a fault that is not "missed" is missed, or an edit
does not apply or build or is not judged.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import queue
import sys
import threading
import time

sys.dont_write_bytecode = True
from lane import ROOT, Broken, Lane, NoSuchCase, operators, text, with_ccl  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "cases.json"
KINDS = ["operators", "kernels", "collectives", "copies", "streams", "capabilities", "errors", "memory",
         "time"]
PAGE = ROOT / "docs/conformance.md"
LEVELS = ["null", "core", "async", "memory", "ops", "kernels", "collectives", "multi_device"]
MEMBERS = {"id", "file", "before", "after", "level", "kind", "why", "filter", "lawful", "missed",
           "loses", "environment"}


class Unjudged(Exception):
    """A mutant that lacks operators, for which the suite would blame any edit."""


# ---- lists -------------------------------------------------------------------------------


def rows_not_covered(page):
    """The first cells of the table "Not covered yet" of |page|, and each part of one that names
    several."""
    _, _, section = page.partition("\n## Not covered yet\n")
    cells = {line.split("|")[1].replace("`", "").strip()
             for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")}
    return cells | {part for cell in cells for part in cell.split(", ")}


def defect(entry, target, seen):
    """Why |entry| of the list |target| cannot be used; None if it can. |seen|: the id of each entry
    before it, and the sources that each makes."""
    unknown = set(entry) - MEMBERS
    missing = {"id", "file", "before", "after", "level", "kind", "why"} - set(entry)
    if unknown or missing:
        return f"members: {', '.join(sorted(unknown | missing))} unknown or missing"
    if entry["id"] in seen:
        return "the id is there twice"
    if not entry["id"].startswith(target + "/"):
        return f"the id does not begin with {target}/"
    if entry["kind"] not in KINDS or entry["level"] not in LEVELS:
        return f"kind {entry['kind']} or level {entry['level']} is not known"
    row, _, _ = entry.get("missed", "").partition(":")
    if "missed" in entry and row not in rows_not_covered(PAGE.read_text()):
        return f"\"missed\" does not begin with a row of \"Not covered yet\" in {PAGE.name}"
    try:
        source = (ROOT / entry["file"]).read_text()
    except OSError as error:
        return str(error)
    count = source.count(text(entry["before"]))
    if count != 1:
        return f"\"before\" occurs {count} times in {entry['file']}"
    if text(entry["before"]) == text(entry["after"]):
        return "\"after\" equals \"before\""
    edited = (target, entry["file"], source.replace(text(entry["before"]), text(entry["after"])),
              str(entry.get("environment")))
    twin = seen.setdefault(edited, entry["id"])
    return None if twin == entry["id"] else f"makes the same source as {twin}"


def read_lists():
    """(target, entry, defect) of all lists."""
    found, seen = [], {}
    for path in sorted(set(HERE.glob("*.json")) - {CASES}):
        for entry in json.loads(path.read_text()):
            found.append((path.stem, entry, defect(entry, path.stem, seen)))
            seen[entry.get("id")] = entry.get("id")
    return found


def is_chosen(name, filters):
    return not filters or any(
        fnmatch.fnmatchcase(name, glob)
        for each in filters for glob in (each, f"{each}/*", f"*/{each}*"))


# ---- remembered cases --------------------------------------------------------------------


def read_cases():
    """What caught a mutant last: {id: {"case": its id, "outcome": one of BAD}}."""
    return json.loads(CASES.read_text()) if CASES.exists() else {}


def remember(cases, results, ids):
    """|cases| after |results|, of mutants that are in |ids| alone."""
    known = {name: case for name, case in cases.items() if name in ids}
    for each in results:
        if each["id"] not in ids:
            continue
        if each["result"] == "missed":
            known.pop(each["id"], None)
        elif each["result"] == "caught" and "/" in each["case"]:  # "loading" is no case
            known[each["id"]] = {"case": each["case"], "outcome": each["outcome"]}
    return known


def update(files):
    cases = read_cases()
    ids = {entry["id"] for _, entry, _ in read_lists()}
    for each in files:
        cases = remember(cases, json.loads(each.read_text()), ids)
    lines = [f" {json.dumps(name)}: {json.dumps(case)}" for name, case in sorted(cases.items())]
    CASES.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{CASES.relative_to(ROOT)}: cases of {len(cases)} mutants")


def longest_first(entries, cases):
    """Those that need the whole suite, then those that need a level of it, so that no lane is left
    with a long one at the end."""
    def order(each):
        _, entry, _ = each
        if entry.get("lawful") or entry.get("missed"):
            return 0
        return 2 if entry["id"] in cases else 1
    return sorted(entries, key=order)


# ---- the unedited plugins ----------------------------------------------------------------


class Unedited:
    """Which cases fail on the plugins as they are."""

    def __init__(self):
        self.lock = threading.Lock()
        self.failed = {}  # of plugin_of(): {case: whether it fails}
        self.whole = set()  # the plugins of which all cases have run

    @staticmethod
    def plugin_of(target, entry):
        """The plugin, and the environment that it runs in."""
        return target, with_ccl(entry), str(entry.get("environment"))

    def failing(self, target, entry):
        with self.lock:
            known = self.failed.get(self.plugin_of(target, entry), {})
            return frozenset(case for case, fails in known.items() if fails)

    def run_all(self, lane, target):
        """Broken is raised where the suite does not end on the plugin, or the plugin does not load."""
        entry = {"file": "samples/"}
        cases = lane.run_unedited(target, entry)
        for case, _, message in cases:
            if case == "loading":  # no case that a run could leave out
                raise Broken(f"does not load: {message}")
        ran = {case: True for case, _, _ in cases}
        for case in sorted(ran):
            print(f"{target} without an edit fails {case}")
        with self.lock:
            self.failed[self.plugin_of(target, entry)] = ran
            self.whole.add(self.plugin_of(target, entry))

    def fails(self, lane, target, entry, case):
        plugin = self.plugin_of(target, entry)
        with self.lock:
            known = self.failed.setdefault(plugin, {})
            if case in known or plugin in self.whole or "/" not in case:  # "loading" is no case
                return known.get(case, False)
        try:
            fails = bool(lane.run_unedited(target, entry, ["--filter", case]))
        except NoSuchCase:  # of a capability that the edit adds
            fails = False
        if fails:
            print(f"{target} without an edit fails {case}")
        with self.lock:
            known[case] = fails
        return fails


class Neighbours:
    """Which cases passed on a lawful edit of each plugin."""

    def __init__(self):
        self.passed = {}  # of (target, with_ccl()): cases

    def note(self, target, entry, cases):
        self.passed.setdefault((target, with_ccl(entry)), set()).update(cases)

    def lacks(self, target, entry, case):
        """Whether |case|, which caught |entry|, passed on none."""
        return "/" in case and case not in self.passed.get((target, with_ccl(entry)), set())


# ---- one mutant --------------------------------------------------------------------------


def first_of(cases):
    """A check that says what is wrong counts before a crash."""
    return next((each for each in cases if each[1] == "fail"), cases[0])


class Mutant:
    """The suite on one mutant, without the cases that fail on the unedited plugin too."""

    def __init__(self, lane, target, entry, unedited, options):
        self.lane, self.target, self.entry, self.unedited = lane, target, entry, unedited
        self.options = options

    def run(self, *only, until_caught=True):
        while True:
            cases, is_well = self.lane.run(
                [*self.options, *only], until_caught, self.entry.get("environment", {}),
                self.unedited.failing(self.target, self.entry))
            if not cases:
                return cases, is_well
            while cases and self.unedited.fails(self.lane, self.target, self.entry,
                                                first_of(cases)[0]):
                cases.remove(first_of(cases))
            if cases:
                return cases, is_well


def run_remembered(mutant, case):
    """The cases that did not pass, none unless the mutant is caught as it was then."""
    try:
        cases, _ = mutant.run("--filter", case["case"])
    except NoSuchCase:
        return []
    # Where a check failed then and the worker crashes now, another check may still see the fault.
    is_same = case["outcome"] != "fail" or any(outcome == "fail" for _, outcome, _ in cases)
    return cases if is_same else []


def run_suite(mutant, remembered):
    """(cases that did not pass, whether the run ended well, what ran: "case", "level" or "suite")."""
    entry = mutant.entry
    if entry.get("lawful"):
        return *mutant.run(until_caught=False), "suite"
    if remembered:
        cases = run_remembered(mutant, remembered)
        if cases:
            return cases, False, "case"
    if not entry.get("missed"):
        only = ["--level", entry["level"]]
        if "filter" in entry:
            only += ["--filter", entry["filter"]]
        cases, _ = mutant.run(*only)
        if cases:
            return cases, False, "level"
    return *mutant.run(), "suite"


def examine(lane, target, entry, remembered, unedited, wrong):
    """The result of |entry|, a JSON object. |remembered|: what caught it last, or None. |wrong|: why
    it cannot be used, or None."""
    result = {"id": entry["id"], "target": target, "kind": entry["kind"], "why": entry["why"],
              "case": "", "outcome": "", "message": "", "ran": "", "build_seconds": 0, "seconds": 0}
    began = time.monotonic()
    cases = []
    is_well = False
    try:
        if wrong:
            raise Broken(wrong)
        options = lane.built(target, entry)
        result["build_seconds"] = round(time.monotonic() - began, 1)
        # The sample's sources are all compiled with the edit, so that no half of it is another's.
        if target != "sample" and entry["kind"] != "capabilities" and "loses" not in entry:
            lost = lane.lost_operators(target)
            if lost:
                raise Unjudged(f"has lost {len(lost)} operators: " + " ".join(lost[:5]))
        cases, is_well, result["ran"] = run_suite(Mutant(lane, target, entry, unedited, options),
                                                  remembered)
        if entry.get("lawful"):
            result["result"] = "lawful passed" if is_well else "FALSE ALARM"
        else:
            result["result"] = "caught" if cases else "missed"
    except (Broken, Unjudged) as error:
        result["result"] = "broken" if isinstance(error, Broken) else "not judged"
        result["message"] = str(error)
    if cases:
        first = first_of(cases)
        result["case"], result["outcome"], result["message"] = first
        if first[1] != "fail":
            result["only"] = first[1]
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def is_wrong(entry, result):
    """Whether the outcome is another than the list says. A fault of "missed" that is caught is
    told, and no error: it may be a race."""
    return (result in ("FALSE ALARM", "broken", "not judged") or
            (result == "missed" and not entry.get("missed")))


def line_of(entry, result):
    line = f"{result['result']:14s} {result['id']:44s} {result['seconds']:6.1f} s  "
    if result["result"] in ("broken", "not judged"):
        return line + "\n" + result["message"]
    if result["case"]:
        line += result["case"]
        if result.get("only"):
            line += f" (only by a {result['only']})"
        if result["result"] == "FALSE ALARM":
            line += ": " + result["message"].split("\n")[0]
        elif entry.get("missed"):
            line += " (listed as missed)"
    elif result["result"] == "missed":
        line += result["why"]
    return line


def print_table(results):
    targets = sorted({each["target"] for each in results})
    faults = [each for each in results if each["result"] in ("caught", "missed")]
    print("\n| caught of | " + " | ".join(targets) + " | all |\n" + "|---" * (len(targets) + 2) + "|")
    for kind in [*KINDS, "all"]:
        row = [each for each in faults if kind in (each["kind"], "all")]
        cells = []
        for target in [*targets, None]:
            own = [each for each in row if target in (each["target"], None)]
            caught = sum(each["result"] == "caught" for each in own)
            cells.append(f"{caught}/{len(own)}" if own else "")
        print(f"| {kind} | " + " | ".join(cells) + " |")
    lawful = [each for each in results if each["result"] in ("lawful passed", "FALSE ALARM")]
    alarms = sum(each["result"] == "FALSE ALARM" for each in lawful)
    crashes = sum(bool(each.get("only")) for each in faults)
    print(f"\n{len(lawful)} lawful, {alarms} false alarms; "
          f"{crashes} were caught by a crash or timeout alone")


def print_lonely(results, entries, neighbours):
    """How many catches a neighbour confirms, and the others. |entries|: by id."""
    caught = [each for each in results if each["result"] == "caught"]
    lonely = [each for each in caught
              if neighbours.lacks(each["target"], entries[each["id"]], each["case"])]
    print(f"{len(caught) - len(lonely)} of {len(caught)} were caught by a case that passes on a "
          "lawful neighbour")
    for each in lonely:
        print(f"  no neighbour passed {each['case']}, which caught {each['id']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path,
                        help="where the keel program and its plugins are (build/)")
    parser.add_argument("--scratch", type=pathlib.Path,
                        help="copies of the tree, kept from one run to the next (BUILD/mutants)")
    parser.add_argument("--compiler", default=os.environ.get("CXX", "c++"))
    # One more than cores: a good part of a suite is waits.
    parser.add_argument("--lanes", type=int, default=3, help="mutants at once (3)")
    parser.add_argument("--json", type=pathlib.Path, help="the results (SCRATCH/results.json)")
    parser.add_argument("--check", action="store_true", help="only whether all edits apply")
    parser.add_argument("--update", nargs="+", type=pathlib.Path, metavar="RESULTS",
                        help="only put the cases of results of --json into cases.json")
    parser.add_argument("filters", nargs="*", metavar="FILTER")
    arguments = parser.parse_args()

    if arguments.update:
        update(arguments.update)
        return 0
    entries = [each for each in read_lists() if is_chosen(each[1]["id"], arguments.filters)]
    if not entries:
        sys.exit(f"no mutant's id fits {' '.join(arguments.filters)}")
    if arguments.check:
        defects = [f"{entry['id']}: {wrong}" for _, entry, wrong in entries if wrong]
        print("\n".join(defects) or f"{len(entries)} edits apply")
        return 1 if defects else 0
    build = arguments.build.resolve()
    if not (build / "bin/keel").exists():
        sys.exit(f"{build}/bin/keel is missing: ninja -C {build} keel_cli keel_cpu")
    for target in sorted({each[0] for each in entries} - {"sample"}):
        if not (build / f"lib/keel/plugins/libkeel_{target}.so").exists():
            print(f"{target} left out: {build} has no such plugin")
            entries = [each for each in entries if each[0] != target]
        elif not operators(build, target):
            # Every fault would look caught, and every lawful edit wrong.
            print(f"{target} left out: the plugin of {build} has no operators here")
            entries = [each for each in entries if each[0] != target]
    scratch = (arguments.scratch or build / "mutants").resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    scratch.chmod(0o700)  # plugins are loaded from folders that nobody else writes to

    remembered = read_cases()
    unedited = Unedited()
    neighbours = Neighbours()
    lanes = queue.SimpleQueue()
    for number in range(min(arguments.lanes, len(entries))):
        lanes.put(Lane(scratch / f"lane{number}", build, arguments.compiler))
    printing = threading.Lock()
    began = time.monotonic()
    if not arguments.filters:
        lane = lanes.get()
        for target in sorted({each[0] for each in entries}):
            try:
                unedited.run_all(lane, target)
            except Broken as error:
                sys.exit(f"{target} without an edit: {error}")
        lanes.put(lane)
    results = []
    wrong = []

    def examine_next(each):
        target, entry, defect_of_it = each
        lane = lanes.get()
        try:
            result = examine(lane, target, entry, remembered.get(entry["id"]), unedited,
                             defect_of_it)
            passed = lane.passed() if result["result"] == "lawful passed" else None
        finally:
            lanes.put(lane)
        with printing:
            if passed is not None:
                neighbours.note(target, entry, passed)
            results.append(result)
            if is_wrong(entry, result["result"]):
                wrong.append(entry["id"])
            print(line_of(entry, result), flush=True)
            path = arguments.json or scratch / "results.json"
            path.write_text(json.dumps(results, indent=1) + "\n")

    with concurrent.futures.ThreadPoolExecutor(max_workers=arguments.lanes) as executor:
        list(executor.map(examine_next, longest_first(entries, remembered)))
    print_table(results)
    if neighbours.passed:
        print_lonely(results, {entry["id"]: entry for _, entry, _ in entries}, neighbours)
    used = os.times()
    print(f"{(time.monotonic() - began) / 60:.0f} minutes, of processors "
          f"{(used.children_user + used.children_system) / 60:.0f}")
    if wrong:
        print("not as the lists say: " + " ".join(sorted(wrong)), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
