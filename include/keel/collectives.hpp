// SPDX-License-Identifier: Apache-2.0
// C++ over the communicators and collectives of keel.h. Included by keel.hpp.
//
//   auto comm = keel::Communicator::from_environment(gpu);   // under `keel run -n 4 -- ...`
//   comm.all_reduce(gradient, gradient, count, KEEL_BFLOAT16, KEEL_SUM, stream);
//   stream.synchronize();
#ifndef KEEL_COLLECTIVES_HPP_
#define KEEL_COLLECTIVES_HPP_

#include <keel/keel.h>

#include <chrono>
#include <cstdint>
#include <keel/device.hpp>
#include <keel/error.hpp>
#include <keel/stream.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace keel {
inline namespace v0 {

// Bootstrap address of a new communicator: one rank creates the id, all other ranks receive it.
inline keel_unique_id make_unique_id() {
  keel_unique_id id;
  check(keel_unique_id_create(&id));
  return id;
}

// Rank and world from the launcher of this process. Throws KEEL_NOT_FOUND without a launcher.
inline keel_launch_info launch_info() {
  keel_launch_info info = KEEL_STRUCT_INIT(keel_launch_info, KEEL_STRUCT_LAUNCH_INFO);
  check(keel_launch_info_get(&info));
  return info;
}

// One rank of a communicator. Move-only; the destructor waits for the operations that the rank has
// called. Functions are those of keel.h and throw the failures that keel.h returns.
class Communicator {
 public:
  // All ranks in this process, one a device.
  static std::vector<Communicator> all(std::span<const Device> devices,
                                       const keel_comm_options* options = nullptr) {
    std::vector<keel_device> handles;
    for (const Device& device : devices) handles.push_back(device.get());
    std::vector<keel_comm> comms(devices.size());
    std::vector<Communicator> ranks;
    ranks.reserve(comms.size());
    check(keel_comm_init_all(handles.data(), static_cast<uint32_t>(handles.size()), options,
                             comms.data()));
    for (keel_comm comm : comms) ranks.push_back(Communicator(comm));
    return ranks;
  }
  // Joins as rank |rank| of |world|; waits for the other ranks.
  static Communicator join(const Device& device, const keel_unique_id& id, uint32_t rank,
                           uint32_t world, const keel_comm_options* options = nullptr) {
    keel_comm comm;
    check(keel_comm_init_rank(device.get(), &id, rank, world, options, &comm));
    return Communicator(comm);
  }
  // Joins the other processes of the job that this process was started in; waits for them.
  static Communicator from_environment(const Device& device,
                                       const keel_comm_options* options = nullptr) {
    keel_comm comm;
    check(keel_comm_init_env(device.get(), options, &comm));
    return Communicator(comm);
  }
  // Takes over a handle of keel.h.
  static Communicator adopt(keel_comm comm) { return Communicator(comm); }
  // The part of |color|, ordered by |key|; waits for all ranks of this communicator. get().id is 0
  // for KEEL_NO_COLOR.
  Communicator split(int32_t color, int32_t key, const keel_comm_options* options = nullptr) {
    keel_comm comm;
    check(keel_comm_split(get(), color, key, options, &comm));
    return Communicator(comm);
  }
  Communicator duplicate(const keel_comm_options* options = nullptr) {
    keel_comm comm;
    check(keel_comm_duplicate(get(), options, &comm));
    return Communicator(comm);
  }

  // With KEEL_COMM_URGENT: a second lane, whose operations overtake those of this communicator.
  Communicator duplicate(keel_comm_priority priority) {
    keel_comm_options options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.priority = priority;
    return duplicate(&options);
  }

  keel_comm get() const { return handle_.get(); }
  uint32_t rank() const { return place().first; }
  uint32_t world() const { return place().second; }

  void all_reduce(const void* send, void* receive, uint64_t count, keel_dtype dtype,
                  keel_reduction reduction, const Stream& stream) {
    check(keel_all_reduce(get(), send, receive, count, dtype, reduction, stream.get()));
  }
  void reduce(const void* send, void* receive, uint64_t count, keel_dtype dtype,
              keel_reduction reduction, uint32_t root, const Stream& stream) {
    check(keel_reduce(get(), send, receive, count, dtype, reduction, root, stream.get()));
  }
  void broadcast(const void* send, void* receive, uint64_t count, keel_dtype dtype, uint32_t root,
                 const Stream& stream) {
    check(keel_broadcast(get(), send, receive, count, dtype, root, stream.get()));
  }
  void all_gather(const void* send, void* receive, uint64_t count, keel_dtype dtype,
                  const Stream& stream) {
    check(keel_all_gather(get(), send, receive, count, dtype, stream.get()));
  }
  void reduce_scatter(const void* send, void* receive, uint64_t count, keel_dtype dtype,
                      keel_reduction reduction, const Stream& stream) {
    check(keel_reduce_scatter(get(), send, receive, count, dtype, reduction, stream.get()));
  }
  void all_to_all(const void* send, void* receive, uint64_t count, keel_dtype dtype,
                  const Stream& stream) {
    check(keel_all_to_all(get(), send, receive, count, dtype, stream.get()));
  }
  void gather(const void* send, void* receive, uint64_t count, keel_dtype dtype, uint32_t root,
              const Stream& stream) {
    check(keel_gather(get(), send, receive, count, dtype, root, stream.get()));
  }
  void scatter(const void* send, void* receive, uint64_t count, keel_dtype dtype, uint32_t root,
               const Stream& stream) {
    check(keel_scatter(get(), send, receive, count, dtype, root, stream.get()));
  }
  void barrier(const Stream& stream) { check(keel_barrier(get(), stream.get())); }

  // Forms with an entry a rank; throw KEEL_INVALID_ARGUMENT for fewer entries than ranks. Empty
  // |offsets|: one piece after the other.
  using Entries = std::span<const uint64_t>;
  void all_gather_v(const void* send, void* receive, Entries counts, Entries offsets,
                    keel_dtype dtype, const Stream& stream) {
    check(keel_all_gather_v(get(), send, receive, counts_of(counts), offsets_of(offsets), dtype,
                            stream.get()));
  }
  void reduce_scatter_v(const void* send, void* receive, Entries counts, Entries offsets,
                        keel_dtype dtype, keel_reduction reduction, const Stream& stream) {
    check(keel_reduce_scatter_v(get(), send, receive, counts_of(counts), offsets_of(offsets), dtype,
                                reduction, stream.get()));
  }
  void all_to_all_v(const void* send, Entries send_counts, Entries send_offsets, void* receive,
                    Entries receive_counts, Entries receive_offsets, keel_dtype dtype,
                    const Stream& stream) {
    check(keel_all_to_all_v(get(), send, counts_of(send_counts), offsets_of(send_offsets), receive,
                            counts_of(receive_counts), offsets_of(receive_offsets), dtype,
                            stream.get()));
  }
  void gather_v(const void* send, void* receive, Entries counts, Entries offsets, keel_dtype dtype,
                uint32_t root, const Stream& stream) {
    check(keel_gather_v(get(), send, receive, counts_of(counts), offsets_of(offsets), dtype, root,
                        stream.get()));
  }
  void scatter_v(const void* send, void* receive, Entries counts, Entries offsets, keel_dtype dtype,
                 uint32_t root, const Stream& stream) {
    check(keel_scatter_v(get(), send, receive, counts_of(counts), offsets_of(offsets), dtype, root,
                         stream.get()));
  }

  // Forms with a buffer a rank; throw KEEL_INVALID_ARGUMENT for fewer entries than ranks. Empty
  // |receive_counts|: the same as |send_counts|.
  void all_gather_list(const void* send, std::span<void* const> receive, uint64_t count,
                       keel_dtype dtype, const Stream& stream) {
    check(keel_all_gather_list(get(), send, entries_of(receive, "receive"), count, dtype,
                               stream.get()));
  }
  void all_to_all_list(std::span<const void* const> send, Entries send_counts,
                       std::span<void* const> receive, Entries receive_counts, keel_dtype dtype,
                       const Stream& stream) {
    check(keel_all_to_all_list(get(), entries_of(send, "send"), counts_of(send_counts),
                               entries_of(receive, "receive"), offsets_of(receive_counts), dtype,
                               stream.get()));
  }
  void reduce_scatter_list(std::span<const void* const> send, void* receive, uint64_t count,
                           keel_dtype dtype, keel_reduction reduction, const Stream& stream) {
    check(keel_reduce_scatter_list(get(), entries_of(send, "send"), receive, count, dtype,
                                   reduction, stream.get()));
  }

  void send(const void* send, uint64_t count, keel_dtype dtype, uint32_t peer,
            const Stream& stream) {
    check(keel_send(get(), send, count, dtype, peer, stream.get()));
  }
  void recv(void* receive, uint64_t count, keel_dtype dtype, uint32_t peer, const Stream& stream) {
    check(keel_recv(get(), receive, count, dtype, peer, stream.get()));
  }
  void send_recv(const void* send, uint64_t send_count, uint32_t to, void* receive,
                 uint64_t receive_count, uint32_t from, keel_dtype dtype, const Stream& stream) {
    check(keel_send_recv(get(), send, send_count, to, receive, receive_count, from, dtype,
                         stream.get()));
  }

  // Value for |reduction|: the sum of each rank's data times the rank's |factor|.
  keel_reduction premul_sum(double factor) {
    keel_reduction reduction = 0;
    check(keel_premul_sum_create(get(), factor, &reduction));
    return reduction;
  }
  void destroy_premul_sum(keel_reduction reduction) {
    check(keel_premul_sum_destroy(get(), reduction));
  }

  // Waits for all operations that this rank has called.
  void finalize(std::chrono::nanoseconds timeout = kDefaultTimeout) {
    check(keel_comm_finalize(get(), timeout.count()));
  }
  // Sets the deadline of each operation from the next on; 0: the default.
  void set_timeout(std::chrono::nanoseconds timeout) {
    check(keel_comm_timeout_set(get(), timeout.count()));
  }
  // Sets the deadline of the next operation alone; 0: the default.
  void set_next_timeout(std::chrono::nanoseconds timeout) {
    check(keel_comm_timeout_next(get(), timeout.count()));
  }
  // Fails all operations in flight and all later ones, on all ranks.
  void abort() { check(keel_comm_abort(get())); }
  // Throws the failure of the communicator, if it has failed.
  void check_async_error() const { check(keel_comm_async_error(get())); }
  // The path of each rank and the sizes in use, as JSON.
  std::string explain() const {
    return api_detail::read_text(
        [&](char* text, uint64_t* size) { return keel_comm_explain(get(), text, size); });
  }
  keel_comm_stats stats() const {
    keel_comm_stats stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    check(keel_comm_stats_get(get(), &stats));
    return stats;
  }

 private:
  explicit Communicator(keel_comm comm) : handle_(comm) {}

  std::pair<uint32_t, uint32_t> place() const {
    std::pair<uint32_t, uint32_t> found;
    check(keel_comm_rank(get(), &found.first, &found.second));
    return found;
  }
  const uint64_t* counts_of(Entries entries) const {
    if (entries.size() < world()) throw Error(KEEL_INVALID_ARGUMENT, "counts has too few entries");
    return entries.data();
  }
  template <typename Pointer>
  Pointer* entries_of(std::span<Pointer> entries, const char* name) const {
    if (entries.size() >= world()) return entries.data();
    throw Error(KEEL_INVALID_ARGUMENT, std::string(name) + " has too few entries");
  }
  const uint64_t* offsets_of(Entries entries) const {
    if (entries.empty()) return nullptr;
    if (entries.size() < world()) throw Error(KEEL_INVALID_ARGUMENT, "offsets has too few entries");
    return entries.data();
  }

  api_detail::UniqueHandle<keel_comm, keel_comm_destroy> handle_;
};

// Group of calls: end() enqueues together all that this thread has called during the object's life.
// The destructor of an open group does the same, but loses a failure.
class Group {
 public:
  Group() { check(keel_group_start()); }
  ~Group() {
    if (open_) (void)keel_group_end();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void end() {
    open_ = false;
    check(keel_group_end());
  }

 private:
  bool open_ = true;
};

}  // namespace v0
}  // namespace keel

#endif  // KEEL_COLLECTIVES_HPP_
