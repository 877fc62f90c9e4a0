// SPDX-License-Identifier: Apache-2.0
// Workspaces that do not fit: for each operator of the table, each function of the vendor's library
// that a case of it calls asks once for more than the device has left.
#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/ascend/testing/device_test.h"
#include "ops/schema.h"
#include "ops/testing/case_data.h"
#include "ops/testing/cases.h"
#include "vendor/ascend/aclnn.h"

namespace keel::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;
// The device has 16 MiB. A call has room for its tensors, the mask of causal attention (4 MiB) and
// small workspaces while the filler is there, but for the large workspace only without the filler.
constexpr uint64_t kFiller = 8 * kMiB;
constexpr uint64_t kWorkspace = 9 * kMiB;
constexpr uint64_t kLargestCase = 64 << 10;
// Cases of one operator that call no function for the first time, before the next operator.
constexpr int kCasesWithoutNews = 40;

class AscendWorkspaceTest : public AscendTest {
 protected:
  // The tensors of a case in device memory, and the call on them.
  class DeviceCase {
   public:
    DeviceCase(AscendWorkspaceTest& test, const ops::Case& source)
        : test_(test), data_(source, /*seed=*/1) {
      std::vector<void*> inputs;
      std::vector<void*> outputs;
      for (uint32_t i = 0; i < data_.call().input_count; ++i) {
        inputs.push_back(place(data_.input(i)));
      }
      for (uint32_t i = 0; i < data_.call().output_count; ++i) {
        outputs.push_back(place(data_.output(i)));
      }
      call_ = data_.rebind(inputs, outputs, &storage_);
    }
    ~DeviceCase() {
      for (const Block& block : memory_) test_.release(block.device);
      test_.release(temporaries_);
    }
    DeviceCase(const DeviceCase&) = delete;
    DeviceCase& operator=(const DeviceCase&) = delete;

    // Whether the plugin runs the call; reserves the temporaries of that.
    bool prepare() {
      keel_op_support support = {};
      support.header = {sizeof(support), KEEL_STRUCT_OP_SUPPORT, nullptr};
      EXPECT_EQ(test_.plugin().op->query(test_.device_, &call_, &support), KEEL_OK) << t_error;
      if (support.level == KEEL_OP_NONE) return false;
      temporaries_ = test_.reserve(support.workspace_bytes);
      return true;
    }
    // Restores the tensors, then runs the call.
    keel_status run() {
      for (const Block& block : memory_) {
        EXPECT_EQ(test_.copy(KEEL_COPY_HOST_TO_DEVICE, block.device, block.host.data(),
                             block.host.size()),
                  KEEL_OK)
            << t_error;
      }
      return test_.plugin().op->run(test_.stream_, &call_, temporaries_);
    }
    std::vector<std::vector<std::byte>> results() {
      std::vector<std::vector<std::byte>> results;
      for (const Block& block : memory_) {
        std::vector<std::byte>& bytes = results.emplace_back(block.host.size());
        EXPECT_EQ(test_.copy(KEEL_COPY_DEVICE_TO_HOST, bytes.data(), block.device, bytes.size()),
                  KEEL_OK)
            << t_error;
        EXPECT_EQ(test_.settle(), KEEL_OK) << t_error;
      }
      return results;
    }

   private:
    struct Block {
      std::span<std::byte> host;
      void* device;
    };
    // The device memory for |host|, of which an output in place has its input's.
    void* place(std::span<std::byte> host) {
      if (host.empty()) return nullptr;
      for (const Block& block : memory_) {
        if (block.host.data() == host.data()) return block.device;
      }
      memory_.push_back({host, test_.reserve(host.size())});
      return memory_.back().device;
    }

    AscendWorkspaceTest& test_;
    ops::CaseData data_;
    ops::CaseData::Storage storage_;
    keel_op_call call_ = {};
    std::vector<Block> memory_;
    void* temporaries_ = nullptr;
  };

