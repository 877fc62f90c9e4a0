// SPDX-License-Identifier: Apache-2.0
#include "collectives/hierarchical/native_offer.h"

#include <algorithm>
#include <cstring>

#include "collectives/operation.h"

namespace keel {

bool NativeCapability::has(keel_collective collective, keel_dtype dtype,
                           keel_reduction reduction) const {
  const uint32_t bit = reduces(collective) ? reduction : 0;
  return (reductions[collective][dtype] >> bit & 1) != 0;
}

void NativeCapability::keep_common(const NativeCapability& other) {
  for (size_t collective = 0; collective < reductions.size(); ++collective) {
    for (size_t dtype = 0; dtype < reductions[collective].size(); ++dtype) {
      reductions[collective][dtype] &= other.reductions[collective][dtype];
    }
  }
}

NativeOffer::Why native_why(const Device& device, bool is_forbidden) {
  const keel_ccl_table* table = device.ccl_table();
  const bool has_library =
      device.has(KEEL_CAPABILITY_CCL) && KEEL_HAS(keel_ccl_table, table, capability) &&
      KEEL_HAS(keel_ccl_table, table, unique_id) && KEEL_HAS(keel_ccl_table, table, init_rank) &&
      KEEL_HAS(keel_ccl_table, table, destroy) && KEEL_HAS(keel_ccl_table, table, run) &&
      KEEL_HAS(keel_ccl_table, table, info);
  if (!has_library) return NativeOffer::Why::kNoLibrary;
  if (is_forbidden) return NativeOffer::Why::kForbidden;
  if (device.info().hardware_queues == 1) return NativeOffer::Why::kOneQueue;
  return NativeOffer::Why::kOffered;
}

Status make_native_offer(const Device& device, NativeOffer* out_offer) {
  const keel_ccl_table& table = *device.ccl_table();
  keel_plugin_instance* const instance = device.backend().instance();
  auto info = KEEL_STRUCT_INIT(keel_ccl_info, KEEL_STRUCT_CCL_INFO);
  KEEL_RETURN_IF_ERROR(plugin_status(table.info(instance, &info), device.name(), "ccl.info"));
  NativeOffer offer;
  static_assert(sizeof(offer.library) == sizeof(info.library));
  std::copy(std::begin(info.library), std::end(info.library), offer.library.begin());
  offer.library.back() = '\0';
  offer.reach = info.reach;
  std::copy(std::begin(device.info().uuid), std::end(device.info().uuid), offer.uuid.begin());
  for (uint32_t collective = 0; collective < KEEL_COLLECTIVE_COUNT; ++collective) {
    const uint32_t kinds = reduces(collective) ? KEEL_REDUCTION_COUNT : 1;
    for (uint32_t dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
      for (uint32_t reduction = 0; reduction < kinds; ++reduction) {
        if (table.capability(instance, collective, dtype, reduction) != KEEL_OK) continue;
        offer.capability.reductions[collective][dtype] |= static_cast<uint8_t>(1u << reduction);
      }
    }
  }
  *out_offer = offer;
  return {};
}

}  // namespace keel
