// SPDX-License-Identifier: Apache-2.0
// gather and scatter over tensors of any strides. An index outside gives zero, or is skipped.
#include "kernels/gpu/functions.h"

namespace keel::simt {
namespace {

// Returns an index beyond all extents for a negative one.
KEEL_SIMT_FUNCTION uint64_t index_at(ElementType type, Address address, uint64_t at) {
  if (type == ElementType::i32) {
    const Global<const int32_t> indices(address);
    return static_cast<uint64_t>(int64_t{indices[at]});
  }
  const Global<const int64_t> indices(address);
  return static_cast<uint64_t>(indices[at]);
}

// The tensors of an axis' strides.
enum : uint32_t { kY, kIndex, kX };

// ---- gather ------------------------------------------------------------------------

template <typename Unit>
KEEL_SIMT_FUNCTION void gather(const GatherArguments& args) {
  const Global<const Unit> x(args.x);
  const Global<Unit> y(args.y);
  for_each<1>(args.count, false, [&](auto, uint64_t i) {
    uint64_t offsets[3] = {};
    add_offsets<3>(args.axes, args.axis_count, args.is_small != 0, i, offsets);
    const uint64_t index = index_at(args.index_type, args.index, offsets[kIndex]);
    Unit unit = {};
    if (index < args.selected_extent) unit = x[offsets[kX] + index * args.selected];
    y[offsets[kY]] = unit;
  });
}

// ---- scatter -----------------------------------------------------------------------

template <typename Unit>
KEEL_SIMT_FUNCTION void copy_unit(const ScatterArguments& args, uint64_t to, uint64_t from) {
  const Global<const Unit> x(args.x);
  const Global<Unit> y(args.y);
  y[to] = x[from];
}

// Adds in |Sum|, and rounds.
template <typename Unit, typename Sum>
KEEL_SIMT_FUNCTION void add_unit(const ScatterArguments& args, uint64_t to, uint64_t from) {
  const Global<const Unit> x(args.x);
  const Global<Unit> y(args.y);
  const Unit before = y[to];
  const Unit term = x[from];
  y[to] = ConvertTo<Unit>::from(wrapping_add(convert_from<Sum>(before), convert_from<Sum>(term)));
}

struct Copy {
  KEEL_SIMT_FUNCTION void finish(const ScatterArguments&) const {}
  KEEL_SIMT_FUNCTION void run(const ScatterArguments& args, uint64_t to, uint64_t from) const {
    switch (args.unit) {
      case 1:
        return copy_unit<uint8_t>(args, to, from);
      case 2:
        return copy_unit<uint16_t>(args, to, from);
      case 4:
        return copy_unit<uint32_t>(args, to, from);
      case 8:
        return copy_unit<uint64_t>(args, to, from);
      default:
        return copy_unit<Unit16>(args, to, from);
    }
  }
};

// Scatter's sums of float64.
struct AddDoubles {
  KEEL_SIMT_FUNCTION void finish(const ScatterArguments&) const {}
  KEEL_SIMT_FUNCTION void run(const ScatterArguments& args, uint64_t to, uint64_t from) const {
    add_unit<double, double>(args, to, from);
  }
};

// Scatter's sums of all other dtypes.
class AddUp {
 public:
  KEEL_SIMT_FUNCTION void run(const ScatterArguments& args, uint64_t to, uint64_t from) {
    switch (args.type) {
      case ElementType::f32:
        return add_unit<float, float>(args, to, from);
      case ElementType::f16:
        return keep<f16>(args, to, from);
      case ElementType::bf16:
        return keep<bf16>(args, to, from);
      case ElementType::i64:
        return add_unit<int64_t, int64_t>(args, to, from);
      case ElementType::i32:
        return add_unit<int32_t, int64_t>(args, to, from);
      case ElementType::i16:
        return add_unit<int16_t, int64_t>(args, to, from);
      case ElementType::i8:
        return add_unit<int8_t, int64_t>(args, to, from);
      default:
        return add_unit<uint8_t, int64_t>(args, to, from);
    }
  }

  // Call after the last run().
  KEEL_SIMT_FUNCTION void finish(const ScatterArguments& args) const {
    if (kept_ == kNoIndex) return;
    if (args.type == ElementType::f16) {
      const Global<f16> y(args.y);
      y[kept_] = to_f16(sum_);
    } else {
      const Global<bf16> y(args.y);
      y[kept_] = to_bf16(sum_);
    }
  }

 private:
  // Terms of one element that follow each other are rounded to 16 bits once.
  template <typename Unit>
  KEEL_SIMT_FUNCTION void keep(const ScatterArguments& args, uint64_t to, uint64_t from) {
    const Global<const Unit> x(args.x);
    const Global<Unit> y(args.y);
    if (to != kept_) {
      finish(args);
      const Unit before = y[to];
      sum_ = to_float(before);
      kept_ = to;
    }
    const Unit term = x[from];
    sum_ += to_float(term);
  }

  uint64_t kept_ = kNoIndex;
  float sum_ = 0;
};

template <typename Operation>
KEEL_SIMT_FUNCTION void scatter(const ScatterArguments& args) {
  for_each<1>(args.lines * args.ranges, false, [&](auto, uint64_t i) {
    const uint64_t range = args.ranges == 1 ? 0 : i / args.lines;
    uint64_t offsets[3] = {};
    add_offsets<3>(args.axes, args.axis_count, args.is_small != 0, i - range * args.lines, offsets);
    const uint64_t first = range * args.range;
    const uint64_t end =
        args.selected_extent - first < args.range ? args.selected_extent : first + args.range;
    Operation operation;
    // Indices are loaded some at a time: most of them are another thread's.
    for (uint64_t begin = 0; begin < args.length; begin += kGroup) {
      uint64_t indices[kGroup];
      for (uint32_t lane = 0; lane < kGroup; ++lane) {
        indices[lane] = end;
        if (begin + lane < args.length) {
          indices[lane] = index_at(args.index_type, args.index,
                                   offsets[kIndex] + (begin + lane) * args.index_step);
        }
      }
      for (uint32_t lane = 0; lane < kGroup; ++lane) {
        if (indices[lane] < first || indices[lane] >= end) continue;
        operation.run(args, offsets[kY] + indices[lane] * args.selected,
                      offsets[kX] + (begin + lane) * args.x_step);
      }
    }
    operation.finish(args);
  });
}

}  // namespace
}  // namespace keel::simt

#ifdef KEEL_SIMT_DOUBLES
KEEL_SIMT_KERNEL(scatter_add_f64, keel::simt::ScatterArguments) {
  keel::simt::scatter<keel::simt::AddDoubles>(args);
}
#else
KEEL_SIMT_KERNEL(gather, keel::simt::GatherArguments) {
  switch (args.unit) {
    case 1:
      return keel::simt::gather<uint8_t>(args);
    case 2:
      return keel::simt::gather<uint16_t>(args);
    case 4:
      return keel::simt::gather<uint32_t>(args);
    case 8:
      return keel::simt::gather<uint64_t>(args);
    default:
      return keel::simt::gather<keel::simt::Unit16>(args);
  }
}

KEEL_SIMT_KERNEL(scatter, keel::simt::ScatterArguments) {
  keel::simt::scatter<keel::simt::Copy>(args);
}
KEEL_SIMT_KERNEL(scatter_add, keel::simt::ScatterArguments) {
  keel::simt::scatter<keel::simt::AddUp>(args);
}
#endif
