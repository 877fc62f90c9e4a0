#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints where the time of a build and of its tests went.

  cmake/times.py BUILD    BUILD/.ninja_log: processor-minutes by folder, and the slowest sources
                          BUILD/ctest.xml: seconds of each test program, over 20 s without a reason

Ninja records when each command began and ended, not its processor time. With n commands at once on
c cores, each is given c / n of a core while they run, 1 at most.
"""
import collections
import os
import sys
import xml.etree.ElementTree

LONG_SECONDS = 20


def commands(log):
    """(begin, end, output) of the last run of each command, in seconds."""
    found = {}
    for line in open(log):
        fields = line.rstrip("\n").split("\t")
        if len(fields) == 5:
            begin, end, _, output, digest = fields
            # A command of several outputs has a line for each.
            found[(begin, end, digest)] = (int(begin) / 1e3, int(end) / 1e3, output)
    return list(found.values())


def processor_seconds(intervals, cores):
    """The share of |cores| that each of |intervals| had."""
    edges = sorted([(begin, 1, i) for i, (begin, _, _) in enumerate(intervals)] +
                   [(end, 0, i) for i, (_, end, _) in enumerate(intervals)])
    seconds = [0.0] * len(intervals)
    running = set()
    last = 0.0
    for time, begins, i in edges:
        for each in running:
            seconds[each] += (time - last) * min(1.0, cores / len(running))
        last = time
        if begins:
            running.add(i)
        else:
            running.discard(i)
    return seconds


def folder(output, build):
    path = os.path.relpath(output, build) if os.path.isabs(output) else output
    if "_test.dir/" in path or path.startswith("tests/"):
        return "tests of all folders"
    top = path.split("/")
    if top[0] in ("bin", "lib", "archive"):
        return "linking"
    return "/".join(top[:2]) if top[0] in ("backends", "samples") else top[0]


def print_build(log, build, cores):
    intervals = commands(log)
    seconds = processor_seconds(intervals, cores)
    folders = collections.defaultdict(lambda: [0, 0.0])
    for (_, _, output), each in zip(intervals, seconds):
        entry = folders[folder(output, build)]
        entry[0] += 1
        entry[1] += each
    print(f"processor-minutes by folder, {cores} cores\n")
    print("| folder | commands | minutes |\n|---|---|---|")
    for name, (count, total) in sorted(folders.items(), key=lambda item: -item[1][1]):
        print(f"| {name} | {count} | {total / 60:.2f} |")
    print(f"| all | {len(intervals)} | {sum(seconds) / 60:.1f} |\n")
    print("slowest commands, processor-seconds")
    ranked = sorted(zip(seconds, intervals), key=lambda pair: -pair[0])
    for each, (_, _, output) in ranked[:10]:
        print(f"  {each:6.1f}  {output}")


def reasons(build):
    path = os.path.join(build, "tests/long.txt")
    if not os.path.exists(path):
        return {}
    return dict(line.rstrip("\n").split("\t") for line in open(path) if "\t" in line)


def print_tests(build):
    cases = xml.etree.ElementTree.parse(os.path.join(build, "ctest.xml")).getroot().iter("testcase")
    times = sorted(((float(case.get("time", 0)), case.get("name")) for case in cases), reverse=True)
    known = reasons(build)
    print(f"\ntests, {sum(time for time, _ in times):.0f} s in all")
    for time, name in times:
        if time < 1:
            break
        reason = known.get(name) or known.get(name.split(".")[0], "")
        if time > LONG_SECONDS:
            reason = reason or f"over {LONG_SECONDS} s and gives no reason: LONG of keel_test"
        print(f"  {time:6.1f}  {name:34s} {reason}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = sys.argv[1]
    log = os.path.join(build, ".ninja_log")
    if os.path.exists(log):
        print_build(log, build, os.cpu_count())
    if os.path.exists(os.path.join(build, "ctest.xml")):
        print_tests(build)


main()
