// SPDX-License-Identifier: Apache-2.0
// A TCP connection for a thread that waits for it.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TCP_DIALOG_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TCP_DIALOG_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/messages.h"
#include "collectives/bootstrap/tcp_socket.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// A connection for a thread that waits: sends and receives whole messages. Ends at the deadline
// with KEEL_TIMED_OUT, on |cancelled| with KEEL_ABORTED. Not thread-safe.
class TcpDialog {
 public:
  explicit TcpDialog(const std::atomic<bool>* cancelled = nullptr) : cancelled_(cancelled) {}

  // KEEL_UNAVAILABLE when no process listens, KEEL_RANK_FAILED when the host does not answer or
  // this host has no route to it. |from|, unless NULL: the connection's own address.
  Status connect(const SocketAddress& address, uint32_t silence, const Deadline& deadline,
                 const SocketAddress* from = nullptr);
  Status send(ByteView bytes, const Deadline& deadline);
  // Receives one message of up to |limit| bytes and not a byte more.
  Status receive(size_t limit, const Deadline& deadline, Bytes* out_message);
  // Whether bytes, or the end, can be read before |deadline|.
  Status wait_readable(const Deadline& deadline);
  int get() const { return socket_.get(); }
  // Whether the last connect() found a route, so that another attempt may succeed soon.
  bool has_route() const { return has_route_; }
  // The connection is made: from now on an idle or slow one ends by set_options() alone.
  Status end_handshake() { return set_connect_limit(socket_.get(), 0); }
  // Gives the connection away. After end_handshake().
  FileDescriptor take() { return std::move(socket_); }

 private:
  Status wait(short events, const Deadline& deadline);
  Status read_exactly(uint8_t* out_bytes, size_t size, const Deadline& deadline);

  const std::atomic<bool>* const cancelled_;
  FileDescriptor socket_;
  bool has_route_ = true;
};

// Size that the header of a message states; KEEL_DATA_LOSS if it is no header of Keel's, or above
// |limit|. |bytes|: kMessageHeader bytes.
Status message_size(ByteView header, size_t limit, size_t* out_size);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TCP_DIALOG_H_
