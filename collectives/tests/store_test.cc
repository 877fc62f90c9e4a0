// SPDX-License-Identifier: Apache-2.0
// Ranks in threads that meet through a store of the caller's: keel/store.h.
#include <gtest/gtest.h>
#include <keel/comm_start.h>
#include <keel/store.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/testing/sum_of_ranks.h"
#include "collectives/testing/test_stores.h"
#include "core/testing/expect.h"
#include "core/testing/test_backend.h"

namespace keel::testing {
namespace {

constexpr uint32_t kWorld = 3;
constexpr uint64_t kCount = 70'000;
constexpr int64_t kShortNs = 20'000'000;

// Result of one rank's call.
struct Answer {
  keel_status status = KEEL_OK;
  std::string text;
  keel_comm comm = {};
};

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_KEEL_OK(init_test_devices(kWorld));
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      ASSERT_KEEL_OK(keel_device_find(test_device(rank).c_str(), &devices_[rank]));
    }
  }
  void TearDown() override { EXPECT_KEEL_OK(keel_shutdown()); }

  Answer join(DictionaryStore& store, const char* prefix, uint32_t rank, uint32_t world,
              int64_t timeout_ns = 0) {
    const keel_store view = store.view(prefix);
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.timeout_ns = timeout_ns;
    Answer answer;
    answer.status =
        keel_comm_init_store(devices_[rank], &view, rank, world, &options, &answer.comm);
    if (answer.status != KEEL_OK) answer.text = keel_last_error();
    return answer;
  }
  // All ranks of |world| at once.
  std::vector<Answer> join_all(DictionaryStore& store, const char* prefix, uint32_t world,
                               int64_t timeout_ns = 0) {
    std::vector<Answer> answers(world);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < world; ++rank) {
      threads.emplace_back(
          [&, rank] { answers[rank] = join(store, prefix, rank, world, timeout_ns); });
    }
    for (std::thread& thread : threads) thread.join();
    return answers;
  }
  keel_comm start(DictionaryStore& store, const char* prefix, uint32_t rank, uint32_t world) {
    // Neither the struct nor the prefix lasts.
    const std::string name(prefix);
    const keel_store view = store.view(name.c_str());
    keel_comm comm = {};
    EXPECT_KEEL_OK(keel_comm_init_store_start(devices_[rank], &view, rank, world, nullptr, &comm));
    return comm;
  }
  void expect_sums(const std::vector<Answer>& answers) {
    uint32_t expected = 0;
    for (uint32_t rank = 0; rank < answers.size(); ++rank) expected += rank + 1;
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < answers.size(); ++rank) {
      ASSERT_EQ(answers[rank].status, KEEL_OK) << answers[rank].text;
      threads.emplace_back([&, rank] {
        expect_sum_of_ranks(devices_[rank], answers[rank].comm, rank, kCount, expected);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  static void expect_failure(const Answer& answer, keel_status code, const std::string& text) {
    EXPECT_EQ(answer.status, code) << answer.text;
    EXPECT_NE(answer.text.find(text), std::string::npos)
        << "no '" << text << "' in: " << answer.text;
  }

  std::array<keel_device, kWorld> devices_ = {};
  DictionaryStore store_;
};

TEST_F(StoreTest, ThreadsMeetAndTheirKeysHaveThePrefix) {
  const std::vector<Answer> answers = join_all(store_, "a job", kWorld);
  expect_sums(answers);
  for (const std::string& key : store_.keys()) EXPECT_EQ(key.rfind("keel-1/a job/", 0), 0u) << key;
  EXPECT_TRUE(store_.has("keel-1/a job/rank/2"));
}

TEST_F(StoreTest, OneRankMeetsItself) {
  expect_sums({join(store_, nullptr, 0, 1)});
  EXPECT_TRUE(store_.has("keel-1//roster"));
}

TEST_F(StoreTest, SeveralCommunicatorsUseOneStore) {
  std::vector<Answer> first;
  std::vector<Answer> second;
  std::thread other([&] { first = join_all(store_, "first", kWorld); });
  second = join_all(store_, "second", kWorld);
  other.join();
  expect_sums(first);
  expect_sums(second);
}

TEST_F(StoreTest, PartsOfACommunicatorNeedNoStore) {
  const std::vector<Answer> answers = join_all(store_, "whole", kWorld);
  store_.set_fault([](const std::string&, const std::string&) { return KEEL_UNAVAILABLE; });
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    threads.emplace_back([&, rank] {
      keel_comm again = {};
      EXPECT_KEEL_OK(keel_comm_duplicate(answers[rank].comm, nullptr, &again));
      expect_sum_of_ranks(devices_[rank], again, rank, kCount, 6);
      EXPECT_KEEL_OK(keel_comm_destroy(again));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(StoreTest, FailureOfTheStoreNamesRankFunctionAndKeyOnAllRanks) {
  struct Case {
    const char* function;
    const char* key;
    uint32_t rank;  // that has the fault
  };
  for (const Case& each :
       {Case{"get", "roster", 1}, Case{"set", "rank/1", 1}, Case{"set", "report/1", 1},
        Case{"get", "rank/1", 0}, Case{"set", "roster", 0}, Case{"get", "report/1", 0}}) {
    SCOPED_TRACE(std::string(each.function) + " " + each.key);
    DictionaryStore store;
    const std::string key = std::string("keel-1/p/") + each.key;
    // Rank 1 looks up its own key first, which is a get too.
    int gets = 0;
    store.set_fault([&](const std::string& function, const std::string& asked) {
      if (function != each.function || asked != key) return KEEL_OK;
      if (each.key == std::string("rank/1") && function == "get" && gets++ == 0) return KEEL_OK;
      return KEEL_UNAVAILABLE;
    });
    std::vector<Answer> answers(2);
    std::thread other([&] { answers[1] = join(store, "p", 1, 2); });
    if (each.key == std::string("rank/1") && each.function == std::string("get")) {
      store.await(key);
    }
    answers[0] = join(store, "p", 0, 2);
    other.join();
    const std::string text =
        std::string("the store's ") + each.function + " of '" + key + "' returned KEEL_UNAVAILABLE";
    const std::string own = std::to_string(each.rank);
    expect_failure(answers[each.rank], KEEL_UNAVAILABLE, "rank " + own + " of 2: " + text);
    expect_failure(answers[1 - each.rank], KEEL_RANK_FAILED, "rank " + own + ": " + text);
  }
}

TEST_F(StoreTest, NumberThatIsNoStatusIsNamed) {
  store_.set_fault(
      [](const std::string&, const std::string&) { return static_cast<keel_status>(12345); });
  expect_failure(join(store_, "p", 0, 2), KEEL_INTERNAL, "returned 12345, which is no status");
}

TEST_F(StoreTest, MissingRanksAreNamedAtTheDeadline) {
  expect_failure(
      join(store_, "p", 0, 3, kShortNs), KEEL_TIMED_OUT,
      "rank 0 of 3: ranks 1, 2 of 3 have not come to the store, as 'keel-1/p/rank/RANK'");
  expect_failure(join(store_, "q", 2, 3, kShortNs), KEEL_TIMED_OUT,
                 "ranks 0, 1 of 3 have not come");
  // A rank that comes later learns of it.
  expect_failure(join(store_, "p", 1, 3), KEEL_TIMED_OUT,
                 "rank 1 of 3: rank 0: ranks 1, 2 of 3 have not come");
}

TEST_F(StoreTest, StoreWithoutAnswerEndsAtTheDeadline) {
  store_.set_fault([](const std::string& function, const std::string&) {
    return function == "get" ? KEEL_NOT_FOUND : KEEL_OK;
  });
  expect_failure(join(store_, "p", 0, 2, kShortNs), KEEL_TIMED_OUT,
                 "ranks 0, 1 of 2 have not come");
}

TEST_F(StoreTest, WrongBytesNameTheKeyOnAllRanks) {
  struct Case {
    const char* key;
    uint32_t reader;
  };
  for (const Case& each : {Case{"rank/1", 0}, Case{"roster", 1}, Case{"report/1", 0}}) {
    for (const size_t size : {0, 1, 8, 900, 9000}) {
      SCOPED_TRACE(std::string(each.key) + ", " + std::to_string(size) + " bytes");
      DictionaryStore store;
      const std::string key = std::string("keel-1/p/") + each.key;
      store.corrupt(key, std::string(size, 'x'));
      const std::vector<Answer> answers = join_all(store, "p", 2);
      const std::string text = "the store's value of '" + key + "'";
      const std::string reader = std::to_string(each.reader);
      expect_failure(answers[each.reader], KEEL_DATA_LOSS, "rank " + reader + " of 2: " + text);
      expect_failure(answers[1 - each.reader], KEEL_RANK_FAILED, "rank " + reader + ": " + text);
    }
  }
}

TEST_F(StoreTest, RankThatComesTwiceIsRefusedAndTheOthersMeet) {
  std::vector<Answer> answers(kWorld);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] { answers[rank] = join(store_, "p", rank, kWorld); });
    store_.await("keel-1/p/rank/" + std::to_string(rank));
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    expect_failure(
        join(store_, "p", rank, kWorld), KEEL_ALREADY_EXISTS,
        "rank " + std::to_string(rank) + " of 3: the store has this rank already, 'keel-1/p/rank/");
  }
  answers[2] = join(store_, "p", 2, kWorld);
  for (std::thread& thread : threads) thread.join();
  expect_sums(answers);
}

TEST_F(StoreTest, PrefixServesOneCommunicator) {
  expect_sums(join_all(store_, "p", 2));
  for (const Answer& answer : join_all(store_, "p", 2)) {
    expect_failure(answer, KEEL_ALREADY_EXISTS, "the prefix was used before");
  }
}

TEST_F(StoreTest, AnotherWorldIsRefusedOnAllRanks) {
  std::vector<Answer> answers(2);
  std::thread other([&] { answers[1] = join(store_, "p", 1, 3); });
  answers[0] = join(store_, "p", 0, 2);
  other.join();
  for (const Answer& answer : answers) {
    expect_failure(answer, KEEL_INVALID_ARGUMENT, "says that the world has");
  }
}

TEST_F(StoreTest, WrongArgumentsAreRefused) {
  const keel_store good = store_.view("p");
  keel_comm comm = {};
  const auto call = [&](const keel_store* store, uint32_t rank, uint32_t world, keel_comm* out) {
    const keel_status blocking =
        keel_comm_init_store(devices_[0], store, rank, world, nullptr, out);
    EXPECT_EQ(keel_comm_init_store_start(devices_[0], store, rank, world, nullptr, out), blocking);
    return blocking;
  };
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "store is NULL", call(nullptr, 0, 1, &comm));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "out_comm is NULL", call(&good, 0, 1, nullptr));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "rank is 2, world 2", call(&good, 2, 2, &comm));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "rank is 0, world 0", call(&good, 0, 0, &comm));
  keel_store wrong = good;
  wrong.set = nullptr;
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "store.set is NULL", call(&wrong, 0, 1, &comm));
  wrong = good;
  wrong.get = nullptr;
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "store.get is NULL", call(&wrong, 0, 1, &comm));
  wrong = good;
  wrong.header.size = 16;
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "store.header is not set", call(&wrong, 0, 1, &comm));
  wrong = good;
  const std::string prefix(129, 'p');
  wrong.prefix = prefix.c_str();
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "store.prefix has", call(&wrong, 0, 1, &comm));
  wrong.prefix = "two\nlines";
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "store.prefix has", call(&wrong, 0, 1, &comm));
  EXPECT_TRUE(store_.keys().empty());
}

