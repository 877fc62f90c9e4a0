// SPDX-License-Identifier: Apache-2.0
// The operators, launches and collectives that `keel conform perf` times, with their memory.
#ifndef KEEL_CONFORMANCE_PERF_WORKLOADS_H_
#define KEEL_CONFORMANCE_PERF_WORKLOADS_H_

#include <keel/keel.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <keel/plugin_kit.hpp>

#include "conformance/harness.h"
#include "conformance/kernel_calls.h"
#include "conformance/op_calls.h"

namespace keel::conformance {

// sum = a + b in float32.
class Addition {
 public:
  Addition(const Stream& stream, uint64_t bytes)
      : count_(static_cast<int64_t>(bytes / sizeof(float))),
        a_(stream.device(), KEEL_MEMORY_DEVICE, bytes),
        b_(stream.device(), KEEL_MEMORY_DEVICE, bytes),
        sum_(stream.device(), KEEL_MEMORY_DEVICE, bytes) {
    stream.fill(a_.data(), 0x3f800000, bytes);
    stream.fill(b_.data(), 0x3f800000, bytes);
  }
  const OpCall& call() const { return call_; }

 private:
  keel_tensor tensor(const Buffer& buffer) const {
    return kit::make_tensor(buffer.data(), KEEL_FLOAT32, {count_});
  }

  const int64_t count_;
  const Buffer a_, b_, sum_;
  const OpCall call_{KEEL_OP_ADD, {tensor(a_), tensor(b_)}, tensor(sum_)};
};

// A product of square matrices in float32.
class Product {
 public:
  Product(const Stream& stream, int64_t extent)
      : extent_(extent),
        a_(stream.device(), KEEL_MEMORY_DEVICE, bytes()),
        b_(stream.device(), KEEL_MEMORY_DEVICE, bytes()),
        c_(stream.device(), KEEL_MEMORY_DEVICE, bytes()) {
    stream.fill(a_.data(), 0x3f800000, bytes());
    stream.fill(b_.data(), 0x3f800000, bytes());
  }
  const OpCall& call() const { return call_; }

 private:
  uint64_t bytes() const { return static_cast<uint64_t>(extent_ * extent_) * sizeof(float); }
  keel_tensor tensor(const Buffer& buffer) const {
    return kit::make_tensor(buffer.data(), KEEL_FLOAT32, {extent_, extent_});
  }

  const int64_t extent_;
  const Buffer a_, b_, c_;
  const OpCall call_{KEEL_OP_MATMUL,
                     {tensor(a_), tensor(b_), /*bias=*/{}},
                     tensor(c_),
                     // Not transposed, alpha, beta, no activation.
                     {{.i = 0}, {.i = 0}, {.f = 1.0}, {.f = 0.0}, {.i = 0}}};
};

// The suite's kernel "number" over one block, with arguments that are laid out once: what remains
// is the call.
class KernelLaunch {
 public:
  // Throws CaseUnsupported if there is no binary in a format that the device takes.
  KernelLaunch(const Context& context, const Stream& stream)
      : set_(choose_set(context)),
        module_(context, set_, set_.number),
        result_(context.device(), KEEL_MEMORY_DEVICE, kThreads * sizeof(uint32_t)) {
    stream.fill(result_.data(), 0, result_.size());
    std::fill(std::begin(call_.grid), std::end(call_.grid), 1);
    std::fill(std::begin(call_.block), std::end(call_.block), 1);
    call_.block[0] = kThreads;
    call_.argument_count = 2;
    call_.arguments = arguments_;
    call_.argument_sizes = sizes_;
  }
  KernelLaunch(const KernelLaunch&) = delete;
  KernelLaunch& operator=(const KernelLaunch&) = delete;

  void enqueue(const Stream& stream) const {
    must(keel_kernel_launch(stream.get(), module_.kernel(), &call_), "keel_kernel_launch");
  }

 private:
  static constexpr uint32_t kThreads = 128;

  const KernelSet& set_;
  const Module module_;
  const Buffer result_;
  const void* const words_ = result_.data();
  const uint32_t first_ = 1;
  const void* const arguments_[2] = {&words_, &first_};
  const uint32_t sizes_[2] = {sizeof(words_), sizeof(first_)};
  keel_launch call_ = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
};

// Two ranks on two devices, driven by the calling thread.
class TwoRanks {
 public:
  TwoRanks(const Context& context, const NamedDevice& other, uint64_t bytes)
      : count_(bytes / sizeof(float)),
        streams_{Stream(context), Stream(context, other.handle)},
        buffers_{Buffer(context.device(), KEEL_MEMORY_DEVICE, bytes),
                 Buffer(other.handle, KEEL_MEMORY_DEVICE, bytes)} {
    const keel_device devices[] = {context.device(), other.handle};
    must(keel_comm_init_all(devices, 2, nullptr, comms_.data()), "keel_comm_init_all");
    // Sums of zeroes stay zero over any number of rounds.
    for (int rank = 0; rank < 2; ++rank) streams_[rank].fill(buffers_[rank].data(), 0, bytes);
    synchronize();
  }
  ~TwoRanks() {
    for (const keel_comm comm : comms_) keel_comm_destroy(comm);
  }
  TwoRanks(const TwoRanks&) = delete;
  TwoRanks& operator=(const TwoRanks&) = delete;

  void all_reduce() const {
    for (int rank = 0; rank < 2; ++rank) {
      must(keel_all_reduce(comms_[rank], buffers_[rank].data(), buffers_[rank].data(), count_,
                           KEEL_FLOAT32, KEEL_SUM, streams_[rank].get()),
           "keel_all_reduce");
    }
  }
  void synchronize() const {
    for (const Stream& stream : streams_) stream.synchronize();
  }

 private:
  const uint64_t count_;
  const std::array<Stream, 2> streams_;
  const std::array<Buffer, 2> buffers_;
  std::array<keel_comm, 2> comms_ = {};
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PERF_WORKLOADS_H_
