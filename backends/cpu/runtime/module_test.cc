// SPDX-License-Identifier: Apache-2.0
// User kernels through the ABI.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <thread>

#include "backends/cpu/testing/plugin_fixture.h"

namespace keel::cpu::testing {
namespace {

using Bytes = std::vector<char>;

Bytes read_binary(const char* name) {
  const auto tests = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::ifstream file(tests / "kernels" / (std::string(name) + ".so"), std::ios::binary);
  Bytes bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_FALSE(bytes.empty()) << name;
  return bytes;
}

const keel_kernel_table& kernels() {
  return *plugin().kernel;
}

keel_status load(keel_plugin_device* device, const Bytes& binary, keel_plugin_module** out_module) {
  return kernels().load(device, KEEL_BINARY_SHARED_OBJECT, binary.data(), binary.size(),
                        out_module);
}

class ModuleHandle {
 public:
  ModuleHandle(keel_plugin_device* device, const char* name) {
    EXPECT_EQ(load(device, read_binary(name), &module_), KEEL_OK) << g_error;
  }
  ~ModuleHandle() { kernels().unload(module_); }
  ModuleHandle(const ModuleHandle&) = delete;
  ModuleHandle& operator=(const ModuleHandle&) = delete;
  keel_plugin_kernel* find(const char* name) const {
    keel_plugin_kernel* kernel = nullptr;
    EXPECT_EQ(kernels().find(module_, name, &kernel), KEEL_OK) << g_error;
    return kernel;
  }
  operator keel_plugin_module*() const { return module_; }

