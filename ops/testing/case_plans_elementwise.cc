// SPDX-License-Identifier: Apache-2.0
// Plans of operators that compute each element, or pair of elements, independently.
#include <limits>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_plans.h"

namespace keel::ops {
namespace {

using D = Distribution;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

CaseTensor scalar(D distribution) {
  return dense(KEEL_FLOAT32, {}, distribution);
}

PlannedTensors dropout_tensors(const PlannedCall& call) {
  PlannedTensors tensors = alike(call.extents, {D::kNormal, D::kNormal, D::kNormal});
  tensors.inputs[1] = dense(KEEL_FLOAT32, {call.extents.back()});
  return tensors;
}

PlannedTensors scaled_tensors(const PlannedCall& call) {
  PlannedTensors tensors = alike(call.extents, {D::kLogits, D::kPositive}, 2);
  tensors.inputs[1] = scalar(D::kPowerOfTwo);
  tensors.outputs[1] = scalar(D::kNaN);
  return tensors;
}

PlannedTensors clip_tensors(const PlannedCall& call) {
  PlannedTensors tensors = alike(call.extents, {D::kNormal, D::kPositive});
  tensors.inputs[1] = scalar(D::kPositive);
  return tensors;
}

PlannedTensors squares_tensors(const PlannedCall& call) {
  PlannedTensors tensors = alike(call.extents, {D::kNormal, D::kPositive}, 2);
  tensors.inputs[1] = scalar(D::kPositive);
  tensors.outputs.assign(2, scalar(D::kNaN));
  return tensors;
}

PlannedTensors swiglu_tensors(const PlannedCall& call) {
  const Extents wide = {call.extents[0], 2 * call.extents[1]};
  PlannedTensors tensors = alike(call.extents, {D::kNormal});
  tensors.inputs[0] = dense(KEEL_FLOAT32, wide);
  return tensors;
}

PlannedTensors swiglu_backward_tensors(const PlannedCall& call) {
  const Extents wide = {call.extents[0], 2 * call.extents[1]};
  PlannedTensors tensors = alike(wide, {D::kNormal, D::kNormal});
  tensors.inputs[1] = dense(KEEL_FLOAT32, call.extents);
  return tensors;
}

PlannedTensors bias_gelu_tensors(const PlannedCall& call) {
  PlannedTensors tensors = alike(call.extents, {D::kNormal, D::kNormal});
  tensors.inputs[1] = dense(KEEL_FLOAT32, {call.extents[1]});
  return tensors;
}

PlannedTensors bias_gelu_backward_tensors(const PlannedCall& call) {
  PlannedTensors tensors = alike(call.extents, {D::kNormal, D::kNormal, D::kNormal});
  tensors.inputs[1] = dense(KEEL_FLOAT32, {call.extents[1]});
  return tensors;
}

// Extents: tokens, heads, width, positions. Some positions lie outside the tables.
PlannedTensors rope_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  const Extents table = {e[3], e[2] / 2};
  PlannedTensors tensors = alike({e[0], e[1], e[2]}, {D::kNormal});
  tensors.inputs.push_back(dense(KEEL_FLOAT32, table, D::kUniform));
  tensors.inputs.push_back(dense(KEEL_FLOAT32, table, D::kUniform));
  tensors.inputs.push_back(dense(KEEL_INT32, {e[0]}, D::kIndices, e[3] + 2));
  tensors.inputs.back().base = -1;
  return tensors;
}

constexpr double k2To32 = 0x1p32;

}  // namespace

