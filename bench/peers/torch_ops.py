# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators, timed for keel_bench, which speaks to this process line by line.

    torch_ops.py DEVICE THREADS SETS        says "ready VERSION", or in one line why it is not
    can MODE                                says "yes", or in one line why not
    run NAME SHAPE DTYPE MODE REPETITIONS   says the seconds of all runs, or "failed: WHY"

DEVICE is PyTorch's name of it; on one of CUDA its events tell the time, and THREADS says nothing.
MODE is "eager", "compile" (torch.compile, as it is by default) or "fused" (of adamw, in one kernel).

Each operator has SETS sets of random tensors that it goes through in turn, and keeps as many of
its results, so that none is still in a cache. Gradients are those of the operator alone: the graph
is built once for each set. Tensors are made, functions compiled and the graph built before the
clock starts.
"""

import functools
import os
import re
import sys
import time

# What libraries print, compilers among them, is no answer.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(line):
    print(" ".join(line.split())[:400], file=answers, flush=True)


try:
    import torch
    import torch.nn.functional as F
    from torch.optim.adamw import adamw
except ImportError as missing:
    say(f"PyTorch is not installed (Debian: python3-torch): {missing}")
    sys.exit(0)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LEARNING_RATE, BETA1, BETA2, DECAY, EPSILON = 1e-3, 0.9, 0.999, 0.01, 1e-8

device = torch.device("cpu")


def uniform(shape, dtype, low=-2.0, high=2.0):
    return torch.empty(shape, device=device).uniform_(low, high).to(dtype)


# ---- operators -----------------------------------------------------------------------------


def layer_norm(x, gamma, beta):
    return F.layer_norm(x, x.shape[-1:], gamma, beta)


def rms_norm(x, gamma):
    """As models write it, where this PyTorch has none of its own."""
    if hasattr(F, "rms_norm"):
        return F.rms_norm(x, x.shape[-1:], gamma, 1e-5)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * gamma


def softmax(x):
    return F.softmax(x, dim=-1)


def losses(logits, labels):
    return F.cross_entropy(logits, labels, reduction="none")


def mean_loss(logits, labels):
    return F.cross_entropy(logits, labels)


def gelu(x):
    return F.gelu(x, approximate="tanh")


def swiglu(gate, up):
    return F.silu(gate) * up


def embedding(indices, table):
    return F.embedding(indices, table)


def matmul(a, b):
    return torch.matmul(a, b)


def to_the_other(x):
    return x.to(torch.bfloat16 if x.dtype == torch.float32 else torch.float32)


def optimize(parameter, gradient, mean, variance, step, **how):
    """The optimizer's own function: for many tensors at once on a GPU, where it does so itself."""
    how = how or {"foreach": device.type == "cuda"}
    adamw([parameter], [gradient], [mean], [variance], [], [step], amsgrad=False, beta1=BETA1,
          beta2=BETA2, lr=LEARNING_RATE, weight_decay=DECAY, eps=EPSILON, maximize=False, **how)


def optimize_by_formula(parameter, gradient, mean, variance, step):
    """What there is to compile: the optimizer's function minds its number of steps on the host."""
    mean.lerp_(gradient, 1 - BETA1)
    variance.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
    denominator = (variance / (1 - BETA2)).sqrt() + EPSILON
    parameter.mul_(1 - LEARNING_RATE * DECAY)
    parameter.addcdiv_(mean, denominator, value=-LEARNING_RATE / (1 - BETA1))


# ---- their inputs: one set of tensors ------------------------------------------------------


def one(shape, dtype):
    return (uniform(shape, dtype),)


def two(shape, dtype):
    return uniform(shape, dtype), uniform(shape, dtype)


def with_rows(count):
    return lambda shape, dtype: (
        uniform(shape, dtype), *(uniform(shape[-1:], dtype) for _ in range(count)))


def labelled(shape, dtype):
    return uniform(shape, dtype), torch.randint(shape[1], (shape[0],), device=device)


def looked_up(shape, dtype):
    """As many rows as the table has, each once."""
    return torch.randperm(shape[0], device=device), uniform(shape, dtype)


def optimized(shape, dtype):
    parameter, gradient, mean = (uniform(shape, dtype) for _ in range(3))
    return parameter, gradient, mean, uniform(shape, dtype, 0.5, 2.0), torch.tensor(1.0)


def factors(transposed=""):
    """Of a product [m, k] by [k, n], |shape| being (m, n, k); one of them may lie transposed."""

    def make(shape, dtype):
        m, n, k = shape
        a = uniform((k, m), dtype).t() if transposed == "a" else uniform((m, k), dtype)
        b = uniform((n, k), dtype).t() if transposed == "b" else uniform((k, n), dtype)
        return a, b

    return make


