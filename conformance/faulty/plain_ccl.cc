// SPDX-License-Identifier: Apache-2.0
#include "conformance/faulty/plain_ccl.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace keel::faulty {

namespace {

// One operation. Threads that wait for its ranks wait on the group's condition variable.
struct Operation {
  std::vector<keel_ccl_call> calls;
  uint32_t arrived = 0;
  uint32_t have_read = 0;
};

// The ranks of one communicator, which rendezvous by its id.
struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t world = 0;
  uint32_t come = 0;
  bool aborted = false;
  std::map<uint64_t, std::shared_ptr<Operation>> operations;
};

struct Comm {
  std::shared_ptr<Group> group;
  uint32_t rank = 0;
  uint64_t called = 0;
};

std::mutex g_mutex;
std::map<uint64_t, std::shared_ptr<Group>> g_groups;  // by id

Comm& object(keel_plugin_comm* handle) {
  return *reinterpret_cast<Comm*>(handle);
}

bool takes(keel_collective collective, keel_reduction reduction) {
  return collective == KEEL_BROADCAST ||
         (collective == KEEL_ALL_REDUCE &&
          (reduction == KEEL_SUM || reduction == KEEL_MIN || reduction == KEEL_MAX));
}

keel_status capability(keel_plugin_instance*, keel_collective collective, keel_dtype dtype,
                       keel_reduction reduction) {
  const bool has_dtype = dtype == KEEL_FLOAT32 || dtype == KEEL_INT32;
  return takes(collective, reduction) && has_dtype ? KEEL_OK : KEEL_UNSUPPORTED;
}

keel_status unique_id(keel_plugin_device*, void* out_id, uint64_t* in_out_size) {
  static uint64_t made = 0;
  const std::lock_guard lock(g_mutex);
  const uint64_t id = ++made;
  if (*in_out_size < sizeof(id)) return KEEL_INVALID_ARGUMENT;
  *in_out_size = sizeof(id);
  std::memcpy(out_id, &id, sizeof(id));
  g_groups[id] = std::make_shared<Group>();
  return KEEL_OK;
}

keel_status init_rank(keel_plugin_device*, const void* id, uint64_t id_size, int32_t rank,
                      int32_t world, int64_t timeout_ns, keel_plugin_comm** out_comm) {
  uint64_t key = 0;
  if (id_size != sizeof(key)) return KEEL_INVALID_ARGUMENT;
  std::memcpy(&key, id, sizeof(key));
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(g_mutex);
    const auto found = g_groups.find(key);
    if (found == g_groups.end()) return KEEL_INVALID_ARGUMENT;
    group = found->second;
  }
  std::unique_lock lock(group->mutex);
  group->world = static_cast<uint32_t>(world);
  ++group->come;
  group->changed.notify_all();
  const auto all = [&] { return group->come == group->world; };
  if (!group->changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), all)) {
    return kit::fail(KEEL_TIMED_OUT, "not all ranks came");
  }
  *out_comm = reinterpret_cast<keel_plugin_comm*>(
      new Comm{group, static_cast<uint32_t>(rank), /*called=*/0});
  return KEEL_OK;
}

void destroy(keel_plugin_comm* comm) {
  delete &object(comm);
}

keel_status abort(keel_plugin_comm* comm) {
  Group& group = *object(comm).group;
  const std::lock_guard lock(group.mutex);
  group.aborted = true;
  group.changed.notify_all();
  return KEEL_OK;
}

template <typename Number>
void reduce(const Operation& operation, std::vector<std::byte>& result) {
  const keel_ccl_call& own = operation.calls[0];
  for (uint64_t i = 0; i < own.count; ++i) {
    Number value = static_cast<const Number*>(own.send)[i];
    for (size_t rank = 1; rank < operation.calls.size(); ++rank) {
      const Number other = static_cast<const Number*>(operation.calls[rank].send)[i];
      if (own.reduction == KEEL_SUM) value += other;
      if (own.reduction == KEEL_MIN) value = std::min(value, other);
      if (own.reduction == KEEL_MAX) value = std::max(value, other);
    }
    std::memcpy(result.data() + i * sizeof(value), &value, sizeof(value));
  }
}

