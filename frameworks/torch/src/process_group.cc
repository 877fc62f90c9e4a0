// SPDX-License-Identifier: Apache-2.0
#include "process_group.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "monitored_barrier.h"
#include "reduction.h"
#include "runtime.h"
#include "tensor_counts.h"
#include "tensors.h"

namespace keel_torch {

namespace {

using c10d::OpType;
using std::chrono::milliseconds;
using Tensors = ProcessGroup::Tensors;
using BelowAutograd = at::AutoDispatchBelowADInplaceOrView;

const at::Tensor& only(const Tensors& tensors, const char* name) {
  TORCH_CHECK(tensors.size() == 1, "keel: ", name, ": a list of ", tensors.size(),
              " tensors; each rank has one");
  check_tensor(tensors.front(), name);
  return tensors.front();
}

// The list of one tensor a rank, all of |one|'s type.
const Tensors& list_of(const ProcessGroup::TensorLists& lists, const at::Tensor& one, int world,
                       const char* name) {
  TORCH_CHECK(lists.size() == 1, "keel: ", name, ": ", lists.size(),
              " lists of tensors; each rank has one");
  TORCH_CHECK(lists.front().size() == static_cast<size_t>(world), "keel: ", name, ": a list of ",
              lists.front().size(), " tensors for ", world, " ranks");
  for (const at::Tensor& tensor : lists.front()) {
    check_tensor(tensor, name);
    check_one_device(one, tensor, name);
    TORCH_CHECK(tensor.scalar_type() == one.scalar_type(), "keel: ", name,
                ": tensors of the types ", c10::toString(tensor.scalar_type()), " and ",
                c10::toString(one.scalar_type()));
  }
  return lists.front();
}

}  // namespace

ProcessGroup::ProcessGroup(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                           milliseconds timeout)
    : Backend(rank, size),
      store_(store),
      options_(c10::make_intrusive<Options>("keel", timeout)),
      lanes_(store, rank, size, timeout),
      messages_(store, lanes_.cpu(), rank, timeout),
      split_(c10::intrusive_ptr<c10d::Backend>()) {
  init();
}

ProcessGroup::~ProcessGroup() {
  shutdown();
}

void ProcessGroup::setTimeout(milliseconds timeout) {
  options_->timeout = timeout;
  lanes_.set_timeout(timeout);
  messages_.set_timeout(timeout);
}

ProcessGroup::WorkPtr ProcessGroup::run(Lane& lane, Call call, const Lane::Enqueue& enqueue) {
  return note(lane.run(std::move(call), enqueue));
}

uint32_t ProcessGroup::check_root(int64_t root, const char* name) const {
  TORCH_CHECK(root >= 0 && root < size_, "keel: ", name, ": the root is rank ", root, " of ", size_,
              " ranks");
  return static_cast<uint32_t>(root);
}

ProcessGroup::WorkPtr ProcessGroup::broadcast(Tensors& tensors,
                                              const c10d::BroadcastOptions& options) {
  const BelowAutograd guard;
  const at::Tensor tensor = only(tensors, "broadcast");
  const uint32_t root = check_root(options.rootRank, "broadcast");
  const bool is_root = static_cast<int>(root) == rank_;
  Lane& lane = lanes_.of(tensor.device(), "broadcast");
  const at::Tensor flat =
      is_root ? flat_input(tensor, lane.device()) : flat_output(tensor, lane.device());
  const Type type = type_for_copies(tensor.scalar_type());
  return run(lane,
             {OpType::BROADCAST,
              "keel:broadcast",
              {flat},
              {tensor},
              options.timeout,
              is_root ? nullptr : copy_back(flat, tensor)},
             [&](keel_comm comm, keel_stream stream) {
               void* const data = flat.data_ptr();
               return keel_broadcast(comm, data, data, count_of(flat, type), type.dtype, root,
                                     stream);
             });
}

ProcessGroup::WorkPtr ProcessGroup::allreduce(Tensors& tensors,
                                              const c10d::AllreduceOptions& options) {
  const BelowAutograd guard;
  const at::Tensor tensor = only(tensors, "all_reduce");
  const Type type = type_for_reductions(tensor.scalar_type(), options.reduceOp, "all_reduce");
  Lane& lane = lanes_.of(tensor.device(), "all_reduce");
  const Reduction op(options.reduceOp, tensor.scalar_type(), lane.comm());
  const at::Tensor flat = flat_input(tensor, lane.device());
  return run(lane,
             {OpType::ALLREDUCE,
              "keel:all_reduce",
              {flat},
              {tensor},
              options.timeout,
              copy_back(flat, tensor)},
             [&](keel_comm comm, keel_stream stream) {
               void* const data = flat.data_ptr();
               return keel_all_reduce(comm, data, data, count_of(flat, type), type.dtype, op,
                                      stream);
             });
}

ProcessGroup::WorkPtr ProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const BelowAutograd guard;
  const at::Tensor tensor = only(tensors, "reduce");
  const uint32_t root = check_root(options.rootRank, "reduce");
  const Type type = type_for_reductions(tensor.scalar_type(), options.reduceOp, "reduce");
  Lane& lane = lanes_.of(tensor.device(), "reduce");
  const Reduction op(options.reduceOp, tensor.scalar_type(), lane.comm());
  const at::Tensor flat = flat_input(tensor, lane.device());
  const bool is_root = static_cast<int>(root) == rank_;
  return run(lane,
             {OpType::REDUCE,
              "keel:reduce",
              {flat},
              {tensor},
              options.timeout,
              is_root ? copy_back(flat, tensor) : nullptr},
             [&](keel_comm comm, keel_stream stream) {
               void* const data = flat.data_ptr();
               return keel_reduce(comm, data, is_root ? data : nullptr, count_of(flat, type),
                                  type.dtype, op, root, stream);
             });
}

