// SPDX-License-Identifier: Apache-2.0
// C functions of shrink.h.
#include <keel/shrink.h>

#include <algorithm>
#include <numeric>

#include "collectives/communicator.h"
#include "collectives/communicator_handle.h"
#include "core/api.h"
#include "core/observer.h"
#include "core/open_group.h"

using keel::api_call;
using keel::Communicator;
using keel::failure;
using keel::Ref;
using keel::Runtime;
using keel::Status;

keel_status keel_comm_shrink(keel_comm comm, int64_t timeout_ns, int64_t absent_ns,
                             const keel_comm_options* options, keel_comm* out_comm) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::HostCallbacks::check_wait());
    KEEL_RETURN_IF_ERROR(keel::OpenGroup::check_wait());
    KEEL_REQUIRE(out_comm)
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(keel::find_communicator(comm, &found));
    if (absent_ns < 0) return failure(KEEL_INVALID_ARGUMENT, "absent_ns is {}", absent_ns);
    Communicator::ShrinkCall call = {Runtime::get().default_deadline(), absent_ns};
    KEEL_RETURN_IF_ERROR(Runtime::get().deadline(timeout_ns, &call.deadline));
    keel::CommunicatorOptions wanted;
    KEEL_RETURN_IF_ERROR(keel::read_communicator_options(options, &wanted));
    const keel::HostSpan span("keel_comm_shrink");
    Ref<Communicator> left;
    KEEL_RETURN_IF_ERROR(found->shrink(call, wanted, &left));
    return keel::add_communicator(left, out_comm);
  });
}

keel_status keel_comm_survivors(keel_comm comm, uint32_t* out_ranks, uint32_t* in_out_count,
                                uint64_t* out_epoch) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(in_out_count)
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(keel::find_communicator(comm, &found));
    const Communicator::Lineage& lineage = found->lineage();
    const uint32_t room = *in_out_count;
    const uint32_t world = found->world();
    *in_out_count = world;
    if (out_epoch != nullptr) *out_epoch = lineage.epoch;
    if (out_ranks == nullptr) return {};
    if (room < world) {
      return failure(KEEL_INVALID_ARGUMENT, "out_ranks has room for {} ranks of {}", room, world);
    }
    if (lineage.old_ranks.empty()) {
      std::iota(out_ranks, out_ranks + world, 0u);
    } else {
      std::copy(lineage.old_ranks.begin(), lineage.old_ranks.end(), out_ranks);
    }
    return {};
  });
}
