// SPDX-License-Identifier: Apache-2.0
// Helper streams, for parts of one stream's work.
#ifndef KEEL_CORE_HELPER_STREAMS_H_
#define KEEL_CORE_HELPER_STREAMS_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "core/deadline.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

class Device;
class Stream;

// Internal streams, one per device (two after a race), leased from their devices until the owning
// stream closes. Thread-safe; no lock is held while take() waits for a stream.
class HelperStreams {
 public:
  // Returns the helper stream on |device|. KEEL_CANCELLED after refuse().
  Status take(Device& device, Ref<Stream>* out_stream);
  // Sum of the items enqueued so far on all helper streams.
  uint64_t enqueued() const;
  // Waits for the work of the helper streams. Called once the owner, which already has their
  // failures, has failed and is drained. |*out_enqueued|, if not NULL, is set to enqueued() at the
  // start of the wait.
  Status drain(const Deadline& deadline, uint64_t* out_enqueued = nullptr);

  // After refuse(), take() adds no helper stream. Once all helper streams are drained or given up,
  // give_back() returns them to their devices, or abandon() drops them.
  void refuse();
  void give_back();
  void abandon();

 private:
  Ref<Stream> find_locked(const Device& device) const;
  bool keep_locked(const Ref<Stream>& stream);

  mutable std::mutex mutex_;  // leaf lock
  std::vector<Ref<Stream>> helper_streams_;
  bool refuses_ = false;
};

}  // namespace keel

#endif  // KEEL_CORE_HELPER_STREAMS_H_
