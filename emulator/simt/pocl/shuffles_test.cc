// SPDX-License-Identifier: Apache-2.0
#include "emulator/simt/pocl/shuffles.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include "kernels/gpu/level_zero/spirv_image.h"

namespace keel::emulator::simt {
namespace {

TEST(ShufflesTest, CallersOfAFunctionThatShufflesAreFound) {
  constexpr std::array kModule = {
      0x07230203u, 0x00010200u, 0u,  20u,         0u,   // header
      0x0004000fu, 6u,          1u,  0x00000061u,       // kernel "a" is %1
      0x0004000fu, 6u,          2u,  0x00000062u,       // kernel "b" is %2
      0x00050036u, 9u,          1u,  0u,          8u,   // %1: calls %3
      0x00040039u, 9u,          10u, 3u,                //
      0x00050036u, 9u,          2u,  0u,          8u,   // %2: calls nothing
      0x00050036u, 9u,          3u,  0u,          8u,   // %3: shuffles
      0x000515c6u, 9u,          11u, 12u,         13u,  //
  };
  EXPECT_EQ(kernels_that_shuffle(kModule), std::set<std::string>{"a"});
}

TEST(ShufflesTest, ModuleCutShortEndsTheSearch) {
  constexpr std::array kModule = {0x07230203u, 0x00010200u, 0u, 20u, 0u, 0x000515c6u, 9u};
  EXPECT_TRUE(kernels_that_shuffle(kModule).empty());
}

// So many kernels run by PoCL. The others are rows that a subgroup sums, and attention.
TEST(ShufflesTest, MoreThanHalfOfTheKernelsDoNotShuffle) {
  size_t all = 0;
  size_t shuffling = 0;
  for (const keel::simt::SpirvImage& image : keel::simt::spirv_images()) {
    const auto* const words = reinterpret_cast<const uint32_t*>(image.bytes.data());
    const std::set<std::string> names =
        kernels_that_shuffle({words, image.bytes.size() / sizeof(uint32_t)});
    all += image.kernels.size();
    shuffling += names.size();
    std::printf("%s: %zu of %zu kernels shuffle\n", image.family, names.size(),
                image.kernels.size());
  }
  if (all == 0) GTEST_SKIP() << "this build has no SPIR-V";
  EXPECT_GT(all, 190u);
  EXPECT_LT(shuffling, all / 2);
}

}  // namespace
}  // namespace keel::emulator::simt
