// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_ASCEND_STREAM_H_
#define KEEL_BACKENDS_ASCEND_STREAM_H_

#include <keel/abi.h>

#include <memory>

#include "backends/ascend/device.h"
#include "backends/ascend/operator_calls.h"

namespace keel::ascend {

// An aclrtStream that stops after a failure, or a wrapped stream of the caller.
class Stream {
 public:
  static keel_status create(Device& device, int32_t priority, std::unique_ptr<Stream>* out_stream);
  // Wraps a stream of the device's default context that the caller keeps owning.
  static keel_status wrap(Device& device, aclrtStream native, std::unique_ptr<Stream>* out_stream);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  aclrtStream native() const { return native_; }
  OperatorCalls& operators() { return operators_; }

  keel_status query();
  keel_status copy(keel_copy_kind kind, void* destination, const void* source, uint64_t size);
  keel_status fill(void* destination, const void* pattern, uint32_t pattern_size, uint64_t size);

 private:
  Stream(Device& device, bool is_owned) : device_(device), is_owned_(is_owned) {}

  keel_status copy_native(void* destination, const void* source, uint64_t size,
                          aclrtMemcpyKind kind);
  // Copies through pinned blocks, since only pinned memory may be accessed after the call.
  keel_status upload_pageable(void* destination, const void* source, uint64_t size);
  keel_status download_pageable(void* destination, const void* source, uint64_t size);
  // Copies between addresses that the copy engine refuses.
  keel_status copy_unaligned(void* destination, const void* source, uint64_t size);
  // Calls |body(memory, offset, bytes)| for each part of |size| bytes, with the memory of a block.
  // Once the work that |body| enqueues is done, the part is copied to |download|, unless NULL, and
  // the block given back.
  template <typename Body>
  keel_status copy_by_blocks(uint64_t size, void* download, Body&& body);
  keel_status take_block(PinnedPool::Block** out_block);

  Device& device_;
  const bool is_owned_;
  aclrtStream native_ = nullptr;
  void* bounce_ = nullptr;  // pinned memory of copy_unaligned(), from its first use on
  OperatorCalls operators_{device_, native_};
};

}  // namespace keel::ascend

#endif  // KEEL_BACKENDS_ASCEND_STREAM_H_
