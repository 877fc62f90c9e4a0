// SPDX-License-Identifier: Apache-2.0
// The emulated chip's plugin as if compiled with another minor version of abi.h: an older one,
// whose structs end earlier, or with KEEL_NEWER a newer one, whose structs go on and carry
// extensions that nobody knows. What lies behind an older struct is no function: a call of it ends
// the process.
#include <keel/abi.h>

#include <cstring>
#include <keel/plugin_kit.hpp>

#include "core/testing/sim_plugin.h"

namespace keel::testing {
namespace {

const keel_plugin* g_sim = nullptr;

#ifdef KEEL_NEWER

constexpr char kName[] = "newer";

// Optional, and chained twice: a reader skips both.
const keel_header kUnknown[] = {{sizeof(keel_header), 998, &kUnknown[1]},
                                {sizeof(keel_header), 997, nullptr}};

// A struct of a later version, with members that this version does not have.
template <typename Struct>
struct Grown {
  Struct known;
  uint64_t later[4];
};
template <typename Struct>
Struct* resize(const Struct& from, size_t /*older_size*/) {
  static Grown<Struct> grown;
  grown.known = from;
  grown.known.header.size = sizeof(grown);
  grown.known.header.next = kUnknown;
  std::memset(grown.later, 0x5a, sizeof(grown.later));
  return &grown.known;
}

constexpr uint64_t kUnclaimed = 0;

#else

constexpr char kName[] = "older";

template <typename Struct>
Struct* resize(const Struct& from, size_t older_size) {
  static Struct cut;
  std::memset(static_cast<void*>(&cut), 0x5a, sizeof(cut));
  std::memcpy(static_cast<void*>(&cut), &from, older_size);
  cut.header.size = static_cast<uint32_t>(older_size);
  return &cut;
}

// The capabilities whose slots the older tables do not have.
constexpr uint64_t kUnclaimed = KEEL_CAPABILITY_HOST_REGISTER | KEEL_CAPABILITY_HOST_ALIAS |
                                KEEL_CAPABILITY_EXPORT | KEEL_CAPABILITY_PEER_COPY |
                                KEEL_CAPABILITY_STREAM_ALLOC | KEEL_CAPABILITY_TIMING |
                                KEEL_CAPABILITY_MEMORY_INFO | KEEL_CAPABILITY_CCL;

#endif

keel_status device_info(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_device_info* out_info) {
  const keel_status status = g_sim->device->info(instance, ordinal, out_info);
  if (status == KEEL_OK) out_info->capabilities &= ~kUnclaimed;
  return status;
}

}  // namespace
}  // namespace keel::testing

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  using namespace keel::testing;
  const keel_status answered = query_sim(kName, host, &g_sim);
  if (answered != KEEL_OK) return answered;
  keel_plugin* const plugin = resize(*g_sim, sizeof(keel_plugin));
  plugin->name = kName;
  keel_device_table* const device =
      resize(*g_sim->device, offsetof(keel_device_table, memory_info));
  device->info = device_info;
  plugin->device = device;
  plugin->memory = resize(*g_sim->memory, offsetof(keel_memory_table, alloc_on_stream));
  plugin->stream = resize(*g_sim->stream, offsetof(keel_stream_table, event_elapsed));
  if (g_sim->kernel != nullptr) {
    plugin->kernel = resize(*g_sim->kernel, sizeof(keel_kernel_table));
  }
  if (g_sim->op != nullptr) plugin->op = resize(*g_sim->op, sizeof(keel_op_table));
  if (kUnclaimed != 0) plugin->ccl = nullptr;
  *out_plugin = plugin;
  return KEEL_OK;
}
