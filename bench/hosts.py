#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives between hosts beside Open MPI and Gloo: each host is a network namespace of this
machine, with IPC, UTS and process namespaces of its own, and one link to a switch.

    bench/hosts.py [--programs build/bin] [--hosts 2,4] [--ops all_reduce,...] [--bytes 8,...]
                   [--rounds 10] [--seconds 0.1] [--only NAME] [--mbit RATE] [--quick]
                   [--json FILE] [--markdown FILE]

All contenders send over TCP sockets alone; the bytes that each host's link and all links together
count must be at least those that the operations cannot do without, else a launch is no result. The
contenders take turns, and each round begins with the next one. With --mbit the links are paced, and
the limit is the time of the operation's bytes at the payload rate of one plain stream in the same
round. Wants root, `ip` and, with --mbit, `tc`.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SETS = {
    "large": [64 << 10, 1 << 20, 16 << 20, 64 << 20],
    "small": [8, 1 << 10, 4 << 10],
}
TARGETS = {"large": 1.2, "small": 1.0}  # geometric mean of peer's time over Keel's
PACED_TARGET = 1.05  # time over the limit
OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
DEADLINE = 180  # seconds of a launch
STREAM_BYTES = 64 << 20

# What a namespace's process runs in: not the caller's hostname, shared memory or processes.
APART = "unshare --uts --ipc --pid --fork --kill-child"

# Sends STREAM_BYTES to, or receives them from, the other end of one socket.
STREAM = """
import socket, sys, time
address, total = sys.argv[2], int(sys.argv[3])
if sys.argv[1] == "receive":
    server = socket.create_server((address, 9000))
    print("ready", flush=True)
    peer = server.accept()[0]
    room, left, begin = bytearray(1 << 20), total, None
    while left > 0:
        got = peer.recv_into(room)
        if got == 0: sys.exit("the stream has ended early")
        begin = begin or time.monotonic()
        left -= got
    print(total / (time.monotonic() - begin))
else:
    peer = socket.create_connection((address, 9000), timeout=60)
    data = bytes(1 << 20)
    for _ in range(total // len(data)): peer.sendall(data)
    peer.shutdown(socket.SHUT_WR)
    peer.recv(1)
"""


def run(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


class Hosts:
    """|count| namespaces with one link each to a bridge; removed at the end of a `with`."""

    def __init__(self, count, mbit):
        self.names = [f"keel{os.getpid()}-{i}" for i in range(count)]
        self.switch = f"keel{os.getpid()}-switch"
        self.mbit = mbit

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        run(["ip", "netns", "add", self.switch])
        self.inside(self.switch, "ip link add hub type bridge")
        self.inside(self.switch, "ip link set hub up")
        for i, name in enumerate(self.names):
            run(["ip", "netns", "add", name])
            self.inside(self.switch, f"ip link add port{i} type veth peer name wire netns {name}")
            self.inside(self.switch, f"ip link set port{i} master hub up")
            self.inside(name, "ip link set lo up")
            self.inside(name, f"ip address add {self.address(i)}/24 dev wire")
            self.inside(name, "ip link set wire up")
            if self.mbit:
                limit = f"rate {self.mbit}mbit burst 128kb latency 50ms"
                self.inside(name, f"tc qdisc add dev wire root tbf {limit}")

    def __exit__(self, *_):
        for name in [*self.names, self.switch]:
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)

    def inside(self, name, words):
        return run(["ip", "netns", "exec", name, *words.split()])

    @staticmethod
    def address(i):
        return f"10.98.0.{i + 1}"

    def carried(self):
        """Bytes that each host's link has sent and received, headers and all."""
        counters = [json.loads(self.inside(name, "ip -j -s link show wire"))[0]["stats64"]
                    for name in self.names]
        return [(each["tx"]["bytes"], each["rx"]["bytes"]) for each in counters]

    def stream_rate(self):
        """Payload bytes per second of one plain stream from the second host to the first."""
        words = [sys.executable, "-c", STREAM]
        more = [self.address(0), str(STREAM_BYTES)]
        receiver = subprocess.Popen(
            ["ip", "netns", "exec", self.names[0], *words, "receive", *more],
            stdout=subprocess.PIPE, text=True)
        try:
            receiver.stdout.readline()
            run(["ip", "netns", "exec", self.names[1], *words, "send", *more], timeout=DEADLINE)
            return float(receiver.communicate(timeout=DEADLINE)[0])
        finally:
            receiver.kill()


