// SPDX-License-Identifier: Apache-2.0
// Decides when a TCP connection counts as silent.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_SILENCE_WATCH_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_SILENCE_WATCH_H_

#include <cstdint>
#include <optional>

namespace keel {

// A silent host ends its link to the job's server within one silence_ms(). A wire judges two hosts
// that reach the server and not each other, and takes longer: with a tenth of all packets lost, a
// message and the three repetitions that the kernel makes within 1.8 s are lost, or their
// acknowledgements, once in 800 times, and with the five within 7.2 s once in 20,000 times.
inline constexpr int64_t kWireSilences = 4;

// The other host is silent if it has acknowledged nothing for a limit, and data is on the way. A
// host that acknowledges, also that its process reads nothing, is not. The kernel's own limit
// (TCP_USER_TIMEOUT) takes that for silence too, and counts from the first retransmission, 0.2 s to
// more than a second after the message. Not thread-safe.
class SilenceWatch {
 public:
  // The kernel's knowledge of a connection.
  struct Acknowledgements {
    bool is_all_acknowledged = true;
    int64_t since_last_ns = 0;
  };

  // Returns the state of |socket|; all acknowledged if |socket| is no TCP connection.
  static Acknowledgements read(int socket);

  // |limit_ns| 0: none.
  explicit SilenceWatch(int64_t limit_ns) : limit_ns_(limit_ns) {}

  // Call before data is sent, or from time to time: data then counts from the next call after it
  // was sent.
  void note_send(int64_t now_ns, const Acknowledgements& acknowledgements) {
    if (acknowledgements.is_all_acknowledged || !sent_ns_) sent_ns_ = now_ns;
  }
  // Call before data is sent after a time without calls of note_send(): data then counts anew,
  // since the kernel may last have heard before that time.
  void restart() { sent_ns_.reset(); }
  // Returns how long the other host may still be silent; 0: it has acknowledged nothing for the
  // limit, although data was sent before. Losses of single packets do no harm: the kernel repeats
  // the packets meanwhile. A process that runs late accuses no host.
  int64_t remaining_ns(int64_t now_ns, const Acknowledgements& acknowledgements) const;

 private:
  int64_t limit_ns_;
  std::optional<int64_t> sent_ns_;  // of the oldest data that may lack an acknowledgement
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_SILENCE_WATCH_H_