std::vector<CasePlan> elementwise_plans() {
  return {
      {KEEL_OP_FILL,
       {matrices()},
       {{0, 3, 200.75}},
       [](const PlannedCall& c) { return alike(c.extents, {}); }},
      {KEEL_OP_CAST,
       {matrices()},
       {},
       [](const PlannedCall& c) { return alike(c.extents, {D::kLogits}); }},
      {KEEL_OP_ADD,
       {matrices()},
       {},
       [](const PlannedCall& c) {
         return alike(c.extents, {D::kNormal, D::kNormal});
       }},
      {KEEL_OP_SCALE,
       {matrices()},
       {{1, -1.7, 0x1p-10}},
       [](const PlannedCall& c) { return alike(c.extents, {D::kNormal}); }},
      {KEEL_OP_AXPY,
       {matrices()},
       {{1, 0.3, -2, 0}},
       [](const PlannedCall& c) {
         return alike(c.extents, {D::kNormal, D::kNormal});
       }},
      {KEEL_OP_GELU,
       {matrices()},
       {{0, 1}},
       [](const PlannedCall& c) { return alike(c.extents, {D::kLogits}); }},
      {KEEL_OP_GELU_BACKWARD,
       {matrices()},
       {{0, 1}},
       [](const PlannedCall& c) {
         return alike(c.extents, {D::kNormal, D::kNormal});
       }},
      // Infinite bounds are the default.
      {KEEL_OP_CLAMP,
       {matrices()},
       {{-kInfinity, -0.5, 0.25}, {kInfinity, 0.75, -1}},
       [](const PlannedCall& c) { return alike(c.extents, {D::kNormal}); }},
      {KEEL_OP_CLAMP_BACKWARD,
       {matrices()},
       {{-kInfinity, -0.5, 0.25}, {kInfinity, 0.75, -1}},
       [](const PlannedCall& c) {
         return alike(c.extents, {D::kNormal, D::kNormal});
       }},
      // lr, beta1, beta2, eps, weight_decay, step, grad_scale
      {KEEL_OP_ADAMW,
       {matrices()},
       {{0.001, 0.5, 0},
        {0.9, 0, 0.5},
        {0.999, 0, 0.9},
        {1e-8, 0.1, 0},
        {0.01, 0, 0.5},
        {1, 2, 1000, 65537, k2To32 + 3, 0x1p53},
        {1, 0x1p-10, -2}},
       [](const PlannedCall& c) {
         return alike(c.extents, {D::kNormal, D::kNormal, D::kUniform, D::kPositive}, 3);
       }},
      // p, seed, offset
      {KEEL_OP_DROPOUT_ADD,
       {matrices()},
       {{0.1, 0, 0.5, 0.9}, {0, 12345, k2To32 * 9 + 7, -2}, {0, 7, k2To32 - 2, k2To32 * 256}},
       dropout_tensors},
      {KEEL_OP_DROPOUT_BACKWARD,
       {matrices()},
       {{0.1, 0, 0.5, 0.9}, {0, 12345, k2To32 * 9 + 7, -2}, {0, 7, k2To32 - 2, k2To32 * 256}},
       [](const PlannedCall& c) { return alike(c.extents, {D::kNormal}); }},
      {KEEL_OP_CAST_SCALED, {matrices()}, {}, scaled_tensors, {}, true},
      {KEEL_OP_SUM_OF_SQUARES, {matrices()}, {}, squares_tensors},
      {KEEL_OP_CLIP, {matrices()}, {{1, 0.05, 0, 1e30}}, clip_tensors},
      {KEEL_OP_SWIGLU, {matrices()}, {}, swiglu_tensors},
      {KEEL_OP_SWIGLU_BACKWARD, {matrices()}, {}, swiglu_backward_tensors},
      {KEEL_OP_BIAS_GELU, {matrices()}, {{0, 1}}, bias_gelu_tensors},
      {KEEL_OP_BIAS_GELU_BACKWARD, {matrices()}, {{0, 1}}, bias_gelu_backward_tensors},
      {KEEL_OP_ROPE,
       {{{7, 3, 34, 19},
         {1, 1, 1028, 5},
         {67, 1, 2, 41},
         {3, 2, 258, 65},
         {4, 2, 128, 64},
         {0, 3, 8, 5}}},
       {{0, 1}, {0, 1}},
       rope_tensors},
  };
}

}  // namespace keel::ops
