// SPDX-License-Identifier: Apache-2.0
// Slots of the CUDA plugin's tables that core does not call, and effects that core cannot observe:
// the current context, fills that the driver lacks.
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <keel/abi.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/testing/own_driver.h"
#include "backends/cuda/testing/queried_plugin.h"

namespace keel::testing {
namespace {

// Two open devices of the test's own driver.
class CudaSlotsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    plugin_ = query_plugin();
    ASSERT_NE(plugin_, nullptr);
    const char* const key = "library_folder";
    const char* const value = driver_.folder().c_str();
    const keel_instance_settings settings = {
        {sizeof(settings), KEEL_STRUCT_INSTANCE_SETTINGS, nullptr}, 1, 0, &key, &value};
    ASSERT_EQ(plugin_->create_instance(&settings, &instance_), KEEL_OK) << t_error;
    uint32_t count = 0;
    ASSERT_EQ(plugin_->device->count(instance_, &count), KEEL_OK);
    ASSERT_EQ(count, 2u) << t_error;
    for (uint32_t i = 0; i < 2; ++i) {
      ASSERT_EQ(plugin_->device->open(instance_, i, &devices_[i]), KEEL_OK) << t_error;
    }
    driver_library_ = dlopen((driver_.folder() + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(driver_library_, nullptr);
  }
  void TearDown() override {
    for (keel_plugin_device* device : devices_) {
      if (device != nullptr) plugin_->device->close(device);
    }
    if (instance_ != nullptr) plugin_->destroy_instance(instance_);
  }

  // Looks up a driver function.
  template <typename Function>
  Function native(const char* name) const {
    return reinterpret_cast<Function>(dlsym(driver_library_, name));
  }
  CUcontext current() const {
    CUcontext context = nullptr;
    EXPECT_EQ(native<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent")(&context), CUDA_SUCCESS);
    return context;
  }
  CUcontext context(int device) const {
    void* handle = nullptr;
    EXPECT_EQ(plugin_->device->native_handle(devices_[device], 0, &handle), KEEL_OK);
    return static_cast<CUcontext>(handle);
  }
  keel_plugin_stream* new_stream(int device, int32_t priority = 0) const {
    keel_plugin_stream* stream = nullptr;
    EXPECT_EQ(plugin_->stream->create(devices_[device], priority, &stream), KEEL_OK) << t_error;
    return stream;
  }
  void* alloc(int device, uint64_t size) const {
    void* memory = nullptr;
    EXPECT_EQ(plugin_->memory->alloc(devices_[device], KEEL_MEMORY_DEVICE, size, 0, &memory),
              KEEL_OK)
        << t_error;
    return memory;
  }
  keel_status settle(keel_plugin_stream* stream) const {
    keel_status status = KEEL_NOT_READY;
    while ((status = plugin_->stream->query(stream)) == KEEL_NOT_READY) std::this_thread::yield();
    return status;
  }
  std::vector<unsigned char> read(keel_plugin_stream* stream, const void* memory,
                                  size_t size) const {
    std::vector<unsigned char> bytes(size);
    EXPECT_EQ(plugin_->stream->copy(stream, KEEL_COPY_DEVICE_TO_HOST, bytes.data(), memory, size),
              KEEL_OK)
        << t_error;
    EXPECT_EQ(settle(stream), KEEL_OK) << t_error;
    return bytes;
  }

  const OwnDriver driver_{"devices=2"};
  const keel_plugin* plugin_ = nullptr;
  keel_plugin_instance* instance_ = nullptr;
  std::array<keel_plugin_device*, 2> devices_ = {};
  void* driver_library_ = nullptr;
};

TEST_F(CudaSlotsTest, TheContextThatWasCurrentIsPutBack) {
  EXPECT_EQ(current(), nullptr);
  keel_plugin_stream* const stream = new_stream(1);
  void* const memory = alloc(1, 256);
  EXPECT_EQ(current(), nullptr);
  // The framework has the other device's context current.
  ASSERT_EQ(native<decltype(&cuCtxPushCurrent)>("cuCtxPushCurrent_v2")(context(0)), CUDA_SUCCESS);
  EXPECT_EQ(plugin_->stream->fill(stream, memory, "\5", 1, 256), KEEL_OK);
  EXPECT_EQ(current(), context(0));
  EXPECT_EQ(read(stream, memory, 256), std::vector<unsigned char>(256, 5));
  EXPECT_EQ(current(), context(0));
  CUcontext popped = nullptr;
  ASSERT_EQ(native<decltype(&cuCtxPopCurrent)>("cuCtxPopCurrent_v2")(&popped), CUDA_SUCCESS);
  EXPECT_EQ(plugin_->memory->free(devices_[1], KEEL_MEMORY_DEVICE, memory), KEEL_OK);
  plugin_->stream->destroy(stream);
  EXPECT_EQ(current(), nullptr);
}

TEST_F(CudaSlotsTest, NativeHandles) {
  void* handle = nullptr;
  ASSERT_EQ(plugin_->device->native_handle(devices_[1], 1, &handle), KEEL_OK);
  EXPECT_EQ(reinterpret_cast<intptr_t>(handle), 1);
  EXPECT_EQ(plugin_->device->native_handle(devices_[1], 2, &handle), KEEL_UNSUPPORTED);
  EXPECT_NE(context(0), context(1));
}

TEST_F(CudaSlotsTest, AWrappedStreamIsStillTheCallers) {
  ASSERT_EQ(native<decltype(&cuCtxPushCurrent)>("cuCtxPushCurrent_v2")(context(0)), CUDA_SUCCESS);
  CUstream theirs = nullptr;
  ASSERT_EQ(native<decltype(&cuStreamCreateWithPriority)>("cuStreamCreateWithPriority")(
                &theirs, CU_STREAM_NON_BLOCKING, 0),
            CUDA_SUCCESS);
  void* const memory = alloc(0, 64);
  for (CUstream each : {theirs, CUstream{nullptr}}) {  // stream 0 is valid too
    keel_plugin_stream* wrapped = nullptr;
    ASSERT_EQ(plugin_->stream->wrap(devices_[0], each, &wrapped), KEEL_OK);
    void* inside = &inside;
    ASSERT_EQ(plugin_->stream->unwrap(wrapped, &inside), KEEL_OK);
    EXPECT_EQ(inside, each);
    EXPECT_EQ(plugin_->stream->fill(wrapped, memory, "\7", 1, 64), KEEL_OK) << t_error;
    EXPECT_EQ(read(wrapped, memory, 64), std::vector<unsigned char>(64, 7));
    plugin_->stream->destroy(wrapped);
  }
  EXPECT_EQ(native<decltype(&cuStreamQuery)>("cuStreamQuery")(theirs), CUDA_SUCCESS);
  EXPECT_EQ(native<decltype(&cuStreamDestroy)>("cuStreamDestroy_v2")(theirs), CUDA_SUCCESS);
  EXPECT_EQ(plugin_->memory->free(devices_[0], KEEL_MEMORY_DEVICE, memory), KEEL_OK);
  CUcontext popped = nullptr;
  ASSERT_EQ(native<decltype(&cuCtxPopCurrent)>("cuCtxPopCurrent_v2")(&popped), CUDA_SUCCESS);
}

TEST_F(CudaSlotsTest, FillsOfEveryWidth) {
  keel_plugin_stream* const stream = new_stream(0);
  constexpr uint64_t kRoom = 4096;
  void* const memory = alloc(0, kRoom);
  const std::array<unsigned char, 8> pattern = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const uint32_t width : {1u, 2u, 4u, 8u}) {
    for (const uint64_t count : {1u, 2u, 3u, 5u, 127u, 511u}) {
      const uint64_t size = count * width;
      ASSERT_EQ(plugin_->stream->fill(stream, memory, "\xee", 1, kRoom), KEEL_OK);
      ASSERT_EQ(plugin_->stream->fill(stream, memory, pattern.data(), width, size), KEEL_OK);
      std::vector<unsigned char> wanted(kRoom, 0xee);
      for (uint64_t i = 0; i < size; ++i) wanted[i] = pattern[i % width];
      EXPECT_EQ(read(stream, memory, kRoom), wanted) << width << " x " << count;
    }
  }
  EXPECT_EQ(plugin_->stream->fill(stream, memory, pattern.data(), 3, 9), KEEL_INVALID_ARGUMENT);
  plugin_->stream->destroy(stream);
  EXPECT_EQ(plugin_->memory->free(devices_[0], KEEL_MEMORY_DEVICE, memory), KEEL_OK);
}

TEST_F(CudaSlotsTest, PeersAreEnabledAnyNumberOfTimes) {
  EXPECT_EQ(plugin_->memory->peer_enable(devices_[0], devices_[1]), KEEL_OK) << t_error;
  EXPECT_EQ(plugin_->memory->peer_enable(devices_[0], devices_[1]), KEEL_OK) << t_error;
  EXPECT_EQ(plugin_->memory->peer_enable(devices_[0], devices_[0]), KEEL_UNSUPPORTED);
}

// Also beyond the driver's range.
TEST_F(CudaSlotsTest, Priorities) {
  for (const int32_t priority : {-1000, -3, 0, 3, 1000}) {
    keel_plugin_stream* const stream = new_stream(0, priority);
    ASSERT_NE(stream, nullptr);
    EXPECT_EQ(settle(stream), KEEL_OK);
    plugin_->stream->destroy(stream);
  }
}

TEST_F(CudaSlotsTest, OverlappingRegistrationsAreRefused) {
  std::vector<char> bytes(8192);
  void* address = nullptr;
  const keel_memory_table& memory = *plugin_->memory;
  ASSERT_EQ(memory.host_register(devices_[0], bytes.data(), 8192, &address), KEEL_OK) << t_error;
  EXPECT_EQ(address, bytes.data());
  EXPECT_EQ(memory.host_register(devices_[1], bytes.data() + 4096, 4096, &address),
            KEEL_ALREADY_EXISTS);
  EXPECT_NE(t_error.find("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"), std::string::npos);
  ASSERT_EQ(memory.host_unregister(devices_[0], bytes.data()), KEEL_OK);
  EXPECT_EQ(memory.host_unregister(devices_[0], bytes.data()), KEEL_FAILED_PRECONDITION);
}

TEST_F(CudaSlotsTest, AKernelWithABadPointerLosesTheDevice) {
  std::ifstream file(KEEL_TEST_KERNELS, std::ios::binary);
  const std::string image((std::istreambuf_iterator<char>(file)), {});
  const keel_kernel_table& kernels = *plugin_->kernel;
  keel_plugin_module* module = nullptr;
  keel_plugin_kernel* kernel = nullptr;
  ASSERT_EQ(kernels.load(devices_[0], KEEL_BINARY_CUBIN, image.data(), image.size(), &module),
            KEEL_OK)
      << t_error;
  ASSERT_EQ(kernels.find(module, "number", &kernel), KEEL_OK) << t_error;
  keel_plugin_stream* const stream = new_stream(0);
  keel_plugin_stream* const bystander = new_stream(0);
  const char* const memory = static_cast<const char*>(alloc(0, 256));
  const uint32_t first = 1;
  const auto launch = [&](const char* pointer, uint32_t shared) {
    const void* const arguments[] = {&pointer, &first};
    const uint32_t sizes[] = {sizeof(pointer), sizeof(first)};
    const keel_launch call = {{sizeof(call), KEEL_STRUCT_LAUNCH, nullptr},
                              {1, 1, 1},
                              {64, 1, 1},
                              shared,
                              2,
                              arguments,
                              sizes};
    return kernels.launch(stream, kernel, &call);
  };
  // Shared memory beyond the default is enabled; more than the device has is refused.
  EXPECT_EQ(launch(memory, 100 << 10), KEEL_OK) << t_error;
  EXPECT_EQ(launch(memory, 1 << 20), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(settle(stream), KEEL_OK) << t_error;
  EXPECT_EQ(launch(memory + 256, 0), KEEL_OK) << t_error;
  EXPECT_EQ(settle(stream), KEEL_DEVICE_LOST);
  EXPECT_NE(t_error.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << t_error;
  EXPECT_EQ(settle(bystander), KEEL_DEVICE_LOST);
  EXPECT_EQ(launch(memory, 0), KEEL_DEVICE_LOST);
  // Freeing lost memory succeeds, and the other device still works.
  EXPECT_EQ(plugin_->memory->free(devices_[0], KEEL_MEMORY_DEVICE, const_cast<char*>(memory)),
            KEEL_OK);
  kernels.unload(module);
  plugin_->stream->destroy(stream);
  plugin_->stream->destroy(bystander);
  keel_plugin_stream* const other = new_stream(1);
  EXPECT_EQ(settle(other), KEEL_OK);
  plugin_->stream->destroy(other);
}

}  // namespace
}  // namespace keel::testing
