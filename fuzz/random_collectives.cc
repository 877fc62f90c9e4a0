// SPDX-License-Identifier: Apache-2.0
// Random calls of communicators and collectives.
#include <algorithm>
#include <mutex>

#include "fuzz/random_calls.h"

namespace keel::fuzz {

// ---- collectives ----------------------------------------------------------------

void RandomCalls::create_comm() {
  std::unique_lock lock(world_.comm_mutex_, std::try_to_lock);
  if (!lock) return;
  for (const auto& rank : world_.comm_) {
    if (rank != 0) return;
  }
  std::array<keel_device, World::kRanks> devices;
  for (uint32_t rank = 0; rank < World::kRanks; ++rank) devices[rank] = world_.lanes_[rank].device;
  if (bytes_->one_in(8)) devices[0] = device();
  keel_comm_options options = {};
  options.header = header(sizeof(options), KEEL_STRUCT_COMM_OPTIONS);
  options.timeout_ns = 5 * kMillisecond;  // some ranks never join
  options.chunk_bytes = bytes_->one_in(4) ? bytes_->below(4096) : 0;
  options.forbid_alias = bytes_->below(2);
  options.forbid_native = bytes_->below(2);
  std::array<keel_comm, World::kRanks> made = {};
  const keel_status status =
      keel_comm_init_all(devices.data(), World::kRanks, &options, made.data());
  check("keel_comm_init_all", status);
  if (status != KEEL_OK) return;
  for (uint32_t rank = 0; rank < World::kRanks; ++rank) world_.comm_[rank] = made[rank].id;
}

void RandomCalls::end_comm() {
  std::unique_lock lock(world_.comm_mutex_, std::try_to_lock);
  if (!lock) return;
  if (bytes_->one_in(2)) {
    check("keel_comm_abort", keel_comm_abort(comm()));
    return;
  }
  for (auto& rank : world_.comm_) {
    if (rank != 0) check("keel_comm_destroy", keel_comm_destroy({rank.exchange(0)}));
  }
}

void RandomCalls::ask_comm() {
  const keel_comm asked = comm();
  uint32_t rank = 0;
  uint32_t ranks = 0;
  check("keel_comm_rank", keel_comm_rank(asked, &rank, &ranks));
  check("keel_comm_async_error", keel_comm_async_error(asked));
  keel_comm_stats stats = {};
  stats.header = header(sizeof(stats), KEEL_STRUCT_COMM_STATS);
  check("keel_comm_stats_get", keel_comm_stats_get(asked, &stats));
  std::array<char, 256> answer;
  uint64_t room = bytes_->below(static_cast<uint32_t>(answer.size()) + 1);
  check("keel_comm_explain", keel_comm_explain(asked, answer.data(), &room));
  check("keel_comm_finalize", keel_comm_finalize(asked, bytes_->below(2) * kMillisecond));
  check("keel_comm_timeout_set",
        keel_comm_timeout_set(asked, (1 + bytes_->below(8)) * kMillisecond));
}

// The arguments shared by all ranks of one operation.
struct RandomCalls::Collective {
  uint32_t kind;
  keel_dtype dtype;
  keel_reduction reduction;
  uint32_t root;
  uint64_t count;
  std::array<uint64_t, World::kRanks> counts;
  std::array<uint64_t, World::kRanks> offsets;
};

void RandomCalls::collective() {
  Collective call;
  call.kind = bytes_->below(19);
  call.dtype = bytes_->usually(KEEL_FLOAT32, 8, 256);
  call.reduction = bytes_->usually(KEEL_SUM, 8, 300);
  call.root = bytes_->one_in(8) ? bytes_->byte() : bytes_->below(World::kRanks);
  call.count = size(bytes_->one_in(4) ? bytes_->below(2048) : 16);
  for (uint32_t rank = 0; rank < World::kRanks; ++rank) {
    call.counts[rank] = size(bytes_->below(40));
    call.offsets[rank] = size(40 * rank);
  }
  // Mostly a correct call by all ranks; else a call by one rank, which the other ranks do not
  // follow.
  const bool by_all = !bytes_->one_in(4);
  const uint32_t first = by_all ? 0 : bytes_->below(World::kRanks);
  const uint32_t end = by_all ? World::kRanks : first + 1;
  std::array<std::unique_lock<std::mutex>, World::kRanks> locks;
  for (uint32_t rank = first; rank < end; ++rank) {
    locks[rank] = std::unique_lock(world_.lanes_[rank].mutex, std::try_to_lock);
    if (!locks[rank]) return;
  }
  for (uint32_t rank = first; rank < end; ++rank) call_by_rank(rank, call);
}

void RandomCalls::call_by_rank(uint32_t rank, const Collective& call) {
  Lane& target = world_.lanes_[rank];  // locked by the caller
  const keel_comm comm = {handle(world_.comm_[rank])};
  // With another lane's rank, the call would use this lane's memory on that lane's stream.
  for (uint32_t other = 0; other < World::kRanks; ++other) {
    if (other != rank && comm.id == world_.comm_[other]) return;
  }
  const keel_stream stream = {target.stream};
  void* const send = own_memory(target);
  void* const receive = bytes_->one_in(4) ? send : own_memory(target);
  const auto [kind, dtype, reduction, root, count, counts, offsets] = call;
  const uint64_t* const at = bytes_->one_in(3) ? nullptr : offsets.data();
  const uint64_t* const pieces = bytes_->one_in(16) ? nullptr : counts.data();
  switch (kind) {
    case 0:
      check("keel_all_reduce",
            keel_all_reduce(comm, send, receive, count, dtype, reduction, stream));
      return;
    case 1:
      check("keel_broadcast", keel_broadcast(comm, send, receive, count, dtype, root, stream));
      return;
    case 2:
      check("keel_all_gather", keel_all_gather(comm, send, receive, count, dtype, stream));
      return;
    case 3:
      check("keel_reduce_scatter",
            keel_reduce_scatter(comm, send, receive, count, dtype, reduction, stream));
      return;
    case 4:
      check("keel_reduce", keel_reduce(comm, send, receive, count, dtype, reduction, root, stream));
      return;
    case 5:
      check("keel_all_to_all", keel_all_to_all(comm, send, receive, count, dtype, stream));
      return;
    case 6:
      check("keel_gather", keel_gather(comm, send, receive, count, dtype, root, stream));
      return;
    case 7:
      check("keel_scatter", keel_scatter(comm, send, receive, count, dtype, root, stream));
      return;
    case 8:
      check("keel_all_gather_v", keel_all_gather_v(comm, send, receive, pieces, at, dtype, stream));
      return;
    case 9:
      check("keel_reduce_scatter_v",
            keel_reduce_scatter_v(comm, send, receive, pieces, at, dtype, reduction, stream));
      return;
    case 10:
      check("keel_all_to_all_v",
            keel_all_to_all_v(comm, send, pieces, at, receive, pieces, at, dtype, stream));
      return;
    case 11:
      check("keel_gather_v", keel_gather_v(comm, send, receive, pieces, at, dtype, root, stream));
      return;
    case 12:
      check("keel_scatter_v", keel_scatter_v(comm, send, receive, pieces, at, dtype, root, stream));
      return;
    case 13: {
      if (send == receive) return;  // the send buffer would be overwritten
      const uint32_t next = (rank + 1) % World::kRanks;
      const uint32_t last = (rank + World::kRanks - 1) % World::kRanks;
      check("keel_send_recv",
            keel_send_recv(comm, send, count, next, receive, count, last, dtype, stream));
      return;
    }
    case 14:
      if (send == receive) return;
      check("keel_group_start", keel_group_start());
      check("keel_send", keel_send(comm, send, count, dtype, root, stream));
      check("keel_recv", keel_recv(comm, receive, count, dtype, root, stream));
      check("keel_group_end", keel_group_end());
      return;
    case 15:
      check("keel_send", keel_send(comm, send, count, dtype, root, stream));
      return;
    case 16: {
      keel_reduction made = reduction;
      const double factor = bytes_->below(5) - 2.0;
      check("keel_premul_sum_create", keel_premul_sum_create(comm, factor, &made));
      check("keel_all_reduce", keel_all_reduce(comm, send, receive, count, dtype, made, stream));
      check("keel_premul_sum_destroy", keel_premul_sum_destroy(comm, made));
      return;
    }
    case 17:
      check("keel_group_end", keel_group_end());
      return;
    default:
      check("keel_barrier", keel_barrier(comm, stream));
  }
}

}  // namespace keel::fuzz
