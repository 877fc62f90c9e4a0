// SPDX-License-Identifier: Apache-2.0
// Rows of the schema table: row normalisations and softmax.
#include "ops/case_generators.h"
#include "ops/reference_functions.h"
#include "ops/schema_parts.h"
#include "ops/schema_rows.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

constexpr keel_dtype u8 = KEEL_UINT8;

constexpr AttributeSpec kEpsAttributes[] = {
    {"eps", AttributeKind::kFloat, 1e-5, 0, kInfinity,
     "added to the variance (layer_norm) or mean square (rms_norm) under the square root"}};

// ---- layer norm

constexpr InputSpec kLayerNormInputs[] = {
    {"x", "[..., d], d >= 1"}, {"gamma", "[d]"}, {"beta", "[d]", true}};
constexpr OutputSpec kLayerNormOutputs[] = {
    {"y", "as x", 0b1}, {"mean", "[...]"}, {"rstd", "[...]"}};
constexpr DtypeCombination kLayerNormDtypes[] = {
    {{f32, f32, f32}, {f32, f32, f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, bf16, bf16}, {bf16, f32, f32}, true, few_roundings(kErrorBFloat16)},
    {{f16, f16, f16}, {f16, f32, f32}, true, few_roundings(kErrorFloat16)},
};
constexpr InputSpec kLayerNormBackwardInputs[] = {{"dy", "[..., d], d >= 1"},
                                                  {"x", "as dy"},
                                                  {"gamma", "[d]"},
                                                  {"mean", "[...]"},
                                                  {"rstd", "[...]"}};
constexpr OutputSpec kLayerNormBackwardOutputs[] = {
    {"dx", "as dy", 0b1}, {"dgamma", "[d]"}, {"dbeta", "[d]"}};
constexpr DtypeCombination kLayerNormBackwardDtypes[] = {
    {{f32, f32, f32, f32, f32}, {f32, f32, f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, bf16, bf16, f32, f32}, {bf16, f32, f32}, true, few_roundings(kErrorBFloat16)},
    {{f16, f16, f16, f32, f32}, {f16, f32, f32}, true, few_roundings(kErrorFloat16)},
};

// ---- rms norm

constexpr InputSpec kRmsNormInputs[] = {{"x", "[..., d], d >= 1"}, {"gamma", "[d]"}};
constexpr OutputSpec kRmsNormOutputs[] = {{"y", "as x", 0b1}, {"rstd", "[...]"}};
constexpr DtypeCombination kRmsNormDtypes[] = {
    {{f32, f32}, {f32, f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, bf16}, {bf16, f32}, true, few_roundings(kErrorBFloat16)},
    {{f16, f16}, {f16, f32}, true, few_roundings(kErrorFloat16)},
};
constexpr InputSpec kRmsNormBackwardInputs[] = {
    {"dy", "[..., d], d >= 1"}, {"x", "as dy"}, {"gamma", "[d]"}, {"rstd", "[...]"}};
constexpr OutputSpec kRmsNormBackwardOutputs[] = {{"dx", "as dy", 0b1}, {"dgamma", "[d]"}};
constexpr DtypeCombination kRmsNormBackwardDtypes[] = {
    {{f32, f32, f32, f32}, {f32, f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, bf16, bf16, f32}, {bf16, f32}, true, few_roundings(kErrorBFloat16)},
    {{f16, f16, f16, f32}, {f16, f32}, true, few_roundings(kErrorFloat16)},
};

// ---- softmax

constexpr InputSpec kSoftmaxInputs[] = {{"x", "[..., m, n]"}, {"mask", "[m,n], or as x", true}};
constexpr OutputSpec kSoftmaxOutputs[] = {{"y", "as x", 0b1}};
constexpr AttributeSpec kSoftmaxAttributes[] = {
    {"scale", AttributeKind::kFloat, 1, -kInfinity, kInfinity, "the factor of x"},
    {"causal", AttributeKind::kInt, 0, 0, 1, "1: row i of m sees the columns j <= i + n - m"}};
constexpr DtypeCombination kSoftmaxDtypes[] = {
    {{f32, u8}, {f32}, false, transcendental(kErrorFloat32)},
    {{bf16, u8}, {bf16}, true, transcendental(kErrorBFloat16)},
    {{f16, u8}, {f16}, true, transcendental(kErrorFloat16)},
};
constexpr InputSpec kSoftmaxBackwardInputs[] = {{"y", "[..., n]"}, {"dy", "as y"}};
constexpr OutputSpec kSoftmaxBackwardOutputs[] = {{"dx", "as y", 0b10}};
constexpr AttributeSpec kSoftmaxBackwardAttributes[] = {
    {"scale", AttributeKind::kFloat, 1, -kInfinity, kInfinity, "the factor of softmax's x"}};
