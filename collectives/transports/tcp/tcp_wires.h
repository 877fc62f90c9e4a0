// SPDX-License-Identifier: Apache-2.0
// The TCP wires of one rank of a communicator.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_TCP_TCP_WIRES_H_
#define KEEL_COLLECTIVES_TRANSPORTS_TCP_TCP_WIRES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/transports/hub_wires.h"
#include "collectives/transports/tcp/tcp_lane.h"
#include "core/status.h"

namespace keel {

// A connection for each used lane of each peer, in one epoll set. The first post on the higher rank
// starts to connect a lane; the requests of both ranks wait for that.
class TcpWires final : public HubWires {
 public:
  // Opens the wires of the communicator |context| to the ranks of the hub's table.
  static Status open(std::shared_ptr<WireHub> hub, uint64_t context,
                     std::unique_ptr<WireSet>* out_wires);
  TcpWires(std::shared_ptr<WireHub> hub, uint64_t context) : HubWires(std::move(hub), context) {}
  // Fails what is still posted.
  ~TcpWires() override;

  void post_send(uint32_t peer, uint32_t lane, WireRequest& request) override;
  void post_receive(uint32_t peer, uint32_t lane, WireRequest& request) override;
  bool progress() override;
  void park(int64_t timeout_ns) override;
  int descriptor() const override { return epoll_.get(); }
  std::vector<uint32_t> unconnected() const override;
  const char* name() const override { return "tcp"; }
  Traffic traffic() const override { return traffic_; }

 private:
  Status start();
  std::unique_ptr<TcpLane> make_lane(uint32_t peer, uint32_t number) const;
  // The lane, which connects if this rank is the one to connect it. NULL after a failure of the
  // set.
  TcpLane* lane(uint32_t peer, uint32_t lane);
  void activate(TcpLane& lane);
  Status attach(TcpLane& lane, FileDescriptor socket);
  void take_news();
  // Looks whether the hosts of active lanes acknowledge, ten times a second.
  void look_for_silence();
  void fail(const Status& why, uint32_t peer);

  std::vector<std::array<std::unique_ptr<TcpLane>, kLanes>> lanes_;  // by peer
  std::vector<uint32_t> beside_;  // ranks of this machine, ascending
  std::vector<TcpLane*> active_;  // lanes with posted requests, in the order of the posts
  Traffic traffic_;
  bool is_failed_ = false;  // the requests have been ended; of the owning thread
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_TCP_TCP_WIRES_H_