class Contender:
    """How a library's program is started on all hosts."""

    def __init__(self, name, side, program, command, variables=(), missing=""):
        self.name, self.side, self.program = name, side, program
        self.command = command  # (hosts, folder) -> words before the program's options
        self.variables = dict(variables)
        self.missing = missing


def contenders(programs):
    peers = programs / "peers"

    def by_keel(*program):
        def command(hosts, folder):
            launch = f"ip netns exec {{host}} {APART} {{command}}"
            meet = ["--meet", folder] if "gloo" in str(program[0]) else []
            return [programs / "keel", "run", "--hosts", ",".join(hosts.names), "--server",
                    hosts.address(0), "--launch", launch, "--", *program, "--mode", "launched",
                    *meet]
        return command

    def by_mpirun(*settings):
        def command(hosts, folder):
            # In the place of ssh: the address says which namespace.
            agent = pathlib.Path(folder) / "agent"
            cases = "\n".join(f"{hosts.address(i)}) name={name} ;;"
                              for i, name in enumerate(hosts.names))
            agent.write_text(f"""#!/bin/sh
case $1 in
{cases}
esac
shift
exec ip netns exec $name {APART} sh -c "hostname $name; $*"
""")
            agent.chmod(0o755)
            addresses = ",".join(f"{hosts.address(i)}:1" for i in range(len(hosts.names)))
            # Open MPI spins, as one rank a host may; here hosts share cores.
            yields = len(hosts.names) > len(os.sched_getaffinity(0))
            return ["ip", "netns", "exec", hosts.names[0], *APART.split(), "mpirun.openmpi",
                    "--allow-run-as-root", "--bind-to", "none", "-H", addresses, "-n",
                    str(len(hosts.names)), "--mca", "plm_rsh_agent", agent, "--mca",
                    "oob_tcp_if_include", "wire", "--mca", "coll_tuned_use_dynamic_rules", "1",
                    "--mca", "mpi_yield_when_idle", str(int(yields)), *settings, peers / "openmpi_peer"]
        return command

    tcp = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include",
           "wire"]
    ucx = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices",
           "any", "-x", "UCX_TLS=tcp,self", "-x", "UCX_NET_DEVICES=wire"]
    found = [
        Contender("Keel, TCP", "keel", peers / "keel_peer", by_keel(peers / "keel_peer"),
                  {"KEEL_INTERFACE": "wire", "KEEL_WIRE": "tcp"}),
        Contender("Open MPI, TCP", "peer", peers / "openmpi_peer", by_mpirun(*tcp)),
        Contender("Keel, UCX", "keel", peers / "keel_peer", by_keel(peers / "keel_peer"),
                  {"KEEL_INTERFACE": "wire", "KEEL_WIRE": "ucx", "UCX_TLS": "tcp,self",
                   "UCX_NET_DEVICES": "wire"}),
        Contender("Open MPI, UCX", "peer", peers / "openmpi_peer", by_mpirun(*ucx)),
        Contender("Gloo", "peer", peers / "gloo_peer",
                  by_keel(peers / "gloo_peer", "--interface", "wire")),
    ]
    for each in found:
        if not each.program.exists():
            each.missing = f"{each.program} is not built: its library is not installed"
        elif "Open MPI" in each.name and shutil.which("mpirun.openmpi") is None:
            each.missing = "mpirun.openmpi is not installed: Debian's openmpi-bin"
    return found


def least_bytes(line):
    """Returns the bytes that one operation sends at least, over all ranks."""
    factor = 2 if line["op"] == "all_reduce" else 1
    return factor * (line["ranks"] - 1) * line["moved"]


def least_of_link(line):
    """Returns the bytes that one operation sends and receives at least on a rank's link. A rank hands
    out what it alone has, and gets what it lacks: of sums, one sum of the other ranks."""
    whole, block = line["moved"], line["moved"] // line["ranks"]
    return {"all_reduce": (whole, whole), "all_gather": (block, whole - block),
            "reduce_scatter": (whole - block, block),
            "all_to_all": (whole - block, whole - block)}[line["op"]]


def check_links(hosts, before, after, lines):
    """Returns the bytes sent and those needed; raises where a link carried less than it must."""
    moved = [[new - old for new, old in zip(*link)] for link in zip(after, before)]
    for way, verb in enumerate(("sent", "received")):
        least = sum(line["times"] * least_of_link(line)[way] for line in lines)
        for name, link in zip(hosts.names, moved):
            if link[way] < least:
                raise RuntimeError(f"the link of {name} {verb} {link[way]} bytes, {least} are "
                                   "needed")
    sent, least = sum(link[0] for link in moved), sum(
        line["times"] * least_bytes(line) for line in lines)
    if sent < least:
        raise RuntimeError(f"{sent} bytes crossed the links, {least} are needed")
    return sent, least


