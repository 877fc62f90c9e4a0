// SPDX-License-Identifier: Apache-2.0
// The SPIR-V that the plugin carries, read word by word: each module has every kernel of its family
// as the plugin launches it, needs nothing that the plugin has not asked the driver for, and takes
// no more group memory than a device has. Also for the kernels that no driver here can run.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/level_zero/testing/spirv_code.h"
#include "emulator/simt/library.h"
#include "kernels/gpu/arguments.h"
#include "kernels/gpu/kernels.h"
#include "kernels/gpu/level_zero/spirv_image.h"

namespace keel::testing {
namespace {

using Words = std::vector<uint32_t>;

// The kernels of each family, compiled for the host. Their argument structs have the sizes that the
// emulated driver wants of each launch.
const emulator::simt::Libraries& host_kernels() {
  static const emulator::simt::Libraries* const libraries = [] {
    void* const file = dlopen(KEEL_HOST_KERNELS, RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) throw std::runtime_error(dlerror());
    void* const symbol = dlsym(file, emulator::simt::kLibrariesSymbol);
    return reinterpret_cast<const emulator::simt::Libraries* (*)()>(symbol)();
  }();
  return *libraries;
}

Words words_of(const simt::SpirvImage& image) {
  const auto* const words = reinterpret_cast<const uint32_t*>(image.bytes.data());
  return {words, words + image.bytes.size() / sizeof(uint32_t)};
}

std::vector<KernelCall> calls_of(const simt::SpirvImage& image) {
  std::vector<KernelCall> calls;
  for (const char* const name : image.kernels) {
    const emulator::simt::Kernel* const kernel = host_kernels().first->find(image.family, name);
    EXPECT_NE(kernel, nullptr) << name;
    if (kernel == nullptr) continue;
    calls.push_back({name, kernel->argument_bytes, simt::kThreads, simt::kWarp});
  }
  return calls;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(LevelZeroCodeTest, EveryKernelIsThereAsItIsLaunched) {
  size_t kernels = 0;
  for (const simt::SpirvImage& image : simt::spirv_images()) {
    const SpirvCode code(words_of(image));
    EXPECT_EQ(joined(code.defects(calls_of(image), image.has_doubles, simt::kSpirvLocalBytes)), "")
        << image.family;
    uint64_t most = 0;
    size_t shuffling = 0;
    for (const char* const name : image.kernels) {
      most = std::max(most, code.local_bytes(name));
      shuffling += code.shuffles(name) ? 1 : 0;
    }
    std::printf("%s: %zu kernels, %zu of them shuffle; at most %llu bytes of group memory\n",
                image.family, image.kernels.size(), shuffling,
                static_cast<unsigned long long>(most));
    kernels += image.kernels.size();
  }
  EXPECT_EQ(kernels, static_cast<size_t>(simt::KernelId::kCount));
}

// ---- spoiled modules -------------------------------------------------------------

// The operands of the first instruction |code| for which |is_it| holds.
std::span<uint32_t> find(Words& words, uint32_t code,
                         const std::function<bool(std::span<uint32_t>)>& is_it) {
  for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
    const std::span<uint32_t> operands(&words[at] + 1, (words[at] >> 16) - 1);
    if ((words[at] & 0xffff) == code && is_it(operands)) return operands;
  }
  throw std::runtime_error("the module has no such instruction");
}
std::span<uint32_t> find(Words& words, uint32_t code) {
  return find(words, code, [](std::span<uint32_t>) { return true; });
}
bool is_mode(std::span<uint32_t> operands, uint32_t mode) {
  return operands[1] == mode;
}

struct Spoiled {
  const char* name;
  void (*spoil)(Words& words);
  const char* defect;
};

constexpr Spoiled kSpoiled[] = {
    {"NoModule", [](Words& words) { words[0] ^= 1; }, "it is no SPIR-V"},
    {"CutShort", [](Words& words) { words.resize(words.size() - 2); }, "it is cut short"},
    {"OtherName", [](Words& words) { find(words, 15)[2] ^= 1; }, "has no entry point"},
    {"Capability", [](Words& words) { find(words, 17)[0] = 12; },
     "it declares capability 12"},  // 64-bit atomics
    {"Extension", [](Words& words) { find(words, 10)[0] ^= 1; }, "it needs the extension"},
    {"InstructionSet", [](Words& words) { find(words, 11)[1] ^= 1; },
     "it needs the instruction set"},
    {"MemoryModel", [](Words& words) { find(words, 14)[0] = 1; }, "its memory model"},
    {"Doubles", [](Words& words) { find(words, 22)[1] = 64; }, "it has 64-bit floats"},
    {"Import",
     [](Words& words) {
       find(words, 71, [](auto operands) {
         return operands[1] == 41 && operands.back() == 0;
       }).back() = 1;
     },
     "it imports "},
    {"NoBody",
     [](Words& words) {
       for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
         if ((words[at] & 0xffff) == 248) words[at] = words[at] >> 16 << 16;  // OpNop
       }
     },
     "has no body"},
    {"Group",
     [](Words& words) { find(words, 16, [](auto its) { return is_mode(its, 17); })[2] = 512; },
     "does not require groups of 256"},
    {"Subgroup",
     [](Words& words) { find(words, 16, [](auto its) { return is_mode(its, 35); })[2] = 16; },
     "does not require subgroups of 32"},
    {"Contraction",
     [](Words& words) { find(words, 16, [](auto its) { return is_mode(its, 31); })[1] = 33; },
     "allows contraction"},
    // The sizes of all 64-bit integers: those of an argument, too.
    {"ArgumentSize",
     [](Words& words) { find(words, 21, [](auto its) { return its[1] == 64; })[1] = 32; },
     " bytes, not "},
    {"ArgumentByReference",
     [](Words& words) {
       for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
         if ((words[at] & 0xffff) == 71 && words[at + 2] == 38 && words[at + 3] == 2) {
           words[at + 3] = 4;  // NoAlias
         }
       }
     },
     "does not take its argument by value"},
    {"GroupMemory",
     [](Words& words) { find(words, 43, [](auto its) { return its[2] == 4352; })[2] = 43520; },
     "bytes of group memory of 65536"},
};

class SpoiledCodeTest : public ::testing::TestWithParam<Spoiled> {};

TEST_P(SpoiledCodeTest, IsNamed) {
  const auto images = simt::spirv_images();
  const auto attention = std::find_if(images.begin(), images.end(), [](const auto& image) {
    return image.family == std::string("attention");
  });
  ASSERT_NE(attention, images.end());
  Words words = words_of(*attention);
  GetParam().spoil(words);
  const std::string found = joined(SpirvCode(words).defects(
      calls_of(*attention), /*has_doubles=*/false, simt::kSpirvLocalBytes));
  EXPECT_NE(found.find(GetParam().defect), std::string::npos) << found;
}

INSTANTIATE_TEST_SUITE_P(All, SpoiledCodeTest, ::testing::ValuesIn(kSpoiled),
                         [](const auto& info) { return std::string(info.param.name); });

// The defects of a kernel that is nobody's, and of one that is missing.
TEST(LevelZeroCodeTest, KernelsAndCallsAreTheSame) {
  const simt::SpirvImage& image = simt::spirv_images()[0];
  const SpirvCode code(words_of(image));
  std::vector<KernelCall> calls = calls_of(image);
  const KernelCall last = calls.back();
  calls.pop_back();
  EXPECT_EQ(joined(code.defects(calls, image.has_doubles, simt::kSpirvLocalBytes)),
            last.name + " is a kernel that nobody launches\n");
}

}  // namespace
}  // namespace keel::testing
