// SPDX-License-Identifier: Apache-2.0
// Memory through the validation layer: misuse is refused before the plugin sees it, and violations
// of the plugin are named.
#include "core/validation/testing/checked_test.h"

namespace keel::validation::testing {
namespace {

class CheckedMemory : public CheckedTest {
 protected:
  void* pointer_ = nullptr;
};

TEST_F(CheckedMemory, AllocRefusesWhatTheAbiForbids) {
  const auto alloc = [&](keel_plugin_device* device, keel_memory_kind kind, uint64_t size,
                         uint32_t usage) {
    return memory().alloc(device, kind, size, usage, &pointer_);
  };
  EXPECT_EQ(alloc(device_, KEEL_MEMORY_DEVICE, 0, 0), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("validation: stub:0: memory.alloc: size is 0"));
  EXPECT_EQ(alloc(device_, 9, 64, 0), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("kind 9 is no kind of memory"));
  EXPECT_EQ(alloc(device_, KEEL_MEMORY_DEVICE, 64, 0x80), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("usage 0x80 is not KEEL_USAGE_*"));
  EXPECT_EQ(alloc(nullptr, KEEL_MEMORY_DEVICE, 64, 0), KEEL_INVALID_HANDLE);
  EXPECT_TRUE(found("device 0x0 is not a live handle"));
  EXPECT_EQ(alloc(reinterpret_cast<keel_plugin_device*>(stream_), KEEL_MEMORY_DEVICE, 64, 0),
            KEEL_INVALID_HANDLE);
  EXPECT_TRUE(found("is not a live handle"));
  EXPECT_EQ(stub().calls["alloc"], 0);
}

TEST_F(CheckedMemory, FreeTakesOnlyWhatIsLive) {
  char* const block = alloc(1024);
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_DEVICE, block + 64), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("is no live allocation of stub:0"));
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_PINNED, block), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("is no live allocation of stub:0"));
  EXPECT_EQ(memory().free(other_device_, KEEL_MEMORY_DEVICE, block), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("is no live allocation of stub:1"));
  void* second = nullptr;
  ASSERT_EQ(memory().alloc(device_, KEEL_MEMORY_DEVICE, 64, 0, &second), KEEL_OK);
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_DEVICE, second), KEEL_OK);
  EXPECT_TRUE(clean());
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_DEVICE, second), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("is no live allocation of stub:0")) << "freed twice";
  EXPECT_EQ(stub().calls["free"], 1);
}

TEST_F(CheckedMemory, FreeWaitsForTheWorkThatUsesIt) {
  char* const a = alloc(1024);
  void* b = nullptr;
  ASSERT_EQ(memory().alloc(device_, KEEL_MEMORY_DEVICE, 1024, 0, &b), KEEL_OK);
  ASSERT_EQ(copy(a, b, 1024), KEEL_OK);
  keel_plugin_event* const event = recorded(stream_);
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_DEVICE, b), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("stream.copy uses it, and nothing has said that it is done"));
  stub().work = KEEL_NOT_READY;
  EXPECT_EQ(stream().event_query(event), KEEL_NOT_READY);
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_DEVICE, b), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("nothing has said"));
  stub().work = KEEL_OK;
  EXPECT_EQ(stream().event_query(event), KEEL_OK);
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_DEVICE, b), KEEL_OK);
}

// A wait for one stream proves that the work it waited for is done, too.
TEST_F(CheckedMemory, WorkIsDoneOnceALaterStreamIs) {
  void* block = nullptr;
  ASSERT_EQ(memory().alloc(device_, KEEL_MEMORY_DEVICE, 1024, 0, &block), KEEL_OK);
  const uint32_t zero = 0;
  ASSERT_EQ(stream().fill(stream_, block, &zero, 4, 1024), KEEL_OK);
  keel_plugin_stream* const later = new_stream();
  ASSERT_EQ(stream().stream_wait_event(later, recorded(stream_)), KEEL_OK);
  ASSERT_EQ(stream().synchronize(later, 0), KEEL_OK);
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_DEVICE, block), KEEL_OK);
}

TEST_F(CheckedMemory, AFailedCallUsesNothing) {
  void* block = nullptr;
  ASSERT_EQ(memory().alloc(device_, KEEL_MEMORY_DEVICE, 1024, 0, &block), KEEL_OK);
  stub().answers["fill"] = KEEL_OUT_OF_MEMORY;
  const uint32_t zero = 0;
  EXPECT_EQ(stream().fill(stream_, block, &zero, 4, 1024), KEEL_OUT_OF_MEMORY);
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_DEVICE, block), KEEL_OK);
}

