// SPDX-License-Identifier: Apache-2.0
// Rows of the schema table: activations, alone and fused with a gate or a bias.
#include "ops/case_generators.h"
#include "ops/reference_functions.h"
#include "ops/schema_parts.h"
#include "ops/schema_rows.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

// ---- swiglu

constexpr InputSpec kSwigluInputs[] = {{"x", "[n,2d]"}};
constexpr OutputSpec kSwigluOutputs[] = {{"y", "[n,d]"}};
constexpr DtypeCombination kSwigluDtypes[] = {
    {{f32}, {f32}, false, kTranscendental},
    {{bf16}, {bf16}, true, transcendental(kErrorBFloat16)},
    {{f16}, {f16}, true, transcendental(kErrorFloat16)},
};
constexpr InputSpec kSwigluBackwardInputs[] = {{"x", "[n,2d]"}, {"dy", "[n,d]"}};
constexpr OutputSpec kSwigluBackwardOutputs[] = {{"dx", "[n,2d]", 0b01}};
constexpr DtypeCombination kSwigluBackwardDtypes[] = {
    {{f32, f32}, {f32}, false, kTranscendental},
    {{bf16, bf16}, {bf16}, true, transcendental(kErrorBFloat16)},
    {{f16, f16}, {f16}, true, transcendental(kErrorFloat16)},
};

// ---- gelu

constexpr AttributeSpec kGeluAttributes[] = {
    {"form", AttributeKind::kInt, 0, 0, 1,
     "0: gelu(t) = 0.5 t (1 + tanh(sqrt(2/pi) (t + 0.044715 t^3))); 1: 0.5 t (1 + "
     "erf(t/sqrt(2)))"}};
constexpr DtypeCombination kGeluDtypes[] = {
    {{f32}, {f32}, false, kTranscendental},
    {{bf16}, {bf16}, true, transcendental(kErrorBFloat16)},
    {{f16}, {f16}, true, transcendental(kErrorFloat16)},
};
constexpr InputSpec kGeluBackwardInputs[] = {{"x", "any"}, {"dy", "as x"}};
constexpr OutputSpec kGeluBackwardOutputs[] = {{"dx", "as x", 0b10}};
constexpr DtypeCombination kGeluBackwardDtypes[] = {
    {{f32, f32}, {f32}, false, kTranscendental},
    {{bf16, bf16}, {bf16}, true, transcendental(kErrorBFloat16)},
    {{f16, f16}, {f16}, true, transcendental(kErrorFloat16)},
};

// ---- bias_gelu

constexpr InputSpec kBiasGeluInputs[] = {{"x", "[n,d]"}, {"bias", "[d]", true}};
constexpr OutputSpec kBiasGeluOutputs[] = {{"y", "[n,d]", 0b01}};
constexpr DtypeCombination kBiasGeluDtypes[] = {
    {{f32, f32}, {f32}, false, kTranscendental},
    {{bf16, bf16}, {bf16}, true, transcendental(kErrorBFloat16)},
    {{f16, f16}, {f16}, true, transcendental(kErrorFloat16)},
};
constexpr InputSpec kBiasGeluBackwardInputs[] = {
    {"x", "[n,d]"}, {"bias", "[d]", true}, {"dy", "[n,d]"}};
constexpr OutputSpec kBiasGeluBackwardOutputs[] = {{"dx", "[n,d]", 0b101}};
constexpr DtypeCombination kBiasGeluBackwardDtypes[] = {
    {{f32, f32, f32}, {f32}, false, kTranscendental},
    {{bf16, bf16, bf16}, {bf16}, true, transcendental(kErrorBFloat16)},
    {{f16, f16, f16}, {f16}, true, transcendental(kErrorFloat16)},
};

}  // namespace

constinit const Schema kGelu = {KEEL_OP_GELU,         "gelu",          "y = gelu(x)", kUnaryInputs,
                                kUnaryInPlaceOutputs, kGeluAttributes, kGeluDtypes,   kNone,
                                check_elementwise,    gelu_cases,      gelu_reference};
constinit const Schema kGeluBackward = {
    KEEL_OP_GELU_BACKWARD, "gelu_backward",     "dx = dy * gelu'(x)",   kGeluBackwardInputs,
    kGeluBackwardOutputs,  kGeluAttributes,     kGeluBackwardDtypes,    kNone,
    check_elementwise,     gelu_backward_cases, gelu_backward_reference};
constinit const Schema kSwiglu = {
    KEEL_OP_SWIGLU,
    "swiglu",
    "y = silu(gate) * up, silu(t) = t / (1 + exp(-t)); gate and up are the halves of each row of x "
    "= gate | up, as written by one product with both matrices side by side",
    kSwigluInputs,
    kSwigluOutputs,
    {},
    kSwigluDtypes,
    kNone,
    check_swiglu,
    swiglu_cases,
    swiglu_reference};
constinit const Schema kSwigluBackward = {KEEL_OP_SWIGLU_BACKWARD,
                                          "swiglu_backward",
                                          "dx = dy * up * silu'(gate) | dy * silu(gate)",
                                          kSwigluBackwardInputs,
                                          kSwigluBackwardOutputs,
                                          {},
                                          kSwigluBackwardDtypes,
                                          kNone,
                                          check_swiglu_backward,
                                          swiglu_backward_cases,
                                          swiglu_backward_reference};
constinit const Schema kBiasGelu = {
    KEEL_OP_BIAS_GELU,
    "bias_gelu",
    "y = gelu(x + bias); bias is added to every row, and an absent bias counts as 0",
    kBiasGeluInputs,
    kBiasGeluOutputs,
    kGeluAttributes,
    kBiasGeluDtypes,
    kNone,
    check_bias_gelu,
    bias_gelu_cases,
    bias_gelu_reference};
constinit const Schema kBiasGeluBackward = {
    KEEL_OP_BIAS_GELU_BACKWARD,
    "bias_gelu_backward",
    "dx = dy * gelu'(x + bias); the gradient of bias is the sum of dx over the rows",
    kBiasGeluBackwardInputs,
    kBiasGeluBackwardOutputs,
    kGeluAttributes,
    kBiasGeluBackwardDtypes,
    kNone,
    check_bias_gelu_backward,
    bias_gelu_backward_cases,
    bias_gelu_backward_reference};

}  // namespace keel::ops