ProcessGroup::WorkPtr ProcessGroup::allgather(TensorLists& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  const BelowAutograd guard;
  const at::Tensor input = only(inputs, "all_gather");
  const Tensors& list = list_of(outputs, input, size_, "all_gather");
  TORCH_CHECK(list[static_cast<size_t>(rank_)].numel() == input.numel(), "keel: all_gather: rank ",
              rank_, " has ", input.numel(), " elements, and room for ",
              list[static_cast<size_t>(rank_)].numel(), " of its own");
  Lane& lane = lanes_.of(input.device(), "all_gather");
  const at::Tensor flat = flat_input(input, lane.device());
  const at::Tensor joined = joined_output(list, lane.device());
  const Type type = type_for_copies(input.scalar_type());
  return run(lane,
             {OpType::ALLGATHER,
              "keel:all_gather",
              {flat, joined},
              list,
              options.timeout,
              copy_parts_back(joined, list)},
             [&](keel_comm comm, keel_stream stream) {
               void* const receive = joined.data_ptr();
               if (are_of_one_size(list)) {
                 return keel_all_gather(comm, flat.data_ptr(), receive, count_of(flat, type),
                                        type.dtype, stream);
               }
               const std::vector<uint64_t> counts = counts_of(list, type.units);
               return keel_all_gather_v(comm, flat.data_ptr(), receive, counts.data(), nullptr,
                                        type.dtype, stream);
             });
}

ProcessGroup::WorkPtr ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& options) {
  const BelowAutograd guard;
  check_tensor(output, "all_gather");
  check_tensor(input, "all_gather");
  check_one_device(output, input, "all_gather");
  TORCH_CHECK(output.numel() == input.numel() * size_, "keel: all_gather: ", input.numel(),
              " elements of ", size_, " ranks, and room for ", output.numel());
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "keel: all_gather: an output of type ",
              c10::toString(output.scalar_type()), " for an input of type ",
              c10::toString(input.scalar_type()));
  Lane& lane = lanes_.of(input.device(), "all_gather");
  const at::Tensor flat = flat_input(input, lane.device());
  const at::Tensor whole = flat_output(output, lane.device());
  const Type type = type_for_copies(input.scalar_type());
  return run(lane,
             {OpType::_ALLGATHER_BASE,
              "keel:all_gather",
              {flat, whole},
              {output},
              options.timeout,
              copy_back(whole, output)},
             [&](keel_comm comm, keel_stream stream) {
               return keel_all_gather(comm, flat.data_ptr(), whole.data_ptr(), count_of(flat, type),
                                      type.dtype, stream);
             });
}

