// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_EVENT_H_
#define KEEL_EMULATOR_EVENT_H_

#include <cstdint>
#include <memory>
#include <mutex>

#include "emulator/completion.h"
#include "emulator/device.h"
#include "emulator/status.h"
#include "emulator/stream.h"

namespace keel::emulator {

// A point of a stream that can be recorded again: each record is a completion of its
// own, so that what waited for an earlier one keeps it. Done while never recorded.
// Thread-safe. Analogue: CUevent, aclrtEvent.
class Event {
 public:
  explicit Event(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // On a stream of any device.
  Status record(Stream& stream);
  // What is enqueued on |stream| from now on runs after the last record.
  Status hold_back(Stream& stream) const;

  // kNotReady, success, the failure of the stream before the record, or the device's loss.
  Status query() const;
  // Blocks; kTimedOut at |deadline|.
  Status wait(Time deadline) const;
  // See Completion::notify, for the last record.
  void notify(Completion::Callback callback) const;

  // From |start| to |end| by the chip's clock, 0 where they ran the other way round.
  // Both are recorded and done.
  static uint64_t elapsed_ns(const Event& start, const Event& end);

 private:
  std::shared_ptr<Completion> current() const;

  const std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;
  std::shared_ptr<Completion> current_;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_EVENT_H_
