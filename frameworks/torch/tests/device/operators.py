# SPDX-License-Identifier: Apache-2.0
"""Runs the samples of PyTorch's own table of operators (op_db) on a keel device and on the CPU.

    python operators.py [--update] [--device keel:0] [--verbose] [NAME...]

A sample passes if the results agree and nothing ran on the CPU. Runs the operators, their in-place
variants, and in float32 their backward passes. Compares the counts with
the list of the device's backend, operators_cpu.txt or operators_vulkan.txt, or writes them there.
The table comes with PyTorch's wheel. test_device_operators.py
runs a part of the list in every run of the tests.
"""

import argparse
import pathlib
import sys
import warnings
import zlib

import torch

import keel_torch
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int64": torch.int64}
# Of a type: what 16 bits, and another order of summation, allow.
TOLERANCES = {
    torch.float32: {"rtol": 2e-5, "atol": 2e-5},
    torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
}
# Of gradients: samples have elements of up to 9, so that scores of attention and sums of products
# reach 600, whose last bits differ by 6e-5.
GRADIENT_TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}

# The operators that the device claims to run by itself.
CLAIMED = """
__radd__ __rand__ __rdiv__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rsub__ __rxor__
_softmax_backward_data abs add addcdiv addcmul addmm all amax amin any arange argmax argmin
as_strided atan2 baddbmm bfloat16 bitwise_and bitwise_not bitwise_or bitwise_xor bmm bool
broadcast_tensors broadcast_to cat ceil chunk clamp clamp_max clamp_min clone contiguous cos
diagonal div dot double empty_like eq erf exp exp2 expand expand_as expm1 fill flatten float
floor floor_divide fmod full full_like gather ge gt half index_add index_fill index_select int
isfinite isinf isnan item le lerp linalg.vector_norm log log1p log2 log_softmax logical_and
logical_not logical_or logical_xor logsumexp long lt masked_fill matmul max maximum mean min
minimum mm movedim mul mv narrow ne neg new_empty new_full new_ones new_zeros nn.functional.cross_entropy
nn.functional.embedding nn.functional.gelu nn.functional.layer_norm nn.functional.linear
nn.functional.mse_loss nn.functional.nll_loss nn.functional.relu nn.functional.rms_norm
nn.functional.scaled_dot_product_attention nn.functional.silu nn.functional.softmin
nn.functional.threshold norm ones ones_like permute pow prod ravel reciprocal remainder repeat
reshape resolve_conj round rsqrt rsub scatter scatter_add select sigmoid sign sin slice softmax
split sqrt squeeze stack std std_mean sub sum t tanh to transpose tril triu trunc unbind unfold
unsqueeze var var_mean view where zero_ zeros zeros_like
""".split()

# Products of integers run on the CPU.
FLOAT_ONLY = set("__rmatmul__ addmm baddbmm bmm dot matmul mm mv nn.functional.linear".split())
# Variants that are not claimed: other algorithms, or views of more storage than is copied here.
UNCLAIMED_VARIANTS = {"decimals_0", "decimals_3", "decimals_neg_3", "nuc", "partial_views"}


def is_claimed(sample):
    """Not: random results, sums of other kinds than a sum, rows that the forward pass changes."""
    options = sample.kwargs
    return (not options.get("dropout_p") and options.get("reduce") != "multiply" and
            options.get("max_norm") is None)


def to(value, device):
    if isinstance(value, torch.Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        moved = [to(item, device) for item in value]
        return type(value)(*moved) if hasattr(value, "_fields") else type(value)(moved)
    if isinstance(value, dict):
        return {key: to(item, device) for key, item in value.items()}
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device(device)
    return value


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_of(item)]
    if isinstance(value, dict):
        return tensors_of(list(value.values()))
    return []


def forward(operator, sample, device):
    return operator(to(sample.input, device), *to(sample.args, device),
                    **to(sample.kwargs, device))


def in_place(operator, sample, device):
    return operator.inplace_variant(to(sample.input, device).clone(), *to(sample.args, device),
                                    **to(sample.kwargs, device))


def backward(operator, sample, device):
    """The gradients of all inputs of a sum of the results with a weight of its own for each."""
    inputs = to([sample.input, sample.args, sample.kwargs], device)
    result = sample.output_process_fn_grad(operator(inputs[0], *inputs[1], **inputs[2]))
    results = [tensor for tensor in tensors_of(result) if tensor.requires_grad]
    weights = [torch.linspace(-1, 2, each.numel(), dtype=each.dtype).view(each.shape).to(device)
               for each in results]
    leaves = [tensor for tensor in tensors_of(inputs) if tensor.requires_grad]
    gradients = torch.autograd.grad(results, leaves, weights, allow_unused=True)
    return [gradient for gradient in gradients if gradient is not None]


# By the name in the list.
RUNS = {"": forward, " backward": backward, " in place": in_place}


