// SPDX-License-Identifier: Apache-2.0
#include "ops/call_cache.h"

#include <cstring>
#include <keel/plugin_kit.hpp>
#include <new>

namespace keel::ops {
namespace {

// First word of an input that is omitted.
constexpr uint64_t kNoTensor = UINT64_MAX;
// The words of size, dtype, rank, data and byte_offset of a keel_tensor, in memory order.
constexpr size_t kHeadWords = offsetof(keel_tensor, shape) / sizeof(uint64_t);
static_assert(kHeadWords == 4);

// Returns whether |words| start with the fields of |tensor|. The tensor's rank is used only after
// it matched the remembered rank.
bool matches_tensor(const uint64_t* words, const keel_tensor& tensor) {
  if (words[0] == kNoTensor) return false;
  uint64_t head[kHeadWords];
  std::memcpy(head, &tensor, sizeof(head));
  uint64_t differences = 0;
  for (size_t word = 0; word < kHeadWords; ++word) differences |= head[word] ^ words[word];
  if (differences != 0) return false;
  words += kHeadWords + 1;
  for (uint32_t axis = 0; axis < tensor.rank; ++axis) {
    differences |= static_cast<uint64_t>(tensor.shape[axis]) ^ words[axis];
    differences |= static_cast<uint64_t>(tensor.strides[axis]) ^ words[tensor.rank + axis];
  }
  return differences == 0;
}

}  // namespace

bool OpCallCache::Entry::matches(Device& known_for, const BlockLookupCache& cache,
                                 const keel_op_call& call) const {
  if (generation != OpCallCache::generation() || device != &known_for || op != call.op ||
      input_count != call.input_count || output_count != call.output_count ||
      attribute_count != call.attribute_count) {
    return false;
  }
  const Memory& memory = known_for.memory();
  const uint64_t* word = words.data();
  const auto matches_next = [&](const keel_tensor* tensor) {
    if (tensor == nullptr) return *word++ == kNoTensor;
    if (!matches_tensor(word, *tensor)) return false;
    const uint64_t bytes = word[kHeadWords];
    word += kHeadWords + 1 + 2 * tensor->rank;
    return memory.is_known_range(cache, kit::first_element(*tensor), bytes);
  };
  for (uint32_t i = 0; i < input_count; ++i) {
    if (!matches_next(call.inputs[i])) return false;
  }
  for (uint32_t o = 0; o < output_count; ++o) {
    if (!matches_next(call.outputs[o])) return false;
  }
  return attribute_count == 0 ||
         std::memcmp(word, call.attributes, attribute_count * sizeof(keel_attribute)) == 0;
}

void OpCallCache::Entry::set(uint64_t now, Device& known_for, const keel_op_call& call) {
  static_assert(sizeof(keel_attribute) == sizeof(uint64_t));
  generation = 0;
  size_t used = 0;
  const auto add = [&](const keel_tensor* tensor) {
    if (tensor == nullptr) {
      if (used == kWords) return false;
      words[used++] = kNoTensor;
      return true;
    }
    const uint64_t bytes = kit::span_bytes(*tensor);
    const size_t size = kHeadWords + 1 + 2 * tensor->rank;
    if (bytes == 0 || size > kWords - used) return false;
    uint64_t* const to = words.data() + used;
    std::memcpy(to, tensor, kHeadWords * sizeof(uint64_t));
    to[kHeadWords] = bytes;
    std::memcpy(to + kHeadWords + 1, tensor->shape, tensor->rank * sizeof(int64_t));
    std::memcpy(to + kHeadWords + 1 + tensor->rank, tensor->strides,
                tensor->rank * sizeof(int64_t));
    used += size;
    return true;
  };
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (!add(call.inputs[i])) return;
  }
  for (uint32_t o = 0; o < call.output_count; ++o) {
    if (!add(call.outputs[o])) return;
  }
  if (call.attribute_count > kWords - used) return;
  if (call.attribute_count != 0) {
    std::memcpy(words.data() + used, call.attributes,
                call.attribute_count * sizeof(keel_attribute));
  }
  device = &known_for;
  op = call.op;
  input_count = call.input_count;
  output_count = call.output_count;
  attribute_count = call.attribute_count;
  generation = now;
}

void OpCallCache::remember(uint64_t generation, Device& device, const keel_op_call& call) {
  const epoch::EpochRecord* const thread = epoch::own_slot();
  if (thread == nullptr || !can_be_known(call)) return;
  OpCallCache*& calls = of_slot_[slot_of(*thread)];
  if (calls == nullptr) calls = new (std::nothrow) OpCallCache;
  if (calls != nullptr) calls->places_[place_of(call)].set(generation, device, call);
}

}  // namespace keel::ops
