// SPDX-License-Identifier: Apache-2.0
// The vendor's collectives, checked.
#include <cstring>
#include <keel/plugin_kit.hpp>

#include "core/validation/call.h"
#include "core/validation/tables.h"

namespace keel::validation {

namespace {

bool check_kind(Call& call, keel_collective collective, keel_dtype dtype,
                keel_reduction reduction) {
  return call.check(collective < KEEL_COLLECTIVE_COUNT, "collective {} is none", collective) &&
         call.check(dtype > KEEL_DTYPE_INVALID && dtype < KEEL_DTYPE_COUNT, "dtype {} is none",
                    dtype) &&
         call.check(reduction < KEEL_REDUCTION_COUNT, "reduction {} is none", reduction);
}

keel_status capability(keel_plugin_instance* handle, keel_collective collective, keel_dtype dtype,
                       keel_reduction reduction) {
  Call call("ccl.capability", handle, collective, dtype, reduction);
  std::shared_ptr<CheckedInstance> instance;
  if (!call.find(handle, &instance) || !check_kind(call, collective, dtype, reduction)) {
    return call.refused();
  }
  return call.answer(
      instance->plugin->real->ccl->capability(instance->native, collective, dtype, reduction));
}

keel_status unique_id(keel_plugin_device* handle, void* out_id, uint64_t* in_out_size) {
  Call call("ccl.unique_id", handle, out_id, in_out_size);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(in_out_size != nullptr, "in_out_size is NULL") ||
      !call.check(*in_out_size == 0 || out_id != nullptr, "out_id is NULL")) {
    return call.refused();
  }
  const uint64_t room = *in_out_size;
  const keel_status code =
      call.answer(device->real().ccl->unique_id(device->native, out_id, in_out_size));
  if (code == KEEL_OK && *in_out_size > room) {
    return call.broken("the plugin says KEEL_OK for {} bytes in a room of {}", *in_out_size, room);
  }
  return code;
}

keel_status init_rank(keel_plugin_device* handle, const void* id, uint64_t id_size, int32_t rank,
                      int32_t world, int64_t timeout_ns, keel_plugin_comm** out_comm) {
  Call call("ccl.init_rank", handle, id, id_size, rank, world, timeout_ns, out_comm);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(id != nullptr, "id is NULL") ||
      !call.check(id_size != 0, "id_size is 0") ||
      !call.check(world > 0 && rank >= 0 && rank < world, "rank {} of {}", rank, world) ||
      !call.check(timeout_ns >= 0, "timeout_ns is {}", timeout_ns) ||
      !call.check(out_comm != nullptr, "out_comm is NULL")) {
    return call.refused();
  }
  keel_plugin_comm* native = nullptr;
  const keel_status code = call.answer(
      device->real().ccl->init_rank(device->native, id, id_size, rank, world, timeout_ns, &native));
  if (code != KEEL_OK) return code;
  if (native == nullptr) return call.broken("the plugin left *out_comm unset");
  auto comm = std::make_shared<CheckedComm>();
  comm->device = device;
  comm->native = native;
  comm->origin = capture_origin();
  *out_comm = registry<keel_plugin_comm>().insert(std::move(comm));
  return code;
}

void destroy(keel_plugin_comm* handle) {
  Call call("ccl.destroy", handle);
  std::shared_ptr<CheckedComm> comm;
  if (!call.find(handle, &comm)) return;
  {
    std::lock_guard lock(comm->device->mutex);
    if (!call.check_state(comm->registrations.empty(), "{} buffers are registered with it",
                          comm->registrations.size())) {
      return;
    }
  }
  registry<keel_plugin_comm>().remove(handle);
  comm->real().ccl->destroy(comm->native);
}

keel_status abort(keel_plugin_comm* handle) {
  Call call("ccl.abort", handle);
  std::shared_ptr<CheckedComm> comm;
  if (!call.find(handle, &comm)) return call.refused();
  return call.answer(comm->real().ccl->abort(comm->native));
}

keel_status async_error(keel_plugin_comm* handle) {
  Call call("ccl.async_error", handle);
  std::shared_ptr<CheckedComm> comm;
  if (!call.find(handle, &comm)) return call.refused();
  return call.answer(comm->real().ccl->async_error(comm->native));
}

keel_status run(keel_plugin_comm* handle, keel_plugin_stream* stream_handle,
                const keel_ccl_call* calls, uint32_t count) {
  Call call("ccl.run", handle, stream_handle, calls, count);
  Enqueue enqueue(call, stream_handle);
  std::shared_ptr<CheckedComm> comm;
  if (!enqueue.ok() || !call.find(handle, &comm) ||
      !call.check(comm->device == enqueue.stream().device, "comm is of {}, stream of {}",
                  comm->device->name, enqueue.device().name) ||
      !call.check(count != 0, "count is 0") || !call.check(calls != nullptr, "calls is NULL")) {
    return call.refused();
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (!call.check(calls[i].header.type == KEEL_STRUCT_CCL_CALL, "calls[{}].header has type {}", i,
                    calls[i].header.type) ||
        !check_kind(call, calls[i].collective, calls[i].dtype, calls[i].reduction)) {
      return call.refused();
    }
  }
  const keel_status code =
      call.answer(comm->real().ccl->run(comm->native, enqueue.native(), calls, count));
  if (code == KEEL_OK) enqueue.done();
  return code;
}

