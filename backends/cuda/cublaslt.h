// SPDX-License-Identifier: Apache-2.0
// cuBLASLt of one folder, opened at run time. The plugin does not link to the library, so the
// plugin loads on machines without cuBLASLt and then computes all products with its own kernels.
#ifndef KEEL_BACKENDS_CUDA_CUBLASLT_H_
#define KEEL_BACKENDS_CUDA_CUBLASLT_H_

#include <cublasLt.h>
#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <string>

namespace keel::gpu {

// The header's inline functions call the "_internal" functions to initialise a descriptor in
// existing memory.
#define KEEL_CUBLASLT_FUNCTIONS(X) \
  X(Create)                        \
  X(Destroy)                       \
  X(GetStatusName)                 \
  X(GetVersion)                    \
  X(Matmul)                        \
  X(MatmulAlgoGetHeuristic)        \
  X(MatmulDescInit_internal)       \
  X(MatmulDescSetAttribute)        \
  X(MatmulPreferenceInit_internal) \
  X(MatmulPreferenceSetAttribute)  \
  X(MatrixLayoutInit_internal)     \
  X(MatrixLayoutSetAttribute)

struct CublasLtFunctions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared takes none.
#define KEEL_CUBLASLT_MEMBER(name) decltype(&::cublasLt##name) name = nullptr;
  KEEL_CUBLASLT_FUNCTIONS(KEEL_CUBLASLT_MEMBER)
#undef KEEL_CUBLASLT_MEMBER
};

// Opened once per folder, for all devices, and never closed. Immutable; thread-safe.
class CublasLt {
 public:
  // The oldest supported version, numbered like CUBLAS_VERSION: CUDA 12.
  static constexpr size_t kOldest = 120000;

  // |folder| contains libcublasLt.so.13, .12 or libcublasLt.so; if empty, the search covers the
  // dynamic loader's paths, then the default folder of the CUDA toolkit.
  static const CublasLt& of(const std::string& folder);

  bool is_usable() const { return reason_.empty(); }
  // Why the library is not usable.
  const std::string& reason() const { return reason_; }
  const CublasLtFunctions& functions() const { return functions_; }
  // "cuBLASLt 13.1.0, /usr/local/cuda/lib64/libcublasLt.so.13"
  const std::string& description() const { return description_; }
  // "cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"
  std::string text_of(const char* call, cublasStatus_t status) const;

 private:
  explicit CublasLt(const std::string& folder);
  bool open(const std::string& folder);

  kit::VendorLibrary library_;
  CublasLtFunctions functions_;
  std::string description_;
  std::string reason_;
};

// Maps a failure |status|.
keel_status status_of(cublasStatus_t status);

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_CUDA_CUBLASLT_H_
