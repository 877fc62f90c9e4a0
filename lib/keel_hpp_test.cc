// SPDX-License-Identifier: Apache-2.0
// The C++ interface: ownership, failures, calls, DLPack, through libkeel on a device of the CPU or
// of KEEL_TEST_BACKEND.
#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <keel/keel.hpp>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/testing/test_backend.h"
#include "ops/schema.h"

// op_calls_test.c
extern "C" keel_status keel_test_calls_in_c(keel_stream stream, const keel_tensor* a,
                                            const keel_tensor* b, const keel_tensor* bias,
                                            const keel_tensor* c, const keel_tensor* y);

namespace {

using namespace std::chrono_literals;
using keel::testing::test_backend;
using keel::testing::test_device;

bool is_guarded() {
  const char* guard = std::getenv("KEEL_CPU_GUARD");
  return guard != nullptr && std::string(guard) == "1";
}

// The status that |body| throws; KEEL_OK if it does not.
template <typename Body>
keel_status thrown_by(Body&& body) {
  try {
    body();
  } catch (const keel::Error& error) {
    return error.status();
  }
  return KEEL_OK;
}

class KeelHpp : public testing::Test {
 protected:
  static void SetUpTestSuite() { keel::testing::set_test_devices(1); }
  static std::vector<float> numbers(size_t count) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 1.0f);
    return values;
  }

  keel::Runtime runtime_;
  keel::Device device_ = keel::Device::find(test_device(0));
};

// What is about the memory that the host shares with the CPU, and about its kernels: the emulated
// chip has neither.
class KeelHppOnCpu : public KeelHpp {
 protected:
  keel::Device cpu_ = keel::Device::find("cpu:0");
};

template <typename Type>
constexpr bool kMoveOnly =
    std::is_nothrow_move_constructible_v<Type>&& std::is_nothrow_move_assignable_v<Type> &&
    !std::is_copy_constructible_v<Type> && !std::is_copy_assignable_v<Type>;
static_assert(kMoveOnly<keel::Runtime> && kMoveOnly<keel::Stream> && kMoveOnly<keel::Event> &&
              kMoveOnly<keel::Gate> && kMoveOnly<keel::Buffer> && kMoveOnly<keel::Module> &&
              kMoveOnly<keel::Communicator>);

// ---- process and devices -----------------------------------------------------------

TEST(KeelHppRuntime, ShutsDownWhenItsOwnerEnds) {
  {
    keel::Runtime first;
    EXPECT_EQ(thrown_by([] { keel::Runtime second; }), KEEL_ALREADY_EXISTS);
    keel::Runtime moved(std::move(first));
    EXPECT_FALSE(keel::backends().empty());
  }
  uint32_t count = 0;
  EXPECT_NE(keel_device_count(&count), KEEL_OK);
  keel::Runtime again;
  EXPECT_EQ(keel_device_count(&count), KEEL_OK);
}

