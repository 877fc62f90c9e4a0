// SPDX-License-Identifier: Apache-2.0
// Operators on elements, and matrix products: float64, rounded once to the output's type.
#include <algorithm>
#include <cmath>
#include <keel/float_types.hpp>
#include <utility>

#include "emulator/shims/aclnn/executor.h"

namespace keel::emulator::aclnn {
namespace {

// Whether |out| has the shape to which |a| and |b| broadcast each other, and no larger one.
bool is_broadcast_of(const Dims& a, const Dims& b, const Dims& out) {
  const auto reaches = [&](const Dims& from, size_t axis) {
    const size_t skipped = out.size() - from.size();
    return axis >= skipped && from[axis - skipped] == out[axis];
  };
  if (!broadcasts(a, out) || !broadcasts(b, out)) return false;
  for (size_t axis = 0; axis < out.size(); ++axis) {
    if (!reaches(a, axis) && !reaches(b, axis)) return false;
  }
  return true;
}

// Prepares out[i] = function(a[i], b[i]), with both inputs broadcast to the output.
template <typename Function>
aclnnStatus prepare_binary(const char* name, const aclTensor* a, const aclTensor* b,
                           const aclTensor* out, Function function, uint64_t* workspace_size,
                           aclOpExecutor** executor) {
  if (a == nullptr || b == nullptr || out == nullptr) return kNullPointer;
  const Dims& dims = tensor_of(name, out).dims;
  if (!is_broadcast_of(tensor_of(name, a).dims, tensor_of(name, b).dims, dims)) {
    return kBadParameter;
  }
  return prepare(
      name, {a, b, out}, 0,
      [function](std::vector<Operand>& operands) {
        const Dims& all = operands[2].tensor().dims;
        std::vector<double> values = operands[0].read(all);
        const std::vector<double> others = operands[1].read(all);
        for (size_t i = 0; i < values.size(); ++i) values[i] = function(values[i], others[i]);
        operands[2].write(values);
        return Status();
      },
      workspace_size, executor);
}

template <typename Function>
aclnnStatus prepare_unary(const char* name, const aclTensor* x, const aclTensor* out,
                          Function function, uint64_t* workspace_size, aclOpExecutor** executor) {
  if (x == nullptr || out == nullptr) return kNullPointer;
  if (tensor_of(name, x).dims != tensor_of(name, out).dims) return kBadParameter;
  return prepare(
      name, {x, out}, 0,
      [function](std::vector<Operand>& operands) {
        std::vector<double> values = operands[0].read();
        for (double& value : values) value = function(value);
        operands[1].write(values);
        return Status();
      },
      workspace_size, executor);
}

// |value| as the library takes it beside a tensor of |type|: a float16 tensor makes it float16, a
// bfloat16 one float32.
double in_type(double value, aclDataType type) {
  if (type == ACL_FLOAT16) return to_float(to_float16(static_cast<float>(value)));
  return value;
}

// A NULL passes: the preparation that follows finds it.
bool is_of_booleans(const char* name, const aclTensor* out) {
  return out == nullptr || tensor_of(name, out).type == ACL_BOOL;
}

double gelu_by_erf(double x) {
  // erfc has no cancellation for a negative x.
  return x == -HUGE_VAL ? 0 : 0.5 * x * std::erfc(-x / std::sqrt(2.0));
}

double gelu_by_tanh(double x) {
  if (x == -HUGE_VAL) return 0;
  constexpr double kRoot = 0.79788456080286535588;  // sqrt(2 / pi)
  // 0.5 (1 + tanh(t)) without the cancellation for a negative t.
  return x / (1 + std::exp(-2 * kRoot * (x + 0.044715 * x * x * x)));
}

// Multiplies |batches| pairs of matrices, [m,k] and [k,n].
std::vector<double> multiply(const std::vector<double>& a, const std::vector<double>& b,
                             int64_t batches, int64_t m, int64_t n, int64_t k) {
  std::vector<double> out(static_cast<size_t>(batches * m * n));
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t row = 0; row < m; ++row) {
      double* const to = out.data() + (batch * m + row) * n;
      for (int64_t l = 0; l < k; ++l) {
        const double factor = a[static_cast<size_t>((batch * m + row) * k + l)];
        const double* const from = b.data() + (batch * k + l) * n;
        for (int64_t column = 0; column < n; ++column) to[column] += factor * from[column];
      }
    }
  }
  return out;
}

