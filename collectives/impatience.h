// SPDX-License-Identifier: Apache-2.0
// How long a call waits for the other ranks before it leaves the operation to a thread.
#ifndef KEEL_COLLECTIVES_IMPATIENCE_H_
#define KEEL_COLLECTIVES_IMPATIENCE_H_

#include <algorithm>
#include <cstdint>

#include "collectives/transports/pause.h"

namespace keel {

// For as long as the two changes of thread cost that it spares, some 20 us, as a competitive
// spin lock would: so it never costs more than twice the better choice (Karlin et al. 1991).
// A rank that is always the first to call, because one thread calls for several ranks or
// because it has less to do, would lose that each time: after each wait in vain the next ones
// are left out, twice as many as before. For one thread at a time.
class Impatience {
 public:
  explicit Impatience(bool crowded) : most_(crowded ? kOffers : pauses_in(kPauseNs)) {}

  // Of waiting, for the next call: pauses, or offers of the core where it has to be shared.
  uint32_t turns() const { return left_out_ == 0 ? most_ : 0; }
  // How it ended.
  void note(bool came) {
    if (left_out_ != 0) {
      --left_out_;
    } else if (came) {
      in_vain_ = 0;
    } else {
      left_out_ = in_vain_;
      in_vain_ = std::min(2 * in_vain_ + 1, kMostLeftOut);
    }
  }

 private:
  static constexpr int64_t kPauseNs = 20'000;
  static constexpr uint32_t kOffers = 100;  // of 200 ns, where nobody takes it
  static constexpr uint32_t kMostLeftOut = 31;

  const uint32_t most_;
  uint32_t in_vain_ = 0;
  uint32_t left_out_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_IMPATIENCE_H_
