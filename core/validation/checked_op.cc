// SPDX-License-Identifier: Apache-2.0
// Operators, checked as far as can be without their schemas.
#include <keel/plugin_kit.hpp>

#include "core/status.h"
#include "core/validation/call.h"
#include "core/validation/tables.h"

namespace keel::validation {

namespace {

bool check_tensor(Call& call, const keel_tensor& tensor, const char* kind, uint32_t index) {
  if (!call.check(tensor.size >= sizeof(keel_tensor), "{} {}: size is {}", kind, index,
                  tensor.size) ||
      !call.check(tensor.dtype > KEEL_DTYPE_INVALID && tensor.dtype < KEEL_DTYPE_COUNT,
                  "{} {}: dtype {} is none", kind, index, tensor.dtype) ||
      !call.check(tensor.rank <= KEEL_MAX_RANK, "{} {}: rank is {}", kind, index, tensor.rank)) {
    return false;
  }
  for (uint32_t axis = 0; axis < tensor.rank; ++axis) {
    if (!call.check(tensor.shape[axis] >= 0, "{} {}: shape[{}] is {}", kind, index, axis,
                    tensor.shape[axis]) ||
        !call.check(tensor.strides[axis] >= 0, "{} {}: strides[{}] is {}", kind, index, axis,
                    tensor.strides[axis])) {
      return false;
    }
  }
  return true;
}

bool check_call(Call& call, const keel_op_call* op) {
  if (!call.check(op != nullptr, "call is NULL") ||
      !call.check(op->header.type == KEEL_STRUCT_OP_CALL && op->header.size >= sizeof(keel_op_call),
                  "call->header has size {} and type {}", op->header.size, op->header.type) ||
      !call.check(
          (op->op > KEEL_OP_INVALID && op->op < KEEL_OP_COUNT) || op->op >= KEEL_OP_CUSTOM_BASE,
          "call->op {} is no operator", op->op) ||
      !call.check(op->input_count == 0 || op->inputs != nullptr, "call->inputs is NULL") ||
      !call.check(op->output_count == 0 || op->outputs != nullptr, "call->outputs is NULL") ||
      !call.check(op->attribute_count == 0 || op->attributes != nullptr,
                  "call->attributes is NULL")) {
    return false;
  }
  for (uint32_t i = 0; i < op->input_count; ++i) {  // an optional input may be missing
    if (op->inputs[i] != nullptr && !check_tensor(call, *op->inputs[i], "input", i)) return false;
  }
  for (uint32_t o = 0; o < op->output_count; ++o) {
    if (!call.check(op->outputs[o] != nullptr, "output {} is NULL", o) ||
        !check_tensor(call, *op->outputs[o], "output", o)) {
      return false;
    }
  }
  return true;
}

keel_status ask(Call& call, CheckedDevice& device, const keel_op_call* op,
                keel_op_support* out_support) {
  Guarded<keel_op_support> support;
  support.value.header = {sizeof(support.value), KEEL_STRUCT_OP_SUPPORT, nullptr};
  support.value.level = UINT32_MAX;
  const keel_header header = support.value.header;
  const keel_status code = call.answer(device.real().op->query(device.native, op, &support.value));
  check_answer(call, support, header, "out_support");
  if (code != KEEL_OK) return code;
  if (support.value.level > KEEL_OP_NATIVE) {
    return call.broken("the plugin left out_support->level {}, which is none", support.value.level);
  }
  *out_support = support.value;
  return code;
}

keel_status query(keel_plugin_device* handle, const keel_op_call* op,
                  keel_op_support* out_support) {
  Call call("op.query", handle, op, out_support);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(out_support != nullptr, "out_support is NULL") ||
      !call.check(out_support->header.type == KEEL_STRUCT_OP_SUPPORT &&
                      out_support->header.size >= sizeof(keel_op_support),
                  "out_support->header has size {} and type {}", out_support->header.size,
                  out_support->header.type) ||
      !check_call(call, op)) {
    return call.refused();
  }
  keel_op_support support = {};
  const keel_status code = ask(call, *device, op, &support);
  if (code != KEEL_OK) return code;
  if (support.level != KEEL_OP_NONE && support.kernel == nullptr) {
    call.lie("out_support->kernel is NULL for op {}", op->op);
  }
  support.header = out_support->header;
  *out_support = support;
  return code;
}

// Returns the device space; on a CPU device, the host space for registered host memory, which may
// serve in place of device memory.
Space space_of(CheckedDevice& device, const void* pointer, uint64_t bytes) {
  if (device.info.type != KEEL_DEVICE_CPU) return Space::kDevice;
  std::lock_guard lock(device.mutex);
  if (device.allocations.find(Space::kDevice, pointer) != nullptr) return Space::kDevice;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto next = device.registered.upper_bound(address);
  if (next == device.registered.begin()) return Space::kDevice;
  const Block& registered = (--next)->second;
  const uint64_t offset = address - registered.base;
  return offset < registered.size && bytes <= registered.size - offset ? Space::kHost
                                                                       : Space::kDevice;
}

// Returns the bytes of the call's tensors.
std::vector<Range> ranges_of(CheckedDevice& device, const keel_op_call& op) {
  std::vector<Range> ranges;
  const auto add = [&](const keel_tensor* tensor, const char* argument) {
    if (tensor == nullptr || kit::span_bytes(*tensor) == 0) return;
    const void* const first = kit::first_element(*tensor);
    const uint64_t bytes = kit::span_bytes(*tensor);
    ranges.push_back({device, space_of(device, first, bytes), first, bytes, argument});
  };
  for (uint32_t i = 0; i < op.input_count; ++i) add(op.inputs[i], "an input");
  for (uint32_t o = 0; o < op.output_count; ++o) add(op.outputs[o], "an output");
  return ranges;
}

// Returns whether |a| and |b| share bytes without beginning at the same address.
bool overlap_in_part(const keel_tensor& a, const keel_tensor& b) {
  // Elements of tensors with gaps may miss each other.
  if (!kit::is_contiguous(a) || !kit::is_contiguous(b)) return false;
  const auto first = reinterpret_cast<uintptr_t>(kit::first_element(a));
  const auto second = reinterpret_cast<uintptr_t>(kit::first_element(b));
  const uint64_t first_bytes = kit::span_bytes(a);
  const uint64_t second_bytes = kit::span_bytes(b);
  if (first_bytes == 0 || second_bytes == 0 || first == second) return false;
  return first < second ? second - first < first_bytes : first - second < second_bytes;
}

bool check_overlaps(Call& call, const keel_op_call& op) {
  for (uint32_t o = 0; o < op.output_count; ++o) {
    for (uint32_t i = 0; i < op.input_count; ++i) {
      if (op.inputs[i] != nullptr && !call.check(!overlap_in_part(*op.outputs[o], *op.inputs[i]),
                                                 "output {} overlaps a part of input {}", o, i)) {
        return false;
      }
    }
    for (uint32_t other = 0; other < o; ++other) {
      if (!call.check(!overlap_in_part(*op.outputs[o], *op.outputs[other]),
                      "output {} overlaps a part of output {}", o, other)) {
        return false;
      }
    }
  }
  return true;
}

keel_status run(keel_plugin_stream* handle, const keel_op_call* op, void* workspace) {
  Call call("op.run", handle, op, workspace);
  Enqueue enqueue(call, handle);
  if (!enqueue.ok() || !check_call(call, op)) return call.refused();
  CheckedDevice& device = enqueue.device();
  std::vector<Range> ranges = ranges_of(device, *op);
  for (const Range& range : ranges) {
    if (!call.check_range(range)) return call.refused();
  }
  if (!check_overlaps(call, *op)) return call.refused();
  keel_op_support support = {};
  const keel_status promised = ask(call, device, op, &support);
  if (promised == KEEL_OK) {
    if (!call.check(support.level != KEEL_OP_NONE,
                    "the plugin has no kernel for this call of op {}", op->op)) {
      return call.refused();
    }
    if (support.workspace_bytes != 0) {
      ranges.push_back({device, Space::kDevice, workspace, support.workspace_bytes, "workspace"});
      if (!call.check_range(ranges.back())) return call.refused();
    }
  }
  const keel_status code = call.answer(device.real().op->run(enqueue.native(), op, workspace));
  if (code == KEEL_OK) enqueue.done(ranges);
  if ((code == KEEL_UNSUPPORTED || code == KEEL_INVALID_ARGUMENT) && promised == KEEL_OK) {
    call.lie("the plugin promised to run this call of op {} and returned {}", op->op,
             status_name(code));
  }
  return code;
}

}  // namespace

keel_op_table checked_op_table(const keel_op_table* real) {
  keel_op_table table = {};
  table.header = kit::header<keel_op_table>(KEEL_STRUCT_OP_TABLE);
  KEEL_CHECKED_SLOT(keel_op_table, query, query)
  KEEL_CHECKED_SLOT(keel_op_table, run, run)
  return table;
}

}  // namespace keel::validation
