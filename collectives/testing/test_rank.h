// SPDX-License-Identifier: Apache-2.0
// One rank that runs cases through keel.h, in any thread or process of a test.
#ifndef KEEL_COLLECTIVES_TESTING_TEST_RANK_H_
#define KEEL_COLLECTIVES_TESTING_TEST_RANK_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/testing/reference.h"

namespace keel::testing {

// All available devices; ranks use them round robin.
std::vector<keel_device> all_devices();
// Every world includes the last device (simulated, or Vulkan's).
keel_device device_of(const std::vector<keel_device>& available, uint32_t rank, uint32_t world);

// Memory for one case, freed at the end. Functions that return text return the failure; empty on
// success.
class CaseRun {
 public:
  CaseRun(const Reference& reference, uint32_t rank, keel_device device);
  // Uses |memory| of the caller, who fills and fetches it.
  CaseRun(const Reference& reference, uint32_t rank, keel_device device, char* memory);
  ~CaseRun();
  CaseRun(CaseRun&& other) noexcept;
  CaseRun(const CaseRun&) = delete;
  CaseRun& operator=(const CaseRun&) = delete;

  // Fills the memory, with the same content each time.
  std::string prepare(keel_stream stream);
  // Enqueues the operation.
  std::string call(keel_comm comm, keel_stream stream);
  // Enqueues a copy of the memory to the host.
  std::string fetch(keel_stream stream);
  // Compares; call after the stream is synchronized.
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

// All steps of CaseRun, for a rank on its own thread.
std::string run_case(const Reference& reference, uint32_t rank, keel_device device, keel_comm comm,
                     keel_stream stream);

// Random numbers that depend only on the seed, on every machine and standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint32_t below(uint32_t limit);

 private:
  uint64_t state_;
};

// Cases that cover every pair of values of: operation, dtype, reduction (where it reduces), world,
// count, in-place, staged. The first cases cover the most new pairs. Counts are 0, 1, 3, 1023,
// 4097, 70001 (divided among the ranks where each has a part of that size), and the largest eager
// count, one less, and one more.
std::vector<Case> pairwise_cases(const std::vector<uint32_t>& worlds, uint32_t seed);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_TEST_RANK_H_