TEST_F(KeelHpp, ErrorCarriesStatusAndText) {
  try {
    keel::Device::find("tpu:7");
    FAIL() << "tpu:7 was found";
  } catch (const keel::Error& error) {
    EXPECT_EQ(error.status(), KEEL_NOT_FOUND);
    EXPECT_NE(std::string(error.what()).find("KEEL_NOT_FOUND"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("tpu:7"), std::string::npos) << error.what();
  }
}

TEST_F(KeelHpp, AllDevicesHoldTheOneThatIsFound) {
  const std::vector<keel::Device> all = keel::Device::all();
  EXPECT_NE(std::find(all.begin(), all.end(), device_), all.end());
  EXPECT_EQ(device_.name(), test_device(0));
  EXPECT_EQ(device_.info().type,
            test_backend() == "cpu" ? uint32_t{KEEL_DEVICE_CPU} : uint32_t{KEEL_DEVICE_OTHER});
}

TEST_F(KeelHpp, TraceStopsAtItsEnd) {
  {
    keel::Trace trace("/dev/null");
    EXPECT_EQ(thrown_by([] { keel::Trace second("/dev/null"); }), KEEL_ALREADY_EXISTS);
    trace.stop();
    trace.stop();
    keel::Trace again("/dev/full");
    EXPECT_EQ(thrown_by([&] { again.stop(); }), KEEL_DATA_LOSS);
  }
  keel::Trace last("/dev/null");
}

// ---- memory and streams ------------------------------------------------------------

TEST_F(KeelHpp, BuffersOfAStreamAreUsedAgainInItsOrder) {
  const uint64_t before = device_.memory_stats().live_blocks;
  void* first = nullptr;
  keel::Buffer outlives;
  {
    keel::Stream stream(device_);
    {
      keel::Buffer buffer(stream, 4096);
      EXPECT_EQ(buffer.size(), 4096u);
      EXPECT_EQ(buffer.device(), device_);
      stream.fill(buffer, 1.0f);
      keel::Buffer moved(std::move(buffer));
      first = moved.data();
      EXPECT_EQ(device_.memory_stats().live_blocks, before + 1);
    }
    EXPECT_EQ(device_.memory_stats().live_blocks, before);
    const keel::Buffer again(stream, 4096);
    EXPECT_EQ(again.data(), first);
    outlives = keel::Buffer(stream, 64);
    EXPECT_EQ(thrown_by([&] { keel::Buffer none(stream, UINT64_MAX); }), KEEL_OUT_OF_MEMORY);
    const keel::Buffer none(stream, 0);
    EXPECT_EQ(none.data(), nullptr);
    EXPECT_EQ(none.host_alias(), nullptr);
  }
  EXPECT_EQ(device_.memory_stats().live_blocks, before + 1);
  outlives = keel::Buffer();
  EXPECT_EQ(device_.memory_stats().live_blocks, before) << "freed after its stream";
}

TEST_F(KeelHpp, DevicesTellOfTheirMemory) {
  {
    const keel::Buffer buffer(device_, KEEL_MEMORY_DEVICE, 1000);
    const std::string text = device_.memory_snapshot();
    EXPECT_NE(text.find("\"requested\": 1000"), std::string::npos) << text;
    EXPECT_EQ(device_.memory_stats().requested, 1000u);
  }
  EXPECT_GE(device_.memory_stats().allocated_peak, 1000u);
  device_.reset_memory_peaks();
  EXPECT_EQ(device_.memory_stats().allocated_peak, 0u);
  EXPECT_NE(device_.memory_stats().reserved, 0u);
  device_.trim_memory();
  EXPECT_EQ(device_.memory_stats().reserved, 0u);
}

TEST_F(KeelHpp, UploadCopyDownload) {
  keel::Stream stream(device_);
  const std::vector<float> sent = numbers(1000);
  const auto first = keel::Buffer::of<float>(device_, sent.size());
  const keel::Buffer second(device_, KEEL_MEMORY_DEVICE, first.size());
  std::vector<float> received(sent.size());
  stream.upload(first, sent);
  stream.copy(second, first);
  stream.download(received, second);
  stream.synchronize();
  EXPECT_EQ(received, sent);
}

TEST_F(KeelHpp, FillByElement) {
  keel::Stream stream(device_);
  const auto buffer = keel::Buffer::of<int16_t>(device_, 77);
  std::vector<int16_t> received(77);
  stream.fill(buffer, int16_t{-3});
  stream.download(std::span(received), buffer);
  stream.synchronize();
  EXPECT_EQ(received, std::vector<int16_t>(77, -3));
}

TEST_F(KeelHpp, MovedBufferIsFreedOnce) {
  keel::Buffer first = keel::Buffer::of<float>(device_, 4);
  void* const address = first.data();
  keel::Buffer second(std::move(first));
  EXPECT_EQ(second.data(), address);
  {
    keel::Buffer third = keel::Buffer::of<float>(device_, 4);
    third = std::move(second);
    EXPECT_EQ(third.data(), address);
  }
  keel_memory_info info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
  EXPECT_EQ(keel_memory_find(device_.get(), address, &info), KEEL_NOT_FOUND);
}

TEST_F(KeelHpp, DestroyedStreamIsNoHandle) {
  keel_stream handle{};
  {
    keel::Stream stream(device_);
    const keel::Stream moved(std::move(stream));
    handle = moved.get();
    EXPECT_EQ(keel_stream_synchronize(handle, KEEL_TIMEOUT_DEFAULT), KEEL_OK);
  }
  EXPECT_EQ(keel_stream_synchronize(handle, KEEL_TIMEOUT_DEFAULT), KEEL_INVALID_HANDLE);
}

TEST_F(KeelHpp, GateHoldsAndEventTells) {
  keel::Stream stream(device_);
  keel::Gate gate;
  keel::Event event;
  stream.wait(gate);
  event.record(stream);
  EXPECT_FALSE(event.is_done());
  EXPECT_FALSE(stream.is_done());
  EXPECT_EQ(thrown_by([&] { event.wait(0ns); }), KEEL_TIMED_OUT);
  gate.open();
  event.wait();
  EXPECT_TRUE(event.is_done());
}

TEST_F(KeelHpp, FailedGateIsThrownAtWaitsUntilRecovered) {
  keel::Stream stream(device_);
  keel::Gate gate;
  stream.wait(gate);
  gate.fail(KEEL_RANK_FAILED, "rank 3 went away");
  EXPECT_EQ(thrown_by([&] { stream.synchronize(); }), KEEL_RANK_FAILED);
  EXPECT_EQ(thrown_by([&] { stream.synchronize(); }), KEEL_RANK_FAILED);
  stream.recover();
  stream.synchronize();
}

TEST_F(KeelHpp, CallbackGetsTheStatusAndIsDestroyed) {
  keel::Stream stream(device_);
  keel::Gate gate;
  keel::Event event;
  stream.wait(gate);
  event.record(stream);
  std::promise<keel_status> of_event;
  auto of_stream = std::make_unique<std::promise<keel_status>>();
  auto of_stream_future = of_stream->get_future();
  auto owned = std::make_shared<int>(7);
  event.on_done([&of_event, owned](keel_status status) { of_event.set_value(status); });
  // Also a callable that can only be moved.
  stream.on_done(
      [promise = std::move(of_stream)](keel_status status) { promise->set_value(status); });
  gate.fail(KEEL_RANK_FAILED, "rank 3 went away");
  EXPECT_EQ(of_event.get_future().get(), KEEL_RANK_FAILED);
  EXPECT_EQ(of_stream_future.get(), KEEL_RANK_FAILED);
  EXPECT_EQ(owned.use_count(), 1);
  stream.recover();
}

TEST_F(KeelHpp, CallbackThatIsRefusedIsDestroyed) {
  auto owned = std::make_shared<int>(7);
  const auto never = [owned](keel_status) { ADD_FAILURE() << "a refused callback was called"; };
  keel::Stream stream(device_);
  const keel::Stream moved(std::move(stream));
  EXPECT_EQ(thrown_by([&] { stream.on_done(never); }), KEEL_INVALID_HANDLE);
  EXPECT_EQ(owned.use_count(), 2) << "of the test and |never|";
}

TEST_F(KeelHpp, ExceptionOfACallbackEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        keel::Stream stream(device_);
        stream.on_done([](keel_status) { throw std::runtime_error("out of the callback"); });
        while (true) std::this_thread::yield();
      },
      "out of the callback");
}

