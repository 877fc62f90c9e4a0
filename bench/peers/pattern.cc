// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/pattern.h"

#include <algorithm>
#include <vector>

namespace keel::bench::peers {

namespace {

// Multiplicative hashing; uses the upper four bits.
float value(uint32_t rank, uint32_t seed, uint64_t index) {
  const uint32_t mixed =
      (static_cast<uint32_t>(index) + 1) * 2654435761u + rank * 0x3c6ef372u + seed * 0x51ed270bu;
  return static_cast<float>((mixed ^ mixed >> 15) >> 28 & 15);
}

// Writes the elements of |rank|'s send buffer from |first| on.
void write_values(uint32_t rank, uint32_t seed, uint64_t first, uint64_t count, float* out) {
  for (uint64_t i = 0; i < count; ++i) out[i] = value(rank, seed, first + i);
}

void add_values(uint32_t rank, uint32_t seed, uint64_t first, uint64_t count, float* out) {
  for (uint64_t i = 0; i < count; ++i) out[i] += value(rank, seed, first + i);
}

// Writes the expected content of receive[first, first + count), which lies in one piece.
void write_expected(const Shape& shape, uint32_t rank, uint32_t seed, uint64_t first,
                    uint64_t count, float* out) {
  const uint32_t from = static_cast<uint32_t>(first / shape.piece);
  switch (shape.operation) {
    case Operation::kBroadcast:
      write_values(/*rank=*/0, seed, first, count, out);
      return;
    case Operation::kAllGather:
      write_values(from, seed, first - from * shape.piece, count, out);
      return;
    case Operation::kAllToAll:
      write_values(from, seed, rank * shape.piece + first - from * shape.piece, count, out);
      return;
    case Operation::kAllReduce:
    case Operation::kReduceScatter:
      break;
  }
  const uint64_t offset = shape.operation == Operation::kReduceScatter ? rank * shape.piece : 0;
  std::fill(out, out + count, 0.0f);
  for (uint32_t i = 0; i < shape.world; ++i) add_values(i, seed, offset + first, count, out);
}

}  // namespace

void fill_send(const Shape& shape, uint32_t rank, uint32_t seed, float* send) {
  write_values(rank, seed, /*first=*/0, shape.send, send);
}

void poison(float* receive, uint64_t count) {
  std::fill(receive, receive + count, -1.0f);
}

std::optional<uint64_t> find_wrong(const Shape& shape, uint32_t rank, uint32_t seed,
                                   const float* receive) {
  constexpr uint64_t kBlock = 4096;
  std::vector<float> expected(kBlock);
  for (uint64_t piece = 0; piece < shape.receive; piece += shape.piece) {
    for (uint64_t first = piece; first < piece + shape.piece; first += kBlock) {
      const uint64_t count = std::min(kBlock, piece + shape.piece - first);
      write_expected(shape, rank, seed, first, count, expected.data());
      const auto [wrong, _] = std::mismatch(receive + first, receive + first + count,
                                            expected.begin(), expected.begin() + count);
      if (wrong != receive + first + count) return wrong - receive;
    }
  }
  return std::nullopt;
}

}  // namespace keel::bench::peers
