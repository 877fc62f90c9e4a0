// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_STREAM_H_
#define KEEL_EMULATOR_STREAM_H_

#include <cstdint>
#include <memory>

#include "emulator/completion.h"
#include "emulator/device.h"
#include "emulator/queue.h"
#include "emulator/status.h"

namespace keel::emulator {

// The device memory that a piece of work writes, for an injected corruption.
struct Result {
  Address address = 0;
  uint64_t size = 0;
};

// An in-order queue of work. Each call returns before its work is done. After a failure of work,
// query, synchronize and later records return that failure each time, and work enqueued behind the
// failure does not run. One thread at a time may enqueue; all other calls are thread-safe.
// Analogue: CUstream, aclrtStream, XPUStream.
class Stream {
 public:
  // |priority|: the stream with the lowest number goes first where streams compete for an engine.
  static Status create(std::shared_ptr<Device> device, int priority,
                       std::unique_ptr<Stream>* out_stream);
  // Cancels work that has not run, including hung work.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return *device_; }

  // Reads pinned memory at |source| when the copy runs; reads pageable memory before the call
  // returns, unless the device has pageable_async.
  Status copy_from_host(Address destination, const void* source, uint64_t size);
  Status copy_to_host(void* destination, Address source, uint64_t size);
  Status copy_within(Address destination, Address source, uint64_t size);
  // Copies between any two devices.
  Status copy_peer(Device& destination_device, Address destination, Device& source_device,
                   Address source, uint64_t size);
  // |pattern_size|: 1, 2, 4 or 8; divides |size|.
  Status fill(Address destination, const void* pattern, uint32_t pattern_size, uint64_t size);
  // Runs |kernel|, which accesses memory only through its Access.
  Status launch(const Work& work, const Result& result, Kernel kernel);
  // Like launch(), for a part of a call that was counted as a whole; |injection| holds the part's
  // faults.
  Status launch_part(const Work& work, const Result& result, Kernel kernel,
                     const Injection& injection);

  Status record(std::shared_ptr<Completion> completion);
  // Makes later work wait for |completion|, of any device or of the host.
  Status wait(std::shared_ptr<Completion> completion);

  Status query() const;
  Status synchronize(Time deadline) const;

 private:
  Stream(std::shared_ptr<Device> device, int priority);
  Status push_work(CallKind kind, const Work& work, Command command);

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<StreamState> state_;
  const std::shared_ptr<Queue> queue_;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_STREAM_H_
