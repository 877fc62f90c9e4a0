// SPDX-License-Identifier: Apache-2.0
// The TCP connection beside the UCX endpoint of two ranks.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_CONTROL_H_
#define KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_CONTROL_H_

#include <array>
#include <cstdint>
#include <optional>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/messages.h"
#include "collectives/bootstrap/silence_watch.h"
#include "collectives/transports/ucx/ucx_operation.h"
#include "collectives/transports/wire.h"
#include "core/status.h"

namespace keel {

// First message in each direction: how to reach the sender's worker, and the key that the sender
// wants to see in the header of each message from the receiver.
struct UcxGreeting {
  UcxKey key = {};
  Bytes address;
  bool operator==(const UcxGreeting&) const = default;
};
// Second message, without content: the sender's endpoint is connected.
// From then on, without content: the sender waits, and its kernel wants an acknowledgement.
// Last message: the sender leaves in order, and this is what it has sent on each lane.
struct UcxFarewell {
  std::array<uint64_t, WireSet::kLanes> sent = {};
  bool operator==(const UcxFarewell&) const = default;
};
Bytes write_ucx_greeting(const UcxGreeting& greeting);
Bytes write_ucx_connected();
Bytes write_ucx_probe();
Bytes write_ucx_farewell(const UcxFarewell& farewell);

// Carries these messages over the authenticated connection of WireHub. The kernel tells through it
// that the peer has ended, or is silent (KEEL_TCP_SILENCE_MS), whatever transport UCX uses. Never
// blocks. For one thread.
class UcxControl {
 public:
  void attach(FileDescriptor socket);
  bool is_attached() const { return static_cast<bool>(socket_); }
  int socket() const { return socket_.get(); }

  // Sends as much as the kernel takes; move() sends the rest.
  void send(const Bytes& message);
  // Sends and receives what is possible at once. KEEL_DATA_LOSS for malformed bytes.
  Status move();
  // Call from time to time while the rank waits for the peer: data goes through UCX, so that the
  // kernel hears of a silent host by probes alone, one each silence_ms(). KEEL_RANK_FAILED: the
  // other host has acknowledged nothing for kWireSilences times silence_ms().
  Status look_for_silence(int64_t now_ns);
  // Call before the rank waits, after a time without these calls.
  void restart_silence() { silence_.restart(); }
  // Messages that have come; |greeting| stays until the caller resets it.
  std::optional<UcxGreeting> greeting;
  bool is_connected = false;
  std::optional<UcxFarewell> farewell;
  // KEEL_OK while the connection is open; else why it has ended.
  const Status& end() const { return end_; }

 private:
  void push();
  Status take_messages();

  FileDescriptor socket_;
  Bytes out_;
  Bytes in_;
  Status end_;
  SilenceWatch silence_{0};
  int64_t probe_ns_ = 0;  // between two probes; 0: none
  int64_t next_probe_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_CONTROL_H_