TEST_F(CheckedMemory, AllocationsThatLieAreNamed) {
  char* const block = alloc(4096);
  stub().next_pointer = block + 256;
  EXPECT_EQ(memory().alloc(device_, KEEL_MEMORY_DEVICE, 64, 0, &pointer_), KEEL_INTERNAL);
  EXPECT_TRUE(found("overlaps the live allocation"));
  EXPECT_EQ(pointer_, nullptr) << "core must not get it";
  stub().next_pointer = block - 256;
  EXPECT_EQ(memory().alloc(device_, KEEL_MEMORY_MANAGED, 257, 0, &pointer_), KEEL_INTERNAL);
  EXPECT_TRUE(found("overlaps the live allocation"));
  stub().silent.insert("alloc");
  EXPECT_EQ(memory().alloc(device_, KEEL_MEMORY_DEVICE, 64, 0, &pointer_), KEEL_INTERNAL);
  EXPECT_TRUE(found("the plugin gave NULL for 64 bytes"));
  stub().silent.clear();
  stub().answers["alloc"] = 4711;
  EXPECT_EQ(memory().alloc(device_, KEEL_MEMORY_DEVICE, 64, 0, &pointer_), KEEL_INTERNAL);
  EXPECT_TRUE(found("the plugin returned 4711, which is no status"));
  stub().answers["alloc"] = KEEL_NOT_READY;
  EXPECT_EQ(memory().alloc(device_, KEEL_MEMORY_DEVICE, 64, 0, &pointer_), KEEL_INTERNAL);
  EXPECT_TRUE(found("KEEL_NOT_READY, which only a query may"));
  stub().answers.clear();
  stub().next_pointer = block + 4096 + 8;
  ASSERT_EQ(memory().alloc(device_, KEEL_MEMORY_DEVICE, 64, 0, &pointer_), KEEL_OK);
  EXPECT_TRUE(found("which is not aligned to 256"));
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_DEVICE, pointer_), KEEL_OK);
}

// Addresses of a chip and of the host may be equal numbers.
TEST_F(CheckedMemory, PinnedMemoryMayHaveTheAddressOfDeviceMemory) {
  char* const block = alloc(4096);
  stub().next_pointer = block;
  EXPECT_EQ(alloc(4096, KEEL_MEMORY_PINNED), block);
  EXPECT_TRUE(clean());
}

TEST_F(CheckedMemory, RegisteredMemoryIsUnregisteredOnceAndIdle) {
  std::vector<char> host(4096);
  char* const block = alloc(4096);
  void* mapped = nullptr;
  ASSERT_EQ(memory().host_register(device_, host.data(), host.size(), &mapped), KEEL_OK);
  EXPECT_EQ(memory().host_register(device_, host.data(), 64, &mapped), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("is registered already"));
  ASSERT_EQ(stream().copy(stream_, KEEL_COPY_HOST_TO_DEVICE, block, host.data() + 8, 64), KEEL_OK);
  EXPECT_EQ(memory().host_unregister(device_, host.data()), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("stream.copy uses it"));
  ASSERT_EQ(stream().synchronize(stream_, 0), KEEL_OK);
  EXPECT_EQ(memory().host_unregister(device_, host.data()), KEEL_OK);
  EXPECT_EQ(memory().host_unregister(device_, host.data()), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("is not registered"));
  stub().silent.insert("host_register");
  ASSERT_EQ(memory().host_register(device_, host.data(), host.size(), &mapped), KEEL_OK);
  EXPECT_TRUE(found("left *out_device_pointer unset"));
  EXPECT_EQ(mapped, nullptr);
  EXPECT_EQ(memory().host_unregister(device_, host.data()), KEEL_OK);
}

TEST_F(CheckedMemory, AliasesAndExportsLieInsideAllocations) {
  char* const block = alloc(1024);
  EXPECT_EQ(memory().host_alias(device_, block + 512, 1024, &pointer_), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("+ 1024 reaches past its allocation of 1024 at offset 512"));
  stub().silent.insert("host_alias");
  EXPECT_EQ(memory().host_alias(device_, block, 1024, &pointer_), KEEL_INTERNAL);
  EXPECT_TRUE(found("left *out_alias unset"));
  auto exported = KEEL_STRUCT_INIT(keel_memory_export, KEEL_STRUCT_MEMORY_EXPORT);
  EXPECT_EQ(memory().export_memory(device_, block, 1024, 7, 0, &exported), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("kind 7 is no kind of export"));
  EXPECT_EQ(memory().export_memory(device_, block, 1024, KEEL_EXPORT_MEMFD, 0, &exported), KEEL_OK);
  EXPECT_TRUE(found("left out_export->fd unset"));
  EXPECT_EQ(memory().export_memory(device_, block, 1024, KEEL_EXPORT_OPAQUE, 0, &exported),
            KEEL_OK);
  EXPECT_TRUE(clean());

  exported.object_size = 4096;
  keel_plugin_import* import = nullptr;
  ASSERT_EQ(memory().import_memory(device_, &exported, &pointer_, &import), KEEL_OK);
  ASSERT_EQ(copy(pointer_, block, 1024), KEEL_OK);
  EXPECT_EQ(memory().close_import(device_, import), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("stream.copy uses it"));
  ASSERT_EQ(stream().synchronize(stream_, 0), KEEL_OK);
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_DEVICE, pointer_), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("is no live allocation")) << "imported memory is not freed";
  EXPECT_EQ(memory().close_import(device_, import), KEEL_OK);
}

TEST_F(CheckedMemory, StreamOrderedMemoryIsLiveInBetween) {
  void* block = nullptr;
  ASSERT_EQ(memory().alloc_on_stream(stream_, 1024, &block), KEEL_OK);
  ASSERT_EQ(copy(block, alloc(1024), 1024), KEEL_OK);
  EXPECT_EQ(memory().free_on_stream(stream_, block), KEEL_OK) << "ordered, not done";
  EXPECT_TRUE(clean());
  EXPECT_EQ(memory().free_on_stream(stream_, block), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("is no live allocation"));
  EXPECT_EQ(memory().peer_enable(device_, device_), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("peer is the device itself"));
  EXPECT_EQ(memory().peer_enable(device_, other_device_), KEEL_OK);
}

}  // namespace
}  // namespace keel::validation::testing
