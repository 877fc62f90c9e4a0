// The table itself. Numbers of tolerances: u = 2^-24 is half the distance of float32
// neighbours at 1.
#include <limits>

#include "ops/case_generators.h"
#include "ops/schema.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Kernels may flush float32 subnormals, on each operand: 2^-124 is four times the
// smallest normal.
constexpr double kFlush = 0x1p-124;

// Normalised mean-square errors: the square of the largest relative rounding error,
// 2^-24, 2^-11 and 2^-8, since an output may have one element; for computed float32
// with room for the operations before.
constexpr double kErrorExact = 1e-14;
constexpr double kErrorFloat32 = 1e-10;
constexpr double kErrorFloat16 = 3e-7;
constexpr double kErrorBFloat16 = 1.6e-5;

constexpr Tolerance rounded_once(double error) {
  return {kFlush, 0, 0, error};
}
// A few float32 roundings in a row: 4 u.
constexpr Tolerance few_roundings(double error) {
  return {kFlush, 0x1p-23, 0x1p-22, error};
}
// exp, log, tanh: 64 u. Vulkan asks 3 + 2|x| units of exp; vendors' fast paths have 20 bits.
constexpr Tolerance kTranscendental = {kFlush, 0x1p-22, 0x1p-18, kErrorFloat32};

constexpr keel_dtype kNone = KEEL_DTYPE_INVALID;
constexpr keel_dtype f32 = KEEL_FLOAT32;
constexpr keel_dtype f16 = KEEL_FLOAT16;
constexpr keel_dtype bf16 = KEEL_BFLOAT16;
constexpr keel_dtype i32 = KEEL_INT32;

// ---- fill -----------------------------------------------------------------------

constexpr OutputSpec kFillOutputs[] = {{"y", "any"}};
constexpr AttributeSpec kFillAttributes[] = {
    {"value", AttributeKind::kFloat, 0, -kInfinity, kInfinity,
     "converted to float32 and then to y's dtype; truncated for integers, which it must fit"}};
constexpr DtypeCombination kFillDtypes[] = {
    {{}, {f32}, false, rounded_once(kErrorExact)},
    {{}, {f16}, true, rounded_once(kErrorFloat16)},
    {{}, {bf16}, true, rounded_once(kErrorBFloat16)},
    {{}, {i32}, false, rounded_once(0)},
    {{}, {KEEL_INT64}, true, rounded_once(0)},
    {{}, {KEEL_UINT8}, true, rounded_once(0)},
};

// ---- cast -----------------------------------------------------------------------

constexpr InputSpec kUnaryInputs[] = {{"x", "any"}};
constexpr OutputSpec kCastOutputs[] = {{"y", "as x"}};
constexpr DtypeCombination kCastDtypes[] = {
    {{f32}, {bf16}, false, rounded_once(kErrorBFloat16)},
    {{bf16}, {f32}, false, rounded_once(kErrorExact)},
    {{f32}, {f16}, false, rounded_once(kErrorFloat16)},
    {{f16}, {f32}, false, rounded_once(kErrorExact)},
    {{f16}, {bf16}, true, rounded_once(kErrorBFloat16)},
    {{bf16}, {f16}, true, rounded_once(kErrorFloat16)},
    {{f32}, {i32}, true, rounded_once(kInfinity)},
    {{i32}, {f32}, true, rounded_once(kErrorExact)},
};

// ---- add, scale, axpy -------------------------------------------------------------

constexpr InputSpec kAddInputs[] = {{"a", "any"}, {"b", "as a"}};
constexpr OutputSpec kAddOutputs[] = {{"c", "as a", 0b11}};
constexpr DtypeCombination kAddDtypes[] = {
    {{f32, f32}, {f32}, false, rounded_once(kErrorExact)},
    {{f16, f16}, {f16}, true, rounded_once(kErrorFloat16)},
    {{bf16, bf16}, {bf16}, true, rounded_once(kErrorBFloat16)},
};

