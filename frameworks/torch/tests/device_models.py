# SPDX-License-Identifier: Apache-2.0
"""The three models that the tests of the device train: code that knows no device but its input's.

    python device_models.py [--device DEVICE]

prints the aten operators that each model dispatches in the forward pass, the backward pass, clipping
and AdamW, with their counts in one step.
"""

import argparse
import collections

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

LAYERS, WIDTH, HEADS, WORDS, BATCH, LENGTH = 2, 32, 4, 64, 4, 16
PHASES = ("forward", "backward", "clipping", "AdamW")


class Encoder(nn.Module):
    """nn.TransformerEncoder between an embedding and a linear layer, with a causal mask."""

    def __init__(self, layers=LAYERS, width=WIDTH):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        layer = nn.TransformerEncoderLayer(width, HEADS, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, WORDS)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1],
                                                              device=tokens.device)
        return self.head(self.layers(self.words(tokens), mask=mask, is_causal=True))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.project(self.before(x)).chunk(3, -1))
        heads = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.merge(heads.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.after(x))


class Gpt(nn.Module):
    """GPT-2: learned positions, layer norms before the parts of a block, tied embeddings."""

    def __init__(self, layers=LAYERS, width=WIDTH, heads=HEADS, words=WORDS, length=LENGTH):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.dropout = nn.Dropout(0.0)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.apply(self.initialise)
        self.head.weight = self.words.weight

    @staticmethod
    def initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.words(tokens) + self.places(places))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def rotate(x, cosine, sine):
    """RoPE: turns the pairs (i, i + half) of the last dimension by the position's angles."""
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


class LlamaBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x, cosine, sine):
        y = self.before(x)
        q, k, v = (part(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in (self.q, self.k, self.v))
        heads = nn.functional.scaled_dot_product_attention(
            rotate(q, cosine, sine), rotate(k, cosine, sine), v, is_causal=True)
        x = x + self.o(heads.transpose(1, 2).flatten(-2))
        y = self.after(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Blocks of Llama: RMSNorm, rotary positions by cosines and sines, SwiGLU, causal attention."""

    def __init__(self, layers=LAYERS, width=WIDTH):
        super().__init__()
        self.size = width // HEADS
        self.words = nn.Embedding(WORDS, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, HEADS) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, WORDS, bias=False)

    def forward(self, tokens):
        device = tokens.device
        exponents = torch.arange(0, self.size, 2, device=device).float() / self.size
        places = torch.arange(tokens.shape[1], device=device).float()
        angles = places[:, None] * (1.0 / 10000.0**exponents)[None, :]
        angles = torch.cat((angles, angles), -1)
        cosine, sine = angles.cos(), angles.sin()
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x, cosine, sine)
        return self.head(self.norm(x))


MODELS = {"nn.TransformerEncoder": Encoder, "GPT-2": Gpt, "Llama block": Llama}


def batch_of(step, batch=BATCH, length=LENGTH, words=WORDS):
    """Tokens on the CPU: runs of numbers with a step of their own, which a model can learn."""
    generator = torch.Generator().manual_seed(step)
    first = torch.randint(words, (batch, 1), generator=generator)
    stride = torch.randint(1, 4, (batch, 1), generator=generator)
    return (first + stride * torch.arange(length + 1)) % words


def run_step(network, optimizer, tokens, enter=lambda phase: None):
    """One step of training; returns the loss, which stays on the device."""
    enter("forward")
    logits = network(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    enter("backward")
    loss.backward()
    enter("clipping")
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    enter("AdamW")
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def train(make, device, steps, learning_rate=3e-3):
    """The losses of |steps| steps on |device|, from the parameters that the CPU draws."""
    torch.manual_seed(1)
    parameters = make().state_dict()
    # Made where it trains: Module.to() unties tied parameters for devices outside of PyTorch.
    with torch.device(device):
        network = make()
    network.load_state_dict(parameters)
    optimizer = torch.optim.AdamW(network.parameters(), lr=learning_rate)
    return [run_step(network, optimizer, batch_of(step).to(device)).item()
            for step in range(steps)]


class Recorder(TorchDispatchMode):
    """Counts the operators that reach the dispatcher's backend keys, by phase."""

    def __init__(self):
        super().__init__()
        self.phase = None
        self.counts = {phase: collections.Counter() for phase in PHASES}

    def enter(self, phase):
        self.phase = phase

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if self.phase is not None:
            self.counts[self.phase][str(function)] += 1
        return function(*args, **(kwargs or {}))


def record(make, device, **options):
    """The operators of one step by phase; AdamW with |options|, its state made beforehand."""
    torch.manual_seed(1)
    network = make().to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, **options)
    run_step(network, optimizer, batch_of(0).to(device))
    recorder = Recorder()
    with recorder:
        run_step(network, optimizer, batch_of(1).to(device), recorder.enter)
    return recorder.counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    for name, make in MODELS.items():
        for foreach in (False, True):
            counts = record(make, device, foreach=foreach)
            for phase in PHASES if not foreach else ("AdamW",):
                title = f"{phase} (foreach)" if foreach else phase
                print(f"\n{name}, {title}: {sum(counts[phase].values())} calls of "
                      f"{len(counts[phase])} operators")
                for operator, count in sorted(counts[phase].items()):
                    print(f"  {count:5} {operator}")


if __name__ == "__main__":
    main()
