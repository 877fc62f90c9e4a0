// SPDX-License-Identifier: Apache-2.0
// The CUDA backend on the emulated chip, through keel.h: unusable drivers, and failures as seen by
// a framework.
#include "backends/cuda/testing/cuda_test.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <keel/plugin_kit.hpp>
#include <string>
#include <thread>
#include <vector>

namespace keel::testing {
namespace {

class CudaTest : public CudaFixture {
 protected:
  static std::string reason_of(const std::string& settings) {
    return reason(OwnDriver(settings).folder());
  }
  static keel_device_info info(keel_device device) {
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    EXPECT_KEEL_OK(keel_device_info_get(device, &info));
    return info;
  }
};

// ---- drivers -----------------------------------------------------------------

TEST_F(CudaTest, NoDriver) {
  const std::string why = reason("/nowhere/at/all");
  EXPECT_HAS(why, "no CUDA driver");
  EXPECT_HAS(why, "/nowhere/at/all/libcuda.so.1");
}

TEST_F(CudaTest, ALibraryThatIsNoDriver) {
  const OwnDriver driver;
  std::ofstream(driver.folder() + "/libcuda.so.1") << "no library";
  EXPECT_HAS(reason(driver.folder()), "no CUDA driver");
}

TEST_F(CudaTest, ADriverThatIsTooOld) {
  const std::string why = reason_of("version=11080");
  EXPECT_HAS(why, "for CUDA 11.8, too old");
  EXPECT_HAS(why, "12.0");
}

TEST_F(CudaTest, MissingSymbolsAreNamed) {
  EXPECT_HAS(reason_of("missing=cuMemAlloc,cuLaunchKernel"),
             "symbols missing: cuLaunchKernel, cuMemAlloc");
}

TEST_F(CudaTest, WhatTheDriverSays) {
  EXPECT_HAS(reason_of("devices=0"), "cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device");
  EXPECT_HAS(reason_of("init=802"), "cuInit: CUDA_ERROR_SYSTEM_NOT_READY: ");
  EXPECT_HAS(reason_of("init=998"), "cuInit: error 998");
}

TEST_F(CudaTest, AnUnknownSettingIsRefusedAndNamed) {
  const char* const key = "folder";
  const char* const value = "/";
  auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  settings.count = 1;
  settings.keys = &key;
  settings.values = &value;
  uint32_t backend = 0;
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "'folder'",
               keel_plugin_load(plugin_path("cuda").c_str(), &settings, nullptr, &backend));
}

TEST_F(CudaTest, TheFolderFromTheEnvironment) {
  const OwnDriver driver("devices=3");
  setenv("KEEL_CUDA_LIBRARY_FOLDER", driver.folder().c_str(), 1);
  EXPECT_EQ(load("cuda").size(), 3u);
  setenv("KEEL_CUDA_LIBRARY_FOLDER", "/nowhere/at/all", 1);
  EXPECT_EQ(load_cuda(driver).size(), 3u) << "a setting goes first";
  unsetenv("KEEL_CUDA_LIBRARY_FOLDER");
}

TEST_F(CudaTest, WhatADeviceIs) {
  const OwnDriver driver("devices=2 memory_mib=64");
  const auto devices = load_cuda(driver);
  ASSERT_EQ(devices.size(), 2u);
  const keel_device_info first = info(devices[0]);
  const keel_device_info second = info(devices[1]);
  EXPECT_STREQ(first.name, "Emulated GPU");
  EXPECT_STREQ(first.architecture, "sm_00");
  EXPECT_HAS(std::string(first.driver), "CUDA 13.0, " + driver.folder());
  EXPECT_STREQ(first.pci_address, "fffe:00:00.0");
  EXPECT_STREQ(second.pci_address, "fffe:01:00.0");
  EXPECT_NE(std::string(first.uuid, first.uuid + 16), std::string(second.uuid, second.uuid + 16));
  EXPECT_EQ(first.type, keel_device_type{KEEL_DEVICE_GPU});
  EXPECT_EQ(first.numa_node, -1);
  EXPECT_EQ(first.memory_bytes, uint64_t{64} << 20);
  EXPECT_EQ(first.capabilities & (KEEL_CAPABILITY_CCL | KEEL_CAPABILITY_NOTIFY), 0u);
  uint64_t free = 0;
  uint64_t total = 0;
  EXPECT_KEEL_OK(keel_device_memory_info(devices[1], &free, &total));
  EXPECT_EQ(total, uint64_t{64} << 20);
  EXPECT_EQ(free, total);
}

// ---- failures ------------------------------------------------------------------

TEST_F(CudaTest, OutOfMemory) {
  const OwnDriver driver("memory_mib=16");
  const keel_device device = load_cuda(driver).at(0);
  void* memory = nullptr;
  EXPECT_FAILS(KEEL_OUT_OF_MEMORY, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY",
               keel_alloc(device, KEEL_MEMORY_DEVICE, 1 << 30, &memory));
  EXPECT_NE(alloc(device, 1 << 20), nullptr);
}

TEST_F(CudaTest, ARefusalHasNoEffect) {
  const OwnDriver driver("faults=refuse:copy@2");
  const keel_device device = load_cuda(driver).at(0);
  void* memory = alloc_filled(device, {7});  // copy 1
  const keel_stream stream = new_stream(device);
  uint32_t word = 8;
  EXPECT_FAILS(KEEL_UNAVAILABLE, "cuMemcpyHtoDAsync: CUDA_ERROR_SYSTEM_NOT_READY",
               keel_copy(stream, device, memory, KEEL_HOST, &word, 4));
  EXPECT_EQ(read(device, memory, 1), std::vector<uint32_t>{7});
}

// Every waiter receives the failure, on every path, and the failure persists.
TEST_F(CudaTest, AFailureTakesTheDeviceAlong) {
  const OwnDriver driver("devices=2 faults=0/fail:fill@20");
  const auto devices = load_cuda(driver);
  const keel_device lost = devices.at(0);
  const keel_device healthy = devices.at(1);
  const keel_stream stream = new_stream(lost);
  const keel_stream follower = new_stream(lost);
  const keel_stream foreign = new_stream(healthy);
  const keel_stream unharmed = new_stream(healthy);
  void* memory = alloc(lost, 64);
  void* there = alloc_filled(healthy, {1, 2});
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate));
  for (uint32_t i = 0; i < 30; ++i) ASSERT_KEEL_OK(fill(stream, memory, i, 16));
  const keel_event event = record(stream);
  ASSERT_KEEL_OK(keel_stream_wait_event(follower, event));
  ASSERT_KEEL_OK(fill(follower, memory, 99, 1));
  ASSERT_KEEL_OK(keel_stream_wait_event(foreign, event));
  ASSERT_KEEL_OK(fill(foreign, there, 99, 1));
  std::vector<std::thread> waiters;
  waiters.emplace_back([&] { EXPECT_EQ(keel_event_wait(event, kTestTimeout), KEEL_DEVICE_LOST); });
  for (keel_stream each : {stream, follower, foreign}) {
    waiters.emplace_back([each] {
      EXPECT_FAILS(KEEL_DEVICE_LOST, "CUDA_ERROR_LAUNCH_FAILED",
                   keel_stream_synchronize(each, kTestTimeout));
    });
  }
  waiters.emplace_back(
      [&] { EXPECT_EQ(keel_device_synchronize(lost, kTestTimeout), KEEL_DEVICE_LOST); });
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  for (std::thread& waiter : waiters) waiter.join();

  void* more = nullptr;
  keel_stream another = {};
  EXPECT_FAILS(KEEL_DEVICE_LOST, "CUDA_ERROR_LAUNCH_FAILED",
               keel_alloc(lost, KEEL_MEMORY_PINNED, 8, &more));
  EXPECT_FAILS(KEEL_DEVICE_LOST, "CUDA_ERROR_LAUNCH_FAILED", keel_stream_create(lost, 0, &another));
  EXPECT_EQ(fill(stream, memory, 1, 1), KEEL_DEVICE_LOST);
  EXPECT_EQ(keel_event_query(event), KEEL_DEVICE_LOST);
  // The other device continues.
  ASSERT_KEEL_OK(fill(unharmed, there, 5, 2));
  ASSERT_KEEL_OK(keel_stream_synchronize(unharmed, kTestTimeout));
  EXPECT_EQ(read(healthy, there, 2), (std::vector<uint32_t>{5, 5}));
  EXPECT_KEEL_OK(keel_free(lost, memory));

  // After all users have released the context the device works again.
  ASSERT_KEEL_OK(keel_shutdown());
  SetUp();
  const keel_device again = load_cuda(driver).at(0);
  EXPECT_EQ(read(again, alloc_filled(again, {3, 4}), 2), (std::vector<uint32_t>{3, 4}));
}

