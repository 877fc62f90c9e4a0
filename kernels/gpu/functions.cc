// SPDX-License-Identifier: Apache-2.0
// elementwise: a kernel for each type of the computation; function, dtypes and strides are values.
// y may be one of the inputs: a thread reads its elements before it writes them.
#include "kernels/gpu/functions.h"

namespace keel::simt {
namespace {

// Computes |n| elements at |offsets|, the first of which is |index| of y.
template <typename T, int n>
KEEL_SIMT_FUNCTION void compute(const FunctionArguments<T>& args,
                                const uint64_t (&offsets)[kOperands], uint64_t index) {
  T in[3][n];
  for (uint32_t i = 0; i < 3; ++i) {
    if (args.tensors[i] != 0) {
      const uint64_t at[1] = {offsets[i]};
      T loaded[1][n];
      load_groups<T, n, 1>(args.types[i], args.tensors[i], at, args.access[i], args.steps[i],
                           loaded);
      for (int lane = 0; lane < n; ++lane) in[i][lane] = loaded[0][lane];
    } else {
      for (int lane = 0; lane < n; ++lane) in[i][lane] = args.numbers[i];
    }
  }
  T y[n];
  if (args.function == Function::arange) {
    for (int lane = 0; lane < n; ++lane) {
      y[lane] = arange_of(in[0][lane], in[1][lane], index + lane);
    }
  } else if (args.function >= Function::uniform) {
    if constexpr (!IsInteger<T>::value) {
      apply_random<T, n>(args.function, args.seed, args.offset, index, in[0], in[1], y);
    } else {
      for (int lane = 0; lane < n; ++lane) y[lane] = 0;
    }
  } else {
    apply<T, n>(args.function, args.alpha, in[0], in[1], in[2], y);
  }
  store_group<T, n>(args.types[kOperandY], args.tensors[kOperandY], offsets[kOperandY],
                    args.access[kOperandY], args.steps[kOperandY], y);
}

template <typename T>
KEEL_SIMT_FUNCTION void elementwise(const FunctionArguments<T>& args) {
  const uint64_t stride = uint64_t{grid_size().x} * kThreads;
  const uint64_t first = uint64_t{block_index().x} * kThreads + thread_index().x;
  const bool is_small = args.is_small != 0;
  if (args.lanes == kGroup) {
    for (uint64_t group = first; group < args.groups; group += stride) {
      uint64_t offsets[kOperands] = {};
      add_offsets<kOperands>(args.axes, args.axis_count, is_small, group, offsets);
      compute<T, kGroup>(args, offsets, group * kGroup);
    }
  }
  // Tensors of single elements, or the tail of one axis.
  const uint64_t begin = args.lanes == kGroup ? args.groups * kGroup : 0;
  const uint64_t end = args.lanes == kGroup ? begin + args.tail : args.groups;
  for (uint64_t i = begin + first; i < end; i += stride) {
    uint64_t offsets[kOperands] = {};
    if (args.lanes == kGroup) {
      for (uint32_t k = 0; k < kOperands; ++k) offsets[k] = i * args.steps[k];
    } else {
      add_offsets<kOperands>(args.axes, args.axis_count, is_small, i, offsets);
    }
    compute<T, 1>(args, offsets, i);
  }
}

}  // namespace
}  // namespace keel::simt

#ifdef KEEL_SIMT_DOUBLES
KEEL_SIMT_KERNEL(function_f64, keel::simt::FunctionArguments<double>) {
  keel::simt::elementwise<double>(args);
}
#else
KEEL_SIMT_KERNEL(function_f32, keel::simt::FunctionArguments<float>) {
  keel::simt::elementwise<float>(args);
}
KEEL_SIMT_KERNEL(function_i64, keel::simt::FunctionArguments<int64_t>) {
  keel::simt::elementwise<int64_t>(args);
}
#endif
