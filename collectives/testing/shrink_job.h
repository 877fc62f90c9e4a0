// SPDX-License-Identifier: Apache-2.0
// Ranks that shrink their communicator, as threads or processes that obey a test.
#ifndef KEEL_COLLECTIVES_TESTING_SHRINK_JOB_H_
#define KEEL_COLLECTIVES_TESTING_SHRINK_JOB_H_

#include <gtest/gtest.h>
#include <keel/keel.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"

namespace keel::testing {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kSecond = 1'000 * kMillisecond;
constexpr uint64_t kCount = 20'000;

// Long enough for a running rank to answer on a busy machine; a slower rank counts as absent.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kIsSlow = true;
constexpr int kAbsentMs = 5000;
#else
constexpr bool kIsSlow = false;
constexpr int kAbsentMs = 2000;
#endif

// |line| is read once, since it may be an answer.
inline void expect_says(const std::string& text, const std::string& line) {
  EXPECT_NE(line.find(text), std::string::npos) << "no '" << text << "' in '" << line << "'";
}

struct Rank {
  uint32_t number = 0;  // at the start
  keel_device device = {};
  keel_comm comm = {};
  keel_stream stream = {};
  void* data = nullptr;
};

// Shrinks the communicator of |self|. Returns "rank 1 of 3, epoch 2, were 0 1 3", or the failure.
std::string shrink(Rank& self, int64_t timeout_ms, int64_t absent_ms);
// Returns the sum over the ranks of two to the power of the first number, or the failure.
std::string sum(Rank& self);

// |hosts|: the host of each rank, one letter each.
class Job {
 public:
  explicit Job(const std::string& hosts) {
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      ranks_.emplace_back(
          "rank", std::vector<std::string>{std::to_string(rank), std::to_string(hosts.size()),
                                           hosts.substr(rank, 1)});
      left_.push_back(static_cast<uint32_t>(rank));
    }
    const std::string id = ranks_[0].read_line();
    for (size_t rank = 1; rank < hosts.size(); ++rank) ranks_[rank].write_line(id);
    for (ChildProcess& rank : ranks_) EXPECT_EQ(rank.read_line(), "ready");
  }
  ChildProcess& operator[](uint32_t rank) { return ranks_[rank]; }
  void kill(uint32_t rank) {
    ranks_[rank].kill();
    remove(rank);
  }
  void remove(uint32_t rank) { std::erase(left_, rank); }
  void add(uint32_t rank) {
    left_.insert(std::upper_bound(left_.begin(), left_.end(), rank), rank);
  }
  void tell(const std::string& command) {
    for (const uint32_t rank : left_) ranks_[rank].write_line(command);
  }
  std::string ask(uint32_t rank, const std::string& command) {
    ranks_[rank].write_line(command);
    return ranks_[rank].read_line();
  }
  // All that are left are in the midst of all_reduces.
  void run() {
    tell("loop");
    for (const uint32_t rank : left_) ASSERT_EQ(ranks_[rank].read_line(), "running");
  }
  void expect_failures(const std::string& text) {
    for (const uint32_t rank : left_) expect_says(text, ranks_[rank].read_line());
  }
  // All that are left agree on |epoch|, and on being those left of |before|.
  void expect_shrunk(const std::vector<uint32_t>& before, uint64_t epoch) {
    std::string were;
    int32_t bits = 0;
    for (const uint32_t rank : left_) {
      const auto place = std::find(before.begin(), before.end(), rank) - before.begin();
      were += " " + std::to_string(place);
      bits |= 1 << rank;
    }
    for (size_t i = 0; i < left_.size(); ++i) {
      EXPECT_EQ(ranks_[left_[i]].read_line(),
                fmt::format("rank {} of {}, epoch {}, were{}", i, left_.size(), epoch, were));
    }
    tell("sum");
    for (const uint32_t rank : left_) EXPECT_EQ(ranks_[rank].read_line(), std::to_string(bits));
  }
  // All that are left were told "go_on", and are in one group.
  void expect_together() {
    int32_t bits = 0;
    for (const uint32_t rank : left_) bits |= 1 << rank;
    const std::string first = ranks_[left_[0]].read_line();
    EXPECT_EQ(first.substr(first.find(':') + 1), " " + std::to_string(bits)) << first;
    for (size_t i = 1; i < left_.size(); ++i) EXPECT_EQ(ranks_[left_[i]].read_line(), first);
  }
  const std::vector<uint32_t>& left() const { return left_; }

 private:
  std::deque<ChildProcess> ranks_;
  std::vector<uint32_t> left_;
};

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_SHRINK_JOB_H_