// Returns whether [.., m,k] times [.., k,n] gives |out|, all of one rank and one float type, where
// float32 may be the type of the output alone.
bool is_product(const Tensor& a, const Tensor& b, const Tensor& out, size_t rank) {
  if (a.dims.size() != rank || b.dims.size() != rank || out.dims.size() != rank) return false;
  if (a.type != b.type || (out.type != a.type && out.type != ACL_FLOAT) || !is_float(a.type)) {
    return false;
  }
  if (rank == 3) {
    // One of the two may be a batch of one matrix.
    if (a.dims[0] != out.dims[0] && b.dims[0] != out.dims[0]) return false;
    if (a.dims[0] != out.dims[0] && a.dims[0] != 1) return false;
    if (b.dims[0] != out.dims[0] && b.dims[0] != 1) return false;
  }
  return a.dims[rank - 1] == b.dims[rank - 2] && a.dims[rank - 2] == out.dims[rank - 2] &&
         b.dims[rank - 1] == out.dims[rank - 1];
}

std::vector<double> product_of(const Operand& a, const Operand& b) {
  Dims left = a.tensor().dims;
  Dims right = b.tensor().dims;
  const size_t rank = left.size();
  if (rank == 3) left[0] = right[0] = std::max(left[0], right[0]);
  return multiply(a.read(left), b.read(right), rank == 3 ? left[0] : 1, left[rank - 2],
                  right[rank - 1], left[rank - 1]);
}

aclnnStatus prepare_product(const char* name, const aclTensor* a, const aclTensor* b,
                            const aclTensor* out, size_t rank, int8_t cube_math_type,
                            uint64_t* workspace_size, aclOpExecutor** executor) {
  if (a == nullptr || b == nullptr || out == nullptr) return kNullPointer;
  if (cube_math_type != ACLNN_KEEP_DTYPE ||
      !is_product(tensor_of(name, a), tensor_of(name, b), tensor_of(name, out), rank)) {
    return kBadParameter;
  }
  return prepare(
      name, {a, b, out}, kWorkspace,
      [](std::vector<Operand>& operands) {
        operands[2].write(product_of(operands[0], operands[1]));
        return Status();
      },
      workspace_size, executor);
}

}  // namespace
}  // namespace keel::emulator::aclnn

using namespace keel::emulator::aclnn;  // NOLINT: the functions below are C functions
using keel::emulator::Status;

extern "C" {

aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor* self, const aclTensor* other,
                                     const aclScalar* alpha, aclTensor* out,
                                     uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (alpha == nullptr) return kNullPointer;
  return prepare_binary(
      "aclnnAdd", self, other, out,
      [factor = alpha->value](double a, double b) { return a + factor * b; }, workspaceSize,
      executor);
}
KEEL_SECOND_PHASE(Add)