// Runs on the stream's thread; returns after all ranks have arrived or after an abort.
void perform(Group& group, Operation& operation, uint32_t rank) {
  const auto meet = [&](uint32_t& count) {
    std::unique_lock lock(group.mutex);
    ++count;
    group.changed.notify_all();
    group.changed.wait(lock, [&] { return count == group.world || group.aborted; });
    return !group.aborted;
  };
  if (!meet(operation.arrived)) return;
  const keel_ccl_call& own = operation.calls[rank];
  std::vector<std::byte> result(own.count * kit::dtype_size(own.dtype));
  if (own.collective == KEEL_BROADCAST) {
    std::memcpy(result.data(), operation.calls[static_cast<size_t>(own.root)].send, result.size());
  } else if (own.dtype == KEEL_FLOAT32) {
    reduce<float>(operation, result);
  } else if (own.dtype == KEEL_FLOAT64) {
    reduce<double>(operation, result);
  } else {
    reduce<int32_t>(operation, result);
  }
  if (meet(operation.have_read)) std::memcpy(own.receive, result.data(), result.size());
}

keel_status run(keel_plugin_comm* handle, keel_plugin_stream* stream, const keel_ccl_call* calls,
                uint32_t count) {
  Comm& comm = object(handle);
  for (uint32_t i = 0; i < count; ++i) {
    if (!takes(calls[i].collective, calls[i].reduction)) return KEEL_UNSUPPORTED;
  }
  for (uint32_t i = 0; i < count; ++i) {
    std::shared_ptr<Operation> operation;
    {
      const std::lock_guard lock(comm.group->mutex);
      std::shared_ptr<Operation>& entry = comm.group->operations[comm.called++];
      if (entry == nullptr) entry = std::make_shared<Operation>();
      operation = entry;
      operation->calls.resize(comm.group->world);
      operation->calls[comm.rank] = calls[i];
    }
    enqueue(stream, [group = comm.group, operation, rank = comm.rank] {
      perform(*group, *operation, rank);
    });
  }
  return KEEL_OK;
}

keel_status info(keel_plugin_instance*, keel_ccl_info* out_info) {
  kit::copy_text(out_info->library, "plain ccl 1");
  out_info->reach = KEEL_CCL_PROCESS;
  return KEEL_OK;
}

keel_status device_info(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_device_info* out_info) {
  const keel_status status = tables_of_two().device.info(instance, ordinal, out_info);
  // A caller built before the |capabilities| member existed passes a shorter struct.
  constexpr uint32_t kWithCapabilities =
      offsetof(keel_device_info, capabilities) + sizeof(keel_device_info::capabilities);
  if (status == KEEL_OK && out_info->header.size >= kWithCapabilities) {
    out_info->capabilities |= KEEL_CAPABILITY_CCL;
  }
  return status;
}

constexpr keel_ccl_table kTable = {
    .header = kit::header<keel_ccl_table>(KEEL_STRUCT_CCL_TABLE),
    .capability = capability,
    .unique_id = unique_id,
    .init_rank = init_rank,
    .destroy = destroy,
    .abort = abort,
    .async_error = nullptr,
    .run = run,
    .register_buffer = nullptr,
    .deregister_buffer = nullptr,
    .info = info,
    .split = nullptr,
};

}  // namespace

const keel_ccl_table& plain_ccl() {
  return kTable;
}

Tables tables_with(const keel_ccl_table& ccl) {
  Tables tables = tables_of_two();
  tables.device.info = device_info;
  tables.ccl = &ccl;
  return tables;
}

}  // namespace keel::faulty
