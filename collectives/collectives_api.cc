// The C functions of communicators and collectives.
#include <mutex>

#include "collectives/communicator.h"
#include "core/api.h"
#include "core/observer.h"
#include "core/profiler.h"

using keel::api_call;
using keel::Communicator;
using keel::CommunicatorRank;
using keel::failure;
using keel::find_stream;
using keel::Ref;
using keel::Request;
using keel::Runtime;
using keel::Status;

namespace {

using CommTable = keel::HandleTable<CommunicatorRank, keel::HandleKind::kComm>;

// Ends what the user left behind before the devices go.
void destroy_all_ranks(CommTable& table) {
  for (uint64_t handle : table.live_handles()) {
    const Ref<CommunicatorRank> rank = table.remove(handle);
    if (rank) rank->communicator->abort({KEEL_ABORTED, "Keel was shut down"});
  }
}

CommTable& comm_handles() {
  static CommTable& table = *[] {
    auto* created = new CommTable;
    Runtime::get().add_shutdown_hook([created] { destroy_all_ranks(*created); });
    return created;
  }();
  return table;
}

Status find_comm(keel_comm handle, Ref<CommunicatorRank>* out_rank) {
  return keel::find_handle(comm_handles(), handle.id, "comm", out_rank);
}

keel_status enqueue(keel_comm comm, keel_stream stream, const Request& request) {
  return api_call([&]() -> Status {
    Ref<CommunicatorRank> found;
    KEEL_RETURN_IF_ERROR(find_comm(comm, &found));
    Ref<keel::Stream> queue;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &queue));
    keel::Communicator& communicator = *found->communicator;
    keel::EnqueueCall call(keel::collective_name(request.collective),
                           *communicator.device(found->rank), stream);
    return call.end(communicator.enqueue(found->rank, request, queue));
  });
}

Status read_options(const keel_comm_options* given, keel::CommunicatorOptions* out_options) {
  out_options->timeout_ns = Runtime::get().default_timeout_ns();
  if (given == nullptr) return {};
  KEEL_RETURN_IF_ERROR(
      keel::check_struct(given, KEEL_STRUCT_COMM_OPTIONS, sizeof(keel_comm_options), "options"));
  if (given->timeout_ns < 0) {
    return failure(KEEL_INVALID_ARGUMENT, "options.timeout_ns is {}", given->timeout_ns);
  }
  if (given->timeout_ns != 0) out_options->timeout_ns = given->timeout_ns;
  if (given->chunk_bytes != 0) {
    constexpr uint64_t kSmallest = 4096;
    constexpr uint64_t kLargest = 1ull << 30;
    if (given->chunk_bytes < kSmallest || given->chunk_bytes > kLargest ||
        given->chunk_bytes % 64 != 0) {
      return failure(KEEL_INVALID_ARGUMENT,
                     "options.chunk_bytes is {}: a multiple of 64 from {} to {}",
                     given->chunk_bytes, kSmallest, kLargest);
    }
    out_options->bridge.chunk_bytes = given->chunk_bytes;
  }
  out_options->bridge.forbid_alias = given->forbid_alias != 0;
  return {};
}

}  // namespace

keel_status keel_comm_init_all(const keel_device* devices, uint32_t count,
                               const keel_comm_options* options, keel_comm* out_comms) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(devices)
    KEEL_REQUIRE(out_comms)
    constexpr uint32_t kMostRanks = 4096;
    if (count == 0 || count > kMostRanks) {
      return failure(KEEL_INVALID_ARGUMENT, "count is {}: 1 to {}", count, kMostRanks);
    }
    std::vector<Ref<keel::Device>> found(count);
    for (uint32_t rank = 0; rank < count; ++rank) {
      KEEL_RETURN_IF_ERROR(
          keel::find_device(devices[rank], fmt::format("devices[{}]", rank).c_str(), &found[rank]));
    }
    keel::CommunicatorOptions wanted;
    KEEL_RETURN_IF_ERROR(read_options(options, &wanted));
    const auto communicator = keel::make_ref<Communicator>(std::move(found), wanted);
    std::vector<keel_comm> handles;
    for (uint32_t rank = 0; rank < count; ++rank) {
      const uint64_t id =
          comm_handles().insert(keel::make_ref<CommunicatorRank>(communicator, rank));
      if (id == 0) {
        for (keel_comm handle : handles) comm_handles().remove(handle.id);
        return failure(KEEL_OUT_OF_MEMORY, "all handles of this kind are taken");
      }
      handles.push_back({id});
    }
    std::copy(handles.begin(), handles.end(), out_comms);
    return {};
  });
}

