#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of train_gpt on the CPU, beside the same model in PyTorch: float32, the same
text and settings, as many threads.

    bench/train_gpt_step.py [--programs build/bin] [--rounds 5] [--steps 6] [--threads N]
                            [--json FILE] [--markdown FILE]

The two take turns, so that both see the same machine; of each, the median of all steps is
compared, but for the first step of a turn, which warms up. PyTorch is as fast as its BLAS: what it
has loaded is reported, and Debian's reference implementation is refused, being no peer. The limit
is the time of the step's products at the rate that products alone reach.
"""
import argparse
import json
import os
import pathlib
import platform
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
TARGET = 1.3  # times as fast as PyTorch


def loaded_blas():
    maps = pathlib.Path("/proc/self/maps").read_text().split()
    return sorted({path for path in maps if "blas" in path and path.startswith("/")})


def refuse_reference_blas():
    """The BLAS of PyTorch; exits where it is Debian's reference implementation."""
    blas = [os.path.realpath(path) for path in loaded_blas()]
    if any("/blas/" in path for path in blas):
        sys.exit(f"{blas[0]} is the reference BLAS; install libopenblas0-pthread")
    return blas


def machine(programs):
    """As the other benchmarks tell of it."""
    return json.loads(subprocess.check_output([programs / "keel_bench", "--machine"]))


def run_train_gpt(command, config, batch, steps, folder, options=(), timeout=None, **variables):
    """Runs |command|, which ends in train_gpt, with |options|, and returns what it writes."""
    result = folder / "result.json"
    options = {
        "--model": config["architecture"],
        "--text": folder / "text",
        "--batch": batch,
        "--steps": steps,
        "--report-every": 1,
        "--sample-length": 0,
        "--json": result,
        **dict(options),
    }
    for option in ("layers", "width", "heads", "kv_heads", "mlp_width", "context"):
        options["--" + option.replace("_", "-")] = config[option]
    subprocess.run(
        [*command, *(str(word) for option in options.items() for word in option)],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=timeout,
        env=dict(os.environ, **variables),
    )
    return json.loads(result.read_text())


def pytorch_steps(trainer, steps):
    seconds = []
    for _ in range(steps):
        begin = time.perf_counter()
        trainer.train_step()
        seconds.append(time.perf_counter() - begin)
    return seconds[1:]


def compare(arguments, config, folder, text):
    trainer = goldens.Trainer(goldens.initial_weights(config), config, TRAINING, text)
    tokens = TRAINING["batch"] * config["context"]
    keel, pytorch, limits = [], [], []
    for _ in range(arguments.rounds):
        run = run_train_gpt(
            [arguments.programs / "train_gpt"], config, TRAINING["batch"], arguments.steps, folder,
            KEEL_CPU_CORES=str(arguments.threads),
        )  # fmt: skip
        keel += [tokens / step["tokens_per_second"] for step in run["intervals"][1:]]
        roof = run["devices"][0]["roof_flops_per_second"]
        limits += [tokens * run["flops_per_token"] / roof] if roof else []
        pytorch += pytorch_steps(trainer, arguments.steps)
    figure = {
        "name": f"train_step/{config['architecture']}",
        "model": config,
        "batch": TRAINING["batch"],
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "steps": len(keel),
        "keel_seconds": statistics.median(keel),
        "pytorch_seconds": statistics.median(pytorch),
    }
    figure["ratio"] = figure["pytorch_seconds"] / figure["keel_seconds"]
    figure["target"] = {"comparison": "at least", "bound": TARGET}
    figure["met"] = figure["ratio"] >= TARGET
    figure["physical_limit"] = {
        "contender": "products alone",
        "seconds": statistics.median(limits) if limits else None,
    }
    return figure


def markdown(report):
    of = report["machine"]
    lines = [
        f"{of['cpu']}, {of['cores']} cores, load {of['load_before']:.2f} before and "
        f"{of['load_after']:.2f} after. Keel {of['keel']}, {of['compiler']}; PyTorch "
        f"{of['pytorch']}, Python {of['python']}, {', '.join(report['blas'])}. {report['date']}",
        "",
        "| figure | Keel | PyTorch | result | target | | physical limit |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure in report["figures"]:
        limit, seconds = figure["physical_limit"].values()
        lines.append(
            f"| {figure['name']} | {figure['keel_seconds']:.3f} s | "
            f"{figure['pytorch_seconds']:.3f} s | {figure['ratio']:.2f}x | at least {TARGET}x | "
            f"{'met' if figure['met'] else 'missed'} | "
            f"{limit}: {'not measured' if seconds is None else f'{seconds:.3f} s'} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Times a training step beside PyTorch's.")
    parser.add_argument("--programs", default="build/bin", type=pathlib.Path, metavar="FOLDER",
                        help="with train_gpt and keel_bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="of each in a round, at least 2")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.steps < 2:
        parser.error("the first step of a turn warms up: there have to be a round and two steps")
    torch.set_num_threads(arguments.threads)
    blas = refuse_reference_blas()
    of = machine(arguments.programs)
    report = {
        "format": 2,
        "date": of.pop("date"),
        "machine": of | {"pytorch": torch.__version__, "python": platform.python_version()},
        "blas": blas,
        "figures": [],
    }
    text = goldens.lines_of_text(LINES)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text").write_bytes(text)
        for model, config in CONFIGS.items():
            figure = compare(arguments, config, folder, text)
            report["figures"].append(figure)
            print(
                f"{model}: Keel {figure['keel_seconds']:.3f} s, PyTorch {torch.__version__} "
                f"{figure['pytorch_seconds']:.3f} s a step, {figure['ratio']:.2f} times "
                f"({'met' if figure['met'] else 'missed'}: at least {TARGET})",
                flush=True,
            )
    report["machine"]["load_after"] = machine(arguments.programs)["load_before"]
    print("BLAS of PyTorch:", *blas)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(markdown(report))


if __name__ == "__main__":
    main()
