# SPDX-License-Identifier: Apache-2.0
"""Trains a small language model by DistributedDataParallel: a script of PyTorch, of which two lines
are Keel's.

    torchrun --nproc-per-node 2 train.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import keel_torch  # Keel's first line

TEXT = "the quick brown fox jumps over the lazy dog. " * 40
STEPS, BATCH, LENGTH, WIDTH = 60, 8, 32, 64


class Model(nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.embedding = nn.Embedding(letters, WIDTH)
        self.layers = nn.GRU(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.head = nn.Linear(WIDTH, letters)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens))[0])


def main():
    dist.init_process_group("keel")  # Keel's second line, which was "gloo"
    torch.set_num_threads(1)
    torch.manual_seed(1)
    letters = sorted(set(TEXT))
    data = torch.tensor([letters.index(letter) for letter in TEXT])
    model = DistributedDataParallel(Model(len(letters)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(STEPS):
        starts = torch.randint(len(data) - LENGTH - 1, (BATCH,), generator=generator)
        tokens = torch.stack([data[start:start + LENGTH + 1] for start in starts])
        predicted = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(predicted.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.SUM)
        if dist.get_rank() == 0 and step % 10 == 9:
            print(f"step {step + 1:3d}: loss {mean.item() / dist.get_world_size():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
