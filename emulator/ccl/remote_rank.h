// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_CCL_REMOTE_RANK_H_
#define KEEL_EMULATOR_CCL_REMOTE_RANK_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "emulator/ccl/link.h"
#include "emulator/ccl/rank_endpoint.h"
#include "emulator/device.h"
#include "emulator/notifier.h"

namespace keel::emulator::ccl {

// A rank's endpoint in a clique of another process: sends the rank's data there and receives the
// result.
class RemoteRank : public RankEndpoint {
 public:
  // Blocks until all ranks have joined. Returns kInvalidArgument if no process admits ranks by
  // |id|, else the status of Clique::meet.
  static Status create(const UniqueId& id, std::shared_ptr<Device> device, uint32_t rank,
                       uint32_t world, Time deadline, std::shared_ptr<RankEndpoint>* out_endpoint);
  // Makes every create() by |id| in this process, waiting or later, return kUnavailable.
  static void give_up(const UniqueId& id);
  ~RemoteRank() override;

  uint32_t world() const override { return world_; }
  Membership next(const Call& call) override;
  void arrive(const Membership& self) override;
  Status compute(const Membership& self) override;
  void finish_reading(const Membership&) override {}

  void abort() override;
  bool is_aborted() const override;
  void report(const Status& status) override;
  Status error() const override;

 private:
  RemoteRank(FileDescriptor socket, std::shared_ptr<Device> device, uint32_t rank, uint32_t world)
      : device_(std::move(device)), rank_(rank), world_(world), link_(std::move(socket)) {}
  Status await_welcome(Time deadline);
  // Receives the remote process's messages, on a separate thread.
  void listen();
  void take(Message message);

  const std::shared_ptr<Device> device_;
  const uint32_t rank_;
  const uint32_t world_;
  Link link_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_welcome_ = false;  // welcomed or refused
  Status welcome_;
  bool is_aborted_ = false;
  Status error_;
  uint64_t called_ = 0;
  std::map<uint64_t, Membership> under_way_;
  std::thread listener_;
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_REMOTE_RANK_H_