aclnnStatus aclnnAddsGetWorkspaceSize(const aclTensor* self, const aclScalar* other,
                                      const aclScalar* alpha, aclTensor* out,
                                      uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (other == nullptr || alpha == nullptr) return kNullPointer;
  return prepare_unary(
      "aclnnAdds", self, out, [more = alpha->value * other->value](double x) { return x + more; },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(Adds)

aclnnStatus aclnnSubGetWorkspaceSize(const aclTensor* self, const aclTensor* other,
                                     const aclScalar* alpha, aclTensor* out,
                                     uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (alpha == nullptr) return kNullPointer;
  return prepare_binary(
      "aclnnSub", self, other, out,
      [factor = alpha->value](double a, double b) { return a - factor * b; }, workspaceSize,
      executor);
}
KEEL_SECOND_PHASE(Sub)

aclnnStatus aclnnMulsGetWorkspaceSize(const aclTensor* self, const aclScalar* other, aclTensor* out,
                                      uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (self == nullptr || other == nullptr) return kNullPointer;
  return prepare_unary(
      "aclnnMuls", self, out,
      [factor = in_type(other->value, tensor_of("aclnnMuls", self).type)](double x) {
        return x * factor;
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(Muls)

aclnnStatus aclnnMulGetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out,
                                     uint64_t* workspaceSize, aclOpExecutor** executor) {
  return prepare_binary(
      "aclnnMul", self, other, out, [](double a, double b) { return a * b; }, workspaceSize,
      executor);
}
KEEL_SECOND_PHASE(Mul)

aclnnStatus aclnnDivGetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out,
                                     uint64_t* workspaceSize, aclOpExecutor** executor) {
  return prepare_binary(
      "aclnnDiv", self, other, out, [](double a, double b) { return a / b; }, workspaceSize,
      executor);
}
KEEL_SECOND_PHASE(Div)

aclnnStatus aclnnSqrtGetWorkspaceSize(const aclTensor* self, aclTensor* out,
                                      uint64_t* workspaceSize, aclOpExecutor** executor) {
  return prepare_unary(
      "aclnnSqrt", self, out, [](double x) { return std::sqrt(x); }, workspaceSize, executor);
}
KEEL_SECOND_PHASE(Sqrt)

aclnnStatus aclnnExpGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                     aclOpExecutor** executor) {
  return prepare_unary(
      "aclnnExp", self, out, [](double x) { return std::exp(x); }, workspaceSize, executor);
}
KEEL_SECOND_PHASE(Exp)

aclnnStatus aclnnLogGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                     aclOpExecutor** executor) {
  return prepare_unary(
      "aclnnLog", self, out, [](double x) { return std::log(x); }, workspaceSize, executor);
}
KEEL_SECOND_PHASE(Log)

aclnnStatus aclnnTanhGetWorkspaceSize(const aclTensor* self, aclTensor* out,
                                      uint64_t* workspaceSize, aclOpExecutor** executor) {
  return prepare_unary(
      "aclnnTanh", self, out, [](double x) { return std::tanh(x); }, workspaceSize, executor);
}
KEEL_SECOND_PHASE(Tanh)

aclnnStatus aclnnSigmoidGetWorkspaceSize(const aclTensor* self, aclTensor* out,
                                         uint64_t* workspaceSize, aclOpExecutor** executor) {
  return prepare_unary(
      "aclnnSigmoid", self, out, [](double x) { return 1 / (1 + std::exp(-x)); }, workspaceSize,
      executor);
}
KEEL_SECOND_PHASE(Sigmoid)

aclnnStatus aclnnRsqrtGetWorkspaceSize(const aclTensor* self, aclTensor* out,
                                       uint64_t* workspaceSize, aclOpExecutor** executor) {
  return prepare_unary(
      "aclnnRsqrt", self, out, [](double x) { return 1 / std::sqrt(x); }, workspaceSize, executor);
}
KEEL_SECOND_PHASE(Rsqrt)

aclnnStatus aclnnMaximumGetWorkspaceSize(const aclTensor* self, const aclTensor* other,
                                         aclTensor* out, uint64_t* workspaceSize,
                                         aclOpExecutor** executor) {
  return prepare_binary(
      "aclnnMaximum", self, other, out,
      [](double a, double b) { return std::isnan(a) || a > b ? a : b; }, workspaceSize, executor);
}
KEEL_SECOND_PHASE(Maximum)

aclnnStatus aclnnGeScalarGetWorkspaceSize(const aclTensor* self, const aclScalar* other,
                                          aclTensor* out, uint64_t* workspaceSize,
                                          aclOpExecutor** executor) {
  if (other == nullptr) return kNullPointer;
  if (!is_of_booleans("aclnnGeScalar", out)) return kBadParameter;
  return prepare_unary(
      "aclnnGeScalar", self, out, [least = other->value](double x) { return x >= least ? 1 : 0; },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(GeScalar)

aclnnStatus aclnnLeScalarGetWorkspaceSize(const aclTensor* self, const aclScalar* other,
                                          aclTensor* out, uint64_t* workspaceSize,
                                          aclOpExecutor** executor) {
  if (other == nullptr) return kNullPointer;
  if (!is_of_booleans("aclnnLeScalar", out)) return kBadParameter;
  return prepare_unary(
      "aclnnLeScalar", self, out, [most = other->value](double x) { return x <= most ? 1 : 0; },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(LeScalar)

aclnnStatus aclnnLtTensorGetWorkspaceSize(const aclTensor* self, const aclTensor* other,
                                          aclTensor* out, uint64_t* workspaceSize,
                                          aclOpExecutor** executor) {
  if (!is_of_booleans("aclnnLtTensor", out)) return kBadParameter;
  return prepare_binary(
      "aclnnLtTensor", self, other, out, [](double a, double b) { return a < b ? 1 : 0; },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(LtTensor)

aclnnStatus aclnnNeTensorGetWorkspaceSize(const aclTensor* self, const aclTensor* other,
                                          aclTensor* out, uint64_t* workspaceSize,
                                          aclOpExecutor** executor) {
  if (!is_of_booleans("aclnnNeTensor", out)) return kBadParameter;
  return prepare_binary(
      "aclnnNeTensor", self, other, out, [](double a, double b) { return a != b ? 1 : 0; },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(NeTensor)

aclnnStatus aclnnClampGetWorkspaceSize(const aclTensor* self, const aclScalar* clipValueMin,
                                       const aclScalar* clipValueMax, aclTensor* out,
                                       uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (clipValueMin == nullptr || clipValueMax == nullptr) return kNullPointer;
  return prepare_unary(
      "aclnnClamp", self, out,
      [least = clipValueMin->value, most = clipValueMax->value](double x) {
        return std::isnan(x) ? x : std::max(least, std::min(most, x));
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(Clamp)

aclnnStatus aclnnSiluGetWorkspaceSize(const aclTensor* self, aclTensor* out,
                                      uint64_t* workspaceSize, aclOpExecutor** executor) {
  return prepare_unary(
      "aclnnSilu", self, out, [](double x) { return x == -HUGE_VAL ? 0 : x / (1 + std::exp(-x)); },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(Silu)

aclnnStatus aclnnGeluV2GetWorkspaceSize(const aclTensor* x, int64_t approximate, aclTensor* y,
                                        uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (x == nullptr || y == nullptr) return kNullPointer;
  const aclDataType type = tensor_of("aclnnGeluV2", x).type;
  if ((approximate != ACLNN_GELU_ERF && approximate != ACLNN_GELU_TANH) ||
      !is_training_type(type) || tensor_of("aclnnGeluV2", y).type != type) {
    return kBadParameter;
  }
  return prepare_unary("aclnnGeluV2", x, y,
                       approximate == ACLNN_GELU_ERF ? gelu_by_erf : gelu_by_tanh, workspaceSize,
                       executor);
}
KEEL_SECOND_PHASE(GeluV2)

aclnnStatus aclnnCastGetWorkspaceSize(const aclTensor* self, const aclDataType dtype,
                                      aclTensor* out, uint64_t* workspaceSize,
                                      aclOpExecutor** executor) {
  if (self == nullptr || out == nullptr) return kNullPointer;
  if (tensor_of("aclnnCast", out).type != dtype) return kBadParameter;
  return prepare_unary(
      "aclnnCast", self, out, [](double x) { return x; }, workspaceSize, executor);
}
KEEL_SECOND_PHASE(Cast)

aclnnStatus aclnnMatmulGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2,
                                        aclTensor* out, int8_t cubeMathType,
                                        uint64_t* workspaceSize, aclOpExecutor** executor) {
  return prepare_product("aclnnMatmul", self, mat2, out, 2, cubeMathType, workspaceSize, executor);
}
KEEL_SECOND_PHASE(Matmul)

// One extent of the weights may not be 1.
aclnnStatus aclnnMatmulWeightNzGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2,
                                                aclTensor* out, int8_t cubeMathType,
                                                uint64_t* workspaceSize, aclOpExecutor** executor) {
  const char* const name = "aclnnMatmulWeightNz";
  if (self == nullptr || mat2 == nullptr || out == nullptr) return kNullPointer;
  const Tensor& weights = tensor_of(name, mat2);
  if (!weights.is_fractal || weights.dims[0] == 1 || weights.dims[1] == 1) return kBadParameter;
  return prepare_product(name, self, mat2, out, 2, cubeMathType, workspaceSize, executor);
}
KEEL_SECOND_PHASE(MatmulWeightNz)

aclnnStatus aclnnBatchMatMulGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2,
                                             aclTensor* out, int8_t cubeMathType,
                                             uint64_t* workspaceSize, aclOpExecutor** executor) {
  return prepare_product("aclnnBatchMatMul", self, mat2, out, 3, cubeMathType, workspaceSize,
                         executor);
}
KEEL_SECOND_PHASE(BatchMatMul)

aclnnStatus aclnnAddmmGetWorkspaceSize(const aclTensor* self, const aclTensor* mat1,
                                       const aclTensor* mat2, const aclScalar* beta,
                                       const aclScalar* alpha, aclTensor* out, int8_t cubeMathType,
                                       uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (self == nullptr || mat1 == nullptr || mat2 == nullptr || beta == nullptr ||
      alpha == nullptr || out == nullptr) {
    return kNullPointer;
  }
  const Tensor& to = tensor_of("aclnnAddmm", out);
  if (cubeMathType != ACLNN_KEEP_DTYPE ||
      !is_product(tensor_of("aclnnAddmm", mat1), tensor_of("aclnnAddmm", mat2), to, 2) ||
      !broadcasts(tensor_of("aclnnAddmm", self).dims, to.dims)) {
    return kBadParameter;
  }
  return prepare(
      "aclnnAddmm", {self, mat1, mat2, out}, kWorkspace,
      [added = beta->value, factor = alpha->value](std::vector<Operand>& operands) {
        const std::vector<double> before = operands[0].read(operands[3].tensor().dims);
        std::vector<double> values = product_of(operands[1], operands[2]);
        for (size_t i = 0; i < values.size(); ++i) {
          values[i] *= factor;
          if (added != 0) values[i] += added * before[i];
        }
        operands[3].write(values);
        return Status();
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(Addmm)

}  // extern "C"