keel_status keel_comm_destroy(keel_comm comm) {
  return api_call([&]() -> Status {
    Ref<CommunicatorRank> found;
    KEEL_RETURN_IF_ERROR(find_comm(comm, &found));
    Status finished;
    {
      const keel::HostSpan span("keel_comm_destroy");
      finished = found->communicator->finish(Runtime::get().default_deadline());
    }
    if (!comm_handles().remove(comm.id)) {
      return failure(KEEL_INVALID_HANDLE, "comm {:#x} is not a live handle", comm.id);
    }
    // Operations that this rank has not called can never complete.
    found->communicator->abort(failure(KEEL_ABORTED, "rank {} left the communicator", found->rank));
    return finished;
  });
}

keel_status keel_comm_abort(keel_comm comm) {
  return api_call([&]() -> Status {
    Ref<CommunicatorRank> found;
    KEEL_RETURN_IF_ERROR(find_comm(comm, &found));
    found->communicator->abort(failure(KEEL_ABORTED, "rank {} aborted", found->rank));
    return {};
  });
}

keel_status keel_comm_rank(keel_comm comm, uint32_t* out_rank, uint32_t* out_world) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_rank)
    KEEL_REQUIRE(out_world)
    Ref<CommunicatorRank> found;
    KEEL_RETURN_IF_ERROR(find_comm(comm, &found));
    *out_rank = found->rank;
    *out_world = found->communicator->world();
    return {};
  });
}

keel_status keel_comm_async_error(keel_comm comm) {
  return api_call([&]() -> Status {
    Ref<CommunicatorRank> found;
    KEEL_RETURN_IF_ERROR(find_comm(comm, &found));
    return found->communicator->async_error();
  });
}

keel_status keel_comm_explain(keel_comm comm, char* out_text, uint64_t* in_out_size) {
  return api_call([&]() -> Status {
    Ref<CommunicatorRank> found;
    KEEL_RETURN_IF_ERROR(find_comm(comm, &found));
    return keel::return_text(found->communicator->explain(), out_text, in_out_size);
  });
}

keel_status keel_comm_stats_get(keel_comm comm, keel_comm_stats* out_stats) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::check_struct(out_stats, KEEL_STRUCT_COMM_STATS,
                                            sizeof(keel_comm_stats), "out_stats"));
    Ref<CommunicatorRank> found;
    KEEL_RETURN_IF_ERROR(find_comm(comm, &found));
    const Communicator::Stats stats = found->communicator->stats();
    out_stats->operations = stats.operations;
    out_stats->bytes_to_host = stats.bytes.to_host;
    out_stats->bytes_to_device = stats.bytes.to_device;
    out_stats->bytes_in_place = stats.bytes.in_place;
    return {};
  });
}

keel_status keel_all_reduce(keel_comm comm, const void* send, void* receive, uint64_t count,
                            keel_dtype dtype, keel_reduction reduction, keel_stream stream) {
  return enqueue(comm, stream,
                 {KEEL_ALL_REDUCE, dtype, reduction, /*root=*/0, count, send, receive});
}

keel_status keel_broadcast(keel_comm comm, const void* send, void* receive, uint64_t count,
                           keel_dtype dtype, uint32_t root, keel_stream stream) {
  return enqueue(comm, stream, {KEEL_BROADCAST, dtype, KEEL_SUM, root, count, send, receive});
}

keel_status keel_all_gather(keel_comm comm, const void* send, void* receive, uint64_t count,
                            keel_dtype dtype, keel_stream stream) {
  return enqueue(comm, stream,
                 {KEEL_ALL_GATHER, dtype, KEEL_SUM, /*root=*/0, count, send, receive});
}

keel_status keel_reduce_scatter(keel_comm comm, const void* send, void* receive, uint64_t count,
                                keel_dtype dtype, keel_reduction reduction, keel_stream stream) {
  return enqueue(comm, stream,
                 {KEEL_REDUCE_SCATTER, dtype, reduction, /*root=*/0, count, send, receive});
}

keel_status keel_barrier(keel_comm comm, keel_stream stream) {
  return enqueue(comm, stream, {});
}
