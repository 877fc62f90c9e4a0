// SPDX-License-Identifier: Apache-2.0
#include "backends/kunlun/ccl_table.h"

#include <cstring>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <string>

#include "backends/kunlun/bkcl.h"
#include "backends/kunlun/communicator.h"
#include "backends/kunlun/instance.h"

namespace keel::kunlun {
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
keel_status find(const std::string& folder, const Bkcl** out_bkcl) {
  *out_bkcl = &Bkcl::of(folder);
  if ((*out_bkcl)->is_usable()) return KEEL_OK;
  return kit::fail(KEEL_UNSUPPORTED, "kunlun: %s", (*out_bkcl)->reason().c_str());
}

keel_status capability(keel_plugin_instance* instance, keel_collective collective, keel_dtype dtype,
                       keel_reduction reduction) {
  return kit::guard([&] {
    const Bkcl* bkcl = nullptr;
    const keel_status found = find(object(instance).bkcl_folder(), &bkcl);
    if (found != KEEL_OK) return found;
    const bool can = Bkcl::can(collective, dtype, reduction);
    return can ? keel_status{KEEL_OK} : keel_status{KEEL_UNSUPPORTED};
  });
}

keel_status unique_id(keel_plugin_device* device, void* out_id, uint64_t* in_out_size) {
  return kit::guard([&] {
    const Bkcl* bkcl = nullptr;
    const keel_status found = find(object(device).bkcl_folder(), &bkcl);
    if (found != KEEL_OK) return found;
    const uint64_t room = *in_out_size;
    BKCLUniqueId id = {};
    *in_out_size = sizeof(id);
    if (room < sizeof(id)) {
      return kit::fail(KEEL_INVALID_ARGUMENT, "kunlun: an id has %zu bytes, there is room for %llu",
                       sizeof(id), static_cast<unsigned long long>(room));
    }
    const keel_status status = object(device).perform("bkcl_get_unique_id", [&] {
      const BKCLResult_t result = bkcl->functions().get_unique_id(&id);
      return result == BKCL_SUCCESS ? keel_status{KEEL_OK} : fail("bkcl_get_unique_id", result);
    });
    if (status == KEEL_OK) std::memcpy(out_id, &id, sizeof(id));
    return status;
  });
}

keel_status init_rank(keel_plugin_device* device, const void* id, uint64_t id_size, int32_t rank,
                      int32_t world, int64_t /*timeout_ns*/, keel_plugin_comm** out_comm) {
  return kit::guard([&] {
    const Bkcl* bkcl = nullptr;
    const keel_status found = find(object(device).bkcl_folder(), &bkcl);
    if (found != KEEL_OK) return found;
    BKCLUniqueId read = {};
    if (id_size != sizeof(read)) {
      return kit::fail(KEEL_INVALID_ARGUMENT, "kunlun: the id has %llu bytes, not %zu",
                       static_cast<unsigned long long>(id_size), sizeof(read));
    }
    std::memcpy(&read, id, sizeof(read));
    std::unique_ptr<Communicator> made;
    const keel_status status =
        Communicator::create(object(device), *bkcl, read, rank, world, &made);
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

keel_status run(keel_plugin_comm* comm, keel_plugin_stream* stream, const keel_ccl_call* calls,
                uint32_t count) {
  return kit::guard([&] { return object(comm).run(object(stream), {calls, count}); });
}

keel_status info(keel_plugin_instance* instance, keel_ccl_info* out_info) {
  return kit::guard([&] {
    const Bkcl* bkcl = nullptr;
    const keel_status found = find(object(instance).bkcl_folder(), &bkcl);
    if (found != KEEL_OK) return found;
    // BKCL does not say its version; the runtime's, of the same release, stands for it.
    const std::string& runtime = object(instance).runtime().version();
    kit::copy_text(out_info->library, (bkcl->name() + " of " + runtime).c_str());
    out_info->reach = KEEL_CCL_NETWORK;
    return keel_status{KEEL_OK};
  });
}

}  // namespace

const keel_ccl_table kCclTable = {
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

}  // namespace keel::kunlun
