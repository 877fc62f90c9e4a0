// SPDX-License-Identifier: Apache-2.0
// C functions of comm_start.h.
#include <keel/comm_start.h>

#include <memory>

#include "collectives/async_comm_init.h"
#include "collectives/communicator_entry.h"
#include "collectives/communicator_handle.h"
#include "core/api.h"
#include "core/open_group.h"

using keel::api_call;
using keel::AsyncCommInit;
using keel::Communicator;
using keel::Deadline;
using keel::failure;
using keel::NewRank;
using keel::Ref;
using keel::Runtime;
using keel::Status;

keel_status keel_comm_init_rank_start(keel_device device, const keel_unique_id* id, uint32_t rank,
                                      uint32_t world, const keel_comm_options* options,
                                      keel_comm* out_comm) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(id)
    KEEL_REQUIRE(out_comm)
    NewRank self = {{}, rank, world, {}};
    KEEL_RETURN_IF_ERROR(keel::find_device(device, "device", &self.device));
    KEEL_RETURN_IF_ERROR(keel::read_communicator_options(options, &self.options));
    if (world == 0 || world > keel::kMaxWorld || rank >= world) {
      return failure(KEEL_INVALID_ARGUMENT, "rank is {}, world {}; 1 to {} ranks may meet", rank,
                     world, keel::kMaxWorld);
    }
    return AsyncCommInit::start(
        "keel_comm_init_rank_start", fmt::format("rank {} of {}", rank, world),
        [self, id = *id](Ref<Communicator>* out) { return keel::join_by_id(self, id, out); },
        out_comm);
  });
}

keel_status keel_comm_init_env_start(keel_device device, const keel_comm_options* options,
                                     keel_comm* out_comm) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_comm)
    NewRank self;
    KEEL_RETURN_IF_ERROR(keel::find_device(device, "device", &self.device));
    KEEL_RETURN_IF_ERROR(keel::read_communicator_options(options, &self.options));
    return AsyncCommInit::start(
        "keel_comm_init_env_start", "a launched rank",
        [self](Ref<Communicator>* out) { return keel::join_launched(self, out); }, out_comm);
  });
}

keel_status keel_comm_wait_ready(keel_comm comm, int64_t timeout_ns) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::HostCallbacks::check_wait());
    KEEL_RETURN_IF_ERROR(keel::OpenGroup::check_wait());
    Deadline deadline = Runtime::get().default_deadline();
    KEEL_RETURN_IF_ERROR(Runtime::get().deadline(timeout_ns, &deadline));
    if (const auto formation = AsyncCommInit::find(comm.id)) {
      KEEL_RETURN_IF_ERROR(formation->wait(deadline));
    }
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(keel::find_communicator(comm, &found));
    return found->async_error();
  });
}
