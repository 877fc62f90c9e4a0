// SPDX-License-Identifier: Apache-2.0
// Operators that do little but read and write memory: what their calls are made of, on any device,
// and how many bytes they have to move.
#ifndef KEEL_BENCH_MEMORY_OPERATORS_H_
#define KEEL_BENCH_MEMORY_OPERATORS_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "bench/op_tensors.h"

namespace keel::bench {

// The extents that an operator's tensors are made of.
struct Extents {
  int64_t rows;
  int64_t columns;

  std::string text() const;  // "16384x1024", as PyTorch's process takes them
};

struct MemoryOperator {
  const char* name;  // PyTorch's process has it too
  int64_t columns;   // of a row
  // Tensors of the extents that have to be read or written, besides what is small beside them: of
  // the operator's dtype, and of the other one of float32 and bfloat16.
  double streams;
  double streams_of_other;
  std::unique_ptr<OpCall> (*make)(OpTensors& tensors, keel_dtype dtype, Extents extents);

  // A tensor has about so many bytes.
  Extents extents(keel_dtype dtype, int64_t tensor_bytes) const;
  double bytes(keel_dtype dtype, Extents extents) const;
};

// "layer_norm", "layer_norm_backward", ...; throws where there is none.
const MemoryOperator& memory_operator(std::string_view name);

// "float32" or "bfloat16".
const char* name_of(keel_dtype dtype);

}  // namespace keel::bench

#endif  // KEEL_BENCH_MEMORY_OPERATORS_H_
