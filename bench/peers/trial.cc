// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/trial.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/peers/measurement.h"
#include "bench/peers/pattern.h"

namespace keel::bench::peers {

namespace {

// Runs one case after the other on the same two buffers.
class Trial {
 public:
  Trial(PeerContender& peer_contender, const Options& options)
      : peer_contender_(peer_contender), options_(options) {
    uint64_t most = 0;
    for (const Operation operation : options.operations) {
      for (const uint64_t bytes : options.bytes) {
        const Shape shape = make_shape(operation, bytes, peer_contender.world());
        most = std::max(most, std::max(shape.send, shape.receive));
      }
    }
    send_ = peer_contender.allocate(most);
    receive_ = peer_contender.allocate(most);
    poison(send_, most);
    poison(receive_, most);
  }

  void measure(Operation operation, uint64_t bytes) {
    const Shape shape = make_shape(operation, bytes, peer_contender_.world());
    const std::vector<Way> ways = peer_contender_.ways(shape);
    for (const std::string& form : peer_contender_.forms()) {
      size_t fastest = 0;
      size_t prepared = 0;
      double least = INFINITY;
      bool right = true;
      // If all algorithms were excluded, all are tried.
      const bool all_hopeless = std::all_of(ways.begin(), ways.end(), [&](const Way& way) {
        return is_hopeless(operation, bytes, way.name);
      });
      std::vector<double> times_of(ways.size(), INFINITY);
      for (size_t way = 0; way < ways.size(); ++way) {
        if (!all_hopeless && is_hopeless(operation, bytes, ways[way].name)) continue;
        prepare(shape, way);
        double first = 0;
        right = is_right(shape, ways[way], form, /*seed=*/1, &first) && right;
        // An algorithm this slow in its first run cannot become the fastest.
        times_of[way] = first > 4 * least + 0.05 ? first : estimate(shape, ways[way], form);
        prepared = way;
        if (times_of[way] < least) {
          least = times_of[way];
          fastest = way;
        }
      }
      note_hopeless(operation, bytes, ways, times_of, least);
      if (fastest != prepared) prepare(shape, fastest);
      clear_in_place(shape, ways[fastest]);
      // All ranks have the same |least|, hence the same number.
      const uint64_t times =
          options_.times != 0
              ? options_.times
              : static_cast<uint64_t>(std::clamp(options_.seconds / least, 2.0, 1e8));
      peer_contender_.run(form, std::min<uint64_t>(options_.warmup, times));
      const double seconds = time(form, times);
      double last = 0;
      right = is_right(shape, ways[fastest], form, /*seed=*/2, &last) && right;
      if (peer_contender_.rank() != 0) continue;
      const Measurement measurement = {operation,
                                       peer_contender_.world(),
                                       bytes,
                                       shape.bytes(),
                                       ways[fastest].name,
                                       form,
                                       times,
                                       seconds / static_cast<double>(times) * 1e6,
                                       right};
      std::printf("%s\n", to_line(measurement).c_str());
      std::fflush(stdout);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool is_root(const Shape& shape) const {
    return shape.operation == Operation::kBroadcast && peer_contender_.rank() == 0;
  }

  void prepare(const Shape& shape, size_t way) {
    peer_contender_.prepare(shape, way, send_, is_root(shape) ? send_ : receive_);
  }

  // Runs one operation on fresh data; returns whether all results on all ranks are right.
  bool is_right(const Shape& shape, const Way& way, const std::string& form, uint32_t seed,
                double* out_seconds) {
    poison(receive_, shape.receive);
    fill_send(shape, peer_contender_.rank(), seed, way.in_place ? receive_ : send_);
    *out_seconds = time(form, 1);
    const float* result = is_root(shape) ? send_ : receive_;
    const std::optional<uint64_t> wrong = find_wrong(shape, peer_contender_.rank(), seed, result);
    if (wrong) {
      std::fprintf(stderr, "%s, %s, %llu bytes: element %llu of rank %u is wrong: %g\n",
                   name_of(shape.operation), way.name.c_str(),
                   static_cast<unsigned long long>(shape.bytes()),
                   static_cast<unsigned long long>(*wrong), peer_contender_.rank(),
                   static_cast<double>(result[*wrong]));
    }
    return peer_contender_.largest(wrong ? 1 : 0) == 0;
  }

  // Algorithms four times slower than the best at one size are excluded at larger sizes: with 8
  // ranks and 64 MiB some of Gloo's five take ten seconds per operation. Sizes below 64 KiB exclude
  // none, because latency dominates there.
  static constexpr uint64_t kTelling = 64 << 10;
  using WayOfOperation = std::pair<Operation, std::string>;

  bool is_hopeless(Operation operation, uint64_t bytes, const std::string& way) const {
    const auto found = hopeless_.find({operation, way});
    return found != hopeless_.end() && bytes > found->second;
  }

  void note_hopeless(Operation operation, uint64_t bytes, const std::vector<Way>& ways,
                     const std::vector<double>& seconds, double least) {
    if (bytes < kTelling) return;
    for (size_t way = 0; way < ways.size(); ++way) {
      // All ranks have the same numbers and reach the same conclusion.
      if (std::isfinite(seconds[way]) && seconds[way] > 4 * least) {
        hopeless_.emplace(WayOfOperation{operation, ways[way].name}, bytes);
      }
    }
  }

  // Repeated sums in place must not leave float's range.
  void clear_in_place(const Shape& shape, const Way& way) {
    if (way.in_place) std::fill(receive_, receive_ + std::max(shape.send, shape.receive), 0.0f);
  }

  double time(const std::string& form, uint64_t times) {
    peer_contender_.barrier();
    const Clock::time_point start = Clock::now();
    peer_contender_.run(form, times);
    return peer_contender_.largest(std::chrono::duration<double>(Clock::now() - start).count());
  }

  // Returns the seconds of one operation.
  double estimate(const Shape& shape, const Way& way, const std::string& form) {
    clear_in_place(shape, way);
    const double enough = options_.seconds / 8;
    uint64_t times = 1;
    while (true) {
      const double seconds = time(form, times);
      if (seconds >= enough) return seconds / static_cast<double>(times);
      // A first run may be slow: the count grows in limited steps.
      const double missing = std::clamp(1.2 * enough / seconds, 2.0, 16.0);
      times = static_cast<uint64_t>(static_cast<double>(times) * missing);
    }
  }

  PeerContender& peer_contender_;
  const Options& options_;
  float* send_;
  float* receive_;
  std::map<WayOfOperation, uint64_t> hopeless_;  // excluded above this many bytes
};

}  // namespace

void run_cases(PeerContender& peer_contender, const Options& options) {
  Trial trial(peer_contender, options);
  for (const Operation operation : options.operations) {
    for (const uint64_t bytes : options.bytes) trial.measure(operation, bytes);
  }
}

}  // namespace keel::bench::peers
