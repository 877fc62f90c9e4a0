// SPDX-License-Identifier: Apache-2.0
// SPIR-V of the caller on the Level Zero backend, over the emulated chip, where an interpreter
// takes the place of the driver's compiler: what is refused, and why. Conformance level kernels
// runs the kernels that are accepted.
#include <cstring>
#include <string>
#include <vector>

#include "backends/level_zero/testing/own_loader.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

#define EXPECT_HAS(text, part)                               \
  EXPECT_NE(std::string(text).find(part), std::string::npos) \
      << "no '" << (part) << "' in: " << (text)

using Words = std::vector<uint32_t>;

// Makes an instruction of |code| and |operands|.
Words op(uint32_t code, const Words& operands) {
  Words words = {static_cast<uint32_t>(operands.size() + 1) << 16 | code};
  words.insert(words.end(), operands.begin(), operands.end());
  return words;
}

// A kernel "set": (pointer to uint32, uint32) stores the number; and |extra| before it returns.
Words set_kernel(const Words& extra = {}, uint32_t capability = /*Kernel=*/6) {
  enum Id : uint32_t { kSet = 1, kVoid, kUint, kPointer, kSignature, kTo, kNumber, kLabel, kBound };
  Words words = {0x07230203, 0x00010200, 0, kBound, 0};
  for (const Words& each : {
           op(17, {4}),                              // OpCapability Addresses
           op(17, {capability}),                     // OpCapability
           op(14, {2, 2}),                           // OpMemoryModel Physical64 OpenCL
           op(15, {6, kSet, 0x00746573}),            // OpEntryPoint Kernel "set"
           op(19, {kVoid}),                          // OpTypeVoid
           op(21, {kUint, 32, 0}),                   // OpTypeInt
           op(32, {kPointer, /*global=*/5, kUint}),  // OpTypePointer
           op(33, {kSignature, kVoid, kPointer, kUint}),
           op(54, {kVoid, kSet, 0, kSignature}),         // OpFunction
           op(55, {kPointer, kTo}),                      // OpFunctionParameter
           op(55, {kUint, kNumber}), op(248, {kLabel}),  // OpLabel
           op(62, {kTo, kNumber, /*aligned=*/2, 4}),     // OpStore
           extra, op(253, {}),                           // OpReturn
           op(56, {}),                                   // OpFunctionEnd
       }) {
    words.insert(words.end(), each.begin(), each.end());
  }
  return words;
}

class LevelZeroKernelsTest : public KeelTest {
 protected:
  void start(const OwnLoader& loader) {
    const std::vector<keel_device> devices =
        load("level_zero", {{"library_folder", loader.folder()}});
    ASSERT_EQ(devices.size(), 1u);
    device_ = devices[0];
  }
  keel_status load_module(const Words& words, keel_module* out_module) const {
    return keel_module_load(device_, KEEL_BINARY_SPIRV, words.data(), words.size() * 4, out_module);
  }
  // Launches "set" with |arguments|, one thread.
  static keel_status launch(keel_stream stream, keel_kernel kernel,
                            const std::vector<std::pair<const void*, uint32_t>>& arguments,
                            uint32_t shared_bytes = 0, uint32_t threads = 1) {
    std::vector<const void*> pointers;
    std::vector<uint32_t> sizes;
    for (const auto& [pointer, size] : arguments) {
      pointers.push_back(pointer);
      sizes.push_back(size);
    }
    auto call = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
    for (uint32_t axis = 0; axis < 3; ++axis) call.grid[axis] = call.block[axis] = 1;
    call.block[0] = threads;
    call.dynamic_shared_bytes = shared_bytes;
    call.argument_count = static_cast<uint32_t>(pointers.size());
    call.arguments = pointers.data();
    call.argument_sizes = sizes.data();
    return keel_kernel_launch(stream, kernel, &call);
  }

  keel_device device_ = {};
};

