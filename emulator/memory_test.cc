// SPDX-License-Identifier: Apache-2.0
#include "emulator/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "emulator/testing/emulator_test.h"

namespace keel::emulator {
namespace {

class MemoryTest : public EmulatorTest {
 protected:
  static DeviceOptions small() {
    DeviceOptions options;
    options.memory_bytes = 1 << 20;
    return options;
  }
  Status resolve(Address address, uint64_t size) {
    std::byte* data = nullptr;
    std::shared_ptr<Storage> keep;
    return device_->memory().resolve(address, size, &data, &keep);
  }
  const std::shared_ptr<Device> device_ = make_device(small());
};

TEST_F(MemoryTest, DeviceAddressesAreUnmappedForTheHost) {
  const Address address = alloc(*device_, 64);
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  // write() accesses the byte as the host would, and fails without a signal.
  EXPECT_EQ(::write(ends[1], reinterpret_cast<void*>(address), 1), -1);
  EXPECT_EQ(errno, EFAULT);
  close(ends[0]);
  close(ends[1]);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// In a process of its own: a range is reserved once. Valgrind's limit is such a one.
TEST(DeviceRangeDeathTest, LimitedAddressSpaceMakesTheRangeSmaller) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto reserve_of_64_gib = [] {
    const rlimit limit = {uint64_t{64} << 30, uint64_t{64} << 30};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::exit(1);
    std::string error;
    const DeviceRange* const range = DeviceRange::get(&error);
    const bool is_smaller = range != nullptr && range->size() == uint64_t{32} << 30 &&
                            range->touches(range->begin() + range->size() - 1, 1) &&
                            !range->touches(range->begin() + range->size(), 1);
    std::exit(is_smaller ? 0 : 2);
  };
  EXPECT_EXIT(reserve_of_64_gib(), testing::ExitedWithCode(0), "");
}
#endif

TEST_F(MemoryTest, TwoDevicesUseTheSameAddresses) {
  DeviceOptions second = small();
  second.index = 1;
  const auto other = make_device(second);
  const Address here = alloc(*device_, 100);
  const Address there = alloc(*other, 5000);
  EXPECT_EQ(here, there);
  const auto on_here = make_stream(device_);
  const auto on_there = make_stream(other);
  write(*on_here, here, {1, 2});
  write(*on_there, there, {3, 4});
  EXPECT_EQ(read(*on_here, here, 2), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(read(*on_there, there, 2), (std::vector<uint32_t>{3, 4}));
}

TEST_F(MemoryTest, EveryByteIsChecked) {
  const Address a = alloc(*device_, 300);
  const Address b = alloc(*device_, 16);
  EXPECT_EQ(a % Memory::kAlignment, 0u);
  expect_ok(resolve(a, 300));
  expect_ok(resolve(a + 299, 1));
  expect_fails(Code::kIllegalAddress, "reach past the allocation of 300", resolve(a, 301));
  expect_fails(Code::kIllegalAddress, "no memory of the device", resolve(a + 300, 1));
  expect_fails(Code::kIllegalAddress, "reach past", resolve(a, b + 16 - a));
  expect_fails(Code::kIllegalAddress, "no memory of the device", resolve(a - 1, 2));
  expect_fails(Code::kIllegalAddress, "", resolve(a + 1, UINT64_MAX));
  expect_fails(Code::kIllegalAddress, "", resolve(0, 1));
  expect_ok(device_->memory().free(a));
  expect_fails(Code::kIllegalAddress, "no memory of the device", resolve(a, 1));
  expect_fails(Code::kInvalidArgument, "no allocation", device_->memory().free(a));
  expect_fails(Code::kInvalidArgument, "no allocation", device_->memory().free(b + 1));
  expect_ok(resolve(b, 16));
}

// Covers sizes that leave no room until the next alignment.
TEST_F(MemoryTest, JustOutsideOfOneIsNotInsideTheNext) {
  const Address a = alloc(*device_, Memory::kAlignment);
  const Address b = alloc(*device_, Memory::kAlignment);
  Access access(device_->memory());
  std::byte* data = nullptr;
  EXPECT_TRUE(access.reach(a + Memory::kAlignment - 1, 1, &data).ok());
  EXPECT_EQ(access.reach(a + Memory::kAlignment, 1, &data).code(), Code::kIllegalAddress);
  EXPECT_EQ(access.reach(b - 1, 1, &data).code(), Code::kIllegalAddress);
}

TEST_F(MemoryTest, WhoWritesBehindWhatItReachedIsFoundOut) {
  const Address memory = alloc(*device_, 1000);
  Access access(device_->memory());
  std::byte* data = nullptr;
  ASSERT_TRUE(access.reach(memory, 1000, &data).ok());
  data[999] = std::byte{1};
  EXPECT_TRUE(access.check_margins().ok());
  data[1000] = std::byte{1};
  const Status found = access.check_margins();
  EXPECT_EQ(found.code(), Code::kIllegalAddress);
  EXPECT_NE(found.text().find("behind an allocation of 1000"), std::string::npos) << found.text();
}

TEST_F(MemoryTest, WorkKeepsMemoryThatIsFreedUnderIt) {
  const Address address = alloc(*device_, 8);
  Access access(device_->memory());
  std::byte* data = nullptr;
  expect_ok(access.reach(address, 8, &data));
  expect_ok(device_->memory().free(address));
  data[7] = std::byte{1};  // a bug of the emulated program, not of the emulator
  EXPECT_EQ(data[7], std::byte{1});
}

TEST_F(MemoryTest, RunsOutAndRecovers) {
  Address address = 0;
  expect_fails(Code::kOutOfMemory, "1048576", device_->allocate((1 << 20) + 1, &address));
  expect_fails(Code::kOutOfMemory, "", device_->allocate(UINT64_MAX, &address));
  const Address first = alloc(*device_, 1 << 19);
  const Address second = alloc(*device_, 1 << 19);
  EXPECT_EQ(device_->memory().free_bytes(), 0u);
  expect_fails(Code::kOutOfMemory, "0 of 1048576 left", device_->allocate(1, &address));
  expect_ok(device_->memory().free(first));
  EXPECT_EQ(alloc(*device_, 1 << 18), first) << "first-fit";
  EXPECT_EQ(alloc(*device_, 1 << 18), second + (1 << 19) + Memory::kGap)
      << "beside the first, the gap is missing";
  expect_ok(device_->memory().free(second));
  EXPECT_EQ(device_->memory().free_bytes(), uint64_t{1} << 19);
}

TEST_F(MemoryTest, PinnedAndRegisteredMemory) {
  Memory& memory = device_->memory();
  void* pinned = nullptr;
  expect_ok(device_->allocate_pinned(100, &pinned));
  static_cast<char*>(pinned)[99] = 1;  // host memory
  EXPECT_TRUE(memory.is_pinned(pinned, 100));
  EXPECT_FALSE(memory.is_pinned(pinned, 101));
  expect_ok(resolve(address_of(pinned), 100));

  std::vector<char> own(1000);
  EXPECT_FALSE(memory.is_pinned(own.data(), 1));
  expect_fails(Code::kIllegalAddress, "", resolve(address_of(own.data()), 1));
  expect_ok(memory.pin(own.data() + 100, 200));
  EXPECT_TRUE(memory.is_pinned(own.data() + 150, 150));
  EXPECT_FALSE(memory.is_pinned(own.data() + 99, 2));
  expect_fails(Code::kInvalidArgument, "already", memory.pin(own.data() + 299, 10));
  expect_fails(Code::kInvalidArgument, "already", memory.pin(own.data() + 50, 51));
  expect_ok(memory.pin(own.data() + 300, 10));
  expect_fails(Code::kInvalidArgument, "", memory.free_pinned(own.data() + 100));
  expect_fails(Code::kInvalidArgument, "", memory.unpin(pinned));
  expect_ok(memory.unpin(own.data() + 100));
  expect_ok(memory.unpin(own.data() + 300));
  expect_fails(Code::kInvalidArgument, "", memory.unpin(own.data() + 300));
  expect_ok(memory.free_pinned(pinned));
  expect_fails(Code::kInvalidArgument, "", memory.free_pinned(pinned));
  expect_fails(Code::kOutOfMemory, "", device_->allocate_pinned(uint64_t{1} << 50, &pinned));
  const Address on_device = alloc(*device_, 8);
  expect_fails(Code::kInvalidArgument, "no host memory",
               memory.pin(reinterpret_cast<void*>(on_device), 8));
}

// Both devices are in one process: between two processes only the opening of the file differs.
class SharedMemoryTest : public MemoryTest {
 protected:
  static DeviceOptions shareable(uint32_t index) {
    DeviceOptions options = small();
    options.index = index;
    options.shareable = true;
    return options;
  }
  SharedFileHandle share(Address address) const {
    SharedFileHandle place = {};
    expect_ok(owner_->memory().share(address, &place));
    return place;
  }
  Address import(const SharedFileHandle& place) const {
    Address address = 0;
    expect_ok(remote_peer_->memory().import(place, &address));
    return address;
  }
  Status resolve_there(Address address, uint64_t size) const {
    std::byte* data = nullptr;
    std::shared_ptr<Storage> keep;
    return remote_peer_->memory().resolve(address, size, &data, &keep);
  }

  std::shared_ptr<Device> owner_ = make_device(shareable(0));
  const std::shared_ptr<Device> remote_peer_ = make_device(shareable(1));
};

TEST_F(SharedMemoryTest, BothReachTheSameBytes) {
  alloc(*owner_, 64);
  alloc(*remote_peer_, 100'000);
  const Address here = alloc(*owner_, 5000);
  const uint64_t free_before = remote_peer_->memory().free_bytes();
  const Address there = import(share(here));
  EXPECT_NE(here, there);
  EXPECT_EQ(remote_peer_->memory().free_bytes(), free_before);
  const auto on_here = make_stream(owner_);
  const auto on_there = make_stream(remote_peer_);
  write(*on_here, here, {1, 2, 3});
  expect_ok(on_here->synchronize(test_timeout()));
  EXPECT_EQ(read(*on_there, there, 3), (std::vector<uint32_t>{1, 2, 3}));
  write(*on_there, there + 4, {7});
  expect_ok(on_there->synchronize(test_timeout()));
  EXPECT_EQ(read(*on_here, here, 3), (std::vector<uint32_t>{1, 7, 3}));
  expect_ok(resolve_there(there, 5000));
  expect_fails(Code::kIllegalAddress, "reach past", resolve_there(there, 5001));
}

TEST_F(SharedMemoryTest, AnImportIsNoAllocation) {
  const Address here = alloc(*owner_, 5000);
  const Address there = import(share(here));
  EXPECT_EQ(import(share(here)), there);
  SharedFileHandle place = {};
  expect_fails(Code::kInvalidArgument, "no allocation", remote_peer_->memory().free(there));
  expect_fails(Code::kInvalidArgument, "no allocation",
               remote_peer_->memory().share(there, &place));
  expect_fails(Code::kInvalidArgument, "no import", owner_->memory().close_import(here));
  expect_fails(Code::kInvalidArgument, "no allocation", owner_->memory().share(here + 256, &place));
  expect_fails(Code::kUnsupported, "alone", device_->memory().share(alloc(*device_, 64), &place));
  expect_ok(remote_peer_->memory().close_import(there));
  expect_ok(resolve_there(there, 5000));
  expect_ok(remote_peer_->memory().close_import(there));
  expect_fails(Code::kIllegalAddress, "no memory", resolve_there(there, 1));
  expect_fails(Code::kInvalidArgument, "no import", remote_peer_->memory().close_import(there));
  EXPECT_EQ(alloc(*remote_peer_, 5000), there) << "its addresses are free";
}

// Freed memory reads as zeroes, never as a later allocation.
TEST_F(SharedMemoryTest, MemoryThatIsFreedUnderAnImport) {
  const Address here = alloc(*owner_, 8);
  const SharedFileHandle place = share(here);
  const Address there = import(place);
  expect_ok(owner_->memory().free(here));
  EXPECT_EQ(alloc(*owner_, 8), here);
  const auto stream = make_stream(remote_peer_);
  EXPECT_EQ(read(*stream, there, 2), (std::vector<uint32_t>{0, 0}));
  Access access(remote_peer_->memory());
  std::byte* data = nullptr;
  expect_ok(access.reach(there, 8, &data));
  expect_ok(access.check_margins());
  write(*stream, there, {1, 2});
  owner_.reset();
  EXPECT_EQ(read(*stream, there, 2), (std::vector<uint32_t>{1, 2}));
  // The file is gone, but the import remains valid.
  EXPECT_EQ(import(place), there);
  expect_ok(remote_peer_->memory().close_import(there));
  expect_ok(remote_peer_->memory().close_import(there));
  Address again = 0;
  expect_fails(Code::kUnavailable, "shares no such memory",
               remote_peer_->memory().import(place, &again));
}

TEST_F(SharedMemoryTest, WhatIsWrittenBehindItShows) {
  Access access(remote_peer_->memory());
  std::byte* data = nullptr;
  expect_ok(access.reach(import(share(alloc(*owner_, 8))), 8, &data));
  data[7] = std::byte{1};
  expect_ok(access.check_margins());
  data[8] = std::byte{1};
  expect_fails(Code::kIllegalAddress, "behind an allocation of 8", access.check_margins());
}

TEST_F(SharedMemoryTest, PlacesThatAreNone) {
  const SharedFileHandle place = share(alloc(*owner_, 5000));
  const auto expect_refused = [&](Code code, const std::string& text, auto change) {
    SharedFileHandle lie = place;
    change(lie);
    Address address = 0;
    expect_fails(code, text, remote_peer_->memory().import(lie, &address));
  };
  expect_refused(Code::kUnavailable, "shares no", [](SharedFileHandle& lie) { lie.process = -1; });
  expect_refused(Code::kUnavailable, "shares no",
                 [](SharedFileHandle& lie) { lie.descriptor = 0; });
  expect_refused(Code::kUnavailable, "shares no", [](SharedFileHandle& lie) { ++lie.inode; });
  expect_refused(Code::kInvalidArgument, "not in", [](SharedFileHandle& lie) { lie.size = 0; });
  expect_refused(Code::kInvalidArgument, "not in",
                 [](SharedFileHandle& lie) { lie.size = 1 << 20; });
  expect_refused(Code::kInvalidArgument, "not in",
                 [](SharedFileHandle& lie) { lie.size = UINT64_MAX; });
  expect_refused(Code::kInvalidArgument, "not in", [](SharedFileHandle& lie) { lie.offset = 64; });
  expect_refused(Code::kInvalidArgument, "not in",
                 [](SharedFileHandle& lie) { lie.offset = 1 << 30; });
}

TEST_F(MemoryTest, WhatWasNeverWrittenShows) {
  const auto stream = make_stream(device_);
  EXPECT_EQ(read(*stream, alloc(*device_, 4), 1), std::vector<uint32_t>{0xa5a5a5a5});
}

}  // namespace
}  // namespace keel::emulator