ProcessGroup::WorkPtr ProcessGroup::gather(TensorLists& outputs, Tensors& inputs,
                                           const c10d::GatherOptions& options) {
  const BelowAutograd guard;
  const at::Tensor input = only(inputs, "gather");
  const uint32_t root = check_root(options.rootRank, "gather");
  Lane& lane = lanes_.of(input.device(), "gather");
  const at::Tensor flat = flat_input(input, lane.device());
  const Type type = type_for_copies(input.scalar_type());
  Tensors list;
  at::Tensor joined;
  std::function<void()> finish;
  if (static_cast<int>(root) == rank_) {
    list = list_of(outputs, input, size_, "gather");
    TORCH_CHECK(are_of_one_size(list) && list.front().numel() == input.numel(),
                "keel: gather: the tensors are of several sizes");
    joined = joined_output(list, lane.device());
    finish = copy_parts_back(joined, list);
  } else {
    TORCH_CHECK(outputs.empty() || outputs.front().empty(), "keel: gather: rank ", rank_,
                " is not the root, and has a list of outputs");
  }
  return run(lane, {OpType::GATHER, "keel:gather", {flat, joined}, list, options.timeout, finish},
             [&](keel_comm comm, keel_stream stream) {
               return keel_gather(comm, flat.data_ptr(),
                                  joined.defined() ? joined.data_ptr() : nullptr,
                                  count_of(flat, type), type.dtype, root, stream);
             });
}

ProcessGroup::WorkPtr ProcessGroup::scatter(Tensors& outputs, TensorLists& inputs,
                                            const c10d::ScatterOptions& options) {
  const BelowAutograd guard;
  const at::Tensor output = only(outputs, "scatter");
  const uint32_t root = check_root(options.rootRank, "scatter");
  Lane& lane = lanes_.of(output.device(), "scatter");
  const at::Tensor flat = flat_output(output, lane.device());
  const Type type = type_for_copies(output.scalar_type());
  at::Tensor joined;
  if (static_cast<int>(root) == rank_) {
    const Tensors& list = list_of(inputs, output, size_, "scatter");
    TORCH_CHECK(are_of_one_size(list) && list.front().numel() == output.numel(),
                "keel: scatter: the tensors are of several sizes");
    joined = joined_input(list, lane.device());
  } else {
    TORCH_CHECK(inputs.empty() || inputs.front().empty(), "keel: scatter: rank ", rank_,
                " is not the root, and has a list of inputs");
  }
  return run(lane,
             {OpType::SCATTER,
              "keel:scatter",
              {flat, joined},
              {output},
              options.timeout,
              copy_back(flat, output)},
             [&](keel_comm comm, keel_stream stream) {
               return keel_scatter(comm, joined.defined() ? joined.data_ptr() : nullptr,
                                   flat.data_ptr(), count_of(flat, type), type.dtype, root, stream);
             });
}