TEST_F(LevelZeroKernelsTest, KernelRunsAndWrongLaunchesAreNamed) {
  const OwnLoader loader("devices=1 memory_mib=16", /*with_kernels=*/false);
  ASSERT_NO_FATAL_FAILURE(start(loader));
  keel_module module = {};
  ASSERT_KEEL_OK(load_module(set_kernel(), &module));
  keel_kernel kernel = {};
  EXPECT_EQ(keel_kernel_find(module, "sets", &kernel), KEEL_NOT_FOUND);
  ASSERT_KEEL_OK(keel_kernel_find(module, "set", &kernel));
  const keel_stream stream = new_stream(device_);
  void* memory = alloc(device_, 4096);
  const uint32_t number = 42;
  EXPECT_EQ(launch(stream, kernel, {{&memory, 8}}), KEEL_INVALID_ARGUMENT);
  EXPECT_HAS(keel_last_error(), "takes 2 arguments, not 1");
  EXPECT_EQ(launch(stream, kernel, {{&memory, 8}, {&number, 2}}), KEEL_INVALID_ARGUMENT);
  EXPECT_HAS(keel_last_error(), "argument 1 of kernel 'set' has 4 bytes, not 2");
  EXPECT_EQ(launch(stream, kernel, {{&memory, 8}, {&number, 4}}, /*shared_bytes=*/16),
            KEEL_INVALID_ARGUMENT);
  EXPECT_HAS(keel_last_error(), "takes 0 pointers to local memory");
  EXPECT_EQ(launch(stream, kernel, {{&memory, 8}, {&number, 4}}, 0, /*threads=*/4096),
            KEEL_INVALID_ARGUMENT);
  EXPECT_HAS(keel_last_error(), "groups of up to 1024 x 1024 x 1024 threads, 1024 in all");
  EXPECT_KEEL_OK(launch(stream, kernel, {{&memory, 8}, {&number, 4}}));
  EXPECT_KEEL_OK(keel_module_unload(module));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(device_, memory, 1), std::vector<uint32_t>{42});
  EXPECT_KEEL_OK(keel_free(device_, memory));
  EXPECT_KEEL_OK(keel_stream_destroy(stream));
}

TEST_F(LevelZeroKernelsTest, ModuleThatDoesNotBuildShowsTheLog) {
  const OwnLoader loader("devices=1 memory_mib=16", /*with_kernels=*/false);
  ASSERT_NO_FATAL_FAILURE(start(loader));
  keel_module module = {};
  constexpr uint32_t kOpAtomicFlagClear = 319;
  EXPECT_EQ(load_module(set_kernel(op(kOpAtomicFlagClear, {6, 3, 3})), &module),
            KEEL_INVALID_ARGUMENT);
  EXPECT_HAS(keel_last_error(), "zeModuleCreate");
  EXPECT_HAS(keel_last_error(), "does not compile SPIR-V's instruction 319");
  // The device goes on.
  EXPECT_KEEL_OK(load_module(set_kernel(), &module));
  EXPECT_KEEL_OK(keel_module_unload(module));
}

TEST_F(LevelZeroKernelsTest, OtherBinariesAreRefusedBeforeTheDriver) {
  const OwnLoader loader("devices=1 memory_mib=16", /*with_kernels=*/false);
  ASSERT_NO_FATAL_FAILURE(start(loader));
  keel_module module = {};
  EXPECT_EQ(load_module(set_kernel({}, /*Shader=*/1), &module), KEEL_INVALID_ARGUMENT);
  EXPECT_HAS(keel_last_error(), "not for OpenCL");
  const Words whole = set_kernel();
  EXPECT_EQ(keel_module_load(device_, KEEL_BINARY_CUBIN, whole.data(), whole.size() * 4, &module),
            KEEL_UNSUPPORTED);
  for (size_t bytes = 1; bytes < whole.size() * 4; ++bytes) {
    EXPECT_EQ(keel_module_load(device_, KEEL_BINARY_SPIRV, whole.data(), bytes, &module),
              KEEL_INVALID_ARGUMENT)
        << bytes;
  }
  // Each word in turn replaced: no load crashes, whatever it returns.
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const uint32_t other : {0U, 1U, whole[i] + 1, whole[i] ^ 0x10000U, UINT32_MAX}) {
      Words words = whole;
      words[i] = other;
      if (load_module(words, &module) == KEEL_OK) {
        EXPECT_KEEL_OK(keel_module_unload(module));
      }
    }
  }
}

TEST_F(LevelZeroKernelsTest, AccessOutsideOfMemoryLosesTheDevice) {
  const OwnLoader loader("devices=1 memory_mib=16", /*with_kernels=*/false);
  ASSERT_NO_FATAL_FAILURE(start(loader));
  keel_module module = {};
  ASSERT_KEEL_OK(load_module(set_kernel(), &module));
  keel_kernel kernel = {};
  ASSERT_KEEL_OK(keel_kernel_find(module, "set", &kernel));
  const keel_stream stream = new_stream(device_);
  void* const nowhere = nullptr;
  const uint32_t number = 42;
  EXPECT_KEEL_OK(launch(stream, kernel, {{&nowhere, 8}, {&number, 4}}));
  EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), KEEL_DEVICE_LOST);
  EXPECT_EQ(launch(stream, kernel, {{&nowhere, 8}, {&number, 4}}), KEEL_DEVICE_LOST);
  (void)keel_module_unload(module);
  (void)keel_stream_destroy(stream);
}

}  // namespace
}  // namespace keel::testing
