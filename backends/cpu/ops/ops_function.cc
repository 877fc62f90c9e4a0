// SPDX-License-Identifier: Apache-2.0
// elementwise: a function of up to three tensors of any strides and dtypes.
#include <algorithm>
#include <keel/plugin/numbers.hpp>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/ops/strided_call.h"
#include "backends/cpu/runtime/caches.h"

namespace keel::cpu {
namespace {

using kernels::Arguments;
using kernels::Box;
using kernels::Loops;

// Boxes of a piece that one core processes: some 50 us from memory; of functions that take some
// nanoseconds an element, fewer.
constexpr int64_t kBoxes = 64;
constexpr int64_t kSlowBoxes = 8;

struct Call {
  keel_op_elementwise_attributes attributes;
  keel_dtype computed;
  bool past_caches;
  Shape shape;
  Strided operands[4];  // y, a, b, c
};

bool is_random(int64_t function) {
  return function == KEEL_ELEMENTWISE_FUNCTION_UNIFORM ||
         function == KEEL_ELEMENTWISE_FUNCTION_NORMAL ||
         function == KEEL_ELEMENTWISE_FUNCTION_BERNOULLI;
}

bool is_slow(int64_t function) {
  return is_random(function) ||
         (function >= KEEL_ELEMENTWISE_FUNCTION_EXP && function <= KEEL_ELEMENTWISE_FUNCTION_GELU &&
          function != KEEL_ELEMENTWISE_FUNCTION_RELU) ||
         (function >= KEEL_ELEMENTWISE_FUNCTION_FLOOR_DIV &&
          function <= KEEL_ELEMENTWISE_FUNCTION_POW) ||
         function == KEEL_ELEMENTWISE_FUNCTION_ATAN2 ||
         function == KEEL_ELEMENTWISE_FUNCTION_SILU_BACKWARD ||
         function == KEEL_ELEMENTWISE_FUNCTION_GELU_BACKWARD;
}

template <typename Number>
Loops loops_of(const Call& call) {
  Loops loops;
  loops.operands = 4;
  for (uint32_t axis = call.shape.rank; axis-- > 0;) {
    int64_t strides[Loops::kOperands];
    for (uint32_t o = 0; o < loops.operands; ++o) strides[o] = call.operands[o].strides[axis];
    loops.append(call.shape.extent[axis], strides);
  }
  const int64_t function = call.attributes.function;
  if (is_random(function) || function == KEEL_ELEMENTWISE_FUNCTION_ARANGE) {
    loops.cut(kBoxElements<Number>);  // the function depends on the place in row-major order
  } else {
    loops.sort();
    loops.cut_into_tiles(kBoxElements<Number>, kTileElements<Number>);
  }
  return loops;
}

template <typename Number>
Number to_number(double value) {
  if constexpr (std::is_same_v<Number, int64_t>) {
    return kit::truncated(value);
  } else {
    return static_cast<Number>(value);
  }
}

// The boxes of [begin, end).
template <typename Number>
void run_boxes(const Call& call, const Loops& loops, int64_t begin, int64_t end) {
  constexpr int64_t kElements = kTileElements<Number>;
  alignas(64) Number room[4][kElements];
  RawBox<Number> raw;
  alignas(64) uint32_t words[kernels::whole_words(kElements / 4 + 2)];

  const keel_op_elementwise_attributes& attributes = call.attributes;
  const bool draws = is_random(attributes.function);
  const auto apply = kernels::family<Number>().apply;
  const double numbers[] = {attributes.a_number, attributes.b_number, attributes.c_number};
  const int64_t most = std::min(kElements, loops.count());
  for (int k = 0; k < 3; ++k) {
    if (call.operands[k + 1].data == nullptr) {
      std::fill_n(room[k], most, to_number<Number>(numbers[k]));
    }
  }
  const auto reader = [&](uint32_t operand) {
    const Strided& tensor = call.operands[operand];
    return BoxReader<Number>(loops, operand, tensor.data, tensor.dtype);
  };
  BoxReader<Number> readers[] = {reader(1), reader(2), reader(3)};
  BoxWriter<Number> writer(loops, call.operands[0], call.past_caches);
  Arguments<Number> arguments = {};
  arguments.function = static_cast<uint32_t>(attributes.function);
  arguments.alpha = attributes.alpha;
  arguments.words = words;
  const Number** const inputs[] = {&arguments.a, &arguments.b, &arguments.c};
  for (int64_t i = begin; i < end; ++i) {
    const Box box = kernels::box_at(loops, i);
    for (int k = 0; k < 3; ++k) {
      const bool is_absent = call.operands[k + 1].data == nullptr;
      *inputs[k] = is_absent ? room[k] : readers[k].read(box, &raw, room[k]);
    }
    if (draws) {
      const int64_t counter = box.first / 4;
      kernels::random_words(
          static_cast<uint64_t>(attributes.seed),
          static_cast<uint64_t>(attributes.offset) + static_cast<uint64_t>(counter),
          (box.first + box.count - 1) / 4 - counter + 1, words);
    }
    arguments.count = box.count;
    arguments.first = box.first;
    arguments.y = writer.begin(box, room[3]);
    apply(arguments);
    writer.write(box, arguments.y, &raw);
  }
  writer.finish();
}

template <typename Number>
void run(ThreadPool& pool, const Call& call) {
  const Loops loops = loops_of<Number>(call);
  const int64_t grain = is_slow(call.attributes.function) ? kSlowBoxes : kBoxes;
  pool.parallel_for(loops.boxes(), grain, [&](int64_t begin, int64_t end) {
    run_boxes<Number>(call, loops, begin, end);
  });
}

OpSupport elementwise_query(const keel_op_call&) {
  return {"elementwise"};
}

void elementwise_run(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& y = *call.outputs[0];
  if (kit::element_count(y) == 0) return;
  Call kept = {};
  kept.attributes = kit::attributes<keel_op_elementwise_attributes>(call);
  kept.computed = kit::compute_dtype(call);
  kept.past_caches = kit::span_bytes(y) > static_cast<uint64_t>(last_cache());
  kept.shape = shape_of(y);
  kept.operands[0] = strided(stream, &y);
  for (uint32_t i = 0; i < 3; ++i) kept.operands[i + 1] = strided(stream, call.inputs[i]);
  const auto work = [kept](ThreadPool& pool) -> keel_status {
    switch (kept.computed) {
      case KEEL_FLOAT64:
        run<double>(pool, kept);
        break;
      case KEEL_INT64:
        run<int64_t>(pool, kept);
        break;
      default:
        run<float>(pool, kept);
        break;
    }
    return KEEL_OK;
  };
  const int64_t an_element = is_slow(kept.attributes.function) ? 4 : 1;
  stream.enqueue(work, /*nanoseconds=*/kit::element_count(y) * an_element);
}

}  // namespace

const Operator kElementwiseOperator = {elementwise_query, elementwise_run};

}  // namespace keel::cpu
