// SPDX-License-Identifier: Apache-2.0
// The plugin's tables on the emulated chip: contexts of threads, copies of every alignment and
// kind of host memory, executors and workspaces, unique ids, failures.
#include <array>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backends/ascend/testing/device_test.h"
#include "core/testing/library_file.h"
#include "vendor/ascend/acl.h"
#include "vendor/ascend/hccl.h"

namespace keel::testing {
namespace {

TEST_F(AscendTest, CallsRestoreTheContextOfTheirThread) {
  open();
  void* const library = dlopen(sdk_->path("libascendcl.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  const auto get =
      reinterpret_cast<decltype(&aclrtGetCurrentContext)>(dlsym(library, "aclrtGetCurrentContext"));
  const auto set = reinterpret_cast<decltype(&aclrtSetDevice)>(dlsym(library, "aclrtSetDevice"));
  std::thread([&] {
    ASSERT_EQ(set(1), ACL_SUCCESS);
    aclrtContext before = nullptr;
    ASSERT_EQ(get(&before), ACL_SUCCESS);
    char* const memory = alloc(64);
    const char byte = 1;
    EXPECT_EQ(plugin().stream->fill(stream_, memory, &byte, 1, 64), KEEL_OK) << t_error;
    EXPECT_EQ(settle(), KEEL_OK) << t_error;
    aclrtContext after = nullptr;
    EXPECT_EQ(get(&after), ACL_SUCCESS);
    EXPECT_EQ(after, before);
    reinterpret_cast<decltype(&aclrtResetDevice)>(dlsym(library, "aclrtResetDevice"))(1);
  }).join();
}

// The plugin has no memory left for a descriptor, in the middle of a call in its own context.
TEST_F(AscendTest, CallsRestoreTheContextWhenMemoryIsShort) {
  for (const char* which : {"1", "2"}) {
    open(std::string("memory_mib=64 null_descriptor=") + which);
    void* const library = dlopen(sdk_->path("libascendcl.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    const auto get = reinterpret_cast<decltype(&aclrtGetCurrentContext)>(
        dlsym(library, "aclrtGetCurrentContext"));
    const auto set = reinterpret_cast<decltype(&aclrtSetDevice)>(dlsym(library, "aclrtSetDevice"));
    ASSERT_EQ(set(1), ACL_SUCCESS);
    aclrtContext before = nullptr;
    ASSERT_EQ(get(&before), ACL_SUCCESS);
    const keel_tensor x = kit::make_tensor(alloc(64), KEEL_FLOAT32, {4});
    EXPECT_EQ(run(KEEL_OP_FILL, {}, x, {{.f = 3}}), KEEL_OUT_OF_MEMORY) << t_error;
    aclrtContext after = nullptr;
    EXPECT_EQ(get(&after), ACL_SUCCESS);
    EXPECT_EQ(after, before);
    ASSERT_EQ(run(KEEL_OP_FILL, {}, x, {{.f = 3}}), KEEL_OK) << t_error;
    EXPECT_EQ(read(x), (std::vector<float>{3, 3, 3, 3}));
    reinterpret_cast<decltype(&aclrtResetDevice)>(dlsym(library, "aclrtResetDevice"))(1);
    close();
  }
}

// The chip reads and writes host memory when a copy runs, so the caller's own must be staged.
TEST_F(AscendTest, PageableMemoryMayChangeAfterTheCall) {
  open();
  constexpr uint64_t kSize = 3'000'001;  // three blocks
  std::vector<char> host(kSize);
  for (uint64_t i = 0; i < kSize; ++i) host[i] = static_cast<char>(i * 7 + i / 1000);
  const std::vector<char> want = host;
  char* const memory = alloc(kSize);
  ASSERT_EQ(copy(KEEL_COPY_HOST_TO_DEVICE, memory, host.data(), kSize), KEEL_OK) << t_error;
  std::fill(host.begin(), host.end(), 0);
  ASSERT_EQ(copy(KEEL_COPY_DEVICE_TO_HOST, host.data(), memory, kSize), KEEL_OK) << t_error;
  ASSERT_EQ(settle(), KEEL_OK) << t_error;
  EXPECT_TRUE(host == want);
}

// The library tells for each end that it is pinned; the memory in between is the caller's own.
TEST_F(AscendTest, MemoryBetweenTwoRegistrationsIsStaged) {
  open();
  constexpr uint64_t kPart = 4096;
  std::vector<char> host(3 * kPart);
  for (uint64_t i = 0; i < host.size(); ++i) host[i] = static_cast<char>(i * 7 + i / kPart);
  const std::vector<char> want = host;
  char* const last = host.data() + 2 * kPart;
  void* ignored = nullptr;
  for (char* const part : {host.data(), last}) {
    ASSERT_EQ(plugin().memory->host_register(device_, part, kPart, &ignored), KEEL_OK) << t_error;
  }
  char* const memory = alloc(host.size());
  ASSERT_EQ(copy(KEEL_COPY_HOST_TO_DEVICE, memory, host.data(), host.size()), KEEL_OK) << t_error;
  std::fill(host.begin(), host.end(), 0);
  ASSERT_EQ(copy(KEEL_COPY_DEVICE_TO_HOST, host.data(), memory, host.size()), KEEL_OK) << t_error;
  ASSERT_EQ(settle(), KEEL_OK) << t_error;
  EXPECT_EQ(host, want);
  for (char* const part : {host.data(), last}) {
    EXPECT_EQ(plugin().memory->host_unregister(device_, part), KEEL_OK) << t_error;
  }
}

class AscendCopyTest : public AscendTest, public ::testing::WithParamInterface<bool> {};

// By the vendor's operator, and without it through pinned memory.
TEST_P(AscendCopyTest, CopiesWithinADeviceHaveAnyAlignment) {
  open("memory_mib=64", [](const OwnSdk& sdk) {
    if (!GetParam()) std::filesystem::remove(sdk.path("libopapi.so"));
  });
  constexpr uint64_t kSize = 1'100'000;
  std::vector<char> host(kSize);
  for (uint64_t i = 0; i < kSize; ++i) host[i] = static_cast<char>(i * 13);
  char* const from = alloc(kSize);
  char* const to = alloc(2 * kSize);
  ASSERT_EQ(copy(KEEL_COPY_HOST_TO_DEVICE, from, host.data(), kSize), KEEL_OK);
  for (const auto& [to_offset, from_offset] :
       {std::pair<uint64_t, uint64_t>{0, 0}, {1, 0}, {64, 63}, {7, 129}}) {
    const uint64_t size = 1'000 + to_offset * 1'000;
    ASSERT_EQ(copy(KEEL_COPY_DEVICE_TO_DEVICE, to + to_offset, from + from_offset, size), KEEL_OK)
        << t_error;
    std::vector<char> back(size);
    ASSERT_EQ(copy(KEEL_COPY_DEVICE_TO_HOST, back.data(), to + to_offset, size), KEEL_OK);
    ASSERT_EQ(settle(), KEEL_OK) << t_error;
    EXPECT_EQ(std::memcmp(back.data(), host.data() + from_offset, size), 0) << from_offset;
  }
}
INSTANTIATE_TEST_SUITE_P(Operators, AscendCopyTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "with" : "without"; });

class AscendExecutorTest : public AscendTest, public ::testing::WithParamInterface<const char*> {};

// Executors are kept where the library has repeatable ones, and made anew where not.
TEST_P(AscendExecutorTest, CallsRepeat) {
  open("memory_mib=64", [](const OwnSdk& sdk) {
    if (*GetParam() != '\0') {
      ASSERT_TRUE(remove_symbol(sdk.path("libnnopbase.so"), GetParam()));
    }
  });
  char* const memory = alloc(4096);
  const keel_tensor x = kit::make_tensor(memory, KEEL_FLOAT32, {16});
  const keel_tensor y = kit::make_tensor(memory + 1024, KEEL_FLOAT32, {16});
  const keel_tensor other = kit::make_tensor(memory + 2048, KEEL_FLOAT32, {16});
  ASSERT_EQ(run(KEEL_OP_FILL, {}, x, {{.f = 1}}), KEEL_OK) << t_error;
  ASSERT_EQ(run(KEEL_OP_FILL, {}, y, {{.f = 3}}), KEEL_OK) << t_error;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(run(KEEL_OP_ADD, {&x, &y}, x, {}), KEEL_OK) << t_error;
    // Calls with other arguments, more than the cache keeps.
    ASSERT_EQ(run(KEEL_OP_SCALE, {&y}, other, {{.f = 1.0 + i}}), KEEL_OK) << t_error;
  }
  std::array<float, 16> back = {};
  ASSERT_EQ(copy(KEEL_COPY_DEVICE_TO_HOST, back.data(), memory, sizeof(back)), KEEL_OK);
  ASSERT_EQ(settle(), KEEL_OK) << t_error;
  EXPECT_EQ(back[15], 3001.0f);
}
INSTANTIATE_TEST_SUITE_P(Libraries, AscendExecutorTest,
                         ::testing::Values("", "aclSetAclOpExecutorRepeatable",
                                           "aclDestroyAclOpExecutor"));

// Counts what the emulated library holds.
class AscendCacheTest : public AscendTest {
 protected:
  struct Executors {
    uint64_t prepared;
    uint64_t live;
  };
  Executors executors() const {
    EXPECT_EQ(settle(), KEEL_OK) << t_error;
    void* const library = dlopen(sdk_->path("libopapi.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
    const auto count = reinterpret_cast<void (*)(uint64_t*, uint64_t*)>(
        dlsym(library, "keel_emulated_aclnn_executors"));
    Executors executors = {};
    count(&executors.prepared, &executors.live);
    return executors;
  }
  // Runs |count| different calls, the same ones for one |first|.
  void run_calls(const keel_tensor& x, int first, int count) {
    for (int i = first; i < first + count; ++i) {
      ASSERT_EQ(run(KEEL_OP_FILL, {}, x, {{.f = static_cast<double>(i)}}), KEEL_OK) << t_error;
    }
  }
  // More calls than a device keeps executors for.
  static constexpr int kMany = 16'000;
};

TEST_F(AscendCacheTest, AStepOfThousandsOfCallsIsPreparedOnce) {
  open();
  const keel_tensor x = kit::make_tensor(alloc(64), KEEL_FLOAT32, {16});
  run_calls(x, 0, 4000);
  const uint64_t prepared = executors().prepared;
  run_calls(x, 0, 4000);
  EXPECT_EQ(executors().prepared, prepared);
}

TEST_F(AscendCacheTest, UnusedExecutorsMakeRoomForOthers) {
  open();
  const keel_tensor x = kit::make_tensor(alloc(64), KEEL_FLOAT32, {16});
  run_calls(x, 0, kMany);
  const uint64_t most = executors().live;
  EXPECT_LT(most, static_cast<uint64_t>(kMany));
  // Another step, until the executors of the first one have gone.
  for (int step = 0; step < 12; ++step) run_calls(x, kMany, 5000);
  const Executors before = executors();
  run_calls(x, kMany, 5000);
  EXPECT_EQ(executors().prepared, before.prepared);
  EXPECT_LE(executors().live, most);
}

TEST_F(AscendCacheTest, DevicesBoundWhatAllStreamsKeep) {
  open();
  const keel_tensor x = kit::make_tensor(alloc(64), KEEL_FLOAT32, {16});
  run_calls(x, 0, kMany);
  const uint64_t most = executors().live;
  keel_plugin_stream* other = nullptr;
  ASSERT_EQ(plugin().stream->create(device_, 0, &other), KEEL_OK) << t_error;
  std::swap(stream_, other);
  run_calls(x, 0, 100);
  EXPECT_LE(executors().live, most + 1);
  std::swap(stream_, other);
  plugin().stream->destroy(other);
  plugin().stream->destroy(stream_);
  ASSERT_EQ(plugin().stream->create(device_, 0, &stream_), KEEL_OK) << t_error;
  EXPECT_EQ(executors().live, 0u);
}

TEST_F(AscendCacheTest, AnExecutorWithoutRoomForItsWorkspaceIsGivenBack) {
  open("memory_mib=1");
  const keel_tensor x = kit::make_tensor(alloc(4096), KEEL_FLOAT32, {4, 4});
  run_calls(x, 0, kMany);
  void* filler = nullptr;
  for (uint64_t size = 1 << 20; size >= 64; size /= 2) {
    while (plugin().memory->alloc(device_, KEEL_MEMORY_DEVICE, size, 0, &filler) == KEEL_OK) {
      memory_.push_back(filler);
    }
  }
  const Call sum(KEEL_OP_SUM, {&x}, {kit::make_tensor(x.data, KEEL_FLOAT32, {4})}, {{.i = 0}});
  const uint64_t live = executors().live;
  EXPECT_EQ(plugin().op->run(stream_, &sum.call, nullptr), KEEL_OUT_OF_MEMORY) << t_error;
  EXPECT_EQ(executors().live, live);
}

TEST_F(AscendTest, AWorkspaceThatDoesNotFitIsOutOfMemory) {
  open("memory_mib=1");
  char* const memory = alloc((1 << 20) - 8192);
  const keel_tensor a = kit::make_tensor(memory, KEEL_FLOAT32, {4, 4});
  char* const rest = alloc(4096);
  const keel_tensor c = kit::make_tensor(rest, KEEL_FLOAT32, {4, 4});
  ASSERT_EQ(run(KEEL_OP_FILL, {}, a, {{.f = 1}}), KEEL_OK) << t_error;
  // A product of one call has no temporaries; the workspace is the library's.
  const Call product(KEEL_OP_MATMUL, {&a, &a, nullptr}, {c},
                     {{.i = 0}, {.i = 0}, {.f = 1}, {.f = 0}, {.i = 0}});
  keel_status status = KEEL_OK;
  std::vector<void*> filler;
  // Takes what is left, so that no workspace fits.
  void* pointer = nullptr;
  for (uint64_t size = 1 << 16; size >= 64; size /= 2) {
    while (plugin().memory->alloc(device_, KEEL_MEMORY_DEVICE, size, 0, &pointer) == KEEL_OK) {
      filler.push_back(pointer);
    }
  }
  status = plugin().op->run(stream_, &product.call, nullptr);
  EXPECT_EQ(status, KEEL_OUT_OF_MEMORY) << t_error;
  for (void* each : filler) plugin().memory->free(device_, KEEL_MEMORY_DEVICE, each);
  ASSERT_EQ(plugin().op->run(stream_, &product.call, nullptr), KEEL_OK) << t_error;
  std::array<float, 16> back = {};
  ASSERT_EQ(copy(KEEL_COPY_DEVICE_TO_HOST, back.data(), rest, sizeof(back)), KEEL_OK);
  ASSERT_EQ(settle(), KEEL_OK) << t_error;
  EXPECT_EQ(back[0], 4.0f);
}

// A host function that the library calls after its stream has ended, and even its device, touches
// neither the caller's memory nor that of a later copy.
TEST_F(AscendTest, LateHostFunctionsTouchNothing) {
  open("memory_mib=64 late_callbacks=1");
  void* const library = dlopen(sdk_->path("libascendcl.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
  const auto call_back =
      reinterpret_cast<void (*)()>(dlsym(library, "keel_emulated_acl_call_back"));
  ASSERT_NE(call_back, nullptr);
  constexpr uint64_t kSize = 5000;
  char* const memory = alloc(kSize);
  const auto download = [&](std::vector<char>* to) {
    ASSERT_EQ(copy(KEEL_COPY_DEVICE_TO_HOST, to->data(), memory, kSize), KEEL_OK) << t_error;
    ASSERT_EQ(settle(), KEEL_OK) << t_error;
  };
  const char byte = 3;
  ASSERT_EQ(plugin().stream->fill(stream_, memory, &byte, 1, kSize), KEEL_OK) << t_error;
  std::vector<char> first(kSize, 7);
  download(&first);
  plugin().stream->destroy(stream_);
  ASSERT_EQ(plugin().stream->create(device_, 0, &stream_), KEEL_OK) << t_error;
  // The block of the first copy serves the second, whose function is not called yet either.
  std::vector<char> second(kSize, 8);
  download(&second);
  call_back();
  EXPECT_EQ(first, std::vector<char>(kSize, 7));
  EXPECT_EQ(second, std::vector<char>(kSize, 3));
  std::vector<char> third(kSize, 9);
  download(&third);
  close();
  call_back();
  EXPECT_EQ(third, std::vector<char>(kSize, 9));
}

TEST_F(AscendTest, ALostDeviceSaysSoFromThenOn) {
  open("memory_mib=64 faults=lose:fill@1");
  char* const memory = alloc(64);
  const char byte = 0;
  ASSERT_EQ(plugin().stream->fill(stream_, memory, &byte, 1, 64), KEEL_OK);
  EXPECT_EQ(settle(), KEEL_DEVICE_LOST);
  EXPECT_NE(t_error.find("error 507010"), std::string::npos) << t_error;
  void* pointer = nullptr;
  EXPECT_EQ(plugin().memory->alloc(device_, KEEL_MEMORY_DEVICE, 64, 0, &pointer), KEEL_DEVICE_LOST);
}

TEST_F(AscendTest, AFailureOfAnOperatorStaysWithItsStream) {
  open("memory_mib=64 faults=fail:op@1");
  char* const memory = alloc(4096);
  const keel_tensor x = kit::make_tensor(memory, KEEL_FLOAT32, {16});
  ASSERT_EQ(run(KEEL_OP_FILL, {}, x, {{.f = 1}}), KEEL_OK);
  EXPECT_EQ(settle(), KEEL_INTERNAL);
  plugin().stream->destroy(stream_);
  ASSERT_EQ(plugin().stream->create(device_, 0, &stream_), KEEL_OK) << t_error;
  ASSERT_EQ(run(KEEL_OP_FILL, {}, x, {{.f = 1}}), KEEL_OK);
  EXPECT_EQ(settle(), KEEL_OK);
}

TEST_F(AscendTest, IdsAreOf4108BytesAndNotShorter) {
  open();
  const keel_ccl_table& ccl = *plugin().ccl;
  std::vector<char> id(8192);
  uint64_t size = 100;
  EXPECT_EQ(ccl.unique_id(device_, id.data(), &size), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(size, HCCL_ROOT_INFO_BYTES);
  size = id.size();
  ASSERT_EQ(ccl.unique_id(device_, id.data(), &size), KEEL_OK) << t_error;
  ASSERT_EQ(size, HCCL_ROOT_INFO_BYTES);
  keel_plugin_comm* comm = nullptr;
  EXPECT_EQ(ccl.init_rank(device_, id.data(), size - 1, 0, 1, 0, &comm), KEEL_INVALID_ARGUMENT);
  std::vector<char> cut = id;
  std::memset(cut.data() + 200, 0, cut.size() - 200);
  EXPECT_EQ(ccl.init_rank(device_, cut.data(), size, 0, 1, 0, &comm), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(t_error.find("HcclCommInitRootInfo"), std::string::npos) << t_error;
  ASSERT_EQ(ccl.init_rank(device_, id.data(), size, 0, 1, 0, &comm), KEEL_OK) << t_error;
  ccl.destroy(comm);
}

TEST_F(AscendTest, ReductionsAreAskedForByDtype) {
  open();
  const auto can = [&](keel_collective collective, keel_dtype dtype, keel_reduction reduction) {
    return plugin().ccl->capability(instance_->get(), collective, dtype, reduction) == KEEL_OK;
  };
  EXPECT_TRUE(can(KEEL_ALL_REDUCE, KEEL_BFLOAT16, KEEL_SUM));
  EXPECT_FALSE(can(KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_AVG));
  EXPECT_FALSE(can(KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_PREMUL_SUM));
  EXPECT_FALSE(can(KEEL_ALL_REDUCE, KEEL_INT64, KEEL_SUM));
  for (const keel_collective collective : {KEEL_ALL_REDUCE, KEEL_REDUCE, KEEL_REDUCE_SCATTER}) {
    for (const keel_dtype dtype : {KEEL_INT8, KEEL_INT32, KEEL_FLOAT16, KEEL_FLOAT32}) {
      EXPECT_TRUE(can(collective, dtype, KEEL_PROD)) << dtype;
    }
    for (const keel_dtype dtype : {KEEL_INT16, KEEL_BFLOAT16}) {
      EXPECT_TRUE(can(collective, dtype, KEEL_MAX)) << dtype;
      EXPECT_FALSE(can(collective, dtype, KEEL_PROD)) << dtype;
    }
  }
  EXPECT_TRUE(can(KEEL_ALL_GATHER, KEEL_INT64, KEEL_SUM));
  EXPECT_FALSE(can(KEEL_ALL_GATHER, KEEL_FLOAT8_E5M2, KEEL_SUM));
  EXPECT_EQ(plugin().ccl->abort, nullptr);
}

}  // namespace
}  // namespace keel::testing
