// SPDX-License-Identifier: Apache-2.0
// The schema table: operators by number.
#include <algorithm>
#include <iterator>

#include "ops/schema.h"
#include "ops/schema_rows.h"

namespace keel::ops {
namespace {

constexpr const Schema* kSchemas[] = {
    &kFill,
    &kCast,
    &kAdd,
    &kScale,
    &kAxpy,
    &kSum,
    &kMatmul,
    &kGelu,
    &kGeluBackward,
    &kEmbedding,
    &kEmbeddingBackward,
    &kCrossEntropy,
    &kCrossEntropyBackward,
    &kAdamw,
    &kLayerNorm,
    &kLayerNormBackward,
    &kRmsNorm,
    &kRmsNormBackward,
    &kSoftmax,
    &kSoftmaxBackward,
    &kSwiglu,
    &kSwigluBackward,
    &kBiasGelu,
    &kBiasGeluBackward,
    &kRope,
    &kDropoutAdd,
    &kDropoutBackward,
    &kTranspose,
    &kCastScaled,
    &kAttention,
    &kAttentionBackward,
    &kAttentionMerge,
    &kBatchedMatmul,
    &kSumOfSquares,
    &kClip,
    &kCrossEntropyShard,
    &kCrossEntropyShardBackward,
    &kPackWeights,
    &kPackedMatmul,
};
static_assert(std::size(kSchemas) == KEEL_OP_COUNT - 1);

}  // namespace

std::span<const Schema* const> schemas() {
  return kSchemas;
}

const Schema* find_schema(keel_op_id op) {
  // Row i is operator i + 1; schema_test verifies the order.
  return op - 1 < std::size(kSchemas) ? kSchemas[op - 1] : nullptr;
}

const Schema* find_schema(std::string_view name) {
  for (const Schema* schema : kSchemas) {
    if (schema->name == name) return schema;
  }
  return nullptr;
}

bool has_packed(const Schema& schema) {
  const auto is_packed = [](const auto& tensor) { return tensor.packed; };
  return std::ranges::any_of(schema.inputs, is_packed) ||
         std::ranges::any_of(schema.outputs, is_packed);
}

}  // namespace keel::ops
