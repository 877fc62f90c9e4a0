// SPDX-License-Identifier: Apache-2.0
// Ascend's libraries of one folder, opened at run time. The plugin links none of them, so the
// plugin loads on machines without the SDK.
#ifndef KEEL_BACKENDS_ASCEND_SDK_H_
#define KEEL_BACKENDS_ASCEND_SDK_H_

#include <keel/abi.h>

#include <cstdint>
#include <keel/plugin_kit.hpp>
#include <string>

#include "vendor/ascend/acl.h"
#include "vendor/ascend/aclnn.h"
#include "vendor/ascend/hccl.h"

namespace keel::ascend {

#define KEEL_ASCEND_RUNTIME(X)   \
  X(aclInit)                     \
  X(aclrtCreateEventExWithFlag)  \
  X(aclrtCreateStreamWithConfig) \
  X(aclrtDestroyEvent)           \
  X(aclrtDestroyStream)          \
  X(aclrtFree)                   \
  X(aclrtFreeHost)               \
  X(aclrtGetCurrentContext)      \
  X(aclrtGetDeviceCount)         \
  X(aclrtLaunchHostFunc)         \
  X(aclrtMalloc)                 \
  X(aclrtMallocHost)             \
  X(aclrtMemcpyAsync)            \
  X(aclrtMemsetAsync)            \
  X(aclrtQueryEventStatus)       \
  X(aclrtRecordEvent)            \
  X(aclrtResetDevice)            \
  X(aclrtSetCurrentContext)      \
  X(aclrtSetDevice)              \
  X(aclrtStreamQuery)            \
  X(aclrtStreamWaitEvent)

// NULL if the library is too old; the plugin then does without.
#define KEEL_ASCEND_OPTIONAL_RUNTIME(X) \
  X(aclGetRecentErrMsg)                 \
  X(aclrtCtxSetSysParamOpt)             \
  X(aclrtDeviceGetStreamPriorityRange)  \
  X(aclrtDeviceGetUuid)                 \
  X(aclrtEventElapsedTime)              \
  X(aclrtGetDeviceInfo)                 \
  X(aclrtGetMemInfo)                    \
  X(aclrtGetSocName)                    \
  X(aclrtGetVersion)                    \
  X(aclrtHostRegisterV2)                \
  X(aclrtHostUnregister)                \
  X(aclrtSetStreamFailureMode)          \
  X(aclrtSynchronizeStream)

#define KEEL_ASCEND_COLLECTIVES(X) \
  X(HcclAllGather)                 \
  X(HcclAllReduce)                 \
  X(HcclBroadcast)                 \
  X(HcclCommDestroy)               \
  X(HcclCommInitRootInfo)          \
  X(HcclGetRootInfo)               \
  X(HcclReduce)                    \
  X(HcclReduceScatter)

#define KEEL_ASCEND_OPTIONAL_COLLECTIVES(X) \
  X(HcclBatchSendRecv)                      \
  X(HcclGetCommAsyncError)                  \
  X(HcclGetErrorString)

#define KEEL_ASCEND_DESCRIPTORS(X) \
  X(aclCreateIntArray)             \
  X(aclCreateScalar)               \
  X(aclCreateTensor)               \
  X(aclDestroyIntArray)            \
  X(aclDestroyScalar)              \
  X(aclDestroyTensor)

#define KEEL_ASCEND_OPTIONAL_DESCRIPTORS(X) \
  X(aclCreateBoolArray)                     \
  X(aclDestroyAclOpExecutor)                \
  X(aclDestroyBoolArray)                    \
  X(aclSetAclOpExecutorRepeatable)

// The functions of the libraries, by their names.
struct Functions {
// NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared takes none.
#define KEEL_ASCEND_MEMBER(name) decltype(&::name) name = nullptr;
  KEEL_ASCEND_RUNTIME(KEEL_ASCEND_MEMBER)
  KEEL_ASCEND_OPTIONAL_RUNTIME(KEEL_ASCEND_MEMBER)
  KEEL_ASCEND_COLLECTIVES(KEEL_ASCEND_MEMBER)
  KEEL_ASCEND_OPTIONAL_COLLECTIVES(KEEL_ASCEND_MEMBER)
  KEEL_ASCEND_DESCRIPTORS(KEEL_ASCEND_MEMBER)
  KEEL_ASCEND_OPTIONAL_DESCRIPTORS(KEEL_ASCEND_MEMBER)
#undef KEEL_ASCEND_MEMBER
// The two phases of each operator; both NULL unless the library has both.
#define KEEL_ASCEND_MEMBER(name)                                                      \
  decltype(&::aclnn##name##GetWorkspaceSize) aclnn##name##GetWorkspaceSize = nullptr; \
  decltype(&::aclnn##name) aclnn##name = nullptr;
  KEEL_FOR_EACH_ACLNN(KEEL_ASCEND_MEMBER)
#undef KEEL_ASCEND_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)
};

// A message, cut after 511 bytes. Allocates nothing, so that a destructor may report a failure.
class ErrorText {
 public:
  [[gnu::format(printf, 2, 3)]] explicit ErrorText(const char* format, ...) noexcept;
  const char* c_str() const { return text_; }

 private:
  char text_[512];
};

// Opened and initialised once per folder, for all instances, and never shut down. Immutable;
// thread-safe.
class Sdk {
 public:
  // |folder| contains the libraries; if empty, the dynamic loader searches.
  static const Sdk& of(const std::string& folder);

  uint32_t device_count() const { return device_count_; }
  // Why there is no device.
  const std::string& reason() const { return reason_; }
  const Functions& functions() const { return functions_; }
  // "ACL 1.16.0"
  const std::string& version() const { return version_; }
  // "ACL 1.16.0, /usr/local/Ascend/lib64/libascendcl.so"
  const std::string& description() const { return description_; }
  // Why libhccl.so, or the libraries of operators, cannot be used; empty if they can.
  const std::string& no_collectives() const { return no_collectives_; }
  const std::string& no_operators() const { return no_operators_; }

  // "aclrtMalloc: error 207001: " plus the calling thread's last message of the library.
  ErrorText text_of(const char* call, aclError error) const noexcept;
  ErrorText text_of(const char* call, HcclResult result) const noexcept;

 private:
  explicit Sdk(const std::string& folder);
  bool open_runtime(const std::string& folder);
  bool start();
  void open_collectives(const std::string& folder);
  void open_operators(const std::string& folder);

  kit::VendorLibrary runtime_;
  kit::VendorLibrary collectives_;
  kit::VendorLibrary descriptors_;
  kit::VendorLibrary operators_;
  Functions functions_;
  uint32_t device_count_ = 0;
  std::string reason_;
  std::string version_;
  std::string description_;
  std::string no_collectives_;
  std::string no_operators_;
};

// Map failures of the libraries to statuses of the ABI.
keel_status status_of(aclError error);
keel_status status_of(HcclResult result);
// Whether |error| means that the device is gone for all of its streams.
bool is_fatal(aclError error);

}  // namespace keel::ascend

#endif  // KEEL_BACKENDS_ASCEND_SDK_H_