  void* reserve(uint64_t bytes) {
    void* pointer = nullptr;
    if (bytes == 0) return nullptr;
    EXPECT_EQ(plugin().memory->alloc(device_, KEEL_MEMORY_DEVICE, bytes, 0, &pointer), KEEL_OK)
        << t_error;
    return pointer;
  }
  void release(void* pointer) {
    if (pointer != nullptr) plugin().memory->free(device_, KEEL_MEMORY_DEVICE, pointer);
  }
  uint64_t free_bytes() const {
    uint64_t free = 0;
    uint64_t total = 0;
    EXPECT_EQ(plugin().device->memory_info(device_, &free, &total), KEEL_OK) << t_error;
    return free;
  }
  void end_stream() {
    plugin().stream->destroy(stream_);
    stream_ = nullptr;
  }
  void new_stream() {
    ASSERT_EQ(plugin().stream->create(device_, 0, &stream_), KEEL_OK) << t_error;
  }
  template <typename Function>
  Function hook(const char* name) const {
    void* const library = dlopen(sdk_->path("libopapi.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
    const auto function = reinterpret_cast<Function>(dlsym(library, name));
    EXPECT_NE(function, nullptr) << name;
    return function;
  }
  // The |nth| call that is prepared from now on asks for |kWorkspace| bytes; 0: none does.
  void grow(uint64_t nth) const {
    hook<void (*)(uint64_t, uint64_t)>("keel_emulated_aclnn_grow_workspace")(nth, kWorkspace);
  }
  std::vector<std::string> recorded() const {
    const auto name_of = hook<const char* (*)(uint64_t)>("keel_emulated_aclnn_recorded");
    std::vector<std::string> names;
    while (const char* const name = name_of(names.size() + 1)) names.emplace_back(name);
    return names;
  }
  uint64_t live_executors() const {
    uint64_t prepared = 0;
    uint64_t live = 0;
    hook<void (*)(uint64_t*, uint64_t*)>("keel_emulated_aclnn_executors")(&prepared, &live);
    return live;
  }

  // Runs |each| on a new stream with no room for the workspace of its |nth| call of the library, a
  // call of |name|; then with room.
  void run_without_room(DeviceCase& each, uint64_t nth, const std::string& name,
                        const std::vector<std::vector<std::byte>>& wanted) {
    const uint64_t free = free_bytes();
    new_stream();
    void* const filler = reserve(kFiller);
    grow(nth);
    EXPECT_EQ(each.run(), KEEL_OUT_OF_MEMORY) << t_error;
    EXPECT_NE(t_error.find(name + ": "), std::string::npos) << t_error;
    EXPECT_EQ(settle(), KEEL_OK) << t_error;
    release(filler);
    EXPECT_EQ(each.run(), KEEL_OK) << t_error;
    EXPECT_TRUE(each.results() == wanted);
    end_stream();
    EXPECT_EQ(free_bytes(), free);
    EXPECT_EQ(live_executors(), 0u);
  }
};

uint64_t bytes_of(const ops::Case& each) {
  uint64_t bytes = 0;
  for (const auto* tensors : {&each.inputs, &each.outputs}) {
    for (const ops::CaseTensor& tensor : *tensors) {
      if (tensor.present) bytes += ops::allocation_bytes(tensor);
    }
  }
  return bytes;
}

TEST_F(AscendWorkspaceTest, NoRoomForTheWorkspaceOfAnyCallIsOutOfMemoryAndHarmsNothing) {
  open("memory_mib=16");
  end_stream();
  std::set<std::string> all;  // functions of the library that had no room
  std::set<std::string> operators;
  const auto has_elements = [](const ops::Case& each) {
    return std::ranges::none_of(each.outputs, [](const ops::CaseTensor& output) {
      return output.present && std::ranges::find(output.shape, 0) != output.shape.end();
    });
  };
  for (const ops::Schema* const schema : ops::schemas()) {
    std::set<std::string> refused;  // in calls of this operator
    int without_news = 0;
    bool is_supported = false;
    for (const ops::Case& each : ops::cases_of(*schema)) {
      if (bytes_of(each) > kLargestCase) continue;
      SCOPED_TRACE(each.id);
      DeviceCase on_device(*this, each);
      if (!on_device.prepare()) continue;
      is_supported = is_supported || has_elements(each);
      new_stream();
      grow(0);
      ASSERT_EQ(on_device.run(), KEEL_OK) << t_error;
      const std::vector<std::string> names = recorded();
      const std::vector<std::vector<std::byte>> wanted = on_device.results();
      end_stream();
      const size_t before = refused.size();
      for (size_t nth = 0; nth < names.size(); ++nth) {
        if (!refused.insert(names[nth]).second) continue;
        run_without_room(on_device, nth + 1, names[nth], wanted);
        if (HasFailure()) return;
      }
      without_news = refused.size() == before ? without_news + 1 : 0;
      if (without_news == kCasesWithoutNews) break;
    }
    EXPECT_EQ(refused.empty(), !is_supported) << schema->name;
    if (!refused.empty()) operators.insert(schema->name);
    all.merge(refused);
  }
  std::printf("%zu operators, %zu functions of the library\n", operators.size(), all.size());
  // The plugin composes softmax of other functions, for its mask.
  all.insert("aclnnSoftmax");
#define KEEL_EXPECT_REFUSED(name) EXPECT_TRUE(all.contains("aclnn" #name)) << #name;
  KEEL_FOR_EACH_ACLNN(KEEL_EXPECT_REFUSED)
#undef KEEL_EXPECT_REFUSED
}

}  // namespace
}  // namespace keel::testing
