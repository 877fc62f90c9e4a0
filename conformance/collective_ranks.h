// SPDX-License-Identifier: Apache-2.0
// A communicator over the backend's devices, for cases of level collectives that call keel.h.
#ifndef KEEL_CONFORMANCE_COLLECTIVE_RANKS_H_
#define KEEL_CONFORMANCE_COLLECTIVE_RANKS_H_

#include <cstdint>
#include <vector>

#include "conformance/harness.h"

namespace keel::conformance {

// One rank with a stream per device of the backend, at most eight ranks.
class Ranks {
 public:
  // |reversed|: rank 0 is on the last device.
  explicit Ranks(const Context& context, bool reversed = false, Where where = Where::current());
  // Adopts existing communicators and creates a stream on each of |devices|: rank i on device i.
  Ranks(const Context& context, std::vector<keel_comm> comms, std::vector<keel_device> devices);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  const Context& context() const { return context_; }
  uint32_t world() const { return static_cast<uint32_t>(comms_.size()); }
  keel_comm comm(uint32_t rank) const { return comms_[rank]; }
  const Stream& stream(uint32_t rank) const { return streams_[rank]; }
  Buffer buffer(uint32_t rank, uint64_t bytes) const;
  uint64_t native_operations(Where where = Where::current()) const;
  void synchronize(Where where = Where::current()) const;
  void recover(Where where = Where::current()) const;
  // Waits for every stream, regardless of failures, and returns the observed statuses. A stream
  // whose work has not ended meanwhile is waited for |waits| times.
  std::vector<keel_status> statuses(uint32_t waits = 1, Where where = Where::current()) const;

 private:
  const Context& context_;
  std::vector<keel_comm> comms_;
  std::vector<Stream> streams_;
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_COLLECTIVE_RANKS_H_
