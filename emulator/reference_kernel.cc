// SPDX-License-Identifier: Apache-2.0
#include "emulator/reference_kernel.h"

#include <fmt/format.h>

#include <cstring>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <utility>

#include "ops/owned_call.h"
#include "ops/testing/reference.h"

namespace keel::emulator {
namespace {

double bytes_of(const keel_tensor& tensor) {
  return static_cast<double>(kit::element_count(tensor)) * kit::dtype_size(tensor.dtype);
}

Work work_of(const keel_op_call& call) {
  Work work;
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (call.inputs[i] != nullptr) work.bytes += bytes_of(*call.inputs[i]);
  }
  for (uint32_t o = 0; o < call.output_count; ++o) work.bytes += bytes_of(*call.outputs[o]);
  // All operators except matmul are memory-bound on every existing chip.
  if (call.op == KEEL_OP_MATMUL && kit::element_count(*call.outputs[0]) != 0) {
    const bool transposed = kit::attributes<keel_op_matmul_attributes>(call).trans_a != 0;
    const auto k = static_cast<double>(call.inputs[0]->shape[transposed ? 0 : 1]);
    work.flops = 2 * k * static_cast<double>(kit::element_count(*call.outputs[0]));
    work.dtype = kit::dtype_name(call.inputs[0]->dtype);
  }
  return work;
}

// Replaces the device address of |tensor| by its host address.
Status reach(Access& access, keel_tensor* tensor) {
  const uint64_t bytes = tensor == nullptr ? 0 : kit::span_bytes(*tensor);
  if (bytes == 0) return {};
  std::byte* data = nullptr;
  Status status = access.reach(address_of(kit::first_element(*tensor)), bytes, &data);
  tensor->data = data;
  tensor->byte_offset = 0;
  return status;
}

void store(const std::vector<double>& values, const keel_tensor& output) {
  size_t next = 0;
  kit::for_each_element(output, [&](int64_t offset) {
    ops::store_element(kit::first_element(output), output.dtype, offset, values[next++]);
  });
}

// In place of the result. By ranges where they are dense: chips that compute nothing stand in for
// fast ones, and share this machine's cores.
void poison(const keel_tensor& output) {
  const auto size = static_cast<int64_t>(kit::dtype_size(output.dtype));
  auto* const first = static_cast<std::byte*>(kit::first_element(output));
  if (kit::is_contiguous(output)) {
    std::memset(first, kPoison, static_cast<size_t>(kit::element_count(output) * size));
    return;
  }
  kit::for_each_element(output, [&](int64_t offset) {
    std::memset(first + offset * size, kPoison, static_cast<size_t>(size));
  });
}

Status run(Access& access, bool computes, ops::OwnedCall* owned) {
  const keel_op_call& call = owned->call();
  Status status;
  for (uint32_t i = 0; i < call.input_count && status.ok(); ++i) {
    status = reach(access, owned->input(i));
  }
  for (uint32_t o = 0; o < call.output_count && status.ok(); ++o) {
    status = reach(access, owned->output(o));
  }
  if (!status.ok()) return status;
  if (!computes) {
    for (uint32_t o = 0; o < call.output_count; ++o) poison(*call.outputs[o]);
    return {};
  }
  ops::ReferenceResult result;
  if (ops::run_reference(call, &result) != KEEL_OK) {
    return {Code::kInvalidArgument, fmt::format("operator {}: not a call of its schema", call.op)};
  }
  for (uint32_t o = 0; o < call.output_count; ++o) {
    store(result.outputs[o].values, *call.outputs[o]);
  }
  return {};
}

}  // namespace

bool reference_takes(const keel_op_call& call) {
  ops::CheckError ignored;
  return ops::check_call(call, ops::Check::kLayout, &ignored) == KEEL_OK;
}

Status launch_reference(Stream& stream, const keel_op_call& call) {
  const auto owned = std::make_shared<ops::OwnedCall>(call);
  const keel_tensor& output = *call.outputs[0];
  const Result result = {address_of(kit::first_element(output)), kit::span_bytes(output)};
  return stream.launch(work_of(call), result,
                       [owned, computes = stream.device().options().computes](Access& access) {
                         return run(access, computes, owned.get());
                       });
}

}  // namespace keel::emulator