// ---- tensors and operators ---------------------------------------------------------

// ---- kernels of the caller -----------------------------------------------------------

TEST_F(KeelHppOnCpu, KernelIsLaunchedWithItsArguments) {
  const auto tests = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::ifstream file(tests / "kernels" / "kernels_1.so", std::ios::binary);
  const std::vector<char> binary{std::istreambuf_iterator<char>(file), {}};
  keel::Stream stream(cpu_);
  const auto buffer = keel::Buffer::of<uint32_t>(cpu_, 24);
  stream.fill(buffer, uint32_t{0});
  {
    const keel::Module module(cpu_, KEEL_BINARY_SHARED_OBJECT, std::as_bytes(std::span(binary)));
    module.kernel("number_threads").launch(stream, {3, 2}, {2, 2}, buffer.data());
    EXPECT_EQ(thrown_by([&] { module.kernel("no_such_kernel"); }), KEEL_NOT_FOUND);
    EXPECT_EQ(thrown_by([&] { module.kernel("variant").launch(stream, {0}, {1}, buffer.data()); }),
              KEEL_INVALID_ARGUMENT);
  }
  std::vector<uint32_t> read(24);
  stream.download(read, buffer);
  stream.synchronize();
  std::vector<uint32_t> wanted(24);
  std::iota(wanted.begin(), wanted.end(), 1u);
  EXPECT_EQ(read, wanted);
}

