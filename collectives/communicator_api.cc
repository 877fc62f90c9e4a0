// SPDX-License-Identifier: Apache-2.0
// C functions of communicators.
#include <keel/rank_status.h>

#include <cstddef>
#include <string_view>

#include "collectives/async_comm_init.h"
#include "collectives/bootstrap/launcher_environment.h"
#include "collectives/bootstrap/rendezvous.h"
#include "collectives/communicator.h"
#include "collectives/communicator_entry.h"
#include "collectives/communicator_handle.h"
#include "collectives/group_call.h"
#include "collectives/hosts/host_entry.h"
#include "collectives/selection/agreement.h"
#include "collectives/shared_chip.h"
#include "core/api.h"
#include "core/observer.h"
#include "core/open_group.h"
#include "core/plugin_file.h"

using keel::api_call;
using keel::Communicator;
using keel::CommunicatorTable;
using keel::Deadline;
using keel::failure;
using keel::Ref;
using keel::Runtime;
using keel::Status;

namespace keel {

CommunicatorTable& communicator_handles() {
  static CommunicatorTable& table = *[] {
    auto* created = new CommunicatorTable;
    Runtime::get().add_shutdown_hook([created] {
      // Shuts down the communicators not destroyed by the user.
      GroupCall::forget_all();
      for (uint64_t handle : created->live_handles()) {
        const Ref<Communicator> left = created->remove(handle);
        if (!left) continue;
        left->shut_down(Runtime::get().default_deadline());
      }
    });
    Runtime::get().add_registration_user(
        [created](const Device& device, uintptr_t begin, uintptr_t end) -> Status {
          for (uint64_t handle : created->live_handles()) {
            const Ref<Communicator> each = created->find(handle);
            if (each) KEEL_RETURN_IF_ERROR(each->check_unused(device, begin, end));
          }
          return {};
        });
    return created;
  }();
  return table;
}

}  // namespace keel

namespace {

using keel::communicator_handles;
using keel::find_communicator;

// KEEL_NATIVE=0 forbids native libraries for all communicators.
Status read_environment(bool* out_forbid_native) {
  const char* text = keel::trusted_environment("KEEL_NATIVE");
  if (text == nullptr || *text == '\0') return {};
  const std::string_view value = text;
  if (value != "0" && value != "1") {
    return failure(KEEL_INVALID_ARGUMENT, "KEEL_NATIVE is '{}': 0 or 1", value.substr(0, 64));
  }
  *out_forbid_native = value == "0";
  return {};
}

Status read_options(const keel_comm_options* given, keel::CommunicatorOptions* out_options) {
  out_options->timeout_ns = Runtime::get().default_timeout_ns();
  KEEL_RETURN_IF_ERROR(keel::load_table(&out_options->table));
  KEEL_RETURN_IF_ERROR(read_environment(&out_options->forbid_native));
  if (given == nullptr) return {};
  // Size of the struct before forbid_native was added.
  constexpr size_t kOldest = offsetof(keel_comm_options, forbid_native);
  KEEL_RETURN_IF_ERROR(keel::check_struct(given, KEEL_STRUCT_COMM_OPTIONS, kOldest, "options"));
  if (given->timeout_ns < 0) {
    return failure(KEEL_INVALID_ARGUMENT, "options.timeout_ns is {}", given->timeout_ns);
  }
  if (given->timeout_ns != 0) out_options->timeout_ns = given->timeout_ns;
  if (given->chunk_bytes != 0) {
    KEEL_RETURN_IF_ERROR(keel::check_chunk_bytes(given->chunk_bytes));
    out_options->chunk_bytes = given->chunk_bytes;
  }
  out_options->forbid_alias = given->forbid_alias != 0;
  if (given->priority > KEEL_COMM_URGENT) {
    return failure(KEEL_INVALID_ARGUMENT,
                   "options.priority is {}: KEEL_COMM_NORMAL (0) or KEEL_COMM_URGENT (1)",
                   given->priority);
  }
  out_options->urgent = given->priority == KEEL_COMM_URGENT;
  if (given->header.size >= offsetof(keel_comm_options, forbid_native) + sizeof(uint32_t)) {
    out_options->forbid_native = out_options->forbid_native || given->forbid_native != 0;
  }
  return {};
}

// Checks the arguments of keel_comm_split.
Status check_split(int32_t color, const keel_comm_options* given, const keel_comm* out_comm,
                   keel::CommunicatorOptions* out_options) {
  KEEL_REQUIRE(out_comm)
  if (color < 0 && color != KEEL_NO_COLOR) {
    return failure(KEEL_INVALID_ARGUMENT, "color is {}: from 0 on, or KEEL_NO_COLOR", color);
  }
  try {
    return read_options(given, out_options);
  } catch (const std::bad_alloc&) {
    return Status::no_memory();
  }
}

Status add_handle(const Ref<Communicator>& communicator, keel_comm* out_comm) {
  Status status;
  try {
    const uint64_t id = communicator_handles().insert(communicator);
    if (id != 0) {
      *out_comm = {id};
      return {};
    }
    status = failure(KEEL_OUT_OF_MEMORY, "all handles of this kind are taken");
  } catch (const std::bad_alloc&) {
    status = Status::no_memory();
  }
  communicator->abort(
      status.with_prefix(communicator->team().name(communicator->local_rank()) + ": "));
  return status;
}

// Forms the islands of all ranks of a communicator at once; the ranks' worker threads cooperate.
Status find_islands(const std::vector<Ref<Communicator>>& ranks) {
  std::vector<Communicator::Task> tasks(ranks.size());
  Status status;
  for (size_t rank = 0; rank < ranks.size() && status.ok(); ++rank) {
    status = ranks[rank]
                 ->begin_islands(&tasks[rank])
                 .with_prefix(ranks[rank]->team().name(static_cast<uint32_t>(rank)) + ": ");
  }
  // Ranks already in the search would wait for the rest.
  if (!status.ok()) ranks[0]->abort(status);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Status found = ranks[rank]->await(tasks[rank]);
    // All ranks return the same text: the failed rank with the code of the cause, the rest with
    // KEEL_RANK_FAILED.
    const bool is_closer = status.code() == KEEL_RANK_FAILED && !found.ok();
    if (status.ok() || is_closer) status = found;
  }
  return status;
}

}  // namespace

