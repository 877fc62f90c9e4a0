// SPDX-License-Identifier: Apache-2.0
// What goes wrong on one device, or with one driver, as a framework meets it through keel.h: each
// a clear status, and the other devices go on.
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
  // The suite's kernels, in what stands for a cubin on the emulated chip.
  static std::string kernels() {
    std::ifstream file(KEEL_TEST_KERNELS, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // One of them, which writes 3, 4, ... to 64 words.
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
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, kPatience));
    EXPECT_EQ(read(device, memory, 64).at(63), 66u);
  }
  // What |enqueue| enqueues on its stream ends with |error|, and the device with it. It has 256
  // bytes to use.
  void expect_lost_by(keel_device device, const char* error,
                      const std::function<keel_status(keel_stream, char* memory)>& enqueue) {
    void* const memory = alloc(device, 256);
    const keel_stream stream = new_stream(device);
    const keel_stream bystander = new_stream(device);
    ASSERT_KEEL_OK(enqueue(stream, static_cast<char*>(memory)));
    EXPECT_FAILS(KEEL_DEVICE_LOST, error, keel_stream_synchronize(stream, kPatience));
    EXPECT_EQ(keel_stream_synchronize(bystander, kPatience), KEEL_DEVICE_LOST);
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
  // Where the host is ahead of the device all are taken; else it hears of the loss here.
  for (int i = 0; i < 64; ++i) {
    const keel_status sent =
        keel_copy(streams[i % 2], devices[0], memory, KEEL_HOST, words.data(), 4096);
    ASSERT_TRUE(sent == KEEL_OK || sent == KEEL_DEVICE_LOST) << sent;
    ASSERT_KEEL_OK(keel_copy(healthy, devices[1], there, KEEL_HOST, words.data(), 4096));
  }
  // The one that it happens on; all of the other's may be over by then.
  EXPECT_FAILS(KEEL_DEVICE_LOST, "CUDA_ERROR_ECC_UNCORRECTABLE",
               keel_stream_synchronize(streams[1], kPatience));
  for (const keel_stream each : streams) {
    EXPECT_EQ(keel_stream_synchronize(each, kPatience), KEEL_DEVICE_LOST);
    EXPECT_EQ(keel_stream_query(each), KEEL_DEVICE_LOST);
    EXPECT_EQ(keel_stream_recover(each, kPatience), KEEL_DEVICE_LOST);
  }
  EXPECT_KEEL_OK(keel_stream_synchronize(healthy, kPatience));
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
  // It is no failure of what is there, nor of the other's.
  const keel_stream stream = new_stream(devices[0]);
  ASSERT_KEEL_OK(fill(stream, blocks[0], 5, 100));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kPatience));
  EXPECT_EQ(read(devices[0], blocks[0], 100), std::vector<uint32_t>(100, 5));
  expect_works(devices.at(1));
  ASSERT_KEEL_OK(keel_free(devices[0], blocks[1]));
  EXPECT_KEEL_OK(keel_alloc(devices[0], KEEL_MEMORY_DEVICE, 8 << 20, &block));
}

TEST_F(CudaFaultsTest, AKernelWithABadPointer) {
  const OwnDriver driver("devices=2");
  const auto devices = load_cuda(driver);
  // Far behind all that was ever allocated.
  expect_lost_by(devices.at(0), "CUDA_ERROR_ILLEGAL_ADDRESS",
                 [&](keel_stream stream, char* memory) {
                   return launch(stream, kernel_of(devices[0]), memory + (uint64_t{1} << 34));
                 });
  expect_launches(devices.at(1));
}

// As by an assertion in it: the caller's kernel.
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
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kPatience));
}

TEST_F(CudaFaultsTest, BinariesOfOtherArchitectures) {
  const OwnDriver driver;
  const keel_device device = load_cuda(driver).at(0);
  // A cubin, and nothing but its header.
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

// A library that can be opened, and has nothing that a driver has.
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
