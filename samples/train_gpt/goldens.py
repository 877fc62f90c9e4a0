#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The goldens of train_gpt: what PyTorch makes of the same models, weights, text and settings.

    goldens.py [--output FOLDER]    default: goldens/ beside this file

A file for each architecture has the gradient of every parameter before the first step, the loss
of each step, and the norm of its gradient before it was clipped. Nothing but PyTorch is needed;
exits with 77 where that is missing.
"""
import argparse
import json
import math
import pathlib
import struct
import sys

try:
    import torch
    from torch.nn import functional
except ImportError as error:
    print(f"goldens.py needs PyTorch: {error}")
    sys.exit(77)

VOCABULARY = 256  # every byte is a token

# Sizes that are no multiples of a vector's, and more tokens than a block of attention's.
CONFIGS = {
    "gpt2": {
        "architecture": "gpt2", "layers": 2, "width": 36, "heads": 3, "kv_heads": 3,
        "mlp_width": 100, "context": 70, "norm_epsilon": 1e-5, "rope_theta": 1e4,
    },
    "llama": {
        "architecture": "llama", "layers": 2, "width": 40, "heads": 4, "kv_heads": 2,
        "mlp_width": 72, "context": 70, "norm_epsilon": 1e-5, "rope_theta": 1e4,
    },
}  # fmt: skip
# Some steps are clipped, and some are not.
TRAINING = {
    "steps": 50, "batch": 3, "seed": 1, "lines": 300,
    "learning_rate": 2e-3, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1,
    "clip": 1.5, "warmup": 8,
}  # fmt: skip


# ---- the text, and the order of its sequences: see data.cc


def lines_of_text(count):
    return "".join(f"line {i * i} of the text\n" for i in range(count)).encode()


def mix(value):
    """The finaliser of splitmix64."""
    mask = (1 << 64) - 1
    value = (value + 0x9E3779B97F4A7C15) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


def shuffled(key, index, count):
    """A permutation of range(count): a Feistel network, walked until it comes back into it."""
    half_bits = ((max(count, 2) - 1).bit_length() + 1) // 2
    mask = (1 << half_bits) - 1
    while True:
        left, right = index >> half_bits, index & mask
        for round in range(4):
            left ^= mix((mix(key + round) + right) % (1 << 64)) & mask
            left, right = right, left
        index = left << half_bits | right
        if index < count:
            return index


def sequences(text, context, seed, first, count):
    """Tokens and labels, [count, context] each."""
    training_size = len(text) - len(text) // 10  # the rest is held out
    blocks = (training_size - context) // context
    rows = []
    for number in range(first, first + count):
        key = mix((mix(seed) + number // blocks) % (1 << 64))
        begin = shuffled(key, number % blocks, blocks) * context + mix(key) % context
        rows.append(list(text[begin : begin + context + 1]))
    rows = torch.tensor(rows)
    return rows[:, :-1], rows[:, 1:]


# ---- the parameters: see parameters.cc


def parameter_shapes(config):
    width, mlp = config["width"], config["mlp_width"]
    kv_width = width // config["heads"] * config["kv_heads"]
    gpt2 = config["architecture"] == "gpt2"
    shapes = {}

    def add_linear(name, outputs, inputs):
        shapes[name + ".weight"] = (outputs, inputs)
        if gpt2:
            shapes[name + ".bias"] = (outputs,)

    def add_norm(name):
        shapes[name + ".weight"] = (width,)
        if gpt2:
            shapes[name + ".bias"] = (width,)

    shapes["tokens.weight"] = (VOCABULARY, width)
    if gpt2:
        shapes["positions.weight"] = (config["context"], width)
    for index in range(config["layers"]):
        layer = f"layers.{index}."
        add_norm(layer + "attention_norm")
        add_linear(layer + "query", width, width)
        add_linear(layer + "key", kv_width, width)
        add_linear(layer + "value", kv_width, width)
        add_linear(layer + "projection", width, width)
        add_norm(layer + "mlp_norm")
        add_linear(layer + "up", mlp if gpt2 else 2 * mlp, width)  # Llama: the gate, then up
        add_linear(layer + "down", width, mlp)
    add_norm("norm")
    if not gpt2:
        shapes["head.weight"] = (VOCABULARY, width)
    return shapes


def initial_weights(config):
    """Uniform, by a counter through all elements; around 1 for the gains of norms. Large, and
    zero nowhere, unlike those that a training begins with: so every term of the gradient counts.
    """
    weights, counter = {}, 0
    for name, shape in parameter_shapes(config).items():
        mean = 1.0 if name.endswith("norm.weight") else 0.0
        values = []
        for _ in range(math.prod(shape)):
            uniform = (mix(counter) >> 40) / 2**23 - 1  # 24 bits: exact in float32
            values.append(mean + 0.25 * uniform)
            counter += 1
        weights[name] = torch.tensor(values).reshape(shape).requires_grad_()
    return weights


# ---- the models


def linear(weights, name, x):
    return functional.linear(x, weights[name + ".weight"], weights.get(name + ".bias"))


def norm(weights, name, x, epsilon):
    """Layer norm where it has a bias, RMS norm where not."""
    gain, bias = weights[name + ".weight"], weights.get(name + ".bias")
    if bias is not None:
        return functional.layer_norm(x, gain.shape, gain, bias, epsilon)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * gain


def rotate(x, theta):
    """Rotary positions of [sequences, heads, context, size]; pairs are i and i + size / 2."""
    context, size = x.shape[-2:]
    frequencies = theta ** (-torch.arange(size // 2, dtype=torch.float64) / (size // 2))
    angles = torch.arange(context, dtype=torch.float64)[:, None] * frequencies
    cosines, sines = torch.cos(angles).to(x.dtype), torch.sin(angles).to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cosines - b * sines, b * cosines + a * sines), dim=-1)


def attention(query, key, value):
    """Causal, of [sequences, heads, context, size]; several heads of queries share a key's."""
    context, size = query.shape[-2:]
    group = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
    scores = query @ key.transpose(-1, -2) / math.sqrt(size)
    later = torch.ones(context, context, dtype=torch.bool).triu(diagonal=1)
    return torch.softmax(scores.masked_fill(later, -math.inf), dim=-1) @ value