namespace keel {

Status read_communicator_options(const keel_comm_options* given, CommunicatorOptions* out_options) {
  return read_options(given, out_options);
}

Status add_communicator(const Ref<Communicator>& communicator, keel_comm* out_comm) {
  return add_handle(communicator, out_comm);
}

Status find_formed_communicator(keel_comm handle, Ref<Communicator>* out_communicator) {
  const std::shared_ptr<AsyncCommInit> formation = AsyncCommInit::find(handle.id);
  if (!formation) return unknown_handle(handle.id, "comm");
  KEEL_RETURN_IF_ERROR(formation->refusal());
  return find_handle(communicator_handles(), handle.id, "comm", out_communicator);
}

}  // namespace keel

keel_status keel_comm_init_all(const keel_device* devices, uint32_t count,
                               const keel_comm_options* options, keel_comm* out_comms) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::HostCallbacks::check_wait());
    KEEL_REQUIRE(devices)
    KEEL_REQUIRE(out_comms)
    if (count == 0 || count > keel::kMaxWorld) {
      return failure(KEEL_INVALID_ARGUMENT, "count is {}: 1 to {}", count, keel::kMaxWorld);
    }
    std::vector<Ref<keel::Device>> found(count);
    for (uint32_t rank = 0; rank < count; ++rank) {
      KEEL_RETURN_IF_ERROR(
          keel::find_device(devices[rank], fmt::format("devices[{}]", rank).c_str(), &found[rank]));
    }
    keel::CommunicatorOptions wanted;
    KEEL_RETURN_IF_ERROR(read_options(options, &wanted));
    std::vector<keel::PeerInfo> peer_infos;
    for (uint32_t rank = 0; rank < count; ++rank) {
      peer_infos.push_back(keel::NewRank{found[rank], rank, count, wanted}.introduce());
    }
    std::shared_ptr<keel::Team> team;
    KEEL_RETURN_IF_ERROR(keel::Team::create_local(std::move(peer_infos), &team));
    team->segment().set_chunk_bytes(wanted.chunk_bytes);
    keel::Selection selection;
    KEEL_RETURN_IF_ERROR(keel::propose_selection(*team, wanted.table, &selection));
    std::vector<Ref<Communicator>> ranks;
    for (uint32_t rank = 0; rank < count; ++rank) {
      ranks.push_back(keel::make_ref<Communicator>(team, rank, found[rank], wanted, selection));
      keel::warn_of_shared_chip(team->peer_infos(), rank,
                                [&](uint32_t each) { return team->name(each); });
    }
    KEEL_RETURN_IF_ERROR(find_islands(ranks));
    std::vector<keel_comm> handles(count);
    for (uint32_t rank = 0; rank < count; ++rank) {
      const Status added = add_handle(ranks[rank], &handles[rank]);
      if (added.ok()) continue;
      for (uint32_t made = 0; made < rank; ++made) communicator_handles().remove(handles[made].id);
      return added;
    }
    std::copy(handles.begin(), handles.end(), out_comms);
    return {};
  });
}

