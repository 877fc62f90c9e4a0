// SPDX-License-Identifier: Apache-2.0
#include "backends/ascend/instance.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <string_view>

namespace keel::ascend {

keel_status Instance::create(const keel_instance_settings* settings,
                             std::unique_ptr<Instance>* out_instance) {
  // The user must not control the environment of a process with more rights than the user.
  const char* const value = secure_getenv("KEEL_ASCEND_LIBRARY_FOLDER");
  std::string folder = value == nullptr ? "" : value;
  const uint32_t count = settings == nullptr ? 0 : settings->count;
  for (uint32_t i = 0; i < count; ++i) {
    if (std::string_view(settings->keys[i]) != "library_folder") {
      return kit::fail(KEEL_INVALID_ARGUMENT, "ascend: setting '%s' is not known",
                       settings->keys[i]);
    }
    folder = settings->values[i];
  }
  out_instance->reset(new Instance(std::move(folder)));
  return KEEL_OK;
}

keel_status Instance::describe(uint32_t ordinal, keel_device_info* out_info) const {
  const Sdk& sdk = this->sdk();
  const Functions& acl = sdk.functions();
  if (ordinal >= sdk.device_count()) {
    return kit::fail(KEEL_NOT_FOUND, "ascend: there is no device %u", ordinal);
  }
  const char* const soc = acl.aclrtGetSocName == nullptr ? nullptr : acl.aclrtGetSocName();
  const std::string name = std::string("Ascend NPU") + (soc == nullptr ? "" : " (") +
                           (soc == nullptr ? "" : soc) + (soc == nullptr ? "" : ")");
  kit::copy_text(out_info->name, name.c_str());
  kit::copy_text(out_info->architecture, soc == nullptr ? "ascend" : soc);
  kit::copy_text(out_info->driver, sdk.description().c_str());
  aclrtUuid uuid = {};
  if (acl.aclrtDeviceGetUuid != nullptr &&
      acl.aclrtDeviceGetUuid(static_cast<int32_t>(ordinal), &uuid) == ACL_SUCCESS) {
    static_assert(sizeof(uuid.bytes) == sizeof(out_info->uuid));
    std::memcpy(out_info->uuid, uuid.bytes, sizeof(out_info->uuid));
  }
  // Returns 0, unknown, where the library is too old for the attribute.
  const auto attribute = [&](aclrtDevAttr which) {
    int64_t read = 0;
    const bool is_read = acl.aclrtGetDeviceInfo != nullptr &&
                         acl.aclrtGetDeviceInfo(ordinal, which, &read) == ACL_SUCCESS;
    return is_read ? static_cast<uint64_t>(std::max<int64_t>(read, 0)) : 0;
  };
  out_info->type = KEEL_DEVICE_NPU;
  out_info->numa_node = -1;
  out_info->memory_bytes = attribute(ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE);
  out_info->compute_units = static_cast<uint32_t>(attribute(ACL_DEV_ATTR_AICORE_CORE_NUM));
  out_info->alignment = 64;
  out_info->copy_alignment = 64;
  uint64_t capabilities =
      KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PAGEABLE_ASYNC;
  if (acl.aclrtEventElapsedTime != nullptr) capabilities |= KEEL_CAPABILITY_TIMING;
  if (acl.aclrtGetMemInfo != nullptr) capabilities |= KEEL_CAPABILITY_MEMORY_INFO;
  if (acl.aclrtHostRegisterV2 != nullptr && acl.aclrtHostUnregister != nullptr) {
    capabilities |= KEEL_CAPABILITY_HOST_REGISTER;
  }
  if (sdk.no_operators().empty()) capabilities |= KEEL_CAPABILITY_OPS;
  if (sdk.no_collectives().empty()) capabilities |= KEEL_CAPABILITY_CCL;
  out_info->capabilities = capabilities;
  return KEEL_OK;
}

}  // namespace keel::ascend
