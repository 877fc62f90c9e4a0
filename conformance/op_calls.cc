// SPDX-License-Identifier: Apache-2.0
#include "conformance/op_calls.h"

#include <bit>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <utility>

namespace keel::conformance {

OpCall::OpCall(keel_op_id op, std::vector<keel_tensor> inputs, const keel_tensor& output,
               std::vector<keel_attribute> attributes)
    : inputs_(std::move(inputs)), output_(output), attributes_(std::move(attributes)) {
  for (const keel_tensor& input : inputs_) {
    input_pointers_.push_back(input.dtype == KEEL_DTYPE_INVALID ? nullptr : &input);
  }
  call_.op = op;
  call_.input_count = static_cast<uint32_t>(inputs_.size());
  call_.output_count = 1;
  call_.attribute_count = static_cast<uint32_t>(attributes_.size());
  call_.inputs = input_pointers_.data();
  call_.outputs = &output_pointer_;
  call_.attributes = attributes_.data();
}

void OpCall::spoil() {
  const auto overwrite = [](auto* value) { std::memset(value, 0x11, sizeof(*value)); };
  for (keel_tensor& tensor : inputs_) overwrite(&tensor);
  overwrite(&output_);
  for (keel_attribute& attribute : attributes_) overwrite(&attribute);
  for (const keel_tensor*& pointer : input_pointers_) pointer = &output_;
  call_ = {};
}

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
  const OpCall add(KEEL_OP_ADD, {sum, one}, sum);
  for (uint32_t round = 0; round < rounds; ++round) {
    must(keel_op_run(stream_.get(), add.get()), "keel_op_run of add", where);
  }
}

uint32_t AddChain::word(uint32_t rounds) {
  return std::bit_cast<uint32_t>(static_cast<float>(rounds));
}

}  // namespace keel::conformance
