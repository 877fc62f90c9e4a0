// SPDX-License-Identifier: Apache-2.0
// One rank of a library under comparison: what run_cases (trial.h) drives.
#ifndef KEEL_BENCH_PEERS_CONTESTANT_H_
#define KEEL_BENCH_PEERS_CONTESTANT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/peers/pages.h"
#include "bench/peers/shape.h"

namespace keel::bench::peers {

// How a library can be made to do an operation: the fastest is what it is measured by, as its
// user would tune it.
struct Way {
  std::string name;
  // Its input stands in the buffer that receives, and is overwritten.
  bool in_place = false;
};

class Contestant {
 public:
  Contestant() = default;
  virtual ~Contestant() = default;
  Contestant(const Contestant&) = delete;
  Contestant& operator=(const Contestant&) = delete;

  virtual uint32_t rank() const = 0;
  virtual uint32_t world() const = 0;

  // Zeroed, on pages of its own; lives as long as this.
  virtual float* allocate(uint64_t elements);

  // Never empty, and equal on all ranks.
  virtual std::vector<Way> ways(const Shape& shape) = 0;
  // How a loop of operations waits: "blocking", for each one before the next; "stream", once
  // for all of them.
  virtual std::vector<std::string> forms() const { return {"blocking"}; }

  // Gets ready to run |shape| the |way|-th way; every rank calls. In a broadcast the root
  // has |receive| == |send|: it works in place.
  virtual void prepare(const Shape& shape, size_t way, float* send, float* receive) = 0;
  // The prepared operation |times| times; done on return. No rank is done with one that some
  // rank has not called: where a broadcast does not see to that by itself, a barrier follows
  // each time, whose time counts. Without, a root that has handed on its last message would
  // be timed, and not the operation.
  virtual void run(const std::string& form, uint64_t times) = 0;

  virtual void barrier() = 0;
  // Of the values of all ranks.
  virtual double largest(double value) = 0;

 private:
  std::vector<Pages> pages_;
};

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_CONTESTANT_H_