TEST_F(CudaTest, ErrorsOfAChipThatIsLost) {
  const OwnDriver driver("faults=lose:copy@1");
  const keel_device device = load_cuda(driver).at(0);
  const keel_stream stream = new_stream(device);
  void* memory = alloc(device, 64);
  const uint32_t word = 1;
  ASSERT_KEEL_OK(keel_copy(stream, device, memory, KEEL_HOST, &word, 4));
  EXPECT_FAILS(KEEL_DEVICE_LOST, "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error",
               keel_stream_synchronize(stream, kTestTimeout));
}

// ---- memory and modules ------------------------------------------------------------

TEST_F(CudaTest, HostMemoryIsRegisteredForEachDevice) {
  const OwnDriver driver("devices=2");
  const auto devices = load_cuda(driver);
  std::vector<uint32_t> words(4096, 7);
  const uint64_t bytes = words.size() * sizeof(uint32_t);
  for (int round = 0; round < 2; ++round) {
    for (const keel_device device : devices) {
      ASSERT_KEEL_OK(keel_host_register(device, words.data(), bytes));
    }
    ASSERT_KEEL_OK(keel_host_unregister(devices[0], words.data()));
    // The other device's registration is still valid.
    const keel_stream stream = new_stream(devices[1]);
    void* memory = alloc(devices[1], bytes);
    ASSERT_KEEL_OK(keel_copy(stream, devices[1], memory, KEEL_HOST, words.data(), bytes));
    ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    EXPECT_EQ(read(devices[1], memory, words.size()), words);
    ASSERT_KEEL_OK(keel_host_unregister(devices[1], words.data()));
  }
}

