#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite on plugins with one edit each, and prints which it catches.

  mutants.py [--check] [--build BUILD] [--scratch FOLDER] [--lanes N] [--json FILE] [FILTER...]

FILTER: globs of ids (sample/*, cpu/copy_*); a bare word stands for WORD/* and for */WORD*.

Each list beside this script has the mutants of one plugin: an edit of one source, the level that
should see it, and the sentence of abi.h that it breaks. A mutant is built in a scratch copy of the
tree, the suite runs on it at that level first and as a whole if that finds nothing. An entry with
"lawful" is an edit that a right plugin may have, and the whole suite must pass on it. One with
"missed" is known not to be caught. A backend that no longer has operators that it has without the
edit is not judged, since the suite would judge the loss and not the edit; kind "capabilities", and
"loses": the reason why the fault itself takes them away, allow it. "environment": variables in which
alone the edited lines run; {prefix} stands for the folder with bin/ and lib/.

Exit status: 0, or 1 where a lawful edit fails, a fault that is not "missed" is missed, or an edit
does not apply or build or is not judged.
"""
import argparse
import collections
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KINDS = ["operators", "kernels", "collectives", "copies", "streams", "capabilities", "errors", "memory",
         "time"]
LEVELS = ["null", "core", "async", "memory", "ops", "kernels", "collectives", "multi_device"]
MEMBERS = {"id", "file", "before", "after", "level", "kind", "why", "filter", "lawful", "missed",
           "loses", "environment"}
BAD = ("fail", "crash", "timeout")
# Of one suite: its quick profile takes 60 s on two cores, and both may be busy. A mutant that makes
# every case hang is not waited for to the end.
RUN_SECONDS = 300
# How long a run goes on for a case that fails by a check, after one that crashed or hung.
TEST_TIMEOUT_SECONDS = 60
BUILD_SECONDS = 900
LIST_SECONDS = 60
PLUGINS = "lib/keel/plugins"  # in a build and in a prefix


class Broken(Exception):
    """An edit that does not apply or build, or a run that says nothing."""


class Unjudged(Exception):
    """A mutant that lacks operators, for which the suite would blame any edit."""


# ---- lists -------------------------------------------------------------------------------


def text(value):
    return value if isinstance(value, str) else "\n".join(value)


def defect(entry, target, seen):
    """Why |entry| of the list |target| cannot be used; None if it can."""
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
    try:
        count = (ROOT / entry["file"]).read_text().count(text(entry["before"]))
    except OSError as error:
        return str(error)
    if count != 1:
        return f"\"before\" occurs {count} times in {entry['file']}"
    if text(entry["before"]) == text(entry["after"]):
        return "\"after\" equals \"before\""
    return None


def read_lists():
    """(target, entry, defect) of all lists."""
    found, seen = [], set()
    for path in sorted(HERE.glob("*.json")):
        for entry in json.loads(path.read_text()):
            found.append((path.stem, entry, defect(entry, path.stem, seen)))
            seen.add(entry.get("id"))
    return found


def is_chosen(name, filters):
    return not filters or any(
        fnmatch.fnmatchcase(name, glob)
        for each in filters for glob in (each, f"{each}/*", f"*/{each}*"))


# ---- builds ------------------------------------------------------------------------------


def mirror(scratch):
    """Makes |scratch| equal to the tree, files that are the same left as they are, so that ninja
    builds no more than what changed since the last time."""
    known = set()
    for folder, folders, files in os.walk(ROOT):
        if pathlib.Path(folder) == ROOT:
            folders[:] = [each for each in folders if each not in (".git", "build")]
            files = [each for each in files if each != ".git"]
        to = scratch / pathlib.Path(folder).relative_to(ROOT)
        to.mkdir(parents=True, exist_ok=True)
        for name in files:
            source, copy = pathlib.Path(folder, name), to / name
            known.add(copy)
            if source.is_symlink():
                continue
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                shutil.copy(source, copy)
    for folder, folders, files in os.walk(scratch):
        if pathlib.Path(folder) == scratch:
            folders[:] = [each for each in folders if each != "build"]
        for name in files:
            if pathlib.Path(folder, name) not in known:
                pathlib.Path(folder, name).unlink()


def call(command, folder, seconds, environment=None):
    """Runs |command| in a process group of its own; (exit status, output), None if it took longer."""
    process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace")
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        end(process)
        return None, process.communicate()[0]


def end(process):
    """Ends the process and, by their death signal, its workers."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=5)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def options_of(name):
    """The backend, and the chip that it runs on."""
    return ["--backend", name, *(["--emulated"] if name == "cuda" else [])]


def operators(prefix, name):
    """Those that the backend in |prefix| has a kernel for, as "operator/dtypes"; None if it does
    not say."""
    try:
        answer = subprocess.run([str(prefix / "bin/keel"), "ops", "list", *options_of(name), "--json"],
                                env=dict(os.environ, KEEL_PLUGIN_PATH=str(prefix / PLUGINS)),
                                capture_output=True, timeout=LIST_SECONDS, check=True)
        return {f"{each['op']}/{each['dtype']}" for each in json.loads(answer.stdout)["ops"]
                if each["support"].get(name, {}).get("kernel")}
    except (subprocess.SubprocessError, ValueError, KeyError):
        return None  # the suite sees a crash or a refusal


class Lane:
    """A scratch copy, in which one mutant after another is made."""

    def __init__(self, folder, build, compiler):
        self.tree = folder / "tree"
        self.build = self.tree / "build"
        self.unedited = build
        # The program that tests, and what it loads: --emulated takes the folder beside its library.
        self.prefix = folder / "prefix"
        self.plugins = None  # where that program finds the plugins beside the one that it tests
        self.compiler = compiler
        self.is_configured = False
        mirror(self.tree)
        self.build.mkdir(exist_ok=True)
        shutil.rmtree(self.prefix, ignore_errors=True)
        (self.prefix / "bin").mkdir(parents=True)
        shutil.copy(build / "bin/keel", self.prefix / "bin")
        shutil.copytree(build / "lib", self.prefix / "lib", symlinks=True,
                        ignore=lambda *_: {"keel", "CMakeFiles"})
        # Objects that another lane, or the build of the tree, has made are found again.
        self.environment = dict(os.environ, CCACHE_BASEDIR=str(self.tree), CCACHE_NOHASHDIR="1")

    def make(self, command, seconds=BUILD_SECONDS):
        status, output = call(command, self.build, seconds, self.environment)
        if status != 0:
            raise Broken("does not build:\n" + output[-3000:].strip())

    def build_sample(self, with_ccl):
        """Without CMake, which would configure the whole tree for four sources."""
        sample = "samples/out_of_tree_plugin"
        sources = [f"{sample}/{name}.cc" for name in ("chip", "ops", "tables")]
        if with_ccl:
            sources += [f"conformance/faulty/{name}.cc"
                        for name in ("plain_ccl", "plain_plugin", "ccl_none")]
        else:
            sources.append(f"{sample}/plugin.cc")
        cache = ["ccache"] if shutil.which("ccache") else []
        objects = []
        for source in sources:
            objects.append(source.replace("/", "_")[:-3] + ".o")
            self.make([*cache, self.compiler, "-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden",
                       "-w", f"-I{self.tree}", f"-I{self.tree / 'include'}", "-c",
                       str(self.tree / source), "-o", objects[-1]])
        self.make([self.compiler, "-shared", "-pthread", *objects, "-o", "libkeel_mutant.so",
                   f"-Wl,--version-script={self.tree / 'cmake/plugin.map'}"])
        self.plugins = self.unedited / PLUGINS
        return ["--plugin", str(self.build / "libkeel_mutant.so")]

    def build_backend(self, name):
        if not self.is_configured:
            self.make(["cmake", "-S", str(self.tree), "-B", str(self.build), "-G", "Ninja",
                       "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CXX_COMPILER={self.compiler}",
                       "-DKEEL_BUILD_TESTS=OFF", "-DKEEL_BUILD_SAMPLES=OFF",
                       "-DKEEL_BUILD_BENCH=OFF"])
            self.is_configured = True
        targets = [f"keel_{name}"]
        if name == "cuda":
            targets.append("keel_simt_host")
        self.make(["ninja", *targets])
        # The mutant in the place of the plugin it is of, beside the CPU's, which the suite needs.
        shutil.rmtree(self.prefix / "lib/keel", ignore_errors=True)
        self.plugins = self.prefix / PLUGINS
        self.plugins.mkdir(parents=True)
        shutil.copy(self.unedited / PLUGINS / "libkeel_cpu.so", self.plugins)
        shutil.copy(self.build / PLUGINS / f"libkeel_{name}.so", self.plugins)
        if name == "cuda":
            # The emulated driver runs an image only by the library of kernels built with it: that
            # of an edited kernel is the lane's, since that of the unedited tree has other images.
            emulated = f"lib/keel/emulated/{name}"
            shutil.copytree(self.unedited / emulated, self.prefix / emulated, symlinks=True)
            shutil.copy(self.build / emulated / "libkeel_simt_host.so", self.prefix / emulated)
        return options_of(name)

    def lost_operators(self, name):
        """Sorted: those that the plugin has and the mutant has not."""
        now = operators(self.prefix, name)
        return [] if now is None else sorted(operators(self.unedited, name) - now)

    def built(self, target, entry):
        """Applies and builds; the options of `keel conform run` for it."""
        path = self.tree / entry["file"]
        source = path.read_text()
        path.write_text(source.replace(text(entry["before"]), text(entry["after"])))
        try:
            if target == "sample":
                return self.build_sample(entry["file"].startswith("conformance/"))
            return self.build_backend(target)
        finally:
            path.write_text(source)

    def run(self, options, until_caught, variables):
        """Runs the suite; (cases that did not pass, whether it ended well)."""
        report = self.build / "report.json"
        report.unlink(missing_ok=True)
        printed = self.build / "printed.txt"
        command = [str(self.prefix / "bin/keel"), "conform", "run", *options, "--jobs", "1", "--json",
                   str(report)]
        with open(printed, "w") as output:
            process = subprocess.Popen(command, cwd=self.build, stdout=output,
                                       stderr=subprocess.STDOUT, start_new_session=True,
                                       env=dict(os.environ, KEEL_PLUGIN_PATH=str(self.plugins),
                                                **variables))
        began = time.monotonic()
        first = None
        while process.poll() is None:
            time.sleep(0.2)
            if until_caught:
                cases = bad_cases(report)
                if any(outcome == "fail" for _, outcome, _ in cases):
                    break
                if cases and first is None:
                    first = time.monotonic()
            if (time.monotonic() - began > RUN_SECONDS or
                    (first is not None and time.monotonic() - first > TEST_TIMEOUT_SECONDS)):
                break
        is_over = process.poll() is not None
        if not is_over:
            end(process)
        cases = bad_cases(report)
        if not cases and not is_over:
            raise Broken(f"neither done nor caught after {RUN_SECONDS} s")
        if not cases and process.returncode not in (0, 1):
            last = printed.read_text(errors="replace").strip().splitlines()[-1:]
            if "--filter" in options and process.returncode == 2:
                raise Broken(" ".join(last))
            cases = [("loading", "crash" if process.returncode < 0 else "fail", " ".join(last))]
        return cases, is_over and process.returncode == 0


def bad_cases(report):
    """(id, outcome, message) of those so far, in the order in which they ran."""
    try:
        results = json.loads(report.read_text())["results"]
    except (OSError, ValueError):
        return []
    return [(each["id"], each["outcome"], each["message"])
            for each in results if each["outcome"] in BAD]


# ---- one mutant --------------------------------------------------------------------------


def examine(lane, target, entry, wrong):
    """The result of |entry|, a JSON object. |wrong|: why it cannot be used, or None."""
    result = {"id": entry["id"], "target": target, "kind": entry["kind"], "why": entry["why"],
              "case": "", "outcome": "", "message": "", "seconds": 0}
    began = time.monotonic()
    cases = []
    is_well = False
    try:
        if wrong:
            raise Broken(wrong)
        options = lane.built(target, entry)
        # The sample's sources are all compiled with the edit, so that no half of it is another's.
        if target != "sample" and entry["kind"] != "capabilities" and "loses" not in entry:
            lost = lane.lost_operators(target)
            if lost:
                raise Unjudged(f"has lost {len(lost)} operators: " + " ".join(lost[:5]))
        variables = {name: value.replace("{prefix}", str(lane.prefix))
                     for name, value in entry.get("environment", {}).items()}
        if not entry.get("lawful"):
            only = ["--level", entry["level"]]
            if "filter" in entry:
                only += ["--filter", entry["filter"]]
            cases, _ = lane.run(options + only, until_caught=True, variables=variables)
        if not cases:
            cases, is_well = lane.run(options, until_caught=not entry.get("lawful"),
                                      variables=variables)
        if entry.get("lawful"):
            result["result"] = "lawful passed" if is_well else "FALSE ALARM"
        else:
            result["result"] = "caught" if cases else "missed"
    except (Broken, Unjudged) as error:
        result["result"] = "broken" if isinstance(error, Broken) else "not judged"
        result["message"] = str(error)
    if cases:
        # A check that says what is wrong counts before a crash.
        first = next((each for each in cases if each[1] == "fail"), cases[0])
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


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path,
                        help="where the keel program and its plugins are (build/)")
    parser.add_argument("--scratch", type=pathlib.Path,
                        help="copies of the tree, kept from one run to the next (BUILD/mutants)")
    parser.add_argument("--compiler", default=os.environ.get("CXX", "c++"))
    parser.add_argument("--lanes", type=int, default=2, help="mutants at once (2)")
    parser.add_argument("--json", type=pathlib.Path, help="the results (SCRATCH/results.json)")
    parser.add_argument("--check", action="store_true", help="only whether all edits apply")
    parser.add_argument("filters", nargs="*", metavar="FILTER")
    arguments = parser.parse_args()

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

    lanes = queue.SimpleQueue()
    for number in range(min(arguments.lanes, len(entries))):
        lanes.put(Lane(scratch / f"lane{number}", build, arguments.compiler))
    printing = threading.Lock()
    results = []
    wrong = []

    def examine_next(each):
        target, entry, defect_of_it = each
        lane = lanes.get()
        try:
            result = examine(lane, target, entry, defect_of_it)
        finally:
            lanes.put(lane)
        with printing:
            results.append(result)
            if is_wrong(entry, result["result"]):
                wrong.append(entry["id"])
            print(line_of(entry, result), flush=True)
            path = arguments.json or scratch / "results.json"
            path.write_text(json.dumps(results, indent=1) + "\n")

    with concurrent.futures.ThreadPoolExecutor(max_workers=arguments.lanes) as executor:
        list(executor.map(examine_next, entries))
    print_table(results)
    if wrong:
        print("not as the lists say: " + " ".join(sorted(wrong)), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
