// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_ASCEND_DEVICE_H_
#define KEEL_BACKENDS_ASCEND_DEVICE_H_

#include <keel/abi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backends/ascend/pinned_pool.h"
#include "backends/ascend/sdk.h"

namespace keel::ascend {

// A device with its default context, which the process's framework shares. Thread-safe.
class Device {
 public:
  static keel_status open(const Sdk& sdk, uint32_t ordinal, std::unique_ptr<Device>* out_device);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Sdk& sdk() const { return sdk_; }
  const Functions& functions() const { return sdk_.functions(); }
  uint32_t ordinal() const { return ordinal_; }
  aclrtContext context() const { return context_; }
  PinnedPool& pinned_pool() { return *pinned_pool_; }
  // Whether all operators sum in an order that is fixed for a shape. Where the runtime has no such
  // option, some do not: aclnnRmsNormGrad, aclnnEmbeddingDenseBackward, aclnnScatterAdd and, as far
  // as its documents say nothing, aclnnFlashAttentionScoreGrad.
  bool fixes_order() const { return fixes_order_; }
  // Whether aclnnCast takes both 8-bit floats, by |ask|, which the first call alone runs.
  template <typename Ask>
  bool casts_float8(Ask&& ask) {
    std::call_once(float8_once_, [&] { casts_float8_ = ask(); });
    return casts_float8_;
  }
  // Reserves |bytes| of host memory for an executor that a stream keeps; false if all streams would
  // then keep more than kExecutorBytes.
  bool take_executor_bytes(uint64_t bytes);
  void give_executor_bytes(uint64_t bytes) { executor_bytes_.fetch_sub(bytes); }
  // About as much as the vendor's own cache, which has 10,000 entries (ACLNN_CACHE_LIMIT).
  static constexpr uint64_t kExecutorBytes = uint64_t{64} << 20;

  // Runs |body|, which calls function |name| of the table passed to |body|, in the device's
  // context, and restores the thread's previous context, also if |body| throws. Returns
  // KEEL_DEVICE_LOST on the first call that reports the loss of the device and on every later call.
  template <typename Body>
  keel_status call(const char* name, Body&& body) {
    if (is_lost()) return say_lost();
    return check(name, run(std::forward<Body>(body)));
  }
  // Like call, for functions that release a resource. Returns KEEL_OK on a lost device, where the
  // resource no longer exists.
  template <typename Body>
  keel_status release(const char* name, Body&& body) noexcept {
    const aclError error = run(std::forward<Body>(body));
    return is_lost() || is_fatal(error) ? keel_status{KEEL_OK} : check(name, error);
  }

  // Maps Keel's priority, 0 or less, to the range of the library.
  uint32_t native_priority(int32_t priority) const;
  // Whether an asynchronous copy may access the memory after the call has returned: memory of one
  // allocation or registration of this plugin. The library tells of single addresses only, and
  // between two pinned ones there may be memory that is not.
  bool is_pinned(const void* pointer, uint64_t size) const;

  keel_status alloc(keel_memory_kind kind, uint64_t size, void** out_pointer);
  keel_status free(keel_memory_kind kind, void* pointer);
  keel_status host_register(void* pointer, uint64_t size, void** out_device_pointer);
  keel_status host_unregister(void* pointer);
  keel_status memory_info(uint64_t* out_free, uint64_t* out_total);
  keel_status native_handle(uint32_t which, void** out_handle) const;

 private:
  Device(const Sdk& sdk, uint32_t ordinal) : sdk_(sdk), ordinal_(ordinal) {}

  bool is_lost() const { return loss_.load(std::memory_order_acquire) != ACL_SUCCESS; }
  keel_status say_lost() const;
  keel_status check(const char* name, aclError error) noexcept;

  // Restores the calling thread's context. The runtime has none in a fresh thread, and none to
  // restore.
  class ContextKeeper {
   public:
    explicit ContextKeeper(const Functions& acl) : acl_(acl) {
      if (acl.aclrtGetCurrentContext(&before_) != ACL_SUCCESS) before_ = nullptr;
    }
    ~ContextKeeper() {
      if (before_ != nullptr && is_changed_) (void)acl_.aclrtSetCurrentContext(before_);
    }
    ContextKeeper(const ContextKeeper&) = delete;
    ContextKeeper& operator=(const ContextKeeper&) = delete;

    aclrtContext before() const { return before_; }
    void expect_change() { is_changed_ = true; }

   private:
    const Functions& acl_;
    aclrtContext before_ = nullptr;
    bool is_changed_ = false;
  };

  template <typename Body>
  aclError run(Body&& body) {
    const Functions& acl = functions();
    ContextKeeper keeper(acl);
    if (keeper.before() == context_) return body(acl);
    const aclError error = acl.aclrtSetCurrentContext(context_);
    if (error != ACL_SUCCESS) return error;
    keeper.expect_change();
    return body(acl);
  }

  const Sdk& sdk_;
  const uint32_t ordinal_;
  bool is_set_ = false;  // by aclrtSetDevice, which the destructor undoes
  aclrtContext context_ = nullptr;
  int32_t least_priority_ = 0;
  int32_t greatest_priority_ = 0;
  bool fixes_order_ = false;
  std::once_flag float8_once_;
  bool casts_float8_ = false;
  std::atomic<aclError> loss_{ACL_SUCCESS};
  std::atomic<uint64_t> executor_bytes_{0};
  const std::shared_ptr<PinnedPool> pinned_pool_ = std::make_shared<PinnedPool>();
};

}  // namespace keel::ascend

#endif  // KEEL_BACKENDS_ASCEND_DEVICE_H_
