# SPDX-License-Identifier: Apache-2.0
"""The process group beside Gloo: all_reduce of CPU tensors, and training steps of a small GPT; a
small all_reduce beside keel.h alone.

All are timed in one run, in turns, a thread a rank. Prints medians over the turns, and the median
over the turns of Gloo's time over Keel's.
"""

import argparse
import datetime
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import bench_calls
import keel_torch

SIZES = {1 << 10: 300, 1 << 20: 20, 64 << 20: 2}  # bytes, and calls a turn
SMALL_TURNS = 5  # of each turn, beside keel.h
LAYERS, WIDTH, HEADS, WORDS, BATCH, LENGTH = 8, 512, 8, 8192, 4, 256  # 29.5 M parameters


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project, self.merge = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                 nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for part in self.project(self.before(x)).chunk(3, -1))
        heads = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.merge(heads.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.after(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.words.weight.t()


def in_turn(cases, turn):
    """The cases, beginning with another one each turn."""
    items = list(cases.items())
    return items[turn % len(items):] + items[:turn % len(items)]


def ratio(theirs, ours):
    """The median over turns of their time over ours."""
    return statistics.median(a / b for a, b in zip(theirs, ours))


def time_all_reduce(groups, allocator, turns):
    """Seconds a call by bytes and group name, a list of one a turn."""
    tensors = {size: torch.ones(size // 4) for size in SIZES}
    cases = {name: (group, tensors) for name, group in groups.items()}
    if allocator:
        keel_torch.use_allocator()
        cases["keel, its memory"] = (groups["keel"], {s: torch.ones(s // 4) for s in SIZES})
    seconds = {size: {name: [] for name in cases} for size in SIZES}
    for turn in range(turns + 1):
        for size, calls in SIZES.items():
            for name, (group, own) in in_turn(cases, turn):
                dist.barrier(group=group)
                begin = time.perf_counter()
                for _ in range(calls):
                    dist.all_reduce(own[size], dist.ReduceOp.MAX, group=group)
                if turn:
                    seconds[size][name].append((time.perf_counter() - begin) / calls)
    return seconds


def time_small_calls(group, turns):
    """Seconds of a small all_reduce through PyTorch, by keel.h alone, and of ctypes in the latter:
    a list of one a turn each, in turns on the same memory."""
    size = min(SIZES)
    tensor = torch.ones(size // 4)
    own = bench_calls.Calls(dist.distributed_c10d._get_default_store(), dist.get_rank(),
                            dist.get_world_size())

    def by_torch(calls):
        begin = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(tensor, dist.ReduceOp.MAX, group=group)
        return (time.perf_counter() - begin) / calls

    cases = {"torch": by_torch, "keel.h": lambda calls: own.seconds(tensor, calls),
             "ctypes": own.cost}
    seconds = {name: [] for name in cases}
    for turn in range(SMALL_TURNS * turns + 1):
        for name, case in in_turn(cases, turn):
            dist.barrier(group=group)
            one = case(SIZES[size])
            if turn:
                seconds[name].append(one)
    own.close()
    return seconds


def make_step(kind, group, name):
    torch.manual_seed(1)
    network = Gpt()
    if kind == "DDP":
        network = nn.parallel.DistributedDataParallel(network, process_group=group)
    else:
        from torch.distributed.fsdp import fully_shard

        mesh = dist.DeviceMesh.from_group(group, "cpu")
        for block in network.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(network, mesh=mesh)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    tokens = torch.randint(WORDS, (BATCH, LENGTH + 1))

    def step():
        logits = network(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def time_steps(kind, groups, turns):
    steps = {name: make_step(kind, group, name) for name, group in groups.items()}
    seconds = {name: [] for name in steps}
    losses = {name: [] for name in steps}
    for turn in range(turns + 1):
        for name, step in in_turn(steps, turn):
            dist.barrier(group=groups[name])
            begin = time.perf_counter()
            losses[name].append(step())
            if turn:
                seconds[name].append(time.perf_counter() - begin)
    return seconds, losses["gloo"] == losses["keel"]


def time_without_ranks(turns):
    """Seconds of the same step without any communication."""
    torch.manual_seed(1)
    network = Gpt()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    tokens = torch.randint(WORDS, (BATCH, LENGTH + 1))
    seconds = []
    for turn in range(turns + 1):
        begin = time.perf_counter()
        nn.functional.cross_entropy(network(tokens[:, :-1]).flatten(0, 1),
                                    tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if turn:
            seconds.append(time.perf_counter() - begin)
    return seconds


def run_rank(rank, world, port, options, results):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=5))
    groups = {name: dist.new_group(backend=name) for name in ("gloo", "keel")}
    figures = {}
    if options.steps and world == 2:
        figures["alone"] = time_without_ranks(options.turns)
        for kind in options.kinds.split(","):
            figures[kind] = time_steps(kind, groups, options.turns)
    figures["calls"] = time_small_calls(groups["keel"], options.turns)
    figures["all_reduce"] = time_all_reduce(groups, True, options.turns)
    if rank == 0:
        results.put(figures)
    dist.barrier()
    dist.destroy_process_group()


def name_of(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def report(world, figures):
    """Lines of Markdown, and the same as values."""
    lines, values = [], []
    for size, by_name in figures["all_reduce"].items():
        medians = {name: statistics.median(seconds) for name, seconds in by_name.items()}
        row = f"| all_reduce, {name_of(size)} | {world} | {medians['gloo'] * 1e6:,.0f} us "
        for name in ("keel", "keel, its memory"):
            times = ratio(by_name["gloo"], by_name[name])
            row += f"| {medians[name] * 1e6:,.0f} us ({times:.2f}x) "
        lines.append(row + "|")
        values.append({"figure": "all_reduce", "bytes": size, "ranks": world, "seconds": by_name})
    calls = figures["calls"]
    alone = [whole - ctypes for whole, ctypes in zip(calls["keel.h"], calls["ctypes"])]
    more = statistics.median(ours - theirs for ours, theirs in zip(calls["torch"], alone))
    lines.append(f"| all_reduce, {name_of(min(SIZES))}, by keel.h alone | {world} | "
                 f"| {statistics.median(alone) * 1e6:.1f} us "
                 f"| through PyTorch {more * 1e6:+.1f} us |")
    values.append({"figure": "all_reduce by keel.h", "bytes": min(SIZES), "ranks": world,
                   "seconds": calls})
    for kind in ("DDP", "FSDP2"):
        if kind not in figures:
            continue
        seconds, same = figures[kind]
        medians = {name: statistics.median(all_turns) for name, all_turns in seconds.items()}
        alone = statistics.median(figures["alone"])
        lines.append(f"| {kind} step | {world} | {medians['gloo'] * 1e3:,.0f} ms | "
                     f"{medians['keel'] * 1e3:,.0f} ms ({ratio(seconds['gloo'], seconds['keel']):.2f}x) | "
                     f"{alone * 1e3:,.0f} ms without ranks; losses "
                     f"{'the same bits' if same else 'DIFFERENT'} |")
        values.append({"figure": f"{kind} step", "ranks": world, "seconds": seconds,
                       "alone": figures["alone"], "same_losses": same})
    return lines, values


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--kinds", default="DDP,FSDP2", help="of training steps")
    parser.add_argument("--no-steps", dest="steps", action="store_false",
                        help="all_reduce alone")
    parser.add_argument("--markdown")
    parser.add_argument("--json")
    options = parser.parse_args()
    os.environ.setdefault("KEEL_COLLECTIVE_TABLE", "builtin")
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tests"))
    from ranks import free_port

    lines = ["| figure | ranks | gloo | keel | keel, its memory |", "|---|---|---|---|---|"]
    values = []
    context = torch.multiprocessing.get_context("spawn")
    for world in (2, 4):
        results = context.SimpleQueue()
        port = free_port()
        ranks = [context.Process(target=run_rank, args=(rank, world, port, options, results))
                 for rank in range(world)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        if any(rank.exitcode for rank in ranks):
            sys.exit(f"a rank of {world} failed")
        more_lines, more_values = report(world, results.get())
        lines += more_lines
        values += more_values
    text = "\n".join(lines) + "\n"
    print(text)
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write(text)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"torch": torch.__version__, "keel": keel_torch.version(),
                       "load": os.getloadavg(), "figures": values}, file, indent=1)


if __name__ == "__main__":
    main()
