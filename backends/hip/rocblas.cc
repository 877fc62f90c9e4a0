// SPDX-License-Identifier: Apache-2.0
#include "backends/hip/rocblas.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

namespace keel::gpu {
namespace {

namespace fs = std::filesystem;

// ROCm's library folder, which the loader's search path may not contain.
constexpr char kRocmFolder[] = "/opt/rocm/lib";
// The oldest supported version: that of ROCm 5.2.
constexpr int kOldestMajor = 2;
constexpr int kOldestMinor = 44;

// Where the library at |path| reads its kernels, in the order of its own search.
fs::path kernels_of(const fs::path& path) {
  if (const char* const told = secure_getenv("ROCBLAS_TENSILE_LIBPATH"); told != nullptr) {
    return told;
  }
  const fs::path folder = path.parent_path();
  std::error_code ignored;
  for (const char* const each : {"../../Tensile/library", "library", "../rocblas/library"}) {
    if (fs::exists(folder / each, ignored)) return folder / each;
  }
  return folder / "rocblas/library";
}

// Whether |folder| has a code object for |architecture|.
bool has_code_object(const fs::path& folder, const std::string& architecture) {
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    const size_t place = name.find(architecture);
    if (place == std::string::npos || name.substr(name.size() - 2) != "co") continue;
    const char next = name[place + architecture.size()];
    if (next == '.' || next == '-' || next == '_') return true;
  }
  return false;
}

}  // namespace

const RocBlas& RocBlas::of(const std::string& folder) {
  // Never destroyed, like the libraries.
  static std::mutex& mutex = *new std::mutex;
  static auto& libraries = *new std::map<std::string, std::unique_ptr<RocBlas>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<RocBlas>& library = libraries[folder];
  if (library == nullptr) library.reset(new RocBlas(folder));
  return *library;
}

RocBlas::RocBlas(const std::string& folder) {
  if (open(folder)) {
    kit::log(KEEL_LOG_INFO, "hip: matrix products by %s", description_.c_str());
  } else {
    kit::log(KEEL_LOG_INFO, "hip: matrix products by Keel's own kernels: %s", reason_.c_str());
  }
}

bool RocBlas::open(const std::string& folder) {
  const auto names = {"librocblas.so.5", "librocblas.so.4", "librocblas.so.3", "librocblas.so.0",
                      "librocblas.so"};
  if (!library_.open(folder, names)) {
    const std::string why = library_.error();
    if (!folder.empty() || !library_.open(kRocmFolder, names)) {
      reason_ = "no rocBLAS: " + why;
      return false;
    }
  }
  std::string missing;
#define KEEL_ROCBLAS_FIND(name)                                             \
  if (!library_.find("rocblas_" #name, &functions_.name)) {                 \
    missing += std::string(missing.empty() ? "" : ", ") + "rocblas_" #name; \
  }
  KEEL_ROCBLAS_FUNCTIONS(KEEL_ROCBLAS_FIND)
#undef KEEL_ROCBLAS_FIND
  if (!missing.empty()) {
    reason_ = "unusable rocBLAS: symbols missing: " + missing;
    return false;
  }
  Dl_info info;
  path_ = "librocblas.so";
  if (dladdr(reinterpret_cast<void*>(functions_.create_handle), &info) != 0 &&
      info.dli_fname != nullptr) {
    path_ = info.dli_fname;
  }
  char text[256] = {};
  const rocblas_status asked = functions_.get_version_string(text, sizeof(text) - 1);
  int major = 0;
  int minor = 0;
  int patch = 0;
  if (asked != rocblas_status_success ||
      std::sscanf(text, "%d.%d.%d", &major, &minor, &patch) != 3) {  // NOLINT(cert-err34-c)
    reason_ = path_ + " does not tell its version";
    return false;
  }
  const std::string version =
      std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  if (major < kOldestMajor || (major == kOldestMajor && minor < kOldestMinor)) {
    reason_ = path_ + " is rocBLAS " + version + ", too old: " + std::to_string(kOldestMajor) +
              "." + std::to_string(kOldestMinor) + " is the first that is used";
    return false;
  }
  description_ = "rocBLAS " + version + ", " + path_;
  return true;
}

bool RocBlas::has_kernels_for(const std::string& architecture) const {
  std::error_code ignored;
  fs::path folder = kernels_of(path_);
  if (fs::exists(folder / architecture, ignored)) folder /= architecture;
  for (const char* const kind : {"TensileLibrary_lazy_", "TensileLibrary_"}) {
    if (fs::exists(folder / (kind + architecture + ".dat"), ignored)) return true;
  }
  return fs::exists(folder / "TensileLibrary.dat", ignored) &&
         has_code_object(folder, architecture);
}

std::string RocBlas::text_of(const char* call, rocblas_status status) const {
  return std::string(call) + ": " + functions_.status_to_string(status);
}

}  // namespace keel::gpu
