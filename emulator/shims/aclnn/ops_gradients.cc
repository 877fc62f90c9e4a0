// SPDX-License-Identifier: Apache-2.0
// Gradients of GELU, SwiGLU, softmax, norms and embedding: float64, rounded once to the output's
// type.
#include <cmath>
#include <string_view>
#include <utility>

#include "emulator/shims/aclnn/executor.h"

namespace keel::emulator::aclnn {
namespace {

// ---- GELU and SwiGLU ---------------------------------------------------------------------------

// The terms of both derivatives tend to 0 times infinity far from 0; their limits are 0 and 1.
double gelu_derivative_by_erf(double x) {
  if (std::isinf(x)) return x > 0 ? 1 : 0;
  constexpr double kDensity = 0.39894228040143267794;  // 1 / sqrt(2 pi)
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * kDensity * std::exp(-0.5 * x * x);
}

double gelu_derivative_by_tanh(double x) {
  if (std::isinf(x)) return x > 0 ? 1 : 0;
  constexpr double kRoot = 0.79788456080286535588;  // sqrt(2 / pi)
  constexpr double kCubic = 0.044715;
  // 0.5 (1 + tanh(t)) is the sigmoid of 2 t.
  const double exponent = 2 * kRoot * (x + kCubic * x * x * x);
  const double sigmoid = 1 / (1 + std::exp(-exponent));
  const double falling = std::exp(-std::abs(exponent));
  const double slope = falling / ((1 + falling) * (1 + falling));  // sigmoid (1 - sigmoid)
  return sigmoid + x * slope * 2 * kRoot * (1 + 3 * kCubic * x * x);
}

Status swiglu_grad(std::vector<Operand>& operands) {
  const auto columns = static_cast<size_t>(operands[0].tensor().dims.back());
  const std::vector<double> dy = operands[0].read();
  std::vector<double> values = operands[1].read();
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t at = i / columns * 2 * columns + i % columns;
    const double gate = values[at];
    const double sigmoid = 1 / (1 + std::exp(-gate));
    double silu = gate * sigmoid;
    double derivative = sigmoid + silu * (1 - sigmoid);
    if (std::isinf(gate)) {  // the limits; a term is 0 times infinity
      silu = gate > 0 ? gate : 0;
      derivative = gate > 0 ? 1 : 0;
    }
    values[at] = dy[i] * derivative * values[at + columns];
    values[at + columns] = dy[i] * silu;
  }
  operands[2].write(values);
  return {};
}

// ---- softmax -----------------------------------------------------------------------------------

Status softmax_backward(std::vector<Operand>& operands) {
  const auto columns = static_cast<size_t>(operands[0].tensor().dims.back());
  const std::vector<double> dy = operands[0].read();
  const std::vector<double> y = operands[1].read();
  std::vector<double> dx(dy.size());
  for (size_t begin = 0; begin < dy.size(); begin += columns) {
    double sum = 0;
    for (size_t i = begin; i < begin + columns; ++i) sum += dy[i] * y[i];
    for (size_t i = begin; i < begin + columns; ++i) dx[i] = (dy[i] - sum) * y[i];
  }
  operands[2].write(dx);
  return {};
}

// ---- norms -------------------------------------------------------------------------------------

// The gradients of (x - mean) * rstd * gamma + beta over rows; of RmsNorm with means of 0 and
// |is_centred| false: the mean does not depend on x then.
struct NormGradients {
  std::vector<double> dx;
  std::vector<double> dgamma;
  std::vector<double> dbeta;
};

NormGradients differentiate_norm(const std::vector<double>& dy, const std::vector<double>& x,
                                 const std::vector<double>& means, const std::vector<double>& rstd,
                                 const std::vector<double>& gamma, bool is_centred) {
  const size_t columns = gamma.size();
  const auto extent = static_cast<double>(columns);
  NormGradients gradients = {std::vector<double>(x.size()), std::vector<double>(columns),
                             std::vector<double>(columns)};
  for (size_t row = 0; row < rstd.size(); ++row) {
    const size_t begin = row * columns;
    double sum = 0;
    double product = 0;
    for (size_t i = 0; i < columns; ++i) {
      const double normal = (x[begin + i] - means[row]) * rstd[row];
      sum += dy[begin + i] * gamma[i];
      product += dy[begin + i] * gamma[i] * normal;
      gradients.dgamma[i] += dy[begin + i] * normal;
      gradients.dbeta[i] += dy[begin + i];
    }
    for (size_t i = 0; i < columns; ++i) {
      const double normal = (x[begin + i] - means[row]) * rstd[row];
      const double common = (is_centred ? sum : 0) + normal * product;
      gradients.dx[begin + i] = (dy[begin + i] * gamma[i] - common / extent) * rstd[row];
    }
  }
  return gradients;
}

// Returns whether |type| may be that of the scale of a norm of |x|, or of its means.
bool is_wide_enough(aclDataType type, const Tensor& x) {
  return type == x.type || type == ACL_FLOAT;
}

// |dims| without the last axis.
Dims rows_of(Dims dims) {
  dims.pop_back();
  return dims;
}

// |dims| with an extent of 1 in the place of the last axis.
Dims reduced(Dims dims) {
  dims.back() = 1;
  return dims;
}

// ---- embedding ---------------------------------------------------------------------------------

Status embedding_backward(std::vector<Operand>& operands, int64_t padding) {
  const Dims& table = operands[2].tensor().dims;
  const std::vector<double> dy = operands[0].read();
  const std::vector<double> indices = operands[1].read();
  std::vector<double> sums(static_cast<size_t>(operands[2].tensor().count()));
  const auto columns = static_cast<size_t>(table[1]);
  for (size_t row = 0; row < indices.size(); ++row) {
    const auto to = static_cast<int64_t>(indices[row]);
    if (to < 0 || to >= table[0]) return {Code::kIllegalAddress, "an index outside of the table"};
    if (to == padding) continue;
    double* const sum = sums.data() + static_cast<size_t>(to) * columns;
    for (size_t i = 0; i < columns; ++i) sum[i] += dy[row * columns + i];
  }
  operands[2].write(sums);
  return {};
}

}  // namespace
}  // namespace keel::emulator::aclnn