constexpr DtypeCombination kSoftmaxBackwardDtypes[] = {
    {{f32, f32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, bf16}, {bf16}, true, few_roundings(kErrorBFloat16)},
    {{f16, f16}, {f16}, true, few_roundings(kErrorFloat16)},
};

}  // namespace

constinit const Schema kLayerNorm = {
    KEEL_OP_LAYER_NORM,
    "layer_norm",
    "for each row of x: mean and variance v over the row's d elements, rstd = 1 / sqrt(v + eps), y "
    "= (x - mean) * rstd * gamma + beta. x may have any finite size: where squares would leave the "
    "range of float32, the kernel squares scaled elements",
    kLayerNormInputs,
    kLayerNormOutputs,
    kEpsAttributes,
    kLayerNormDtypes,
    f32,
    check_layer_norm,
    layer_norm_cases,
    layer_norm_reference};
constinit const Schema kLayerNormBackward = {
    KEEL_OP_LAYER_NORM_BACKWARD,
    "layer_norm_backward",
    "with xhat = (x - mean) * rstd, g = dy * gamma and <> the mean over a row: dx = rstd * (g - "
    "<g> - xhat * <g * xhat>); dgamma = sum of dy * xhat over all rows, dbeta = sum of dy over all "
    "rows, in an order that is fixed for a shape. Overflow of x - mean or xhat is not avoided by "
    "scaling, and an rstd below 2^-126 (from an x beyond 2^126) may be treated as 0",
    kLayerNormBackwardInputs,
    kLayerNormBackwardOutputs,
    {},
    kLayerNormBackwardDtypes,
    f32,
    check_layer_norm_backward,
    layer_norm_backward_cases,
    layer_norm_backward_reference};
constinit const Schema kRmsNorm = {KEEL_OP_RMS_NORM,
                                   "rms_norm",
                                   "for each row of x: rstd = 1 / sqrt(mean of x^2 + eps), y = x * "
                                   "rstd * gamma. x may have any finite size, as in layer_norm",
                                   kRmsNormInputs,
                                   kRmsNormOutputs,
                                   kEpsAttributes,
                                   kRmsNormDtypes,
                                   f32,
                                   check_rms_norm,
                                   rms_norm_cases,
                                   rms_norm_reference};
constinit const Schema kRmsNormBackward = {
    KEEL_OP_RMS_NORM_BACKWARD,
    "rms_norm_backward",
    "with xhat = x * rstd, g = dy * gamma and <> the mean over a row: dx = rstd * (g - xhat * <g * "
    "xhat>); dgamma = sum of dy * xhat over all rows, in an order that is fixed for a shape. The "
    "limits of xhat and rstd are as in layer_norm_backward",
    kRmsNormBackwardInputs,
    kRmsNormBackwardOutputs,
    {},
    kRmsNormBackwardDtypes,
    f32,
    check_rms_norm_backward,
    rms_norm_backward_cases,
    rms_norm_backward_reference};
constinit const Schema kSoftmax = {
    KEEL_OP_SOFTMAX,
    "softmax",
    "y = exp(scale * x) / sum of exp(scale * x) over the visible elements of a row. y is 0 where "
    "mask is not 0, where causal hides the column and where scale * x is minus infinity; a row "
    "without visible elements gives zeroes",
    kSoftmaxInputs,
    kSoftmaxOutputs,
    kSoftmaxAttributes,
    kSoftmaxDtypes,
    f32,
    check_softmax,
    softmax_cases,
    softmax_reference};
constinit const Schema kSoftmaxBackward = {KEEL_OP_SOFTMAX_BACKWARD,
                                           "softmax_backward",
                                           "dx = scale * y * (dy - sum of y * dy over the row)",
                                           kSoftmaxBackwardInputs,
                                           kSoftmaxBackwardOutputs,
                                           kSoftmaxBackwardAttributes,
                                           kSoftmaxBackwardDtypes,
                                           f32,
                                           check_softmax_backward,
                                           softmax_backward_cases,
                                           softmax_backward_reference};

}  // namespace keel::ops
