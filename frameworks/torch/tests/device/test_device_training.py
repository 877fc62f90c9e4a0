# SPDX-License-Identifier: Apache-2.0
"""Models trained on keel devices: losses as on the CPU, and nothing that runs on the CPU."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

# Of the CPU alone, unless the caller names more: KEEL_DEVICES=cpu,vulkan.
os.environ.setdefault("KEEL_DEVICES", "cpu")

import torch
from torch import nn

import keel_torch

torch.set_num_threads(1)
STEPS = int(os.environ.get("KEEL_TORCH_TEST_STEPS", 50))
LETTERS, WIDTH, HEADS, LENGTH = 24, 32, 4, 12
SAMPLE = pathlib.Path(__file__).parents[2] / "samples" / "train_device.py"


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(LETTERS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, LETTERS)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)))


class Gpt2Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in self.qkv(self.before(x)).split(WIDTH, dim=2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.after(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Gpt2Block(), Gpt2Block())
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.blocks(self.tokens(tokens) + self.places(places))
        return self.norm(x) @ self.tokens.weight.t()


class LlamaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)
        self.q, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.kv = nn.Linear(WIDTH, WIDTH, bias=False)  # half as many heads of keys as of queries
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def rotated(self, x):
        half = x.shape[-1] // 2
        frequency = 10000 ** (-torch.arange(half, device=x.device) / half)
        angle = torch.arange(x.shape[2], device=x.device)[:, None] * frequency
        cos, sin = (torch.cat([part, part], -1) for part in (angle.cos(), angle.sin()))
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    def forward(self, x):
        batch, length, _ = x.shape
        size = WIDTH // HEADS
        y = self.before(x)
        q = self.rotated(self.q(y).view(batch, length, HEADS, size).transpose(1, 2))
        k, v = self.kv(y).view(batch, length, 2, HEADS // 2, size).permute(2, 0, 3, 1, 4)
        k, v = (part.repeat_interleave(2, dim=1) for part in (self.rotated(k), v))
        hidden = torch.full((length, length), float("-inf"), device=x.device).triu(1)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        y = self.after(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(LETTERS, WIDTH)
        self.blocks = nn.Sequential(LlamaBlock(), LlamaBlock())
        self.norm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.head = nn.Linear(WIDTH, LETTERS, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.tokens(tokens))))


def train(make, device):
    torch.manual_seed(5)
    model = make().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(7)
    losses = []
    for _ in range(STEPS):
        tokens = torch.randint(LETTERS, (4, LENGTH + 1), generator=generator)
        source, target = tokens[:, :-1].to(device), tokens[:, 1:].to(device)
        loss = nn.functional.cross_entropy(model(source).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


class DeviceTrainingTest(unittest.TestCase):
    def check(self, make):
        wanted = train(make, "cpu")
        for index, name in enumerate(keel_torch.devices()):
            with self.subTest(device=name):
                keel_torch.reset_fallbacks()
                losses = train(make, f"keel:{index}")
                fallbacks = keel_torch.fallbacks()
                print(f"{make.__name__} on {name}: fallbacks {fallbacks}")
                for step, (loss, want) in enumerate(zip(losses, wanted)):
                    self.assertAlmostEqual(loss, want, delta=1e-4, msg=f"step {step}")
                if name.startswith("cpu:"):
                    self.assertEqual(fallbacks, {})

    def test_transformer_encoder_trains_as_on_the_cpu(self):
        self.check(Encoder)

    def test_gpt2_trains_as_on_the_cpu(self):
        self.check(Gpt2)

    def test_llama_trains_as_on_the_cpu(self):
        self.check(Llama)


class DeviceSampleTest(unittest.TestCase):
    def output_of(self, script):
        finished = subprocess.run([sys.executable, str(script)], capture_output=True, text=True,
                                  timeout=300)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        return [float(loss) for loss in re.findall(r"loss (\S+)", finished.stdout)]

    def test_script_trains_with_two_lines_changed(self):
        losses = self.output_of(SAMPLE)
        self.assertEqual(len(losses), 4)
        self.assertLess(losses[-1], losses[0])
        text = SAMPLE.read_text()
        stock = text.replace('.to("keel")', "")
        changed = [line for line, other in zip(text.splitlines(), stock.splitlines())
                   if line != other]
        self.assertEqual(len(changed), 2, changed)
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "train.py"
            script.write_text(stock)
            for loss, want in zip(losses, self.output_of(script)):
                self.assertAlmostEqual(loss, want, delta=1e-3)


if __name__ == "__main__":
    unittest.main()