using namespace keel::emulator::aclnn;  // NOLINT: the functions below are C functions
using keel::emulator::Status;

extern "C" {

// Tensors that broadcast to each other are not emulated.
aclnnStatus aclnnGeluBackwardV2GetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                char* approximate, aclTensor* gradInput,
                                                uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (gradOutput == nullptr || self == nullptr || approximate == nullptr || gradInput == nullptr) {
    return kNullPointer;
  }
  const char* const name = "aclnnGeluBackwardV2";
  const Tensor& dy = tensor_of(name, gradOutput);
  const Tensor& x = tensor_of(name, self);
  const Tensor& dx = tensor_of(name, gradInput);
  const std::string_view form = approximate;
  const aclDataType promoted = dy.type == x.type ? x.type : ACL_FLOAT;
  if ((form != "none" && form != "tanh") || !is_training_type(dy.type) ||
      !is_training_type(x.type) || dx.type != promoted || dy.dims != x.dims || dx.dims != x.dims) {
    return kBadParameter;
  }
  return prepare(
      name, {gradOutput, self, gradInput}, 0,
      [derivative = form == "none" ? gelu_derivative_by_erf
                                   : gelu_derivative_by_tanh](std::vector<Operand>& operands) {
        std::vector<double> values = operands[0].read();
        const std::vector<double> inputs = operands[1].read();
        for (size_t i = 0; i < values.size(); ++i) values[i] *= derivative(inputs[i]);
        operands[2].write(values);
        return Status();
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(GeluBackwardV2)

// Only the last axis is emulated. Only x, of the three tensors, may have gaps.
aclnnStatus aclnnSwiGluGradGetWorkspaceSize(const aclTensor* yGrad, const aclTensor* x, int64_t dim,
                                            const aclTensor* out, uint64_t* workspaceSize,
                                            aclOpExecutor** executor) {
  if (yGrad == nullptr || x == nullptr || out == nullptr) return kNullPointer;
  const Tensor& dy = tensor_of("aclnnSwiGluGrad", yGrad);
  const Tensor& from = tensor_of("aclnnSwiGluGrad", x);
  const Tensor& dx = tensor_of("aclnnSwiGluGrad", out);
  const auto rank = static_cast<int64_t>(from.dims.size());
  const bool fits = rank != 0 && (dim == -1 || dim == rank - 1) && from.count() != 0 &&
                    dy.dims.size() == from.dims.size() && rows_of(dy.dims) == rows_of(from.dims) &&
                    2 * dy.dims.back() == from.dims.back() && dx.dims == from.dims &&
                    is_training_type(from.type) && dy.type == from.type && dx.type == from.type &&
                    is_contiguous(dy) && is_contiguous(dx);
  if (!fits) return kBadParameter;
  return prepare("aclnnSwiGluGrad", {yGrad, x, out}, kWorkspace, swiglu_grad, workspaceSize,
                 executor);
}
KEEL_SECOND_PHASE(SwiGluGrad)

// Only the last axis is emulated.
aclnnStatus aclnnSoftmaxBackwardGetWorkspaceSize(const aclTensor* gradOutput,
                                                 const aclTensor* output, int64_t dim,
                                                 aclTensor* out, uint64_t* workspaceSize,
                                                 aclOpExecutor** executor) {
  if (gradOutput == nullptr || output == nullptr || out == nullptr) return kNullPointer;
  const Tensor& dy = tensor_of("aclnnSoftmaxBackward", gradOutput);
  const Tensor& y = tensor_of("aclnnSoftmaxBackward", output);
  const Tensor& dx = tensor_of("aclnnSoftmaxBackward", out);
  const auto rank = static_cast<int64_t>(dy.dims.size());
  if (rank == 0 || (dim != -1 && dim != rank - 1) || y.dims != dy.dims || dx.dims != dy.dims ||
      !is_training_type(dy.type) || y.type != dy.type || !is_training_type(dx.type)) {
    return kBadParameter;
  }
  return prepare("aclnnSoftmaxBackward", {gradOutput, output, out}, kWorkspace, softmax_backward,
                 workspaceSize, executor);
}
KEEL_SECOND_PHASE(SoftmaxBackward)

// Norms over more than the last axis and calls without an output are not emulated.
aclnnStatus aclnnLayerNormBackwardGetWorkspaceSize(
    const aclTensor* gradOut, const aclTensor* input, const aclIntArray* normalizedShape,
    const aclTensor* mean, const aclTensor* rstd, const aclTensor* weightOptional,
    const aclTensor* biasOptional, const aclBoolArray* outputMask, aclTensor* gradInputOut,
    aclTensor* gradWeightOut, aclTensor* gradBiasOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  if (gradOut == nullptr || input == nullptr || normalizedShape == nullptr || mean == nullptr ||
      rstd == nullptr || outputMask == nullptr) {
    return kNullPointer;
  }
  if (outputMask->values.size() != 3) return kBadParameter;
  const char* const name = "aclnnLayerNormBackward";
  const Tensor& x = tensor_of(name, input);
  const Dims& normalized = normalizedShape->values;
  const bool has_weight = weightOptional != nullptr;
  const aclTensor* const scale = has_weight ? weightOptional : biasOptional;
  const aclDataType scale_type = scale == nullptr ? x.type : tensor_of(name, scale).type;
  const aclDataType row_type = tensor_of(name, mean).type;
  const auto is_like = [&](const aclTensor* handle, const Dims& dims, aclDataType type) {
    return tensor_of(name, handle).dims == dims && tensor_of(name, handle).type == type;
  };
  const auto fits_scale = [&](const aclTensor* handle) {
    return handle == nullptr || is_like(handle, normalized, scale_type);
  };
  const bool fits = !x.dims.empty() && x.count() != 0 && is_training_type(x.type) &&
                    normalized == Dims{x.dims.back()} && is_like(gradOut, x.dims, x.type) &&
                    is_wide_enough(row_type, x) && is_like(mean, reduced(x.dims), row_type) &&
                    is_like(rstd, reduced(x.dims), row_type) && is_wide_enough(scale_type, x) &&
                    fits_scale(weightOptional) && fits_scale(biasOptional);
  if (!fits) return kBadParameter;
  const aclDataType weight_type = has_weight ? scale_type : x.type;
  std::vector<const aclTensor*> tensors = {gradOut, input, mean, rstd};
  if (has_weight) tensors.push_back(weightOptional);
  const size_t first_output = tensors.size();
  const aclTensor* const outputs[] = {gradInputOut, gradWeightOut, gradBiasOut};
  for (size_t i = 3; i-- > 0;) {  // the last tensor is the one that an injected fault corrupts
    if (!outputMask->values[i]) continue;
    if (outputs[i] == nullptr) return kNullPointer;
    if (!is_like(outputs[i], i == 0 ? x.dims : normalized, i == 0 ? x.type : weight_type)) {
      return kBadParameter;
    }
    tensors.push_back(outputs[i]);
  }
  if (tensors.size() == first_output) return kBadParameter;
  return prepare(
      name, tensors, kWorkspace,
      [has_weight, first_output, mask = outputMask->values](std::vector<Operand>& operands) {
        const auto columns = static_cast<size_t>(operands[1].tensor().dims.back());
        const NormGradients gradients = differentiate_norm(
            operands[0].read(), operands[1].read(), operands[2].read(), operands[3].read(),
            has_weight ? operands[4].read() : std::vector<double>(columns, 1), /*is_centred=*/true);
        size_t next = first_output;
        if (mask[2]) operands[next++].write(gradients.dbeta);
        if (mask[1]) operands[next++].write(gradients.dgamma);
        if (mask[0]) operands[next++].write(gradients.dx);
        return Status();
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(LayerNormBackward)

// Norms over more than the last axis are not emulated.
aclnnStatus aclnnRmsNormGradGetWorkspaceSize(const aclTensor* dy, const aclTensor* x,
                                             const aclTensor* rstd, const aclTensor* gamma,
                                             const aclTensor* dxOut, const aclTensor* dgammaOut,
                                             uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (dy == nullptr || x == nullptr || rstd == nullptr || gamma == nullptr || dxOut == nullptr ||
      dgammaOut == nullptr) {
    return kNullPointer;
  }
  const char* const name = "aclnnRmsNormGrad";
  const Tensor& from = tensor_of(name, x);
  const Tensor& inverse = tensor_of(name, rstd);
  const Tensor& scale = tensor_of(name, gamma);
  const auto is_like_x = [&](const aclTensor* handle) {
    return tensor_of(name, handle).dims == from.dims && tensor_of(name, handle).type == from.type;
  };
  const bool fits = from.dims.size() >= 2 && is_training_type(from.type) && is_like_x(dy) &&
                    is_like_x(dxOut) && inverse.type == ACL_FLOAT &&
                    (inverse.dims == rows_of(from.dims) || inverse.dims == reduced(from.dims)) &&
                    scale.dims == Dims{from.dims.back()} && is_wide_enough(scale.type, from) &&
                    tensor_of(name, dgammaOut).dims == scale.dims &&
                    tensor_of(name, dgammaOut).type == ACL_FLOAT;
  if (!fits) return kBadParameter;
  return prepare(
      name, {dy, x, rstd, gamma, dgammaOut, dxOut}, kWorkspace,
      [](std::vector<Operand>& operands) {
        const std::vector<double> inverses = operands[2].read();
        const NormGradients gradients =
            differentiate_norm(operands[0].read(), operands[1].read(),
                               std::vector<double>(inverses.size()), inverses, operands[3].read(),
                               /*is_centred=*/false);
        operands[4].write(gradients.dgamma);
        operands[5].write(gradients.dx);
        return Status();
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(RmsNormGrad)

// Scaling by frequency is not emulated.
aclnnStatus aclnnEmbeddingDenseBackwardGetWorkspaceSize(
    const aclTensor* grad, const aclTensor* indices, uint64_t numWeights, uint64_t paddingIdx,
    bool scaleGradByFreq, const aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (grad == nullptr || indices == nullptr || out == nullptr) return kNullPointer;
  const char* const name = "aclnnEmbeddingDenseBackward";
  const Tensor& dy = tensor_of(name, grad);
  const Tensor& which = tensor_of(name, indices);
  const Tensor& to = tensor_of(name, out);
  const bool fits = !scaleGradByFreq && dy.dims.size() >= 2 && !which.dims.empty() &&
                    which.count() == count_of(rows_of(dy.dims)) &&
                    to.dims == Dims{static_cast<int64_t>(numWeights), dy.dims.back()} &&
                    is_training_type(dy.type) && to.type == dy.type &&
                    (which.type == ACL_INT32 || which.type == ACL_INT64);
  if (!fits) return kBadParameter;
  return prepare(
      name, {grad, indices, out}, kWorkspace,
      [padding = static_cast<int64_t>(paddingIdx)](std::vector<Operand>& operands) {
        return embedding_backward(operands, padding);
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(EmbeddingDenseBackward)

}  // extern "C"
