// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/roof.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace train_gpt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kSmallest = 256;
constexpr int64_t kLargest = 8192;
constexpr int kRepeats = 4;
constexpr int kRounds = 3;
// A product of this duration is bound by arithmetic only.
constexpr double kLongEnough = 0.01;

// Numbers of both signs: chips multiply zeroes faster than real data.
template <typename Scalar, typename Convert>
std::vector<Scalar> noise(int64_t count, Convert&& convert) {
  std::vector<Scalar> values(static_cast<size_t>(count));
  uint32_t state = 1;
  for (Scalar& value : values) {
    state = state * 1664525u + 1013904223u;
    value = convert(static_cast<float>(state >> 8) * 0x1p-23F - 1.0F);
  }
  return values;
}

// Returns the seconds of one product of |size|, the best of several rounds.
template <typename Scalar, typename Convert>
double time_product(keel::Stream& stream, int64_t size, Convert&& convert) {
  const keel::Device device = stream.device();
  const auto count = static_cast<uint64_t>(size * size);
  const auto a = keel::Buffer::of<Scalar>(device, count);
  const auto b = keel::Buffer::of<Scalar>(device, count);
  const auto c = keel::Buffer::of<float>(device, count);
  const std::vector<Scalar> values = noise<Scalar>(size * size, convert);
  stream.upload(a, values);
  stream.upload(b, values);
  const keel_dtype dtype = keel::dtype_of<Scalar>;
  const keel::OpCall product(
      KEEL_OP_MATMUL, {a.tensor(dtype, {size, size}), b.tensor(dtype, {size, size}), nullptr},
      {c.tensor(KEEL_FLOAT32, {size, size})},
      {/*trans_a=*/0, /*trans_b=*/1, /*alpha=*/1.0, /*beta=*/0.0, /*activation=*/0});
  product.run(stream);  // compiles kernels
  stream.synchronize();
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kRepeats; ++i) product.run(stream);
    stream.synchronize();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count() / kRepeats);
  }
  return best;
}

}  // namespace

double measure_product_roof(keel::Device device, Precision precision) {
  keel::Stream stream(device);
  double roof = 0;
  for (int64_t size = kSmallest; size <= kLargest; size *= 2) {
    const double seconds =
        precision == Precision::kBFloat16
            ? time_product<keel::bfloat16_t>(stream, size, keel::to_bfloat16)
            : time_product<float>(stream, size, [](float value) { return value; });
    const auto side = static_cast<double>(size);
    roof = std::max(roof, 2 * side * side * side / seconds);
    if (seconds > kLongEnough) break;
  }
  return roof;
}

}  // namespace train_gpt
