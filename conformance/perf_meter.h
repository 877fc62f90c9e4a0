// SPDX-License-Identifier: Apache-2.0
// Timing for `keel conform perf`: medians over rounds, within a share of the total run time.
#ifndef KEEL_CONFORMANCE_PERF_METER_H_
#define KEEL_CONFORMANCE_PERF_METER_H_

#include <cstdint>
#include <functional>

namespace keel::conformance {

// Not thread-safe.
class PerfMeter {
 public:
  // |share|: time budget of one figure in seconds. A figure whose single runs take a large part of
  // the share may exceed it.
  explicit PerfMeter(double share) : share_(share) {}

  // Returns the median seconds per run. |batch|(n) starts n runs and returns when all are done.
  // time() calls |batch| once to warm up, then doubles n until a call takes a twentieth of the
  // share (n at most 16,384), then measures 3 to 15 calls.
  double time(const std::function<void(uint64_t runs)>& batch) const;
  // Returns the median seconds per call of |enqueue|, over rounds of 64 calls. |drain| waits for
  // the enqueued work of a round and is not timed.
  double time_enqueue(const std::function<void()>& enqueue,
                      const std::function<void()>& drain) const;
  // Returns the largest of |from|, 4 |from|, ... up to |to| (and |to| itself) whose predicted run
  // time is at most a tenth of the share. The prediction multiplies the measured time of the
  // previous size by |growth|. Calls |run|(size) twice per size.
  uint64_t largest_that_fits(uint64_t from, uint64_t to, double growth,
                             const std::function<void(uint64_t size)>& run) const;

 private:
  const double share_;
};

// Returns the bytes per second that memcpy copies with |threads| threads, each copying its part of
// |bytes|.
double measure_memcpy(uint64_t bytes, unsigned threads);
// The best rate over 1, 2, 4, ... threads up to one per core, with the number of threads that
// reached it.
struct HostMemoryRoof {
  double bytes_per_second = 0;
  unsigned threads = 0;
  double by_one_thread = 0;
};
HostMemoryRoof measure_host_memory(uint64_t bytes);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PERF_METER_H_
