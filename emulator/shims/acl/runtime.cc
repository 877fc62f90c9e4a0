// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/acl/runtime.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace keel::emulator::acl {
namespace {

thread_local Context* t_context = nullptr;
thread_local std::string t_message;

}  // namespace

Status read_settings(std::string_view text, Settings* out_settings) {
  SettingValues values;
  Settings settings;
  settings.chips.devices = 2;
  uint64_t init = 0;
  uint64_t count = 0;
  uint64_t device = 0;
  uint64_t descriptor = 0;
  uint64_t float8 = 1;
  uint64_t minor = settings.version[1];
  uint64_t late = 0;
  Status status = split_settings(text, &values);
  if (status.ok()) status = take_chip_settings(&values, &settings.chips);
  if (status.ok()) status = take_number(&values, "init", 0, 999999, &init);
  if (status.ok()) status = take_number(&values, "count", 0, 999999, &count);
  if (status.ok()) status = take_number(&values, "device", 0, 999999, &device);
  if (status.ok()) status = take_number(&values, "null_descriptor", 0, 999999, &descriptor);
  if (status.ok()) status = take_number(&values, "float8", 0, 1, &float8);
  if (status.ok()) status = take_number(&values, "minor", 0, 99, &minor);
  if (status.ok()) status = take_number(&values, "late_callbacks", 0, 1, &late);
  if (status.ok()) {
    status = take_number(&values, "devices_later", 0, UINT64_MAX, &settings.devices_later);
  }
  if (!status.ok()) return status;
  if (!values.empty()) {
    return {Code::kInvalidArgument, fmt::format("'{:.64}' is not known", values.begin()->first)};
  }
  settings.init = static_cast<aclError>(init);
  settings.count = static_cast<aclError>(count);
  settings.device = static_cast<aclError>(device);
  settings.descriptor = descriptor;
  settings.has_float8 = float8 != 0;
  settings.version[1] = static_cast<uint32_t>(minor);
  settings.calls_back_late = late != 0;
  *out_settings = std::move(settings);
  return {};
}

Context::Context(const DeviceOptions& options, int32_t ordinal, HostMemory& host_memory)
    : options_(options), ordinal_(ordinal), host_memory_(host_memory) {
  options_.index = static_cast<uint32_t>(ordinal);
  // The documents do not say that an asynchronous copy reads pageable memory within the call.
  options_.pageable_async = true;
}

aclError Context::hold() {
  const std::lock_guard lock(mutex_);
  if (chip_ == nullptr) {
    if (!Device::create(options_, &chip_).ok()) return ACL_ERROR_RT_DEVICE_OOM;
    host_memory_.introduce(chip_);
  }
  ++holders_;
  return ACL_SUCCESS;
}

aclError Context::release() {
  std::shared_ptr<Device> last;
  const std::lock_guard lock(mutex_);
  if (holders_ == 0) return fail(ACL_ERROR_RT_CONTEXT_NULL, "the device is not set");
  if (--holders_ != 0) return ACL_SUCCESS;
  last = std::move(chip_);
  last->close();
  return ACL_SUCCESS;
}

aclError Context::chip(std::shared_ptr<Device>* out_chip) {
  const std::lock_guard lock(mutex_);
  if (chip_ == nullptr) return fail(ACL_ERROR_RT_CONTEXT_NULL, "the device was reset");
  *out_chip = chip_;
  return chip_->is_lost() ? loss_of(*chip_) : ACL_SUCCESS;
}

void Handles::add(const void* handle) {
  const std::lock_guard lock(mutex_);
  handles_.insert(handle);
}

bool Handles::remove(const void* handle) {
  const std::lock_guard lock(mutex_);
  return handles_.erase(handle) != 0;
}

bool Handles::has(const void* handle) const {
  const std::lock_guard lock(mutex_);
  return handles_.count(handle) != 0;
}

Runtime& Runtime::get() {
  static Runtime& runtime = *new Runtime;
  return runtime;
}

