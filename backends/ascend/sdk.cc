// SPDX-License-Identifier: Apache-2.0
#include "backends/ascend/sdk.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>

namespace keel::ascend {
namespace {

std::string path_of(const void* function, const char* otherwise) {
  Dl_info info;
  const bool found = dladdr(function, &info) != 0 && info.dli_fname != nullptr;
  return found ? info.dli_fname : otherwise;
}

// Finds one required function; adds the name of an absent one to |*missing|.
template <typename Function>
void require(kit::VendorLibrary& library, const char* name, Function** out_function,
             std::string* missing) {
  if (library.find(name, out_function)) return;
  if (!missing->empty()) *missing += ", ";
  *missing += name;
}

}  // namespace

ErrorText::ErrorText(const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text_, sizeof(text_), format, arguments);
  va_end(arguments);
}

const Sdk& Sdk::of(const std::string& folder) {
  // Never destroyed, like the libraries.
  static std::mutex& mutex = *new std::mutex;
  static auto& sdks = *new std::map<std::string, std::unique_ptr<Sdk>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Sdk>& sdk = sdks[folder];
  if (sdk == nullptr) sdk.reset(new Sdk(folder));
  return *sdk;
}

Sdk::Sdk(const std::string& folder) {
  if (!open_runtime(folder) || !start()) {
    device_count_ = 0;
    no_collectives_ = no_operators_ = reason_;
    return;
  }
  open_collectives(folder);
  open_operators(folder);
  if (!no_collectives_.empty()) kit::log(KEEL_LOG_INFO, "ascend: %s", no_collectives_.c_str());
  if (!no_operators_.empty()) kit::log(KEEL_LOG_INFO, "ascend: %s", no_operators_.c_str());
}

bool Sdk::open_runtime(const std::string& folder) {
  constexpr const char* kFile = "libascendcl.so";
  if (!runtime_.open(folder, {kFile})) {
    reason_ = "no Ascend runtime: " + runtime_.error();
    return false;
  }
  std::string missing;
#define KEEL_ASCEND_FIND(name) require(runtime_, #name, &functions_.name, &missing);
  KEEL_ASCEND_RUNTIME(KEEL_ASCEND_FIND)
#undef KEEL_ASCEND_FIND
#define KEEL_ASCEND_FIND(name) runtime_.find(#name, &functions_.name);
  KEEL_ASCEND_OPTIONAL_RUNTIME(KEEL_ASCEND_FIND)
#undef KEEL_ASCEND_FIND
  const std::string path = path_of(reinterpret_cast<void*>(functions_.aclInit), kFile);
  if (!missing.empty()) {
    reason_ = "unusable Ascend runtime " + path + ": symbols missing: " + missing;
    return false;
  }
  int32_t major = 0;
  int32_t minor = 0;
  int32_t patch = 0;
  version_ = "ACL";
  if (functions_.aclrtGetVersion != nullptr &&
      functions_.aclrtGetVersion(&major, &minor, &patch) == ACL_SUCCESS) {
    version_ +=
        " " + std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  }
  description_ = version_ + ", " + path;
  return true;
}

bool Sdk::start() {
  const aclError started = functions_.aclInit(/*configPath=*/nullptr);
  // A framework in the process may have called aclInit before.
  if (started != ACL_SUCCESS && started != ACL_ERROR_REPEAT_INITIALIZE &&
      started != ACL_ERROR_RT_REPEATED_INIT) {
    reason_ = description_ + ": " + text_of("aclInit", started).c_str();
    return false;
  }
  const aclError counted = functions_.aclrtGetDeviceCount(&device_count_);
  if (counted != ACL_SUCCESS) {
    reason_ = description_ + ": " + text_of("aclrtGetDeviceCount", counted).c_str();
    return false;
  }
  reason_ = description_ + ": the runtime shows no device";
  return true;
}

void Sdk::open_collectives(const std::string& folder) {
  if (!collectives_.open(folder, {"libhccl.so"})) {
    no_collectives_ = "no HCCL: " + collectives_.error();
    return;
  }
  std::string missing;
#define KEEL_ASCEND_FIND(name) require(collectives_, #name, &functions_.name, &missing);
  KEEL_ASCEND_COLLECTIVES(KEEL_ASCEND_FIND)
#undef KEEL_ASCEND_FIND
#define KEEL_ASCEND_FIND(name) collectives_.find(#name, &functions_.name);
  KEEL_ASCEND_OPTIONAL_COLLECTIVES(KEEL_ASCEND_FIND)
#undef KEEL_ASCEND_FIND
  if (!missing.empty()) no_collectives_ = "unusable HCCL: symbols missing: " + missing;
}

