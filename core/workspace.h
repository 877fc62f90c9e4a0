// SPDX-License-Identifier: Apache-2.0
// Scratch memory shared by all work of one stream.
#ifndef KEEL_CORE_WORKSPACE_H_
#define KEEL_CORE_WORKSPACE_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "core/memory.h"
#include "core/status.h"

namespace keel {

class Stream;

// One buffer is enough for all work of an in-order stream. The buffer grows by doubling; smaller
// buffers stay until the end, for a thread about to use one, and together take no more memory than
// the largest. Thread-safe.
class Workspace {
 public:
  // Returns device memory of |stream|, at least |size| bytes.
  Status get(Stream& stream, uint64_t size, void** out_pointer);
  // Frees all buffers once the stream's work is done.
  Status free_all(Memory& memory);

 private:
  std::mutex mutex_;            // leaf lock
  std::vector<void*> buffers_;  // the last is the largest
  uint64_t size_ = 0;           // of the largest
};

}  // namespace keel

#endif  // KEEL_CORE_WORKSPACE_H_
