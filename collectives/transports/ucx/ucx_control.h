// SPDX-License-Identifier: Apache-2.0
// The TCP connection beside the UCX endpoint of two ranks.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_CONTROL_H_
#define KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_CONTROL_H_

#include <array>
#include <cstdint>
#include <optional>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/messages.h"
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
// Last message: the sender leaves in order, and this is what it has sent on each lane.
struct UcxFarewell {
  std::array<uint64_t, WireSet::kLanes> sent = {};
  bool operator==(const UcxFarewell&) const = default;
};
Bytes write_ucx_greeting(const UcxGreeting& greeting);
Bytes write_ucx_connected();
Bytes write_ucx_farewell(const UcxFarewell& farewell);

// Carries these messages over the authenticated connection of WireHub. The kernel tells through it
// that the peer has ended, or is silent (KEEL_TCP_SILENCE_MS), whatever transport UCX uses. Never
// blocks. For one thread.
class UcxControl {
 public:
  void attach(FileDescriptor socket) { socket_ = std::move(socket); }
  bool is_attached() const { return static_cast<bool>(socket_); }
  int socket() const { return socket_.get(); }

  // Sends as much as the kernel takes; move() sends the rest.
  void send(const Bytes& message);
  // Sends and receives what is possible at once. KEEL_DATA_LOSS for malformed bytes.
  Status move();
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
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_CONTROL_H_
