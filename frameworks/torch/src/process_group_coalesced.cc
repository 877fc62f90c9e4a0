// SPDX-License-Identifier: Apache-2.0
// Collectives of several tensors at once, and Works that stand for several.
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <utility>

#include "process_group.h"
#include "reduction.h"
#include "tensor_counts.h"
#include "tensors.h"

namespace keel_torch {

using c10d::OpType;

ProcessGroup::WorkPtr ProcessGroup::note(WorkPtr work) {
  std::lock_guard lock(coalescing_mutex_);
  if (is_coalescing_) coalesced_.push_back(work);
  return work;
}

ProcessGroup::WorkPtr ProcessGroup::combine(OpType type, const std::function<WorkPtr(size_t)>& part,
                                            size_t parts) {
  std::vector<WorkPtr> works;
  works.reserve(parts);
  for (size_t index = 0; index < parts; ++index) works.push_back(part(index));
  return c10::make_intrusive<CombinedWork>(rank_, type, std::move(works));
}

ProcessGroup::WorkPtr ProcessGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  TORCH_CHECK(!tensors.empty(), "keel: all_reduce: an empty list of tensors");
  bool are_alike = true;
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor, "all_reduce");
    check_one_device(tensors.front(), tensor, "all_reduce");
    are_alike = are_alike && tensor.scalar_type() == tensors.front().scalar_type();
  }
  if (!are_alike) {
    return combine(
        OpType::ALLREDUCE_COALESCED,
        [&](size_t index) {
          Tensors one{tensors[index]};
          return allreduce(one, options);
        },
        tensors.size());
  }
  const at::ScalarType element = tensors.front().scalar_type();
  const Type type = type_for_reductions(element, options.reduceOp, "all_reduce");
  Lane& lane = lanes_.of(tensors.front().device(), "all_reduce");
  const Reduction op(options.reduceOp, element, lane.comm());
  const at::Tensor joined = joined_input(tensors, lane.device());
  return run(lane,
             {OpType::ALLREDUCE_COALESCED,
              "keel:all_reduce",
              {joined},
              tensors,
              options.timeout,
              copy_parts_back(joined, tensors)},
             [&](keel_comm comm, keel_stream stream) {
               void* const data = joined.data_ptr();
               return keel_all_reduce(comm, data, data, count_of(joined, type), type.dtype, op,
                                      stream);
             });
}

ProcessGroup::WorkPtr ProcessGroup::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == world(), "keel: all_gather_coalesced: ", outputs.size(),
              " lists for ", size_, " ranks");
  for (const Tensors& list : outputs) {
    TORCH_CHECK(list.size() == inputs.size(), "keel: all_gather_coalesced: ", inputs.size(),
                " inputs, and a list of ", list.size(), " outputs");
  }
  return combine(
      OpType::ALLGATHER_COALESCED,
      [&](size_t index) {
        TensorLists list(1);
        for (const Tensors& of_rank : outputs) list.front().push_back(of_rank[index]);
        Tensors one{inputs[index]};
        return allgather(list, one, options);
      },
      inputs.size());
}

ProcessGroup::WorkPtr ProcessGroup::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == inputs.size(), "keel: all_gather: ", inputs.size(), " inputs and ",
              outputs.size(), " outputs");
  return combine(
      kAllGatherIntoTensorCoalesced,
      [&](size_t index) { return _allgather_base(outputs[index], inputs[index], options); },
      inputs.size());
}

ProcessGroup::WorkPtr ProcessGroup::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(outputs.size() == inputs.size(), "keel: reduce_scatter: ", inputs.size(),
              " inputs and ", outputs.size(), " outputs");
  return combine(
      OpType::REDUCE_SCATTER_TENSOR_COALESCED,
      [&](size_t index) { return _reduce_scatter_base(outputs[index], inputs[index], options); },
      inputs.size());
}

void ProcessGroup::startCoalescing() {
  std::lock_guard lock(coalescing_mutex_);
  is_coalescing_ = true;
  coalesced_.clear();  // of a caller that raised before the end
}

ProcessGroup::WorkPtr ProcessGroup::endCoalescing() {
  std::lock_guard lock(coalescing_mutex_);
  is_coalescing_ = false;
  return c10::make_intrusive<CombinedWork>(rank_, OpType::COALESCED, std::exchange(coalesced_, {}));
}

}  // namespace keel_torch
