// SPDX-License-Identifier: Apache-2.0
// Moves memory with memcpy on all cores: the reference for operators bound by memory bandwidth.
#ifndef KEEL_BENCH_COPY_PASS_H_
#define KEEL_BENCH_COPY_PASS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/worker.h"

namespace keel::bench {

class CopyPass {
 public:
  // Each of the two pairs of source and destination takes |pair_bytes| in total, more than the
  // caches hold. Copies alternate between the pairs.
  CopyPass(uint32_t cores, uint64_t pair_bytes);

  // "memcpy on 2 threads"
  const std::string& name() const { return name_; }
  // Moves |bytes|, half of them read and half written, and continues where the last call stopped.
  void move(uint64_t bytes);

 private:
  // A thread's part of a pair.
  struct Part {
    std::vector<std::byte> source;
    std::vector<std::byte> destination;
  };
  struct Thread {
    std::vector<Part> parts;
    size_t part = 0;      // part to continue in
    uint64_t offset = 0;  // byte to continue from
    std::function<void()> task;
  };

  void copy(Thread& thread) const;

  std::string name_;
  uint64_t part_bytes_;
  uint64_t share_ = 0;  // bytes that each thread copies next
  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Worker>> workers_;  // last: the workers use the rest
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_COPY_PASS_H_
