// SPDX-License-Identifier: Apache-2.0
// Operators on rows: norms, softmax, SwiGLU, sums. float64, rounded once to the output's type.
#include <algorithm>
#include <cmath>

#include "emulator/shims/aclnn/executor.h"

namespace keel::emulator::aclnn {
namespace {

// Returns whether |axis|, which may count from the end, is the last of |rank| axes.
bool is_last(int64_t axis, size_t rank) {
  return axis == -1 || axis + 1 == static_cast<int64_t>(rank);
}

Status softmax(std::vector<Operand>& operands) {
  const auto columns = static_cast<size_t>(operands[0].tensor().dims.back());
  std::vector<double> values = operands[0].read();
  for (size_t begin = 0; begin < values.size(); begin += columns) {
    double* const row = values.data() + begin;
    const double most = *std::max_element(row, row + columns);
    double sum = 0;
    for (size_t i = 0; i < columns; ++i) sum += row[i] = std::exp(row[i] - most);
    for (size_t i = 0; i < columns; ++i) row[i] /= sum;
  }
  operands[1].write(values);
  return {};
}

Status swiglu(std::vector<Operand>& operands) {
  const auto columns = static_cast<size_t>(operands[1].tensor().dims.back());
  const std::vector<double> x = operands[0].read();
  std::vector<double> y(x.size() / 2);
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t at = i / columns * 2 * columns + i % columns;
    const double gate = x[at];
    const double silu = gate == -HUGE_VAL ? 0 : gate / (1 + std::exp(-gate));
    y[i] = silu * x[at + columns];
  }
  operands[1].write(y);
  return {};
}

// Prepares the reduction of |self| along |dims| by |combine|, which begins with |start|. Axes that
// are reduced have an extent of 1 in |out|, or are absent there.
template <typename Combine>
aclnnStatus prepare_reduction(const char* name, const aclTensor* self, const aclIntArray* dims,
                              bool keeps_dims, const aclTensor* out, double start, Combine combine,
                              uint64_t* workspace_size, aclOpExecutor** executor) {
  if (self == nullptr || dims == nullptr || out == nullptr) return kNullPointer;
  const Tensor& from = tensor_of(name, self);
  std::vector<bool> reduced(from.dims.size());
  for (int64_t axis : dims->values) {
    if (axis < 0) axis += static_cast<int64_t>(from.dims.size());
    if (axis < 0 || axis >= static_cast<int64_t>(from.dims.size())) return kBadParameter;
    reduced[static_cast<size_t>(axis)] = true;
  }
  Dims left;
  for (size_t axis = 0; axis < reduced.size(); ++axis) {
    if (!reduced[axis] || keeps_dims) left.push_back(reduced[axis] ? 1 : from.dims[axis]);
  }
  if (tensor_of(name, out).dims != left) return kBadParameter;
  return prepare(
      name, {self, out}, kWorkspace,
      [reduced, start, combine](std::vector<Operand>& operands) {
        const Dims& all = operands[0].tensor().dims;
        const std::vector<double> values = operands[0].read();
        std::vector<double> results(static_cast<size_t>(operands[1].tensor().count()), start);
        for (size_t i = 0; i < values.size(); ++i) {
          size_t to = 0;
          size_t scale = 1;
          auto rest = static_cast<int64_t>(i);
          for (size_t axis = all.size(); axis-- > 0;) {
            const int64_t coordinate = rest % all[axis];
            rest /= all[axis];
            if (reduced[axis]) continue;
            to += static_cast<size_t>(coordinate) * scale;
            scale *= static_cast<size_t>(all[axis]);
          }
          results[to] = combine(results[to], values[i]);
        }
        operands[1].write(results);
        return Status();
      },
      workspace_size, executor);
}

}  // namespace
}  // namespace keel::emulator::aclnn

using namespace keel::emulator::aclnn;  // NOLINT: the functions below are C functions
using keel::emulator::Status;