TEST_F(KeelHppOnCpu, BinaryThatIsNoneIsThrown) {
  const std::array<std::byte, 64> rubbish{};
  EXPECT_EQ(thrown_by([&] { keel::Module(cpu_, KEEL_BINARY_SHARED_OBJECT, rubbish); }),
            KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(thrown_by([&] { keel::Module(cpu_, KEEL_BINARY_SPIRV, rubbish); }), KEEL_UNSUPPORTED);
}

// ---- tensors ---------------------------------------------------------------------------

TEST(KeelHppTensor, DenseStridesAndGivenOnes) {
  const keel_tensor dense = keel::make_tensor(nullptr, KEEL_FLOAT32, {2, 3, 4});
  EXPECT_EQ(dense.rank, 3u);
  EXPECT_EQ(std::vector<int64_t>(dense.strides, dense.strides + 3),
            (std::vector<int64_t>{12, 4, 1}));
  const keel_tensor column = keel::make_tensor(nullptr, KEEL_FLOAT32, {2, 3}, {1, 2});
  EXPECT_EQ(column.strides[1], 2);
  EXPECT_EQ(keel::make_tensor(nullptr, KEEL_FLOAT32, {}).rank, 0u);
  EXPECT_EQ(thrown_by([] {
              keel::make_tensor(nullptr, KEEL_INT8, {1, 1, 1, 1, 1, 1, 1, 1, 1});
            }),
            KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(thrown_by([] {
              keel::make_tensor(nullptr, KEEL_INT8, {2, 2}, {1});
            }),
            KEEL_INVALID_ARGUMENT);
}

// A number means the same however it is written, for each attribute of each operator.
TEST(KeelHppOpCall, AttributesTakeTheKindOfTheTable) {
  for (const keel::ops::Schema* row : keel::ops::schemas()) {
    const keel::ops::Schema& schema = *row;
    const std::vector<keel::Attribute> integers(schema.attributes.size(), keel::Attribute(2));
    const std::vector<keel::Attribute> floats(schema.attributes.size(), keel::Attribute(2.0));
    const keel::OpCall from_integers(schema.op, {}, {}, integers);
    const keel::OpCall from_floats(schema.op, {}, {}, floats);
    for (size_t i = 0; i < schema.attributes.size(); ++i) {
      SCOPED_TRACE(std::string(schema.name) + " " + schema.attributes[i].name);
      for (const keel::OpCall* call : {&from_integers, &from_floats}) {
        const keel_attribute& attribute = call->get().attributes[i];
        if (schema.attributes[i].kind == keel::ops::AttributeKind::kFloat) {
          EXPECT_EQ(attribute.f, 2.0);
        } else {
          EXPECT_EQ(attribute.i, 2);
        }
      }
    }
  }
}

TEST(KeelHppOpCall, FractionIsNoIntegerAttribute) {
  EXPECT_EQ(thrown_by([] { keel::OpCall(KEEL_OP_SUM, {}, {}, {0.5}); }), KEEL_INVALID_ARGUMENT);
}

TEST(KeelHppOpCall, CustomOperatorsGetAttributesAsWritten) {
  enum { kCount, kFactor };
  const keel::OpCall call(KEEL_OP_CUSTOM_BASE, {}, {}, {2, 2.0});
  EXPECT_EQ(call.get().attributes[kCount].i, 2);
  EXPECT_EQ(call.get().attributes[kFactor].f, 2.0);
}

TEST_F(KeelHpp, MatmulWithAndWithoutBias) {
  keel::Stream stream(device_);
  const auto a = keel::Buffer::of<float>(device_, 6);
  const auto b = keel::Buffer::of<float>(device_, 6);
  const auto bias = keel::Buffer::of<float>(device_, 2);
  const auto c = keel::Buffer::of<float>(device_, 4);
  const std::vector<float> host_a = {1, 2, 3, 4, 5, 6};
  const std::vector<float> host_b = {7, 8, 9, 10, 11, 12};
  const std::vector<float> host_bias = {100, 200};
  std::vector<float> plain(4);
  std::vector<float> biased(4);
  stream.upload(a, host_a);
  stream.upload(b, host_b);
  stream.upload(bias, host_bias);
  const keel_tensor ta = a.tensor<float>({2, 3});
  const keel_tensor tb = b.tensor<float>({3, 2});
  const keel_tensor tc = c.tensor<float>({2, 2});
  keel::ops::matmul(stream, {.a = ta, .b = tb, .c = tc});
  stream.download(plain, c);
  keel::ops::matmul(stream, {.a = ta, .b = tb, .bias = bias.tensor<float>({2}), .c = tc});
  stream.download(biased, c);
  stream.synchronize();
  EXPECT_EQ(plain, (std::vector<float>{58, 64, 139, 154}));
  EXPECT_EQ(biased, (std::vector<float>{158, 264, 239, 354}));
}

TEST_F(KeelHpp, NamedCallsOfCHaveTheDefaults) {
  keel::Stream stream(device_);
  const auto a = keel::Buffer::of<float>(device_, 4);
  const auto bias = keel::Buffer::of<float>(device_, 2);
  const auto c = keel::Buffer::of<float>(device_, 4);
  const auto y = keel::Buffer::of<float>(device_, 4);
  const std::vector<float> host_a = {1, 2, 3, -1};
  const std::vector<float> host_bias = {-6.5f, 0.25f};
  stream.upload(a, host_a);
  stream.upload(bias, host_bias);
  const keel_tensor ta = a.tensor<float>({2, 2});
  const keel_tensor tbias = bias.tensor<float>({2});
  const keel_tensor tc = c.tensor<float>({2, 2});
  const keel_tensor ty = y.tensor<float>({2, 2});
  ASSERT_EQ(keel_test_calls_in_c(stream.get(), &ta, &ta, &tbias, &tc, &ty), KEEL_OK)
      << keel_last_error();
  std::vector<float> product(4);
  std::vector<float> cut(4);
  stream.download(product, c);
  stream.download(cut, y);
  stream.synchronize();
  EXPECT_EQ(product, (std::vector<float>{0.5f, 0.25f, -6.5f, 7.25f}));
  EXPECT_EQ(cut, (std::vector<float>{0.5f, 0.25f, 0, 1}));
}

TEST_F(KeelHpp, OneCallRunsOnOtherMemory) {
  keel::Stream stream(device_);
  const auto first = keel::Buffer::of<float>(device_, 5);
  const auto second = keel::Buffer::of<float>(device_, 5);
  stream.fill(first, 1.0f);
  stream.fill(second, 10.0f);
  const keel_tensor t = first.tensor<float>({5});
  keel::OpCall twice(KEEL_OP_SCALE, {t}, {t}, {2});
  twice.run(stream);
  twice.input(0).data = second.data();
  twice.output(0).data = second.data();
  twice.attribute(0).f = 3;
  twice.run(stream);
  std::vector<float> got_first(5);
  std::vector<float> got_second(5);
  stream.download(got_first, first);
  stream.download(got_second, second);
  stream.synchronize();
  EXPECT_EQ(got_first, std::vector<float>(5, 2.0f));
  EXPECT_EQ(got_second, std::vector<float>(5, 30.0f));
}

TEST_F(KeelHpp, PlanAndExplainNameTheKernel) {
  const keel_tensor t = keel::make_tensor(nullptr, KEEL_FLOAT32, {8});
  const keel::OpCall call(KEEL_OP_ADD, {t, t}, {t});
  const keel_op_plan plan = call.plan(device_);
  EXPECT_EQ(plan.fallback, 0u);
  EXPECT_NE(call.explain(device_).find(plan.kernel), std::string::npos);
}

TEST_F(KeelHpp, CallThatDoesNotFitItsSchemaIsThrown) {
  keel::Stream stream(device_);
  const auto a = keel::Buffer::of<float>(device_, 4);
  EXPECT_EQ(thrown_by([&] {
              keel::ops::add(stream, {.a = a.tensor<float>({4}),
                                      .b = a.tensor<float>({2}),
                                      .c = a.tensor<float>({4})});
            }),
            KEEL_INVALID_ARGUMENT);
}

// ---- collectives -------------------------------------------------------------------

TEST_F(KeelHpp, AllReduceAmongRanksOfOneDevice) {
  const std::vector<keel::Device> devices(3, device_);
  std::vector<keel::Communicator> comms = keel::Communicator::all(devices);
  ASSERT_EQ(comms.size(), 3u);
  std::vector<keel::Stream> streams;
  std::vector<keel::Buffer> buffers;
  std::vector<std::vector<float>> received(3, std::vector<float>(10));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    streams.emplace_back(device_);
    buffers.push_back(keel::Buffer::of<float>(device_, 10));
    streams[rank].fill(buffers[rank], static_cast<float>(rank + 1));
  }
  for (uint32_t rank = 0; rank < 3; ++rank) {
    comms[rank].all_reduce(buffers[rank].data(), buffers[rank].data(), 10, KEEL_FLOAT32, KEEL_SUM,
                           streams[rank]);
    streams[rank].download(received[rank], buffers[rank]);
  }
  for (const keel::Stream& stream : streams) stream.synchronize();
  for (const auto& each : received) EXPECT_EQ(each, std::vector<float>(10, 6.0f));
  EXPECT_EQ(comms[0].stats().operations, 1u);
  EXPECT_EQ(comms[2].rank(), 2u);
  EXPECT_EQ(comms[2].world(), 3u);
  comms[0].check_async_error();
}

TEST_F(KeelHpp, RanksOfTwoThreadsMeetSplitAndExchange) {
  const keel_unique_id id = keel::make_unique_id();
  std::vector<std::vector<float>> received(2, std::vector<float>(3));
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto world = keel::Communicator::join(device_, id, rank, 2);
      // Backwards.
      auto comm = world.split(/*color=*/0, /*key=*/-static_cast<int32_t>(rank));
      EXPECT_EQ(comm.rank(), 1 - rank);
      keel::Stream stream(device_);
      auto mine = keel::Buffer::of<float>(device_, 3);
      auto theirs = keel::Buffer::of<float>(device_, 3);
      stream.fill(mine, static_cast<float>(rank + 1));
      keel::Group group;
      comm.send(mine.data(), 3, KEEL_FLOAT32, rank, stream);  // its peer's new number
      comm.recv(theirs.data(), 3, KEEL_FLOAT32, rank, stream);
      group.end();
      const uint64_t counts[] = {1, 2};
      comm.all_gather_v(theirs.data(), mine.data(), counts, {}, KEEL_FLOAT32, stream);
      stream.download(received[rank], mine);
      stream.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  // New rank 0 is the old 1, and has 1.0 by now.
  for (const auto& each : received) EXPECT_EQ(each, (std::vector<float>{1.0f, 2.0f, 2.0f}));
}

TEST_F(KeelHpp, ACommunicatorFromTheEnvironmentNeedsALauncher) {
  EXPECT_EQ(thrown_by([&] { keel::Communicator::from_environment(device_); }), KEEL_NOT_FOUND);
}

// ---- DLPack ------------------------------------------------------------------------

TEST_F(KeelHppOnCpu, DlpackOfCpuMemoryIsReadableByTheHost) {
  keel::Stream stream(cpu_);
  auto buffer = std::make_shared<keel::Buffer>(keel::Buffer::of<float>(cpu_, 12));
  const std::vector<float> sent = numbers(12);
  stream.upload(*buffer, sent);
  stream.synchronize();
  // Columns 1 and 2 of three by four, offset in bytes and in the address.
  keel_tensor view =
      keel::make_tensor(static_cast<float*>(buffer->data()), KEEL_FLOAT32, {3, 2}, {4, 1});
  view.byte_offset = sizeof(float);

  if (is_guarded()) {  // nothing that the host may dereference: refused, not handed out
    EXPECT_EQ(thrown_by([&] { keel::to_dlpack(view, cpu_.get(), buffer); }), KEEL_UNSUPPORTED);
    return;
  }
  const std::weak_ptr<keel::Buffer> watch = buffer;
  DLManagedTensor* managed = keel::to_dlpack(view, cpu_.get(), std::move(buffer));
  const DLTensor& tensor = managed->dl_tensor;
  EXPECT_EQ(tensor.device.device_type, kDLCPU);
  EXPECT_EQ(tensor.dtype.code, kDLFloat);
  EXPECT_EQ(tensor.dtype.bits, 32);
  ASSERT_EQ(tensor.ndim, 2);
  const auto* first =
      reinterpret_cast<const float*>(static_cast<const char*>(tensor.data) + tensor.byte_offset);
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t column = 0; column < 2; ++column) {
      EXPECT_EQ(first[row * tensor.strides[0] + column * tensor.strides[1]],
                sent[static_cast<size_t>(row * 4 + column + 1)]);
    }
  }

  const keel_tensor back = keel::from_dlpack(managed);
  EXPECT_EQ(back.data, tensor.data);
  EXPECT_EQ(back.byte_offset, view.byte_offset);
  EXPECT_EQ(back.dtype, view.dtype);
  EXPECT_EQ(back.strides[0], 4);

  EXPECT_FALSE(watch.expired());
  std::thread([managed] { managed->deleter(managed); }).join();
  EXPECT_TRUE(watch.expired());
}