TEST_F(CudaTest, ModulesForOtherChipsAreNoneForThisOne) {
  const OwnDriver driver;
  const keel_device device = load_cuda(driver).at(0);
  keel_module module = {};
  const std::string ptx = "// for a GPU\n.version 8.0\n.target sm_75\n";
  EXPECT_FAILS(KEEL_UNSUPPORTED, "the emulated GPU runs code for the host",
               keel_module_load(device, KEEL_BINARY_CUBIN, ptx.data(), ptx.size(), &module));
  EXPECT_FAILS(KEEL_UNSUPPORTED, "KEEL_BINARY_CUBIN",
               keel_module_load(device, KEEL_BINARY_SPIRV, ptx.data(), ptx.size(), &module));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "no ELF file, fat binary or PTX",
               keel_module_load(device, KEEL_BINARY_CUBIN, "rubbish", 7, &module));
}

// ---- operators -----------------------------------------------------------------

// Whether the device runs an addition with its own kernel.
bool has_own_add(keel_device device) {
  const keel_tensor tensor = kit::make_tensor(nullptr, KEEL_FLOAT32, {5});
  const keel_tensor* const inputs[] = {&tensor, &tensor};
  const keel_tensor* const outputs[] = {&tensor};
  auto call = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
  call.op = KEEL_OP_ADD;
  call.input_count = 2;
  call.output_count = 1;
  call.inputs = inputs;
  call.outputs = outputs;
  auto plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
  const keel_status status = keel_op_plan_get(device, &call, &plan);
  if (status == KEEL_UNSUPPORTED) return false;  // nor does any other device, without a CPU
  EXPECT_KEEL_OK(status);
  return status == KEEL_OK && plan.fallback == 0;
}

