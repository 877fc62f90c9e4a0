// SPDX-License-Identifier: Apache-2.0
// Messages between ranks of different hosts: the interface of TCP and of every other wire.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_WIRE_H_
#define KEEL_COLLECTIVES_TRANSPORTS_WIRE_H_

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Sixteen bytes that travel with a message and mean nothing to the wire: the fingerprint of the
// call that the message belongs to.
using WireMark = std::array<uint8_t, 16>;

// One message, in either direction. The caller owns the request and the memory it points to, and
// leaves both alone from post_send() or post_receive() until is_done(). May be reused then.
class WireRequest {
 public:
  WireRequest() = default;
  WireRequest(const WireRequest&) = delete;
  WireRequest& operator=(const WireRequest&) = delete;

  // ---- set by the caller before it posts ----
  // One range of memory; NULL and 0 for a message of its mark alone.
  void set_memory(void* begin, uint64_t bytes) {
    single_ = {begin, bytes};
    pieces_ = {&single_, 1};
  }
  // Ranges that together are the message, in this order. The array must live as long as the
  // request.
  void set_pieces(std::span<const iovec> pieces) { pieces_ = pieces; }
  void set_mark(const WireMark& mark) { mark_ = mark; }

  // ---- after the post, for the thread that calls progress() ----
  bool is_done() const { return state_ == State::kDone; }
  // KEEL_OK: a received message is complete in memory; a sent message has been copied by the
  // kernel, and the memory may be reused, although the peer may not have it yet.
  // KEEL_INVALID_ARGUMENT: the received message has another size than the memory; the memory is
  // undefined, the wire stays usable. Otherwise the failure of the wire.
  const Status& status() const { return status_; }
  // False also once a failure of the wire has ended the request.
  bool has_succeeded() const { return is_done() && status_.ok(); }
  // Whether a message has begun to arrive. A failure of the set may have any code, also
  // KEEL_INVALID_ARGUMENT, and ends requests without a message.
  bool has_message() const { return has_message_; }
  // The sender's mark and size of a received message. Also set with KEEL_INVALID_ARGUMENT, if
  // has_message().
  const WireMark& mark() const { return mark_; }
  uint64_t message_bytes() const { return message_bytes_; }
  uint64_t posted_bytes() const {
    uint64_t bytes = 0;
    for (const iovec& piece : pieces_) bytes += piece.iov_len;
    return bytes;
  }

  // ---- for wires ----
  enum class State : uint8_t { kIdle, kPosted, kDone };
  std::span<const iovec> pieces() const { return pieces_; }
  void start() {
    status_ = Status();
    message_bytes_ = 0;
    has_message_ = false;
    next_ = nullptr;
    state_ = State::kPosted;
  }
  void note_message(const WireMark& mark, uint64_t bytes) {
    mark_ = mark;
    message_bytes_ = bytes;
    has_message_ = true;
  }
  void finish(Status status) {
    status_ = std::move(status);
    state_ = State::kDone;
  }
  WireRequest* next_ = nullptr;  // in the queue of the wire

 private:
  iovec single_ = {};
  std::span<const iovec> pieces_;
  WireMark mark_ = {};
  uint64_t message_bytes_ = 0;
  bool has_message_ = false;
  Status status_;
  State state_ = State::kIdle;
};

// The wires of one rank of a communicator, one to each peer. A wire to a peer has lanes. Within a
// lane, and for each direction alone, the n-th message sent is the n-th received. Lanes do not wait
// for each other, nor do the directions of a lane.
//
// A sender may have to wait until the receiver has posted: no wire stores more than the socket
// buffers hold. So a rank posts its receives before it waits for its sends.
//
// A rank has one address, and so one NIC, for all lanes. Lanes are where several NICs would differ:
// HostRank would list addresses, and WireHub::connect() choose one by the lane.
//
// For one thread at a time, but for cancel() and wake(). Steady-state calls allocate nothing; the
// first post to a lane of a peer starts a thread that connects the lane.
//
// A failure is sticky for the whole set, names the peer and the cause, and ends every posted
// request; is_done() of a request is true only when the wire no longer touches its memory.
class WireSet {
 public:
  virtual ~WireSet() = default;
  WireSet(const WireSet&) = delete;
  WireSet& operator=(const WireSet&) = delete;

  // Number of lanes to each peer.
  static constexpr uint32_t kLanes = 4;

  // Sets the deadline of posts from now on. A connection that a peer's kernel accepts and the peer
  // leaves unanswered fails the set at the deadline, with KEEL_TIMED_OUT; without a deadline,
  // never. A host that accepts no connection fails the set with KEEL_RANK_FAILED, 5 s later at
  // most.
  virtual void set_deadline(const Deadline& deadline) = 0;
  // |peer|: rank in the session (HostTable), not the own rank. |lane|: 0 to kLanes - 1. After a
  // failure of the set the request is done at once.
  virtual void post_send(uint32_t peer, uint32_t lane, WireRequest& request) = 0;
  virtual void post_receive(uint32_t peer, uint32_t lane, WireRequest& request) = 0;

  // Moves what can be moved without blocking. Returns whether a request has ended or bytes have
  // moved. Cheap when nothing is posted.
  virtual bool progress() = 0;
  // Blocks until progress() may have something to do, cancel() or wake() was called, or
  // |timeout_ns| has passed. May return early.
  virtual void park(int64_t timeout_ns) = 0;
  // Becomes readable (poll, epoll) when park() would return; -1: none, use park().
  virtual int descriptor() const = 0;
  // Ends a concurrent or the next park(). Thread-safe.
  virtual void wake() = 0;

  // Fails the set with |reason| and wakes park(). Thread-safe: progress() of the owning thread ends
  // the requests. The first failure stays.
  virtual void cancel(const Status& reason) = 0;
  // The peers with posted requests from which this rank waits for a connection, ascending.
  virtual std::vector<uint32_t> unconnected() const = 0;
  // KEEL_OK, or the failure. |*out_peer|, if not NULL: the peer whose wire failed, or UINT32_MAX
  // after cancel(). KEEL_RANK_FAILED: the peer closed the connection, or the kernel judged it
  // silent. KEEL_DATA_LOSS: the peer broke the protocol.
  virtual Status failure(uint32_t* out_peer = nullptr) const = 0;

  // For `--explain`: "tcp".
  virtual const char* name() const = 0;
  struct Traffic {
    uint64_t messages_sent = 0;
    uint64_t bytes_sent = 0;  // without headers
    uint64_t messages_received = 0;
    uint64_t bytes_received = 0;
  };
  virtual Traffic traffic() const = 0;

 protected:
  WireSet() = default;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_WIRE_H_
