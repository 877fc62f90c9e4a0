// SPDX-License-Identifier: Apache-2.0
// NCCL or RCCL, which has NCCL's interface, of one folder, opened at run time. The plugin does not
// link to the library, so the plugin loads on machines without one and then reports no collectives.
#ifndef KEEL_BACKENDS_GPU_NCCL_H_
#define KEEL_BACKENDS_GPU_NCCL_H_

#include <ccl_target.h>
#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <string>

#include "backends/gpu/nccl_settings.h"

namespace keel::gpu {

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

// NULL if the library is too old: splits need 2.18, buffer registration 2.19, all-to-all 2.28.
#define KEEL_NCCL_OPTIONAL_FUNCTIONS(X) \
  X(CommDeregister)                     \
  X(CommRegister)                       \
  X(CommSplit)

struct NcclFunctions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared takes none.
#define KEEL_NCCL_MEMBER(name) decltype(&::nccl##name) name = nullptr;
  KEEL_NCCL_FUNCTIONS(KEEL_NCCL_MEMBER)
  KEEL_NCCL_OPTIONAL_FUNCTIONS(KEEL_NCCL_MEMBER)
  decltype(&::ncclAllGather) AlltoAll = nullptr;  // NCCL and RCCL name the function differently
#undef KEEL_NCCL_MEMBER
};

// Opened once per folder, for all instances, and never closed. Immutable; thread-safe.
class Nccl {
 public:
  // The oldest supported version, numbered like NCCL_VERSION. Non-blocking communicators exist
  // since then.
  static constexpr int kOldest = 21400;

  // |folder| contains KEEL_GPU_CCL_FILE; if empty, the dynamic loader searches.
  static const Nccl& of(const std::string& folder);

  bool is_usable() const { return reason_.empty(); }
  // Why the library is not usable.
  const std::string& reason() const { return reason_; }
  const NcclFunctions& functions() const { return functions_; }
  // "NCCL 2.28.9". Two libraries with different names refuse to form a communicator.
  const std::string& name() const { return name_; }

  // Fills a communicator's configuration from |settings|, to whose strings the configuration
  // points. Returns KEEL_UNSUPPORTED if the library is too old for a setting.
  keel_status configure(const NcclSettings& settings, ncclConfig_t* out_config) const;

  // Whether NCCL supports the operation on devices of compute capability |capability| (90 means
  // 9.0) and above.
  bool can(keel_collective collective, keel_dtype dtype, keel_reduction reduction,
           int capability) const;
  // "ncclCommAbort: unhandled system error: " plus the library's last error text.
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

// Maps |dtype| to NCCL's type. Returns false if there is none.
bool translate(keel_dtype dtype, ncclDataType_t* out_type);
// Maps a failure |result|.
keel_status status_of(ncclResult_t result);

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_NCCL_H_