def has_run(operator, dtype, run):
    if run is backward:
        return dtype == torch.float32 and operator.supports_autograd
    return run is forward or operator.inplace_variant is not None


def difference(sample, operator, device, run=forward):
    """Why the sample fails, or None."""
    want = run(operator, sample, "cpu")
    keel_torch.reset_fallbacks()
    try:
        got = run(operator, sample, device)
        fallbacks = keel_torch.fallbacks()
        if fallbacks:
            return f"on the CPU: {', '.join(fallbacks)}"
        wanted, found = tensors_of(want), tensors_of(got)
        if len(wanted) != len(found):
            return f"{len(found)} results instead of {len(wanted)}"
        for one, other in zip(wanted, found):
            if "empty" in operator.name:
                assert one.shape == other.shape and one.dtype == other.dtype
                continue
            limits = GRADIENT_TOLERANCE if run is backward else TOLERANCES.get(one.dtype, {})
            torch.testing.assert_close(other.cpu(), one, equal_nan=True, check_stride=False,
                                       **limits)
        if not wanted and want != got and want == want:
            return f"{got} instead of {want}"
    except Exception as failure:  # any failure is an outcome
        return f"{type(failure).__name__}: {str(failure).splitlines()[0] if str(failure) else ''}"
    return None


def count(operator, dtype, device, reasons, run=forward):
    """(passed, samples)"""
    passed = samples = 0
    torch.manual_seed(0)
    for sample in operator.sample_inputs("cpu", dtype, requires_grad=run is backward):
        if not is_claimed(sample):
            continue
        try:
            reason = difference(sample, operator, device, run)
        except Exception:  # not for the CPU either
            continue
        samples += 1
        passed += reason is None
        if reason:
            reasons.append(reason)
    return passed, samples


def judge(device, names, verbose=False):
    """{"add float32": (passed, samples)}"""
    counts = {}
    for operator in op_db:
        if operator.name not in names or operator.variant_test_name in UNCLAIMED_VARIANTS:
            continue
        name = operator.name + (f".{operator.variant_test_name}" if operator.variant_test_name
                                else "")
        for dtype_name, dtype in DTYPES.items():
            if dtype not in operator.dtypes or (dtype_name == "int64" and
                                                operator.name in FLOAT_ONLY):
                continue
            for run_name, run in RUNS.items():
                if not has_run(operator, dtype, run):
                    continue
                reasons = []
                passed, samples = count(operator, dtype, device, reasons, run)
                if samples == 0:
                    continue
                row = f"{name} {dtype_name}{run_name}"
                counts[row] = (passed, samples)
                if verbose and reasons:
                    print(f"{row}: {passed} of {samples}")
                    for reason in sorted(set(reasons))[:4]:
                        print("   ", reason[:200])
    return counts


def list_of(device):
    """The list of the backend behind |device|, keel:0."""
    backend = keel_torch.devices()[torch.device(device).index or 0].split(":")[0]
    return pathlib.Path(__file__).with_name(f"operators_{backend}.txt")


def committed(device):
    counts = {}
    path = list_of(device)
    if not path.exists():  # what a backend without a list has to reach
        path = path.with_name("operators_cpu.txt")
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            *name, passed, _, samples = line.split()
            counts[" ".join(name)] = (int(passed), int(samples))
    return counts


def part_of(names, seed, parts):
    """One of |parts| parts of |names|: a name stays in its part whatever the others are."""
    return [name for name in names if zlib.crc32(f"{seed} {name}".encode()) % parts == 0]


def shortfalls(counts, listed):
    """What is worse in |counts| than in |listed|, both {"add float32": (passed, samples)}, a line
    each. Compares the samples that fail: another PyTorch has other samples."""
    lines = []
    for name, (passed, samples) in counts.items():
        if name not in listed:
            lines.append(f"{name}: {passed} of {samples}, not listed")
            continue
        before, of = listed[name]
        if samples - passed > of - before:
            lines.append(f"{name}: {passed} of {samples}, {before} of {of} listed")
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--device", default="keel:0")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    counts = judge(options.device, options.names or CLAIMED, options.verbose)
    passed = sum(one for one, _ in counts.values())
    samples = sum(one for _, one in counts.values())
    enough = sum(one >= 0.95 * of for one, of in counts.values())
    print(f"{passed} of {samples} samples pass; {enough} of {len(counts)} operators and types pass "
          "at least 95 %")
    if options.update:
        lines = ["# Samples of op_db that pass, of how many; written by operators.py --update.",
                 f"# {passed} of {samples}; {enough} of {len(counts)} at least 95 %."]
        lines += [f"{name} {one} of {of}" for name, (one, of) in sorted(counts.items())]
        list_of(options.device).write_text("\n".join(lines) + "\n")
        return 0
    worse = shortfalls(counts, committed(options.device))
    for line in worse:
        print(line)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
