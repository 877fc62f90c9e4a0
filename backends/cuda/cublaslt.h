// SPDX-License-Identifier: Apache-2.0
// cuBLASLt of one folder, opened at run time: nothing is linked to it, so the plugin loads on
// machines that have none, and then makes all products itself.
#ifndef KEEL_BACKENDS_CUDA_CUBLASLT_H_
#define KEEL_BACKENDS_CUDA_CUBLASLT_H_

#include <cublasLt.h>
#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <string>

namespace keel::cuda {

// Those with "_internal" are what the header's own functions call to set up a descriptor in memory
// that is there already.
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

// Opened once for all devices of its folder, and never closed. Immutable; thread-safe.
class CublasLt {
 public:
  // The oldest that is used, as CUBLAS_VERSION counts: CUDA 12's.
  static constexpr size_t kOldest = 120000;

  // |folder|: where libcublasLt.so.13, .12 or without a number is; empty: where the dynamic loader
  // looks, else where CUDA's toolkit is put.
  static const CublasLt& of(const std::string& folder);

  bool is_usable() const { return reason_.empty(); }
  // Why it is not.
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

// |status| is a failure.
keel_status status_of(cublasStatus_t status);

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_CUBLASLT_H_