keel_status register_buffer(keel_plugin_comm* handle, void* pointer, uint64_t size,
                            void** out_registration) {
  Call call("ccl.register_buffer", handle, pointer, size, out_registration);
  std::shared_ptr<CheckedComm> comm;
  if (!call.find(handle, &comm) ||
      !call.check(out_registration != nullptr, "out_registration is NULL") ||
      !call.check_range({*comm->device, Space::kDevice, pointer, size, "pointer"})) {
    return call.refused();
  }
  void* registration = nullptr;
  const keel_status code =
      call.answer(comm->real().ccl->register_buffer(comm->native, pointer, size, &registration));
  if (code != KEEL_OK) return code;
  if (registration == nullptr) return call.broken("the plugin left *out_registration unset");
  *out_registration = registration;
  std::lock_guard lock(comm->device->mutex);
  comm->registrations.insert(registration);
  return code;
}

keel_status deregister_buffer(keel_plugin_comm* handle, void* registration) {
  Call call("ccl.deregister_buffer", handle, registration);
  std::shared_ptr<CheckedComm> comm;
  if (!call.find(handle, &comm)) return call.refused();
  {
    std::lock_guard lock(comm->device->mutex);
    if (!call.check(comm->registrations.erase(registration) != 0,
                    "registration {} is not one of this comm", registration)) {
      return call.refused();
    }
  }
  return call.answer(comm->real().ccl->deregister_buffer(comm->native, registration));
}

keel_status info(keel_plugin_instance* handle, keel_ccl_info* out_info) {
  Call call("ccl.info", handle, out_info);
  std::shared_ptr<CheckedInstance> instance;
  if (!call.find(handle, &instance) || !call.check(out_info != nullptr, "out_info is NULL") ||
      !call.check(out_info->header.type == KEEL_STRUCT_CCL_INFO, "out_info->header has type {}",
                  out_info->header.type)) {
    return call.refused();
  }
  const keel_status code =
      call.answer(instance->plugin->real->ccl->info(instance->native, out_info));
  if (code != KEEL_OK) return code;
  if (std::memchr(out_info->library, 0, sizeof(out_info->library)) == nullptr) {
    return call.broken("library has no end");
  }
  if (out_info->reach < KEEL_CCL_PROCESS || out_info->reach > KEEL_CCL_NETWORK) {
    return call.broken("reach {} is none", out_info->reach);
  }
  return code;
}

keel_status split(keel_plugin_comm* handle, const uint32_t* ranks, uint32_t world, uint32_t rank,
                  int64_t timeout_ns, keel_plugin_comm** out_comm) {
  Call call("ccl.split", handle, ranks, world, rank, timeout_ns, out_comm);
  std::shared_ptr<CheckedComm> comm;
  if (!call.find(handle, &comm) || !call.check(out_comm != nullptr, "out_comm is NULL") ||
      !call.check(world == 0 || ranks != nullptr, "ranks is NULL") ||
      !call.check(world == 0 || rank < world, "rank {} of {}", rank, world) ||
      !call.check(timeout_ns >= 0, "timeout_ns is {}", timeout_ns)) {
    return call.refused();
  }
  keel_plugin_comm* native = nullptr;
  const keel_status code =
      call.answer(comm->real().ccl->split(comm->native, ranks, world, rank, timeout_ns, &native));
  if (code != KEEL_OK) return code;
  if ((native == nullptr) != (world == 0)) {
    return call.broken("the plugin {} a communicator for {} ranks",
                       native == nullptr ? "made no" : "made", world);
  }
  *out_comm = nullptr;
  if (native == nullptr) return code;
  auto part = std::make_shared<CheckedComm>();
  part->device = comm->device;
  part->native = native;
  part->origin = capture_origin();
  *out_comm = registry<keel_plugin_comm>().insert(std::move(part));
  return code;
}

}  // namespace

keel_ccl_table checked_ccl_table(const keel_ccl_table* real) {
  keel_ccl_table table = {};
  table.header = kit::header<keel_ccl_table>(KEEL_STRUCT_CCL_TABLE);
  KEEL_CHECKED_SLOT(keel_ccl_table, capability, capability)
  KEEL_CHECKED_SLOT(keel_ccl_table, unique_id, unique_id)
  KEEL_CHECKED_SLOT(keel_ccl_table, init_rank, init_rank)
  KEEL_CHECKED_SLOT(keel_ccl_table, destroy, destroy)
  KEEL_CHECKED_SLOT(keel_ccl_table, abort, abort)
  KEEL_CHECKED_SLOT(keel_ccl_table, async_error, async_error)
  KEEL_CHECKED_SLOT(keel_ccl_table, run, run)
  KEEL_CHECKED_SLOT(keel_ccl_table, register_buffer, register_buffer)
  KEEL_CHECKED_SLOT(keel_ccl_table, deregister_buffer, deregister_buffer)
  KEEL_CHECKED_SLOT(keel_ccl_table, info, info)
  KEEL_CHECKED_SLOT(keel_ccl_table, split, split)
  return table;
}

}  // namespace keel::validation
