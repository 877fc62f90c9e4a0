// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatch.h"

#include <keel/plugin_kit.hpp>
#include <memory>
#include <string_view>

#include "core/log.h"
#include "core/plugin_file.h"
#include "ops/owned_call.h"
#include "ops/schema.h"

namespace keel::ops {
namespace {

[[gnu::cold]] Status refuse_memory(const Device& device, const keel_op_call& call, const char* kind,
                                   const char* tensor, const char* what) {
  return failure(KEEL_INVALID_ARGUMENT, "{}: {} {}: {} {}", find_schema(call.op)->name, kind,
                 tensor, what, device.name());
}

// The CPU may step optimizer state that does not fit a GPU in place: in that GPU's pinned memory,
// or in registered memory of the caller.
[[gnu::cold]] bool is_registered(Device& device, const void* first, uint64_t bytes) {
  return device.info().type == KEEL_DEVICE_CPU &&
         device.host_registrations().has_same_address(first, bytes);
}

// Returns NULL if |tensor|'s memory is valid, else a description of the problem.
const char* check_tensor_memory(Device& device, const keel_tensor& tensor) {
  const uint64_t bytes = kit::span_bytes(tensor);
  if (bytes == 0) return nullptr;
  const auto first = reinterpret_cast<uintptr_t>(kit::first_element(tensor));
  Allocation allocation;
  const bool found = device.memory().find(kit::first_element(tensor), &allocation);
  if ((!found || allocation.kind == KEEL_MEMORY_PINNED) &&
      is_registered(device, kit::first_element(tensor), bytes)) {
    return nullptr;
  }
  if (!found) return "its data is not memory of";
  if (bytes > allocation.size - (first - reinterpret_cast<uintptr_t>(allocation.base))) {
    return "it reaches past its allocation on";
  }
  if (allocation.kind == KEEL_MEMORY_PINNED) return "it is host memory, pinned for";
  return nullptr;
}

// Lists the call's memory accesses for observers.
void describe(const Device& device, const keel_op_call& call, const void* workspace,
              uint64_t workspace_bytes, AccessList& accesses) {
  const auto add = [&](const keel_tensor& tensor, bool writes) {
    accesses.add({&device, kit::first_element(tensor), kit::span_bytes(tensor), writes,
                  kit::is_contiguous(tensor)});
  };
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (call.inputs[i] != nullptr) add(*call.inputs[i], /*writes=*/false);
  }
  for (uint32_t o = 0; o < call.output_count; ++o) {
    add(*call.outputs[o], /*writes=*/true);
  }
  accesses.writes(&device, workspace, workspace_bytes);
}

}  // namespace

Status check_memory(Device& device, const keel_op_call& call) {
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (call.inputs[i] == nullptr) continue;
    const char* what = check_tensor_memory(device, *call.inputs[i]);
    if (what == nullptr) continue;
    return refuse_memory(device, call, "input", find_schema(call.op)->inputs[i].name, what);
  }
  for (uint32_t o = 0; o < call.output_count; ++o) {
    const char* what = check_tensor_memory(device, *call.outputs[o]);
    if (what == nullptr) continue;
    return refuse_memory(device, call, "output", find_schema(call.op)->outputs[o].name, what);
  }
  return {};
}

Status submit_kernel(Stream& stream, const Candidate& candidate, const keel_op_call& call) {
  void* workspace = nullptr;
  if (candidate.workspace_bytes != 0) {
    KEEL_RETURN_IF_ERROR(stream.workspace(candidate.workspace_bytes, &workspace));
  }
  Device& device = stream.device();
  return stream.submit(
      find_schema(call.op)->name,
      [&](AccessList& accesses) {
        describe(device, call, workspace, candidate.workspace_bytes, accesses);
      },
      [&device, &call, workspace](keel_plugin_stream* native) {
        return device.check(device.op_table()->run(native, &call, workspace), "op.run");
      },
      [&] {
        return [&device, workspace,
                owned = std::make_shared<const OwnedCall>(call)](keel_plugin_stream* native) {
          return device.check(device.op_table()->run(native, &owned->call(), workspace), "op.run");
        };
      });
}

Status choose_kernel(Device& device, const keel_op_call& call, Candidate* out_best) {
  CheckError error;
  const keel_status code = check_call(call, Check::kAll, &error);
  if (code != KEEL_OK) return Status(code, error.text);
  KEEL_RETURN_IF_ERROR(check_memory(device, call));
  return select_kernel(device, call, out_best);
}

bool is_ready(const Candidate& best) {
  return best.custom == nullptr && best.level != KEEL_OP_NONE && best.workspace_bytes == 0;
}

Status run_op(const Ref<Stream>& stream, keel_stream handle, const keel_op_call& call,
              const Candidate& best) {
  Device& device = stream->device();
  if (best.custom != nullptr) {
    KEEL_RETURN_IF_ERROR(stream->status());
    const keel_status result = best.custom->run(best.custom->user, handle, &call);
    if (result == KEEL_OK) return {};
    return failure(result, "{}: custom kernel {} failed", find_schema(call.op)->name,
                   best.custom->name);
  }
  if (best.level != KEEL_OP_NONE) return submit_kernel(*stream, best, call);

  Candidate fallback;
  KEEL_RETURN_IF_ERROR(select_fallback(device, call, &fallback));
  if (fallback.level == KEEL_OP_NONE) {
    if (has_packed(*find_schema(call.op))) {
      return failure(KEEL_UNSUPPORTED,
                     "{}: {} has no kernel for this call, and another device has another order of "
                     "packed weights",
                     find_schema(call.op)->name, device.name());
    }
    return failure(KEEL_UNSUPPORTED, "{}: neither {} nor a CPU device has a kernel for this call",
                   find_schema(call.op)->name, device.name());
  }
  if (FallbackPolicy::get().forbidden()) {
    return failure(KEEL_UNSUPPORTED,
                   "{}: {} has no kernel for this call, and the fallback to {} is forbidden",
                   find_schema(call.op)->name, device.name(), fallback.device->name());
  }
  KEEL_RETURN_IF_ERROR(run_fallback(stream, fallback, call));
  FallbackPolicy::get().add();
  return {};
}

FallbackPolicy& FallbackPolicy::get() {
  static FallbackPolicy policy;
  return policy;
}

FallbackPolicy::FallbackPolicy() {
  const char* setting = trusted_environment("KEEL_FALLBACK");
  if (setting == nullptr || *setting == '\0') return;
  const std::string_view value(setting);
  forbidden_ = value == "forbid";
  if (value != "forbid" && value != "allow") {
    log(KEEL_LOG_WARNING, "KEEL_FALLBACK is \"{}\": neither forbid nor allow", setting);
  }
}

}  // namespace keel::ops
