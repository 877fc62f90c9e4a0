// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/cublaslt/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace keel::emulator::cublaslt {
namespace {

// Returns why the library refuses |layout|; empty if the layout is valid.
std::string objection(const char* name, const Layout& layout) {
  if (layout.mark != Layout::kMark) return fmt::format("the layout of {} was never set up", name);
  if (size_of(layout.type) == 0) return fmt::format("{}: no such type: {}", name, layout.type);
  if (layout.order != CUBLASLT_ORDER_COL) return fmt::format("{}: no such order", name);
  if (layout.rows == 0 || layout.columns == 0) return fmt::format("{} is empty", name);
  if (layout.rows > INT32_MAX || layout.columns > INT32_MAX) {
    return fmt::format("{} has {} x {} elements", name, layout.rows, layout.columns);
  }
  if (layout.leading < 0 || static_cast<uint64_t>(layout.leading) < layout.rows) {
    return fmt::format("{}: a leading dimension of {} for {} rows", name, layout.leading,
                       layout.rows);
  }
  uint64_t bytes = 0;
  if (layout.batch < 1 || layout.batch_stride < 0 || !extent_of(layout, &bytes)) {
    return fmt::format("{}: {} matrices, {} elements apart", name, layout.batch,
                       layout.batch_stride);
  }
  return {};
}

bool is_transposition(int32_t value) {
  return value == CUBLAS_OP_N || value == CUBLAS_OP_T;
}

bool are_alike(const Layout& a, const Layout& b) {
  return a.type == b.type && a.rows == b.rows && a.columns == b.columns && a.leading == b.leading &&
         a.batch == b.batch && a.batch_stride == b.batch_stride;
}

std::string objection(const Operation& operation, const Layout& d) {
  if (operation.mark != Operation::kMark) return "the operation was never set up";
  if (!is_transposition(operation.trans_a) || !is_transposition(operation.trans_b)) {
    return "no such transposition";
  }
  if (operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return {};
  if (operation.epilogue != CUBLASLT_EPILOGUE_BIAS) {
    return fmt::format("the emulated library has no epilogue {}", operation.epilogue);
  }
  if (operation.bias == 0) return "a bias that is nowhere";
  if (operation.bias_type != -1 && operation.bias_type != d.type) {
    return "a bias of another type than the result";
  }
  return {};
}

}  // namespace

uint64_t size_of(int32_t type) {
  switch (type) {
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    default:
      return 0;
  }
}

bool extent_of(const Layout& layout, uint64_t* out_bytes) {
  uint64_t batches = 0;
  uint64_t columns = 0;
  uint64_t elements = 0;
  return !__builtin_mul_overflow(static_cast<uint64_t>(layout.batch - 1),
                                 static_cast<uint64_t>(layout.batch_stride), &batches) &&
         !__builtin_mul_overflow(layout.columns - 1, static_cast<uint64_t>(layout.leading),
                                 &columns) &&
         !__builtin_add_overflow(batches, columns, &elements) &&
         !__builtin_add_overflow(elements, layout.rows, &elements) &&
         !__builtin_mul_overflow(elements, size_of(layout.type), out_bytes);
}

cublasStatus_t make_problem(const Operation& operation, const Layout& a, const Layout& b,
                            const Layout& c, const Layout& d, Problem* out_problem,
                            std::string* out_why) {
  std::string& why = *out_why;
  why = objection(operation, d);
  const struct {
    const char* name;
    const Layout& layout;
  } layouts[] = {{"A", a}, {"B", b}, {"C", c}, {"D", d}};
  for (const auto& [name, layout] : layouts) {
    if (why.empty()) why = objection(name, layout);
    if (why.empty() && layout.batch != d.batch) why = "batches of different sizes";
  }
  if (!why.empty()) return CUBLAS_STATUS_INVALID_VALUE;
  const bool is_sum_of_floats = operation.compute == CUBLAS_COMPUTE_32F &&
                                operation.scale == CUDA_R_32F && a.type == b.type &&
                                (d.type == a.type || d.type == CUDA_R_32F);
  if (!is_sum_of_floats) {
    why = fmt::format("no product of types {} and {} to {} by the compute type {}", a.type, b.type,
                      d.type, operation.compute);
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool trans_a = operation.trans_a == CUBLAS_OP_T;
  const bool trans_b = operation.trans_b == CUBLAS_OP_T;
  *out_problem = {operation, a, b, c, d, d.rows, d.columns, trans_a ? a.rows : a.columns, d.batch};
  const bool fits = (trans_a ? a.columns : a.rows) == out_problem->m &&
                    (trans_b ? b.columns : b.rows) == out_problem->k &&
                    (trans_b ? b.rows : b.columns) == out_problem->n && are_alike(c, d);
  if (!fits) {
    why = "matrices that do not fit each other";
  } else if (d.batch > 1 && d.batch_stride == 0) {
    why = "all of a batch into one matrix";
  }
  return why.empty() ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

uint64_t Problem::digest() const {
  uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](auto value) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001b3;
    hash ^= hash >> 29;
  };
  mix(operation.trans_a);
  mix(operation.trans_b);
  mix(operation.epilogue);
  mix(operation.bias_type);
  for (const Layout* layout : {&a, &b, &c, &d}) {
    mix(layout->type);
    mix(layout->rows);
    mix(layout->columns);
    mix(layout->leading);
    mix(layout->batch);
    mix(layout->batch_stride);
  }
  return hash;
}

}  // namespace keel::emulator::cublaslt
