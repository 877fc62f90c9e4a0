// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/nccl/library.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "emulator/settings.h"

// RCCL, made of the same sources, has a variable of its own.
#ifndef KEEL_CCL_VARIABLE
#define KEEL_CCL_VARIABLE "KEEL_EMULATED_NCCL"
#endif

namespace keel::emulator::nccl {
namespace {

thread_local std::string t_error;

}  // namespace

Status read_settings(std::string_view text, Settings* out_settings) {
  SettingValues values;
  Settings settings;
  auto version = static_cast<uint64_t>(settings.version);
  uint64_t aborts = 1;
  Status status = split_settings(text, &values);
  if (status.ok()) status = take_number(&values, "version", 1000, 99999, &version);
  if (status.ok()) status = take_number(&values, "stuck", 0, UINT64_MAX, &settings.stuck);
  if (status.ok()) status = take_number(&values, "ids", 0, UINT64_MAX, &settings.ids);
  if (status.ok()) status = take_number(&values, "abort", 0, 1, &aborts);
  if (!status.ok()) return status;
  if (!values.empty()) {
    return {Code::kInvalidArgument, fmt::format("'{:.64}' is not known", values.begin()->first)};
  }
  settings.version = static_cast<int>(version);
  settings.aborts = aborts != 0;
  *out_settings = settings;
  return {};
}

Library& Library::get() {
  static Library& library = *new Library;
  return library;
}

Library::Library() {
  const char* const text = secure_getenv(KEEL_CCL_VARIABLE);
  trouble_ = read_settings(text == nullptr ? "" : text, &settings_);
  if (!trouble_.ok()) {
    trouble_ = {trouble_.code(), KEEL_CCL_VARIABLE ": " + trouble_.text()};
    return;
  }
  trouble_ = driver_.open(reinterpret_cast<void*>(&ncclGetVersion));
}

Status Library::chip(std::shared_ptr<Device>* out_chip) const {
  return trouble_.ok() ? driver_.chip(out_chip) : trouble_;
}

Status Library::stream(cudaStream_t handle, Stream** out_stream) const {
  return trouble_.ok() ? driver_.stream(handle, out_stream) : trouble_;
}

ncclResult_t fail(ncclResult_t result, std::string text) {
  t_error = std::move(text);
  return result;
}

ncclResult_t result_of(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return ncclSuccess;
    case Code::kInvalidArgument:
      return fail(ncclInvalidUsage, status.text());
    case Code::kUnsupported:
      return fail(ncclInvalidArgument, status.text());
    case Code::kIllegalAddress:
    case Code::kDeviceLost:
      return fail(ncclUnhandledCudaError, status.text());
    case Code::kOutOfMemory:
    case Code::kTimedOut:
    case Code::kUnavailable:
      return fail(ncclSystemError, status.text());
    default:
      return fail(ncclInternalError, status.text());
  }
}

const char* last_error() {
  return t_error.c_str();
}

}  // namespace keel::emulator::nccl
