// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/ccl_table.h"

#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <memory>

#include "backends/gpu/communicator.h"
#include "backends/gpu/instance.h"
#include "backends/gpu/nccl.h"

namespace keel::gpu {
namespace {

const Instance& object(keel_plugin_instance* handle) {
  return *reinterpret_cast<Instance*>(handle);
}
Device& object(keel_plugin_device* handle) {
  return *reinterpret_cast<Device*>(handle);
}
Stream& object(keel_plugin_stream* handle) {
  return *reinterpret_cast<Stream*>(handle);
}
Communicator& object(keel_plugin_comm* handle) {
  return *reinterpret_cast<Communicator*>(handle);
}

// Finds the library in |folder|. Returns KEEL_UNSUPPORTED, with the reason, if it is not usable.
keel_status find(const std::string& folder, const Nccl** out_nccl) {
  *out_nccl = &Nccl::of(folder);
  if ((*out_nccl)->is_usable()) return KEEL_OK;
  return kit::fail(KEEL_UNSUPPORTED, KEEL_GPU ": %s", (*out_nccl)->reason().c_str());
}

keel_status capability(keel_plugin_instance* instance, keel_collective collective, keel_dtype dtype,
                       keel_reduction reduction) {
  return kit::guard([&] {
    const Nccl* nccl = nullptr;
    const keel_status found = find(object(instance).ccl_folder(), &nccl);
    if (found != KEEL_OK) return found;
    const int lowest = object(instance).lowest_capability();
    const bool can = nccl->can(collective, dtype, reduction, lowest);
    return can ? keel_status{KEEL_OK} : keel_status{KEEL_UNSUPPORTED};
  });
}

keel_status unique_id(keel_plugin_device* device, void* out_id, uint64_t* in_out_size) {
  return kit::guard([&] {
    const Nccl* nccl = nullptr;
    const keel_status found = find(object(device).ccl_folder(), &nccl);
    if (found != KEEL_OK) return found;
    const uint64_t room = *in_out_size;
    ncclUniqueId id = {};
    *in_out_size = sizeof(id);
    if (room < sizeof(id)) {
      return kit::fail(KEEL_INVALID_ARGUMENT,
                       KEEL_GPU ": an id has %zu bytes, there is room for %llu", sizeof(id),
                       static_cast<unsigned long long>(room));
    }
    const ncclResult_t result = nccl->functions().GetUniqueId(&id);
    if (result != ncclSuccess) {
      return kit::fail(status_of(result), KEEL_GPU ": %s",
                       nccl->text_of("ncclGetUniqueId", result).c_str());
    }
    std::memcpy(out_id, &id, sizeof(id));
    return keel_status{KEEL_OK};
  });
}

keel_status init_rank(keel_plugin_device* device, const void* id, uint64_t id_size, int32_t rank,
                      int32_t world, int64_t timeout_ns, keel_plugin_comm** out_comm) {
  return kit::guard([&] {
    const Nccl* nccl = nullptr;
    const keel_status found = find(object(device).ccl_folder(), &nccl);
    if (found != KEEL_OK) return found;
    ncclUniqueId read = {};
    if (id_size != sizeof(read)) {
      return kit::fail(KEEL_INVALID_ARGUMENT, KEEL_GPU ": the id has %llu bytes, not %zu",
                       static_cast<unsigned long long>(id_size), sizeof(read));
    }
    std::memcpy(&read, id, sizeof(read));
    std::unique_ptr<Communicator> made;
    const keel_status status =
        Communicator::create(object(device), *nccl, read, rank, world, timeout_ns, &made);
    if (status == KEEL_OK) *out_comm = reinterpret_cast<keel_plugin_comm*>(made.release());
    return status;
  });
}

void destroy(keel_plugin_comm* comm) {
  delete &object(comm);
}

keel_status abort(keel_plugin_comm* comm) {
  return kit::guard([&] { return object(comm).abort(); });
}

keel_status async_error(keel_plugin_comm* comm) {
  return kit::guard([&] { return object(comm).async_error(); });
}

keel_status run(keel_plugin_comm* comm, keel_plugin_stream* stream, const keel_ccl_call* calls,
                uint32_t count) {
  return kit::guard([&] { return object(comm).run(object(stream), {calls, count}); });
}

keel_status register_buffer(keel_plugin_comm* comm, void* pointer, uint64_t size,
                            void** out_registration) {
  return kit::guard([&] { return object(comm).register_buffer(pointer, size, out_registration); });
}

keel_status deregister_buffer(keel_plugin_comm* comm, void* registration) {
  return kit::guard([&] { return object(comm).deregister_buffer(registration); });
}

keel_status info(keel_plugin_instance* instance, keel_ccl_info* out_info) {
  return kit::guard([&] {
    const Nccl* nccl = nullptr;
    const keel_status found = find(object(instance).ccl_folder(), &nccl);
    if (found != KEEL_OK) return found;
    kit::copy_text(out_info->library, nccl->name().c_str());
    out_info->reach = KEEL_CCL_NETWORK;
    return keel_status{KEEL_OK};
  });
}

keel_status split(keel_plugin_comm* comm, const uint32_t* ranks, uint32_t world, uint32_t rank,
                  int64_t timeout_ns, keel_plugin_comm** out_comm) {
  return kit::guard([&] {
    std::unique_ptr<Communicator> part;
    const keel_status status = object(comm).split({ranks, world}, rank, timeout_ns, &part);
    if (status == KEEL_OK) *out_comm = reinterpret_cast<keel_plugin_comm*>(part.release());
    return status;
  });
}

constexpr keel_ccl_table kTable = {
    .header = kit::header<keel_ccl_table>(KEEL_STRUCT_CCL_TABLE),
    .capability = capability,
    .unique_id = unique_id,
    .init_rank = init_rank,
    .destroy = destroy,
    .abort = abort,
    .async_error = async_error,
    .run = run,
    .register_buffer = register_buffer,
    .deregister_buffer = deregister_buffer,
    .info = info,
    .split = split,
};

}  // namespace

const keel_ccl_table* ccl_table() {
  return &kTable;
}

bool has_collectives(const std::string& folder) {
  return Nccl::of(folder).is_usable();
}

}  // namespace keel::gpu
