// SPDX-License-Identifier: Apache-2.0
// How `keel conform perf` times: medians over rounds, within a share of the whole run.
#ifndef KEEL_CONFORMANCE_PERF_METER_H_
#define KEEL_CONFORMANCE_PERF_METER_H_

#include <cstdint>
#include <functional>

namespace keel::conformance {

// Not thread-safe.
class PerfMeter {
 public:
  // |share|: seconds that one figure may take, but for runs that each take a large part of that.
  explicit PerfMeter(double share) : share_(share) {}

  // Median seconds of one run. |batch|(n) begins n runs and returns when all are done; it is called
  // once to warm up, then until a call takes a tenth of the share, then 3 to 15 times.
  double time(const std::function<void(uint64_t runs)>& batch) const;
  // Median seconds that one call of |enqueue| takes. |drain| waits for all that was enqueued, which
  // is 64 calls, and is not timed.
  double time_enqueue(const std::function<void()>& enqueue,
                      const std::function<void()>& drain) const;
  // The largest of |from|, 4 |from|, ... up to |to| (and |to| itself) whose run, as the one before
  // suggests, takes no more than a tenth of the share; |growth|: how many times as long the
  // next one takes. |run|(size) is called twice for each.
  uint64_t largest_that_fits(uint64_t from, uint64_t to, double growth,
                             const std::function<void(uint64_t size)>& run) const;

 private:
  const double share_;
};

// Bytes that memcpy copies a second with |threads| of them, each on its part of |bytes|.
double measure_memcpy(uint64_t bytes, unsigned threads);
// The best of 1, 2, 4, ... threads up to one for each core, and with how many.
struct HostMemoryRoof {
  double bytes_per_second = 0;
  unsigned threads = 0;
  double by_one_thread = 0;
};
HostMemoryRoof measure_host_memory(uint64_t bytes);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PERF_METER_H_
