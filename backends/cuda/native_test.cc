// SPDX-License-Identifier: Apache-2.0
// Keel's work and a framework's own work on one stream of the emulated CUDA driver.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <keel/keel.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/testing/cuda_test.h"

namespace keel::testing {
namespace {

// Two devices and a framework, which calls the driver directly with the first device's context
// current.
class CudaNativeTest : public CudaFixture {
 protected:
  void start(const std::string& faults = "", const std::string& more = "") {
    driver_.emplace("devices=2" + (faults.empty() ? "" : " faults=" + faults) + more);
    devices_ = load_cuda(*driver_);
    ASSERT_EQ(devices_.size(), 2u);
    library_ = dlopen((driver_->folder() + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library_, nullptr);
    void* context = nullptr;
    ASSERT_KEEL_OK(keel_device_native_handle(devices_[0], 0, &context));
    ASSERT_EQ(
        native<decltype(&cuCtxPushCurrent)>("cuCtxPushCurrent_v2")(static_cast<CUcontext>(context)),
        CUDA_SUCCESS);
  }
  void TearDown() override {
    CUcontext popped = nullptr;
    if (library_ != nullptr) {
      EXPECT_EQ(native<decltype(&cuCtxPopCurrent)>("cuCtxPopCurrent_v2")(&popped), CUDA_SUCCESS);
    }
    KeelTest::TearDown();
  }

  // Looks up a driver function.
  template <typename Function>
  Function native(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }
  CUstream create() const {
    CUstream stream = nullptr;
    EXPECT_EQ(native<decltype(&cuStreamCreateWithPriority)>("cuStreamCreateWithPriority")(
                  &stream, CU_STREAM_NON_BLOCKING, 0),
              CUDA_SUCCESS);
    return stream;
  }
  void destroy(CUstream stream) const {
    EXPECT_EQ(native<decltype(&cuStreamDestroy)>("cuStreamDestroy_v2")(stream), CUDA_SUCCESS);
  }
  CUresult query(CUstream stream) const {
    return native<decltype(&cuStreamQuery)>("cuStreamQuery")(stream);
  }
  // The framework's work: a fill of |count| words.
  void fill_natively(CUstream stream, void* memory, uint32_t value, size_t count) const {
    EXPECT_EQ(native<decltype(&cuMemsetD32Async)>("cuMemsetD32Async")(
                  reinterpret_cast<CUdeviceptr>(memory), value, count, stream),
              CUDA_SUCCESS);
  }
  // Begins a capture in the mode that frameworks use.
  void begin_capture(CUstream stream) const {
    EXPECT_EQ(native<decltype(&cuStreamBeginCapture)>("cuStreamBeginCapture_v2")(
                  stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_SUCCESS);
  }
  CUresult end_capture(CUstream stream) const {
    CUgraph graph = nullptr;
    return native<decltype(&cuStreamEndCapture)>("cuStreamEndCapture")(stream, &graph);
  }
  keel_stream wrap(CUstream stream) const {
    keel_stream wrapped = {};
    EXPECT_KEEL_OK(keel_stream_wrap(devices_[0], stream, &wrapped));
    return wrapped;
  }

  std::optional<OwnDriver> driver_;
  std::vector<keel_device> devices_;
  void* library_ = nullptr;
};

TEST_F(CudaNativeTest, OneOrderOfBothKindsOfWork) {
  start();
  const CUstream theirs = create();
  for (const CUstream each : {theirs, CUstream{nullptr}, CU_STREAM_LEGACY}) {
    const keel_stream stream = wrap(each);
    void* inside = &inside;
    EXPECT_KEEL_OK(keel_stream_unwrap(stream, &inside));
    EXPECT_EQ(inside, each);
    void* const memory = alloc(devices_[0], 3 * 4);
    ASSERT_KEEL_OK(fill(stream, memory, 1, 3));
    fill_natively(each, memory, 2, 2);
    ASSERT_KEEL_OK(fill(stream, memory, 3, 1));
    uint32_t words[3] = {};
    ASSERT_KEEL_OK(keel_copy(stream, KEEL_HOST, words, devices_[0], memory, sizeof(words)));
    ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    EXPECT_EQ((std::vector<uint32_t>(words, words + 3)), (std::vector<uint32_t>{3, 2, 1}));
    EXPECT_KEEL_OK(keel_free(devices_[0], memory));
    EXPECT_KEEL_OK(keel_stream_destroy(stream));
    EXPECT_EQ(query(each), CUDA_SUCCESS) << "it is the framework's";
  }
  destroy(theirs);
}

// Without peer access the driver would copy through the host.
TEST_F(CudaNativeTest, CopiesBetweenDevicesEnableThemAsPeers) {
  start();
  const std::vector<uint32_t> words = pattern(1000, 3);
  void* const here = alloc_filled(devices_[0], words);
  void* const there = alloc(devices_[1], 4000);
  const keel_stream stream = new_stream(devices_[0]);
  ASSERT_KEEL_OK(keel_copy(stream, devices_[1], there, devices_[0], here, 4000));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(devices_[1], there, 1000), words);
  void* contexts[2] = {};
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_KEEL_OK(keel_device_native_handle(devices_[i], 0, &contexts[i]));
  }
  for (uint32_t i = 0; i < 2; ++i) {
    CUcontext popped = nullptr;
    EXPECT_EQ(native<decltype(&cuCtxPushCurrent)>("cuCtxPushCurrent_v2")(
                  static_cast<CUcontext>(contexts[i])),
              CUDA_SUCCESS);
    EXPECT_EQ(native<decltype(&cuCtxEnablePeerAccess)>("cuCtxEnablePeerAccess")(
                  static_cast<CUcontext>(contexts[1 - i]), 0),
              CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        << i;
    EXPECT_EQ(native<decltype(&cuCtxPopCurrent)>("cuCtxPopCurrent_v2")(&popped), CUDA_SUCCESS);
  }
}

// Every kind of wait includes native work that Keel has not seen.
TEST_F(CudaNativeTest, NativeWorkIsWaitedFor) {
  start("stall:fill@1=50,stall:fill@2=50,stall:fill@3=50,stall:fill@4=50");
  const CUstream theirs = create();
  const keel_stream stream = wrap(theirs);
  void* const memory = alloc(devices_[0], 4);
  // The stream holds no work of Keel: by its own records Keel considers the stream idle.
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  fill_natively(theirs, memory, 1, 1);
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(query(theirs), CUDA_SUCCESS);

  keel_event event = {};
  ASSERT_KEEL_OK(keel_event_create(0, &event));
  fill_natively(theirs, memory, 2, 1);
  ASSERT_KEEL_OK(keel_event_record(event, stream));
  EXPECT_KEEL_OK(keel_event_wait(event, kTestTimeout));
  EXPECT_EQ(query(theirs), CUDA_SUCCESS);

  fill_natively(theirs, memory, 3, 1);
  EXPECT_KEEL_OK(keel_device_synchronize(devices_[0], kTestTimeout));
  EXPECT_EQ(query(theirs), CUDA_SUCCESS);

  // Also orders work on another device.
  fill_natively(theirs, memory, 4, 1);
  ASSERT_KEEL_OK(keel_event_record(event, stream));
  const keel_stream foreign = new_stream(devices_[1]);
  ASSERT_KEEL_OK(keel_stream_wait_event(foreign, event));
  EXPECT_KEEL_OK(keel_stream_synchronize(foreign, kTestTimeout));
  EXPECT_EQ(query(theirs), CUDA_SUCCESS);
  EXPECT_KEEL_OK(keel_stream_destroy(stream));
  destroy(theirs);
}

TEST_F(CudaNativeTest, DestroyingWaitsForNativeWork) {
  start("stall:fill@1=50");
  const CUstream theirs = create();
  const keel_stream stream = wrap(theirs);
  fill_natively(theirs, alloc(devices_[0], 4), 1, 1);
  EXPECT_KEEL_OK(keel_stream_destroy(stream));
  EXPECT_EQ(query(theirs), CUDA_SUCCESS);
  destroy(theirs);
}

// The owner may destroy the stream right after the wrapper, even if Keel's objects still refer to
// it.
TEST_F(CudaNativeTest, WhatOutlivesTheStream) {
  start();
  const CUstream theirs = create();
  const keel_stream stream = wrap(theirs);
  void* const memory = alloc(devices_[0], 1 << 20);
  ASSERT_KEEL_OK(fill(stream, memory, 1, 1));
  const keel_event event = record(stream);
  const keel_stream other = new_stream(devices_[0]);
  ASSERT_KEEL_OK(keel_stream_wait_event(other, event));
  EXPECT_KEEL_OK(keel_free_on_stream(stream, memory));
  ASSERT_KEEL_OK(keel_stream_destroy(stream));
  destroy(theirs);
  EXPECT_KEEL_OK(keel_event_query(event));
  EXPECT_KEEL_OK(keel_stream_wait_event(other, event));
  EXPECT_KEEL_OK(keel_stream_synchronize(other, kTestTimeout));
  EXPECT_NE(alloc(devices_[0], 1 << 20), nullptr);
  EXPECT_KEEL_OK(keel_memory_trim(devices_[0]));
  EXPECT_KEEL_OK(keel_device_synchronize(devices_[0], kTestTimeout));
  EXPECT_EQ(fill(stream, memory, 1, 1), KEEL_INVALID_HANDLE);
}

// A block is not reused while the framework's work may use it.
TEST_F(CudaNativeTest, FreedMemoryWaitsForNativeWork) {
  start("stall:fill@1=1000,stall:fill@2=1000");
  const CUstream theirs = create();
  const keel_stream stream = wrap(theirs);
  for (const bool on_stream : {false, true}) {
    void* const memory = alloc(devices_[0], 1 << 20);
    fill_natively(theirs, memory, 1, 4);
    EXPECT_KEEL_OK(on_stream ? keel_free_on_stream(stream, memory)
                             : keel_free(devices_[0], memory));
    void* const next = alloc(devices_[0], 1 << 20);
    if (query(theirs) != CUDA_ERROR_NOT_READY) {
      GTEST_SKIP() << "this machine took more than a second for two calls";
    }
    EXPECT_NE(next, memory);
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    EXPECT_KEEL_OK(keel_free(devices_[0], next));
  }
  EXPECT_KEEL_OK(keel_stream_destroy(stream));
  destroy(theirs);
}

TEST_F(CudaNativeTest, WorkOnAStreamOfKeels) {
  start("stall:fill@2=50");
  const Device device(devices_[0]);
  Stream stream(device);
  const Buffer memory = Buffer::of<uint32_t>(device, 4);
  stream.fill(memory, uint32_t{1});
  const auto inside = static_cast<CUstream>(stream.native());
  fill_natively(inside, memory.data(), 2, 2);
  stream.synchronize();
  EXPECT_EQ(query(inside), CUDA_SUCCESS);
  std::vector<uint32_t> words(4);
  stream.download(words, memory);
  stream.synchronize();
  EXPECT_EQ(words, (std::vector<uint32_t>{2, 2, 1, 1}));

  // The reverse order, and both at once.
  Stream again = Stream::wrap(device, inside);
  again.fill(memory, uint32_t{5});
  again.download(words, memory);
  again.synchronize();
  EXPECT_EQ(words, std::vector<uint32_t>(4, 5));
  EXPECT_EQ(device.native_handle(1), nullptr) << "the CUdevice, which is 0";
}

// A gate holds only Keel's work; the framework's work runs first.
TEST_F(CudaNativeTest, GatesHoldKeelsWorkAlone) {
  start();
  const CUstream theirs = create();
  const keel_stream stream = wrap(theirs);
  void* const memory = alloc(devices_[0], 4);
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate));
  ASSERT_KEEL_OK(fill(stream, memory, 1, 1));
  fill_natively(theirs, memory, 2, 1);
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(devices_[0], memory, 1), std::vector<uint32_t>{1});
  EXPECT_KEEL_OK(keel_stream_destroy(stream));
  destroy(theirs);
}

