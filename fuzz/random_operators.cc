// SPDX-License-Identifier: Apache-2.0
#include "fuzz/random_calls.h"

namespace keel::fuzz {
namespace {

keel_status refuse_call(void*, keel_stream, const keel_op_call*) {
  return KEEL_ABORTED;
}
int accepts_some(void* user, const keel_op_call* call) {
  return call->op == *static_cast<const keel_op_id*>(user) ? 1 : 0;
}

}  // namespace

// ---- operators ------------------------------------------------------------------

// A call with its own tensors. Every pointer in the struct is valid, whatever it points to.
struct RandomCalls::OpCall {
  std::array<keel_tensor, 8> tensors = {};
  std::array<const keel_tensor*, 4> inputs = {};
  std::array<const keel_tensor*, 4> outputs = {};
  std::array<keel_attribute, 8> attributes = {};
  keel_op_call call = {};
};

void RandomCalls::make_call(Lane& target, OpCall* out) {
  keel_op_call& call = out->call;
  call.header = header(sizeof(call), KEEL_STRUCT_OP_CALL);
  call.op = bytes_->one_in(16) ? bytes_->byte() : 1 + bytes_->below(KEEL_OP_COUNT - 1);
  // Most operators take one to three tensors of one shape.
  call.input_count = bytes_->one_in(8) ? bytes_->below(5) : 1 + bytes_->below(2);
  call.output_count = bytes_->one_in(8) ? bytes_->below(3) : 1;
  call.attribute_count = bytes_->below(bytes_->one_in(8) ? 9 : 3);
  const keel_tensor common = tensor(own_memory(target));
  for (size_t i = 0; i < out->tensors.size(); ++i) {
    out->tensors[i] = common;
    if (bytes_->one_in(8)) {
      out->tensors[i] = tensor(own_memory(target));
    } else if (bytes_->one_in(2)) {
      out->tensors[i].data = own_memory(target);
    }
  }
  for (size_t i = 0; i < out->inputs.size(); ++i) {
    out->inputs[i] = bytes_->one_in(32) ? nullptr : &out->tensors[i];
    out->outputs[i] = bytes_->one_in(32) ? nullptr : &out->tensors[4 + i];
  }
  for (auto& attribute : out->attributes) {
    if (bytes_->one_in(2)) {
      attribute.i = static_cast<int64_t>(bytes_->below(3));
    } else {
      attribute.f = static_cast<double>(bytes_->byte()) / 16;
    }
  }
  call.inputs = bytes_->one_in(64) ? nullptr : out->inputs.data();
  call.outputs = bytes_->one_in(64) ? nullptr : out->outputs.data();
  call.attributes = bytes_->one_in(64) ? nullptr : out->attributes.data();
}

void RandomCalls::run_op() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  OpCall call;
  make_call(target, &call);
  check("keel_op_run", keel_op_run({target.stream}, bytes_->one_in(64) ? nullptr : &call.call));
}

void RandomCalls::plan_op() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  OpCall call;
  make_call(target, &call);
  keel_op_plan plan = {};
  plan.header = header(sizeof(plan), KEEL_STRUCT_OP_PLAN);
  check("keel_op_plan_get", keel_op_plan_get(device(), &call.call, &plan));
}

void RandomCalls::explain_op() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  OpCall call;
  make_call(target, &call);
  std::array<char, 256> answer;
  uint64_t room = bytes_->below(static_cast<uint32_t>(answer.size()) + 1);
  check("keel_op_explain", keel_op_explain(device(), &call.call, answer.data(), &room));
  const std::string name = text(8);
  keel_op_id op = KEEL_OP_INVALID;
  check("keel_op_find", keel_op_find(bytes_->one_in(2) ? "matmul" : name.c_str(), &op));
  keel_op_name(bytes_->byte());
}

void RandomCalls::register_kernel() {
  static const std::array<keel_op_id, 2> kOps = {KEEL_OP_AXPY, KEEL_OP_GELU};
  const int index = world_.kernels_.fetch_add(1);
  if (index >= static_cast<int>(kOps.size())) return;
  keel_custom_kernel kernel = {};
  kernel.header = header(sizeof(kernel), KEEL_STRUCT_CUSTOM_KERNEL);
  kernel.op = kOps[static_cast<size_t>(index)];
  kernel.score = 1000;
  kernel.backend = "cpu";
  kernel.name = "refuses everything";
  kernel.user = const_cast<keel_op_id*>(&kOps[static_cast<size_t>(index)]);
  kernel.accepts = accepts_some;
  kernel.run = bytes_->one_in(8) ? nullptr : refuse_call;
  check("keel_op_register", keel_op_register(&kernel));
}

}  // namespace keel::fuzz