def launch(contender, hosts, operation, arguments):
    """The measurements of a launch, as bench/peers prints them; raises with the reason."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(word) for word in contender.command(hosts, folder)]
        command += ["--ops", operation, "--bytes", ",".join(map(str, arguments.bytes)),
                    "--seconds", str(arguments.seconds), "--deadline", str(DEADLINE - 5)]
        before = hosts.carried()
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE,
                              env={**os.environ, **contender.variables})
        after = hosts.carried()
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    lines = [line for line in lines if "us" in line]
    # The peers' calls block, so Keel is compared where the host waits for each operation.
    timed = [line for line in lines if line["form"] == "blocking"]
    if done.returncode != 0 or len(timed) != len(arguments.bytes):
        reason = done.stderr.strip().splitlines()[-1:] or ["tells too little"]
        raise RuntimeError(f"{reason[0]}\n{' '.join(command)}\n{done.stderr[-2000:]}")
    wrong = [line["bytes"] for line in lines if not line["right"]]
    if wrong:
        raise RuntimeError(f"wrong results at {wrong} bytes")
    return timed, *check_links(hosts, before, after, lines)


class Campaign:
    def __init__(self, arguments, chosen):
        self.arguments, self.chosen = arguments, chosen
        self.times = {}  # (hosts, operation, bytes, contender) -> {round: seconds}
        self.streams = {}  # (hosts, round) -> payload bytes per second
        self.crossed = {each.name: [0, 0] for each in chosen}  # sent, needed
        self.failed = []

    def run(self):
        for count in self.arguments.hosts:
            with Hosts(count, self.arguments.mbit) as hosts:
                for number in range(self.arguments.rounds):
                    if self.arguments.mbit:
                        self.streams[count, number] = hosts.stream_rate()
                    for operation in self.arguments.ops:
                        self.run_round(hosts, number, operation)
                    print(f"{count} hosts: round {number + 1} of {self.arguments.rounds}",
                          flush=True)

    def run_round(self, hosts, number, operation):
        shift = number % len(self.chosen)
        for each in self.chosen[shift:] + self.chosen[:shift]:
            try:
                lines, sent, least = launch(each, hosts, operation, self.arguments)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                self.failed.append(f"{each.name}, {operation}, {len(hosts.names)} hosts: {error}")
                print(self.failed[-1], file=sys.stderr, flush=True)
                continue
            self.crossed[each.name][0] += sent
            self.crossed[each.name][1] += least
            for line in lines:
                key = (len(hosts.names), operation, line["bytes"], each.name)
                self.times.setdefault(key, {})[number] = line["us"] / 1e6

    def cells(self):
        """Per hosts, operation and size: medians, and Keel's and the peers' best in each round."""
        cells = []
        for count in self.arguments.hosts:
            for operation in self.arguments.ops:
                for size in self.arguments.bytes:
                    cell = self.cell(count, operation, size)
                    if cell is not None:
                        cells.append(cell)
        return cells

    def cell(self, count, operation, size):
        medians, best = {}, {"keel": {}, "peer": {}}
        for each in self.chosen:
            rounds = self.times.get((count, operation, size, each.name), {})
            if not rounds:
                continue
            medians[each.name] = statistics.median(rounds.values())
            for number, seconds in rounds.items():
                known = best[each.side].get(number, math.inf)
                best[each.side][number] = min(known, seconds)
        if not best["keel"]:
            return None
        cell = {"hosts": count, "operation": operation, "bytes": size, "seconds": medians}
        ratios = sorted(best["peer"][n] / t for n, t in best["keel"].items() if n in best["peer"])
        if ratios:
            cell["ratio"] = statistics.median(ratios)
            cell["ratios"] = ratios
        if self.streams:
            factor = 2 if operation == "all_reduce" else 1
            share = factor * (count - 1) / count * size
            cell["over_limit"] = statistics.median(
                t * self.streams[count, n] / share for n, t in best["keel"].items())
        return cell


def mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def size_text(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} GiB"


def report(result):
    names = [each["name"] for each in result["contenders"]]
    paced = result["mbit"]
    link = f"paced to {paced} Mbit/s" if paced else "not paced"
    lines = ["# Collectives between hosts beside other libraries", "",
             f"{result['date']}, {result['machine']}; hosts are namespaces of one machine, links "
             f"{link}. Microseconds, medians of {result['rounds']} launches; ratio: the fastest "
             "peer's time over the fastest of Keel's in the same round, median and range.", ""]
    last = "over the limit" if paced else "ratio"
    lines.append("| hosts | operation | size | " + " | ".join(names) + f" | {last} |")
    lines.append("|---" * (len(names) + 4) + "|")
    for cell in result["cells"]:
        times = [f"{cell['seconds'][n] * 1e6:.4g}" if n in cell["seconds"] else "-" for n in names]
        if paced:
            final = f"{cell['over_limit']:.3f}"
        elif "ratio" in cell:
            final = f"{cell['ratio']:.2f} ({cell['ratios'][0]:.2f} to {cell['ratios'][-1]:.2f})"
        else:
            final = "-"
        lines.append(f"| {cell['hosts']} | {cell['operation']} | {size_text(cell['bytes'])} | "
                     + " | ".join(times) + f" | {final} |")
    lines += ["", "| figure | target | measured |", "|---|---|---|"]
    if paced:
        worst = max(cell["over_limit"] for cell in result["cells"])
        lines.append(f"| time over 2(k-1)/k or (k-1)/k of the bytes at a plain stream's rate, "
                     f"worst | <= {PACED_TARGET} | {worst:.3f} |")
    else:
        for name, sizes in SETS.items():
            ratios = [c["ratio"] for c in result["cells"] if c["bytes"] in sizes and "ratio" in c]
            if ratios:
                lines.append(f"| {name} sizes, geometric mean of the ratios (least) | >= "
                             f"{TARGETS[name]} | {mean(ratios):.2f} ({min(ratios):.2f}) |")
    lines += ["", "| contender | bytes on the links | least that the timed operations need |",
              "|---|---|---|"]
    for each in result["contenders"]:
        sent, least = each["sent"], each["least"]
        lines.append(f"| {each['name']} | {sent} | {least} |")
    for why in result["missing"]:
        lines.append(f"\nLeft out: {why}")
    for why in result["failed"]:
        lines.append(f"\nFailed: {why.splitlines()[0]}")
    return "\n".join(lines) + "\n"


def numbers(text):
    return [int(word) for word in text.split(",")]


def can_make():
    """Whether this process can make hosts: root in a container often cannot."""
    try:
        with Hosts(1, 0):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def read_arguments(parser, wants_namespaces=lambda arguments: True):
    """Returns what |parser| reads, with the options of all benchmarks between hosts; ends the process
    where the arguments want namespaces that cannot be made."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the namespaces go
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    arguments = parser.parse_args()
    if wants_namespaces(arguments) and not can_make():
        sys.exit(f"{parser.prog}: namespaces want root, Debian's iproute2, and veth and bridges of "
                 "the kernel")
    arguments.programs = arguments.programs.resolve()
    return arguments


