// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_FACES_NCCL_RANK_H_
#define KEEL_EMULATOR_FACES_NCCL_RANK_H_

#include <nccl.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "emulator/ccl/communicator.h"
#include "emulator/device.h"
#include "emulator/status.h"
#include "emulator/stream.h"

namespace keel::emulator::nccl {

// A call with the stream that it is for.
struct Job {
  ccl::Call call;
  Stream* stream;
};

// What is behind an ncclComm_t. One that is not to block meets, and enqueues, on a thread of its
// own, as the library does where ranks have still to connect: until that is over it is "in
// progress", and takes no other call. Thread-safe but for the end of it.
class Rank {
 public:
  // NULL handle on failure; in progress where |blocks| is not set.
  static ncclResult_t create(const ccl::UniqueId& id, std::shared_ptr<Device> chip, uint32_t rank,
                             uint32_t world, bool blocks, ncclComm_t* out_handle);
  // A rank of its part, by a split that all ranks call: see ccl::Communicator::split. Whether it
  // blocks is as here; until it is over both are in progress. |*out_handle| is NULL on failure and
  // where |color| is negative.
  ncclResult_t split(int color, int key, ncclComm_t* out_handle);
  static Rank* of(ncclComm_t handle) { return reinterpret_cast<Rank*>(handle); }
  // Gives up what it is at, and what runs. One that is still made by a split ends with that, which
  // ends no later than the rank that is split.
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  ncclComm_t handle() { return reinterpret_cast<ncclComm_t>(this); }
  // Of one that is ready.
  uint32_t world() const { return member_->world(); }
  // ncclInProgress, or what went wrong.
  ncclResult_t state();
  // ncclInvalidUsage where it is still in progress, or has failed.
  ncclResult_t ready();
  // Enqueues |jobs|, one after the other.
  ncclResult_t submit(std::vector<Job> jobs);

  // A reduction that multiplies by |factor| first.
  ncclRedOp_t add_sum(ccl::Type type, double factor);
  ncclResult_t remove_sum(ncclRedOp_t sum);
  // False for one that is not there, or for another type.
  bool find_sum(ncclRedOp_t sum, ccl::Type type, double* out_factor);
  ncclResult_t add_buffer(Address address, uint64_t size, void** out_handle);
  ncclResult_t remove_buffer(void* handle);

 private:
  struct Sum {
    ccl::Type type;
    double factor;
  };

  Rank(const ccl::UniqueId& id, std::shared_ptr<Device> chip, bool blocks)
      : id_(id), chip_(std::move(chip)), blocks_(blocks) {}
  // Runs |work| here, or on a thread of its own.
  ncclResult_t begin(std::function<Status()> work);
  Status enqueue(std::span<const Job> jobs);
  void await_abort();
  // What it was at came to |status|.
  void finish(Status status);

  const ccl::UniqueId id_;
  const std::shared_ptr<Device> chip_;
  const bool blocks_;
  std::unique_ptr<ccl::Communicator> member_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread worker_;
  bool is_busy_ = false;
  bool is_made_ = false;  // |member_| is there, and stays
  bool is_ending_ = false;
  Status failure_;
  std::map<int, Sum> sums_;
  int next_sum_ = ncclNumOps;
  std::set<uintptr_t> buffers_;  // registered, by number
  uintptr_t next_buffer_ = 1;
};

}  // namespace keel::emulator::nccl

#endif  // KEEL_EMULATOR_FACES_NCCL_RANK_H_
