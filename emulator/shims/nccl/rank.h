// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_NCCL_RANK_H_
#define KEEL_EMULATOR_SHIMS_NCCL_RANK_H_

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

// A call and its stream.
struct Job {
  ccl::Call call;
  Stream* stream;
};

// The object behind an ncclComm_t. A non-blocking rank joins and enqueues on a worker thread, as
// NCCL does while ranks still have to connect; until the worker finishes, the rank is "in progress"
// and refuses other calls. Thread-safe except destruction.
class Rank {
 public:
  // Writes |*out_handle| on success; returns ncclInProgress if |blocks| is false.
  static ncclResult_t create(const ccl::UniqueId& id, std::shared_ptr<Device> chip, uint32_t rank,
                             uint32_t world, bool blocks, ncclComm_t* out_handle);
  // Creates this rank's member of a split, which all ranks call: see ccl::Communicator::split. The
  // new rank blocks as this rank does; until the split finishes, both are in progress. Leaves
  // |*out_handle| (NULL by the caller) unwritten on failure and if |color| is negative.
  ncclResult_t split(int color, int key, ncclComm_t* out_handle);
  static Rank* of(ncclComm_t handle) { return reinterpret_cast<Rank*>(handle); }
  // Aborts joining and running operations. For a rank still made by a split, blocks until the split
  // ends, no later than the end of the rank being split.
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  ncclComm_t handle() { return reinterpret_cast<ncclComm_t>(this); }
  // Requires a ready rank.
  uint32_t world() const { return member_->world(); }
  // Returns ncclInProgress, or the failure, if any.
  ncclResult_t state();
  // Returns ncclInvalidUsage if the rank is in progress or has failed.
  ncclResult_t ready();
  // Enqueues |jobs| in order.
  ncclResult_t submit(std::vector<Job> jobs);

  // Adds a reduction that multiplies by |factor| before summing.
  ncclRedOp_t add_sum(ccl::Type type, double factor);
  ncclResult_t remove_sum(ncclRedOp_t sum);
  // Returns false if the reduction does not exist or is for another type.
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
  // Runs |work| on the calling thread, or on a worker thread.
  ncclResult_t begin(std::function<Status()> work);
  Status enqueue(std::span<const Job> jobs);
  void await_abort();
  // Ends the call in progress with |status|.
  void finish(Status status);

  const ccl::UniqueId id_;
  const std::shared_ptr<Device> chip_;
  const bool blocks_;
  std::unique_ptr<ccl::Communicator> member_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread worker_;
  bool is_busy_ = false;
  bool is_made_ = false;  // |member_| is set and final
  bool is_ending_ = false;
  Status failure_;
  std::map<int, Sum> sums_;
  int next_sum_ = ncclNumOps;
  std::set<uintptr_t> buffers_;  // registered, by number
  uintptr_t next_buffer_ = 1;
};

}  // namespace keel::emulator::nccl

#endif  // KEEL_EMULATOR_SHIMS_NCCL_RANK_H_