def write(arguments, result, text):
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(text)
    print(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=numbers, default=[2, 4])
    parser.add_argument("--ops", type=lambda text: text.split(","))
    parser.add_argument("--bytes", type=numbers)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--mbit", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    arguments = read_arguments(parser)
    arguments.rounds = arguments.rounds or (2 if arguments.quick else 10)
    # Links that are paced bound all_reduce of 1 MiB and more.
    arguments.ops = arguments.ops or (["all_reduce"] if arguments.mbit else OPERATIONS)
    every = SETS["small"] + SETS["large"]
    arguments.bytes = arguments.bytes or (
        [size for size in every if size >= 1 << 20] if arguments.mbit else every)
    found = contenders(arguments.programs)
    if arguments.only:
        found = [each for each in found if any(word in each.name for word in arguments.only)]
    chosen = [each for each in found if not each.missing]
    campaign = Campaign(arguments, chosen)
    campaign.run()
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, Linux {platform.release()}, load "
                   f"{os.getloadavg()[0]:.1f} at the end",
        "mbit": arguments.mbit,
        "rounds": arguments.rounds,
        "contenders": [{"name": each.name, "sent": campaign.crossed[each.name][0],
                        "least": campaign.crossed[each.name][1]} for each in chosen],
        "cells": campaign.cells(),
        "missing": [f"{each.name}: {each.missing}" for each in found if each.missing],
        "failed": campaign.failed,
    }
    write(arguments, result, report(result))
    return 1 if any(why.startswith("Keel") for why in campaign.failed) else 0


if __name__ == "__main__":
    sys.exit(main())
