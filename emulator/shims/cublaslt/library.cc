// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/cublaslt/library.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "emulator/settings.h"

namespace keel::emulator::cublaslt {

Status read_settings(std::string_view text, Settings* out_settings) {
  SettingValues values;
  Settings settings;
  uint64_t version = settings.version;
  uint64_t create = CUBLAS_STATUS_SUCCESS;
  uint64_t heuristic = CUBLAS_STATUS_SUCCESS;
  uint64_t matmul = CUBLAS_STATUS_SUCCESS;
  uint64_t kernels = 1;
  Status status = split_settings(text, &values);
  if (status.ok()) status = take_number(&values, "version", 1000, 999999, &version);
  if (status.ok()) status = take_number(&values, "create", 0, 99, &create);
  if (status.ok()) status = take_number(&values, "heuristic", 0, 99, &heuristic);
  if (status.ok()) status = take_number(&values, "matmul", 0, 99, &matmul);
  if (status.ok()) status = take_number(&values, "kernels", 0, 1, &kernels);
  if (status.ok()) status = take_number(&values, "workspace", 0, UINT32_MAX, &settings.workspace);
  if (!status.ok()) return status;
  if (!values.empty()) {
    return {Code::kInvalidArgument, fmt::format("'{:.64}' is not known", values.begin()->first)};
  }
  settings.version = version;
  settings.create = static_cast<cublasStatus_t>(create);
  settings.heuristic = static_cast<cublasStatus_t>(heuristic);
  settings.matmul = static_cast<cublasStatus_t>(matmul);
  settings.kernels = kernels != 0;
  *out_settings = settings;
  return {};
}

Library& Library::get() {
  static Library& library = *new Library;
  return library;
}

Library::Library() {
  const char* const text = secure_getenv("KEEL_EMULATED_CUBLASLT");
  trouble_ = read_settings(text == nullptr ? "" : text, &settings_);
  if (trouble_.ok()) {
    trouble_ = driver_.open(reinterpret_cast<void*>(&cublasLtGetVersion));
  } else {
    trouble_ = {trouble_.code(), "KEEL_EMULATED_CUBLASLT: " + trouble_.text()};
  }
}

Status Library::chip(std::shared_ptr<Device>* out_chip) const {
  return trouble_.ok() ? driver_.chip(out_chip) : trouble_;
}

Status Library::stream(cudaStream_t handle, Stream** out_stream) const {
  return trouble_.ok() ? driver_.stream(handle, out_stream) : trouble_;
}

cublasStatus_t fail(cublasStatus_t result, const std::string& why) {
  std::fprintf(stderr, "keel: emulated cuBLASLt: %s\n", why.c_str());
  return result;
}

}  // namespace keel::emulator::cublaslt
