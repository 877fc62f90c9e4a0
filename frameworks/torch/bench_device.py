# SPDX-License-Identifier: Apache-2.0
"""The device keel beside torch on the same chip: one operator, a training step, strided copies.

    python bench_device.py [--device keel:0] [--beside cpu] [--turns 9] [--threads N] [--json FILE]

All cases of a figure are timed in one run, in turns that begin with another case each time; prints
medians over the turns, and the median over the turns of the ratio. Keel's CPU device uses as many
cores as torch uses threads.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent / "tests"))
import device_models  # noqa: E402

LAYERS, WIDTH, HEADS, WORDS, BATCH, LENGTH = 4, 256, 8, 4096, 4, 128
CALLS, ELEMENTS = 2000, 64  # of torch.add, a turn
BYTES = 64 << 20
TARGETS = {"torch.add": 1.5, "GPT-2 step": 1.1, "strided": 0.6, "peak": 1.1}


def synchronize(device):
    if torch.device(device).type != "cpu":
        torch.get_device_module(torch.device(device)).synchronize()


def timed(function, device):
    begin = time.perf_counter()
    function()
    synchronize(device)
    return time.perf_counter() - begin


def in_turns(cases, turns):
    """Seconds by case, a list of one a turn: |cases| maps a name to (function, device)."""
    seconds = {name: [] for name in cases}
    names = list(cases)
    for turn in range(turns + 1):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            function, device = cases[name]
            took = timed(function, device)
            if turn:
                seconds[name].append(took)
    return seconds


def ratio(ours, theirs):
    return statistics.median(a / b for a, b in zip(ours, theirs))


def add_case(device):
    a, b = torch.rand(ELEMENTS, device=device), torch.rand(ELEMENTS, device=device)

    def call():
        for _ in range(CALLS):
            torch.add(a, b)

    return call, device


def network_of():
    torch.manual_seed(1)
    return device_models.Gpt(LAYERS, WIDTH, HEADS, WORDS, LENGTH)


def step_case(network, device):
    with torch.device(device):
        copied = device_models.Gpt(LAYERS, WIDTH, HEADS, WORDS, LENGTH)
    copied.load_state_dict(network.state_dict())
    network = copied
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    tokens = device_models.batch_of(1, BATCH, LENGTH, WORDS).to(device)
    return lambda: device_models.run_step(network, optimizer, tokens).item(), device


def strided_cases(device):
    """Elementwise calls by name, with the bytes that each reads and writes."""
    side = int((BYTES // 4) ** 0.5)
    x = torch.rand(side, side, device=device)
    row, column = torch.rand(side, device=device), torch.rand(side, 1, device=device)
    out = torch.empty(side, side, device=device)
    size = x.nbytes
    return {
        "transposed copy": (lambda: out.copy_(x.t()), 2 * size),
        "add of a transposed": (lambda: torch.add(x, x.t(), out=out), 3 * size),
        "add of a row": (lambda: torch.add(x, row, out=out), 2 * size),
        "mul of a column": (lambda: torch.mul(x, column, out=out), 2 * size),
        "every second column": (lambda: torch.mul(x[:, ::2], 2, out=out[:, ::2]), 2 * size),
        "contiguous add": (lambda: torch.add(x, x, out=out), 2 * size),
    }


def peak_code(device):
    """Run in a process of its own: prints the peak of memory of the training steps."""
    network = network_of()
    case, _ = step_case(network, device)
    case()
    kind = torch.device(device).type
    if kind == "cpu":
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
            case()
        # The running total of the allocator after each of its calls, over the memory kept since
        # before: parameters, gradients, and the optimizer's state.
        kept = sum(p.nbytes for p in network.parameters()) * 3
        total = most = 0
        for event in run.profiler.kineto_results.events():
            if event.name() == "[memory]":
                total += event.nbytes()
                most = max(most, total)
        print(json.dumps({"allocated": kept + most}))
        return
    module = torch.get_device_module(torch.device(device))
    module.reset_peak_memory_stats()
    case()
    synchronize(device)
    stats = module.memory_stats()
    if kind == "keel":
        print(json.dumps({"allocated": stats["allocated_peak"],
                          "reserved": stats["reserved_peak"]}))
    else:
        print(json.dumps({"allocated": stats["allocated_bytes.all.peak"],
                          "reserved": stats["reserved_bytes.all.peak"]}))


def peak_of(device, threads):
    finished = subprocess.run([sys.executable, __file__, "--peak", device, "--threads",
                               str(threads)], capture_output=True, text=True)
    if finished.returncode:
        sys.exit(finished.stderr)
    return json.loads(finished.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="keel:0")
    parser.add_argument("--beside", default="cpu", help="torch's device on the same chip")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", help="one of add, step, strided, peak")
    parser.add_argument("--markdown")
    parser.add_argument("--json")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.environ.setdefault("KEEL_CPU_CORES", str(options.threads))  # before Keel starts
    if options.peak:
        return peak_code(options.peak)
    ours, theirs = options.device, options.beside
    lines = [f"| figure | torch {theirs} | {ours} | ratio | target |", "|---|---|---|---|---|"]
    figures = []

    def wants(name):
        return options.only in (None, name)

    def compare(name, make, unit, scale, calls=1):
        cases = {"keel": make(ours), "torch": make(theirs)}
        seconds = in_turns(cases, options.turns)
        medians = {case: statistics.median(times) / calls for case, times in seconds.items()}
        times = ratio(seconds["keel"], seconds["torch"])
        lines.append(f"| {name} | {medians['torch'] * scale:,.2f} {unit} | "
                     f"{medians['keel'] * scale:,.2f} {unit} | {times:.2f}x | <= "
                     f"{TARGETS[name.split(',')[0]]} |")
        figures.append({"figure": name, "calls": calls, "seconds": seconds, "ratio": times})

    if wants("add"):
        compare(f"torch.add, {ELEMENTS} elements", add_case, "us", 1e6, CALLS)
    if wants("step"):
        network = network_of()
        compare(f"GPT-2 step, {LAYERS} layers of {WIDTH}",
                lambda device: step_case(network, device), "ms", 1e3)
    if wants("strided"):
        source = torch.rand(BYTES // 4, device=theirs)
        target = torch.empty_like(source)
        calls = strided_cases(ours)
        beside = strided_cases(theirs)
        cases = {"memcpy": (lambda: target.copy_(source), theirs)}
        cases.update({name: (call, ours) for name, (call, _) in calls.items()})
        cases.update({f"torch: {name}": (call, theirs) for name, (call, _) in beside.items()})
        seconds = in_turns(cases, options.turns)
        for name, (_, size) in calls.items():
            def rate(case, size=size):
                return [size / took / (2 * BYTES / copied)
                        for took, copied in zip(seconds[case], seconds["memcpy"])]
            keel, torchs = (statistics.median(rate(case)) for case in (name, f"torch: {name}"))
            lines.append(f"| strided, {name}, {BYTES >> 20} MiB, of memcpy | {torchs:.2f} | "
                         f"{keel:.2f} | {keel / torchs:.2f}x | >= {TARGETS['strided']} |")
            figures.append({"figure": f"strided, {name}", "bytes": size, "of_memcpy": keel,
                            "torch_of_memcpy": torchs, "seconds": seconds[name]})
        figures.append({"figure": "memcpy", "bytes": 2 * BYTES, "seconds": seconds["memcpy"]})
    if wants("peak"):
        peaks = {name: peak_of(device, options.threads)
                 for name, device in (("keel", ours), ("torch", theirs))}
        times = peaks["keel"]["allocated"] / peaks["torch"]["allocated"]
        lines.append(f"| peak of memory, GPT-2 step | {peaks['torch']['allocated'] / 1e6:.2f} MB | "
                     f"{peaks['keel']['allocated'] / 1e6:.2f} MB | {times:.2f}x | <= "
                     f"{TARGETS['peak']} |")
        figures.append({"figure": "peak", "bytes": peaks, "ratio": times})
    text = "\n".join(lines) + "\n"
    print(text)
    if options.markdown:
        pathlib.Path(options.markdown).write_text(text)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(
            {"torch": torch.__version__, "device": ours, "beside": theirs,
             "threads": options.threads, "load": os.getloadavg(),
             "peak_rss_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
             "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
