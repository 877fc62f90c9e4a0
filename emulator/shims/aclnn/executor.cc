// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/aclnn/executor.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "emulator/shims/acl/runtime.h"
#include "emulator/shims/beside.h"

namespace keel::emulator::aclnn {
namespace {

decltype(&keel_emulated_acl_stream) find_stream_function() {
  decltype(&keel_emulated_acl_stream) stream = nullptr;
  find_beside(open_beside(reinterpret_cast<void*>(&aclnnAdd), "libascendcl.so"),
              "keel_emulated_acl_stream", &stream);
  return stream;
}

bool has_float8() {
  static const bool has = [] {
    decltype(&keel_emulated_acl_has_float8) function = nullptr;
    find_beside(open_beside(reinterpret_cast<void*>(&aclnnAdd), "libascendcl.so"),
                "keel_emulated_acl_has_float8", &function);
    return function != nullptr && function();
  }();
  return has;
}

// Keeps the executors used last, marked, so that a second use of one is found.
void keep_spent(aclOpExecutor* executor) {
  constexpr size_t kKept = 4096;
  static std::mutex& mutex = *new std::mutex;
  static auto& kept = *new std::deque<std::unique_ptr<aclOpExecutor>>;
  const std::lock_guard lock(mutex);
  kept.emplace_back(executor);
  if (kept.size() > kKept) kept.pop_front();
}

std::atomic<uint64_t> g_prepared{0};
std::atomic<uint64_t> g_live{0};

struct CountedPrepared : Prepared {
  CountedPrepared() {
    g_prepared.fetch_add(1);
    g_live.fetch_add(1);
  }
  ~CountedPrepared() { g_live.fetch_sub(1); }
  CountedPrepared(const CountedPrepared&) = delete;
  CountedPrepared& operator=(const CountedPrepared&) = delete;
};

// The calls that keel_emulated_aclnn_grow_workspace counts.
class Recording {
 public:
  static Recording& get() {
    static Recording& recording = *new Recording;
    return recording;
  }
  void start(uint64_t nth, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    names_.clear();
    nth_ = nth;
    bytes_ = bytes;
    is_on_.store(true);
  }
  // Records a call of |name|, a static string; returns its workspace, of its own |workspace|.
  uint64_t add(const char* name, uint64_t workspace) {
    if (!is_on_.load()) return workspace;
    const std::lock_guard lock(mutex_);
    names_.push_back(name);
    return names_.size() == nth_ ? std::max(workspace, bytes_) : workspace;
  }
  const char* name(uint64_t nth) {
    const std::lock_guard lock(mutex_);
    return nth == 0 || nth > names_.size() ? nullptr : names_[nth - 1];
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> is_on_{false};
  std::vector<const char*> names_;
  uint64_t nth_ = 0;
  uint64_t bytes_ = 0;
};

double bytes_of(const Tensor& tensor) {
  return static_cast<double>(tensor.count()) * size_of(tensor.type);
}

const char* dtype_of(aclDataType type) {
  return type == ACL_FLOAT16 ? "float16" : type == ACL_BF16 ? "bfloat16" : "float32";
}

Work work_of(const Prepared& prepared) {
  Work work;
  for (const Tensor& tensor : prepared.tensors) work.bytes += bytes_of(tensor);
  const bool is_product = prepared.name.find("atMul") != std::string::npos ||
                          prepared.name == "aclnnMatmul" ||
                          prepared.name == "aclnnMatmulWeightNz" || prepared.name == "aclnnAddmm";
  if (is_product) {
    const size_t out = prepared.tensors.size() - 1;
    const Dims& left = prepared.tensors[out - 2].dims;
    work.flops =
        2 * static_cast<double>(prepared.tensors[out].count()) * static_cast<double>(left.back());
    work.dtype = dtype_of(prepared.tensors[out - 2].type);
  } else if (prepared.flops != 0) {
    work.flops = prepared.flops;
    work.dtype = dtype_of(prepared.tensors.front().type);
  }
  return work;
}

Status run(Access& access, const Prepared& prepared, Address workspace) {
  if (prepared.workspace != 0) {
    std::byte* scratch = nullptr;
    Status status = access.reach(workspace, prepared.workspace, &scratch);
    if (!status.ok()) return status;
    std::memset(scratch, 0x5a, prepared.workspace);
  }
  std::vector<Operand> operands;
  for (const Tensor& tensor : prepared.tensors) {
    Status status = operands.emplace_back(tensor).reach(access);
    if (!status.ok()) return status;
  }
  return prepared.body(operands);
}

}  // namespace

const Tensor& tensor_of(const char* name, const aclTensor* handle) {
  if (handle->mark != aclTensor::kMark) undefined(name, "a tensor that was destroyed");
  return handle->tensor;
}

bool is_training_type(aclDataType type) {
  return type == ACL_FLOAT || type == ACL_FLOAT16 || type == ACL_BF16;
}

aclnnStatus prepare(const char* name, const std::vector<const aclTensor*>& tensors,
                    uint64_t workspace, Body body, uint64_t* out_workspace_size,
                    aclOpExecutor** out_executor, double flops) {
  if (out_workspace_size == nullptr || out_executor == nullptr) return kNullPointer;
  try {
    auto prepared = std::make_shared<CountedPrepared>();
    prepared->name = name;
    for (const aclTensor* tensor : tensors) {
      prepared->tensors.push_back(tensor_of(name, tensor));
      const Tensor& added = prepared->tensors.back();
      if (size_of(added.type) == 0) return kBadParameter;
      if (is_float8(added.type) && (prepared->name != "aclnnCast" || !has_float8())) {
        return kBadParameter;
      }
      if (added.is_fractal && prepared->name != "aclnnMatmulWeightNz") return kBadParameter;
    }
    prepared->body = std::move(body);
    workspace = Recording::get().add(name, workspace);
    prepared->workspace = workspace;
    prepared->flops = flops;
    auto executor = std::make_unique<aclOpExecutor>();
    executor->prepared = std::move(prepared);
    *out_workspace_size = workspace;
    *out_executor = executor.release();
    return 0;
  } catch (const std::bad_alloc&) {
    return kRuntimeError;
  }
}

aclnnStatus execute(const char* name, void* workspace, uint64_t workspace_size,
                    aclOpExecutor* executor, aclrtStream handle) {
  static const auto find_stream = find_stream_function();
  if (find_stream == nullptr) return kRuntimeError;
  if (executor == nullptr) return kNullPointer;
  if (executor->mark != aclOpExecutor::kMark) {
    undefined(name, "an executor that was used or destroyed");
  }
  const std::shared_ptr<const Prepared> prepared = executor->prepared;
  if (prepared->name != name) undefined(name, "an executor of another operator");
  if (workspace_size < prepared->workspace) {
    undefined(name, "a workspace smaller than the first phase asked for");
  }
  if (!executor->is_repeatable) {
    executor->mark = 0;
    executor->prepared = nullptr;
    keep_spent(executor);
  }
  Stream* stream = nullptr;
  if (find_stream(name, handle, &stream) != ACL_SUCCESS) return kRuntimeError;
  const Tensor& output = prepared->tensors.back();
  const Result result = {output.data + static_cast<uint64_t>(output.offset) * size_of(output.type),
                         output.count() == 0 ? 0 : size_of(output.type)};
  const Status status = stream->launch(work_of(*prepared), result,
                                       [prepared, where = address_of(workspace)](Access& access) {
                                         return run(access, *prepared, where);
                                       });
  return status.ok() ? 0 : kRuntimeError;
}

}  // namespace keel::emulator::aclnn

extern "C" void keel_emulated_aclnn_executors(uint64_t* out_prepared, uint64_t* out_live) {
  *out_prepared = keel::emulator::aclnn::g_prepared.load();
  *out_live = keel::emulator::aclnn::g_live.load();
}

extern "C" void keel_emulated_aclnn_grow_workspace(uint64_t nth, uint64_t bytes) {
  keel::emulator::aclnn::Recording::get().start(nth, bytes);
}

extern "C" const char* keel_emulated_aclnn_recorded(uint64_t nth) {
  return keel::emulator::aclnn::Recording::get().name(nth);
}
