// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_LEVEL_ZERO_STREAM_H_
#define KEEL_BACKENDS_LEVEL_ZERO_STREAM_H_

#include <keel/abi.h>

#include <deque>
#include <memory>

#include "backends/level_zero/device.h"

namespace keel::gpu {

// An immediate command list, or a list of the caller that the stream wraps. Level Zero may run the
// commands of a list in any order: each command but the first goes behind a barrier.
//
// Large copies to and from the host go to a list of a copy engine, where the device reports one, so
// that the copies of one stream overlap the kernels of others. Events keep both lists in order.
class Stream {
 public:
  static keel_status create(Device& device, int32_t priority, std::unique_ptr<Stream>* out_stream);
  // The caller keeps owning |native|, an immediate list of the device.
  static keel_status wrap(Device& device, ze::CommandList native,
                          std::unique_ptr<Stream>* out_stream);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  // Returns the list of kernels, for work of the caller: all later work goes there.
  keel_status unwrap(void** out_native);

  keel_status copy(keel_copy_kind kind, void* destination, const void* source, uint64_t size);
  keel_status copy_peer(Device& destination_device, void* destination, Device& source_device,
                        const void* source, uint64_t size);
  keel_status fill(void* destination, const void* pattern, uint32_t pattern_size, uint64_t size);
  keel_status launch(ze::Kernel kernel, const ze::GroupCount& groups);

  // Signals |event| once all work so far is done.
  keel_status signal(ze::Event event);
  // Makes later work wait for |event|, and signals |passed|, if not NULL, behind the wait.
  keel_status wait(ze::Event event, ze::Event passed = nullptr);
  // Writes the device's clock to |destination|, host memory, and then signals |event|.
  keel_status write_timestamp(uint64_t* destination, ze::Event event);

 private:
  struct List {
    ze::CommandList native = nullptr;
    bool is_ordered = true;  // nothing was appended behind the last barrier
  };

  Stream(Device& device, bool is_owned) : device_(device), is_owned_(is_owned) {}

  keel_status create_list(uint32_t group, List* out_list);
  // Makes |list| the one that receives work, behind the other list's work.
  keel_status turn_to(List& list);
  keel_status link(List& from, List& to);
  // Appends a command to |list|, which gets a barrier first if needed.
  template <typename Body>
  keel_status append(List& list, const char* name, Body&& body) {
    const keel_status status = turn_to(list);
    if (status != KEEL_OK) return status;
    return device_.call(name, [&](const ze::Functions& ze) {
      if (!list.is_ordered) {
        const ze::Result result = ze.CommandListAppendBarrier(list.native, nullptr, 0, nullptr);
        if (result != ze::kSuccess) return result;
        list.is_ordered = true;
      }
      const ze::Result result = body(ze, list.native);
      if (result == ze::kSuccess) list.is_ordered = false;
      return result;
    });
  }
  keel_status append_copy(List& list, void* destination, const void* source, uint64_t size);
  bool is_for_engine(keel_copy_kind kind, uint64_t size) const;

  Device& device_;
  const bool is_owned_;
  int32_t priority_ = 0;
  bool is_shared_ = false;  // native work may be on the list of kernels
  List kernels_;
  List copies_;
  List* active_ = &kernels_;
  // Events of link(), oldest first. One is free once a later one is signalled.
  std::deque<ze::Event> links_;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_LEVEL_ZERO_STREAM_H_
