# SPDX-License-Identifier: Apache-2.0
"""Trains a small language model by DistributedDataParallel, each rank on a keel device of its own: a
script of PyTorch, of which two lines are Keel's. The wheel keel_torch is installed; nothing imports
it here.

    KEEL_DEVICES=cpu:0,vulkan:0 torchrun --nproc-per-node 2 train_device_ddp.py
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

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
    dist.init_process_group("keel")  # Keel's first line, which was "gloo"
    device = torch.device("keel", int(os.environ["LOCAL_RANK"]))  # Keel's second, which was "cpu"
    torch.set_num_threads(1)
    torch.manual_seed(1)
    letters = sorted(set(TEXT))
    data = torch.tensor([letters.index(letter) for letter in TEXT])
    model = DistributedDataParallel(Model(len(letters)).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(STEPS):
        starts = torch.randint(len(data) - LENGTH - 1, (BATCH,), generator=generator)
        tokens = torch.stack([data[start:start + LENGTH + 1] for start in starts]).to(device)
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