constexpr OutputSpec kUnaryInPlaceOutputs[] = {{"y", "as x", 0b1}};
constexpr AttributeSpec kAlphaAttributes[] = {
    {"alpha", AttributeKind::kFloat, 1, -kInfinity, kInfinity, "the factor of x"}};
constexpr DtypeCombination kScaleDtypes[] = {
    {{f32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{f16}, {f16}, true, few_roundings(kErrorFloat16)},
    {{bf16}, {bf16}, true, few_roundings(kErrorBFloat16)},
};

constexpr InputSpec kAxpyInputs[] = {{"x", "any"}, {"y", "as x"}};
constexpr OutputSpec kAxpyOutputs[] = {{"out", "as x", 0b10}};
constexpr DtypeCombination kAxpyDtypes[] = {
    {{f32, f32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, f32}, {f32}, true, few_roundings(kErrorFloat32)},
};

// ---- sum --------------------------------------------------------------------------

constexpr InputSpec kSumInputs[] = {{"x", "[rows,cols]"}};
constexpr OutputSpec kSumOutputs[] = {{"y", "[cols], [rows] or []"}};
constexpr AttributeSpec kSumAttributes[] = {
    {"axis", AttributeKind::kInt, -1, -1, 1,
     "0: over the rows, y is [cols]; 1: over the columns, y is [rows]; -1: over all, y is []"}};
constexpr DtypeCombination kSumDtypes[] = {{{f32}, {f32}, false, few_roundings(kErrorFloat32)}};

// ---- matmul -----------------------------------------------------------------------

constexpr InputSpec kMatmulInputs[] = {
    {"a", "[m,k]; [k,m] if trans_a"}, {"b", "[k,n]; [n,k] if trans_b"}, {"bias", "[n]", true}};
constexpr OutputSpec kMatmulOutputs[] = {{"c", "[m,n]", 0, "beta is not 0"}};
constexpr AttributeSpec kMatmulAttributes[] = {
    {"trans_a", AttributeKind::kInt, 0, 0, 1, "1: a is stored transposed"},
    {"trans_b", AttributeKind::kInt, 0, 0, 1, "1: b is stored transposed"},
    {"alpha", AttributeKind::kFloat, 1, -kInfinity, kInfinity, "the factor of the product"},
    {"beta", AttributeKind::kFloat, 0, -kInfinity, kInfinity,
     "the factor of c's old content, which 0 leaves unread"}};
constexpr DtypeCombination kMatmulDtypes[] = {
    {{f32, f32, f32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, bf16, bf16}, {bf16}, true, few_roundings(kErrorBFloat16)},
    {{bf16, bf16, bf16}, {f32}, true, few_roundings(kErrorFloat32)},
};

// ---- gelu -------------------------------------------------------------------------

constexpr DtypeCombination kGeluDtypes[] = {{{f32}, {f32}, false, kTranscendental}};
constexpr InputSpec kGeluBackwardInputs[] = {{"x", "any"}, {"dy", "as x"}};
constexpr OutputSpec kGeluBackwardOutputs[] = {{"dx", "as x", 0b10}};
constexpr DtypeCombination kGeluBackwardDtypes[] = {{{f32, f32}, {f32}, false, kTranscendental}};

// ---- embedding --------------------------------------------------------------------

constexpr InputSpec kEmbeddingInputs[] = {{"table", "[v,d]"}, {"indices", "[n]"}};
constexpr OutputSpec kEmbeddingOutputs[] = {{"out", "[n,d]"}};
constexpr DtypeCombination kEmbeddingDtypes[] = {
    {{f32, i32}, {f32}, false, rounded_once(kErrorExact)},
    {{bf16, i32}, {bf16}, true, rounded_once(kErrorExact)},
};
constexpr InputSpec kEmbeddingBackwardInputs[] = {{"dout", "[n,d]"}, {"indices", "[n]"}};
constexpr OutputSpec kEmbeddingBackwardOutputs[] = {{"dtable", "[v,d]"}};
constexpr DtypeCombination kEmbeddingBackwardDtypes[] = {
    {{f32, i32}, {f32}, false, few_roundings(kErrorFloat32)}};

// ---- cross entropy ------------------------------------------------------------------

constexpr InputSpec kCrossEntropyInputs[] = {{"logits", "[n,v], v >= 1"}, {"labels", "[n]"}};
constexpr OutputSpec kCrossEntropyOutputs[] = {{"loss", "[n]"}, {"logsumexp", "[n]"}};
constexpr DtypeCombination kCrossEntropyDtypes[] = {
    {{f32, i32}, {f32, f32}, false, kTranscendental}};
constexpr InputSpec kCrossEntropyBackwardInputs[] = {
    {"logits", "[n,v]"}, {"labels", "[n]"}, {"logsumexp", "[n]"}};
constexpr OutputSpec kCrossEntropyBackwardOutputs[] = {{"dlogits", "[n,v]", 0b1}};
constexpr AttributeSpec kCrossEntropyBackwardAttributes[] = {
    {"scale", AttributeKind::kFloat, 1, -kInfinity, kInfinity,
     "the gradient of each row's loss: 1/n for a mean"}};
constexpr DtypeCombination kCrossEntropyBackwardDtypes[] = {
    {{f32, i32, f32}, {f32}, false, kTranscendental}};

// ---- adamw ------------------------------------------------------------------------

constexpr InputSpec kAdamwInputs[] = {{"p", "any"}, {"g", "as p"}, {"m", "as p"}, {"v", "as p"}};
constexpr OutputSpec kAdamwOutputs[] = {
    {"p_out", "as p", 0b0001}, {"m_out", "as p", 0b0100}, {"v_out", "as p", 0b1000}};
constexpr AttributeSpec kAdamwAttributes[] = {
    {"lr", AttributeKind::kFloat, 1e-3, 0, 1e30, "learning rate"},
    {"beta1", AttributeKind::kFloat, 0.9, 0, 1 - 0x1p-53, "decay of m"},
    {"beta2", AttributeKind::kFloat, 0.999, 0, 1 - 0x1p-53, "decay of v"},
    {"eps", AttributeKind::kFloat, 1e-8, 0, 1e30, "added to the root of v"},
    {"weight_decay", AttributeKind::kFloat, 0.01, 0, 1e30, "decoupled from the gradient"},
    {"step", AttributeKind::kInt, 1, 1, 0x1p53, "t, counted from 1"},
    {"grad_scale", AttributeKind::kFloat, 1, -kInfinity, kInfinity, "multiplies g first"}};
constexpr DtypeCombination kAdamwDtypes[] = {
    {{f32, f32, f32, f32}, {f32, f32, f32}, false, {kFlush, 0x1p-22, 0x1p-20, kErrorFloat32}}};

// ---- rows ---------------------------------------------------------------------------

constexpr Schema kSchemas[] = {
    {KEEL_OP_FILL,
     "fill",
     "y = value",
     {},
     kFillOutputs,
     kFillAttributes,
     kFillDtypes,
     kNone,
     check_fill,
     fill_cases},
    {KEEL_OP_CAST,
     "cast",
     "y = x in another dtype: to the nearest, ties to even; overflow of a float type gives "
     "infinity. To int32 it truncates, and is unspecified for NaN and beyond int32's range",
     kUnaryInputs,
     kCastOutputs,
     {},
     kCastDtypes,
     kNone,
     check_elementwise,
     cast_cases},
    {KEEL_OP_ADD,
     "add",
     "c = a + b, computed in float32 and rounded once",
     kAddInputs,
     kAddOutputs,
     {},
     kAddDtypes,
     kNone,
     check_elementwise,
     add_cases},
    {KEEL_OP_SCALE, "scale", "y = alpha * x", kUnaryInputs, kUnaryInPlaceOutputs, kAlphaAttributes,
     kScaleDtypes, kNone, check_elementwise, scale_cases},
    {KEEL_OP_AXPY, "axpy", "out = alpha * x + y", kAxpyInputs, kAxpyOutputs, kAlphaAttributes,
     kAxpyDtypes, kNone, check_elementwise, axpy_cases},
    {KEEL_OP_SUM, "sum", "y = the sum of x along an axis, in an order that is fixed for a shape",
     kSumInputs, kSumOutputs, kSumAttributes, kSumDtypes, f32, check_sum, sum_cases},
    {KEEL_OP_MATMUL, "matmul",
     "c = alpha * op(a) op(b) + beta * c + bias, where op transposes what is stored transposed; "
     "bias is added to every row",
     kMatmulInputs, kMatmulOutputs, kMatmulAttributes, kMatmulDtypes, f32, check_matmul,
     matmul_cases},
    {KEEL_OP_GELU,
     "gelu",
     "y = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
     kUnaryInputs,
     kUnaryInPlaceOutputs,
     {},
     kGeluDtypes,
     kNone,
     check_elementwise,
     gelu_cases},
    {KEEL_OP_GELU_BACKWARD,
     "gelu_backward",
     "dx = dy * gelu'(x)",
     kGeluBackwardInputs,
     kGeluBackwardOutputs,
     {},
     kGeluBackwardDtypes,
     kNone,
     check_elementwise,
     gelu_backward_cases},
    {KEEL_OP_EMBEDDING,
     "embedding",
     "out[i] = table[indices[i]], bit for bit; an index outside [0,v) gives a row of zeroes",
     kEmbeddingInputs,
     kEmbeddingOutputs,
     {},
     kEmbeddingDtypes,
     kNone,
     check_embedding,
     embedding_cases},
    {KEEL_OP_EMBEDDING_BACKWARD,
     "embedding_backward",
     "dtable[j] = the sum of dout[i] over all i with indices[i] == j, in the order of i; every "
     "row is written, indices outside [0,v) add to none",
     kEmbeddingBackwardInputs,
     kEmbeddingBackwardOutputs,
     {},
     kEmbeddingBackwardDtypes,
     f32,
     check_embedding_backward,
     embedding_backward_cases},
    {KEEL_OP_CROSS_ENTROPY,
     "cross_entropy",
     "logsumexp[i] = log sum_j exp(logits[i,j]); loss[i] = logsumexp[i] - logits[i,labels[i]], 0 "
     "for a label outside [0,v), which marks a row to ignore",
     kCrossEntropyInputs,
     kCrossEntropyOutputs,
     {},
     kCrossEntropyDtypes,
     f32,
     check_cross_entropy,
     cross_entropy_cases},
    {KEEL_OP_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward",
     "dlogits[i,j] = scale * (exp(logits[i,j] - logsumexp[i]) - (j == labels[i])); rows to "
     "ignore give 0",
     kCrossEntropyBackwardInputs, kCrossEntropyBackwardOutputs, kCrossEntropyBackwardAttributes,
     kCrossEntropyBackwardDtypes, kNone, check_cross_entropy_backward,
     cross_entropy_backward_cases},
    {KEEL_OP_ADAMW, "adamw",
     "g' = grad_scale * g; m_out = beta1 m + (1-beta1) g'; v_out = beta2 v + (1-beta2) g'^2; "
     "p_out = p - lr (m_out/(1-beta1^t) / (sqrt(v_out/(1-beta2^t)) + eps) + weight_decay p). "
     "1-beta and 1-beta^t are formed in float64 and then rounded: in float32 1-0.999 has lost "
     "10 bits",
     kAdamwInputs, kAdamwOutputs, kAdamwAttributes, kAdamwDtypes, kNone, check_elementwise,
     adamw_cases},
};
static_assert(std::size(kSchemas) == KEEL_OP_COUNT - 1);

}  // namespace

std::span<const Schema> schemas() {
  return kSchemas;
}

const Schema* find_schema(keel_op_id op) {
  // Row i is operator i + 1: schema_test holds it.
  return op - 1 < std::size(kSchemas) ? &kSchemas[op - 1] : nullptr;
}

const Schema* find_schema(std::string_view name) {
  for (const Schema& schema : kSchemas) {
    if (schema.name == name) return &schema;
  }
  return nullptr;
}

}  // namespace keel::ops
