// SPDX-License-Identifier: Apache-2.0
// The UCX wires of one rank of a communicator.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_WIRES_H_
#define KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_WIRES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/transports/hub_wires.h"
#include "collectives/transports/ucx/ucx_idle_progress.h"
#include "collectives/transports/ucx/ucx_peer.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// A UCX worker, and an endpoint for each used peer. Two ranks connect as their TCP wires would, by
// the first post on the higher rank: over that authenticated connection they exchange the addresses
// of their workers and keys, and data goes through UCX.
class UcxWires final : public HubWires {
 public:
  // Opens the wires of the communicator |context| to the ranks of the hub's table.
  static Status open(std::shared_ptr<WireHub> hub, uint64_t context,
                     std::unique_ptr<WireSet>* out_wires);
  UcxWires(std::shared_ptr<WireHub> hub, uint64_t context) : HubWires(std::move(hub), context) {}
  // Fails what is still posted. Waits, up to a second, until UCX has closed the endpoints.
  ~UcxWires() override;

  void post_send(uint32_t peer, uint32_t lane, WireRequest& request) override;
  void post_receive(uint32_t peer, uint32_t lane, WireRequest& request) override;
  bool progress() override;
  void park(int64_t timeout_ns) override;
  // None: UCX's descriptor must be armed before each wait.
  int descriptor() const override { return -1; }
  std::vector<uint32_t> unconnected() const override;
  const char* name() const override { return "ucx"; }
  Traffic traffic() const override { return shared_.traffic; }

 private:
  static constexpr uint64_t kWorkerEvent = UINT64_MAX - 1;

  Status start();
  // The peer, connected if this rank is the one to connect it. NULL after a failure of the set.
  UcxPeer* peer(uint32_t rank, uint32_t lane);
  Status attach(UcxPeer& peer, FileDescriptor socket);
  // After a post: a peer without posted requests needs no progress().
  void retire_idle(UcxPeer& peer);
  void take_news();
  void look_for_silence();
  void fail(const Status& why, uint32_t peer);
  // After a failure: waits for UCX to let go of the requests. Returns whether there is progress.
  bool drain();
  // Ends the requests that UCX does not let go, without UCX.
  void abandon();
  bool is_touched() const;

  static ucx::Result on_message(void* wires, const void* header, size_t header_size, void* data,
                                size_t size, const ucx::ReceiveParam* param);

  UcxShared shared_;
  UcxIdleProgress idle_progress_{shared_.worker};
  std::vector<std::unique_ptr<UcxPeer>> peers_;  // by rank
  std::vector<UcxPeer*> active_;                 // with posted requests
  std::optional<Deadline> drain_;                // after a failure
  bool is_failed_ = false;                       // the requests have been ended, or are drained
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_WIRES_H_