TEST_F(CudaTest, OperatorsHaveKernels) {
  const OwnDriver driver;
  const keel_device device = load_cuda(driver).at(0);
  if (!std::filesystem::exists(driver.kernels())) {
    EXPECT_EQ(info(device).capabilities & KEEL_CAPABILITY_OPS, 0u);
    EXPECT_FALSE(has_own_add(device));
    GTEST_SKIP() << "the plugin was built without nvcc";
  }
  EXPECT_NE(info(device).capabilities & KEEL_CAPABILITY_OPS, 0u);
  EXPECT_TRUE(has_own_add(device));
}

// The emulated driver runs only kernels of the exact image, and refuses images of other builds.
TEST_F(CudaTest, KernelsOfAnotherBuildAreRefused) {
  const OwnDriver driver;
  if (!std::filesystem::exists(driver.kernels())) GTEST_SKIP() << "built without nvcc";
  const std::filesystem::path original = std::filesystem::read_symlink(driver.kernels());
  std::filesystem::remove(driver.kernels());
  std::filesystem::copy_file(original, driver.kernels());
  std::fstream file(driver.kernels(), std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t image = bytes.find("\x50\xed\x55\xba\x01");
  ASSERT_NE(image, std::string::npos) << "there is no fat binary in " << original;
  const size_t within = image + 200;
  file.clear();
  file.seekp(static_cast<std::streamoff>(within));
  file.put(static_cast<char>(bytes[within] ^ 1));
  file.close();
  EXPECT_FALSE(has_own_add(load_cuda(driver).at(0)));
}

// Determined before the device is opened: a reported but missing capability would fail conformance.
TEST_F(CudaTest, KernelsThatTheDriverIsTooOldForAreNotClaimed) {
  static std::vector<std::string>& lines = *new std::vector<std::string>;
  lines.clear();
  ASSERT_KEEL_OK(keel_set_log(
      KEEL_LOG_WARNING, [](void*, keel_log_level, const char* text) { lines.push_back(text); },
      nullptr));
  const OwnDriver driver("version=12040 image=222");
  const auto devices = load_cuda(driver);
  ASSERT_FALSE(devices.empty());
  for (const keel_device device : devices) {
    EXPECT_EQ(info(device).capabilities & KEEL_CAPABILITY_OPS, 0u);
    EXPECT_FALSE(has_own_add(device));
    EXPECT_NE(alloc(device, 64), nullptr) << "all else is there";
  }
  ASSERT_KEEL_OK(keel_set_log(KEEL_LOG_WARNING, nullptr, nullptr));
  if (!std::filesystem::exists(driver.kernels())) GTEST_SKIP() << "built without nvcc";
  const auto told = std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("CUDA_ERROR_UNSUPPORTED_PTX_VERSION") != std::string::npos;
  });
  EXPECT_EQ(told, 1);
}

// A driver older than 12.4 does not report kernel parameters.
TEST_F(CudaTest, AnOlderDriver) {
  const OwnDriver driver("version=12000");
  const auto devices = load_cuda(driver);
  ASSERT_FALSE(devices.empty());
  EXPECT_HAS(std::string(info(devices[0]).driver), "CUDA 12.0, ");
}

}  // namespace
}  // namespace keel::testing