ProcessGroup::WorkPtr ProcessGroup::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                   const c10d::ReduceScatterOptions& options) {
  const BelowAutograd guard;
  const at::Tensor output = only(outputs, "reduce_scatter");
  const Tensors& list = list_of(inputs, output, size_, "reduce_scatter");
  TORCH_CHECK(list[static_cast<size_t>(rank_)].numel() == output.numel(),
              "keel: reduce_scatter: rank ", rank_, " has room for ", output.numel(),
              " elements of ", list[static_cast<size_t>(rank_)].numel());
  const Type type = type_for_reductions(output.scalar_type(), options.reduceOp, "reduce_scatter");
  Lane& lane = lanes_.of(output.device(), "reduce_scatter");
  const Reduction op(options.reduceOp, output.scalar_type(), lane.comm());
  const at::Tensor joined = joined_input(list, lane.device());
  const at::Tensor flat = flat_output(output, lane.device());
  return run(lane,
             {OpType::REDUCE_SCATTER,
              "keel:reduce_scatter",
              {joined, flat},
              {output},
              options.timeout,
              copy_back(flat, output)},
             [&](keel_comm comm, keel_stream stream) {
               if (are_of_one_size(list)) {
                 return keel_reduce_scatter(comm, joined.data_ptr(), flat.data_ptr(),
                                            count_of(flat, type), type.dtype, op, stream);
               }
               const std::vector<uint64_t> counts = counts_of(list, type.units);
               return keel_reduce_scatter_v(comm, joined.data_ptr(), flat.data_ptr(), counts.data(),
                                            nullptr, type.dtype, op, stream);
             });
}

ProcessGroup::WorkPtr ProcessGroup::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  const BelowAutograd guard;
  check_tensor(output, "reduce_scatter");
  check_tensor(input, "reduce_scatter");
  check_one_device(output, input, "reduce_scatter");
  TORCH_CHECK(input.numel() == output.numel() * size_, "keel: reduce_scatter: ", input.numel(),
              " elements for ", size_, " ranks with room for ", output.numel(), " each");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(),
              "keel: reduce_scatter: an output of type ", c10::toString(output.scalar_type()),
              " for an input of type ", c10::toString(input.scalar_type()));
  const Type type = type_for_reductions(output.scalar_type(), options.reduceOp, "reduce_scatter");
  Lane& lane = lanes_.of(output.device(), "reduce_scatter");
  const Reduction op(options.reduceOp, output.scalar_type(), lane.comm());
  const at::Tensor whole = flat_input(input, lane.device());
  const at::Tensor flat = flat_output(output, lane.device());
  return run(lane,
             {OpType::_REDUCE_SCATTER_BASE,
              "keel:reduce_scatter",
              {whole, flat},
              {output},
              options.timeout,
              copy_back(flat, output)},
             [&](keel_comm comm, keel_stream stream) {
               return keel_reduce_scatter(comm, whole.data_ptr(), flat.data_ptr(),
                                          count_of(flat, type), type.dtype, op, stream);
             });
}

ProcessGroup::WorkPtr ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<int64_t>& output_splits,
                                                  std::vector<int64_t>& input_splits,
                                                  const c10d::AllToAllOptions& options) {
  const BelowAutograd guard;
  check_tensor(output, "all_to_all");
  check_tensor(input, "all_to_all");
  check_one_device(output, input, "all_to_all");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "keel: all_to_all: an output of type ",
              c10::toString(output.scalar_type()), " for an input of type ",
              c10::toString(input.scalar_type()));
  const Type type = type_for_copies(input.scalar_type());
  Lane& lane = lanes_.of(input.device(), "all_to_all");
  const at::Tensor flat_in = flat_input(input, lane.device());
  const at::Tensor flat_out = flat_output(output, lane.device());
  const auto sends = split_counts(flat_in, input_splits, size_, type.units, "the input");
  const auto receives = split_counts(flat_out, output_splits, size_, type.units, "the output");
  const bool is_even = input_splits.empty() && output_splits.empty();
  return run(lane,
             {OpType::ALLTOALL_BASE,
              "keel:all_to_all",
              {flat_in, flat_out},
              {output},
              options.timeout,
              copy_back(flat_out, output)},
             [&](keel_comm comm, keel_stream stream) {
               if (is_even) {
                 return keel_all_to_all(comm, flat_in.data_ptr(), flat_out.data_ptr(), sends[0],
                                        type.dtype, stream);
               }
               return keel_all_to_all_v(comm, flat_in.data_ptr(), sends.data(), nullptr,
                                        flat_out.data_ptr(), receives.data(), nullptr, type.dtype,
                                        stream);
             });
}