def logits(weights, config, tokens):
    llama = config["architecture"] == "llama"
    epsilon = config["norm_epsilon"]

    def heads(x):
        return x.unflatten(-1, (-1, config["width"] // config["heads"])).transpose(1, 2)

    x = functional.embedding(tokens, weights["tokens.weight"])
    if not llama:
        x = x + weights["positions.weight"]
    for index in range(config["layers"]):
        layer = f"layers.{index}."
        y = norm(weights, layer + "attention_norm", x, epsilon)
        query, key, value = (
            heads(linear(weights, layer + name, y)) for name in ("query", "key", "value")
        )
        if llama:
            query, key = (rotate(z, config["rope_theta"]) for z in (query, key))
        attended = attention(query, key, value).transpose(1, 2).flatten(-2)
        x = x + linear(weights, layer + "projection", attended)
        y = linear(weights, layer + "up", norm(weights, layer + "mlp_norm", x, epsilon))
        if llama:
            gate, up = y.chunk(2, dim=-1)
            hidden = functional.silu(gate) * up
        else:
            hidden = functional.gelu(y, approximate="tanh")
        x = x + linear(weights, layer + "down", hidden)
    x = norm(weights, "norm", x, epsilon)
    return functional.linear(x, weights["head.weight" if llama else "tokens.weight"])


# ---- the training: see trainer.cc and optimizer.cc


def learning_rate(training, step):
    warmup = min(1.0, (step + 1) / (training["warmup"] + 1))
    cosine = 0.55 + 0.45 * math.cos(math.pi * step / training["steps"])
    return training["learning_rate"] * warmup * cosine


def mean_loss(weights, config, training, text, step):
    batch = training["batch"]
    tokens, labels = sequences(text, config["context"], training["seed"], step * batch, batch)
    return functional.cross_entropy(logits(weights, config, tokens).flatten(0, 1), labels.flatten())


class Trainer:
    def __init__(self, weights, config, training, text):
        self.weights, self.config, self.training, self.text = weights, config, training, text
        self.step = 0
        matrices = [weight for weight in weights.values() if weight.dim() == 2]
        vectors = [weight for weight in weights.values() if weight.dim() == 1]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": training["weight_decay"]},
                {"params": vectors, "weight_decay": 0.0},
            ],
            betas=(training["beta1"], training["beta2"]),
            eps=training["epsilon"],
        )

    def mean_loss(self):
        return mean_loss(self.weights, self.config, self.training, self.text, self.step)

    def train_step(self):
        """The loss, and the norm of its gradient before it was clipped."""
        self.optimizer.zero_grad()
        loss = self.mean_loss()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(list(self.weights.values()), self.training["clip"])
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.training, self.step)
        self.optimizer.step()
        self.step += 1
        return loss.item(), norm.item()


def golden(config, training):
    """The tensors of a file."""
    text = lines_of_text(training["lines"])
    weights = initial_weights(config)
    mean_loss(weights, config, training, text, step=0).backward()
    tensors = {"gradient." + name: weight.grad.clone() for name, weight in weights.items()}
    trainer = Trainer(weights, config, training, text)
    steps = [trainer.train_step() for _ in range(training["steps"])]
    tensors["losses"], tensors["gradient_norms"] = torch.tensor(steps).unbind(dim=1)
    return tensors


# ---- the files


def write_safetensors(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        values = tensor.flatten().tolist()
        begin = len(data)
        data += struct.pack(f"<{len(values)}f", *values)
        shape = list(tensor.shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the data is aligned
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser(description="Writes the goldens of train_gpt.")
    beside = pathlib.Path(__file__).resolve().parent / "goldens"
    parser.add_argument("--output", type=pathlib.Path, default=beside, metavar="FOLDER")
    output = parser.parse_args().output
    torch.set_num_threads(1)  # sums in one order
    for name, config in CONFIGS.items():
        metadata = {
            "config": json.dumps(config),
            "training": json.dumps(TRAINING),
            "torch": torch.__version__,
        }
        tensors = golden(config, TRAINING)
        write_safetensors(output / f"{name}.safetensors", tensors, metadata)
        losses = tensors["losses"].tolist()
        print(f"{name}: loss {losses[0]:.4f} to {losses[-1]:.4f}, PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
