// SPDX-License-Identifier: Apache-2.0
// Two-phase aclnn calls of one stream: descriptors, workspaces, and a cache of executors.
#ifndef KEEL_BACKENDS_ASCEND_OPERATOR_CALLS_H_
#define KEEL_BACKENDS_ASCEND_OPERATOR_CALLS_H_

#include <keel/abi.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "backends/ascend/device.h"
#include "backends/ascend/scratch.h"

namespace keel::ascend {

// A tensor argument. Without padding, since its bytes are part of a cache key.
struct View {
  static constexpr uint32_t kAbsent = UINT32_MAX;

  int32_t type = ACL_DT_UNDEFINED;
  uint32_t rank = 0;  // kAbsent: an omitted tensor
  int64_t dims[KEEL_MAX_RANK] = {};
  int64_t strides[KEEL_MAX_RANK] = {};
  void* data = nullptr;  // of the first element

  View as(aclDataType other) const {
    View view = *this;
    view.type = other;
    return view;
  }
};
// A view of |tensor| as it is.
View view_of(const keel_tensor& tensor);
// A dense row-major tensor.
View dense(void* data, aclDataType type, std::initializer_list<int64_t> dims);
// A dense tensor of the shape of |like|.
View dense_like(void* data, aclDataType type, const View& like);
View absent();
// Weights [k,n] of 16-bit elements in the vendor's format FRACTAL_NZ: blocks of 16 x 16, in memory
// [n/16, k/16, 16, 16], each quotient rounded up. Without padding, as View.
struct Fractal {
  static constexpr int64_t kBlock = 16;
  static constexpr int64_t blocks(int64_t extent) { return (extent + kBlock - 1) / kBlock; }

  int64_t type = ACL_DT_UNDEFINED;
  int64_t k = 0;
  int64_t n = 0;
  void* data = nullptr;
};
// |view| with an axis of extent 1 behind the last, or before the first.
View with_last_axis(View view);
View with_first_axis(const View& view);
// |view| with an extent of 1 in the place of the last axis, as a reduction leaves it.
View reduced(View view);
// |view| with its last two axes swapped.
View transposed(View view);

struct Scalar {
  double value;
  int64_t type = ACL_FLOAT;  // ACL_FLOAT, or ACL_INT64 for a whole value
};
inline Scalar whole(int64_t value) {
  return {static_cast<double>(value), ACL_INT64};
}
struct Ints {
  static constexpr uint64_t kAbsent = UINT64_MAX;

  int64_t values[KEEL_MAX_RANK] = {};
  uint64_t size = 0;  // kAbsent: an omitted array
};
inline Ints absent_ints() {
  return {{}, Ints::kAbsent};
}
// A choice for each output of an operator.
struct Flags {
  bool values[3];
};
// A text argument. Must live as long as the process.
struct Text {
  const char* value;
};

// Makes calls on one stream. Only the thread that enqueues on the stream may call.
//
// An executor of a call is kept, with its descriptors, and run again for a call with equal
// arguments, addresses included: a training step repeats its calls, of which a composed operator
// makes ten or more. The device bounds what its streams keep. A stream that may keep no more first
// gives back the executors that two calls per executor have not used, so that a step with more
// calls than fit still finds those it keeps, and does not keep the call.
class OperatorCalls {
 public:
  OperatorCalls(Device& device, const aclrtStream& stream)
      : device_(device), stream_(stream), scratch_(device) {}
  // Requires that the stream's work is done.
  ~OperatorCalls();
  OperatorCalls(const OperatorCalls&) = delete;
  OperatorCalls& operator=(const OperatorCalls&) = delete;

  const Functions& functions() const { return device_.functions(); }
  Device& device() const { return device_; }
  // The mask that the attention operators take for causal attention: 1 above the diagonal. Made by
  // the stream's first call that needs it, and kept: 4 MiB.
  keel_status causal_mask(View* out_mask);

  // Whether the library prepares the call, which is not run.
  template <typename Prepare, typename... Arguments>
  static bool can_prepare(Device& device, const char* name, Prepare prepare,
                          const Arguments&... arguments) {
    Entry entry(device);
    aclnnStatus result = 0;
    const keel_status called = device.call(name, [&](const Functions&) {
      result = prepare(entry.convert(arguments)..., &entry.workspace, &entry.executor);
      return aclError{ACL_SUCCESS};
    });
    return called == KEEL_OK && result == 0;
  }

