"""PyTorch's operators, timed for keel_bench, which speaks to this process line by line.

    torch_ops.py THREADS SETS        says "ready VERSION", or in one line why it is not
    run NAME SHAPE DTYPE REPETITIONS    says the seconds of all runs, or "failed: WHY"

Each operator has SETS sets of random tensors that it goes through in turn, and keeps as many of
its results, so that none is still in a cache. Gradients are those of the operator alone: the graph
is built once for each set. Tensors are made, and the graph built, before the clock starts.
"""

import re
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch.optim.adamw import adamw
except ImportError as missing:
    print(f"PyTorch is not installed (Debian: python3-torch): {missing}", flush=True)
    sys.exit(0)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def uniform(shape, dtype, low=-2.0, high=2.0):
    return torch.empty(shape).uniform_(low, high).to(dtype)


def needing_gradients(shape, dtype):
    return uniform(shape, dtype).requires_grad_()


def gradients(result, inputs):
    """A function that computes those of |inputs|, and another graph of none."""
    along = uniform(result.shape, result.dtype)
    return lambda: torch.autograd.grad(result, inputs, along, retain_graph=True)


# Each makes a function of no arguments from tensors of its own: one set.


def layer_norm(shape, dtype, backward):
    x = needing_gradients(shape, dtype) if backward else uniform(shape, dtype)
    gamma, beta = uniform(shape[-1:], dtype), uniform(shape[-1:], dtype)
    if not backward:
        return lambda: F.layer_norm(x, shape[-1:], gamma, beta)
    gamma.requires_grad_()
    beta.requires_grad_()
    return gradients(F.layer_norm(x, shape[-1:], gamma, beta), (x, gamma, beta))


def rms_norm(shape, dtype, backward):
    """This PyTorch has none of its own: as models write it."""
    x = needing_gradients(shape, dtype) if backward else uniform(shape, dtype)
    gamma = uniform(shape[-1:], dtype)

    def forward():
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * gamma

    if not backward:
        return forward
    gamma.requires_grad_()
    return gradients(forward(), (x, gamma))


def softmax(shape, dtype, backward):
    x = needing_gradients(shape, dtype) if backward else uniform(shape, dtype)
    if not backward:
        return lambda: F.softmax(x, dim=-1)
    return gradients(F.softmax(x, dim=-1), (x,))


def cross_entropy(shape, dtype, backward):
    logits = needing_gradients(shape, dtype) if backward else uniform(shape, dtype)
    labels = torch.randint(shape[1], (shape[0],))
    if not backward:
        return lambda: F.cross_entropy(logits, labels, reduction="none")
    loss = F.cross_entropy(logits, labels)
    return lambda: torch.autograd.grad(loss, (logits,), retain_graph=True)


def gelu(shape, dtype, backward):
    x = needing_gradients(shape, dtype) if backward else uniform(shape, dtype)
    if not backward:
        return lambda: F.gelu(x, approximate="tanh")
    return gradients(F.gelu(x, approximate="tanh"), (x,))


def swiglu(shape, dtype, backward):
    """Gate and up are tensors of their own, as PyTorch likes them best."""
    make = needing_gradients if backward else uniform
    gate, up = make(shape, dtype), make(shape, dtype)
    if not backward:
        return lambda: F.silu(gate) * up
    return gradients(F.silu(gate) * up, (gate, up))


def optimizer(shape, dtype, backward):
    parameter, gradient, mean = (uniform(shape, dtype) for _ in range(3))
    variance = uniform(shape, dtype, 0.5, 2.0)
    step = torch.tensor(1.0)

    def update():
        adamw([parameter], [gradient], [mean], [variance], [], [step], foreach=False,
              amsgrad=False, beta1=0.9, beta2=0.999, lr=1e-3, weight_decay=0.01, eps=1e-8,
              maximize=False)

    return update


def cast(shape, dtype, backward):
    x = uniform(shape, dtype)
    to = torch.bfloat16 if dtype == torch.float32 else torch.float32
    return lambda: x.to(to)


OPERATORS = {
    "layer_norm": (layer_norm, False),
    "layer_norm_backward": (layer_norm, True),
    "rms_norm": (rms_norm, False),
    "rms_norm_backward": (rms_norm, True),
    "softmax": (softmax, False),
    "softmax_backward": (softmax, True),
    "cross_entropy": (cross_entropy, False),
    "cross_entropy_backward": (cross_entropy, True),
    "gelu": (gelu, False),
    "gelu_backward": (gelu, True),
    "swiglu": (swiglu, False),
    "swiglu_backward": (swiglu, True),
    "adamw": (optimizer, False),
    "cast": (cast, False),
}


class Work:
    """One operator on all its sets of tensors."""

    def __init__(self, name, shape, dtype, sets):
        make, backward = OPERATORS[name]
        extents = tuple(int(extent) for extent in shape.split("x"))
        self.calls = [make(extents, DTYPES[dtype], backward) for _ in range(sets)]
        self.results = [None] * sets
        self.next = 0

    def run(self, repetitions):
        start = time.perf_counter()
        for _ in range(repetitions):
            self.results[self.next] = self.calls[self.next]()
            self.next = (self.next + 1) % len(self.calls)
        return time.perf_counter() - start


def version():
    """With the instructions that it has chosen for this processor: "1.13.0a0, AVX2"."""
    found = re.search(r"CPU capability usage: (.*)", torch.__config__.show())
    return torch.__version__ + (f", {found[1]}" if found else "")


def main():
    threads, sets = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    print(f"ready {version()}", flush=True)
    made, work = None, None
    for line in sys.stdin:
        try:
            _, *what, repetitions = line.split()
            if what != made:
                made = work = None  # before the next: both at once may be more than there is
                work = Work(*what, sets)
                made = what
            answer = f"{work.run(int(repetitions)):.9f}"
        except Exception as error:  # of PyTorch's, whatever it is: the next line may do better
            answer = "failed: " + " ".join(str(error).split())
        print(answer, flush=True)


if __name__ == "__main__":
    main()
