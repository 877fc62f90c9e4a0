// SPDX-License-Identifier: Apache-2.0
#include "bench/copy_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace keel::bench {

namespace {

constexpr size_t kPairs = 2;

}  // namespace

CopyPass::CopyPass(uint32_t cores, uint64_t pair_bytes)
    : name_(fmt::format("memcpy on {} threads", cores)),
      part_bytes_(std::max<uint64_t>(1, pair_bytes / 2 / cores)),
      threads_(cores) {
  for (Thread& thread : threads_) {
    thread.parts.resize(kPairs);
    for (Part& part : thread.parts) {
      // Writing allocates real memory: unwritten pages all map to one zero page.
      part.source.assign(part_bytes_, std::byte{1});
      part.destination.assign(part_bytes_, std::byte{2});
    }
    thread.task = [this, &thread] { copy(thread); };
  }
  for (uint32_t i = 1; i < cores; ++i) workers_.push_back(std::make_unique<Worker>());
}

void CopyPass::copy(Thread& thread) const {
  for (uint64_t left = share_; left > 0;) {
    if (thread.offset == part_bytes_) {
      thread.part = (thread.part + 1) % kPairs;
      thread.offset = 0;
    }
    Part& part = thread.parts[thread.part];
    const uint64_t bytes = std::min(left, part_bytes_ - thread.offset);
    std::memcpy(part.destination.data() + thread.offset, part.source.data() + thread.offset, bytes);
    thread.offset += bytes;
    left -= bytes;
  }
}

void CopyPass::move(uint64_t bytes) {
  share_ = std::max<uint64_t>(1, bytes / 2 / threads_.size());
  for (size_t i = 0; i < workers_.size(); ++i) workers_[i]->start(threads_[i + 1].task);
  threads_[0].task();
  for (const auto& worker : workers_) worker->wait();
}

}  // namespace keel::bench
