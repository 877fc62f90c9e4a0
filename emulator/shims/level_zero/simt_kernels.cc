// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/level_zero/simt_kernels.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "emulator/shims/beside.h"

namespace keel::emulator::level_zero {
namespace {

struct Opened {
  const simt::Libraries* libraries = nullptr;
  std::string why;
};

Opened open_libraries() {
  void* const handle =
      open_beside(reinterpret_cast<void*>(&find_simt_kernels), "libkeel_simt_host.so");
  const simt::Libraries* (*get)() = nullptr;
  if (!find_beside(handle, simt::kLibrariesSymbol, &get)) {
    return {nullptr, "libkeel_simt_host.so, the kernels for the host, is not beside this library"};
  }
  const simt::Libraries* const libraries = get();
  if (libraries->library_size != sizeof(simt::Library)) {
    return {nullptr, "libkeel_simt_host.so is of another build"};
  }
  return {libraries, {}};
}

class Reached : public simt::AddressSpace {
 public:
  explicit Reached(Access& access) : access_(access) {}
  bool find(uint64_t address, simt::Extent* out_extent, std::string* out_why) override {
    Reach reach = {};
    const Status status = access_.reach_block(address, &reach);
    if (!status.ok()) {
      *out_why = status.text();
      return false;
    }
    *out_extent = {reach.begin, reach.size, reach.data};
    return true;
  }

 private:
  Access& access_;
};

}  // namespace

const simt::Library* find_simt_kernels(const void* image, size_t bytes, std::string* out_why) {
  static const Opened& opened = *new Opened(open_libraries());
  if (opened.libraries == nullptr) {
    *out_why = opened.why;
    return nullptr;
  }
  for (uint64_t i = 0; i < opened.libraries->count; ++i) {
    const simt::Library& library = opened.libraries->first[i];
    if (bytes == library.image_bytes && std::memcmp(image, library.image, bytes) == 0) {
      return &library;
    }
  }
  *out_why = "the emulated GPU runs the kernels of its own build alone, not this SPIR-V";
  return nullptr;
}

Status run_simt_kernel(const simt::Library& library, const simt::Kernel& kernel,
                       const simt::Grid& grid, const void* arguments, Access& access) {
  Reached memory(access);
  std::string error;
  const simt::Outcome outcome = library.run(kernel, grid, arguments, memory, &error);
  if (outcome == simt::Outcome::kDone) return {};
  std::fprintf(stderr, "keel: emulated Level Zero: %s\n", error.c_str());
  switch (outcome) {
    case simt::Outcome::kIllegalAddress:
      return {Code::kIllegalAddress, std::move(error)};
    case simt::Outcome::kOutOfMemory:
      return {Code::kOutOfMemory, std::move(error)};
    default:
      return {Code::kFailed, std::move(error)};
  }
}

}  // namespace keel::emulator::level_zero
