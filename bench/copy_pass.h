// SPDX-License-Identifier: Apache-2.0
// Memory moved by memcpy on all cores: what operators are held against that do little but read and
// write.
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
  // |pair_bytes| of source and destination together, of each of two pairs that it goes through in
  // turn: more than the caches hold.
  CopyPass(uint32_t cores, uint64_t pair_bytes);

  // "memcpy on 2 threads"
  const std::string& name() const { return name_; }
  // Moves |bytes|, half of them read and half written, on from where it stopped.
  void move(uint64_t bytes);

 private:
  // Of the part that a thread has of one pair.
  struct Part {
    std::vector<std::byte> source;
    std::vector<std::byte> destination;
  };
  struct Thread {
    std::vector<Part> parts;
    size_t part = 0;      // where it goes on
    uint64_t offset = 0;  // and from which byte there
    std::function<void()> task;
  };

  void copy(Thread& thread) const;

  std::string name_;
  uint64_t part_bytes_;
  uint64_t share_ = 0;  // what each thread copies next
  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Worker>> workers_;  // last: they use the rest
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_COPY_PASS_H_
