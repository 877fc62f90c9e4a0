# SPDX-License-Identifier: Apache-2.0
"""Trains a small language model on a keel device: a script of PyTorch, of which two lines are
Keel's. The wheel keel_torch is installed; nothing imports it here.

    python train_device.py
"""

import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog. " * 40
STEPS, BATCH, LENGTH, WIDTH = 40, 8, 16, 32


class Model(nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.embedding = nn.Embedding(letters, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, letters)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    letters = sorted(set(TEXT))
    data = torch.tensor([letters.index(letter) for letter in TEXT])
    model = Model(len(letters)).to("keel")  # Keel's first line
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    for step in range(STEPS):
        starts = torch.randint(len(data) - LENGTH - 1, (BATCH,), generator=generator)
        tokens = torch.stack([data[start:start + LENGTH + 1] for start in starts])
        tokens = tokens.to("keel")  # Keel's second line
        predicted = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(predicted.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1:3d}: loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
