// SPDX-License-Identifier: Apache-2.0
#include "bench/op_tensors.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>

namespace keel::bench {

namespace {

// Number of distinct values; a larger tensor repeats them.
constexpr int64_t kValues = int64_t{1} << 18;

int64_t count_of(std::initializer_list<int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

template <typename Element>
std::vector<Element> repeat_to(std::vector<Element> values, int64_t count) {
  const size_t period = values.size();
  values.resize(static_cast<size_t>(count));
  for (size_t i = period; i < values.size(); ++i) values[i] = values[i - period];
  return values;
}

}  // namespace

keel_tensor OpTensors::add(keel_dtype dtype, std::initializer_list<int64_t> shape,
                           const void* values, uint64_t value_bytes) {
  const uint64_t bytes = static_cast<uint64_t>(count_of(shape)) * value_bytes;
  const Buffer& buffer =
      memory_.emplace_back(stream_.device(), KEEL_MEMORY_DEVICE, std::max<uint64_t>(1, bytes));
  stream_.copy(stream_.device(), buffer.data(), Device(), values, bytes);
  stream_.synchronize();
  return buffer.tensor(dtype, shape);
}

keel_tensor OpTensors::uniform(keel_dtype dtype, std::initializer_list<int64_t> shape, float low,
                               float high) {
  const int64_t count = count_of(shape);
  std::mt19937 random(static_cast<uint32_t>(memory_.size()));
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(static_cast<size_t>(std::min(count, kValues)));
  for (float& value : values) value = distribution(random);
  if (dtype == KEEL_FLOAT32) {
    return add(dtype, shape, repeat_to(std::move(values), count).data(), sizeof(float));
  }
  if (dtype != KEEL_BFLOAT16) throw std::logic_error("no random values of that dtype");
  std::vector<bfloat16_t> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(), to_bfloat16);
  return add(dtype, shape, repeat_to(std::move(rounded), count).data(), sizeof(bfloat16_t));
}

keel_tensor OpTensors::packed(const keel_tensor& b) {
  const int64_t k = KEEL_PACKED_EXTENT(b.shape[0]);
  const int64_t n = KEEL_PACKED_EXTENT(b.shape[1]);
  const std::vector<char> zeroes(static_cast<size_t>(k * n) * (b.dtype == KEEL_FLOAT32 ? 4 : 2));
  const keel_tensor tensor = add(b.dtype, {k, n}, zeroes.data(), zeroes.size() / size_t(k * n));
  ops::pack_weights(stream_, {.b = b, .packed = tensor});
  stream_.synchronize();
  return tensor;
}

keel_tensor OpTensors::labels(int64_t count, int64_t bound) {
  std::mt19937 random(static_cast<uint32_t>(memory_.size()));
  std::uniform_int_distribution<int32_t> distribution(0, static_cast<int32_t>(bound - 1));
  std::vector<int32_t> values(static_cast<size_t>(count));
  for (int32_t& value : values) value = distribution(random);
  return add(KEEL_INT32, {count}, values.data(), sizeof(int32_t));
}

keel_tensor OpTensors::permutation(int64_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  std::shuffle(values.begin(), values.end(), std::mt19937(static_cast<uint32_t>(memory_.size())));
  return add(KEEL_INT32, {count}, values.data(), sizeof(int32_t));
}

void* host_address(Device device, const keel_tensor& tensor) {
  auto info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
  check(keel_memory_find(device.get(), tensor.data, &info));
  if (info.host_alias == nullptr) return nullptr;
  return static_cast<char*>(info.host_alias) +
         (static_cast<const char*>(tensor.data) - static_cast<const char*>(info.base));
}

OpRotation::OpRotation(Device device, size_t sets, const Make& make)
    : tensors_(device), stream_(device) {
  for (size_t i = 0; i < sets; ++i) calls_.push_back(make(tensors_));
}

void OpRotation::enqueue(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    calls_[next_]->run(stream_);
    next_ = (next_ + 1) % calls_.size();
  }
}

void OpRotation::run(uint64_t count) {
  enqueue(count);
  stream_.synchronize();
}

}  // namespace keel::bench
