// SPDX-License-Identifier: Apache-2.0
// The HIP backend on the emulated chip, through keel.h: unusable runtimes, and failures as seen by
// a framework.
#include "backends/hip/testing/hip_test.h"

#include <dlfcn.h>
#include <elf.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <keel/plugin_kit.hpp>
#include <string>
#include <vector>

namespace keel::testing {
namespace {

class HipTest : public HipFixture {
 protected:
  static std::string reason_of(const std::string& settings) {
    return reason(OwnRuntime(settings).folder());
  }
  // Enqueues values + values, by a kernel of the plugin's.
  static keel_status add(keel_stream stream, void* memory) {
    const keel_tensor values = kit::make_tensor(memory, KEEL_FLOAT32, {64});
    const keel_tensor* const both[] = {&values, &values};
    auto call = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
    call.op = KEEL_OP_ADD;
    call.input_count = 2;
    call.inputs = both;
    call.output_count = 1;
    call.outputs = both;
    return keel_op_run(stream, &call);
  }
  // The number of families that the emulated compiler has compiled.
  static uint64_t compiled(const OwnRuntime& runtime) {
    void* const library = dlopen(runtime.runtime().c_str(), RTLD_NOW | RTLD_NOLOAD);
    const auto counter = reinterpret_cast<uint64_t (*)()>(
        library == nullptr ? nullptr : dlsym(library, "keel_emulated_hip_compiled"));
    return counter == nullptr ? ~uint64_t{0} : counter();
  }
  static std::string kernels() {
    std::ifstream file(KEEL_TEST_KERNELS, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

// ---- runtimes ----------------------------------------------------------------

TEST_F(HipTest, WithoutARuntimeTheReasonIsSaid) {
  const std::string why = reason("/nowhere/at/all");
  EXPECT_HAS(why, "no HIP runtime");
  EXPECT_HAS(why, "/nowhere/at/all/libamdhip64.so.5");
}

TEST_F(HipTest, AFileThatIsNoLibraryIsNamed) {
  const OwnRuntime runtime;
  std::ofstream(runtime.runtime()) << "no library";
  EXPECT_HAS(reason(runtime.folder()), "no HIP runtime");
}

TEST_F(HipTest, ALibraryOfSomethingElseIsUnusable) {
  const OwnRuntime runtime("", KEEL_TEST_KERNELS);
  EXPECT_HAS(reason(runtime.folder()),
             "unusable HIP runtime: symbol missing: hipRuntimeGetVersion");
}

TEST_F(HipTest, ARuntimeThatIsTooOldIsNotUsed) {
  const std::string why = reason_of("version=50120532");
  EXPECT_HAS(why, "of HIP 5.1, too old");
  EXPECT_HAS(why, "5.2");
}

TEST_F(HipTest, AMissingSymbolIsNamed) {
  const OwnRuntime runtime("", KEEL_EMULATED_HIP_BARE);
  EXPECT_HAS(reason(runtime.folder()), "symbols missing: hipMemsetD16Async");
}

TEST_F(HipTest, ARuntimeWithoutGpuSaysSo) {
  EXPECT_HAS(reason_of("devices=0"), "hipInit: hipErrorNoDevice: no ROCm-capable device");
  EXPECT_HAS(reason_of("init=999"), "hipInit: hipErrorUnknown");
}

TEST_F(HipTest, TheFolderComesFromTheEnvironment) {
  const OwnRuntime runtime("devices=3");
  setenv("KEEL_HIP_LIBRARY_FOLDER", runtime.folder().c_str(), 1);
  EXPECT_EQ(load("hip").size(), 3u);
  setenv("KEEL_HIP_LIBRARY_FOLDER", "/nowhere/at/all", 1);
  EXPECT_EQ(load_hip(runtime).size(), 3u) << "a setting goes first";
  unsetenv("KEEL_HIP_LIBRARY_FOLDER");
}

TEST_F(HipTest, ADeviceIsDescribed) {
  const OwnRuntime runtime("devices=2 memory_mib=64");
  const auto devices = load_hip(runtime);
  ASSERT_EQ(devices.size(), 2u);
  const keel_device_info first = info(devices[0]);
  const keel_device_info second = info(devices[1]);
  EXPECT_STREQ(first.name, "Emulated GPU");
  EXPECT_STREQ(first.architecture, "gfx90a:sramecc+:xnack-");
  EXPECT_HAS(std::string(first.driver), "HIP 5.2, " + runtime.folder());
  EXPECT_STREQ(second.pci_address, "fff9:01:00.0");
  EXPECT_NE(std::string(first.uuid, first.uuid + 16), std::string(second.uuid, second.uuid + 16));
  EXPECT_EQ(first.memory_bytes, uint64_t{64} << 20);
  EXPECT_NE(first.capabilities & KEEL_CAPABILITY_OPS, 0u);
  EXPECT_EQ(first.capabilities & KEEL_CAPABILITY_CCL, 0u);
  const OwnRuntime narrow("warp=32");
  EXPECT_STREQ(info(load_hip(narrow).at(0)).architecture, "gfx1030");
}

// ---- code for the device's architecture ------------------------------------------

TEST_F(HipTest, WithoutCodeForTheArchitectureNoOperatorIsClaimed) {
  const OwnRuntime runtime("architecture=gfx90a version=60000000");
  std::vector<keel_device> devices;
  const std::string log = log_of([&] { devices = load_hip(runtime); });
  EXPECT_EQ(info(devices.at(0)).capabilities & KEEL_CAPABILITY_OPS, 0u);
  EXPECT_HAS(log, "hipErrorNoBinaryForGpu");
  EXPECT_HAS(log, "no code for gfx90a; with KEEL_HIPRTC=1 the plugin compiles the kernels");
  EXPECT_EQ(compiled(runtime), 0u);
  expect_works(devices[0]);
}

TEST_F(HipTest, KernelsAreCompiledWhenAskedFor) {
  const OwnRuntime runtime("devices=2 architecture=gfx942 version=60000000");
  setenv("KEEL_HIPRTC", "1", 1);
  const auto devices = load_hip(runtime);
  EXPECT_NE(info(devices.at(0)).capabilities & KEEL_CAPABILITY_OPS, 0u);
  const uint64_t families = compiled(runtime);
  EXPECT_GT(families, 0u);
  for (const keel_device device : {devices[0], devices.at(1)}) {
    const keel_stream stream = new_stream(device);
    void* const memory = alloc_filled(device, std::vector<uint32_t>(64, 0x3fc00000));  // 1.5
    ASSERT_KEEL_OK(add(stream, memory));
    ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    EXPECT_EQ(read(device, memory, 64), std::vector<uint32_t>(64, 0x40400000));
  }
  EXPECT_EQ(compiled(runtime), families) << "once for the process";
  unsetenv("KEEL_HIPRTC");
}

// The compiler ends the process at an architecture that it does not know, as does the emulated one.
TEST_F(HipTest, AnUnknownArchitectureIsNotCompiledFor) {
  setenv("KEEL_HIPRTC", "1", 1);
  for (const char* const settings :
       {"architecture=gfx1234 version=60000000", "architecture=gfx942 version=50721153"}) {
    const OwnRuntime runtime(settings);
    std::vector<keel_device> devices;
    const std::string log = log_of([&] { devices = load_hip(runtime); });
    EXPECT_EQ(info(devices.at(0)).capabilities & KEEL_CAPABILITY_OPS, 0u) << settings;
    EXPECT_HAS(log, "is not on the list of what this runtime's compiler knows");
    EXPECT_EQ(compiled(runtime), 0u);
    expect_works(devices[0]);
  }
  unsetenv("KEEL_HIPRTC");
}

TEST_F(HipTest, AFailedCompilationIsNamed) {
  const OwnRuntime runtime("architecture=gfx908 hiprtc=6");
  setenv("KEEL_HIPRTC", "1", 1);
  std::vector<keel_device> devices;
  const std::string log = log_of([&] { devices = load_hip(runtime); });
  unsetenv("KEEL_HIPRTC");
  EXPECT_EQ(info(devices.at(0)).capabilities & KEEL_CAPABILITY_OPS, 0u);
  EXPECT_HAS(log, "hiprtcCompileProgram of ");
  EXPECT_HAS(log, "HIPRTC_ERROR_COMPILATION: error: as the settings say");
}

// ---- the current device --------------------------------------------------------

// Each call selects its device; the thread of the caller keeps its own.
TEST_F(HipTest, WorkOfTwoDevicesOnOneThreadDoesNotMix) {
  const OwnRuntime runtime("devices=2 memory_mib=64");
  const auto devices = load_hip(runtime);
  void* const first = alloc_filled(devices.at(0), {1, 2, 3});
  void* const second = alloc_filled(devices.at(1), {4, 5, 6});
  const keel_stream stream = new_stream(devices[1]);
  ASSERT_KEEL_OK(keel_copy(stream, devices[1], second, devices[0], first, 8));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(devices[1], second, 3), (std::vector<uint32_t>{1, 2, 6}));
  EXPECT_EQ(read(devices[0], first, 3), (std::vector<uint32_t>{1, 2, 3}));
}

// ---- failures ------------------------------------------------------------------

TEST_F(HipTest, AFullDeviceRefusesAndGoesOn) {
  const OwnRuntime runtime("memory_mib=16");
  const keel_device device = load_hip(runtime).at(0);
  void* memory = nullptr;
  EXPECT_FAILS(KEEL_OUT_OF_MEMORY, "hipMalloc: hipErrorOutOfMemory",
               keel_alloc(device, KEEL_MEMORY_DEVICE, 1 << 30, &memory));
  EXPECT_NE(alloc(device, 1 << 20), nullptr);
  expect_works(device);
}

TEST_F(HipTest, ADeviceIsLostWithMuchInFlight) {
  const OwnRuntime runtime("devices=2 faults=0/lose:copy@40");
  const auto devices = load_hip(runtime);
  const keel_stream stream = new_stream(devices.at(0));
  void* const memory = alloc(devices[0], 4096);
  const std::vector<uint32_t> words = pattern(1024, 1);
  for (int i = 0; i < 64; ++i) {
    const keel_status sent = keel_copy(stream, devices[0], memory, KEEL_HOST, words.data(), 4096);
    ASSERT_TRUE(sent == KEEL_OK || sent == KEEL_DEVICE_LOST) << sent;
  }
  EXPECT_FAILS(KEEL_DEVICE_LOST, "hipErrorECCNotCorrectable",
               keel_stream_synchronize(stream, kTestTimeout));
  void* more = nullptr;
  EXPECT_EQ(keel_alloc(devices[0], KEEL_MEMORY_DEVICE, 64, &more), KEEL_DEVICE_LOST);
  auto health = KEEL_STRUCT_INIT(keel_device_health, KEEL_STRUCT_DEVICE_HEALTH);
  EXPECT_KEEL_OK(keel_device_health_get(devices[0], &health));
  EXPECT_EQ(health.ok, 0u);
  expect_works(devices.at(1));
}

TEST_F(HipTest, AKernelThatTrapsLosesTheDevice) {
  const OwnRuntime runtime("devices=2 faults=0/fail:op@1");
  const auto devices = load_hip(runtime);
  const keel_stream stream = new_stream(devices.at(0));
  const keel_stream bystander = new_stream(devices[0]);
  ASSERT_KEEL_OK(add(stream, alloc(devices[0], 256)));
  EXPECT_FAILS(KEEL_DEVICE_LOST, "hipErrorLaunchFailure",
               keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(keel_stream_synchronize(bystander, kTestTimeout), KEEL_DEVICE_LOST);
  const keel_stream other = new_stream(devices.at(1));
  EXPECT_KEEL_OK(add(other, alloc_filled(devices[1], std::vector<uint32_t>(64, 0))));
  EXPECT_KEEL_OK(keel_stream_synchronize(other, kTestTimeout));
}

TEST_F(HipTest, BinariesOfOtherArchitecturesAreRefused) {
  const OwnRuntime runtime;
  const keel_device device = load_hip(runtime).at(0);
  Elf64_Ehdr code_object = {};
  std::memcpy(code_object.e_ident, ELFMAG, SELFMAG);
  code_object.e_ident[EI_CLASS] = ELFCLASS64;
  code_object.e_ident[EI_DATA] = ELFDATA2LSB;
  code_object.e_machine = 224;  // EM_AMDGPU
  const auto load = [&](const void* data, size_t size) {
    keel_module module = {};
    return keel_module_load(device, KEEL_BINARY_HSACO, data, size, &module);
  };
  EXPECT_FAILS(KEEL_UNSUPPORTED, "hipErrorNoBinaryForGpu", load(&code_object, sizeof(code_object)));
  code_object.e_machine = 190;  // EM_CUDA
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "for another machine",
               load(&code_object, sizeof(code_object)));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "no code object", load("text", 4));
  // A bundle of one entry, for an architecture that is not here, whole and cut short.
  std::string bundle = "__CLANG_OFFLOAD_BUNDLE__";
  const auto put = [&](uint64_t value) {
    bundle.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const std::string name = "hipv4-amdgcn-amd-amdhsa--gfx803";
  put(1);
  put(bundle.size() + 24 + name.size());
  put(4);
  put(name.size());
  bundle += name + "code";
  EXPECT_FAILS(KEEL_UNSUPPORTED, "hipErrorNoBinaryForGpu", load(bundle.data(), bundle.size()));
  for (const size_t size : {bundle.size() - 1, size_t{40}, size_t{26}}) {
    EXPECT_EQ(load(bundle.data(), size), KEEL_INVALID_ARGUMENT) << size;
  }
  const std::string image = kernels();
  EXPECT_EQ(load(image.data(), image.size() / 2), KEEL_INVALID_ARGUMENT);
  keel_module module = {};
  EXPECT_KEEL_OK(keel_module_load(device, KEEL_BINARY_HSACO, image.data(), image.size(), &module));
  EXPECT_KEEL_OK(keel_module_unload(module));
  expect_works(device);
}

}  // namespace
}  // namespace keel::testing