# The function, its inputs, and whether it is the gradient that is asked for.
OPERATORS = {
    "layer_norm": (layer_norm, with_rows(2), False),
    "layer_norm_backward": (layer_norm, with_rows(2), True),
    "rms_norm": (rms_norm, with_rows(1), False),
    "rms_norm_backward": (rms_norm, with_rows(1), True),
    "softmax": (softmax, one, False),
    "softmax_backward": (softmax, one, True),
    "cross_entropy": (losses, labelled, False),
    "cross_entropy_backward": (mean_loss, labelled, True),
    "gelu": (gelu, one, False),
    "gelu_backward": (gelu, one, True),
    "swiglu": (swiglu, two, False),  # of tensors of their own, as PyTorch likes them best
    "swiglu_backward": (swiglu, two, True),
    "adamw": (optimize, optimized, False),
    "cast": (to_the_other, one, False),
    "embedding": (embedding, looked_up, False),
    "matmul": (matmul, factors(), False),
    "matmul_transposed_a": (matmul, factors("a"), False),
    "matmul_transposed_b": (matmul, factors("b"), False),
}


def gradients(function, inputs):
    """A function that computes those of |inputs|, and another graph of none."""
    wanted = [tensor.requires_grad_() for tensor in inputs if tensor.is_floating_point()]
    result = function(*inputs)
    along = uniform(result.shape, result.dtype)
    return lambda: torch.autograd.grad(result, wanted, along, retain_graph=True)


def compiled(function):
    return torch.compile(function, fullgraph=True, dynamic=False)


def in_mode(mode, name, function):
    if mode == "compile":
        return compiled(optimize_by_formula if name == "adamw" else function)
    if mode == "fused" and name == "adamw":
        return functools.partial(optimize, fused=True)
    if mode != "eager":
        raise ValueError(f"no mode {mode} of {name}")
    return function


# ---- their time ----------------------------------------------------------------------------


class Work:
    """One operator on all its sets of tensors."""

    def __init__(self, name, shape, dtype, mode, sets):
        function, make, backward = OPERATORS[name]
        function = in_mode(mode, name, function)
        extents = tuple(int(extent) for extent in shape.split("x"))
        self.calls = []
        for _ in range(sets):
            inputs = make(extents, DTYPES[dtype])
            if mode == "fused":
                inputs = tuple(tensor.to(device) for tensor in inputs)  # its step too
            self.calls.append(
                gradients(function, inputs) if backward else functools.partial(function, *inputs))
        self.results = [None] * sets
        self.next = 0
        if mode != "eager":
            self.repeat(1)

    def repeat(self, repetitions):
        for _ in range(repetitions):
            self.results[self.next] = self.calls[self.next]()
            self.next = (self.next + 1) % len(self.calls)

    def run(self, repetitions):
        if device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            self.repeat(repetitions)
            end.record()
            end.synchronize()
            return start.elapsed_time(end) * 1e-3
        begin = time.perf_counter()
        self.repeat(repetitions)
        return time.perf_counter() - begin


class Works:
    """Those that were asked for last, as many as modes: what races shares a name."""

    def __init__(self, sets):
        self.sets = sets
        self.what, self.modes = None, {}

    def find(self, *what, mode):
        if what != self.what:
            # Before the next: both at once may be more than there is.
            self.what, self.modes = what, {}
            if device.type == "cuda":
                torch.cuda.empty_cache()
        if mode not in self.modes:
            self.modes[mode] = Work(*what, mode, self.sets)
        return self.modes[mode]


def reason_against(mode):
    """Why there is no such mode here; None where there is. Compilers want to be tried."""
    if mode == "compile" and not hasattr(torch, "compile"):
        return f"PyTorch {torch.__version__} has no torch.compile"
    try:
        name = "adamw" if mode == "fused" else "gelu"
        Work(name, "64x64", "float32", mode, sets=1).run(1)
    except Exception as error:  # of whatever PyTorch compiles with
        return f"PyTorch {torch.__version__} has no working mode {mode}: {error}"
    return None


def reason_against_device():
    """Why this PyTorch is none for it; None where it is: one kernel has run."""
    if device.type == "cuda":
        if not torch.cuda.is_available():
            return f"PyTorch {torch.__version__} sees no CUDA device"
        try:
            torch.cuda.set_device(device)
            uniform((64,), torch.float32).sum().item()
        except Exception as error:  # a number too high, or a chip that it has no code for
            return f"PyTorch {torch.__version__} has no use for {device}: {error}"
    return None


def version():
    """With what it computes by: "1.13.0a0, AVX2", "2.6.0, CUDA 12.4"."""
    if device.type == "cuda":
        return f"{torch.__version__}, CUDA {torch.version.cuda}"
    found = re.search(r"CPU capability usage: (.*)", torch.__config__.show())
    return torch.__version__ + (f", {found[1]}" if found else "")


def main():
    global device
    threads, sets = int(sys.argv[2]), int(sys.argv[3])
    device = torch.device(sys.argv[1])
    if reason := reason_against_device():
        say(reason)
        return
    if device.type == "cuda":
        torch.set_float32_matmul_precision("highest")  # float32 as it stands, without tensor cores
    else:
        torch.set_num_threads(threads)
    torch.manual_seed(1)
    say(f"ready {version()}")
    works = Works(sets)
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "can":
            say(reason_against(words[0]) or "yes")
            continue
        try:
            *what, mode, repetitions = words
            answer = f"{works.find(*what, mode=mode).run(int(repetitions)):.9f}"
        except Exception as error:  # of PyTorch's, whatever it is: the next line may do better
            answer = f"failed: {error}"
        say(answer)


if __name__ == "__main__":
    main()
