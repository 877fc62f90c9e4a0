// SPDX-License-Identifier: Apache-2.0
// SPIR-V as the emulated Level Zero driver reads and runs it.
#include "emulator/spirv/module.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "emulator/memory.h"
#include "emulator/spirv/arithmetic.h"
#include "emulator/spirv/interpreter.h"

namespace keel::emulator::spirv {
namespace {

using Words = std::vector<uint32_t>;

Words op(uint32_t code, const Words& operands) {
  Words words = {static_cast<uint32_t>(operands.size() + 1) << 16 | code};
  words.insert(words.end(), operands.begin(), operands.end());
  return words;
}

// The kernel "sum": (pointer to uint32, uint32 n) stores n + (n - 1) + ... + 1, by a loop over a
// variable; |middle| before it returns.
Words sum_kernel(const Words& middle = {}) {
  enum Id : uint32_t {
    kSum = 1,
    kVoid,
    kBool,
    kUint,
    kGlobal,
    kPrivate,
    kSignature,
    kOne,
    kZero,
    kTo,
    kNumber,
    kEntry,
    kLoop,
    kBody,
    kEnd,
    kTotal,
    kLeft,
    kLeftNow,
    kTotalNow,
    kMore,
    kAdded,
    kLess,
    kResult,
    kBound
  };
  Words words = {kSpirvMagic, 0x00010200, 0, kBound, 0};
  for (const Words& each : {
           op(kOpCapability, {4}),
           op(kOpCapability, {6}),
           op(kOpMemoryModel, {2, 2}),
           op(kOpEntryPoint, {6, kSum, 0x006d7573}),
           op(kOpTypeVoid, {kVoid}),
           op(kOpTypeBool, {kBool}),
           op(kOpTypeInt, {kUint, 32, 0}),
           op(kOpTypePointer, {kGlobal, kCrossWorkgroup, kUint}),
           op(kOpTypePointer, {kPrivate, kFunction, kUint}),
           op(kOpTypeFunction, {kSignature, kVoid, kGlobal, kUint}),
           op(kOpConstant, {kUint, kOne, 1}),
           op(kOpConstant, {kUint, kZero, 0}),
           op(kOpFunction, {kVoid, kSum, 0, kSignature}),
           op(kOpFunctionParameter, {kGlobal, kTo}),
           op(kOpFunctionParameter, {kUint, kNumber}),
           op(kOpLabel, {kEntry}),
           op(kOpVariable, {kPrivate, kTotal, kFunction}),
           op(kOpVariable, {kPrivate, kLeft, kFunction}),
           op(kOpStore, {kTotal, kZero}),
           op(kOpStore, {kLeft, kNumber}),
           op(kOpBranch, {kLoop}),
           op(kOpLabel, {kLoop}),
           op(kOpLoad, {kUint, kLeftNow, kLeft}),
           op(kOpINotEqual, {kBool, kMore, kLeftNow, kZero}),
           op(kOpBranchConditional, {kMore, kBody, kEnd}),
           op(kOpLabel, {kBody}),
           op(kOpLoad, {kUint, kTotalNow, kTotal}),
           op(kOpIAdd, {kUint, kAdded, kTotalNow, kLeftNow}),
           op(kOpStore, {kTotal, kAdded}),
           op(kOpISub, {kUint, kLess, kLeftNow, kOne}),
           op(kOpStore, {kLeft, kLess}),
           op(kOpBranch, {kLoop}),
           op(kOpLabel, {kEnd}),
           op(kOpLoad, {kUint, kResult, kTotal}),
           op(kOpStore, {kTo, kResult}),
           middle,
           op(kOpReturn, {}),
           op(kOpFunctionEnd, {}),
       }) {
    words.insert(words.end(), each.begin(), each.end());
  }
  return words;
}

std::unique_ptr<Module> parse(const Words& words, std::string* out_why) {
  return Module::parse(words.data(), words.size() * sizeof(uint32_t), out_why);
}

template <typename T>
Argument argument_of(T value) {
  Argument argument;
  argument.bytes.resize(sizeof(value));
  std::memcpy(argument.bytes.data(), &value, sizeof(value));
  return argument;
}

class SpirvModuleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    const DeviceRange* const range = DeviceRange::get(&error);
    ASSERT_NE(range, nullptr) << error;
    memory_ = std::make_unique<Memory>(*range, 1 << 20, /*shareable=*/false);
    ASSERT_TRUE(memory_->allocate(4096, &address_).ok());
  }
  // Runs "sum" of |module| on |number|.
  Status run_sum(const Module& module, Address address, uint32_t number) {
    const Kernel* const kernel = module.find("sum");
    if (kernel == nullptr) return Status(Code::kUnsupported);
    Launch launch;
    launch.arguments = {argument_of(address), argument_of(number)};
    Access access(*memory_);
    return run(module, *kernel, launch, access);
  }
  uint32_t result() {
    std::byte* data = nullptr;
    std::shared_ptr<Storage> keep;
    uint32_t word = 0;
    EXPECT_TRUE(memory_->resolve(address_, sizeof(word), &data, &keep).ok());
    if (data != nullptr) std::memcpy(&word, data, sizeof(word));
    return word;
  }

