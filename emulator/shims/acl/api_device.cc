// SPDX-License-Identifier: Apache-2.0
// The start, devices, contexts and memory.
#include <cstring>

#include "emulator/shims/acl/runtime.h"

namespace keel::emulator::acl {
namespace {

// Runs |body| with the context of |device|, whether held or not.
template <typename Body>
aclError with_device(int64_t device, Body&& body) noexcept {
  return answer([&] {
    Context* const context = Runtime::get().context(device);
    if (context == nullptr || Runtime::get().has_gone(device)) {
      return fail(ACL_ERROR_RT_INVALID_DEVICEID, "no such device");
    }
    return body(*context);
  });
}

}  // namespace
}  // namespace keel::emulator::acl

using namespace keel::emulator::acl;  // NOLINT: the functions below are C functions
using keel::emulator::Address;
using keel::emulator::CallKind;
using keel::emulator::DeviceRange;
using keel::emulator::HostMemory;
using keel::emulator::Injection;
using keel::emulator::Status;
using keel::emulator::undefined;

extern "C" {

aclError aclInit(const char* /*configPath*/) {
  return Runtime::get().init();
}

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  if (majorVersion == nullptr || minorVersion == nullptr || patchVersion == nullptr) {
    return ACL_ERROR_INVALID_PARAM;
  }
  const auto& version = Runtime::get().settings().version;
  *majorVersion = static_cast<int32_t>(version[0]);
  *minorVersion = static_cast<int32_t>(version[1]);
  *patchVersion = static_cast<int32_t>(version[2]);
  return ACL_SUCCESS;
}

const char* aclrtGetSocName() {
  const auto& profile = Runtime::get().settings().chips.device.profile;
  return profile ? profile->name.c_str() : "Ascend_emulated";
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  return answer([&]() -> aclError {
    const aclError told = Runtime::get().settings().count;
    if (told != ACL_SUCCESS) return fail(told, "set by KEEL_EMULATED_ASCEND");
    *count = static_cast<uint32_t>(Runtime::get().count_devices());
    return *count == 0 ? ACL_ERROR_RT_NO_DEVICE : ACL_SUCCESS;
  });
}

aclError aclrtSetDevice(int32_t deviceId) {
  return with_device(deviceId, [](Context& context) {
    const aclError told = Runtime::get().settings().device;
    if (told != ACL_SUCCESS) return fail(told, "set by KEEL_EMULATED_ASCEND");
    const aclError held = context.hold();
    if (held == ACL_SUCCESS) set_current_context(&context);
    return held;
  });
}

aclError aclrtResetDevice(int32_t deviceId) {
  return with_device(deviceId, [](Context& context) {
    if (current_context() == &context) set_current_context(nullptr);
    return context.release();
  });
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
  return with_device(deviceId, [&](Context&) -> aclError {
    switch (attr) {
      case ACL_DEV_ATTR_AICORE_CORE_NUM:
        *value = 1;
        return ACL_SUCCESS;
      case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
        *value = static_cast<int64_t>(Runtime::get().settings().chips.device.memory_bytes);
        return ACL_SUCCESS;
      default:
        return ACL_ERROR_RT_PARAM_INVALID;
    }
  });
}

aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid* uuid) {
  return with_device(deviceId, [&](Context&) {
    std::memcpy(uuid->bytes, "keel ascend    ", 15);
    uuid->bytes[15] = static_cast<char>(deviceId);
    return ACL_SUCCESS;
  });
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  return answer_here([&](const Here& here) -> aclError {
    if (attr != ACL_HBM_MEM) return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the chip has only HBM");
    *free = here.chip->memory().free_bytes();
    *total = here.chip->memory().total_bytes();
    return ACL_SUCCESS;
  });
}

aclError aclrtDeviceGetStreamPriorityRange(int32_t* leastPriority, int32_t* greatestPriority) {
  *leastPriority = 7;
  *greatestPriority = 0;
  return ACL_SUCCESS;
}

// ---- contexts ----------------------------------------------------------------

aclError aclrtSetCurrentContext(aclrtContext context) {
  return answer([&]() -> aclError {
    if (context == nullptr) return ACL_ERROR_RT_CONTEXT_NULL;
    set_current_context(static_cast<Context*>(context));
    return ACL_SUCCESS;
  });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return answer([&] {
    *context = current_context();
    return *context == nullptr ? fail(ACL_ERROR_RT_CONTEXT_NULL, "the thread has no context")
                               : ACL_SUCCESS;
  });
}

// The emulated operators are deterministic with and without the option, so nothing is stored.
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return answer_here([&](const Here&) -> aclError {
    if (opt != ACL_OPT_DETERMINISTIC || (value != 0 && value != 1)) {
      return fail(ACL_ERROR_RT_PARAM_INVALID, "no such option, or a value other than 0 and 1");
    }
    return ACL_SUCCESS;
  });
}

// ---- memory ------------------------------------------------------------------

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy /*policy*/) {
  return answer_here([&](const Here& here) -> aclError {
    if (devPtr == nullptr || size == 0) return ACL_ERROR_RT_PARAM_INVALID;
    Address address = 0;
    const Status status = here.chip->allocate(size, &address);
    if (status.ok()) *devPtr = reinterpret_cast<void*>(address);  // NOLINT: a device address
    return error_of(status, *here.chip);
  });
}

aclError aclrtFree(void* devPtr) {
  return answer_here([&](const Here& here) {
    const Status freed = here.chip->memory().free(keel::emulator::address_of(devPtr));
    if (!freed.ok()) undefined("aclrtFree", "aclrtMalloc did not return the pointer");
    return ACL_SUCCESS;
  });
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return answer_here([&](const Here& here) -> aclError {
    if (hostPtr == nullptr || size == 0) return ACL_ERROR_RT_PARAM_INVALID;
    Injection injection;
    const Status counted = here.chip->count_call(CallKind::kAlloc, &injection);
    if (!counted.ok()) return error_of(counted, *here.chip);
    return error_of(
        Runtime::get().host_memory().allocate(HostMemory::Kind::kPinned, size, hostPtr));
  });
}

aclError aclrtFreeHost(void* hostPtr) {
  return answer([&] {
    const auto freed = Runtime::get().host_memory().free(HostMemory::Kind::kPinned, hostPtr);
    if (freed != HostMemory::Result::kOk) {
      undefined("aclrtFreeHost", "aclrtMallocHost did not return the pointer");
    }
    return ACL_SUCCESS;
  });
}

aclError aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag) {
  return answer_here([&](const Here&) -> aclError {
    if ((flag & ACL_HOST_REG_PINNED) == 0) return ACL_ERROR_RT_PARAM_INVALID;
    return error_of(Runtime::get().host_memory().add(ptr, size));
  });
}

aclError aclrtHostUnregister(void* ptr) {
  return answer_here(
      [&](const Here&) { return error_of(Runtime::get().host_memory().remove(ptr)); });
}

}  // extern "C"
