#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How soon the ranks of a job over hosts have met, all on this machine.

    bench/startup.py [--programs build/bin] [--hosts 8] [--processes 64] [--threads 16] [--rounds 3]
                     [--no-namespaces] [--json FILE] [--markdown FILE]

Hosts are namespaces, as in hosts.py, and each process authenticates itself with a secret. Where the
user is not root, or with --no-namespaces, hosts are values of KEEL_HOST_ID on the loopback
interface. The processes join a rank on each of their threads, and the ranks wait for one barrier.
The time runs from the start of the last process to the end of the barrier at the last rank.
"""

import argparse
import contextlib
import json
import os
import platform
import secrets
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the source folder stays clean
import hosts as bench  # noqa: E402

TARGET = 3.0  # seconds, of 64 processes of 16 ranks over 8 hosts
DEADLINE = 150


def start(arguments, network, index, job):
    """Starts process |index|; |job| is the id, or "-" for a process that makes one. |network|: the
    hosts' namespaces and the file of their secret, or None."""
    host = index * arguments.hosts // arguments.processes
    words = [arguments.programs / "keel_bench_startup", job, str(index * arguments.threads),
             str(arguments.threads), str(arguments.processes * arguments.threads)]
    variables = {"KEEL_HOST_ID": f"host{host}", "KEEL_INTERFACE": "127.0.0.1"}
    if network:
        namespaces, secret = network
        words = ["ip", "netns", "exec", namespaces.names[host], *words]
        variables = {"KEEL_INTERFACE": "wire", "KEEL_SECRET_FILE": secret}
    return subprocess.Popen(
        words, env={**os.environ, "KEEL_COLLECTIVE_TABLE": "builtin", **variables},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextlib.contextmanager
def network_of(arguments):
    """Yields the network that start() takes."""
    if not arguments.namespaces:
        yield None
        return
    with bench.Hosts(arguments.hosts, 0) as hosts, tempfile.NamedTemporaryFile("w") as secret:
        secret.write(secrets.token_hex(16))
        secret.flush()
        yield hosts, secret.name


def launch(arguments, network):
    """One job: seconds since the start of its last process, and what its processes used."""
    processes = [start(arguments, network, 0, "-")]
    try:
        job = processes[0].stdout.readline().strip()
        for index in range(1, arguments.processes):
            processes.append(start(arguments, network, index, job))
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
             f"{result['threads']} ranks over {result['hosts']} hosts, which are "
             f"{'namespaces' if result['namespaces'] else 'values of KEEL_HOST_ID'}. Medians of "
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
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--namespaces", action=argparse.BooleanOptionalAction,
                        default=bench.can_make())
    arguments = bench.read_arguments(parser, lambda given: given.namespaces)
    load = os.getloadavg()[0]
    with network_of(arguments) as network:
        rounds = [launch(arguments, network) for _ in range(arguments.rounds)]
    result = {
        "format": 1, "date": time.strftime("%Y-%m-%d"), "machine": platform.platform(),
        "cores": len(os.sched_getaffinity(0)), "load": load, "hosts": arguments.hosts,
        "processes": arguments.processes, "threads": arguments.threads,
        "namespaces": arguments.namespaces, "rounds": rounds,
        "median": {key: statistics.median(each[key] for each in rounds) for key in rounds[0]},
    }
    bench.write(arguments, result, report(result))


if __name__ == "__main__":
    main()
