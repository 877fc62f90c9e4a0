// SPDX-License-Identifier: Apache-2.0
// The UCX wire of a rank to one peer: its endpoint, its lanes, and the connection beside it.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_PEER_H_
#define KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_PEER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/transports/ucx/ucx_control.h"
#include "collectives/transports/ucx/ucx_operation.h"
#include "collectives/transports/ucx/ucx_worker.h"
#include "collectives/transports/wire.h"
#include "collectives/transports/wire_queue.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// The common part of the peers of a set of wires.
struct UcxShared {
  UcxWorker worker;
  UcxOperationPool operations;
  WireSet::Traffic traffic;
  uint32_t rank = 0;
  uint64_t epoch = 0;
};

// A message is an active message with a UcxHeader. UCX has no posted receives for active messages:
// an early message stays in UCX (eager, up to kEagerBytes) or at the sender (rendezvous) until the
// receive is posted. Messages may overtake each other in UCX; lanes sort by message number.
//
// Two ranks open their endpoints one after the other, the higher rank first, and announce each
// opening through UcxControl. A hello of the higher rank then makes UCX exchange the identities of
// the endpoints, as the rendezvous requires. UCX 1.13 ends the process if a peer ends, or the
// worker is destroyed, while an answer waits for a transport without a connection.
//
// A send is done when UCX no longer reads the send's memory. Data that UCX still buffers goes out
// with the worker's progress, driven by UcxWires also outside of calls: a flush of the endpoint
// would wait for the peer. For one thread at a time.
class UcxPeer {
 public:
  UcxPeer(uint32_t rank, UcxShared& shared) : rank_(rank), shared_(shared) {
    for (Lane& lane : lanes_) lane.arrivals.reserve(kWindow);
  }
  UcxPeer(const UcxPeer&) = delete;
  UcxPeer& operator=(const UcxPeer&) = delete;

  uint32_t rank() const { return rank_; }
  // Takes the authenticated connection and greets the peer.
  Status attach(FileDescriptor socket);
  UcxControl& control() { return control_; }

  void post_send(uint32_t lane, WireRequest& request);
  void post_receive(uint32_t lane, WireRequest& request);
  bool is_idle() const { return posted_ == 0; }
  uint64_t posted() const { return posted_; }
  bool is_active = false;  // in the list of the set of wires

  // Takes a message from UCX. |data|: |header.bytes| bytes, or the descriptor of a rendezvous.
  ucx::Result take_message(const UcxHeader& header, void* data, bool is_rendezvous);
  // Moves messages as far as possible, after progress of the worker. A failure leaves the requests
  // posted.
  Status move();
  // Reads the connection beside the endpoint; move() returns a failure found here. False: nothing
  // is left to read.
  bool move_control();
  // Time until move() may return a failure without an event; INT64_MAX: none.
  int64_t judges_in_ns() const;

  // Ends all posted requests with |why|; a request in UCX's hands ends when UCX is done with the
  // memory. No request may be posted from now on.
  void end(const Status& why);
  bool is_touched() const { return in_flight_ != 0; }
  // Ends |operation|, left over from end(), after the worker was closed.
  void abandon(UcxOperation& operation);
  // Leaves in order: |is_forced| false. Else requests end canceled.
  void say_farewell();
  void close(bool is_forced);
  bool is_closing();
  // Gives up waiting for the end of close(), as UCX demands before the worker is destroyed.
  void forget_closing();

  // A message of up to kEagerBytes travels at once, a longer message when the receive is posted.
  static constexpr uint64_t kEagerBytes = 8192;
  // Limit of a lane's messages that the receiver has not taken yet; empty messages do not count.
  static constexpr uint64_t kWindow = 64;

 private:
  struct Arrival {
    UcxHeader header;
    void* data = nullptr;
    bool is_rendezvous = false;
  };
  struct Lane {
    WireQueue sends;  // not given to UCX yet
    uint64_t next_send = 0;
    uint64_t taken = 0;       // messages that the receiver has certainly taken
    uint64_t rendezvous = 0;  // sends in flight by rendezvous: their ends prove what was taken
    WireQueue receives;       // without a message yet
    uint64_t next_receive = 0;
    uint64_t posted_receives = 0;   // in |receives|
    std::vector<Arrival> arrivals;  // by their numbers, ascending
  };

  // Does the next step of opening, if it is this rank's turn.
  void open();
  void make_endpoint();
  void send_hello();
  void launch(Lane& lane, uint32_t number);
  void match(Lane& lane);
  void start_receive(Lane& lane, const Arrival& arrival);
  void give(WireRequest& request, const UcxHeader& header, const void* data);
  void release(const Arrival& arrival);
  ucx::RequestParam param_of(UcxOperation& operation, const void** out_buffer, size_t* out_count);
  void on_done(UcxOperation& operation, ucx::Result result);
  void finish(UcxOperation& operation, const Status& status);
  void finish(WireRequest& request, Status status);
  void break_endpoint(ucx::Result result);
  Status judge();

  static void on_connected(void* request, ucx::Result result, void* peer);
  static void on_hello(void* request, ucx::Result result, void* peer);
  static void on_sent(void* request, ucx::Result result, void* operation);
  static void on_received(void* request, ucx::Result result, size_t length, void* operation);
  static void on_error(void* peer, ucx::Endpoint* endpoint, ucx::Result result);

  const uint32_t rank_;
  UcxShared& shared_;
  UcxControl control_;
  UcxKey own_key_ = {};   // in messages from the peer
  UcxKey peer_key_ = {};  // in messages to the peer
  ucx::Endpoint* endpoint_ = nullptr;
  UcxHeader hello_;         // sent: UCX may read it until on_hello()
  bool has_hello_ = false;  // received
  bool is_open_ = false;    // may be used
  ucx::Pending closing_ = nullptr;
  std::array<Lane, WireSet::kLanes> lanes_;
  uint64_t posted_ = 0;     // requests that are not done
  uint64_t in_flight_ = 0;  // of |posted_|: UCX may touch the memory
  UcxOperations broken_;    // ended by UCX with an error; done when the reason is known
  Status failure_;          // of the protocol, or of the endpoint's making
  std::optional<ucx::Result> endpoint_error_;
  std::optional<Deadline> judgement_;  // when a broken connection becomes a failure
  Status end_;                         // of end()
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_PEER_H_
