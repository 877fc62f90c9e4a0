# SPDX-License-Identifier: Apache-2.0
"""Training by PyTorch's own means, beside the same over Gloo."""

import unittest

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import keel_torch
from ranks import run_ranks

STEPS = 8


def model():
    torch.manual_seed(3)
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Embedding(100, 64),
                         nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
                         nn.Linear(64, 100))


def batch(rank, step):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    tokens = torch.randint(0, 100, (4, 17), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


def train(network, rank, batches=batch):
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    losses = []
    for step in range(STEPS):
        source, target = batches(rank, step)
        loss = nn.functional.cross_entropy(network(source).flatten(0, 1), target.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def train_ddp(rank, world):
    # Several buckets, whose sums overlap the backward pass.
    network = DistributedDataParallel(model(), bucket_cap_mb=0.05)
    losses = train(network, rank)
    return losses, [parameter.detach().clone().sum().item() for parameter in network.parameters()]


def train_fsdp2(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (world,))
    network = model()
    for layer in network[1].layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(network, mesh=mesh)
    losses = train(network, rank)
    return losses, [parameter.full_tensor().sum().item() for parameter in network.parameters()]


def train_fsdp1(rank, world):
    from torch.distributed.fsdp import FullyShardedDataParallel

    network = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
    return train(network, rank), []


def train_with_loader(rank, world):
    """Workers of a DataLoader are forked from a process that uses Keel."""
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return STEPS

        def __getitem__(self, step):
            source, target = batch(rank, step)
            return source.clone().fill_(step + 1), target

    loader = torch.utils.data.DataLoader(Data(), batch_size=None, num_workers=2,
                                         multiprocessing_context="fork", persistent_workers=False)
    batches = list(loader)
    network = DistributedDataParallel(model())
    losses = []
    for _ in range(2):
        # Workers come and go between and during collectives.
        for source, target in loader:
            loss = nn.functional.cross_entropy(network(source).flatten(0, 1), target.flatten())
            loss.backward()
            losses.append(loss.item())
    assert len(batches) == STEPS
    return losses


def write_in_a_worker(rank, world):
    """A worker of a DataLoader writes to its parent's tensor, which lies in Keel's arenas."""
    keel_torch.use_allocator()
    tensor = torch.full((100000,), float(rank + 1))
    dist.all_reduce(tensor)  # the peers have mapped the arena

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            tensor.fill_(index + 50)
            return tensor.unique().tolist()

    loader = torch.utils.data.DataLoader(Data(), batch_size=None, num_workers=2,
                                         multiprocessing_context="fork")
    written = list(loader)
    own = tensor.unique().tolist()
    dist.barrier()
    dist.all_reduce(tensor)  # of what the peers see
    return written, own, tensor.unique().tolist()


def multiply_dtensors(rank, world):
    mesh = dist.device_mesh.init_device_mesh("cpu", (world,))
    torch.manual_seed(5)
    a, b = torch.randint(0, 5, (16, 12)).float(), torch.randint(0, 5, (12, 8)).float()
    for left in (0, 1):
        for right in (0, 1):
            product = distribute_tensor(a, mesh, [Shard(left)]) @ distribute_tensor(b, mesh,
                                                                                 [Shard(right)])
            assert isinstance(product, DTensor)
            assert torch.equal(product.full_tensor(), a @ b), (left, right)
            moved = distribute_tensor(a, mesh, [Shard(left)]).redistribute(mesh, [Shard(right)])
            assert torch.equal(moved.full_tensor(), a)


def train_with_dtensors(rank, world):
    """Two linear layers, split by columns and by rows, and their gradients."""
    mesh = dist.device_mesh.init_device_mesh("cpu", (world,))
    torch.manual_seed(5)
    first, second = torch.randn(32, 16), torch.randn(16, 32)
    weights = [distribute_tensor(first, mesh, [Shard(0)]).requires_grad_(),
               distribute_tensor(second, mesh, [Shard(1)]).requires_grad_()]
    source = distribute_tensor(torch.randn(8, 16), mesh, [Replicate()])
    losses = []
    for _ in range(STEPS):
        loss = ((source @ weights[0].t()).relu() @ weights[1].t() - source).square().mean()
        gradients = torch.autograd.grad(loss, weights)
        weights = [(weight - 0.01 * gradient).detach().requires_grad_()
                   for weight, gradient in zip(weights, gradients)]
        losses.append(loss.full_tensor().item())
    return losses, [weight.full_tensor().sum().item() for weight in weights]


def run_pipeline(rank, world):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.manual_seed(7)
    layers = [nn.Linear(16, 16) for _ in range(world)]
    stage = PipelineStage(layers[rank], rank, world, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    torch.manual_seed(8)
    source, target = torch.randn(8, 16), torch.randn(8, 16)
    losses = []
    if rank == 0:
        schedule.step(source)
    elif rank == world - 1:
        schedule.step(target=target, losses=losses)
    else:
        schedule.step()
    return [loss.item() for loss in losses], layers[rank].weight.grad.sum().item()


class TrainingTest(unittest.TestCase):
    def assert_same(self, function, world):
        over_keel = run_ranks(world, function)
        self.assertEqual(over_keel, run_ranks(world, function, backend="gloo"))
        return over_keel

    def assert_same_losses(self, function, world):
        """Gloo adds more than two ranks' numbers in another order, so bits may differ, and so may
        weights whose gradient is nothing but rounding, of which AdamW makes whole steps."""
        for ours, theirs in zip(run_ranks(world, function),
                                run_ranks(world, function, backend="gloo")):
            for a, b in zip(ours[0], theirs[0], strict=True):
                self.assertAlmostEqual(a, b, delta=1e-4)

    def test_ddp_equals_gloo_to_the_bit(self):
        losses = self.assert_same(train_ddp, 2)[0][0]
        self.assertLess(losses[-1], losses[0])

    def test_training_by_four_ranks_equals_gloo(self):
        for function in (train_ddp, train_fsdp2, train_fsdp1, train_with_dtensors):
            with self.subTest(function.__name__):
                self.assert_same_losses(function, 4)

    def test_fsdp2_equals_gloo(self):
        self.assert_same(train_fsdp2, 2)

    def test_fsdp1_equals_gloo(self):
        self.assert_same(train_fsdp1, 2)

    def test_data_loader_workers(self):
        self.assert_same(train_with_loader, 2)

    def test_writes_of_a_worker_stay_its_own(self):
        for written, own, total in run_ranks(2, write_in_a_worker):
            self.assertEqual((written, own, total), ([[50], [51]], [3], [6]))

    def test_dtensor(self):
        for world in (2, 4):
            run_ranks(world, multiply_dtensors)
        self.assert_same(train_with_dtensors, 2)

    def test_pipeline_equals_gloo(self):
        self.assert_same(run_pipeline, 2)
        self.assert_same(run_pipeline, 4)


if __name__ == "__main__":
    unittest.main()
