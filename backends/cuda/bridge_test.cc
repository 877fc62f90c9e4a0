// SPDX-License-Identifier: Apache-2.0
// The bridge between a GPU and a processor, on the emulated chip: sums computed by the GPU.
#include <cstring>

#include "backends/cuda/testing/own_driver.h"
#include "collectives/testing/reducing_pair.h"

namespace keel::testing {
namespace {

class CudaBridgeTest : public ReducingPair {
 protected:
  static keel_device device_of(const OwnDriver& driver) {
    return load("cuda", {{"library_folder", driver.folder()}}).at(0);
  }
  // Without operators, in a build without nvcc, the host computes the sums.
  static std::string expected(const OwnDriver& driver) {
    return std::filesystem::exists(driver.kernels()) ? "device" : "host";
  }
};

TEST_F(CudaBridgeTest, PinnedBuffersAreSummedUpByTheGpu) {
  const OwnDriver driver("devices=1");
  const keel_device device = device_of(driver);
  uint32_t seed = 0;
  for (const HostMemory kind : {HostMemory::kPinned, HostMemory::kRegistered}) {
    for (uint32_t cpu_rank : {0u, 1u}) {
      connect(device, 2 << 20, kind, kind, cpu_rank, /*chunk_bytes=*/131072);
      for (uint64_t count : {65536, 65539, 300001}) {
        for (const bool in_place : {false, true}) {
          ++seed;
          check_floats({.count = count, .in_place = in_place, .offset = seed % 3 * 4}, seed);
          EXPECT_EQ(reduced_by(), expected(driver));
        }
      }
      check_floats({.count = 1000}, 1);
      disconnect();
    }
  }
}

TEST_F(CudaBridgeTest, NarrowFloatsAreRoundedAsByTheHost) {
  const OwnDriver driver("devices=1");
  const keel_device device = device_of(driver);
  constexpr uint64_t kCount = 150'001;
  for (const keel_dtype dtype : {KEEL_FLOAT16, KEEL_BFLOAT16}) {
    std::vector<char> values[2];
    uint32_t state = 7;
    for (std::vector<char>& each : values) {
      for (uint64_t i = 0; i < kCount; ++i) {
        state = state * 1664525u + 1013904223u;
        const uint16_t code = static_cast<uint16_t>(state >> 11) & 0xbfff;  // finite
        each.push_back(static_cast<char>(code & 0xff));
        each.push_back(static_cast<char>(code >> 8));
      }
    }
    std::vector<std::vector<char>> found[2];
    for (const bool is_pinned : {false, true}) {
      const HostMemory kind = is_pinned ? HostMemory::kPinned : HostMemory::kArena;
      connect(device, 2 * kCount, kind, kind);
      found[is_pinned ? 1 : 0] = results({.count = kCount, .dtype = dtype}, values);
      EXPECT_EQ(reduced_by(), is_pinned ? expected(driver) : "host");
      disconnect();
    }
    EXPECT_TRUE(found[0] == found[1]);
    EXPECT_TRUE(found[1][0] == found[1][1]);
  }
}

TEST_F(CudaBridgeTest, ArenasArePinnedOnceTheyHaveBeenUsed) {
  const OwnDriver driver("devices=1");
  connect(device_of(driver), 4 << 20, HostMemory::kArena, HostMemory::kArena);
  std::string by = "host";
  for (uint32_t turn = 0; turn < 64 && by == "host"; ++turn) {
    check_floats({.count = 1 << 20}, turn);
    by = reduced_by();
  }
  EXPECT_EQ(by, expected(driver));
  // The driver registers a byte only once: the caller's registration replaces Keel's.
  EXPECT_KEEL_OK(keel_host_register(chip().device, cpu().send, 4 << 20));
  EXPECT_KEEL_OK(keel_host_unregister(chip().device, cpu().send));
  check_floats({.count = 1 << 20}, 100);
  EXPECT_EQ(reduced_by(), "host");
}

TEST_F(CudaBridgeTest, AGpuThatIsLostHalfWay) {
  for (const char* fault : {"faults=lose:copy@9", "faults=fail:op@3"}) {
    const OwnDriver driver(std::string("devices=1 ") + fault);
    if (expected(driver) == "host") GTEST_SKIP() << "no operators: built without nvcc";
    connect(device_of(driver), 4 << 20, HostMemory::kPinned, HostMemory::kPinned);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      upload(ranks_[rank], ranks_[rank].send, floats(1 << 20, rank));
    }
    for (int call = 0; call < 3; ++call) {
      for (const Rank& of : ranks_) (void)enqueue(of, {.count = 1 << 20});
    }
    EXPECT_EQ(keel_stream_synchronize(chip().stream, kTestTimeout), KEEL_DEVICE_LOST);
    EXPECT_NE(keel_stream_synchronize(cpu().stream, kTestTimeout), KEEL_OK);
    EXPECT_NE(keel_comm_async_error(cpu().comm), KEEL_OK);
    EXPECT_NE(std::string(keel_last_error()).find("rank 1 (cuda"), std::string::npos)
        << keel_last_error();
    disconnect();
  }
}

}  // namespace
}  // namespace keel::testing
