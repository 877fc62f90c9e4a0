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

// Where a piece of work leaves its result, for a corruption to hit: the device's memory.
struct Result {
  Address address = 0;
  uint64_t size = 0;
};

// An in-order queue of work. Each call returns before the work is done; what fails then
// is the answer of query, synchronize and of records made later, each time, and what is
// enqueued behind does not run. Enqueue from one thread at a time; the rest is
// thread-safe. Analogue: CUstream, aclrtStream, XPUStream.
class Stream {
 public:
  // |priority|: the lowest goes first where streams compete for an engine.
  static Status create(std::shared_ptr<Device> device, int priority,
                       std::unique_ptr<Stream>* out_stream);
  // Cancels what has not run, whatever it hangs in.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return *device_; }

  // |source| is pinned memory, or is read before the call returns unless the device is
  // set to read it later.
  Status copy_from_host(Address destination, const void* source, uint64_t size);
  Status copy_to_host(void* destination, Address source, uint64_t size);
  Status copy_within(Address destination, Address source, uint64_t size);
  // Between any two devices.
  Status copy_peer(Device& destination_device, Address destination, Device& source_device,
                   Address source, uint64_t size);
  // |pattern_size|: 1, 2, 4 or 8; divides |size|.
  Status fill(Address destination, const void* pattern, uint32_t pattern_size, uint64_t size);
  // Runs |kernel|, which reaches memory through its Access alone.
  Status launch(const Work& work, const Result& result, Kernel kernel);
  // The same for a part of a call that was counted as a whole: |injection| is what goes wrong.
  Status launch_part(const Work& work, const Result& result, Kernel kernel,
                     const Injection& injection);

  Status record(std::shared_ptr<Completion> completion);
  // What follows runs after |completion|, of any device or of the host.
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