Runtime::Runtime() {
  const char* const text = secure_getenv("KEEL_EMULATED_ASCEND");
  const Status status = read_settings(text == nullptr ? "" : text, &settings_);
  if (!status.ok()) {
    std::fprintf(stderr, "KEEL_EMULATED_ASCEND: %s\n", status.text().c_str());
    settings_.init = ACL_ERROR_INVALID_PARAM;
  }
  for (uint32_t i = 0; i < settings_.chips.devices; ++i) {
    contexts_.push_back(
        std::make_unique<Context>(settings_.chips.device, static_cast<int32_t>(i), host_memory_));
  }
}

aclError Runtime::init() {
  if (settings_.init != ACL_SUCCESS) return fail(settings_.init, "set by KEEL_EMULATED_ASCEND");
  return ready_.exchange(true, std::memory_order_acq_rel) ? ACL_ERROR_REPEAT_INITIALIZE
                                                          : ACL_SUCCESS;
}

void Runtime::call_host(aclrtHostFunc function, void* argument) {
  if (!settings_.calls_back_late) return function(argument);
  const std::lock_guard lock(late_mutex_);
  late_.emplace_back(function, argument);
}

void Runtime::call_back() {
  std::vector<std::pair<aclrtHostFunc, void*>> late;
  {
    const std::lock_guard lock(late_mutex_);
    late.swap(late_);
  }
  for (const auto& [function, argument] : late) function(argument);
}

aclError fail(aclError error, std::string text) {
  t_message = std::move(text);
  return error;
}

aclError loss_of(const Device& chip) {
  return fail(ACL_ERROR_RT_LOST_HEARTBEAT, chip.alive().text());
}

aclError error_of(const Status& status, const Device& chip) {
  switch (status.code()) {
    case Code::kOk:
      return ACL_SUCCESS;
    case Code::kInvalidArgument:
      return fail(ACL_ERROR_RT_PARAM_INVALID, status.text());
    case Code::kOutOfMemory:
      return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, status.text());
    case Code::kUnavailable:
      return fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, status.text());
    case Code::kUnsupported:
      return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, status.text());
    case Code::kDeviceLost:
      return loss_of(chip);
    default:
      return fail(ACL_ERROR_RT_AICORE_EXCEPTION, status.text());
  }
}

aclError error_of(HostMemory::Result result) {
  switch (result) {
    case HostMemory::Result::kOk:
      return ACL_SUCCESS;
    case HostMemory::Result::kOutOfMemory:
      return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory is left");
    default:
      return fail(ACL_ERROR_RT_PARAM_INVALID, "no such host memory");
  }
}

Context* current_context() {
  return t_context;
}

void set_current_context(Context* context) {
  t_context = context;
}

aclError find_stream(const Here& here, const char* call, aclrtStream handle, Stream** out_stream) {
  if (handle == nullptr) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the default stream is not emulated");
  }
  if (!Runtime::get().streams().has(handle)) undefined(call, "the stream does not exist");
  const auto& stream = *static_cast<StreamHandle*>(handle);
  if (stream.context != here.context || &stream.stream->device() != here.chip.get()) {
    return fail(ACL_ERROR_RT_STREAM_CONTEXT, "the stream is of another context");
  }
  *out_stream = stream.stream.get();
  return ACL_SUCCESS;
}

}  // namespace keel::emulator::acl

using namespace keel::emulator::acl;  // NOLINT: the functions below are C functions

extern "C" {

const char* aclGetRecentErrMsg() {
  return t_message.c_str();
}

aclError keel_emulated_acl_chip(std::shared_ptr<keel::emulator::Device>* out_chip) {
  return answer_here([&](const Here& here) {
    *out_chip = here.chip;
    return ACL_SUCCESS;
  });
}

aclError keel_emulated_acl_stream(const char* call, aclrtStream handle,
                                  keel::emulator::Stream** out_stream) {
  return answer_here([&](const Here& here) { return find_stream(here, call, handle, out_stream); });
}

bool keel_emulated_acl_has_float8() {
  return Runtime::get().settings().has_float8;
}

void keel_emulated_acl_call_back() {
  Runtime::get().call_back();
}

bool keel_emulated_acl_may_describe() {
  return Runtime::get().may_describe();
}

}  // extern "C"
