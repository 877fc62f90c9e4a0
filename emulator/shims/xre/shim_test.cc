// SPDX-License-Identifier: Apache-2.0
// The library as users load it: at run time, by name. Undefined uses end the process.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "vendor/xre.h"

namespace {

namespace xre = keel::xre;

const xre::Functions& xpu() {
  static const xre::Functions functions = [] {
    setenv("KEEL_EMULATED_XRE", "devices=3 memory_mib=16", 1);
    setenv("XPU_VISIBLE_DEVICES", "1,2", 1);
    void* const library = dlopen(KEEL_SHIM, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    xre::Functions found;
    const auto find = [&](const char* name, auto* out_function) {
      void* const address = dlsym(library, name);
      EXPECT_NE(address, nullptr) << name;
      std::memcpy(out_function, &address, sizeof(address));
    };
#define KEEL_FIND(name, arguments) find("xpu_" #name, &found.name);
    KEEL_XRE_FUNCTIONS(KEEL_FIND)
    KEEL_XRE_OPTIONAL_FUNCTIONS(KEEL_FIND)
#undef KEEL_FIND
    return found;
  }();
  return functions;
}

class XreShimTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ASSERT_EQ(xpu().set_device(1), 0);
    ASSERT_EQ(xpu().malloc(&memory_, kBytes, xre::kMainMemory), 0);
    ASSERT_EQ(xpu().stream_create(&stream_), 0);
  }
  void TearDown() override {
    ASSERT_EQ(xpu().set_device(1), 0);
    EXPECT_EQ(xpu().stream_destroy(stream_), 0);
    EXPECT_EQ(xpu().free(memory_), 0);
  }

  static constexpr uint64_t kBytes = 1024;
  void* memory_ = nullptr;
  void* stream_ = nullptr;
};

TEST_F(XreShimTest, DevicesAreTheVisibleOnesOfEachThread) {
  int count = 0;
  EXPECT_EQ(xpu().device_count(&count), 0);
  EXPECT_EQ(count, 2);
  int list[64] = {};
  EXPECT_EQ(xpu().device_list(list), 0);
  EXPECT_EQ(list[0], 1);
  EXPECT_EQ(list[1], 2);
  EXPECT_EQ(xpu().set_device(0), -xre::kInvalidDevice);
  EXPECT_EQ(xpu().set_device(2), 0);
  int elsewhere = -1;
  std::thread([&] { EXPECT_EQ(xpu().current_device(&elsewhere), 0); }).join();
  EXPECT_EQ(elsewhere, 1) << "a thread starts with the first visible device";
  int here = -1;
  EXPECT_EQ(xpu().current_device(&here), 0);
  EXPECT_EQ(here, 2);
  uint64_t pci = 0;
  EXPECT_EQ(xpu().device_get_attr(&pci, xre::kPciAddress, 2), 0);
  EXPECT_EQ(pci, 0xfffd0200u);
  EXPECT_EQ(xpu().device_get_attr(&pci, 99, 2), -xre::kNoSupport);
}

TEST_F(XreShimTest, ErrorsAreNumberedAsTheVendorDoes) {
  void* memory = nullptr;
  EXPECT_EQ(xpu().malloc(&memory, uint64_t{1} << 30, xre::kMainMemory), -xre::kNoMemory);
  EXPECT_EQ(xpu().malloc(&memory, 0, xre::kMainMemory), -xre::kInvalidParameter);
  EXPECT_EQ(xpu().malloc(&memory, 64, xre::kL3Memory), -xre::kNoSupport);
  EXPECT_EQ(xpu().host_alloc(&memory, 64, /*flags=*/1), -xre::kInvalidParameter);
  EXPECT_EQ(xpu().free(&memory), -xre::kInvalidParameter);
  char host[16] = {};
  EXPECT_EQ(xpu().memcpy(memory_, host, 16, /*kind=*/3), -xre::kInvalidParameter);
  EXPECT_EQ(xpu().memcpy(host, memory_, 16, xre::kHostToDevice), -xre::kInvalidParameter);
  EXPECT_EQ(xpu().host_register(host, 16, 0), 0);
  EXPECT_EQ(xpu().host_register(host, 16, 0), -xre::kHostMemoryRegistered);
  EXPECT_EQ(xpu().host_unregister(host), 0);
}

TEST_F(XreShimTest, CopiesOnStreamsAndTheDefaultStream) {
  const std::vector<uint32_t> words = {1, 2, 3, 4};
  EXPECT_EQ(xpu().memcpy_async(memory_, words.data(), 16, xre::kHostToDevice, stream_), 0);
  EXPECT_EQ(xpu().memcpy_async(static_cast<char*>(memory_) + 64, memory_, 16, xre::kDeviceToDevice,
                               stream_),
            0);
  EXPECT_EQ(xpu().wait(stream_), 0);
  std::vector<uint32_t> read(4);
  EXPECT_EQ(xpu().memcpy(read.data(), static_cast<char*>(memory_) + 64, 16, xre::kDeviceToHost), 0);
  EXPECT_EQ(read, words);
}

TEST_F(XreShimTest, EventsOrderStreams) {
  void* other = nullptr;
  void* event = nullptr;
  ASSERT_EQ(xpu().stream_create(&other), 0);
  ASSERT_EQ(xpu().event_create(&event), 0);
  for (uint32_t round = 1; round < 50; ++round) {
    EXPECT_EQ(xpu().memcpy_async(memory_, &round, 4, xre::kHostToDevice, stream_), 0);
    EXPECT_EQ(xpu().event_record(event, stream_), 0);
    EXPECT_EQ(xpu().stream_wait_event(other, event), 0);
    uint32_t read = 0;
    EXPECT_EQ(xpu().memcpy_async(&read, memory_, 4, xre::kDeviceToHost, other), 0);
    EXPECT_EQ(xpu().event_record(event, other), 0);
    EXPECT_EQ(xpu().event_wait(event), 0);
    EXPECT_EQ(read, round);
  }
  EXPECT_EQ(xpu().event_destroy(event), 0);
  EXPECT_EQ(xpu().stream_destroy(other), 0);
}

// ---- what the runtime does not define --------------------------------------------

TEST_F(XreShimTest, MemoryOfAnotherDeviceEndsTheProcess) {
  EXPECT_DEATH(
      {
        xpu().set_device(2);
        xpu().free(memory_);
      },
      "xpu_free: .* is memory of device 1, while device 2 is current");
  EXPECT_DEATH(
      {
        uint32_t word = 0;
        xpu().set_device(2);
        xpu().memcpy(&word, memory_, 4, xre::kDeviceToHost);
      },
      "is memory of device 1, while device 2 is current");
}

TEST_F(XreShimTest, AStreamOfAnotherDeviceOrADestroyedOneEndsTheProcess) {
  EXPECT_DEATH(
      {
        xpu().set_device(2);
        xpu().wait(stream_);
      },
      "xpu_wait: a handle of device 1, while device 2 is current");
  EXPECT_DEATH(
      {
        xpu().stream_destroy(stream_);
        xpu().wait(stream_);
      },
      "is no live handle");
}

}  // namespace