// ---- without blocking -----------------------------------------------------------

TEST_F(StoreTest, OneThreadStartsAllRanks) {
  std::vector<Answer> answers(kWorld);
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    answers[rank].comm = start(store_, "p", rank, kWorld);
  }
  for (const Answer& each : answers) {
    ASSERT_KEEL_OK(keel_comm_wait_ready(each.comm, KEEL_TIMEOUT_DEFAULT));
  }
  expect_sums(answers);
  for (const Answer& each : answers) EXPECT_KEEL_OK(keel_comm_destroy(each.comm));
}

TEST_F(StoreTest, DestroyWhileFormingFailsTheOtherRanks) {
  const keel_comm first = start(store_, "p", 0, kWorld);
  const keel_comm second = start(store_, "p", 1, kWorld);
  store_.await("keel-1/p/rank/0");
  store_.await("keel-1/p/rank/1");
  EXPECT_EQ(keel_comm_async_error(second), KEEL_NOT_READY);
  EXPECT_KEEL_OK(keel_comm_destroy(first));
  EXPECT_FAILS(KEEL_RANK_FAILED,
               "rank 1 of 3: rank 0: ", keel_comm_wait_ready(second, KEEL_TIMEOUT_DEFAULT));
  EXPECT_KEEL_OK(keel_comm_destroy(second));
}

TEST_F(StoreTest, ShutdownEndsRanksThatWait) {
  const keel_comm started = start(store_, "p", 0, kWorld);
  Answer answer;
  std::thread waiting([&] { answer = join(store_, "p", 1, kWorld); });
  store_.await("keel-1/p/rank/1");
  ASSERT_KEEL_OK(keel_shutdown());
  waiting.join();
  // Rank 0 may have been cut off first, and told rank 1.
  EXPECT_TRUE(answer.status == KEEL_ABORTED || answer.status == KEEL_RANK_FAILED) << answer.text;
  ASSERT_KEEL_OK(init_test_devices(kWorld));
  EXPECT_EQ(keel_comm_async_error(started), KEEL_INVALID_HANDLE);
}

}  // namespace
}  // namespace keel::testing
