// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "backends/cpu/runtime/device.h"
#include "backends/cpu/runtime/stream.h"

namespace keel::cpu {
namespace {

// Counts threads that compute at once, over several streams that all spread work.
TEST(ThreadPool, NeverUsesMoreCoresThanItsBudget) {
  for (const int cores : {1, 2, 3}) {
    Device device(cores, 1 << 20, false);
    struct Count {
      std::atomic<int> now{0}, most{0};
      std::atomic<int64_t> done{0};
    } count;
    auto* const shared = &count;
    {
      std::vector<std::unique_ptr<Stream>> streams;
      for (int i = 0; i < 5; ++i) streams.push_back(std::make_unique<Stream>(device));
      for (int round = 0; round < 50; ++round) {
        for (auto& stream : streams) {
          stream->enqueue([shared](ThreadPool& pool) -> keel_status {
            pool.parallel_for(64, 3, [shared](int64_t begin, int64_t end) {
              const int now = ++shared->now;
              int most = shared->most;
              while (now > most && !shared->most.compare_exchange_weak(most, now)) {
              }
              shared->done += end - begin;
              std::this_thread::yield();
              --shared->now;
            });
            return KEEL_OK;
          });
        }
      }
    }
    EXPECT_EQ(count.done, int64_t{5} * 50 * 64);
    EXPECT_LE(count.most, cores);
    EXPECT_GE(count.most, 1);
  }
}

// Budgets within the processor's cores, whose helpers spin, and larger budgets, whose helpers park
// after each job; threads that request helpers at the same time and may get none.
TEST(ThreadPool, DoesEachPieceOnce) {
  for (const int cores : {2, 5}) {
    for (const auto pieces : {ThreadPool::Pieces::kLong, ThreadPool::Pieces::kBrief}) {
      ThreadPool pool(cores);
      std::vector<std::thread> threads;
      for (int64_t t = 0; t < 3; ++t) {
        threads.emplace_back([&pool, pieces, t] {
          for (int64_t round = 0; round < 3000; ++round) {
            const int64_t count = (round + t) % 11;
            std::atomic<int> done[11] = {};
            const ThreadPool::Core core(pool);
            pool.parallel_for(
                count, 1 + round % 3,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) ++done[i];
                },
                pieces);
            for (int64_t i = 0; i < 11; ++i) ASSERT_EQ(done[i], i < count ? 1 : 0);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
  }
}

// Every 32nd brief job that finds a helper parked wakes the helper, which then processes a piece of
// a later job.
TEST(ThreadPool, BriefPiecesAreSharedInTheEnd) {
  ThreadPool pool(2);
  const ThreadPool::Core core(pool);
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> is_shared{false};
  for (int64_t job = 0; job < 10'000'000 && !is_shared; ++job) {
    pool.parallel_for(
        2, 1,
        [&](int64_t, int64_t) {
          if (std::this_thread::get_id() != caller) is_shared = true;
        },
        ThreadPool::Pieces::kBrief);
  }
  EXPECT_TRUE(is_shared);
}

}  // namespace
}  // namespace keel::cpu
