// SPDX-License-Identifier: Apache-2.0
// Operators bound by memory bandwidth: how to make the calls on any device, and how many bytes each
// operator must move.
#ifndef KEEL_BENCH_MEMORY_OPERATORS_H_
#define KEEL_BENCH_MEMORY_OPERATORS_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "bench/op_tensors.h"

namespace keel::bench {

// The extents of an operator's tensors.
struct Extents {
  int64_t rows;
  int64_t columns;

  std::string text() const;  // "16384x1024", PyTorch's format
};

struct MemoryOperator {
  const char* name;  // PyTorch's process has the same
  int64_t columns;   // per row
  // Number of tensors of these extents read or written, in the operator's dtype and in the other
  // one of float32 and bfloat16; small tensors are not counted.
  double streams;
  double streams_of_other;
  std::unique_ptr<OpCall> (*make)(OpTensors& tensors, keel_dtype dtype, Extents extents);

  // Returns extents for tensors of about |tensor_bytes|.
  Extents extents(keel_dtype dtype, int64_t tensor_bytes) const;
  double bytes(keel_dtype dtype, Extents extents) const;
};

// |name| is "layer_norm", "layer_norm_backward", ...; throws for an unknown name.
const MemoryOperator& memory_operator(std::string_view name);

// "float32" or "bfloat16".
const char* name_of(keel_dtype dtype);

}  // namespace keel::bench

#endif  // KEEL_BENCH_MEMORY_OPERATORS_H_
