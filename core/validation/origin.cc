// SPDX-License-Identifier: Apache-2.0
#include "core/validation/origin.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string_view>

namespace keel::validation {

namespace {

constexpr int kPrintedFrames = 4;

const void* library_of(void* address) {
  Dl_info info = {};
  return dladdr(address, &info) == 0 ? nullptr : info.dli_fbase;
}

// Returns whether |address| is in a function of the C++ library, such as the construct_at() that
// creates an element of a vector: template instances lie in the program, but say nothing about its
// lines.
bool is_of_standard_library(void* address) {
  Dl_info info = {};
  if (dladdr(address, &info) == 0 || info.dli_sname == nullptr) return false;
  const std::string_view name = info.dli_sname;
  constexpr std::string_view kBegins[] = {"_ZSt", "_ZNSt", "_ZNKSt", "_ZN9__gnu_cxx",
                                          "_ZNK9__gnu_cxx"};
  return std::any_of(std::begin(kBegins), std::end(kBegins),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

std::string describe_frame(void* address) {
  Dl_info info = {};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return fmt::format("{}", address);
  std::string file = info.dli_fname;
  file.erase(0, file.rfind('/') + 1);
  const auto at = reinterpret_cast<uintptr_t>(address);
  if (info.dli_sname == nullptr) {
    // The input of addr2line -i -e FILE: an address in the call, just before the return address.
    return fmt::format("{}+{:#x}", file, at - 1 - reinterpret_cast<uintptr_t>(info.dli_fbase));
  }
  int demangled = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &demangled), std::free);
  return fmt::format("{}+{:#x} ({})", demangled == 0 ? name.get() : info.dli_sname,
                     at - reinterpret_cast<uintptr_t>(info.dli_saddr), file);
}

}  // namespace

Origin capture_origin() {
  Origin origin;
  origin.count = backtrace(origin.frames.data(), static_cast<int>(origin.frames.size()));
  return origin;
}

std::string describe(const Origin& origin) {
  const void* own = library_of(reinterpret_cast<void*>(&capture_origin));
  int first = 0;
  while (first < origin.count && library_of(origin.frames[static_cast<size_t>(first)]) == own) {
    ++first;
  }
  // Keel is linked statically into the program: drops only the layer's own frame.
  if (first == origin.count) first = origin.count > 1 ? 1 : 0;
  std::string text;
  for (int i = first, printed = 0; i < origin.count && printed < kPrintedFrames; ++i) {
    void* const frame = origin.frames[static_cast<size_t>(i)];
    if (is_of_standard_library(frame)) continue;
    if (!text.empty()) text += " < ";
    text += describe_frame(frame);
    ++printed;
  }
  return text.empty() ? "an unknown place" : text;
}

}  // namespace keel::validation