  // Runs operator |name| by its two phases |prepare| and |run|, with |arguments| in the order of
  // the vendor's interface.
  template <typename Prepare, typename Run, typename... Arguments>
  keel_status call(const char* name, Prepare prepare, Run run, const Arguments&... arguments) {
    key_.clear();
    add_bytes(prepare);
    (add_bytes(arguments), ...);
    ++calls_since_sweep_;
    if (const auto found = entries_.find(key_); found != entries_.end()) {
      found->second->is_used = true;
      return execute(name, run, *found->second);
    }
    auto entry = std::make_unique<Entry>(device_);
    keel_status status = check(name, device_.call(name, [&](const Functions&) {
      result_ = prepare(entry->convert(arguments)..., &entry->workspace, &entry->executor);
      return aclError{ACL_SUCCESS};
    }));
    if (status != KEEL_OK) return status;
    if (!keep(*entry)) return execute(name, run, *entry);
    return execute(name, run, *(entries_[key_] = std::move(entry)));
  }

 private:
  // Owns the descriptors of one call and, until it has run, its executor; if kept, also then.
  class Entry {
   public:
    explicit Entry(Device& device) : device_(device), functions_(device.functions()) {}
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    aclTensor* convert(const View& view);
    aclTensor* convert(const Fractal& weights);
    aclScalar* convert(const Scalar& scalar);
    aclIntArray* convert(const Ints& ints);
    aclBoolArray* convert(const Flags& flags);
    char* convert(const Text& text) { return const_cast<char*>(text.value); }
    template <typename Plain>
    requires(std::is_arithmetic_v<Plain> || std::is_enum_v<Plain>) Plain convert(Plain plain) {
      return plain;
    }
    // Makes the executor repeatable; false if the library has no such executors.
    bool make_repeatable();
    // Host memory of the call: a guess, since the library's objects have no sizes.
    uint64_t bytes(size_t key_size) const;
    // Takes over |bytes| of the device's memory for executors.
    void own(uint64_t bytes) { owned_bytes_ = bytes; }

    uint64_t workspace = 0;
    aclOpExecutor* executor = nullptr;
    bool has_run = false;
    bool is_used = true;  // since the last sweep

   private:
    aclTensor* make_tensor(const int64_t* dims, uint64_t rank, int64_t type, const int64_t* strides,
                           aclFormat format, std::initializer_list<int64_t> storage, void* data);

    Device& device_;
    const Functions& functions_;
    bool is_repeatable_ = false;
    uint64_t owned_bytes_ = 0;
    std::vector<const aclTensor*> tensors_;
    std::vector<const aclScalar*> scalars_;
    std::vector<const aclIntArray*> arrays_;
    std::vector<const aclBoolArray*> flags_;
  };

  template <typename Value>
  void add_bytes(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    key_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  template <typename Run>
  keel_status execute(const char* name, Run run, Entry& entry) {
    void* workspace = nullptr;
    const keel_status reserved = scratch_.reserve(entry.workspace, &workspace);
    if (reserved != KEEL_OK) return no_workspace(name, entry.workspace, reserved);
    return check(name, device_.call(name, [&](const Functions&) {
      entry.has_run = true;
      result_ = run(workspace, entry.workspace, entry.executor, stream_);
      return aclError{ACL_SUCCESS};
    }));
  }
  // Returns |failure| of the allocation of a workspace; a lack of memory names the operator.
  static keel_status no_workspace(const char* name, uint64_t bytes, keel_status failure);
  // Returns |called|, or the failure in |result_|; KEEL_DEVICE_LOST if the device is lost.
  keel_status check(const char* name, keel_status called);
  // Returns whether |entry|, of the call in key_, may be kept, and prepares it for that.
  bool keep(Entry& entry);
  // Gives back executors that are not used, as far as their work is done.
  void sweep();
  // Records the event behind all work that may use the entries.
  keel_status record_retirement();

  Device& device_;
  const aclrtStream& stream_;
  Scratch scratch_;
  // From the first use to the end, even if a kernel that makes the mask fails: others may be
  // queued.
  void* causal_mask_ = nullptr;
  bool is_causal_mask_made_ = false;
  aclnnStatus result_ = 0;
  std::string key_;
  std::unordered_map<std::string, std::unique_ptr<Entry>> entries_;
  uint64_t calls_since_sweep_ = 0;
  // Entries that the work before |retirement_| may still use.
  std::vector<std::unique_ptr<Entry>> retired_;
  aclrtEvent retirement_ = nullptr;
};

// KEEL_ACLNN(calls, Add, x, y, Scalar{1}, out) calls aclnnAdd.
#define KEEL_ACLNN(calls, name, ...)                                             \
  (calls).call("aclnn" #name, (calls).functions().aclnn##name##GetWorkspaceSize, \
               (calls).functions().aclnn##name, __VA_ARGS__)

}  // namespace keel::ascend

#endif  // KEEL_BACKENDS_ASCEND_OPERATOR_CALLS_H_
