#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How soon the survivors of a job over hosts know who failed, with every core busy.

    bench/host_faults.py [--programs build/bin] [--hosts 3] [--processes 2] [--injections 59]
                         [--kinds killed,black_hole,shrink,server_cut] [--seed 1] [--json FILE]
                         [--markdown FILE]

Hosts are namespaces, as in hosts.py. Each injection starts a job that reduces all the time, then
kills a random rank, or takes down the port of a random host's link, so that packets vanish; the
kind server_cut, which runs when it is named, always takes the link of the host of the job's server.
The time runs to the end of the last survivor's process. A survivor that goes on, or that names a
rank that did not fail, is a failure of Keel. The kind shrink kills a random rank too, the survivors
go on by keel_comm_shrink, and the time runs until the next all_reduce is done on the last of them.
Wants root and `ip`.
"""

import argparse
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the source folder stays clean
import hosts as bench  # noqa: E402

TARGETS = {"killed": 1.0, "black_hole": 3.0, "shrink": 3.0, "server_cut": 3.0}  # seconds
USUAL = ["killed", "black_hole", "shrink"]
DEADLINE = 60

# Runs a rank, and leaves its errors and its end behind.
RANK = """#!/bin/sh
"$@" > "$FOLDER/out.$KEEL_RANK" 2> "$FOLDER/errors.$KEEL_RANK"
echo "$? $(date +%s.%N)" > "$FOLDER/end.tmp.$KEEL_RANK"
mv "$FOLDER/end.tmp.$KEEL_RANK" "$FOLDER/end.$KEEL_RANK"
"""


class Job:
    """A job of |processes| ranks a host that reduces until it is ended."""

    def __init__(self, programs, hosts, processes, folder, shrinks):
        self.hosts, self.folder = hosts, pathlib.Path(folder)
        self.processes = processes
        self.world = processes * len(hosts.names)
        script = self.folder / "rank"
        script.write_text(RANK)
        script.chmod(0o755)
        names = ",".join(f"{name}:{processes}" for name in hosts.names)
        launch = f"ip netns exec {{host}} {bench.APART} {{command}}"
        # The program of the ranks, and what rank 0 prints once the job runs.
        words = [programs / "keel_bench_shrink"] if shrinks else [
            programs / "keel", "perf", "all_reduce", "-b", "64K", "-e", "4M", "-i", "4K", "-n",
            "100", "-w", "1", "-c", "0"]
        self.program = words[0].name.encode()
        self.sign = r"^running" if shrinks else r"^ +65536 "
        self.process = subprocess.Popen(
            [programs / "keel", "run", "--keep-going", "--hosts", names, "--server",
             hosts.address(0), "--launch", launch, "--", script, *words],
            env={**os.environ, "KEEL_INTERFACE": "wire", "FOLDER": str(folder)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def wait_until_running(self):
        """Until the first operations are done."""
        out = self.folder / "out.0"
        end = time.monotonic() + DEADLINE
        while not (out.exists() and re.search(self.sign, out.read_text(), re.MULTILINE)):
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("the job did not start")
            time.sleep(0.02)

    def pids(self, rank):
        """The processes of |rank|'s program, outside of its namespaces."""
        name = self.hosts.names[rank // self.processes]
        for pid in bench.run(["ip", "netns", "pids", name]).split():
            try:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it has ended
            is_rank = b"KEEL_RANK=%d" % rank in environment
            if is_rank and words[0].endswith(b"/" + self.program):
                yield int(pid)

    def end_of(self, rank):
        """(exit code, time) of a rank that has ended, else None."""
        file = self.folder / f"end.{rank}"
        if not file.exists():
            return None
        code, at = file.read_text().split()
        return int(code), float(at)

    def output_of(self, rank):
        return (self.folder / f"out.{rank}").read_text()

    def errors_of(self, rank):
        return (self.folder / f"errors.{rank}").read_text()

    def stop(self):
        for name in self.hosts.names:
            for pid in bench.run(["ip", "netns", "pids", name]).split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.process.kill()
        self.process.wait()


def inject(job, kind, rng):
    """The ranks that fail, and when."""
    if kind in ("killed", "shrink"):
        rank = rng.randrange(job.world)
        pids = list(job.pids(rank))
        if not pids:
            raise RuntimeError(f"rank {rank} is not there")
        begin = time.time()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return {rank}, begin
    host = 0 if kind == "server_cut" else rng.randrange(len(job.hosts.names))
    begin = time.time()
    job.hosts.inside(job.hosts.switch, f"ip link set port{host} down")
    return set(range(host * job.processes, (host + 1) * job.processes)), begin


def judge(job, kind, failed, begin):
    """Seconds until all survivors had ended, or reduced again; raises where one is wrong."""
    survivors = [rank for rank in range(job.world) if rank not in failed]
    end = time.monotonic() + DEADLINE
    while any(job.end_of(rank) is None for rank in survivors):
        if time.monotonic() > end:
            raise RuntimeError("a survivor does not know: "
                               f"{[r for r in survivors if job.end_of(r) is None]}")
        time.sleep(0.02)
    if kind == "shrink":
        return judge_shrink(job, survivors) - begin
    for rank in survivors:
        code, _ = job.end_of(rank)
        text = job.errors_of(rank)
        # A wire's failure names the rank that reports it first, and then the silent one.
        named = re.findall(r"rank (\d+) \(", text)
        if code == 0 or not named or int(named[-1]) not in failed:
            raise RuntimeError(f"rank {rank} exits with {code} and says: {text.strip()[-400:]}")
    return max(job.end_of(rank)[1] for rank in survivors) - begin


def judge_shrink(job, survivors):
    """When the last survivor had reduced again; raises where one has not, or not with all."""
    ends = []
    for rank in survivors:
        found = re.search(r"reduces again: (\d+) ranks, \d+ shrinks, at ([\d.]+)",
                          job.output_of(rank))
        if not found or int(found[1]) != len(survivors) or job.end_of(rank)[0] != 0:
            raise RuntimeError(f"rank {rank} exits with {job.end_of(rank)[0]} and says: "
                               f"{found and found[0]} {job.errors_of(rank).strip()[-400:]}")
        ends.append(float(found[2]))
    return max(ends)


def run_kind(arguments, kind, rng):
    seconds, wrong = [], []
    for number in range(arguments.injections):
        with bench.Hosts(arguments.hosts, 0) as hosts, tempfile.TemporaryDirectory() as folder:
            job = Job(arguments.programs, hosts, arguments.processes, folder, kind == "shrink")
            try:
                job.wait_until_running()
                time.sleep(rng.uniform(0, 0.3))
                failed, begin = inject(job, kind, rng)
                seconds.append(judge(job, kind, failed, begin))
            except RuntimeError as error:
                wrong.append(f"injection {number}: {error}")
                print(wrong[-1], file=sys.stderr, flush=True)
            finally:
                job.stop()
    return seconds, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--injections", type=int, default=59)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=USUAL)
    parser.add_argument("--seed", type=int, default=1)
    arguments = bench.read_arguments(parser)
    rng = random.Random(arguments.seed)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(os.cpu_count())]
    try:
        results = {kind: run_kind(arguments, kind, rng) for kind in arguments.kinds}
    finally:
        for process in busy:
            process.kill()
    lines = ["# Failures between hosts", "",
             f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, each with a busy loop; "
             f"{arguments.hosts} hosts of {arguments.processes} ranks, seed {arguments.seed}. "
             "Seconds from the fault to the end of the last survivor's process; shrink: until the "
             "survivors' next all_reduce was done.", "",
             "| fault | injections | median | largest | target | wrong |", "|---|---|---|---|---|---|"]
    for kind, (seconds, wrong) in results.items():
        median, most = ((f"{statistics.median(seconds):.2f}", f"{max(seconds):.2f}")
                        if seconds else ("-", "-"))
        lines.append(f"| {kind} | {arguments.injections} | {median} | {most} | "
                     f"<= {TARGETS[kind]:.0f} s | {len(wrong)} |")
    bench.write(arguments, {kind: {"seconds": seconds, "wrong": wrong}
                            for kind, (seconds, wrong) in results.items()},
                "\n".join(lines) + "\n")
    return 1 if any(wrong for _, wrong in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