TEST_F(KeelHpp, DlpackNamesTheDeviceThatTheMemoryIsOf) {
  auto buffer = std::make_shared<keel::Buffer>(keel::Buffer::of<float>(device_, 6));
  const keel_tensor sent = buffer->tensor<float>({2, 3});
  if (is_guarded()) {
    EXPECT_EQ(thrown_by([&] { keel::to_dlpack(sent, device_.get(), buffer); }), KEEL_UNSUPPORTED);
    return;
  }
  DLManagedTensor* managed = keel::to_dlpack(sent, device_.get(), buffer);
  EXPECT_EQ(managed->dl_tensor.device.device_type, test_backend() == "cpu" ? kDLCPU : kDLExtDev);
  EXPECT_EQ(managed->dl_tensor.device.device_id, 0);
  const keel_tensor back = keel::from_dlpack(managed);
  EXPECT_EQ(back.data, sent.data);
  EXPECT_EQ(back.shape[1], 3);
  managed->deleter(managed);
  EXPECT_EQ(buffer.use_count(), 1);
}

// Consumers take what has no elements by a NULL pointer.
TEST_F(KeelHpp, DlpackOfATensorWithoutElementsPointsNowhere) {
  auto buffer = std::make_shared<keel::Buffer>(keel::Buffer::of<float>(device_, 6));
  keel_tensor empty =
      keel::make_tensor(static_cast<float*>(buffer->data()), KEEL_FLOAT32, {2, 0, 3});
  empty.byte_offset = 8;
  keel_tensor nowhere = keel::make_tensor(static_cast<float*>(nullptr), KEEL_FLOAT32, {0});
  for (const keel_tensor& sent : {empty, nowhere}) {
    DLManagedTensor* managed = keel::to_dlpack(sent, device_.get(), buffer);
    EXPECT_EQ(managed->dl_tensor.data, nullptr);
    EXPECT_EQ(managed->dl_tensor.byte_offset, 0u);
    EXPECT_EQ(managed->dl_tensor.device.device_type, test_backend() == "cpu" ? kDLCPU : kDLExtDev);
    const keel_tensor back = keel::from_dlpack(managed);
    EXPECT_EQ(back.rank, sent.rank);
    EXPECT_EQ(back.data, nullptr);
    managed->deleter(managed);
  }
  EXPECT_EQ(buffer.use_count(), 1);
}