// No call of Keel, on the capturing thread or others, breaks the framework's capture.
TEST_F(CudaNativeTest, KeelGoesOnBesideACapture) {
  start();
  const CUstream theirs = create();
  begin_capture(theirs);
  const auto work = [&] {
    const keel_stream stream = new_stream(devices_[0]);
    void* const memory = alloc(devices_[0], 64 << 20);
    ASSERT_KEEL_OK(fill(stream, memory, 7, 10));
    const keel_event event = record(stream);
    EXPECT_KEEL_OK(keel_event_wait(event, kTestTimeout));
    EXPECT_EQ(read(devices_[0], memory, 10), std::vector<uint32_t>(10, 7));
    EXPECT_KEEL_OK(keel_free(devices_[0], memory));
    EXPECT_KEEL_OK(keel_memory_trim(devices_[0]));
    EXPECT_KEEL_OK(keel_stream_destroy(stream));
  };
  work();
  std::thread(work).join();
  EXPECT_EQ(end_capture(theirs), CUDA_SUCCESS);
  destroy(theirs);
}

TEST_F(CudaNativeTest, AStreamThatIsCapturedTakesNoWork) {
  start();
  const CUstream theirs = create();
  const keel_stream keels = new_stream(devices_[0]);
  void* handle = nullptr;
  ASSERT_KEEL_OK(keel_stream_unwrap(keels, &handle));
  void* const memory = alloc(devices_[0], 64);
  const keel_stream wrapped = wrap(theirs);
  for (const auto& [stream, native] :
       {std::pair(wrapped, theirs), std::pair(keels, static_cast<CUstream>(handle))}) {
    char name[32];
    std::snprintf(name, sizeof(name), "stream %p", static_cast<void*>(native));
    begin_capture(native);
    EXPECT_FAILS(KEEL_FAILED_PRECONDITION, name, fill(stream, memory, 1, 1));
    EXPECT_EQ(keel_stream_query(stream), KEEL_NOT_READY);
    EXPECT_EQ(end_capture(native), CUDA_SUCCESS) << "nothing of Keel's has reached it";
    EXPECT_KEEL_OK(fill(stream, memory, 2, 1));
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    EXPECT_EQ(read(devices_[0], memory, 1), std::vector<uint32_t>{2});
  }
  EXPECT_KEEL_OK(keel_stream_destroy(wrapped));
  destroy(theirs);
}

