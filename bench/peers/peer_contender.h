// SPDX-License-Identifier: Apache-2.0
// A rank of a library under comparison, driven by run_cases (trial.h).
#ifndef KEEL_BENCH_PEERS_PEER_CONTENDER_H_
#define KEEL_BENCH_PEERS_PEER_CONTENDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/peers/pages.h"
#include "bench/peers/shape.h"

namespace keel::bench::peers {

// An algorithm selectable in a library for an operation. The library is measured by its fastest
// algorithm, as a user would tune it.
struct Way {
  std::string name;
  // The input lies in the receive buffer and is overwritten.
  bool in_place = false;
};

class PeerContender {
 public:
  PeerContender() = default;
  virtual ~PeerContender() = default;
  PeerContender(const PeerContender&) = delete;
  PeerContender& operator=(const PeerContender&) = delete;

  virtual uint32_t rank() const = 0;
  virtual uint32_t world() const = 0;

  // Returns zeroed memory on separate pages, valid until this object is destroyed.
  virtual float* allocate(uint64_t elements);

  // Returns a non-empty list, equal on all ranks.
  virtual std::vector<Way> ways(const Shape& shape) = 0;
  // How a loop waits for its operations: "blocking", for each operation before the next; "stream",
  // once for all operations.
  virtual std::vector<std::string> forms() const { return {"blocking"}; }

  // Prepares |shape| with algorithm number |way|; every rank calls. In a broadcast the root passes
  // |receive| == |send|: the root works in place.
  virtual void prepare(const Shape& shape, size_t way, float* send, float* receive) = 0;
  // Runs the prepared operation |times| times; returns when all are done. No rank may complete an
  // operation that some rank has not started: if the library's broadcast does not guarantee so, a
  // barrier follows each broadcast and its time counts. Without the barrier the time would only
  // cover the root passing on the last message.
  virtual void run(const std::string& form, uint64_t times) = 0;

  virtual void barrier() = 0;
  // Returns the maximum over all ranks.
  virtual double largest(double value) = 0;

 private:
  std::vector<Pages> pages_;
};

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_PEER_CONTENDER_H_
