// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/nccl.h"

#include <dlfcn.h>
#include <gpu_target.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

namespace keel::gpu {
namespace {

// 22809 is 2.28.9; up to 2.8 the minor version had one digit.
std::string version_text(int version) {
  const int major = version < 10000 ? version / 1000 : version / 10000;
  const int minor = version < 10000 ? version % 1000 / 100 : version % 10000 / 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(version % 100);
}

// The library's environment variables override the caller's configuration.
void warn_of_blocking(const std::string& name) {
  const char* const blocking = std::getenv("NCCL_COMM_BLOCKING");
  if (blocking == nullptr || std::string_view(blocking) != "1") return;
  kit::log(KEEL_LOG_WARNING,
           KEEL_GPU
           ": NCCL_COMM_BLOCKING=1 in the environment makes the calls of %s block: deadlines "
           "of collectives, and aborts, come when the library returns; unset it",
           name.c_str());
}

constexpr int kFirstWithSettings = 21700;
constexpr int kFirstWithFloat8 = 22400;
// The minimum capability for 8-bit floats. NCCL reduces them on no older device, and some versions
// refuse even to move them there.
constexpr int kCapabilityOfFloat8 = 90;

}  // namespace

const Nccl& Nccl::of(const std::string& folder) {
  // Never destroyed, like the libraries.
  static std::mutex& mutex = *new std::mutex;
  static auto& libraries = *new std::map<std::string, std::unique_ptr<Nccl>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Nccl>& library = libraries[folder];
  if (library == nullptr) library.reset(new Nccl(folder));
  return *library;
}

Nccl::Nccl(const std::string& folder) {
  if (!open(folder)) kit::log(KEEL_LOG_INFO, KEEL_GPU ": %s", reason_.c_str());
}

bool Nccl::open(const std::string& folder) {
  if (!library_.open(folder, {KEEL_GPU_CCL_FILE})) {
    reason_ = "no " KEEL_GPU_CCL_UPPER ": " + library_.error();
    return false;
  }
  if (!library_.find("ncclGetVersion", &functions_.GetVersion)) {
    reason_ = "unusable " KEEL_GPU_CCL_UPPER ": " + library_.error();
    return false;
  }
  Dl_info info;
  std::string path = KEEL_GPU_CCL_FILE;
  if (dladdr(reinterpret_cast<void*>(functions_.GetVersion), &info) != 0 &&
      info.dli_fname != nullptr) {
    path = info.dli_fname;
  }
  const ncclResult_t asked = functions_.GetVersion(&version_);
  if (asked != ncclSuccess) {
    reason_ = "unusable " KEEL_GPU_CCL_UPPER " " + path + ": ncclGetVersion: error " +
              std::to_string(asked);
    return false;
  }
  name_ = KEEL_GPU_CCL_UPPER " " + version_text(version_);
  if (version_ < kOldest) {
    reason_ = path + " is " + name_ + ", too old: " + version_text(kOldest) +
              " is the first that is used";
    return false;
  }
  std::string missing;
#define KEEL_NCCL_FIND(name)                                            \
  if (!library_.find("nccl" #name, &functions_.name)) {                 \
    missing += std::string(missing.empty() ? "" : ", ") + "nccl" #name; \
  }
  KEEL_NCCL_FUNCTIONS(KEEL_NCCL_FIND)
#undef KEEL_NCCL_FIND
#define KEEL_NCCL_FIND(name) library_.find("nccl" #name, &functions_.name);
  KEEL_NCCL_OPTIONAL_FUNCTIONS(KEEL_NCCL_FIND)
#undef KEEL_NCCL_FIND
  library_.find(KEEL_GPU_CCL_ALL_TO_ALL, &functions_.AlltoAll);
  if (missing.empty()) {
    warn_of_blocking(name_);
    return true;
  }
  reason_ = "unusable " KEEL_GPU_CCL_UPPER " " + path + ": symbols missing: " + missing;
  return false;
}

bool Nccl::can(keel_collective collective, keel_dtype dtype, keel_reduction reduction,
               int capability) const {
  if (!is_usable()) return false;
  ncclDataType_t type = ncclNumTypes;
  if (!translate(dtype, &type)) return false;
  const bool is_float8 = type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
  if (is_float8 && (version_ < kFirstWithFloat8 || capability < kCapabilityOfFloat8)) return false;
  switch (collective) {
    case KEEL_ALL_REDUCE:
    case KEEL_REDUCE:
    case KEEL_REDUCE_SCATTER:
      // Alone, a rank has no kernel that scales 8-bit floats.
      return reduction < KEEL_REDUCTION_COUNT && !(is_float8 && reduction == KEEL_PREMUL_SUM);
    case KEEL_BROADCAST:
    case KEEL_ALL_GATHER:
    case KEEL_SEND:
    case KEEL_RECV:
      return true;
    case KEEL_ALL_TO_ALL:
      return functions_.AlltoAll != nullptr;
    default:
      return false;
  }
}

keel_status Nccl::configure(const NcclSettings& settings, ncclConfig_t* out_config) const {
  *out_config = NCCL_CONFIG_INITIALIZER;
  out_config->blocking = 0;
  // An older library ignores the settings.
  if (settings.any() && version_ < kFirstWithSettings) {
    return kit::fail(KEEL_UNSUPPORTED,
                     KEEL_GPU ": %s takes no " KEEL_GPU_CCL "_cga_cluster_size, " KEEL_GPU_CCL
                              "_min_ctas, " KEEL_GPU_CCL "_max_ctas or " KEEL_GPU_CCL
                              "_net_name: %s is the first that does",
                     name_.c_str(), version_text(kFirstWithSettings).c_str());
  }
  const auto set = [](const std::optional<int>& from, int* to) {
    if (from) *to = *from;
  };
  set(settings.cga_cluster_size, &out_config->cgaClusterSize);
  set(settings.min_ctas, &out_config->minCTAs);
  set(settings.max_ctas, &out_config->maxCTAs);
  if (!settings.net_name.empty()) out_config->netName = settings.net_name.c_str();
  return KEEL_OK;
}

std::string Nccl::text_of(const char* call, ncclResult_t result) const {
  const char* const last = functions_.GetLastError(/*comm=*/nullptr);
  const std::string more = last == nullptr || *last == '\0' ? "" : std::string(": ") + last;
  return std::string(call) + ": " + functions_.GetErrorString(result) + more;
}

bool translate(keel_dtype dtype, ncclDataType_t* out_type) {
  switch (dtype) {
    case KEEL_INT8:
      *out_type = ncclInt8;
      return true;
    case KEEL_INT32:
      *out_type = ncclInt32;
      return true;
    case KEEL_INT64:
      *out_type = ncclInt64;
      return true;
    case KEEL_UINT8:
      *out_type = ncclUint8;
      return true;
    case KEEL_UINT32:
      *out_type = ncclUint32;
      return true;
    case KEEL_UINT64:
      *out_type = ncclUint64;
      return true;
    case KEEL_FLOAT16:
      *out_type = ncclFloat16;
      return true;
    case KEEL_BFLOAT16:
      *out_type = ncclBfloat16;
      return true;
    case KEEL_FLOAT32:
      *out_type = ncclFloat32;
      return true;
    case KEEL_FLOAT64:
      *out_type = ncclFloat64;
      return true;
    case KEEL_FLOAT8_E4M3FN:
      *out_type = ncclFloat8e4m3;
      return true;
    case KEEL_FLOAT8_E5M2:
      *out_type = ncclFloat8e5m2;
      return true;
    default:
      return false;  // int16 and uint16
  }
}

keel_status status_of(ncclResult_t result) {
  switch (result) {
    case ncclSystemError:
      return KEEL_UNAVAILABLE;
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return KEEL_INVALID_ARGUMENT;
    case ncclRemoteError:
      return KEEL_RANK_FAILED;
    default:
      return KEEL_INTERNAL;
  }
}

}  // namespace keel::gpu
