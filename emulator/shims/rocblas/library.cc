// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/rocblas/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "emulator/settings.h"

namespace keel::emulator::rocblas {
namespace {

std::filesystem::path own_folder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&rocblas_create_handle), &info) == 0) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

}  // namespace

Status read_settings(std::string_view text, Settings* out_settings) {
  SettingValues values;
  Settings settings;
  uint64_t create = rocblas_status_success;
  uint64_t gemm = rocblas_status_success;
  Status status = split_settings(text, &values);
  if (status.ok()) status = take_number(&values, "create", 0, 99, &create);
  if (status.ok()) status = take_number(&values, "gemm", 0, 99, &gemm);
  if (status.ok()) status = take_number(&values, "workspace", 0, UINT32_MAX, &settings.workspace);
  if (!status.ok()) return status;
  if (const auto found = values.find("version"); found != values.end()) {
    settings.version = found->second;
    values.erase(found);
  }
  if (!values.empty()) {
    return {Code::kInvalidArgument, fmt::format("'{:.64}' is not known", values.begin()->first)};
  }
  settings.create = static_cast<rocblas_status>(create);
  settings.gemm = static_cast<rocblas_status>(gemm);
  *out_settings = settings;
  return {};
}

Library& Library::get() {
  static Library& library = *new Library;
  return library;
}

Library::Library() {
  const char* const text = secure_getenv("KEEL_EMULATED_ROCBLAS");
  trouble_ = read_settings(text == nullptr ? "" : text, &settings_);
  if (!trouble_.ok()) {
    trouble_ = {trouble_.code(), "KEEL_EMULATED_ROCBLAS: " + trouble_.text()};
    return;
  }
  trouble_ = runtime_.open(reinterpret_cast<void*>(&rocblas_create_handle));
  for (const std::filesystem::path& folder : {own_folder(), own_folder().parent_path()}) {
    void* const runtime = dlopen((folder / KEEL_DRIVER_BESIDE).c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (runtime == nullptr || get_device_ != nullptr) continue;
    get_device_ = reinterpret_cast<decltype(get_device_)>(dlsym(runtime, "hipGetDevice"));
    get_properties_ =
        reinterpret_cast<decltype(get_properties_)>(dlsym(runtime, "hipGetDeviceProperties"));
  }
}

Status Library::chip(std::shared_ptr<Device>* out_chip) const {
  return trouble_.ok() ? runtime_.chip(out_chip) : trouble_;
}

Status Library::stream(hipStream_t handle, Stream** out_stream) const {
  return trouble_.ok() ? runtime_.stream(reinterpret_cast<CUstream>(handle), out_stream) : trouble_;
}

bool Library::has_kernels() const {
  int device = 0;
  hipDevicePropR0000 properties = {};
  if (get_device_ == nullptr || get_properties_ == nullptr || get_device_(&device) != 0 ||
      get_properties_(&properties, device) != 0) {
    return false;
  }
  std::string name = properties.gcnArchName;
  name.erase(std::min(name.find(':'), name.size()));
  return std::filesystem::exists(own_folder() /
                                 fmt::format("rocblas/library/TensileLibrary_lazy_{}.dat", name));
}

rocblas_status fail(rocblas_status result, const std::string& why) {
  std::fprintf(stderr, "keel: emulated rocBLAS: %s\n", why.c_str());
  return result;
}

}  // namespace keel::emulator::rocblas