void Sdk::open_operators(const std::string& folder) {
  if (!descriptors_.open(folder, {"libnnopbase.so"})) {
    no_operators_ = "no aclnn: " + descriptors_.error();
    return;
  }
  if (!operators_.open(folder, {"libopapi.so"})) {
    no_operators_ = "no aclnn: " + operators_.error();
    return;
  }
  std::string missing;
#define KEEL_ASCEND_FIND(name) require(descriptors_, #name, &functions_.name, &missing);
  KEEL_ASCEND_DESCRIPTORS(KEEL_ASCEND_FIND)
#undef KEEL_ASCEND_FIND
#define KEEL_ASCEND_FIND(name) descriptors_.find(#name, &functions_.name);
  KEEL_ASCEND_OPTIONAL_DESCRIPTORS(KEEL_ASCEND_FIND)
#undef KEEL_ASCEND_FIND
#define KEEL_ASCEND_FIND(name)                                       \
  if (!operators_.find("aclnn" #name "GetWorkspaceSize",             \
                       &functions_.aclnn##name##GetWorkspaceSize) || \
      !operators_.find("aclnn" #name, &functions_.aclnn##name)) {    \
    functions_.aclnn##name##GetWorkspaceSize = nullptr;              \
    functions_.aclnn##name = nullptr;                                \
  }
  KEEL_FOR_EACH_ACLNN(KEEL_ASCEND_FIND)
#undef KEEL_ASCEND_FIND
  // The operators without which core promises none.
  if (functions_.aclnnInplaceFillScalar == nullptr) missing += " aclnnInplaceFillScalar";
  if (functions_.aclnnAdd == nullptr) missing += " aclnnAdd";
  if (functions_.aclnnCast == nullptr) missing += " aclnnCast";
  if (!missing.empty()) no_operators_ = "unusable aclnn: symbols missing: " + missing;
}

ErrorText Sdk::text_of(const char* call, aclError error) const noexcept {
  // The runtime has no text for a number, only for its last error.
  const char* const last =
      functions_.aclGetRecentErrMsg == nullptr ? nullptr : functions_.aclGetRecentErrMsg();
  if (last == nullptr || *last == '\0') return ErrorText("%s: error %d", call, error);
  return ErrorText("%s: error %d: %s", call, error, last);
}

ErrorText Sdk::text_of(const char* call, HcclResult result) const noexcept {
  const char* const name =
      functions_.HcclGetErrorString == nullptr ? nullptr : functions_.HcclGetErrorString(result);
  if (name == nullptr) return ErrorText("%s: HcclResult %d", call, result);
  return ErrorText("%s: HcclResult %d: %s", call, result, name);
}

bool is_fatal(aclError error) {
  switch (error) {
    case ACL_ERROR_RT_LOST_HEARTBEAT:
    case ACL_ERROR_RT_DEVICE_MEM_ERROR:
    case ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR:
    case ACL_ERROR_RT_LINK_ERROR:
      return true;
    default:
      return false;
  }
}

keel_status status_of(aclError error) {
  if (is_fatal(error)) return KEEL_DEVICE_LOST;
  switch (error) {
    case ACL_SUCCESS:
      return KEEL_OK;
    case ACL_ERROR_BAD_ALLOC:
    case ACL_ERROR_RT_MEMORY_ALLOCATION:
    case ACL_ERROR_RT_DEVICE_OOM:
      return KEEL_OUT_OF_MEMORY;
    case ACL_ERROR_INVALID_PARAM:
    case ACL_ERROR_RT_PARAM_INVALID:
    case ACL_ERROR_RT_STREAM_CONTEXT:
    case ACL_ERROR_RT_ADDR_UNALIGNED:
      return KEEL_INVALID_ARGUMENT;
    case ACL_ERROR_RT_INVALID_DEVICEID:
    case ACL_ERROR_RT_NO_DEVICE:
      return KEEL_NOT_FOUND;
    case ACL_ERROR_RT_NO_EVENT_RESOURCE:
    case ACL_ERROR_RT_NO_STREAM_RESOURCE:
      return KEEL_UNAVAILABLE;
    case ACL_ERROR_FEATURE_UNSUPPORTED:
    case ACL_ERROR_RT_FEATURE_NOT_SUPPORT:
      return KEEL_UNSUPPORTED;
    case ACL_ERROR_UNINITIALIZE:
    case ACL_ERROR_RT_CONTEXT_NULL:
      return KEEL_FAILED_PRECONDITION;
    default:
      return KEEL_INTERNAL;
  }
}

keel_status status_of(HcclResult result) {
  switch (result) {
    case HCCL_SUCCESS:
      return KEEL_OK;
    case HCCL_E_PARA:
    case HCCL_E_PTR:
      return KEEL_INVALID_ARGUMENT;
    case HCCL_E_MEMORY:
    case HCCL_E_OOM:
      return KEEL_OUT_OF_MEMORY;
    case HCCL_E_NOT_SUPPORT:
      return KEEL_UNSUPPORTED;
    case HCCL_E_UNAVAIL:
      return KEEL_UNAVAILABLE;
    case HCCL_E_TIMEOUT:
      return KEEL_TIMED_OUT;
    case HCCL_E_REMOTE:
      return KEEL_RANK_FAILED;
    default:
      return KEEL_INTERNAL;
  }
}

}  // namespace keel::ascend
