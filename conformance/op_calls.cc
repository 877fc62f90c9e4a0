// SPDX-License-Identifier: Apache-2.0
#include "conformance/op_calls.h"

#include <bit>
#include <keel/plugin_kit.hpp>

namespace keel::conformance {

AddChain::AddChain(const Stream& stream, int64_t elements)
    : stream_(stream),
      elements_(elements),
      sum_(stream.device(), KEEL_MEMORY_DEVICE, static_cast<uint64_t>(elements) * sizeof(float)),
      one_(stream.device(), KEEL_MEMORY_DEVICE, sum_.size()) {
  stream_.fill(sum_.data(), word(0), sum_.size());
  stream_.fill(one_.data(), word(1), one_.size());
}

void AddChain::enqueue(uint32_t rounds, Where where) const {
  const keel_tensor sum = kit::make_tensor(sum_.data(), KEEL_FLOAT32, {elements_});
  const keel_tensor one = kit::make_tensor(one_.data(), KEEL_FLOAT32, {elements_});
  const keel_tensor* inputs[] = {&sum, &one};
  const keel_tensor* outputs[] = {&sum};
  keel_op_call call = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
  call.op = KEEL_OP_ADD;
  call.input_count = 2;
  call.output_count = 1;
  call.inputs = inputs;
  call.outputs = outputs;
  for (uint32_t round = 0; round < rounds; ++round) {
    must(keel_op_run(stream_.get(), &call), "keel_op_run of add", where);
  }
}

uint32_t AddChain::word(uint32_t rounds) {
  return std::bit_cast<uint32_t>(static_cast<float>(rounds));
}

}  // namespace keel::conformance