keel_status keel_unique_id_create(keel_unique_id* out_id) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_id)
    keel::HostServerAddress address;
    if (keel::is_id_for_hosts(&address)) return keel::serve_hosts(address, out_id);
    return keel::serve_rendezvous(&keel::Team::make_segment, out_id);
  });
}

keel_status keel_comm_init_rank(keel_device device, const keel_unique_id* id, uint32_t rank,
                                uint32_t world, const keel_comm_options* options,
                                keel_comm* out_comm) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::HostCallbacks::check_wait());
    KEEL_REQUIRE(id)
    KEEL_REQUIRE(out_comm)
    Ref<keel::Device> found;
    KEEL_RETURN_IF_ERROR(keel::find_device(device, "device", &found));
    keel::CommunicatorOptions wanted;
    KEEL_RETURN_IF_ERROR(read_options(options, &wanted));
    const keel::HostSpan span("keel_comm_init_rank");
    Ref<Communicator> communicator;
    KEEL_RETURN_IF_ERROR(keel::join_by_id({found, rank, world, wanted}, *id, &communicator));
    return add_handle(communicator, out_comm);
  });
}

keel_status keel_launch_info_get(keel_launch_info* out_info) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::check_struct(out_info, KEEL_STRUCT_LAUNCH_INFO,
                                            sizeof(keel_launch_info), "out_info"));
    std::string rendezvous;
    return keel::read_launcher(out_info, &rendezvous);
  });
}

keel_status keel_comm_init_env(keel_device device, const keel_comm_options* options,
                               keel_comm* out_comm) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::HostCallbacks::check_wait());
    KEEL_REQUIRE(out_comm)
    Ref<keel::Device> found;
    KEEL_RETURN_IF_ERROR(keel::find_device(device, "device", &found));
    keel::CommunicatorOptions wanted;
    KEEL_RETURN_IF_ERROR(read_options(options, &wanted));
    const keel::HostSpan span("keel_comm_init_env");
    Ref<Communicator> communicator;
    KEEL_RETURN_IF_ERROR(keel::join_launched({found, 0, 0, wanted}, &communicator));
    return add_handle(communicator, out_comm);
  });
}

keel_status keel_comm_split(keel_comm comm, int32_t color, int32_t key,
                            const keel_comm_options* options, keel_comm* out_comm) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::HostCallbacks::check_wait());
    KEEL_RETURN_IF_ERROR(keel::OpenGroup::check_wait());
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(find_communicator(comm, &found));
    keel::CommunicatorOptions wanted;
    const Status able = check_split(color, options, out_comm, &wanted);
    if (!able.ok()) return found->refuse_split(able);
    const keel::HostSpan span("keel_comm_split");
    Ref<Communicator> part;
    KEEL_RETURN_IF_ERROR(found->split(color, key, wanted, &part));
    *out_comm = {0};
    return part ? add_handle(part, out_comm) : Status();
  });
}

keel_status keel_comm_duplicate(keel_comm comm, const keel_comm_options* options,
                                keel_comm* out_comm) {
  return keel_comm_split(comm, /*color=*/0, /*key=*/0, options, out_comm);
}

keel_status keel_comm_finalize(keel_comm comm, int64_t timeout_ns) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::HostCallbacks::check_wait());
    KEEL_RETURN_IF_ERROR(keel::OpenGroup::check_wait());
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(find_communicator(comm, &found));
    Deadline deadline = Runtime::get().default_deadline();
    KEEL_RETURN_IF_ERROR(Runtime::get().deadline(timeout_ns, &deadline, found->longest_ns()));
    const keel::HostSpan span("keel_comm_finalize");
    return found->finish(deadline);
  });
}

