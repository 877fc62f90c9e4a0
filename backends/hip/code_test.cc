// SPDX-License-Identifier: Apache-2.0
// The code objects that the plugin carries: each has every kernel of its family, and none takes
// more than a GPU has. Read from the kernel descriptors, which the runtime loads.
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "emulator/simt/library.h"
#include "kernels/gpu/image.h"

namespace keel::simt {
namespace {

// A kernel descriptor without its last 6 bytes, as LLVM's AMDGPU guide lays it out.
struct Descriptor {
  uint32_t lds_bytes;
  uint32_t scratch_bytes;   // per thread: arrays and spilled registers
  uint32_t argument_bytes;  // the kernel's own, then hidden ones of the runtime
  uint32_t unused[11];
  uint16_t properties;
  uint16_t unused_too;

  bool is_wave32() const { return (properties & 1 << 10) != 0; }
};
static_assert(offsetof(Descriptor, properties) == 56);

template <typename Value>
Value read(std::string_view bytes, uint64_t offset) {
  Value value = {};
  if (offset <= bytes.size() && sizeof(value) <= bytes.size() - offset) {
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
  } else {
    ADD_FAILURE() << "the image is cut short at " << offset;
  }
  return value;
}

// The code objects of a bundle, by the names of its entries.
std::map<std::string, std::string_view> entries_of(std::string_view bundle) {
  std::map<std::string, std::string_view> entries;
  uint64_t offset = 24;
  auto count = read<uint64_t>(bundle, offset);
  offset += 8;
  for (; count != 0 && count < 100; --count) {
    const auto begin = read<uint64_t>(bundle, offset);
    const auto size = read<uint64_t>(bundle, offset + 8);
    const auto name = read<uint64_t>(bundle, offset + 16);
    entries[std::string(bundle.substr(offset + 24, name))] = bundle.substr(begin, size);
    offset += 24 + name;
  }
  return entries;
}

// The descriptors of an ELF file's kernels, by the kernels' names.
std::map<std::string, Descriptor> descriptors_of(std::string_view object) {
  std::map<std::string, Descriptor> found;
  const auto header = read<Elf64_Ehdr>(object, 0);
  EXPECT_EQ(header.e_machine, 224) << "no code for an AMD GPU";
  std::vector<Elf64_Shdr> sections;
  for (uint16_t i = 0; i < header.e_shnum; ++i) {
    sections.push_back(read<Elf64_Shdr>(object, header.e_shoff + i * sizeof(Elf64_Shdr)));
  }
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != SHT_DYNSYM) continue;
    const Elf64_Shdr& names = sections.at(table.sh_link);
    for (uint64_t at = 0; at < table.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = read<Elf64_Sym>(object, table.sh_offset + at);
      std::string name = object.data() + names.sh_offset + symbol.st_name;
      if (name.size() < 3 || name.substr(name.size() - 3) != ".kd") continue;
      const Elf64_Shdr& place = sections.at(symbol.st_shndx);
      found[name.substr(0, name.size() - 3)] =
          read<Descriptor>(object, place.sh_offset + symbol.st_value - place.sh_addr);
    }
  }
  return found;
}

// The kernels compiled for the host, whose argument structs have the sizes that are launched.
const emulator::simt::Libraries* host_kernels() {
  void* const file = dlopen(KEEL_HOST_KERNELS, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = file == nullptr ? nullptr : dlsym(file, emulator::simt::kLibrariesSymbol);
  return symbol == nullptr ? nullptr
                           : reinterpret_cast<const emulator::simt::Libraries* (*)()>(symbol)();
}

TEST(HipCodeTest, EveryKernelIsThereAndFitsTheChip) {
  if (*hip_architectures() == '\0') {
    GTEST_SKIP() << "this build has no code objects: hipcc's clang was not found";
  }
  constexpr uint32_t kMostLds = 64 << 10;
  constexpr uint32_t kMostScratch = 1 << 10;
  constexpr uint32_t kMostHidden = 256;  // 56 of code object version 4, 256 of version 5
  const emulator::simt::Libraries* const host = host_kernels();
  ASSERT_NE(host, nullptr) << dlerror();
  std::istringstream architectures(hip_architectures());
  for (std::string architecture; architectures >> architecture;) {
    uint32_t kernels = 0;
    for (const Image& image : hip_images()) {
      const std::string_view bundle(reinterpret_cast<const char*>(image.bytes.data()),
                                    image.bytes.size());
      std::string_view object;
      for (const auto& [name, entry] : entries_of(bundle)) {
        if (name.find("--" + architecture) != std::string::npos) object = entry;
      }
      ASSERT_FALSE(object.empty()) << image.family << " has no code for " << architecture;
      const auto descriptors = descriptors_of(object);
      for (const char* const kernel : image.kernels) {
        const auto found = descriptors.find(kernel);
        ASSERT_NE(found, descriptors.end()) << kernel << " for " << architecture;
        // A warp of RDNA has 32 threads, one of CDNA 64; the kernels are compiled for it.
        EXPECT_EQ(found->second.is_wave32(), architecture.starts_with("gfx1")) << kernel;
        EXPECT_LE(found->second.lds_bytes, kMostLds) << kernel;
        EXPECT_LE(found->second.scratch_bytes, kMostScratch) << kernel;
        const emulator::simt::Kernel* const own = host->first->find(image.family, kernel);
        ASSERT_NE(own, nullptr) << kernel;
        EXPECT_GE(found->second.argument_bytes, own->argument_bytes) << kernel;
        EXPECT_LE(found->second.argument_bytes, own->argument_bytes + kMostHidden) << kernel;
        if (found->second.scratch_bytes != 0) {
          std::printf("%s: %s takes %u bytes of scratch\n", architecture.c_str(), kernel,
                      found->second.scratch_bytes);
        }
        ++kernels;
      }
    }
    std::printf("%s: %u kernels\n", architecture.c_str(), kernels);
    EXPECT_GT(kernels, 100u);
  }
}

}  // namespace
}  // namespace keel::simt
