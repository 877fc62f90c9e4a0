// SPDX-License-Identifier: Apache-2.0
// One rank that runs cases through keel.h, for tests; in whatever thread or process.
#ifndef KEEL_COLLECTIVES_TESTING_TEST_RANK_H_
#define KEEL_COLLECTIVES_TESTING_TEST_RANK_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/testing/reference.h"

namespace keel::testing {

// The devices that ranks are dealt to, round robin: all there are.
std::vector<keel_device> all_devices();
// The last of them (the simulated one, or Vulkan's) takes part in every world.
keel_device device_of(const std::vector<keel_device>& available, uint32_t rank, uint32_t world);

// Memory with what a case needs, freed at the end. Functions that return text say what went
// wrong; nothing, when all is well.
class CaseRun {
 public:
  CaseRun(const Reference& reference, uint32_t rank, keel_device device);
  // In |memory| of the caller's, who fills it and fetches what becomes of it.
  CaseRun(const Reference& reference, uint32_t rank, keel_device device, char* memory);
  ~CaseRun();
  CaseRun(CaseRun&& other) noexcept;
  CaseRun(const CaseRun&) = delete;
  CaseRun& operator=(const CaseRun&) = delete;

  // Fills the memory; the same memory each time.
  std::string prepare(keel_stream stream);
  // Enqueues the operation.
  std::string call(keel_comm comm, keel_stream stream);
  // Enqueues a copy of the memory to the host.
  std::string fetch(keel_stream stream);
  // After the stream was synchronized: compares.
  std::string check() const { return check(fetched_); }
  std::string check(std::string_view fetched) const;

 private:
  keel_status enqueue(keel_comm comm, keel_stream stream) const;
  keel_status exchange(keel_comm comm, keel_stream stream) const;
  std::string failed(const char* what) const;

  const Reference* reference_;
  uint32_t rank_;
  keel_device device_;
  char* memory_ = nullptr;
  bool is_owned_ = true;
  keel_reduction reduction_;
  std::string fetched_;
};

// All of it, for a rank of its own thread.
std::string run_case(const Reference& reference, uint32_t rank, keel_device device, keel_comm comm,
                     keel_stream stream);

// Numbers that depend on nothing but the seed, on every machine and standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint32_t below(uint32_t limit);

 private:
  uint64_t state_;
};

// Cases in which any two values of these occur together: operation, dtype, reduction (where it
// reduces), world, count, place, reach. The first ones bring most that is new. Counts are 0, 1,
// 3, 1023, 4097, 70001 (divided among the ranks where each has a part of that size), and the
// largest that travels with a post, one less, and one more.
std::vector<Case> pairwise_cases(const std::vector<uint32_t>& worlds, uint32_t seed);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_TEST_RANK_H_
