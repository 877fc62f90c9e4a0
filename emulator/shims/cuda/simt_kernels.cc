// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/cuda/simt_kernels.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "emulator/shims/cuda/driver.h"
#include "emulator/shims/cuda/host_image.h"

namespace keel::emulator::cuda {
namespace {

// The header of a fat binary; |size| bytes follow it.
struct FatHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_size;
  uint64_t size;
};

uint64_t fat_binary_size(const void* image) {
  FatHeader header = {};
  std::memcpy(&header, image, sizeof(header));
  return header.header_size + header.size;
}

struct Opened {
  const simt::Libraries* libraries = nullptr;
  std::string why;
};

Opened open_libraries() {
  Dl_info info = {};
  // Finds this library's path by one of its symbols.
  if (dladdr(reinterpret_cast<void*>(&find_simt_kernels), &info) == 0 ||
      info.dli_fname == nullptr) {
    return {nullptr, "this library does not know where it lies"};
  }
  const std::string own = info.dli_fname;
  const std::string path =
      own.substr(0, own.rfind('/') + 1) + kVendor.kernels_file(Driver::get().settings().warp);
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const symbol = handle == nullptr ? nullptr : dlsym(handle, simt::kLibrariesSymbol);
  if (symbol == nullptr) {
    const char* const why = dlerror();
    return {nullptr, why == nullptr ? path : why};
  }
  const simt::Libraries* (*get)() = nullptr;
  std::memcpy(&get, &symbol, sizeof(symbol));
  const simt::Libraries* const libraries = get();
  if (libraries->library_size != sizeof(simt::Library)) {
    return {nullptr, path + " is of another build"};
  }
  return {libraries, {}};
}

const Opened& opened_libraries() {
  static const Opened& opened = *new Opened(open_libraries());
  return opened;
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

const void* image_of_family(std::string_view family, std::string* out_why) {
  const Opened& opened = opened_libraries();
  const uint64_t count = opened.libraries == nullptr ? 0 : opened.libraries->count;
  for (uint64_t i = 0; i < count; ++i) {
    const simt::Library& library = opened.libraries->first[i];
    if (library.family == family) return library.image;
  }
  *out_why = opened.libraries == nullptr ? opened.why : "no such family of kernels";
  return nullptr;
}

const simt::Library* find_simt_kernels(const void* image, std::string* out_why) {
  const Opened& opened = opened_libraries();
  if (opened.libraries == nullptr) {
    *out_why = opened.why;
    return nullptr;
  }
  const uint64_t bytes = is_bundle(image) ? bundle_size(image) : fat_binary_size(image);
  for (uint64_t i = 0; i < opened.libraries->count; ++i) {
    const simt::Library& library = opened.libraries->first[i];
    if (bytes >= sizeof(FatHeader) && bytes <= library.image_bytes &&
        std::memcmp(image, library.image, bytes) == 0) {
      return &library;
    }
  }
  *out_why =
      "the kernels compiled for the host do not stand for this image: is it of another build?";
  return nullptr;
}

Status run_simt_kernel(const simt::Library& library, const simt::Kernel& kernel,
                       const simt::Grid& grid, const void* arguments, Access& access) {
  Reached memory(access);
  std::string error;
  const simt::Outcome outcome = library.run(kernel, grid, arguments, memory, &error);
  if (outcome == simt::Outcome::kDone) return {};
  std::fprintf(stderr, "keel: emulated %s: %s\n", kVendor.name, error.c_str());
  switch (outcome) {
    case simt::Outcome::kIllegalAddress:
      return {Code::kIllegalAddress, std::move(error)};
    case simt::Outcome::kOutOfMemory:
      return {Code::kOutOfMemory, std::move(error)};
    default:
      return {Code::kFailed, std::move(error)};
  }
}

}  // namespace keel::emulator::cuda
