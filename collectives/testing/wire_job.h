// SPDX-License-Identifier: Apache-2.0
// Jobs of processes on several hosts, which KEEL_HOST_ID tells apart, over the loopback interface.
#ifndef KEEL_COLLECTIVES_TESTING_WIRE_JOB_H_
#define KEEL_COLLECTIVES_TESTING_WIRE_JOB_H_

#include <keel/keel.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/testing/wire_test.h"

namespace keel::testing {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kIsSlow = true;
#else
constexpr bool kIsSlow = false;
#endif

// One rank of a job, in the process of a worker.
struct WireRank {
  uint32_t rank = 0;
  uint32_t world = 0;
  std::string hosts;  // the host of each rank, one letter each
  uint64_t job = 0;   // a number for hosts and program, the same on all ranks
  bool staged = false;
  keel_device device = {};
  keel_comm comm = {};
  keel_stream stream = {};
  int64_t timeout_ns = 0;  // of the operations; 0: the default
};
keel_comm_options make_options(bool staged);
std::string explain(keel_comm comm);

// Programs of the ranks, by name; each returns what is wrong, or an empty text. Defined by the
// test.
using WireProgram = std::function<std::string(const WireRank&)>;
const std::map<std::string, WireProgram>& wire_programs();

// A variable of the environment of one rank alone.
struct RankVariable {
  size_t rank;
  std::string name;
  std::string value;
};

// A rank with this variable has one core, the first of those that the test may use.
inline constexpr const char* kOneCore = "KEEL_TEST_ONE_CORE";
// Puts |ranks| ranks on that core.
std::vector<RankVariable> all_on_one_core(size_t ranks);

// |hosts|: the host of each rank, one letter each. |seconds|: the deadline of an operation; 0: the
// default.
class WireJob {
 public:
  WireJob(const std::string& hosts, const std::string& program, const std::string& backends = "cpu",
          bool staged = false, int seconds = 0, const std::vector<RankVariable>& variables = {});
  ChildProcess& operator[](size_t rank) { return ranks_[rank]; }
  void expect_success();

 private:
  std::vector<ChildProcess> ranks_;
};

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_WIRE_JOB_H_