TEST_F(KeelHpp, DlpackRefusesMemoryThatIsNotTheDevices) {
  float on_host = 0;
  const keel_tensor tensor = keel::make_tensor(&on_host, KEEL_FLOAT32, {1});
  EXPECT_EQ(thrown_by([&] { keel::to_dlpack(tensor, device_.get(), nullptr); }), KEEL_NOT_FOUND);
}

TEST(KeelHppDlpack, ForeignTensorsWithoutStridesAreDense) {
  float memory[6] = {};
  int64_t shape[] = {2, 3};
  DLManagedTensor managed = {};
  managed.dl_tensor = {memory, {kDLCPU, 0}, 2, {kDLBfloat, 16, 1}, shape, nullptr, 0};
  const keel_tensor tensor = keel::from_dlpack(&managed);
  EXPECT_EQ(tensor.dtype, KEEL_BFLOAT16);
  EXPECT_EQ(tensor.strides[0], 3);
  EXPECT_EQ(tensor.data, memory);
}

// By number: kDLBool is not in every version of the header.
TEST(KeelHppDlpack, TypesOfCollectivesAloneAreConverted) {
  double memory[12] = {};
  int64_t shape[] = {2, 3};
  DLManagedTensor managed = {};
  managed.dl_tensor = {memory, {kDLCPU, 0}, 2, {6, 8, 1}, shape, nullptr, 0};
  EXPECT_EQ(keel::from_dlpack(&managed).dtype, KEEL_BOOL);
  managed.dl_tensor.dtype = {5, 64, 1};
  EXPECT_EQ(keel::from_dlpack(&managed).dtype, KEEL_COMPLEX64);
  managed.dl_tensor.dtype = {5, 128, 1};
  EXPECT_EQ(keel::from_dlpack(&managed).dtype, KEEL_COMPLEX128);
}

