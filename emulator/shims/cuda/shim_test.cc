// SPDX-License-Identifier: Apache-2.0
// The library as users load it: at run time, by name.
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "kernels/gpu/arguments.h"
#include "kernels/gpu/image.h"
#include "kernels/gpu/kernels.h"

namespace {

// Opened once, with three devices.
void* library() {
  static void* const opened = [] {
    setenv("KEEL_EMULATED_CUDA", "devices=3 memory_mib=64 missing=cuMemsetD16Async", 1);
    return dlopen(KEEL_SHIM, RTLD_NOW | RTLD_LOCAL);
  }();
  return opened;
}

CUresult find(const char* name, int version, void** out_function,
              CUdriverProcAddressQueryResult* out_status) {
  const auto get =
      reinterpret_cast<decltype(&cuGetProcAddress)>(dlsym(library(), "cuGetProcAddress_v2"));
  return get(name, out_function, version, CU_GET_PROC_ADDRESS_DEFAULT, out_status);
}

template <typename Function>
Function function(const char* name) {
  void* address = nullptr;
  EXPECT_EQ(find(name, 13000, &address, nullptr), CUDA_SUCCESS) << name;
  return reinterpret_cast<Function>(address);
}
// The symbol's name as the header may have redefined it.
#define CALL(name) function<decltype(&name)>(#name)

// The first device's context is current.
class ShimTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(library(), nullptr) << dlerror();
    ASSERT_EQ(CALL(cuInit)(0), CUDA_SUCCESS);
    for (CUcontext& context : contexts_) {
      const auto device = static_cast<CUdevice>(&context - contexts_);
      ASSERT_EQ(CALL(cuDevicePrimaryCtxRetain)(&context, device), CUDA_SUCCESS);
    }
    ASSERT_EQ(CALL(cuCtxPushCurrent)(contexts_[0]), CUDA_SUCCESS);
  }
  void TearDown() override {
    CUcontext context = nullptr;
    EXPECT_EQ(CALL(cuCtxPopCurrent)(&context), CUDA_SUCCESS);
    for (CUdevice device = 0; device < 2; ++device) {
      EXPECT_EQ(CALL(cuDevicePrimaryCtxRelease)(device), CUDA_SUCCESS);
    }
  }
  static CUdeviceptr alloc(size_t size) {
    CUdeviceptr memory = 0;
    EXPECT_EQ(CALL(cuMemAlloc)(&memory, size), CUDA_SUCCESS);
    return memory;
  }
  static CUstream new_stream() {
    CUstream stream = nullptr;
    EXPECT_EQ(CALL(cuStreamCreateWithPriority)(&stream, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    return stream;
  }
  static CUresult settle(CUstream stream) {
    CUresult result = CUDA_ERROR_NOT_READY;
    while ((result = CALL(cuStreamQuery)(stream)) == CUDA_ERROR_NOT_READY) {
      std::this_thread::yield();
    }
    return result;
  }

  CUcontext contexts_[2] = {};
};

TEST_F(ShimTest, FunctionsByNameAndVersion) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(find("cuMemAlloc", 3020, &address, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  EXPECT_EQ(address, dlsym(library(), "cuMemAlloc_v2"));
  EXPECT_EQ(find("cuMemAlloc", 2000, &address, &status), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(address, nullptr);
  for (const char* name : {"cuNoSuchThing", "cuMemsetD16Async", "cuMemAlloc_v2"}) {
    EXPECT_EQ(find(name, 13000, &address, &status), CUDA_ERROR_NOT_FOUND) << name;
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  }
}

TEST_F(ShimTest, ContextsAreAStackOfTheThread) {
  const auto push = CALL(cuCtxPushCurrent);
  const auto pop = CALL(cuCtxPopCurrent);
  const auto get = CALL(cuCtxGetCurrent);
  CUcontext now = nullptr;
  ASSERT_EQ(push(contexts_[1]), CUDA_SUCCESS);
  ASSERT_EQ(get(&now), CUDA_SUCCESS);
  EXPECT_EQ(now, contexts_[1]);
  std::thread([&] {
    CUcontext other = contexts_[0];
    EXPECT_EQ(get(&other), CUDA_SUCCESS);
    EXPECT_EQ(other, nullptr);
    EXPECT_EQ(pop(&other), CUDA_ERROR_INVALID_CONTEXT);
    CUdeviceptr memory = 0;
    EXPECT_EQ(CALL(cuMemAlloc)(&memory, 64), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
  ASSERT_EQ(pop(&now), CUDA_SUCCESS);
  EXPECT_EQ(now, contexts_[1]);
  ASSERT_EQ(get(&now), CUDA_SUCCESS);
  EXPECT_EQ(now, contexts_[0]);
}

TEST_F(ShimTest, ADeviceThatNobodyHolds) {
  const auto retain = CALL(cuDevicePrimaryCtxRetain);
  const auto release = CALL(cuDevicePrimaryCtxRelease);
  CUcontext context = nullptr;
  EXPECT_EQ(retain(&context, 3), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(retain(&context, -1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(release(2), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(retain(&context, 2), CUDA_SUCCESS);
  ASSERT_EQ(CALL(cuCtxPushCurrent)(context), CUDA_SUCCESS);
  alloc(1 << 20);
  ASSERT_EQ(release(2), CUDA_SUCCESS);
  size_t free = 0;
  size_t total = 0;
  const auto info = CALL(cuMemGetInfo);
  EXPECT_EQ(info(&free, &total), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  // The chip's memory was released with the context.
  ASSERT_EQ(retain(&context, 2), CUDA_SUCCESS);
  EXPECT_EQ(info(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(free, total);
  EXPECT_EQ(release(2), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuCtxPopCurrent)(&context), CUDA_SUCCESS);
}

// All devices pin a block, whichever was current, also devices created later.
TEST_F(ShimTest, HostMemoryIsPinnedForAllDevices) {
  void* pinned = nullptr;
  ASSERT_EQ(CALL(cuMemHostAlloc)(&pinned, 4096, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
  std::memset(pinned, 1, 4096);
  CUcontext third = nullptr;
  ASSERT_EQ(CALL(cuDevicePrimaryCtxRetain)(&third, 2), CUDA_SUCCESS);
  for (CUcontext context : {contexts_[0], contexts_[1], third}) {
    ASSERT_EQ(CALL(cuCtxPushCurrent)(context), CUDA_SUCCESS);
    CUdeviceptr reached = 0;
    EXPECT_EQ(CALL(cuMemHostGetDevicePointer)(&reached, pinned, 0), CUDA_SUCCESS);
    const CUstream stream = new_stream();
    const CUdeviceptr memory = alloc(4096);
    // A copy within the device reads host memory by its address.
    ASSERT_EQ(CALL(cuMemcpyDtoDAsync)(memory, reached, 4096, stream), CUDA_SUCCESS);
    std::vector<char> got(4096);
    ASSERT_EQ(CALL(cuMemcpyDtoHAsync)(got.data(), memory, got.size(), stream), CUDA_SUCCESS);
    EXPECT_EQ(got, std::vector<char>(4096, 1));  // pageable: already copied
    EXPECT_EQ(settle(stream), CUDA_SUCCESS);
    EXPECT_EQ(CALL(cuStreamDestroy)(stream), CUDA_SUCCESS);
    EXPECT_EQ(CALL(cuMemFree)(memory), CUDA_SUCCESS);
    CUcontext popped = nullptr;
    EXPECT_EQ(CALL(cuCtxPopCurrent)(&popped), CUDA_SUCCESS);
  }
  EXPECT_EQ(CALL(cuDevicePrimaryCtxRelease)(2), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuMemFreeHost)(pinned), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuMemFreeHost)(pinned), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ShimTest, WhatAnAddressBelongsTo) {
  const auto find_range = CALL(cuMemGetAddressRange);
  const CUdeviceptr memory = alloc(5000);
  void* pinned = nullptr;
  ASSERT_EQ(CALL(cuMemHostAlloc)(&pinned, 4096, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
  CUdeviceptr base = 0;
  size_t size = 0;
  EXPECT_EQ(find_range(&base, &size, memory + 4999), CUDA_SUCCESS);
  EXPECT_EQ(base, memory);
  EXPECT_EQ(size, 5000u);
  EXPECT_EQ(find_range(&base, nullptr, reinterpret_cast<CUdeviceptr>(pinned) + 1), CUDA_SUCCESS);
  EXPECT_EQ(base, reinterpret_cast<CUdeviceptr>(pinned));
  EXPECT_EQ(find_range(nullptr, &size, memory + 5000), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(CALL(cuMemFree)(memory), CUDA_SUCCESS);
  EXPECT_EQ(find_range(&base, &size, memory), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(CALL(cuMemFreeHost)(pinned), CUDA_SUCCESS);
}

// The part that one process can test; tests of backends/cuda use two processes.
TEST_F(ShimTest, HandlesForOtherProcesses) {
  const auto get_handle = CALL(cuIpcGetMemHandle);
  const auto open_handle = CALL(cuIpcOpenMemHandle);
  const CUdeviceptr memory = alloc(5000);
  void* pinned = nullptr;
  ASSERT_EQ(CALL(cuMemHostAlloc)(&pinned, 4096, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
  CUipcMemHandle handle = {};
  EXPECT_EQ(get_handle(&handle, memory + 256), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(get_handle(&handle, reinterpret_cast<CUdeviceptr>(pinned)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(get_handle(nullptr, memory), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(get_handle(&handle, memory), CUDA_SUCCESS);
  CUipcMemHandle second = {};
  ASSERT_EQ(get_handle(&second, memory), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(&handle, &second, sizeof(handle)), 0);

  CUdeviceptr opened = 0;
  constexpr unsigned int kFlags = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
  EXPECT_EQ(open_handle(&opened, handle, kFlags), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(open_handle(&opened, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(open_handle(nullptr, handle, kFlags), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(open_handle(&opened, CUipcMemHandle{}, kFlags), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CALL(cuIpcCloseMemHandle)(memory), CUDA_ERROR_INVALID_VALUE);

  EXPECT_EQ(CALL(cuMemFree)(memory), CUDA_SUCCESS);
  EXPECT_EQ(get_handle(&handle, memory), CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr again = alloc(5000);
  EXPECT_EQ(again, memory);
  ASSERT_EQ(get_handle(&handle, again), CUDA_SUCCESS);
  EXPECT_NE(std::memcmp(&handle, &second, sizeof(handle)), 0);
  EXPECT_EQ(CALL(cuMemFree)(again), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuMemFreeHost)(pinned), CUDA_SUCCESS);
}

// Devices use equal addresses, so using a stream or event of another context must fail.
TEST_F(ShimTest, StreamsAndEventsBelongToTheirContext) {
  const CUstream stream = new_stream();
  const CUdeviceptr memory = alloc(256);
  CUevent event = nullptr;
  ASSERT_EQ(CALL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(CALL(cuCtxPushCurrent)(contexts_[1]), CUDA_SUCCESS);
  EXPECT_EQ(alloc(256), memory);
  EXPECT_EQ(CALL(cuMemsetD8Async)(memory, 1, 256, stream), CUDA_ERROR_INVALID_CONTEXT);
  const CUstream other = new_stream();
  EXPECT_EQ(CALL(cuEventRecord)(event, other), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(CALL(cuStreamDestroy)(other), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuMemFree)(memory), CUDA_SUCCESS);
  CUcontext popped = nullptr;
  EXPECT_EQ(CALL(cuCtxPopCurrent)(&popped), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuMemsetD8Async)(memory, 1, 256, stream), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuEventRecord)(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(settle(stream), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuEventQuery)(event), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuEventDestroy)(event), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuStreamDestroy)(stream), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuMemFree)(memory), CUDA_SUCCESS);
}

TEST_F(ShimTest, TimesNeedTwoEventsThatHaveThem) {
  const CUstream stream = new_stream();
  CUevent plain = nullptr;
  CUevent start = nullptr;
  CUevent end = nullptr;
  ASSERT_EQ(CALL(cuEventCreate)(&plain, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(CALL(cuEventCreate)(&start, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(CALL(cuEventCreate)(&end, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  float milliseconds = -1;
  void* address = nullptr;
  ASSERT_EQ(find("cuEventElapsedTime", 2000, &address, nullptr), CUDA_SUCCESS);
  const auto elapsed = reinterpret_cast<CUresult (*)(float*, CUevent, CUevent)>(address);
  EXPECT_EQ(elapsed(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
  for (CUevent each : {start, plain, end}) {
    ASSERT_EQ(CALL(cuEventRecord)(each, stream), CUDA_SUCCESS);
  }
  ASSERT_EQ(settle(stream), CUDA_SUCCESS);
  EXPECT_EQ(elapsed(&milliseconds, start, plain), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(elapsed(&milliseconds, start, end), CUDA_SUCCESS);
  EXPECT_GE(milliseconds, 0);
  for (CUevent each : {start, plain, end}) {
    EXPECT_EQ(CALL(cuEventDestroy)(each), CUDA_SUCCESS);
  }
  EXPECT_EQ(CALL(cuStreamDestroy)(stream), CUDA_SUCCESS);
}

// A module of the plugin's image has the kernels of its family only.
TEST_F(ShimTest, EachImageHasTheKernelsOfItsFamily) {
  const auto images = keel::simt::cuda_images();
  if (images.empty()) GTEST_SKIP() << "built without nvcc";
  const auto get_function = CALL(cuModuleGetFunction);
  size_t kernels = 0;
  for (const auto& image : images) {
    CUmodule module = nullptr;
    ASSERT_EQ(CALL(cuModuleLoadDataEx)(&module, image.bytes.data(), 0, nullptr, nullptr),
              CUDA_SUCCESS)
        << image.family;
    for (const auto& other : images) {
      const CUresult expected = &other == &image ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
      for (const char* const name : other.kernels) {
        CUfunction kernel = nullptr;
        EXPECT_EQ(get_function(&kernel, module, name), expected) << name << " in " << image.family;
      }
    }
    kernels += image.kernels.size();
    EXPECT_EQ(CALL(cuModuleUnload)(module), CUDA_SUCCESS);
  }
  EXPECT_EQ(kernels, static_cast<size_t>(keel::simt::KernelId::kCount));
}

// The plugin's own image, replaced by the host library: a launch that accesses memory out of bounds
// fails as on a GPU, and loses the context.
TEST_F(ShimTest, KernelsFromTheirSourceAreChecked) {
  const auto images = keel::simt::cuda_images();
  if (images.empty()) GTEST_SKIP() << "built without nvcc";
  const auto image = std::find_if(images.begin(), images.end(), [](const auto& each) {
    return std::string_view(each.family) == "elements";
  });
  ASSERT_NE(image, images.end());
  CUcontext context = nullptr;
  ASSERT_EQ(CALL(cuDevicePrimaryCtxRetain)(&context, 2), CUDA_SUCCESS);
  ASSERT_EQ(CALL(cuCtxPushCurrent)(context), CUDA_SUCCESS);
  CUmodule module = nullptr;
  ASSERT_EQ(CALL(cuModuleLoadDataEx)(&module, image->bytes.data(), 0, nullptr, nullptr),
            CUDA_SUCCESS);
  CUfunction kernel = nullptr;
  const auto get_function = CALL(cuModuleGetFunction);
  EXPECT_EQ(get_function(&kernel, module, "keel_no_such_thing"), CUDA_ERROR_NOT_FOUND);
  ASSERT_EQ(get_function(&kernel, module, "keel_scale_f32"), CUDA_SUCCESS);
  const CUstream stream = new_stream();
  constexpr uint32_t kCount = 256;
  const CUdeviceptr memory = alloc(kCount * sizeof(float));
  ASSERT_EQ(CALL(cuMemsetD32Async)(memory, 0x3f800000, kCount, stream), CUDA_SUCCESS);
  keel::simt::ElementwiseArguments arguments = {{memory, 0}, memory, kCount, 2.5F, 1};
  void* parameters[] = {&arguments};
  const auto launch = [&](unsigned int threads) {
    return CALL(cuLaunchKernel)(kernel, 1, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
  };
  // The kernel is compiled for one block size.
  EXPECT_EQ(launch(512), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(launch(keel::simt::kThreads), CUDA_SUCCESS);
  std::vector<float> got(kCount);
  ASSERT_EQ(CALL(cuMemcpyDtoHAsync)(got.data(), memory, kCount * sizeof(float), stream),
            CUDA_SUCCESS);
  EXPECT_EQ(settle(stream), CUDA_SUCCESS);
  EXPECT_EQ(got, std::vector<float>(kCount, 2.5F));
  arguments.count = kCount + 1;
  ASSERT_EQ(launch(keel::simt::kThreads), CUDA_SUCCESS);
  EXPECT_EQ(settle(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr more = 0;
  EXPECT_EQ(CALL(cuMemAlloc)(&more, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CALL(cuStreamDestroy)(stream), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuModuleUnload)(module), CUDA_SUCCESS);
  CUcontext popped = nullptr;
  EXPECT_EQ(CALL(cuCtxPopCurrent)(&popped), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuDevicePrimaryCtxRelease)(2), CUDA_SUCCESS);
}

}  // namespace
