#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite again and again on plugins that are right, and counts what fails.

  false_alarms.py [--build BUILD] [--backends cpu,sim] [--runs N] [--busy N] [--json FILE]

Every second run of each backend (--runs, 20) is beside processes that keep a core busy each (--busy,
twice the cores). Each failure is a fault of the suite or of the backend:
its first line is printed, and all of it is in the JSON file. Every run takes another seed.

Exit status: 0, or 1 where a run failed.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN_SECONDS = 1800
# One processor-second after another, until the parent has ended.
SPIN = """
import os, time
parent = os.getppid()
while os.getppid() == parent:
    end = time.process_time() + 1
    while time.process_time() < end:
        pass
"""


class Load:
    """Processes that keep |count| cores busy within a with statement."""

    def __init__(self, count):
        self.count = count
        self.processes = []

    def __enter__(self):
        self.processes = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(self.count)]

    def __exit__(self, *_):
        for each in self.processes:
            each.kill()
            each.wait()


def run(keel, backend, seed):
    """One run of the quick profile, a JSON object."""
    name, _, emulated = backend.partition(":")
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        command = [str(keel), "conform", "run", "--backend", name, "--seed", str(seed), "--json",
                   str(report), *(["--emulated"] if emulated else [])]
        began = time.monotonic()
        load = os.getloadavg()[0]
        before = os.times()
        try:
            process = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                     timeout=RUN_SECONDS, check=False)
            status, said = process.returncode, process.stdout + process.stderr
        except subprocess.TimeoutExpired:
            status, said = -1, f"not over after {RUN_SECONDS} s"
        after = os.times()
        results = json.loads(report.read_text())["results"] if report.exists() else []
    processor = (after.children_user + after.children_system - before.children_user -
                 before.children_system)
    failed = [{"id": each["id"], "outcome": each["outcome"], "message": each["message"]}
              for each in results if each["outcome"] in ("fail", "crash", "timeout")]
    if status != 0 and not failed:
        failed = [{"id": "", "outcome": "fail", "message": said[-2000:] or f"ended with {status}"}]
    return {"backend": backend, "seed": seed, "failed": failed,
            "passed": sum(each["outcome"] == "pass" for each in results),
            "seconds": round(time.monotonic() - began, 1), "processor_seconds": round(processor, 1),
            "load_average": round((load + os.getloadavg()[0]) / 2, 1)}


def print_table(runs):
    print("\n| backend | busy | load average | runs | with a failure | cases passed | "
          "processor-seconds each |\n|---|---|---|---|---|---|---|")
    for backend in dict.fromkeys(each["backend"] for each in runs):
        for busy in sorted({each["busy"] for each in runs if each["backend"] == backend}):
            own = [each for each in runs if (each["backend"], each["busy"]) == (backend, busy)]
            times = sorted(each["processor_seconds"] for each in own)
            loads = sorted(each["load_average"] for each in own)
            print(f"| {backend} | {busy} | {loads[0]:.1f}-{loads[-1]:.1f} | {len(own)} | "
                  f"{sum(bool(each['failed']) for each in own)} | "
                  f"{sum(each['passed'] for each in own):,} | {times[len(times) // 2]:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--backends", default="cpu,sim,vulkan",
                        help="cuda:emulated is cuda on the emulated chip (cpu,sim,vulkan)")
    parser.add_argument("--runs", type=int, default=20, help="of each backend (20)")
    parser.add_argument("--busy", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--seed", type=int, default=1000, help="of the first run (1000)")
    parser.add_argument("--json", type=pathlib.Path, help="all runs so far, written after each")
    arguments = parser.parse_args()
    keel = arguments.build.resolve() / "bin/keel"
    os.environ.setdefault("KEEL_SIM_DEVICES", "2")  # else sim has none
    runs = []
    for number in range(arguments.runs):
        for backend in arguments.backends.split(","):
            busy = arguments.busy if number % 2 else 0
            with Load(busy):
                result = dict(run(keel, backend, arguments.seed + number), busy=busy)
            runs.append(result)
            print(f"{backend:14s} seed {result['seed']} busy {busy} "
                  f"load average {result['load_average']}: {result['passed']} passed, "
                  f"{len(result['failed'])} failed, {result['seconds']:.0f} s", flush=True)
            for each in result["failed"]:
                print(f"  {each['outcome']} {each['id']}: {each['message'].partition(chr(10))[0]}",
                      flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(runs, indent=1) + "\n")
    print_table(runs)
    return 1 if any(each["failed"] for each in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
