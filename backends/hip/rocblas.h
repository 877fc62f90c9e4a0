// SPDX-License-Identifier: Apache-2.0
// rocBLAS of one folder, opened at run time. The plugin does not link to the library, so the plugin
// loads on machines without rocBLAS and then computes all products with its own kernels.
#ifndef KEEL_BACKENDS_HIP_ROCBLAS_H_
#define KEEL_BACKENDS_HIP_ROCBLAS_H_

#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <string>

#include "vendor/rocblas.h"

namespace keel::gpu {

#define KEEL_ROCBLAS_FUNCTIONS(X) \
  X(create_handle)                \
  X(destroy_handle)               \
  X(gemm_strided_batched_ex)      \
  X(get_version_string)           \
  X(set_atomics_mode)             \
  X(set_stream)                   \
  X(set_workspace)                \
  X(status_to_string)

struct RocBlasFunctions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared takes none.
#define KEEL_ROCBLAS_MEMBER(name) decltype(&::rocblas_##name) name = nullptr;
  KEEL_ROCBLAS_FUNCTIONS(KEEL_ROCBLAS_MEMBER)
#undef KEEL_ROCBLAS_MEMBER
};

// Opened once per folder, for all devices, and never closed. Immutable; thread-safe.
class RocBlas {
 public:
  // |folder| contains librocblas.so.5 or an older one; if empty, the search covers the dynamic
  // loader's paths, then ROCm's default folder.
  static const RocBlas& of(const std::string& folder);

  bool is_usable() const { return reason_.empty(); }
  const RocBlasFunctions& functions() const { return functions_; }
  // "rocBLAS 4.2.0, /opt/rocm/lib/librocblas.so.4"
  const std::string& description() const { return description_; }
  // Whether the library's folder of kernels has |architecture|, such as "gfx90a". Without kernels
  // the library ends the process at the first product (tensile_host.cpp of ROCm 5.2 and 6.2).
  bool has_kernels_for(const std::string& architecture) const;
  // "rocblas_create_handle: rocblas_status_memory_error"
  std::string text_of(const char* call, rocblas_status status) const;

 private:
  explicit RocBlas(const std::string& folder);
  bool open(const std::string& folder);

  kit::VendorLibrary library_;
  RocBlasFunctions functions_;
  std::string path_;
  std::string description_;
  std::string reason_;  // why the library is not usable
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_HIP_ROCBLAS_H_
