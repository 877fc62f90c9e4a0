#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A data-parallel training step of train_gpt on the CPU, beside PyTorch's DDP over Gloo: the same
model, text and settings, float32, a process a rank with one thread each.

    bench/data_parallel_step.py [--programs build/bin] [--ranks 2] [--rounds 5] [--steps 6]
                                [--json FILE] [--markdown FILE]

The two take turns, so that both see the same machine; of each, the median of all steps is
compared, but for the first step of a turn, which warms up. That the two models are one is what the
goldens of train_gpt test. The limit is the step of one rank alone, which has nothing to communicate.
"""
import argparse
import json
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import train_gpt_step  # noqa: E402
from train_gpt_step import CONFIGS, LINES, TARGET, TRAINING, goldens  # noqa: E402

import torch  # noqa: E402
from torch import distributed, nn  # noqa: E402

DEADLINE = 600  # seconds of a turn


class Model(nn.Module):
    """The loss of a rank's sequences."""

    def __init__(self, config, training):
        super().__init__()
        self.config, self.training = config, training
        self.names, weights = zip(*goldens.initial_weights(config).items())
        self.weights = nn.ParameterList(weights)

    def forward(self, text, rank, ranks, step):
        each = self.training["batch"] // ranks
        first = step * self.training["batch"] + rank * each
        tokens, labels = goldens.sequences(
            text, self.config["context"], self.training["seed"], first, each
        )
        logits = goldens.logits(dict(zip(self.names, self.weights)), self.config, tokens)
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


class Trainer(goldens.Trainer):
    """goldens.Trainer, whose gradients DDP averages behind the backward pass."""

    def __init__(self, config, training, text):
        model = Model(config, training)
        super().__init__(dict(zip(model.names, model.weights)), config, training, text)
        self.model = nn.parallel.DistributedDataParallel(model)

    def mean_loss(self):
        return self.model(self.text, distributed.get_rank(), distributed.get_world_size(), self.step)


def work(settings):
    """A rank of PyTorch's: takes a turn for each line of standard input, its number of steps."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", rank=settings["rank"], world_size=settings["ranks"],
        init_method=f"tcp://127.0.0.1:{settings['port']}",
    )  # fmt: skip
    trainer = Trainer(settings["config"], settings["training"], goldens.lines_of_text(LINES))
    for line in sys.stdin:
        distributed.barrier()
        print(json.dumps(train_gpt_step.pytorch_steps(trainer, int(line))), flush=True)


class Peers:
    """The ranks of PyTorch's job, which wait between turns."""

    def __init__(self, ranks, config, training):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.processes = []
        for rank in range(ranks):
            settings = {"rank": rank, "ranks": ranks, "port": port, "config": config,
                        "training": training}  # fmt: skip
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, __file__, "--worker", json.dumps(settings)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                    env=dict(os.environ, OMP_NUM_THREADS="1"),
                )  # fmt: skip
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in self.processes:
            each.stdin.close()
            try:
                each.wait(timeout=30)
            except subprocess.TimeoutExpired:
                each.kill()

    def turn(self, steps):
        """Seconds of each step but the first, of the slowest rank."""
        for each in self.processes:
            each.stdin.write(f"{steps}\n")
            each.stdin.flush()
        turns = []
        for each in self.processes:
            line = each.stdout.readline()
            if not line:
                raise RuntimeError(f"a rank of PyTorch's ended with {each.wait()}")
            turns.append(json.loads(line))
        return [max(of_step) for of_step in zip(*turns)]


def run_keel(arguments, ranks, config, training, folder):
    """Seconds of each step of Keel's job."""
    told = train_gpt_step.run_train_gpt(
        [arguments.programs / "keel", "run", "-n", str(ranks), "--",
         arguments.programs / "train_gpt"],
        config, training["batch"], arguments.steps, folder,
        {"--devices": ",".join(f"cpu:{rank}" for rank in range(ranks)), "--mesh": f"dp={ranks}"},
        timeout=DEADLINE, KEEL_CPU_DEVICES=str(ranks), KEEL_CPU_CORES="1",
    )  # fmt: skip
    tokens = training["batch"] * config["context"]
    return [tokens / step["tokens_per_second"] for step in told["intervals"]]


def compare(arguments, config, folder):
    training = dict(TRAINING, batch=TRAINING["batch"] * arguments.ranks, steps=arguments.steps)
    alone = dict(training, batch=TRAINING["batch"])
    keel, pytorch, limits = [], [], []
    with Peers(arguments.ranks, config, training) as peers:
        for _ in range(arguments.rounds):
            keel += run_keel(arguments, arguments.ranks, config, training, folder)[1:]
            limits += run_keel(arguments, 1, config, alone, folder)[1:]
            pytorch += peers.turn(arguments.steps)
    figure = {
        "name": f"data_parallel_step/{config['architecture']}",
        "model": config,
        "ranks": arguments.ranks,
        "batch": training["batch"],
        "threads": 1,
        "rounds": arguments.rounds,
        "steps": len(keel),
        "keel_seconds": statistics.median(keel),
        "pytorch_seconds": statistics.median(pytorch),
    }
    figure["ratio"] = figure["pytorch_seconds"] / figure["keel_seconds"]
    figure["target"] = {"comparison": "at least", "bound": TARGET}
    figure["met"] = figure["ratio"] >= TARGET
    figure["physical_limit"] = {"contender": "one rank alone", "seconds": statistics.median(limits)}
    return figure


def main():
    parser = argparse.ArgumentParser(description="Times a data-parallel step beside PyTorch's DDP.")
    parser.add_argument("--programs", default="build/bin", type=pathlib.Path, metavar="FOLDER",
                        help="with keel, train_gpt and keel_bench")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="of each in a round, at least 2")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker)
        return
    if arguments.rounds < 1 or arguments.steps < 2:
        parser.error("the first step of a turn warms up: there have to be a round and two steps")
    of = train_gpt_step.machine(arguments.programs)
    report = {
        "format": 1,
        "date": of.pop("date"),
        "machine": of | {"pytorch": torch.__version__, "python": platform.python_version()},
        "blas": train_gpt_step.refuse_reference_blas(),
        "figures": [],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text").write_bytes(goldens.lines_of_text(LINES))
        for model, config in CONFIGS.items():
            figure = compare(arguments, config, folder)
            report["figures"].append(figure)
            print(
                f"{model}: Keel {figure['keel_seconds']:.3f} s, PyTorch {torch.__version__} "
                f"{figure['pytorch_seconds']:.3f} s a step of {arguments.ranks} ranks, "
                f"{figure['ratio']:.2f} times ({'met' if figure['met'] else 'missed'}: at least "
                f"{TARGET}); one rank alone {figure['physical_limit']['seconds']:.3f} s",
                flush=True,
            )
    report["machine"]["load_after"] = train_gpt_step.machine(arguments.programs)["load_before"]
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(train_gpt_step.markdown(report))


if __name__ == "__main__":
    main()