extern "C" {

aclnnStatus aclnnSoftmaxGetWorkspaceSize(const aclTensor* self, int64_t dim, aclTensor* out,
                                         uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (self == nullptr || out == nullptr) return kNullPointer;
  const Tensor& from = tensor_of("aclnnSoftmax", self);
  if (from.dims.empty() || !is_last(dim, from.dims.size()) ||
      from.dims != tensor_of("aclnnSoftmax", out).dims) {
    return kBadParameter;
  }
  return prepare("aclnnSoftmax", {self, out}, kWorkspace, softmax, workspaceSize, executor);
}
KEEL_SECOND_PHASE(Softmax)

aclnnStatus aclnnSwiGluGetWorkspaceSize(const aclTensor* x, int64_t dim, const aclTensor* out,
                                        uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (x == nullptr || out == nullptr) return kNullPointer;
  const Tensor& from = tensor_of("aclnnSwiGlu", x);
  const Tensor& to = tensor_of("aclnnSwiGlu", out);
  if (from.dims.empty() || to.dims.empty() || !is_last(dim, from.dims.size()) ||
      from.dims.back() != 2 * to.dims.back() || from.count() != 2 * to.count() ||
      !is_contiguous(from) || !is_contiguous(to)) {
    return kBadParameter;
  }
  return prepare("aclnnSwiGlu", {x, out}, kWorkspace, swiglu, workspaceSize, executor);
}
KEEL_SECOND_PHASE(SwiGlu)

aclnnStatus aclnnRmsNormGetWorkspaceSize(const aclTensor* x, const aclTensor* gamma, double epsilon,
                                         const aclTensor* yOut, const aclTensor* rstdOut,
                                         uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (x == nullptr || gamma == nullptr || yOut == nullptr || rstdOut == nullptr) {
    return kNullPointer;
  }
  const Tensor& from = tensor_of("aclnnRmsNorm", x);
  const Tensor& scale = tensor_of("aclnnRmsNorm", gamma);
  const bool fits = !from.dims.empty() && scale.dims == Dims{from.dims.back()} &&
                    tensor_of("aclnnRmsNorm", yOut).dims == from.dims &&
                    tensor_of("aclnnRmsNorm", rstdOut).type == ACL_FLOAT &&
                    tensor_of("aclnnRmsNorm", rstdOut).count() * from.dims.back() == from.count();
  if (!fits) return kBadParameter;
  return prepare(
      "aclnnRmsNorm", {x, gamma, rstdOut, yOut}, kWorkspace,
      [epsilon](std::vector<Operand>& operands) {
        const auto columns = static_cast<size_t>(operands[0].tensor().dims.back());
        std::vector<double> values = operands[0].read();
        const std::vector<double> factors = operands[1].read();
        std::vector<double> inverse(values.size() / columns);
        for (size_t row = 0; row < inverse.size(); ++row) {
          double* const each = values.data() + row * columns;
          double sum = 0;
          for (size_t i = 0; i < columns; ++i) sum += each[i] * each[i];
          inverse[row] = 1 / std::sqrt(sum / static_cast<double>(columns) + epsilon);
          for (size_t i = 0; i < columns; ++i) each[i] *= inverse[row] * factors[i];
        }
        operands[2].write(inverse);
        operands[3].write(values);
        return Status();
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(RmsNorm)

// All operands, the optional ones too, are asked for.
aclnnStatus aclnnLayerNormGetWorkspaceSize(
    const aclTensor* input, const aclIntArray* normalizedShape, const aclTensor* weightOptional,
    const aclTensor* biasOptional, double eps, aclTensor* out, aclTensor* meanOutOptional,
    aclTensor* rstdOutOptional, uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (input == nullptr || normalizedShape == nullptr || weightOptional == nullptr ||
      out == nullptr || meanOutOptional == nullptr || rstdOutOptional == nullptr) {
    return kNullPointer;
  }
  const char* const name = "aclnnLayerNorm";
  const Tensor& from = tensor_of(name, input);
  const bool fits = !from.dims.empty() && normalizedShape->values == Dims{from.dims.back()} &&
                    tensor_of(name, weightOptional).dims == normalizedShape->values &&
                    tensor_of(name, out).dims == from.dims &&
                    tensor_of(name, meanOutOptional).count() * from.dims.back() == from.count() &&
                    tensor_of(name, rstdOutOptional).count() * from.dims.back() == from.count();
  if (!fits) return kBadParameter;
  const bool has_bias = biasOptional != nullptr;
  return prepare(
      name,
      {input, weightOptional, has_bias ? biasOptional : weightOptional, meanOutOptional,
       rstdOutOptional, out},
      kWorkspace,
      [eps, has_bias](std::vector<Operand>& operands) {
        const auto columns = static_cast<size_t>(operands[0].tensor().dims.back());
        std::vector<double> values = operands[0].read();
        const std::vector<double> factors = operands[1].read();
        const std::vector<double> added = operands[2].read();
        std::vector<double> means(values.size() / columns);
        std::vector<double> inverse(means.size());
        for (size_t row = 0; row < means.size(); ++row) {
          double* const each = values.data() + row * columns;
          double sum = 0;
          for (size_t i = 0; i < columns; ++i) sum += each[i];
          const double mean = sum / static_cast<double>(columns);
          double squares = 0;
          for (size_t i = 0; i < columns; ++i) squares += (each[i] - mean) * (each[i] - mean);
          means[row] = mean;
          inverse[row] = 1 / std::sqrt(squares / static_cast<double>(columns) + eps);
          for (size_t i = 0; i < columns; ++i) {
            each[i] = (each[i] - mean) * inverse[row] * factors[i] + (has_bias ? added[i] : 0);
          }
        }
        operands[3].write(means);
        operands[4].write(inverse);
        operands[5].write(values);
        return Status();
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(LayerNorm)

aclnnStatus aclnnReduceSumGetWorkspaceSize(const aclTensor* self, const aclIntArray* dims,
                                           bool keepDims, aclDataType dtype, aclTensor* out,
                                           uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (out != nullptr && tensor_of("aclnnReduceSum", out).type != dtype) return kBadParameter;
  return prepare_reduction(
      "aclnnReduceSum", self, dims, keepDims, out, /*start=*/0,
      [](double sum, double value) { return sum + value; }, workspaceSize, executor);
}
KEEL_SECOND_PHASE(ReduceSum)

aclnnStatus aclnnAmaxGetWorkspaceSize(const aclTensor* self, const aclIntArray* dim, bool keepDim,
                                      aclTensor* out, uint64_t* workspaceSize,
                                      aclOpExecutor** executor) {
  return prepare_reduction(
      "aclnnAmax", self, dim, keepDim, out, -HUGE_VAL,
      [](double most, double value) {
        return std::isnan(most) || std::isnan(value) ? NAN : std::max(most, value);
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(Amax)

}  // extern "C"
