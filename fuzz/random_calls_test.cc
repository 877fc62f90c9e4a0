// SPDX-License-Identifier: Apache-2.0
// A million random calls from four threads: no crash, no hang, no race, and a text for each
// refusal.
#include "fuzz/random_calls.h"

#include <cstdlib>
#include <random>
#include <thread>

#include "core/testing/keel_test.h"

namespace keel::fuzz {
namespace {

constexpr int kThreads = 4;

// Fewer calls under the validation layer, which serializes them.
uint64_t calls_wanted() {
  const char* const validate = std::getenv("KEEL_VALIDATE");
  return validate != nullptr && *validate == '1' ? 100'000 : 1'000'000;
}

class RandomCallsTest : public testing::KeelTest {};

TEST_F(RandomCallsTest, FromFourThreads) {
  std::vector<keel_device> devices = testing::load("fake", {{"memory", "16777216"}});
  devices.push_back(testing::load("cpu", {{"devices", "1"}, {"cores", "2"}}).at(0));
  for (keel_device device : testing::load("sim", {{"devices", "2"}})) devices.push_back(device);
  const uint64_t wanted = calls_wanted();
  World world(devices);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&world, wanted, seed = static_cast<uint64_t>(i)] {
      std::mt19937_64 random(20261121 + seed);
      std::vector<uint64_t> words(512);
      RandomCalls calls(world);
      while (world.calls() < wanted && world.problem().empty()) {
        for (uint64_t& word : words) word = random();
        calls.run(Bytes({reinterpret_cast<const uint8_t*>(words.data()), words.size() * 8}));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  world.finish();
  EXPECT_EQ(world.problem(), "");
  EXPECT_GT(world.successes(), wanted / 4) << "nearly all calls were refused";
}

}  // namespace
}  // namespace keel::fuzz