  std::unique_ptr<Memory> memory_;
  Address address_ = 0;
};

TEST_F(SpirvModuleTest, LoopOverPrivateMemoryRuns) {
  std::string why;
  const auto module = parse(sum_kernel(), &why);
  ASSERT_NE(module, nullptr) << why;
  const Kernel* const kernel = module->find("sum");
  ASSERT_NE(kernel, nullptr);
  ASSERT_EQ(kernel->parameters.size(), 2u);
  EXPECT_EQ(kernel->parameters[0].kind, Parameter::Kind::kAddress);
  EXPECT_EQ(kernel->parameters[1].bytes, 4u);
  EXPECT_EQ(module->find("su"), nullptr);
  for (const uint32_t number : {0u, 1u, 100u}) {
    const Status status = run_sum(*module, address_, number);
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(result(), number * (number + 1) / 2);
  }
  EXPECT_EQ(run_sum(*module, address_ + 4094, 1).code(), Code::kIllegalAddress);
  EXPECT_EQ(run_sum(*module, 16, 1).code(), Code::kIllegalAddress);
}

TEST_F(SpirvModuleTest, RefusalsAreExplained) {
  std::string why;
  EXPECT_EQ(parse({}, &why), nullptr);
  EXPECT_EQ(why, "the module is no SPIR-V");
  EXPECT_EQ(parse(sum_kernel(op(/*OpSin, GLSL alone=*/4711, {1})), &why), nullptr);
  EXPECT_EQ(why, "this driver does not compile SPIR-V's instruction 4711");
  const Words whole = sum_kernel();
  for (size_t words = 1; words < whole.size(); ++words) {
    why.clear();
    EXPECT_EQ(parse(Words(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(words)), &why),
              nullptr)
        << words;
    EXPECT_NE(why, "");
  }
}

TEST_F(SpirvModuleTest, CapabilityOfDoublesIsFound) {
  Words words = {kSpirvMagic, 0x00010200, 0, 9, 0};
  for (const uint32_t capability : {4u, 6u, 10u}) {
    EXPECT_FALSE(needs_doubles(words.data(), words.size() * 4));
    const Words next = op(kOpCapability, {capability});
    words.insert(words.end(), next.begin(), next.end());
  }
  EXPECT_TRUE(needs_doubles(words.data(), words.size() * 4));
  EXPECT_FALSE(needs_doubles(words.data(), 40));
}

// Parsing and running never access memory outside, whatever the words: for the sanitizers.
TEST_F(SpirvModuleTest, ReplacedWordsAreRefusedOrRun) {
  const Words whole = sum_kernel();
  constexpr size_t kFirstOfLoop = 20;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const uint32_t other : {0u, 1u, whole[i] + 1, whole[i] - 1, whole[i] ^ 0x10000u, ~0u}) {
      Words words = whole;
      words[i] = other;
      std::string why;
      const auto module = parse(words, &why);
      // Words of the loop itself could make it endless.
      if (module != nullptr && i < kFirstOfLoop) (void)run_sum(*module, address_, 3);
    }
  }
}

TEST(SpirvArithmeticTest, NumbersHaveTheirSign) {
  uint64_t result = 0;
  EXPECT_TRUE(compute_integer(kOpSLessThan, 0xffffffff, 1, -1, 1, &result));
  EXPECT_EQ(result, 1u);
  EXPECT_TRUE(compute_integer(kOpULessThan, 0xffffffff, 1, -1, 1, &result));
  EXPECT_EQ(result, 0u);
  EXPECT_FALSE(compute_integer(/*OpSDiv=*/135, 1, 1, 1, 1, &result));
  EXPECT_TRUE(compute_real(kOpFDiv, 4, 0x40c00000, 0x40000000, &result));  // 6 / 2
  EXPECT_EQ(result, 0x40400000u);
  EXPECT_FALSE(compute_real(kOpFDiv, 2, 0, 0, &result));
}

}  // namespace
}  // namespace keel::emulator::spirv