 private:
  keel_plugin_module* module_ = nullptr;
};

struct Extents {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
};

// Launches with copies of the arguments, which are freed on return.
template <typename... Arguments>
keel_status launch(keel_plugin_stream* stream, keel_plugin_kernel* kernel, const Extents& extents,
                   Arguments... arguments) {
  const void* pointers[] = {&arguments...};
  const uint32_t sizes[] = {sizeof(arguments)...};
  keel_launch call = {};
  call.header = {sizeof(call), KEEL_STRUCT_LAUNCH, nullptr};
  std::copy_n(extents.grid, 3, call.grid);
  std::copy_n(extents.block, 3, call.block);
  call.dynamic_shared_bytes = extents.shared_bytes;
  call.argument_count = sizeof...(arguments);
  call.arguments = pointers;
  call.argument_sizes = sizes;
  return kernels().launch(stream, kernel, &call);
}

void expect_refused(const Bytes& binary, const char* why) {
  const Machine machine;
  keel_plugin_module* module = nullptr;
  g_error.clear();
  EXPECT_EQ(load(machine.device(), binary, &module), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(g_error.find(why), std::string::npos) << g_error;
  EXPECT_EQ(module, nullptr);
}

TEST(CpuModule, RefusesWhatIsNoSharedObject) {
  expect_refused({'h', 'i'}, "too short");
  expect_refused(Bytes(4096, 'x'), "no ELF");
  expect_refused(read_binary("kernels_wanting"), "keel_no_process_defines_this");
  Bytes binary = read_binary("kernels_1");
  for (const auto& [offset, why] :
       {std::pair(4, "machine"), std::pair(18, "machine"), std::pair(16, "no shared object"),
        std::pair(54, "program headers"), std::pair(39, "program headers")}) {
    Bytes changed = binary;
    changed[static_cast<size_t>(offset)] ^= 0x41;
    expect_refused(changed, why);
  }
  const Machine machine;
  keel_plugin_module* module = nullptr;
  EXPECT_EQ(
      kernels().load(machine.device(), KEEL_BINARY_SPIRV, binary.data(), binary.size(), &module),
      KEEL_UNSUPPORTED);
}

// A file truncated anywhere is refused, or contains all that it needs to run.
TEST(CpuModule, CutShortItIsRefusedOrWhole) {
  const Machine machine;
  const Bytes binary = read_binary("kernels_1");
  int refused = 0;
  for (size_t size = 1; size < binary.size(); size += binary.size() / 64) {
    keel_plugin_module* module = nullptr;
    const Bytes cut(binary.begin(), binary.begin() + static_cast<std::ptrdiff_t>(size));
    if (load(machine.device(), cut, &module) == KEEL_OK) {
      kernels().unload(module);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 32);
}

TEST(CpuModule, FindsItsOwnFunctionsAlone) {
  const Machine machine;
  const ModuleHandle module(machine.device(), "kernels_1");
  EXPECT_EQ(module.find("variant"), module.find("variant"));
  for (const char* name : {"no_such_kernel", "not_a_function", "memset", "dlopen", ""}) {
    keel_plugin_kernel* kernel = nullptr;
    EXPECT_EQ(kernels().find(module, name, &kernel), KEEL_NOT_FOUND) << name;
  }
}

TEST(CpuModule, EachThreadOfTheGridRunsOnce) {
  const Machine machine({{"devices", "1"}, {"cores", "3"}});
  const ModuleHandle module(machine.device(), "kernels_1");
  const StreamHandle stream(machine.device());
  keel_plugin_kernel* kernel = module.find("number_threads");
  const Extents all[] = {{{1, 1, 1}, {1, 1, 1}},
                         {{7, 1, 1}, {64, 1, 1}},
                         {{5, 3, 2}, {4, 2, 3}},
                         {{1, 1, 999}, {1, 1, 1}},
                         {{100, 41, 1}, {3, 1, 1}}};
  for (const Extents& extents : all) {
    size_t count = 1;
    for (int axis = 0; axis < 3; ++axis) count *= extents.grid[axis] * extents.block[axis];
    const Buffer out(machine.device(), count * 4 + 64);
    upload(stream, out.get(), std::vector<uint32_t>(count + 16, 0));
    ASSERT_EQ(launch(stream, kernel, extents, out.get()), KEEL_OK) << g_error;
    std::vector<uint32_t> wanted(count + 16, 0);
    std::iota(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(count), 1);
    EXPECT_EQ(download<uint32_t>(stream, out.get(), count + 16), wanted);
  }
}

TEST(CpuModule, BlocksHaveMemoryOfTheirOwn) {
  const Machine machine({{"devices", "1"}, {"cores", "2"}});
  const ModuleHandle module(machine.device(), "kernels_1");
  const StreamHandle stream(machine.device());
  const Buffer out(machine.device(), 200 * 4);
  keel_plugin_kernel* kernel = module.find("use_shared");
  ASSERT_EQ(launch(stream, kernel, {{200, 1, 1}, {1, 1, 1}, 777}, out.get()), KEEL_OK) << g_error;
  const auto sums = download<uint32_t>(stream, out.get(), 200);
  for (uint32_t i = 0; i < 200; ++i) EXPECT_EQ(sums[i], i * 777);
  g_error.clear();
  EXPECT_EQ(launch(stream, kernel, {{1, 1, 1}, {1, 1, 1}, (1 << 20) + 1}, out.get()),
            KEEL_INVALID_ARGUMENT);
  EXPECT_NE(g_error.find("dynamic_shared_bytes"), std::string::npos) << g_error;
}

TEST(CpuModule, ArgumentsOfAnySizeAreCopied) {
  const Machine machine;
  const ModuleHandle module(machine.device(), "kernels_1");
  const StreamHandle stream(machine.device());
  const Buffer out(machine.device(), 64);
  keel_plugin_kernel* kernel = module.find("take_many");
  struct Large {
    uint32_t words[1000];
  } large;
  for (uint32_t round = 0; round < 20; ++round) {  // launches are reused
    std::fill(std::begin(large.words), std::end(large.words), round);
    upload(stream, out.get(), std::vector<uint32_t>(4, 0));
    ASSERT_EQ(launch(stream, kernel, {}, out.get(), uint8_t{200}, large, 3.0, uint16_t{60000}),
              KEEL_OK);
    EXPECT_EQ(download<uint32_t>(stream, out.get(), 4),
              (std::vector<uint32_t>{200, 1000 * round, 3, 60000}));
  }
}

uint32_t run_variant(const Machine& machine, const char* name) {
  const ModuleHandle module(machine.device(), name);
  const StreamHandle stream(machine.device());
  const Buffer out(machine.device(), 4);
  EXPECT_EQ(launch(stream, module.find("variant"), {}, out.get()), KEEL_OK);
  return download<uint32_t>(stream, out.get(), 1)[0];
}

// The loader identifies objects by path, and descriptor numbers are reused.
TEST(CpuModule, ModulesThatFollowEachOtherAreNotMixedUp) {
  const Machine machine;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(run_variant(machine, "kernels_1"), 1u);
    EXPECT_EQ(run_variant(machine, "kernels_2"), 2u);
    EXPECT_EQ(run_variant(machine, "kernels_stay"), 3u);
    EXPECT_EQ(run_variant(machine, "kernels_2"), 2u);
  }
}

TEST(CpuModule, TwoLoadedModulesKeepTheirOwn) {
  const Machine machine;
  const ModuleHandle one(machine.device(), "kernels_1");
  EXPECT_EQ(run_variant(machine, "kernels_2"), 2u);
  EXPECT_EQ(run_variant(machine, "kernels_1"), 1u);
}

TEST(CpuModule, DescriptorsDoNotLeak) {
  const Machine machine;
  const auto open_files = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  run_variant(machine, "kernels_1");
  const auto before = open_files();
  for (int round = 0; round < 20; ++round) run_variant(machine, "kernels_1");
  EXPECT_EQ(open_files(), before);
}

TEST(CpuModule, AnExceptionIsTheStreamsFailure) {
  const Machine machine({{"devices", "1"}, {"cores", "2"}});
  const ModuleHandle module(machine.device(), "kernels_throwing");
  const StreamHandle stream(machine.device());
  ASSERT_EQ(launch(stream, module.find("throws"), {{64, 1, 1}}, 0), KEEL_OK);
  EXPECT_EQ(stream.synchronize(), KEEL_INTERNAL);
  // Work dropped by a failed stream keeps no resources.
  ASSERT_EQ(launch(stream, module.find("throws"), {{64, 1, 1}}, 0), KEEL_OK);
  EXPECT_EQ(stream.synchronize(), KEEL_INTERNAL);
}

TEST(CpuModule, StreamsLaunchTogether) {
  const Machine machine({{"devices", "1"}, {"cores", "2"}});
  const ModuleHandle module(machine.device(), "kernels_1");
  keel_plugin_kernel* kernel = module.find("number_threads");
  std::vector<std::thread> threads;
  for (int index = 0; index < 4; ++index) {
    threads.emplace_back([&] {
      const StreamHandle stream(machine.device());
      const Buffer out(machine.device(), 100 * 4);
      upload(stream, out.get(), std::vector<uint32_t>(100, 0));
      for (int round = 0; round < 100; ++round) {
        ASSERT_EQ(launch(stream, kernel, {{25, 1, 1}, {4, 1, 1}}, out.get()), KEEL_OK);
      }
      const auto numbers = download<uint32_t>(stream, out.get(), 100);
      for (uint32_t i = 0; i < 100; ++i) ASSERT_EQ(numbers[i], 100 * (i + 1));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace keel::cpu::testing
