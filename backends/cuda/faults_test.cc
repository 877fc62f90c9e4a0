// SPDX-License-Identifier: Apache-2.0
// Failures of one device or driver, as seen by a framework through keel.h: each failure gives a
// clear status, and the other devices continue.
#include <elf.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <keel/plugin_kit.hpp>
#include <string>

#include "backends/cuda/testing/cuda_test.h"

namespace keel::testing {
namespace {

class CudaFaultsTest : public CudaFixture {
 protected:
  void expect_works(keel_device device) {
    const std::vector<uint32_t> words = pattern(1000, 7);
    EXPECT_EQ(read(device, alloc_filled(device, words), words.size()), words);
  }
  // The suite's kernels, in the emulated chip's equivalent of a cubin.
  static std::string kernels() {
    std::ifstream file(KEEL_TEST_KERNELS, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // A kernel of the suite, which writes 3, 4, ... to 64 words.
  keel_kernel kernel_of(keel_device device) {
    const std::string image = kernels();
    keel_kernel kernel = {};
    modules_.emplace_back();
    EXPECT_KEEL_OK(
        keel_module_load(device, KEEL_BINARY_CUBIN, image.data(), image.size(), &modules_.back()));
    EXPECT_KEEL_OK(keel_kernel_find(modules_.back(), "number", &kernel));
    return kernel;
  }
  static keel_status launch(keel_stream stream, keel_kernel kernel, const void* words) {
    const uint32_t first = 3;
    const void* const arguments[] = {&words, &first};
    const uint32_t sizes[] = {sizeof(words), sizeof(first)};
    auto launch = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
    launch.grid[0] = launch.grid[1] = launch.grid[2] = 1;
    launch.block[0] = 64;
    launch.block[1] = launch.block[2] = 1;
    launch.argument_count = 2;
    launch.arguments = arguments;
    launch.argument_sizes = sizes;
    return keel_kernel_launch(stream, kernel, &launch);
  }
  void expect_launches(keel_device device) {
    void* const memory = alloc(device, 256);
    const keel_stream stream = new_stream(device);
    EXPECT_KEEL_OK(launch(stream, kernel_of(device), memory));
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    EXPECT_EQ(read(device, memory, 64).at(63), 66u);
  }
  // Expects the work that |enqueue| enqueues on its stream to fail with |error|, and the device to
  // be lost. The work may use 256 bytes.
  void expect_lost_by(keel_device device, const char* error,
                      const std::function<keel_status(keel_stream, char* memory)>& enqueue) {
    void* const memory = alloc(device, 256);
    const keel_stream stream = new_stream(device);
    const keel_stream bystander = new_stream(device);
    ASSERT_KEEL_OK(enqueue(stream, static_cast<char*>(memory)));
    EXPECT_FAILS(KEEL_DEVICE_LOST, error, keel_stream_synchronize(stream, kTestTimeout));
    EXPECT_EQ(keel_stream_synchronize(bystander, kTestTimeout), KEEL_DEVICE_LOST);
    EXPECT_EQ(fill(stream, memory, 0, 64), KEEL_DEVICE_LOST);
  }
  void TearDown() override {
    for (const keel_module module : modules_) EXPECT_KEEL_OK(keel_module_unload(module));
    CudaFixture::TearDown();
  }

  std::vector<keel_module> modules_;
};

TEST_F(CudaFaultsTest, ADeviceIsLostWithMuchInFlight) {
  const OwnDriver driver("devices=2 faults=0/lose:copy@40");
  const auto devices = load_cuda(driver);
  const keel_stream streams[] = {new_stream(devices.at(0)), new_stream(devices.at(0))};
  const keel_stream healthy = new_stream(devices.at(1));
  void* const memory = alloc(devices[0], 4096);
  void* const there = alloc(devices[1], 4096);
  const std::vector<uint32_t> words = pattern(1024, 1);
  // If the host is ahead of the device all calls are accepted; otherwise a call reports the loss
  // here.
  for (int i = 0; i < 64; ++i) {
    const keel_status sent =
        keel_copy(streams[i % 2], devices[0], memory, KEEL_HOST, words.data(), 4096);
    ASSERT_TRUE(sent == KEEL_OK || sent == KEEL_DEVICE_LOST) << sent;
    ASSERT_KEEL_OK(keel_copy(healthy, devices[1], there, KEEL_HOST, words.data(), 4096));
  }
  // The stream with the fault; the other stream's work may have finished by then.
  EXPECT_FAILS(KEEL_DEVICE_LOST, "CUDA_ERROR_ECC_UNCORRECTABLE",
               keel_stream_synchronize(streams[1], kTestTimeout));
  for (const keel_stream each : streams) {
    EXPECT_EQ(keel_stream_synchronize(each, kTestTimeout), KEEL_DEVICE_LOST);
    EXPECT_EQ(keel_stream_query(each), KEEL_DEVICE_LOST);
    EXPECT_EQ(keel_stream_recover(each, kTestTimeout), KEEL_DEVICE_LOST);
  }
  EXPECT_KEEL_OK(keel_stream_synchronize(healthy, kTestTimeout));
  EXPECT_EQ(read(devices[1], there, words.size()), words);
  for (const keel_stream each : streams) EXPECT_KEEL_OK(keel_stream_destroy(each));
  EXPECT_KEEL_OK(keel_free(devices[0], memory));
  expect_works(devices[1]);
}

TEST_F(CudaFaultsTest, OneDeviceIsFull) {
  const OwnDriver driver("devices=2 memory_mib=64");
  const auto devices = load_cuda(driver);
  std::vector<void*> blocks;
  void* block = nullptr;
  keel_status status = KEEL_OK;
  while ((status = keel_alloc(devices.at(0), KEEL_MEMORY_DEVICE, 8 << 20, &block)) == KEEL_OK) {
    blocks.push_back(block);
    ASSERT_LE(blocks.size(), 8u);
  }
  EXPECT_EQ(status, KEEL_OUT_OF_MEMORY);
  EXPECT_HAS(keel_last_error(), "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY");
  ASSERT_GE(blocks.size(), 4u);
  // Neither existing allocations nor the other device are affected.
  const keel_stream stream = new_stream(devices[0]);
  ASSERT_KEEL_OK(fill(stream, blocks[0], 5, 100));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(devices[0], blocks[0], 100), std::vector<uint32_t>(100, 5));
  expect_works(devices.at(1));
  ASSERT_KEEL_OK(keel_free(devices[0], blocks[1]));
  EXPECT_KEEL_OK(keel_alloc(devices[0], KEEL_MEMORY_DEVICE, 8 << 20, &block));
}

TEST_F(CudaFaultsTest, AKernelWithABadPointer) {
  const OwnDriver driver("devices=2");
  const auto devices = load_cuda(driver);
  // Far beyond all memory ever allocated.
  expect_lost_by(devices.at(0), "CUDA_ERROR_ILLEGAL_ADDRESS",
                 [&](keel_stream stream, char* memory) {
                   return launch(stream, kernel_of(devices[0]), memory + (uint64_t{1} << 34));
                 });
  expect_launches(devices.at(1));
}

// Like a failed assertion in the user's kernel.
TEST_F(CudaFaultsTest, AKernelThatTraps) {
  const OwnDriver driver("devices=2 faults=0/fail:op@1");
  const auto devices = load_cuda(driver);
  expect_lost_by(devices.at(0), "CUDA_ERROR_LAUNCH_FAILED", [&](keel_stream stream, char* memory) {
    return launch(stream, kernel_of(devices[0]), memory);
  });
  expect_launches(devices.at(1));
}

TEST_F(CudaFaultsTest, AnOperatorsKernelThatTraps) {
  const OwnDriver driver("devices=2 faults=0/fail:op@1");
  const auto devices = load_cuda(driver);
  const auto add = [](keel_stream stream, void* memory) {
    const keel_tensor values = kit::make_tensor(memory, KEEL_FLOAT32, {64});
    const keel_tensor* const both[] = {&values, &values};
    auto call = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
    call.op = KEEL_OP_ADD;
    call.input_count = 2;
    call.inputs = both;
    call.output_count = 1;
    call.outputs = both;
    return keel_op_run(stream, &call);
  };
  expect_lost_by(devices.at(0), "CUDA_ERROR_LAUNCH_FAILED", add);
  const keel_stream stream = new_stream(devices.at(1));
  EXPECT_KEEL_OK(add(stream, alloc(devices[1], 256)));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
}

TEST_F(CudaFaultsTest, BinariesOfOtherArchitectures) {
  const OwnDriver driver;
  const keel_device device = load_cuda(driver).at(0);
  // A cubin that consists of its header only.
  Elf64_Ehdr cubin = {};
  std::memcpy(cubin.e_ident, ELFMAG, SELFMAG);
  cubin.e_ident[EI_CLASS] = ELFCLASS64;
  cubin.e_ident[EI_DATA] = ELFDATA2LSB;
  cubin.e_machine = 190;  // EM_CUDA
  struct {
    uint32_t magic = 0xba55ed50;
    uint16_t version = 1;
    uint16_t header_size = 16;
    uint64_t size = 16;
    uint64_t rest[2] = {};
  } fat_binary;
  keel_module module = {};
  EXPECT_FAILS(KEEL_UNSUPPORTED, "for another machine",
               keel_module_load(device, KEEL_BINARY_CUBIN, &cubin, sizeof(cubin), &module));
  EXPECT_FAILS(
      KEEL_UNSUPPORTED, "runs code for the host",
      keel_module_load(device, KEEL_BINARY_CUBIN, &fat_binary, sizeof(fat_binary), &module));
  const std::string image = kernels();
  EXPECT_FAILS(
      KEEL_INVALID_ARGUMENT, "is it cut short?",
      keel_module_load(device, KEEL_BINARY_CUBIN, image.data(), image.size() / 2, &module));
  EXPECT_KEEL_OK(keel_module_load(device, KEEL_BINARY_CUBIN, image.data(), image.size(), &module));
  expect_works(device);
}

// A library that opens but lacks all driver functions.
TEST_F(CudaFaultsTest, ALibraryOfSomethingElse) {
  const OwnDriver driver;
  std::filesystem::copy_file(KEEL_TEST_KERNELS, driver.folder() + "/libcuda.so.1",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_HAS(reason(driver.folder()), "unusable CUDA driver: symbol missing: cuDriverGetVersion");
}

TEST_F(CudaFaultsTest, AGoodDriverBesideBadOnes) {
  const auto reason_of = [](const std::string& settings) {
    const OwnDriver bad(settings);
    return reason(bad.folder());
  };
  EXPECT_HAS(reason_of("version=11080"), "too old");
  EXPECT_HAS(reason_of("missing=cuStreamGetCtx"), "symbols missing: cuStreamGetCtx");
  const OwnDriver good;
  const auto devices = load_cuda(good);
  EXPECT_HAS(reason_of("init=999"), "cuInit: CUDA_ERROR_UNKNOWN");
  for (const keel_device device : devices) expect_works(device);
}

}  // namespace
}  // namespace keel::testing