// The capture continues, and Keel's earlier work on the stream keeps its memory.
TEST_F(CudaNativeTest, AStreamThatIsCapturedMayRunWhenItIsDestroyed) {
  start("stall:fill@1=200,stall:fill@2=200");
  const CUstream theirs = create();
  const keel_stream keels = new_stream(devices_[0]);
  void* handle = nullptr;
  ASSERT_KEEL_OK(keel_stream_unwrap(keels, &handle));
  const keel_stream wrapped = wrap(theirs);
  for (const auto& [stream, native] :
       {std::pair(wrapped, theirs), std::pair(keels, static_cast<CUstream>(handle))}) {
    void* const used = alloc(devices_[0], 3 << 20);
    ASSERT_KEEL_OK(fill(stream, used, 1, 1));
    begin_capture(native);
    EXPECT_FAILS(KEEL_FAILED_PRECONDITION, "is being captured", keel_stream_destroy(stream));
    ASSERT_KEEL_OK(keel_free(devices_[0], used));
    EXPECT_NE(alloc(devices_[0], 3 << 20), used) << "the fill may be at it";
    EXPECT_EQ(end_capture(native), CUDA_SUCCESS);
  }
  EXPECT_EQ(query(theirs), CUDA_ERROR_NOT_READY) << "the fill was over all the time";
  destroy(theirs);
}

