// SPDX-License-Identifier: Apache-2.0
// The SPIR-V parser on modules that no compiler emits.
#include "backends/vulkan/spirv.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace keel::vulkan {
namespace {

// A compute kernel "k" whose push constants are a struct of the test.
class ModuleWords {
 public:
  static constexpr uint32_t kInt = 1;
  static constexpr uint32_t kBlock = 100;

  ModuleWords() {
    words_ = {0x07230203, 0x00010300, 0, 1000, 0};
    add(15, {5, 2, 'k', 3});    // OpEntryPoint GLCompute %2 "k" %3
    add(16, {2, 17, 8, 1, 1});  // OpExecutionMode %2 LocalSize 8 1 1
    add(21, {kInt, 32, 0});     // %1 = OpTypeInt 32 0
    add(32, {4, 9, kBlock});    // %4 = OpTypePointer PushConstant %kBlock
    add(59, {4, 3, 9});         // %3 = OpVariable %4 PushConstant
  }

  void add(uint32_t opcode, const std::vector<uint32_t>& operands) {
    words_.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | opcode);
    words_.insert(words_.end(), operands.begin(), operands.end());
  }
  // OpTypeStruct |id| of |count| members of |type|, |stride| bytes apart.
  void add_struct(uint32_t id, uint32_t type, uint32_t count, uint32_t stride) {
    std::vector<uint32_t> operands = {id};
    for (uint32_t i = 0; i < count; ++i) {
      operands.push_back(type);
      add(72, {id, i, 35, i * stride});  // OpMemberDecorate Offset
    }
    add(30, operands);
  }
  keel_status read(SpirvModule* out_module) const {
    return read_spirv(words_.data(), words_.size() * sizeof(uint32_t), out_module);
  }

 private:
  std::vector<uint32_t> words_;
};

TEST(Spirv, MembersOfTheBlockAreTheArguments) {
  ModuleWords words;
  words.add_struct(ModuleWords::kBlock, ModuleWords::kInt, 3, 4);
  SpirvModule module;
  ASSERT_EQ(words.read(&module), KEEL_OK);
  ASSERT_EQ(module.kernels.size(), 1U);
  EXPECT_EQ(module.kernels[0].name, "k");
  EXPECT_EQ(module.kernels[0].workgroup[0].value, 8U);
  ASSERT_EQ(module.kernels[0].arguments.size(), 3U);
  EXPECT_EQ(module.kernels[0].arguments[2].offset, 8U);
  EXPECT_EQ(module.kernels[0].arguments[2].size, 4U);
}

// 64 members in each of 8 nested structs: 2^48 paths down to the integer.
TEST(Spirv, StructsOfStructsAreMeasuredOnce) {
  ModuleWords words;
  for (uint32_t level = 0; level < 8; ++level) {
    const uint32_t id = ModuleWords::kBlock + level;
    words.add_struct(id, level == 7 ? ModuleWords::kInt : id + 1, 64, /*stride=*/0);
  }
  SpirvModule module;
  EXPECT_EQ(words.read(&module), KEEL_INVALID_ARGUMENT);  // the members overlap
}

TEST(Spirv, AStructThatHoldsItselfIsRefused) {
  ModuleWords words;
  words.add_struct(ModuleWords::kBlock, ModuleWords::kBlock, 2, 4);
  SpirvModule module;
  EXPECT_EQ(words.read(&module), KEEL_INVALID_ARGUMENT);
}

// Each kernel has its own list: 10,000 of each would take 800 MB.
TEST(Spirv, MoreArgumentsThanADeviceTakesAreRefused) {
  for (const uint32_t count : {256U, 257U}) {
    ModuleWords words;
    words.add_struct(ModuleWords::kBlock, ModuleWords::kInt, count, 4);
    SpirvModule module;
    EXPECT_EQ(words.read(&module), count == 256 ? KEEL_OK : KEEL_INVALID_ARGUMENT);
  }
}

}  // namespace
}  // namespace keel::vulkan
