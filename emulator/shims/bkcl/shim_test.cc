// SPDX-License-Identifier: Apache-2.0
// The library as users load it: at run time, by name, in the runtime's folder. Undefined uses end
// the process.
#include <bkcl.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "vendor/xre.h"

namespace {

constexpr uint32_t kWorld = 3;

void* open_once(const char* file) {
  setenv("KEEL_EMULATED_XRE", "devices=3 memory_mib=16", 1);
  return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}
#define BKCL(name) reinterpret_cast<decltype(&name)>(dlsym(open_once(KEEL_SHIM), #name))

template <typename Function>
Function xpu(const char* name, Function /*like*/) {
  static void* const library = open_once(KEEL_RUNTIME_SHIM);
  return reinterpret_cast<Function>(dlsym(library, name));
}
#define XPU(name) xpu("xpu_" #name, decltype(keel::xre::Functions::name)(nullptr))

// One rank per device, each with a stream and memory of 64 words.
class BkclShimTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ASSERT_NE(open_once(KEEL_SHIM), nullptr) << dlerror();
    BKCLUniqueId id;
    ASSERT_EQ(BKCL(bkcl_get_unique_id)(&id), BKCL_SUCCESS);
    each_rank([&](uint32_t rank) {
      Rank& self = ranks_[rank];
      EXPECT_EQ(XPU(stream_create)(&self.stream), 0);
      EXPECT_EQ(XPU(malloc)(&self.memory, 256, keel::xre::kMainMemory), 0);
      EXPECT_EQ(BKCL(bkcl_init_rank)(&self.context, static_cast<int>(rank), kWorld, &id),
                BKCL_SUCCESS);
    });
  }
  void TearDown() override {
    each_rank([&](uint32_t rank) {
      if (ranks_[rank].context != nullptr) {
        EXPECT_EQ(BKCL(bkcl_destroy_context)(ranks_[rank].context), BKCL_SUCCESS);
      }
      EXPECT_EQ(XPU(stream_destroy)(ranks_[rank].stream), 0);
      EXPECT_EQ(XPU(free)(ranks_[rank].memory), 0);
    });
  }

  struct Rank {
    BKCLContext_t context = nullptr;
    void* stream = nullptr;
    void* memory = nullptr;
  };
  // Runs |work| in a thread for each rank, whose device is current there.
  static void each_rank(const std::function<void(uint32_t)>& work) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      threads.emplace_back([&work, rank] {
        EXPECT_EQ(XPU(set_device)(static_cast<int>(rank)), 0);
        work(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  static void write(const Rank& rank, const std::vector<uint32_t>& words) {
    EXPECT_EQ(XPU(memcpy_async)(rank.memory, words.data(), words.size() * 4,
                                keel::xre::kHostToDevice, rank.stream),
              0);
  }
  static std::vector<uint32_t> read(const Rank& rank, size_t count) {
    std::vector<uint32_t> words(count);
    EXPECT_EQ(XPU(memcpy_async)(words.data(), rank.memory, count * 4, keel::xre::kDeviceToHost,
                                rank.stream),
              0);
    EXPECT_EQ(XPU(wait)(rank.stream), 0);
    return words;
  }

  Rank ranks_[kWorld];
};

TEST_F(BkclShimTest, RanksKnowThemselves) {
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    int count = 0;
    int number = -1;
    EXPECT_EQ(BKCL(bkcl_comm_count)(ranks_[rank].context, &count), BKCL_SUCCESS);
    EXPECT_EQ(BKCL(bkcl_comm_user_rank)(ranks_[rank].context, &number), BKCL_SUCCESS);
    EXPECT_EQ(count, static_cast<int>(kWorld));
    EXPECT_EQ(number, static_cast<int>(rank));
  }
  EXPECT_STREQ(BKCL(bkcl_header_kind)(), BKCL_HEADER_KIND);
}

TEST_F(BkclShimTest, SumsOnTheRuntimesStreams) {
  each_rank([&](uint32_t rank) {
    const Rank& self = ranks_[rank];
    write(self, {rank, 10 + rank, 7});
    EXPECT_EQ(BKCL(bkcl_all_reduce)(self.context, self.memory, self.memory, 3, BKCL_INT32, BKCL_ADD,
                                    self.stream),
              BKCL_SUCCESS);
    EXPECT_EQ(read(self, 3), (std::vector<uint32_t>{3, 33, 21}));
  });
}

// Rank r sends r + 1 words to each rank, by counts in device memory.
TEST_F(BkclShimTest, CountsOfAnAllToAllAreDeviceMemory) {
  each_rank([&](uint32_t rank) {
    const Rank& self = ranks_[rank];
    size_t arrays[4][kWorld];
    for (uint32_t peer = 0; peer < kWorld; ++peer) {
      arrays[0][peer] = rank + 1;
      arrays[1][peer] = size_t{4} * peer;
      arrays[2][peer] = peer + 1;
      arrays[3][peer] = size_t{4} * peer;
    }
    write(self, {100 + rank, 101 + rank, 102 + rank, 0, 200 + rank, 201 + rank, 202 + rank, 0,
                 300 + rank, 301 + rank, 302 + rank});
    void* counts = nullptr;
    ASSERT_EQ(XPU(malloc)(&counts, sizeof(arrays), keel::xre::kMainMemory), 0);
    EXPECT_EQ(XPU(memcpy)(counts, arrays, sizeof(arrays), keel::xre::kHostToDevice), 0);
    auto* const at = static_cast<size_t*>(counts);
    void* const to = static_cast<uint32_t*>(self.memory) + 16;
    EXPECT_EQ(BKCL(bkcl_all_to_all_v)(self.context, self.memory, at, at + kWorld, BKCL_INT32, to,
                                      at + 2 * kWorld, at + 3 * kWorld, BKCL_INT32, self.stream),
              BKCL_SUCCESS);
    const std::vector<uint32_t> got = read(self, 32);
    for (uint32_t peer = 0; peer < kWorld; ++peer) {
      for (uint32_t i = 0; i <= peer; ++i) {
        EXPECT_EQ(got[16 + 4 * peer + i], 100 * (rank + 1) + peer + i);
      }
    }
    EXPECT_EQ(XPU(free)(counts), 0);
  });
}

// Each rank sends to the next one and receives from the one before, as one group.
TEST_F(BkclShimTest, AGroupProceedsTogether) {
  each_rank([&](uint32_t rank) {
    const Rank& self = ranks_[rank];
    write(self, {rank, 0});
    EXPECT_EQ(BKCL(bkcl_group_start)(), BKCL_SUCCESS);
    EXPECT_EQ(
        BKCL(bkcl_recv)(self.context, static_cast<uint32_t*>(self.memory) + 1, 1,
                        static_cast<int>((rank + kWorld - 1) % kWorld), BKCL_INT32, self.stream),
        BKCL_SUCCESS);
    EXPECT_EQ(BKCL(bkcl_send)(self.context, self.memory, 1, static_cast<int>((rank + 1) % kWorld),
                              BKCL_INT32, self.stream),
              BKCL_SUCCESS);
    EXPECT_EQ(BKCL(bkcl_group_end)(), BKCL_SUCCESS);
    EXPECT_EQ(read(self, 2)[1], (rank + kWorld - 1) % kWorld);
  });
}

TEST_F(BkclShimTest, BadArgumentsAreRefused) {
  ASSERT_EQ(XPU(set_device)(0), 0);
  const Rank& self = ranks_[0];
  const auto type = static_cast<BKCLDataType>(0);
  const auto op = static_cast<BKCLOp>(0);
  EXPECT_EQ(
      BKCL(bkcl_all_reduce)(self.context, self.memory, self.memory, 1, type, BKCL_ADD, self.stream),
      BKCL_INVALID_ARGUMENT);
  EXPECT_EQ(
      BKCL(bkcl_all_reduce)(self.context, self.memory, self.memory, 1, BKCL_INT32, op, self.stream),
      BKCL_INVALID_ARGUMENT);
  EXPECT_EQ(
      BKCL(bkcl_broadcast)(self.context, self.memory, self.memory, 1, BKCL_INT32, 3, self.stream),
      BKCL_INVALID_ARGUMENT);
}

TEST_F(BkclShimTest, UndefinedUsesEndTheProcess) {
  ASSERT_EQ(XPU(set_device)(0), 0);
  const Rank& self = ranks_[0];
  EXPECT_DEATH(
      BKCL(bkcl_all_to_all)(self.context, self.memory, 1, self.memory, BKCL_INT32, self.stream),
      "in place");
  EXPECT_DEATH(
      {
        size_t counts[kWorld] = {};
        BKCL(bkcl_all_to_all_v)
        (self.context, self.memory, counts, counts, BKCL_INT32, self.memory, counts, counts,
         BKCL_INT32, self.stream);
      },
      "is not memory of the context's device");
  EXPECT_DEATH(
      {
        XPU(set_device)(1);
        BKCL(bkcl_send)(self.context, self.memory, 1, 1, BKCL_INT32, self.stream);
      },
      "a handle of device 0, while device 1 is current");
}

}  // namespace
