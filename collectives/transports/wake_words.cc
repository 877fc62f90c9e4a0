// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/wake_words.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "collectives/transports/wait_policy.h"

namespace keel {

void WakeWords::park(std::atomic<uint32_t>& word, uint32_t seen, const Deadline& deadline) {
  const int64_t slice = WaitPolicy::slice_ns(deadline);
  const timespec timeout = {slice / 1'000'000'000, slice % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void WakeWords::wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void WakeWords::wake_all() const {
  wake_changed(changes());
  wake_changed(room());
  for (Word& count : shared_->published) wake(count.value);
  for (Word& count : shared_->arrived) wake(count.value);
  for (uint32_t rank = 0; rank < world_; ++rank) wake_messages(rank);
}

}  // namespace keel
