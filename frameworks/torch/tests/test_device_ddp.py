# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel and FSDP2 on keel devices of one make and of two; ranks that die."""

import datetime
import functools
import os
import signal
import unittest

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import keel_torch
from device_models import BATCH, Encoder, batch_of, run_step, train
from device_ranks import PAIRS, enter, has_device, run_device_ranks
from ranks import run_ranks
from test_training import batch, model
from test_training import train as train_steps

STEPS = 20
make = functools.partial(Encoder, layers=1)


def train_alone(rank, world):
    return train(make, "cpu", STEPS)


def train_ddp(rank, world, device, options):
    torch.manual_seed(1)
    parameters = make().state_dict()
    with torch.device(device):
        network = make()
    if rank == 0:  # DistributedDataParallel passes them on
        network.load_state_dict(parameters)
    network = DistributedDataParallel(network, **options)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    share = BATCH // world
    losses = []
    keel_torch.reset_fallbacks()
    for step in range(STEPS):
        tokens = batch_of(step)[rank * share:(rank + 1) * share].to(device)
        losses.append(run_step(network, optimizer, tokens))
    fallbacks = keel_torch.fallbacks()
    total = torch.stack(losses)
    dist.all_reduce(total, dist.ReduceOp.AVG)
    weights = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
    gathered = [torch.empty_like(weights) for _ in range(world)]
    dist.all_gather(gathered, weights)
    apart = max((other.cpu() - weights.cpu()).abs().max().item() for other in gathered)
    return total.cpu().tolist(), fallbacks, apart


class Branching(nn.Module):
    """Running means, and a last layer that every second step leaves out."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 8)

    def forward(self, x, is_whole):
        x = self.norm(self.first(x))
        return self.last(x) if is_whole else x


def train_with_buffers(rank, world, device):
    torch.manual_seed(rank)
    network = DistributedDataParallel(Branching().to(device), find_unused_parameters=True)
    rows = torch.arange(24.0, device=device).view(6, 4)
    for step in range(4):
        network((rows * (rank + step + 1)).sin(), step % 2 == 0).square().mean().backward()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter -= 0.1 * parameter.grad
        network.zero_grad(set_to_none=False)
    network(rows, False)  # passes rank 0's means on, and counts the batch
    state = {name: value.cpu().flatten().tolist()
             for name, value in network.module.state_dict().items() if "running" not in name}
    return state


def train_fsdp2(rank, world, device):
    # Over gloo on the CPU; a mesh chooses the device keel:LOCAL_RANK.
    on_device = dist.get_backend() == "keel"
    device = torch.device("keel", rank) if on_device else torch.device("cpu")
    mesh = init_device_mesh(device.type, (world,))
    network = model().to(device)
    for layer in network[1].layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(network, mesh=mesh)
    keel_torch.reset_fallbacks()
    losses = train_steps(network, rank, lambda *of: [x.to(device) for x in batch(*of)])
    return losses, keel_torch.fallbacks()


def die_in_collective(rank, world, device):
    dist.all_reduce(torch.ones(10, device=device))
    if rank == world - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    texts = []
    for function in (lambda: dist.all_reduce(torch.ones(100000, device=device)),
                     lambda: dist.all_reduce(torch.ones(10, device=device))):
        try:
            function()
        except dist.DistBackendError as error:
            texts.append(str(error))
    # The device itself goes on.
    return texts, torch.ones(10, device=device).sum().item()


def die_in_backward(rank, world, device):
    layers = [nn.Linear(200, 200) for _ in range(4)]
    network = DistributedDataParallel(nn.Sequential(*layers).to(device), bucket_cap_mb=0.01)
    source = torch.randn(8, 200, device=device)
    network(source).sum().backward()
    if rank == world - 1:
        loss = network(source).sum()
        layers[1].weight.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
        loss.backward()
    try:
        network(source).sum().backward()
    except dist.DistBackendError as error:
        return str(error)
    return "nothing was raised"


def miss_a_deadline(rank, world, device):
    """Rank 1 never joins the first group's communicator, and misses an operation of the second's."""
    store = dist.distributed_c10d._get_default_store()
    texts = []
    dist.all_reduce(torch.ones(10, device=device))  # loads what the device needs
    for joins in (False, True):
        group = dist.new_group(timeout=datetime.timedelta(seconds=5))
        if joins:
            dist.all_reduce(torch.ones(10, device=device), group=group)
        if rank == 0:
            try:
                dist.all_reduce(torch.ones(10, device=device), group=group)
            except dist.DistBackendError as error:
                texts.append(str(error))
            store.set(f"failed {joins}", "1")
        else:
            store.wait([f"failed {joins}"])
    return texts


@functools.cache
def losses_alone():
    return run_ranks(1, train_alone, backend=None)[0]


class DeviceDdpTest(unittest.TestCase):
    def check_training(self, names, apart, **options):
        wanted = losses_alone()
        for losses, fallbacks, difference in run_device_ranks(names, train_ddp, options):
            self.assertEqual(fallbacks, {})
            self.assertLessEqual(difference, apart)
            for step, (loss, want) in enumerate(zip(losses, wanted, strict=True)):
                self.assertAlmostEqual(loss, want, delta=1e-4, msg=f"step {step}")

    def test_two_cpus_train_as_one_process(self):
        self.check_training(PAIRS["two_cpus"], 0, bucket_cap_mb=0.02)

    def test_cpu_and_vulkan_train_as_one_process(self):
        # All ranks have the bits of one gradient, and each device rounds AdamW as it does.
        self.check_training(PAIRS["cpu_and_vulkan"], 1e-4, gradient_as_bucket_view=True)

    def test_fsdp2_trains_as_on_the_cpu(self):
        names = ("cpu,vulkan:0",) * 2 if has_device("vulkan:0") else ("cpu,cpu",) * 2
        over_keel = run_ranks(2, enter, names, train_fsdp2)
        over_gloo = run_ranks(2, enter, names, train_fsdp2, backend="gloo")
        for (losses, fallbacks), (wanted, _) in zip(over_keel, over_gloo):
            self.assertEqual(fallbacks, {})
            for loss, want in zip(losses, wanted, strict=True):
                self.assertAlmostEqual(loss, want, delta=1e-4)

    def test_buffers_and_unused_parameters(self):
        first, second = run_device_ranks(PAIRS["cpu_and_vulkan"], train_with_buffers)
        self.assertEqual(first["norm.num_batches_tracked"], [5])
        for name, values in first.items():
            for ours, theirs in zip(values, second[name], strict=True):
                self.assertAlmostEqual(ours, theirs, delta=1e-5, msg=name)

    def test_rank_that_dies_is_named(self):
        for texts, total in run_device_ranks(("cpu",) * 3, die_in_collective, may_die=[2])[:2]:
            self.assertEqual(len(texts), 2)
            for text in texts:
                self.assertRegex(text, "KEEL_RANK_FAILED: .*rank 2 .*died")
            self.assertEqual(total, 10)

    def test_vulkan_rank_that_dies_in_backward_is_named(self):
        text = run_device_ranks(PAIRS["cpu_and_vulkan"], die_in_backward, may_die=[1])[0]
        self.assertRegex(text, r"all_reduce.*rank 1 \(vulkan:0, process \d+\) died")

    def test_missing_rank_is_named_at_the_deadline(self):
        never, late = run_device_ranks(PAIRS["two_cpus"], miss_a_deadline)[0]
        self.assertIn("rank 1", never)
        self.assertRegex(late, "all_reduce.*KEEL_TIMED_OUT.*rank 1")


if __name__ == "__main__":
    unittest.main()