// Keel knows that the stream's work has finished.
TEST_F(CudaNativeTest, AStreamThatIsCapturedEndsWhereItsWorkHasEnded) {
  start();
  const CUstream theirs = create();
  void* const memory = alloc(devices_[0], 64);
  for (const bool has_work : {false, true}) {
    const keel_stream stream = wrap(theirs);
    if (has_work) {
      ASSERT_KEEL_OK(fill(stream, memory, 1, 1));
      ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    }
    begin_capture(theirs);
    EXPECT_KEEL_OK(keel_stream_destroy(stream));
    EXPECT_EQ(end_capture(theirs), CUDA_SUCCESS);
  }
  EXPECT_KEEL_OK(keel_free(devices_[0], memory));
  destroy(theirs);
}

// With a driver that cannot exempt a thread from captures, an event that cannot be queried counts
// as unfinished.
TEST_F(CudaNativeTest, AnEventThatACaptureHides) {
  start("stall:fill@1=50", " missing=cuThreadExchangeStreamCaptureMode");
  const CUstream theirs = create();
  const keel_stream stream = new_stream(devices_[0]);
  void* const memory = alloc(devices_[0], 64);
  ASSERT_KEEL_OK(fill(stream, memory, 1, 1));
  const keel_event event = record(stream);
  begin_capture(theirs);
  EXPECT_EQ(keel_event_query(event), KEEL_NOT_READY);
  EXPECT_EQ(end_capture(theirs), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_KEEL_OK(keel_event_wait(event, kTestTimeout));
  destroy(theirs);
}

TEST_F(CudaNativeTest, StreamsThatCannotBeWrapped) {
  start();
  const CUstream theirs = create();
  keel_stream stream = {};
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "not one of the device's primary context",
               keel_stream_wrap(devices_[1], theirs, &stream));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "CU_STREAM_PER_THREAD",
               keel_stream_wrap(devices_[0], CU_STREAM_PER_THREAD, &stream));
  destroy(theirs);
  const keel_device cpu = load("cpu").at(0);
  void* handle = nullptr;
  EXPECT_FAILS(KEEL_UNSUPPORTED, "cpu:0 does not take native streams",
               keel_stream_wrap(cpu, nullptr, &stream));
  EXPECT_FAILS(KEEL_UNSUPPORTED, "cpu:0 does not give out native streams",
               keel_stream_unwrap(new_stream(cpu), &handle));
  EXPECT_FAILS(KEEL_UNSUPPORTED, "cpu:0 gives out no native handles",
               keel_device_native_handle(cpu, 0, &handle));
}

}  // namespace
}  // namespace keel::testing
