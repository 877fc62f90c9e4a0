// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/cublaslt/product.h"

#include <cstddef>
#include <cstring>
#include <keel/float_types.hpp>
#include <vector>

namespace keel::emulator::cublaslt {
namespace {

template <typename Stored>
Stored read(const std::byte* data, uint64_t element) {
  Stored stored;
  std::memcpy(&stored, data + element * sizeof(stored), sizeof(stored));
  return stored;
}

double load_element(int32_t type, const std::byte* data, uint64_t element) {
  switch (type) {
    case CUDA_R_16F:
      return to_float(read<float16_t>(data, element));
    case CUDA_R_16BF:
      return to_float(read<bfloat16_t>(data, element));
    default:
      return read<float>(data, element);
  }
}

template <typename Stored>
void write(std::byte* data, uint64_t element, Stored stored) {
  std::memcpy(data + element * sizeof(stored), &stored, sizeof(stored));
}

void store_element(int32_t type, std::byte* data, uint64_t element, float value) {
  switch (type) {
    case CUDA_R_16F:
      return write(data, element, to_float16(value));
    case CUDA_R_16BF:
      return write(data, element, to_bfloat16(value));
    default:
      return write(data, element, value);
  }
}

// Returns the host address of all matrices of |layout|.
Status reach(Access& access, Address address, const Layout& layout, std::byte** out_data) {
  uint64_t bytes = 0;
  if (!extent_of(layout, &bytes)) return {Code::kIllegalAddress, "a matrix beyond any memory"};
  return access.reach(address, bytes, out_data);
}

// Returns op(matrix |i|) in row-major order.
std::vector<double> rows_of(const Layout& layout, const std::byte* data, int32_t i,
                            bool transposed) {
  const uint64_t rows = transposed ? layout.columns : layout.rows;
  const uint64_t columns = transposed ? layout.rows : layout.columns;
  const auto leading = static_cast<uint64_t>(layout.leading);
  const uint64_t first = static_cast<uint64_t>(i) * static_cast<uint64_t>(layout.batch_stride);
  std::vector<double> values(rows * columns);
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t column = 0; column < columns; ++column) {
      const uint64_t at = transposed ? row * leading + column : column * leading + row;
      values[row * columns + column] = load_element(layout.type, data, first + at);
    }
  }
  return values;
}

}  // namespace

Work work_of(const Product& product) {
  const Problem& problem = product.problem;
  const auto of_batch = [&](uint64_t a, uint64_t b) {
    return static_cast<double>(a) * static_cast<double>(b) * problem.batch;
  };
  const int32_t type = problem.a.type;
  Work work;
  work.bytes = (of_batch(problem.m, problem.k) + of_batch(problem.k, problem.n)) *
                   static_cast<double>(size_of(type)) +
               of_batch(problem.m, problem.n) * static_cast<double>(size_of(problem.d.type));
  work.flops = 2 * of_batch(problem.m, problem.n) * static_cast<double>(problem.k);
  work.dtype = type == CUDA_R_32F ? "float32" : type == CUDA_R_16F ? "float16" : "bfloat16";
  return work;
}

Status run_product(const Product& product, bool computes, Access& access) {
  const Problem& problem = product.problem;
  std::byte* a = nullptr;
  std::byte* b = nullptr;
  std::byte* c = nullptr;
  std::byte* d = nullptr;
  std::byte* bias = nullptr;
  std::byte* workspace = nullptr;
  const bool adds = product.beta != 0;  // else c is not read
  Status status = reach(access, product.a, problem.a, &a);
  if (status.ok()) status = reach(access, product.b, problem.b, &b);
  if (status.ok() && adds) status = reach(access, product.c, problem.c, &c);
  if (status.ok()) status = reach(access, product.d, problem.d, &d);
  if (status.ok() && problem.has_bias()) {
    status = access.reach(problem.operation.bias, problem.m * size_of(problem.d.type), &bias);
  }
  if (status.ok() && product.workspace_bytes != 0) {
    status = access.reach(product.workspace, product.workspace_bytes, &workspace);
  }
  if (!status.ok()) return status;
  if (workspace != nullptr) std::memset(workspace, 0x5a, product.workspace_bytes);
  if (!computes) {
    // Column by column: what lies between the columns stays.
    const uint64_t element = size_of(problem.d.type);
    for (uint64_t i = 0; i < static_cast<uint64_t>(problem.batch); ++i) {
      for (uint64_t column = 0; column < problem.n; ++column) {
        const uint64_t at = i * static_cast<uint64_t>(problem.d.batch_stride) +
                            column * static_cast<uint64_t>(problem.d.leading);
        std::memset(d + at * element, kPoison, problem.m * element);
      }
    }
    return {};
  }
  const auto leading = static_cast<uint64_t>(problem.d.leading);
  for (int32_t i = 0; i < problem.batch; ++i) {
    const std::vector<double> left =
        rows_of(problem.a, a, i, problem.operation.trans_a == CUBLAS_OP_T);
    // The columns of b, so that both operands are read along k.
    const std::vector<double> right =
        rows_of(problem.b, b, i, problem.operation.trans_b != CUBLAS_OP_T);
    const uint64_t first = static_cast<uint64_t>(i) * static_cast<uint64_t>(problem.d.batch_stride);
    for (uint64_t column = 0; column < problem.n; ++column) {
      for (uint64_t row = 0; row < problem.m; ++row) {
        double sum = 0;
        for (uint64_t l = 0; l < problem.k; ++l) {
          sum += left[row * problem.k + l] * right[column * problem.k + l];
        }
        const uint64_t at = first + column * leading + row;
        double value = double{product.alpha} * sum;
        if (adds) value += double{product.beta} * load_element(problem.c.type, c, at);
        if (bias != nullptr) value += load_element(problem.d.type, bias, row);
        store_element(problem.d.type, d, at, static_cast<float>(value));
      }
    }
  }
  return {};
}

}  // namespace keel::emulator::cublaslt
