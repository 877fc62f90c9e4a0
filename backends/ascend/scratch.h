// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_ASCEND_SCRATCH_H_
#define KEEL_BACKENDS_ASCEND_SCRATCH_H_

#include <keel/abi.h>

#include <cstdint>
#include <vector>

#include "backends/ascend/device.h"

namespace keel::ascend {

// Device memory of one stream for the workspaces of operators. Work of a stream runs in order, so
// consecutive operators share the memory. A block that became too small stays until the end, since
// enqueued work may use it; sizes double, so all blocks together are at most twice the largest.
class Scratch {
 public:
  explicit Scratch(Device& device) : device_(device) {}
  // Requires that the stream's work is done.
  ~Scratch() {
    for (void* const block : blocks_) (void)device_.free(KEEL_MEMORY_DEVICE, block);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Returns at least |size| bytes in |*out_pointer|, NULL for a size of 0; KEEL_OUT_OF_MEMORY.
  keel_status reserve(uint64_t size, void** out_pointer) {
    *out_pointer = nullptr;
    if (size == 0) return KEEL_OK;
    if (size > size_) {
      const uint64_t wanted = size > 2 * size_ ? size : 2 * size_;
      blocks_.reserve(blocks_.size() + 1);
      void* block = nullptr;
      keel_status status = device_.alloc(KEEL_MEMORY_DEVICE, wanted, &block);
      if (status != KEEL_OK) return status;
      blocks_.push_back(block);
      size_ = wanted;
    }
    *out_pointer = blocks_.back();
    return KEEL_OK;
  }

 private:
  Device& device_;
  std::vector<void*> blocks_;
  uint64_t size_ = 0;  // of the last block
};

}  // namespace keel::ascend

#endif  // KEEL_BACKENDS_ASCEND_SCRATCH_H_
