#include "emulator/faces/nccl/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "emulator/settings.h"

namespace keel::emulator::nccl {
namespace {

thread_local std::string t_error;

// The driver's library beside this one: its like may be loaded from elsewhere, too.
void* open_driver(std::string* out_path) {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&ncclGetVersion), &info) == 0 || info.dli_fname == nullptr) {
    return nullptr;
  }
  *out_path = std::filesystem::path(info.dli_fname).replace_filename("libcuda.so.1");
  return dlopen(out_path->c_str(), RTLD_NOW | RTLD_LOCAL);
}

Status driver_status(CUresult result) {
  if (result == CUDA_SUCCESS) return {};
  return {Code::kDeviceLost, fmt::format("the driver says CUresult {}", static_cast<int>(result))};
}

}  // namespace

Status read_settings(std::string_view text, Settings* out_settings) {
  SettingValues values;
  Settings settings;
  auto version = static_cast<uint64_t>(settings.version);
  Status status = split_settings(text, &values);
  if (status.ok()) status = take_number(&values, "version", 1000, 99999, &version);
  if (status.ok()) status = take_number(&values, "stuck", 0, UINT64_MAX, &settings.stuck);
  if (!status.ok()) return status;
  if (!values.empty()) {
    return {Code::kInvalidArgument, fmt::format("'{:.64}' is not known", values.begin()->first)};
  }
  settings.version = static_cast<int>(version);
  *out_settings = settings;
  return {};
}

Library& Library::get() {
  static Library& library = *new Library;
  return library;
}

Library::Library() {
  const char* const text = secure_getenv("KEEL_EMULATED_NCCL");
  trouble_ = read_settings(text == nullptr ? "" : text, &settings_);
  if (!trouble_.ok()) {
    trouble_ = {trouble_.code(), "KEEL_EMULATED_NCCL: " + trouble_.text()};
    return;
  }
  std::string path;
  void* const driver = open_driver(&path);
  if (driver != nullptr) {
    chip_ = reinterpret_cast<decltype(chip_)>(dlsym(driver, "keel_emulated_cuda_chip"));
    stream_ = reinterpret_cast<decltype(stream_)>(dlsym(driver, "keel_emulated_cuda_stream"));
  }
  if (chip_ != nullptr && stream_ != nullptr) return;
  trouble_ = {
      Code::kUnavailable,
      fmt::format("'{}' is no driver of the emulated chip: this library works on no other", path)};
}

Status Library::chip(std::shared_ptr<Device>* out_chip) const {
  return trouble_.ok() ? driver_status(chip_(out_chip)) : trouble_;
}

Status Library::stream(cudaStream_t handle, Stream** out_stream) const {
  return trouble_.ok() ? driver_status(stream_(handle, out_stream)) : trouble_;
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
