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

// An event, which a stream can record repeatedly. Each record has its own completion, so a waiter
// of an earlier record keeps waiting for that record. An event never recorded is done. Thread-safe.
// Analogue: CUevent, aclrtEvent.
class Event {
 public:
  explicit Event(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // Records on |stream|, of any device.
  Status record(Stream& stream);
  // Makes all work enqueued on |stream| from now on wait for the last record.
  Status hold_back(Stream& stream) const;

  // Returns kNotReady, success, the failure of the stream before the record, or the device's loss.
  Status query() const;
  // Blocks until the last record is done; kTimedOut at |deadline|.
  Status wait(Time deadline) const;
  // Registers |callback| with the last record: see Completion::notify.
  void notify(Completion::Callback callback) const;

  // Returns the time from |start| to |end| by the chip's clock, or 0 if |end| precedes |start|.
  // Both events must be recorded and done.
  static uint64_t elapsed_ns(const Event& start, const Event& end);

 private:
  std::shared_ptr<Completion> current() const;

  const std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;
  std::shared_ptr<Completion> current_;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_EVENT_H_