TEST(KeelHppDlpack, WhatKeelDoesNotHaveIsRefused) {
  float memory[6] = {};
  int64_t shape[] = {2, 3};
  int64_t backwards[] = {-3, 1};
  DLManagedTensor managed = {};
  managed.dl_tensor = {memory, {kDLCPU, 0}, 2, {kDLComplex, 32, 1}, shape, nullptr, 0};
  EXPECT_EQ(thrown_by([&] { keel::from_dlpack(&managed); }), KEEL_UNSUPPORTED);
  managed.dl_tensor.dtype = {kDLFloat, 32, 4};
  EXPECT_EQ(thrown_by([&] { keel::from_dlpack(&managed); }), KEEL_UNSUPPORTED);
  managed.dl_tensor.dtype = {kDLFloat, 32, 1};
  managed.dl_tensor.strides = backwards;
  EXPECT_EQ(thrown_by([&] { keel::from_dlpack(&managed); }), KEEL_UNSUPPORTED);
}

TEST(KeelHppDlpack, BackendsHaveDlpacksDeviceTypes) {
  const auto type = [](const char* name) { return keel::dlpack_device(name).device_type; };
  EXPECT_EQ(type("vulkan:0"), kDLVulkan);
  EXPECT_EQ(type("vulkan#2:1"), kDLVulkan);
  EXPECT_EQ(keel::dlpack_device("vulkan#2:1").device_id, 1);
  EXPECT_EQ(type("cuda:3"), kDLCUDA);
  EXPECT_EQ(type("ascend:0"), kDLExtDev);
}

}  // namespace
