// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/bkcl/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "emulator/settings.h"

namespace keel::emulator::bkcl {

Status read_settings(std::string_view text, Settings* out_settings) {
  SettingValues values;
  Settings settings;
  uint64_t abort_hangs = 0;
  Status status = split_settings(text, &values);
  if (status.ok()) status = take_number(&values, "stuck", 0, UINT64_MAX, &settings.stuck);
  if (status.ok()) status = take_number(&values, "abort_hangs", 0, 1, &abort_hangs);
  if (!status.ok()) return status;
  if (!values.empty()) {
    return {Code::kInvalidArgument, fmt::format("'{:.64}' is not known", values.begin()->first)};
  }
  settings.abort_hangs = abort_hangs != 0;
  *out_settings = settings;
  return {};
}

Library& Library::get() {
  static Library& library = *new Library;
  return library;
}

Library::Library() {
  const char* const text = secure_getenv("KEEL_EMULATED_BKCL");
  trouble_ = read_settings(text == nullptr ? "" : text, &settings_);
  if (trouble_.ok()) {
    trouble_ = open_runtime();
  } else {
    trouble_ = {trouble_.code(), "KEEL_EMULATED_BKCL: " + trouble_.text()};
  }
  if (!trouble_.ok()) std::fprintf(stderr, "emulated BKCL: %s\n", trouble_.text().c_str());
}

// The search covers only the library's folder, since a foreign libxpurt.so may be loaded from
// elsewhere.
Status Library::open_runtime() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&bkcl_header_kind), &info) == 0 || info.dli_fname == nullptr) {
    return {Code::kUnavailable, "this library does not know where it lies"};
  }
  const std::filesystem::path folder = std::filesystem::path(info.dli_fname).parent_path();
  const std::string path = folder / "libxpurt.so";
  if (void* const runtime = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); runtime != nullptr) {
    chip_ = reinterpret_cast<decltype(chip_)>(dlsym(runtime, "keel_emulated_xre_chip"));
    stream_ = reinterpret_cast<decltype(stream_)>(dlsym(runtime, "keel_emulated_xre_stream"));
  }
  if (chip_ != nullptr && stream_ != nullptr) return {};
  return {Code::kUnavailable,
          fmt::format("'{}' has no XRE of the emulated chip: this library works on no other",
                      folder.string())};
}

Status Library::chip(std::shared_ptr<Device>* out_chip) const {
  if (!trouble_.ok()) return trouble_;
  const int result = chip_(out_chip);
  if (result == 0) return {};
  return {Code::kDeviceLost, fmt::format("XRE says {}", result)};
}

Status Library::stream(XPUStream handle, std::shared_ptr<Stream>* out_stream) const {
  if (!trouble_.ok()) return trouble_;
  const int result = stream_(handle, out_stream);
  if (result == 0) return {};
  return {Code::kDeviceLost, fmt::format("XRE says {}", result)};
}

BKCLContext_t Library::add(std::shared_ptr<Rank> rank) {
  const auto context = reinterpret_cast<BKCLContext_t>(rank.get());
  const std::lock_guard lock(mutex_);
  ranks_.emplace(context, std::move(rank));
  return context;
}

std::shared_ptr<Rank> Library::find(const char* function, BKCLContext_t context) {
  const std::lock_guard lock(mutex_);
  const auto found = ranks_.find(context);
  if (found == ranks_.end()) {
    end_process(function, fmt::format("{} is no live context", static_cast<void*>(context)));
  }
  return found->second;
}

std::shared_ptr<Rank> Library::take(const char* function, BKCLContext_t context) {
  std::shared_ptr<Rank> rank = find(function, context);
  const std::lock_guard lock(mutex_);
  ranks_.erase(context);
  return rank;
}

void end_process(const char* function, const std::string& why) {
  std::fprintf(stderr, "emulated BKCL: %s: %s\n", function, why.c_str());
  std::abort();
}

BKCLResult_t refuse(const char* function, const std::string& why) {
  if (secure_getenv("KEEL_EMULATED_BKCL") != nullptr) {
    std::fprintf(stderr, "emulated BKCL: %s: %s\n", function, why.c_str());
  }
  return BKCL_INVALID_ARGUMENT;
}

BKCLResult_t result_of(const char* function, const Status& status) {
  if (status.ok()) return BKCL_SUCCESS;
  (void)refuse(function, status.text());
  switch (status.code()) {
    case Code::kInvalidArgument:
    case Code::kUnsupported:
      return BKCL_INVALID_ARGUMENT;
    case Code::kIllegalAddress:
    case Code::kDeviceLost:
      return BKCL_RUNTIME_ERROR;
    case Code::kOutOfMemory:
    case Code::kTimedOut:
    case Code::kUnavailable:
      return BKCL_SYSTEM_ERROR;
    default:
      return BKCL_INTERNAL_ERROR;
  }
}

}  // namespace keel::emulator::bkcl
