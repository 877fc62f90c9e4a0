// SPDX-License-Identifier: Apache-2.0
// User kernels through the ABI.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>

#include "backends/vulkan/test_plugin.h"

namespace keel::vulkan {
namespace {

using Bytes = std::vector<char>;

Bytes read_binary(const char* name) {
  const auto tests = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::ifstream file(tests / "kernels" / (std::string(name) + ".spv"), std::ios::binary);
  Bytes bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_FALSE(bytes.empty()) << name;
  return bytes;
}

class VulkanModule : public VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    if (!IsSkipped()) table_ = plugin_->kernel;
  }
  void TearDown() override {
    if (stream_ != nullptr) {
      EXPECT_EQ(streams_->synchronize(stream_, kMinuteNs), KEEL_OK);
    }
    for (keel_plugin_module* module : modules_) table_->unload(module);
    VulkanTest::TearDown();
  }

  keel_status load(const Bytes& binary, keel_plugin_module** out_module) {
    g_last_error.clear();
    return table_->load(device_, KEEL_BINARY_SPIRV, binary.data(), binary.size(), out_module);
  }
  keel_plugin_kernel* load_kernel(const char* name) {
    keel_plugin_module* module = nullptr;
    EXPECT_EQ(load(read_binary(name), &module), KEEL_OK) << g_last_error;
    if (module == nullptr) return nullptr;
    modules_.push_back(module);
    keel_plugin_kernel* kernel = nullptr;
    EXPECT_EQ(table_->find(module, "main", &kernel), KEEL_OK) << g_last_error;
    return kernel;
  }

  struct Extents {
    uint32_t grid[3] = {1, 1, 1};
    uint32_t block[3] = {1, 1, 1};
    uint32_t shared_bytes = 0;
  };
  template <typename... Arguments>
  keel_status launch(keel_plugin_kernel* kernel, const Extents& extents, Arguments... arguments) {
    const void* pointers[] = {&arguments...};
    const uint32_t sizes[] = {sizeof(arguments)...};
    keel_launch call = {};
    call.header = kit::header<keel_launch>(KEEL_STRUCT_LAUNCH);
    std::copy_n(extents.grid, 3, call.grid);
    std::copy_n(extents.block, 3, call.block);
    call.dynamic_shared_bytes = extents.shared_bytes;
    call.argument_count = sizeof...(arguments);
    call.arguments = pointers;
    call.argument_sizes = sizes;
    g_last_error.clear();
    return table_->launch(stream_, kernel, &call);
  }

  const keel_kernel_table* table_ = nullptr;
  std::vector<keel_plugin_module*> modules_;
};

TEST_F(VulkanModule, EachThreadOfTheGridRunsOnce) {
  keel_plugin_kernel* kernel = load_kernel("numbers");
  ASSERT_NE(kernel, nullptr);
  const Extents all[] = {{{1, 1, 1}, {1, 1, 1}},
                         {{7, 1, 1}, {64, 1, 1}},
                         {{5, 3, 2}, {4, 2, 3}},
                         {{3, 3, 3}, {2, 2, 2}},
                         {{7, 1, 1}, {64, 1, 1}}};
  for (const Extents& extents : all) {
    size_t count = 1;
    for (int axis = 0; axis < 3; ++axis) count *= extents.grid[axis] * extents.block[axis];
    void* out = upload(std::vector<uint32_t>(count + 16, 0));
    ASSERT_EQ(launch(kernel, extents, out, uint32_t{1}), KEEL_OK) << g_last_error;
    ASSERT_EQ(launch(kernel, extents, out, uint32_t{10}), KEEL_OK) << g_last_error;
    const auto got = download<uint32_t>(out, count + 16);
    for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(got[i], 2 * i + 11) << i;
    for (size_t i = count; i < got.size(); ++i) ASSERT_EQ(got[i], 0u) << "behind the end";
  }
}

TEST_F(VulkanModule, ArgumentsGoWhereTheModuleWantsThem) {
  keel_plugin_kernel* kernel = load_kernel("fixed");
  ASSERT_NE(kernel, nullptr);
  void* out = upload(std::vector<uint32_t>(4, 0));
  const std::array<uint32_t, 2> b = {30, 400};
  ASSERT_EQ(launch(kernel, {{3, 1, 1}, {8, 2, 1}}, uint32_t{2}, out, b, uint32_t{5000}), KEEL_OK)
      << g_last_error;
  EXPECT_EQ(download<uint32_t>(out, 4), (std::vector<uint32_t>{86912, 86912, 86912, 0}));
}

