// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/cublaslt.h"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

namespace keel::gpu {
namespace {

// The toolkit's library folder, which the loader's search path may not contain.
constexpr char kToolkitFolder[] = "/usr/local/cuda/lib64";

// 130100 is 13.1.0.
std::string version_text(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

const CublasLt& CublasLt::of(const std::string& folder) {
  // Never destroyed, like the libraries.
  static std::mutex& mutex = *new std::mutex;
  static auto& libraries = *new std::map<std::string, std::unique_ptr<CublasLt>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<CublasLt>& library = libraries[folder];
  if (library == nullptr) library.reset(new CublasLt(folder));
  return *library;
}

CublasLt::CublasLt(const std::string& folder) {
  if (open(folder)) {
    kit::log(KEEL_LOG_INFO, "cuda: matrix products by %s", description_.c_str());
  } else {
    kit::log(KEEL_LOG_INFO, "cuda: matrix products by Keel's own kernels: %s", reason_.c_str());
  }
}

bool CublasLt::open(const std::string& folder) {
  const auto names = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
  if (!library_.open(folder, names)) {
    const std::string why = library_.error();
    if (!folder.empty() || !library_.open(kToolkitFolder, names)) {
      reason_ = "no cuBLASLt: " + why;
      return false;
    }
  }
  std::string missing;
#define KEEL_CUBLASLT_FIND(name)                                            \
  if (!library_.find("cublasLt" #name, &functions_.name)) {                 \
    missing += std::string(missing.empty() ? "" : ", ") + "cublasLt" #name; \
  }
  KEEL_CUBLASLT_FUNCTIONS(KEEL_CUBLASLT_FIND)
#undef KEEL_CUBLASLT_FIND
  if (!missing.empty()) {
    reason_ = "unusable cuBLASLt: symbols missing: " + missing;
    return false;
  }
  Dl_info info;
  std::string path = "libcublasLt.so";
  if (dladdr(reinterpret_cast<void*>(functions_.GetVersion), &info) != 0 &&
      info.dli_fname != nullptr) {
    path = info.dli_fname;
  }
  const size_t version = functions_.GetVersion();
  if (version < kOldest) {
    reason_ = path + " is cuBLASLt " + version_text(version) +
              ", too old: " + version_text(kOldest) + " is the first that is used";
    return false;
  }
  description_ = "cuBLASLt " + version_text(version) + ", " + path;
  return true;
}

std::string CublasLt::text_of(const char* call, cublasStatus_t status) const {
  return std::string(call) + ": " + functions_.GetStatusName(status);
}

keel_status status_of(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return KEEL_OUT_OF_MEMORY;
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return KEEL_UNSUPPORTED;
    default:
      return KEEL_INTERNAL;
  }
}

}  // namespace keel::gpu
