// SPDX-License-Identifier: Apache-2.0
// Yields of a thread that waits, as long as they take little time.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_YIELD_GUARD_H_
#define KEEL_COLLECTIVES_TRANSPORTS_YIELD_GUARD_H_

#include <algorithm>
#include <cstdint>

namespace keel {

// Where ranks share cores, a yield hands the core to another rank, often the one that is waited
// for: an all_reduce of 8 bytes between 2 processes that other work leaves one core took 6 us with
// yields and 27 to 70 us without. Where another program keeps the core, a yield lasts as long as
// that program's turn: beside one busy program a core, an all_reduce of 8 bytes among 4 processes
// on 2 cores took 3500 us with yields and takes 70 us with this guard. After a second long yield in
// a row, or nearly so, the thread yields no more for a while. For one thread.
class YieldGuard {
 public:
  // The guard of the calling thread.
  static YieldGuard& of_thread();

  // Lets another thread have the core, unless that may take long. Returns whether it did. |turn|
  // above 0: the yield before was the thread's last work, but for a poll of memory.
  bool yield(uint32_t turn);

  // The processor's time stamp counter, which takes 5 to 10 ns to read; the clock takes 30, of the
  // 300 of a yield.
  static uint64_t ticks();
  // In ticks: 0.5 to 2 ms. A rank's turn between two waits takes 10 to 50 us; another program's, 3
  // ms.
  static const uint64_t kLongYield;

  bool may_yield(uint64_t now) const { return now >= next_yield_; }
  void note_yield(uint64_t begin, uint64_t end) {
    const uint64_t length = end > begin ? end - begin : 0;
    if (length <= kLongYield) {
      short_ = std::min(short_ + 1, kSoon);
      return;
    }
    factor_ = short_ < kSoon ? std::clamp(2 * factor_, 1u, kMostRest) : 0;
    next_yield_ = end + factor_ * length;
    short_ = 0;
  }

 private:
  // Two long yields with fewer short ones between them: another program has the core, perhaps with
  // a lower priority. The ranks' start and their own work make single ones.
  static constexpr uint32_t kSoon = 256;
  // Rest after a long yield, in its own length, at most. It doubles with each one.
  static constexpr uint32_t kMostRest = 16;

  uint32_t factor_ = 0;
  uint32_t short_ = kSoon;  // yields since the last long one, up to kSoon
  uint64_t end_ = 0;        // of the last yield
  uint64_t next_yield_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_YIELD_GUARD_H_
