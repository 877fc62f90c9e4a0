// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding. 16-bit types are computed in float32 and rounded once.
#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/ops/float_call.h"

namespace keel::cpu {
namespace {

using kernels::kBlock;
using kernels::ReadFloats;
using kernels::WrittenFloats;

// Elements of a piece that one core processes: some 50 us from memory.
constexpr int64_t kPiece = int64_t{1} << 16;

// One head of a token: |half| pairs from element |at| on.
struct Head {
  ReadFloats x;
  WrittenFloats y;
  int64_t at;
  int64_t half;
  const float* cosine;
  const float* sine;
  bool inverse;
};

void turn_halves(const Head& head) {
  float room[4][kBlock];
  for (int64_t j = 0; j < head.half; j += kBlock) {
    const int64_t count = std::min(kBlock, head.half - j);
    const int64_t first = head.at + j;
    const int64_t second = first + head.half;
    float* const first_out = head.y.block(first, room[2]);
    float* const second_out = head.y.block(second, room[3]);
    kernels::rotate_halves_f32(head.x.block(first, count, room[0]),
                               head.x.block(second, count, room[1]), head.cosine + j, head.sine + j,
                               head.inverse, first_out, second_out, count);
    head.y.finish(first, count, first_out);
    head.y.finish(second, count, second_out);
  }
}

void turn_pairs(const Head& head) {
  float room[2][2 * kBlock];
  for (int64_t j = 0; j < head.half; j += kBlock) {
    const int64_t count = std::min(kBlock, head.half - j);
    const int64_t first = head.at + 2 * j;
    float* const out = head.y.block(first, room[1]);
    kernels::rotate_pairs_f32(head.x.block(first, 2 * count, room[0]), head.cosine + j,
                              head.sine + j, head.inverse, out, count);
    head.y.finish(first, 2 * count, out);
  }
}

OpSupport rope_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "rope" : nullptr};
}

void rope_run(Stream& stream, const keel_op_call& call, void*) {
  const ReadFloats x = read(stream, call.inputs[0]);
  const auto* const cosines = address<const float>(stream, *call.inputs[1]);
  const auto* const sines = address<const float>(stream, *call.inputs[2]);
  const auto* const positions = address<const int32_t>(stream, *call.inputs[3]);
  const keel_tensor& to = *call.outputs[0];
  const WrittenFloats y = written(stream, to);
  auto* const bytes = address<char>(stream, to);
  const int64_t size = kit::dtype_size(to.dtype);
  const int64_t tokens = to.shape[0];
  const int64_t heads = to.shape[1];
  const int64_t half = to.shape[2] / 2;
  const int64_t width = heads * 2 * half;  // of a token
  const int64_t rows = call.inputs[1]->shape[0];
  const bool interleaved = kit::attributes<keel_op_rope_attributes>(call).interleaved != 0;
  const bool inverse = kit::attributes<keel_op_rope_attributes>(call).inverse != 0;
  if (width == 0) return;
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(
        tokens, std::max<int64_t>(1, kPiece / width), [&](int64_t begin, int64_t end) {
          for (int64_t token = begin; token < end; ++token) {
            const int64_t position = positions[token];
            if (position < 0 || position >= rows) {
              std::memset(bytes + token * width * size, 0, static_cast<size_t>(width * size));
              continue;
            }
            const int64_t angles = position * half;
            for (int64_t head = 0; head < heads; ++head) {
              const Head one = {x,
                                y,
                                token * width + head * 2 * half,
                                half,
                                cosines + angles,
                                sines + angles,
                                inverse};
              interleaved ? turn_pairs(one) : turn_halves(one);
            }
          }
        });
    return KEEL_OK;
  });
}

}  // namespace

const Operator kRopeOperator = {rope_query, rope_run};

}  // namespace keel::cpu
