// SPDX-License-Identifier: Apache-2.0
// NCCL of one folder, opened at run time: nothing is linked to it, so the plugin loads on machines
// that have none, and then claims no collectives.
#ifndef KEEL_BACKENDS_CUDA_NCCL_H_
#define KEEL_BACKENDS_CUDA_NCCL_H_

#include <keel/abi.h>
#include <nccl.h>

#include <keel/plugin_kit.hpp>
#include <string>

#include "backends/cuda/nccl_settings.h"

namespace keel::cuda {

#define KEEL_NCCL_FUNCTIONS(X) \
  X(AllGather)                 \
  X(AllReduce)                 \
  X(Broadcast)                 \
  X(CommAbort)                 \
  X(CommDestroy)               \
  X(CommFinalize)              \
  X(CommGetAsyncError)         \
  X(CommInitRankConfig)        \
  X(GetErrorString)            \
  X(GetLastError)              \
  X(GetUniqueId)               \
  X(GetVersion)                \
  X(GroupEnd)                  \
  X(GroupStart)                \
  X(RedOpCreatePreMulSum)      \
  X(RedOpDestroy)              \
  X(Recv)                      \
  X(Reduce)                    \
  X(ReduceScatter)             \
  X(Send)

// NULL where the library is too old for them: splits came with 2.18, buffers with 2.19, the other
// with 2.28.
#define KEEL_NCCL_OPTIONAL_FUNCTIONS(X) \
  X(AlltoAll)                           \
  X(CommDeregister)                     \
  X(CommRegister)                       \
  X(CommSplit)

struct NcclFunctions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared takes none.
#define KEEL_NCCL_MEMBER(name) decltype(&::nccl##name) name = nullptr;
  KEEL_NCCL_FUNCTIONS(KEEL_NCCL_MEMBER)
  KEEL_NCCL_OPTIONAL_FUNCTIONS(KEEL_NCCL_MEMBER)
#undef KEEL_NCCL_MEMBER
};

// Opened once for all instances of its folder, and never closed. Immutable; thread-safe.
class Nccl {
 public:
  // The oldest that is used, as NCCL_VERSION counts: since then the making of a communicator, and
  // calls on it, can be asked not to block.
  static constexpr int kOldest = 21400;

  // |folder|: where libnccl.so.2 is; empty: where the dynamic loader looks.
  static const Nccl& of(const std::string& folder);

  bool is_usable() const { return reason_.empty(); }
  // Why it is not.
  const std::string& reason() const { return reason_; }
  const NcclFunctions& functions() const { return functions_; }
  // "NCCL 2.28.9": two that differ in anything refuse to work together.
  const std::string& name() const { return name_; }

  // A communicator's configuration with |settings|, whose strings it refers to; KEEL_UNSUPPORTED
  // where the library is too old for them.
  keel_status configure(const NcclSettings& settings, ncclConfig_t* out_config) const;

  // Whether it does this on devices of compute capability |capability|, 90 being 9.0, and above.
  bool can(keel_collective collective, keel_dtype dtype, keel_reduction reduction,
           int capability) const;
  // "ncclCommAbort: unhandled system error: and what the library says of it"
  std::string text_of(const char* call, ncclResult_t result) const;

 private:
  explicit Nccl(const std::string& folder);
  bool open(const std::string& folder);

  kit::VendorLibrary library_;
  NcclFunctions functions_;
  int version_ = 0;
  std::string name_;
  std::string reason_;
};

// The library's type for |dtype|; false where it has none.
bool translate(keel_dtype dtype, ncclDataType_t* out_type);
// |result| is a failure.
keel_status status_of(ncclResult_t result);

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_NCCL_H_
