// SPDX-License-Identifier: Apache-2.0
// Tensors of one operator on a device, and the operator on several equal sets of tensors.
#ifndef KEEL_BENCH_OP_TENSORS_H_
#define KEEL_BENCH_OP_TENSORS_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <keel/keel.hpp>
#include <memory>
#include <vector>

namespace keel::bench {

// Allocates and owns tensors. Their values are unordered, and no operator produces infinities or
// subnormals from them.
class OpTensors {
 public:
  explicit OpTensors(Device device) : stream_(device) {}

  keel_tensor uniform(keel_dtype dtype, std::initializer_list<int64_t> shape, float low = -2,
                      float high = 2);
  // Returns the result of pack_weights for |b| [k,n].
  keel_tensor packed(const keel_tensor& b);
  // Returns int32 values in [0, bound).
  keel_tensor labels(int64_t count, int64_t bound);
  // Returns int32 values, each number below |count| once.
  keel_tensor permutation(int64_t count);

 private:
  keel_tensor add(keel_dtype dtype, std::initializer_list<int64_t> shape, const void* values,
                  uint64_t value_bytes);

  Stream stream_;
  std::vector<Buffer> memory_;
};

// Returns the host address of a tensor in memory of |device|; null if the host cannot access the
// memory.
void* host_address(Device device, const keel_tensor& tensor);

// One operator on several sets of tensors, used in turn.
class OpRotation {
 public:
  using Make = std::function<std::unique_ptr<OpCall>(OpTensors& tensors)>;

  OpRotation(Device device, size_t sets, const Make& make);

  size_t sets() const { return calls_.size(); }
  OpCall& call(size_t set) { return *calls_[set]; }
  // The stream that run() and enqueue() use.
  Stream& stream() { return stream_; }
  void enqueue(uint64_t count);
  // Enqueues |count| calls and waits for all of them.
  void run(uint64_t count);

 private:
  OpTensors tensors_;
  std::vector<std::unique_ptr<OpCall>> calls_;
  Stream stream_;
  size_t next_ = 0;
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_OP_TENSORS_H_
