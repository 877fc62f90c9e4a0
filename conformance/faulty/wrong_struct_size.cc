// SPDX-License-Identifier: Apache-2.0
// Wrong struct size: fills in the longer device information of a later version, beyond the caller's
// struct.
#include <cstring>

#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status info(keel_plugin_instance* instance, uint32_t ordinal, keel_device_info* out_info) {
  struct Later {
    keel_device_info known;
    uint64_t more[4];
  } later = {*out_info, {1, 2, 3, 4}};
  const keel_status status =
      keel::faulty::plain_tables().device.info(instance, ordinal, &later.known);
  std::memcpy(static_cast<void*>(out_info), &later, sizeof(later));
  return status;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.device.info = info;
  return keel::faulty::answer_query("faulty_wrong_struct_size", tables, host, out_plugin);
}
