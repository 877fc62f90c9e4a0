#!/usr/bin/env python3
"""A training step of train_gpt on the CPU, beside the same model in PyTorch: float32, the same
text and settings, as many threads.

    bench/train_gpt_step.py [--keel build/bin/train_gpt] [--rounds 5] [--steps 6] [--threads N]
                            [--json FILE]

The two take turns, so that both see the same machine; of each, the median of all steps is
compared, but for the first step of a turn, which warms up. PyTorch is as fast as its BLAS: what it
has loaded is reported, and Debian's reference implementation is refused, being no peer.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "samples/train_gpt"))
import goldens  # noqa: E402
import torch  # noqa: E402

# What train_gpt does where the command line says nothing, with a quarter of the batch.
TRAINING = dict(goldens.TRAINING, steps=1000, batch=4, learning_rate=1e-3, clip=1.0, warmup=100)
CONFIGS = {
    "gpt2": dict(
        goldens.CONFIGS["gpt2"],
        layers=4, width=256, heads=4, kv_heads=4, mlp_width=1024, context=256,
    ),
    "llama": dict(
        goldens.CONFIGS["llama"],
        layers=4, width=256, heads=4, kv_heads=2, mlp_width=704, context=256,
    ),
}  # fmt: skip
LINES = 12000


def loaded_blas():
    maps = pathlib.Path("/proc/self/maps").read_text().split()
    return sorted({path for path in maps if "blas" in path and path.startswith("/")})


def keel_steps(program, config, steps, threads, folder):
    """Seconds of each step of a turn but the first."""
    result = folder / "result.json"
    options = {
        "--model": config["architecture"],
        "--text": folder / "text",
        "--batch": TRAINING["batch"],
        "--steps": steps,
        "--report-every": 1,
        "--sample-length": 0,
        "--json": result,
    }
    for option in ("layers", "width", "heads", "kv_heads", "mlp_width", "context"):
        options["--" + option.replace("_", "-")] = config[option]
    subprocess.run(
        [program, *(str(word) for option in options.items() for word in option)],
        check=True,
        stdout=subprocess.DEVNULL,
        env=dict(os.environ, KEEL_CPU_CORES=str(threads)),
    )
    tokens = TRAINING["batch"] * config["context"]
    intervals = json.loads(result.read_text())["intervals"]
    return [tokens / interval["tokens_per_second"] for interval in intervals[1:]]


def pytorch_steps(trainer, steps):
    seconds = []
    for _ in range(steps):
        begin = time.perf_counter()
        trainer.train_step()
        seconds.append(time.perf_counter() - begin)
    return seconds[1:]


def compare(arguments, config, folder, text):
    trainer = goldens.Trainer(goldens.initial_weights(config), config, TRAINING, text)
    keel, pytorch = [], []
    for _ in range(arguments.rounds):
        keel += keel_steps(arguments.keel, config, arguments.steps, arguments.threads, folder)
        pytorch += pytorch_steps(trainer, arguments.steps)
    figure = {
        "model": config,
        "batch": TRAINING["batch"],
        "threads": arguments.threads,
        "keel_seconds": statistics.median(keel),
        "pytorch_seconds": statistics.median(pytorch),
    }
    figure["ratio"] = figure["pytorch_seconds"] / figure["keel_seconds"]
    return figure


def main():
    parser = argparse.ArgumentParser(description="Times a training step beside PyTorch's.")
    parser.add_argument("--keel", default="build/bin/train_gpt", metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="of each in a round, at least 2")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    blas = loaded_blas()
    if any("/blas/" in os.path.realpath(path) for path in blas):
        sys.exit(f"{blas[0]} is the reference BLAS; install libopenblas0-pthread")
    text = goldens.lines_of_text(LINES)
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text").write_bytes(text)
        for model, config in CONFIGS.items():
            figure = compare(arguments, config, folder, text)
            figures.append(figure)
            print(
                f"{model}: Keel {figure['keel_seconds']:.3f} s, PyTorch {torch.__version__} "
                f"{figure['pytorch_seconds']:.3f} s a step, {figure['ratio']:.2f} times"
            )
    print("BLAS of PyTorch:", *(os.path.realpath(path) for path in blas))
    if arguments.json:
        arguments.json.write_text(json.dumps({"blas": blas, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
