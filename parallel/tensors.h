// SPDX-License-Identifier: Apache-2.0
// Device memory of one rank: stream-ordered, and counted so that tests compare the peak with the
// formula of a strategy.
#ifndef KEEL_PARALLEL_TENSORS_H_
#define KEEL_PARALLEL_TENSORS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <keel/keel.hpp>
#include <memory>
#include <string>

namespace keel::parallel {

class Memory;

// Tensors of a rank by purpose, as an error of a full device lists them.
enum class Use : uint8_t { kValues, kGradients, kMoments, kActivations };
inline constexpr size_t kUses = 4;

// A tensor that owns its memory together with its copies; the last copy frees. Empty if
// default-constructed. Not thread-safe.
class Tensor {
 public:
  Tensor() = default;

  const keel_tensor& view() const { return view_; }
  operator const keel_tensor&() const { return view_; }
  operator Operand() const { return Operand(view_); }
  explicit operator bool() const { return block_ != nullptr; }
  void reset() { *this = Tensor(); }

 private:
  friend class Memory;
  struct Block {
    Block(const Stream& stream, uint64_t size, Memory& memory, Use use);
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block();
    Memory& memory;
    Buffer buffer;
    Use use;
  };
  keel_tensor view_{};
  std::shared_ptr<Block> block_;
};

// Allocates in the order of one stream. The bytes are those in use at each point of that order, so
// the peak does not depend on how far the host runs ahead. Outlives its tensors. Not thread-safe.
class Memory {
 public:
  explicit Memory(Stream& stream) : stream_(stream) {}

  // float32, int32 or bfloat16. Throws Error(KEEL_OUT_OF_MEMORY), which names the tensor's shape
  // and purpose, and the bytes that each purpose holds.
  Tensor take(std::initializer_list<int64_t> shape, keel_dtype dtype = KEEL_FLOAT32,
              Use use = Use::kActivations);
  Tensor zeroes(std::initializer_list<int64_t> shape, Use use = Use::kActivations);

  Stream& stream() { return stream_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t peak() const { return peak_; }
  void reset_peak() { peak_ = bytes_; }

 private:
  friend struct Tensor::Block;
  Stream& stream_;
  uint64_t bytes_ = 0, peak_ = 0;
  std::array<uint64_t, kUses> bytes_of_{};
};

// The text of an error without the name of its status, which a new error of that status begins
// with.
std::string text_of(const Error& error);

// Views of dense tensors.
keel_tensor reshaped(const keel_tensor& tensor, std::initializer_list<int64_t> shape);
keel_tensor rows_of(const keel_tensor& matrix, int64_t first, int64_t count);
keel_tensor elements_of(const keel_tensor& tensor, int64_t first, int64_t count);
int64_t count_of(const keel_tensor& tensor);
// Enqueues zeroes.
void clear(const Stream& stream, const keel_tensor& tensor);

}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_TENSORS_H_