TEST_F(VulkanModule, RefusesLaunchesByName) {
  keel_plugin_kernel* fixed = load_kernel("fixed");
  keel_plugin_kernel* numbers = load_kernel("numbers");
  ASSERT_TRUE(fixed != nullptr && numbers != nullptr);
  void* out = upload(std::vector<uint32_t>(4, 0));
  const auto refused = [&](keel_status status, const char* named) {
    EXPECT_EQ(status, KEEL_INVALID_ARGUMENT);
    EXPECT_NE(g_last_error.find(named), std::string::npos) << g_last_error;
  };
  const std::array<uint32_t, 2> b = {};
  refused(launch(fixed, {{1, 1, 1}, {8, 1, 1}}, 1u, out, b, 2u), "block[1]");
  refused(launch(fixed, {{1, 1, 1}, {16, 2, 1}}, 1u, out, b, 2u), "block[0]");
  refused(launch(fixed, {{1, 1, 1}, {8, 2, 1}}, 1u, out, b), "argument_count is 3");
  refused(launch(fixed, {{1, 1, 1}, {8, 2, 1}}, 1u, out, 1u, 2u), "argument_sizes[2]");
  refused(launch(fixed, {{1, 1, 1}, {8, 2, 1}, 64}, 1u, out, b, 2u), "dynamic_shared_bytes");
  refused(launch(numbers, {{1, 1, 1}, {1u << 30, 1, 1}}, out, 2u), "block[0]");
  refused(launch(numbers, {{1, UINT32_MAX, 1}, {1, 1, 1}}, out, 2u), "grid[1]");
  refused(launch(numbers, {{1, 1, 1}, {1024, 1024, 1}}, out, 2u), "block");
  EXPECT_EQ(launch(numbers, {}, out, 2u), KEEL_OK) << g_last_error;
}

TEST_F(VulkanModule, RefusesModulesItCannotRun) {
  keel_plugin_module* module = nullptr;
  const Bytes binary = read_binary("numbers");
  EXPECT_EQ(table_->load(device_, KEEL_BINARY_CUBIN, binary.data(), binary.size(), &module),
            KEEL_UNSUPPORTED);
  EXPECT_EQ(load(read_binary("descriptors"), &module), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(g_last_error.find("descriptors"), std::string::npos) << g_last_error;
  EXPECT_EQ(load(Bytes(64, 'x'), &module), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(load(Bytes(3, '\0'), &module), KEEL_INVALID_ARGUMENT);
  Bytes newer = binary;
  newer[5] = 0;
  newer[6] = 2;  // version 2.0
  EXPECT_EQ(load(newer, &module), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(g_last_error.find("newer"), std::string::npos) << g_last_error;
  EXPECT_EQ(module, nullptr);

  modules_.push_back(nullptr);
  ASSERT_EQ(load(binary, &modules_.back()), KEEL_OK) << g_last_error;
  keel_plugin_kernel* kernel = nullptr;
  EXPECT_EQ(table_->find(modules_.back(), "mains", &kernel), KEEL_NOT_FOUND);
  EXPECT_EQ(table_->find(modules_.back(), "", &kernel), KEEL_NOT_FOUND);
}

// Modules truncated at each word, and with random words changed, are refused or loaded, but never
// cause a crash.
TEST_F(VulkanModule, DamagedModulesHarmNothing) {
  for (const char* name : {"numbers", "fixed"}) {
    const Bytes binary = read_binary(name);
    for (size_t size = 4; size < binary.size(); size += 4) {
      keel_plugin_module* module = nullptr;
      const Bytes cut(binary.begin(), binary.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_NE(load(cut, &module), KEEL_OK) << size;
    }
    std::mt19937 random(1);
    for (int round = 0; round < 2000; ++round) {
      Bytes changed = binary;
      for (int change = 0; change <= round % 3; ++change) {
        changed[random() % changed.size()] = static_cast<char>(random());
      }
      keel_plugin_module* module = nullptr;
      if (load(changed, &module) == KEEL_OK) table_->unload(module);
    }
  }
  EXPECT_NE(load_kernel("numbers"), nullptr);
}

}  // namespace
}  // namespace keel::vulkan
