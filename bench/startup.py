#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How soon the ranks of a job over hosts have met, all on this machine.

    bench/startup.py [--programs build/bin] [--hosts 8] [--processes 64] [--threads 16] [--rounds 3]
                     [--json FILE] [--markdown FILE]

Hosts are values of KEEL_HOST_ID. The processes join a rank on each of their threads, and the ranks
wait for one barrier. The time runs from the start of the last process to the end of the barrier at
the last rank.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

TARGET = 3.0  # seconds, of 64 processes of 16 ranks over 8 hosts
DEADLINE = 150


def start(arguments, index, job):
    """Starts process |index|; |job| is the id, or "-" for a process that makes one."""
    host = index * arguments.hosts // arguments.processes
    return subprocess.Popen(
        [arguments.programs / "keel_bench_startup", job, str(index * arguments.threads),
         str(arguments.threads), str(arguments.processes * arguments.threads)],
        env={**os.environ, "KEEL_HOST_ID": f"host{host}", "KEEL_INTERFACE": "127.0.0.1",
             "KEEL_COLLECTIVE_TABLE": "builtin"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def launch(arguments):
    """One job: seconds since the start of its last process, and what its processes used."""
    processes = [start(arguments, 0, "-")]
    try:
        job = processes[0].stdout.readline().strip()
        for index in range(1, arguments.processes):
            processes.append(start(arguments, index, job))
        begin = time.monotonic_ns()
        ranks = []
        for process in processes:
            line = process.stdout.readline()
            if not line:
                sys.exit("startup.py: a process has failed")
            ranks.append(json.loads(line))
        done = {"processor_seconds": sum(each["processor_seconds"] for each in ranks),
                "descriptors": max(each["descriptors"] for each in ranks)}
        for step in ("started", "joined", "barrier"):
            done[step] = (max(each[step] for each in ranks) - begin) * 1e-9
        return done
    finally:
        for process in processes:
            process.stdin.close()
        for process in processes:
            try:
                process.wait(timeout=DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()


def report(result):
    middle = result["median"]
    lines = ["# Start of a job over hosts", "",
             f"{result['date']}, {result['machine']}, {result['cores']} cores, load "
             f"{result['load']:.1f} before: {result['processes']} processes of "
             f"{result['threads']} ranks over {result['hosts']} hosts. Medians of "
             f"{len(result['rounds'])} launches, seconds since the start of the last process.", "",
             "| all ranks | seconds |", "|---|---|",
             f"| have started Keel | {middle['started']:.2f} |",
             f"| have joined | {middle['joined']:.2f} |",
             f"| have passed a barrier | {middle['barrier']:.2f} |", "",
             "| figure | target | measured |", "|---|---|---|",
             f"| last start to first barrier | <= {TARGET} | {middle['barrier']:.2f} |", "",
             f"Processor time {middle['processor_seconds']:.1f} s; at most "
             f"{middle['descriptors']:.0f} open descriptors of a process.", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.programs = arguments.programs.resolve()
    load = os.getloadavg()[0]
    rounds = [launch(arguments) for _ in range(arguments.rounds)]
    result = {
        "format": 1, "date": time.strftime("%Y-%m-%d"), "machine": platform.platform(),
        "cores": len(os.sched_getaffinity(0)), "load": load, "hosts": arguments.hosts,
        "processes": arguments.processes, "threads": arguments.threads, "rounds": rounds,
        "median": {key: statistics.median(each[key] for each in rounds) for key in rounds[0]},
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    text = report(result)
    if arguments.markdown:
        arguments.markdown.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