keel_status keel_comm_destroy(keel_comm comm) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::HostCallbacks::check_wait());
    KEEL_RETURN_IF_ERROR(keel::OpenGroup::check_wait());
    const std::shared_ptr<keel::AsyncCommInit> formation = keel::AsyncCommInit::take(comm.id);
    if (formation) formation->close();
    const Ref<Communicator> found = communicator_handles().remove(comm.id);
    if (!found && formation) return {};
    if (!found) return failure(KEEL_INVALID_HANDLE, "comm {:#x} is not a live handle", comm.id);
    const keel::HostSpan span("keel_comm_destroy");
    return found->close(Runtime::get().default_deadline());
  });
}

keel_status keel_comm_abort(keel_comm comm) {
  return api_call([&]() -> Status {
    if (const auto formation = keel::AsyncCommInit::find(comm.id)) {
      formation->cancel({KEEL_ABORTED, "the communicator was aborted while it formed"});
      if (!formation->status().ok()) return {};
    }
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(find_communicator(comm, &found));
    found->abort(failure(KEEL_ABORTED, "rank {} aborted", found->rank()));
    return {};
  });
}

keel_status keel_comm_rank(keel_comm comm, uint32_t* out_rank, uint32_t* out_world) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_rank)
    KEEL_REQUIRE(out_world)
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(find_communicator(comm, &found));
    *out_rank = found->rank();
    *out_world = found->world();
    return {};
  });
}

keel_status keel_comm_timeout_set(keel_comm comm, int64_t timeout_ns) {
  return api_call([&]() -> Status {
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(find_communicator(comm, &found));
    if (timeout_ns < 0) {
      return failure(KEEL_INVALID_ARGUMENT, "timeout_ns is {}", timeout_ns);
    }
    found->set_timeout(timeout_ns == 0 ? Runtime::get().default_timeout_ns() : timeout_ns);
    return {};
  });
}

keel_status keel_comm_timeout_next(keel_comm comm, int64_t timeout_ns) {
  return api_call([&]() -> Status {
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(find_communicator(comm, &found));
    if (timeout_ns < 0) {
      return failure(KEEL_INVALID_ARGUMENT, "timeout_ns is {}", timeout_ns);
    }
    found->set_next_timeout(timeout_ns == 0 ? Runtime::get().default_timeout_ns() : timeout_ns);
    return {};
  });
}

keel_status keel_comm_async_error(keel_comm comm) {
  return api_call([&]() -> Status {
    if (const auto formation = keel::AsyncCommInit::find(comm.id)) {
      KEEL_RETURN_IF_ERROR(formation->status());
    }
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(find_communicator(comm, &found));
    return found->async_error();
  });
}

keel_status keel_comm_rank_status(keel_comm comm, uint32_t rank) {
  return api_call([&]() -> Status {
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(find_communicator(comm, &found));
    return found->rank_status(rank);
  });
}

keel_status keel_comm_explain(keel_comm comm, char* out_text, uint64_t* in_out_size) {
  return api_call([&]() -> Status {
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(find_communicator(comm, &found));
    return keel::return_text(found->explain(), out_text, in_out_size);
  });
}

keel_status keel_comm_stats_get(keel_comm comm, keel_comm_stats* out_stats) {
  return api_call([&]() -> Status {
    constexpr size_t kOldest = offsetof(keel_comm_stats, native_operations);
    KEEL_RETURN_IF_ERROR(
        keel::check_struct(out_stats, KEEL_STRUCT_COMM_STATS, kOldest, "out_stats"));
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(find_communicator(comm, &found));
    const Communicator::Stats stats = found->stats();
    out_stats->operations = stats.operations;
    out_stats->bytes_to_host = stats.staged.to_host;
    out_stats->bytes_to_device = stats.staged.to_device;
    out_stats->bytes_in_place = stats.in_place;
    out_stats->preempted = stats.preempted;
    if (out_stats->header.size >= kOldest + sizeof(uint64_t))
      out_stats->native_operations = stats.native;
    return {};
  });
}

keel_status keel_premul_sum_create(keel_comm comm, double factor, keel_reduction* out_reduction) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_reduction)
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(find_communicator(comm, &found));
    return found->add_factor(factor, out_reduction);
  });
}

keel_status keel_premul_sum_destroy(keel_comm comm, keel_reduction reduction) {
  return api_call([&]() -> Status {
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(find_communicator(comm, &found));
    return found->remove_factor(reduction);
  });
}
