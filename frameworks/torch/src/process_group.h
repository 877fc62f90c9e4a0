// SPDX-License-Identifier: Apache-2.0
// The process group "keel": c10d::Backend over keel.h, for dense tensors of the CPU and of
// keel devices.
#ifndef FRAMEWORKS_TORCH_SRC_PROCESS_GROUP_H_
#define FRAMEWORKS_TORCH_SRC_PROCESS_GROUP_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lane.h"
#include "lanes.h"
#include "messages.h"
#include "work.h"

namespace keel_torch {

// One rank's part of a process group. Collectives run one after the other, in the order of the
// calls, which is the same on all ranks; those of tensors of the CPU run beside those of tensors of
// a keel device, and messages beside both. Thread-safe.
//
// Failures are c10::DistBackendError and name this rank, the operation, and the reason, with the
// rank that caused it.
class ProcessGroup : public c10d::Backend {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  // Joins the group; blocks until all ranks have joined, at most |timeout|.
  ProcessGroup(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
               std::chrono::milliseconds timeout);
  ~ProcessGroup() override;

  const std::string getBackendName() const override { return "keel"; }
  // A copy: PyTorch 2.14 writes the name and the timeout of a new group to what this returns.
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return c10::make_intrusive<Options>(*options_);
  }
  void setTimeout(std::chrono::milliseconds timeout) override;
  // Whether keel tensors of this rank go through the CPU, since some rank has tensors of the CPU.
  bool goes_through_cpu() const { return lanes_.goes_through_cpu(); }
  uint64_t getSequenceNumberForGroup() override { return lanes_.sequence(); }
  void setSequenceNumberForGroup() override {}

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  // A send is done when the peer has received the message. Messages of one tag between two ranks
  // arrive in order; a receive from any rank is refused.
  WorkPtr send(Tensors& tensors, int peer, int tag) override;
  WorkPtr recv(Tensors& tensors, int peer, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  // PyTorch makes the groups of a device mesh by split() where init_process_group was given a
  // device_id. Returns null on ranks outside of |ranks|, which need not call. Blocks until the
  // ranks have met in |store|.
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;

  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  void abort() override;
  void shutdown() override;
  // Called with the last reference, while |split_| of the group that this one was split from delays
  // the destructor.
  void release_resources() override { shutdown(); }

 private:
  // Runs a collective on |lane|, and notes the Work for coalescing.
  WorkPtr run(Lane& lane, Call call, const Lane::Enqueue& enqueue);
  WorkPtr note(WorkPtr work);
  WorkPtr combine(c10d::OpType type, const std::function<WorkPtr(size_t)>& part, size_t parts);
  uint32_t check_root(int64_t root, const char* name) const;
  uint64_t world() const { return static_cast<uint64_t>(size_); }

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<Options> options_;
  Lanes lanes_;
  Messages messages_;
  std::atomic<uint64_t> monitored_barriers_{0};

  std::mutex split_mutex_;                       // protects the three below
  std::map<std::vector<int>, uint64_t> splits_;  // attempts to make a group of the ranks
  c10::intrusive_ptr<c10d::Store> split_store_;  // of the last new group
  c10::weak_intrusive_ptr<c10d::Backend> split_;

  std::mutex coalescing_mutex_;  // protects the two below
  bool is_coalescing_ = false;
  std::vector<WorkPtr> coalesced_;
};

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_PROCESS_GROUP_H_
