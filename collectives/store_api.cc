// SPDX-License-Identifier: Apache-2.0
// C functions of store.h.
#include <keel/store.h>

#include "collectives/async_comm_init.h"
#include "collectives/bootstrap/caller_store.h"
#include "collectives/communicator_entry.h"
#include "collectives/communicator_handle.h"
#include "core/api.h"
#include "core/observer.h"
#include "core/open_group.h"

using keel::api_call;
using keel::AsyncCommInit;
using keel::CallerStore;
using keel::Communicator;
using keel::failure;
using keel::NewRank;
using keel::Ref;
using keel::Status;

namespace {

Status read_arguments(keel_device device, const keel_store* store, uint32_t rank, uint32_t world,
                      const keel_comm_options* options, const keel_comm* out_comm,
                      NewRank* out_self) {
  KEEL_REQUIRE(out_comm)
  KEEL_RETURN_IF_ERROR(CallerStore::check(store));
  KEEL_RETURN_IF_ERROR(keel::find_device(device, "device", &out_self->device));
  KEEL_RETURN_IF_ERROR(keel::read_communicator_options(options, &out_self->options));
  if (world == 0 || world > keel::kMaxWorld || rank >= world) {
    return failure(KEEL_INVALID_ARGUMENT, "rank is {}, world {}; 1 to {} ranks may meet", rank,
                   world, keel::kMaxWorld);
  }
  out_self->rank = rank;
  out_self->world = world;
  return {};
}

}  // namespace

keel_status keel_comm_init_store(keel_device device, const keel_store* store, uint32_t rank,
                                 uint32_t world, const keel_comm_options* options,
                                 keel_comm* out_comm) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::HostCallbacks::check_wait());
    KEEL_RETURN_IF_ERROR(keel::OpenGroup::check_wait());
    NewRank self;
    KEEL_RETURN_IF_ERROR(read_arguments(device, store, rank, world, options, out_comm, &self));
    const keel::HostSpan span("keel_comm_init_store");
    Ref<Communicator> communicator;
    KEEL_RETURN_IF_ERROR(keel::join_by_store(self, CallerStore(*store), &communicator));
    return keel::add_communicator(communicator, out_comm);
  });
}

keel_status keel_comm_init_store_start(keel_device device, const keel_store* store, uint32_t rank,
                                       uint32_t world, const keel_comm_options* options,
                                       keel_comm* out_comm) {
  return api_call([&]() -> Status {
    NewRank self;
    KEEL_RETURN_IF_ERROR(read_arguments(device, store, rank, world, options, out_comm, &self));
    return AsyncCommInit::start(
        "keel_comm_init_store_start", fmt::format("rank {} of {}", rank, world),
        [self, copy = CallerStore(*store)](Ref<Communicator>* out) {
          return keel::join_by_store(self, copy, out);
        },
        out_comm);
  });
}