ProcessGroup::WorkPtr ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                             const c10d::AllToAllOptions& options) {
  const BelowAutograd guard;
  TORCH_CHECK(!outputs.empty() && !inputs.empty(), "keel: all_to_all: an empty list of tensors");
  const Tensors to = list_of({outputs}, inputs.front(), size_, "all_to_all");
  const Tensors from = list_of({inputs}, inputs.front(), size_, "all_to_all");
  const Type type = type_for_copies(inputs.front().scalar_type());
  Lane& lane = lanes_.of(inputs.front().device(), "all_to_all");
  const at::Tensor joined_in = joined_input(from, lane.device());
  const at::Tensor joined_out = joined_output(to, lane.device());
  return run(lane,
             {OpType::ALLTOALL,
              "keel:all_to_all",
              {joined_in, joined_out},
              to,
              options.timeout,
              copy_parts_back(joined_out, to)},
             [&](keel_comm comm, keel_stream stream) {
               const std::vector<uint64_t> sends = counts_of(from, type.units);
               const std::vector<uint64_t> receives = counts_of(to, type.units);
               return keel_all_to_all_v(comm, joined_in.data_ptr(), sends.data(), nullptr,
                                        joined_out.data_ptr(), receives.data(), nullptr, type.dtype,
                                        stream);
             });
}

ProcessGroup::WorkPtr ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  return run(*lanes_.cpu(), {OpType::BARRIER, "keel:barrier", {}, {}, options.timeout, nullptr},
             [](keel_comm comm, keel_stream stream) { return keel_barrier(comm, stream); });
}

void ProcessGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  run_monitored_barrier(
      *store_, "keel/monitored/" + std::to_string(monitored_barriers_++), rank_, size_,
      options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout, wait_all_ranks);
}

ProcessGroup::WorkPtr ProcessGroup::send(Tensors& tensors, int peer, int tag) {
  const BelowAutograd guard;
  const at::Tensor tensor = only(tensors, "send");
  return note(messages_.send(flat_input(tensor, tensor.device()),
                             static_cast<int>(check_root(peer, "send")), tag));
}

ProcessGroup::WorkPtr ProcessGroup::recv(Tensors& tensors, int peer, int tag) {
  const BelowAutograd guard;
  return note(
      messages_.receive(only(tensors, "recv"), static_cast<int>(check_root(peer, "recv")), tag));
}

ProcessGroup::WorkPtr ProcessGroup::recvAnysource(Tensors& /*tensors*/, int /*tag*/) {
  TORCH_CHECK(false, "keel: recv: a receive from any rank is not supported; name the source");
}

// PyTorch calls once for each type of device, with one store, and this group serves all of them; so
// does the new group. The number keeps its keys apart from those of an earlier group of the same
// ranks, whose name it may have, and from those that a failed attempt has left in the store.
c10::intrusive_ptr<c10d::Backend> ProcessGroup::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  const std::lock_guard lock(split_mutex_);
  const auto own = std::find(ranks.begin(), ranks.end(), rank_);
  if (own == ranks.end()) return nullptr;
  if (split_store_ == store) {
    if (auto split = split_.lock()) return split;
  }
  c10::intrusive_ptr<c10d::Backend> split = c10::make_intrusive<ProcessGroup>(
      c10::make_intrusive<c10d::PrefixStore>("split/" + std::to_string(splits_[ranks]++), store),
      static_cast<int>(own - ranks.begin()), static_cast<int>(ranks.size()), options->timeout);
  split_ = split;
  split_store_ = store;
  return split;
}

void ProcessGroup::abort() {
  lanes_.abort();
  messages_.abort();
}

void ProcessGroup::shutdown() {
  // The peers of messages in flight take a rank that has left the communicators for absent.
  messages_.close();
  lanes_.close();
}

}  // namespace keel_torch
