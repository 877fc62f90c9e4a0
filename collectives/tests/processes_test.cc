// SPDX-License-Identifier: Apache-2.0
// Ranks in several processes, and in threads of processes: each rank runs the same cases and checks
// its results against the serial reference.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <keel/keel.hpp>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/testing/interleaving.h"
#include "collectives/testing/product.h"
#include "collectives/testing/reference.h"
#include "collectives/testing/rounding.h"
#include "collectives/testing/test_rank.h"
#include "core/testing/test_backend.h"

namespace {

using keel::testing::Case;
using keel::testing::ChildProcess;
using keel::testing::Reference;

constexpr int64_t kSecond = 1'000'000'000;

// Under the thread sanitizer an operation takes ten times as long.
#if defined(__SANITIZE_THREAD__)
constexpr size_t kCasesPerJob = 25;
#else
constexpr size_t kCasesPerJob = 100;
#endif

// ---- the workers ----------------------------------------------------------------

keel_comm_options make_options(bool staged) {
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.forbid_alias = staged ? 1 : 0;
  options.chunk_bytes = 4096;
  return options;
}

// The work of a rank after the join; returns the error, or an empty text.
using Program =
    std::function<std::string(uint32_t rank, keel_device device, keel_comm comm, keel_stream)>;

std::string run_rank(uint32_t rank, keel_device device, const Program& program,
                     const std::function<keel_status(keel_comm*)>& join) {
  keel_comm comm;
  if (join(&comm) != KEEL_OK) return std::string("joining: ") + keel_last_error();
  keel_stream stream;
  if (keel_stream_create(device, 0, &stream) != KEEL_OK) return keel_last_error();
  std::string problem = program(rank, device, comm, stream);
  if (!problem.empty()) keel_comm_abort(comm);  // so that the peers do not wait
  if (keel_comm_destroy(comm) != KEEL_OK && problem.empty()) problem = keel_last_error();
  if (keel_stream_destroy(stream) != KEEL_OK && problem.empty()) problem = keel_last_error();
  return problem;
}

// The references are the same for all ranks of a process.
std::vector<std::unique_ptr<Reference>> make_references(uint32_t world, bool staged) {
  std::vector<std::unique_ptr<Reference>> references;
  for (const Case& scenario : keel::testing::pairwise_cases({world}, /*seed=*/world)) {
    if (references.size() == kCasesPerJob) break;
    Case taken = scenario;
    taken.staged = staged;
    references.push_back(std::make_unique<Reference>(taken));
  }
  return references;
}

std::string explain(keel_comm comm) {
  return keel::api_detail::read_text(
      [&](char* out, uint64_t* size) { return keel_comm_explain(comm, out, size); });
}

// When the memory of an all_reduce is freed: after the wait, or behind the operation and before the
// wait, in either form.
enum class Freed { kAfterTheWait, kBehind, kBehindOnStream };

keel_status free_memory(Freed freed, keel_device device, keel_stream stream, void* memory) {
  return freed == Freed::kBehind ? keel_free(device, memory) : keel_free_on_stream(stream, memory);
}

// Memory is freed and reallocated, so in each round an address belongs to a new object of the rank:
// a peer that still reads the old object sees old data.
std::string sum_in_new_memory(Freed freed, keel_device device, keel_comm comm, keel_stream stream) {
  uint32_t rank = 0;
  uint32_t world = 0;
  auto before = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
  if (keel_comm_rank(comm, &rank, &world) != KEEL_OK ||
      keel_memory_stats_get(device, &before) != KEEL_OK) {
    return keel_last_error();
  }
  const bool waits_first = freed == Freed::kAfterTheWait;
  auto stats = before;
  std::map<void*, uint32_t> rounds_at;
  constexpr uint32_t kRounds = 8;
  constexpr uint64_t kObject = 65 << 20;  // large enough for a separate object on a CPU device
  for (uint32_t round = 0; round < kRounds; ++round) {
    // A short operation, which may run within its call, and a longer one, which never does.
    const uint64_t count = round % 2 == 0 ? 100'000 : 300'000;
    void* memory = nullptr;
    std::vector<uint32_t> values(count, 1000 * round + rank);
    if (keel_alloc(device, KEEL_MEMORY_DEVICE, kObject, &memory) != KEEL_OK ||
        keel_copy(stream, device, memory, KEEL_HOST, values.data(), count * 4) != KEEL_OK ||
        keel_all_reduce(comm, memory, memory, count, KEEL_UINT32, KEEL_SUM, stream) != KEEL_OK ||
        keel_copy(stream, KEEL_HOST, values.data(), device, memory, count * 4) != KEEL_OK ||
        (!waits_first && free_memory(freed, device, stream, memory) != KEEL_OK) ||
        keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT) != KEEL_OK ||
        (waits_first && free_memory(freed, device, stream, memory) != KEEL_OK) ||
        keel_memory_trim(device) != KEEL_OK || keel_memory_stats_get(device, &stats) != KEEL_OK) {
      return keel_last_error();
    }
    const uint32_t expected = world * 1000 * round + world * (world - 1) / 2;
    const auto wrong = std::find_if(values.begin(), values.end(),
                                    [&](uint32_t value) { return value != expected; });
    if (wrong != values.end()) {
      return "round " + std::to_string(round) + ": " + std::to_string(*wrong) + ", not " +
             std::to_string(expected);
    }
    ++rounds_at[memory];
  }
  if (stats.native_frees - before.native_frees < kRounds / 2)
    return "the memory was not given back";
  return rounds_at.size() < kRounds ? "" : "no address was used twice";
}

std::string sum_in_new_memory(keel_device device, keel_comm comm, keel_stream stream) {
  for (const Freed freed : {Freed::kAfterTheWait, Freed::kBehind, Freed::kBehindOnStream}) {
    const std::string problem = sum_in_new_memory(freed, device, comm, stream);
    if (!problem.empty())
      return "freed " + std::to_string(static_cast<int>(freed)) + ", " + problem;
  }
  return "";
}

// Binds the process to core number |index| of its permitted cores, and to no further core.
bool bind_to_core(uint32_t index) {
  cpu_set_t all;
  cpu_set_t own;
  CPU_ZERO(&own);
  if (sched_getaffinity(0, sizeof(all), &all) != 0) return false;
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all) || index-- != 0) continue;
    CPU_SET(core, &own);
    return sched_setaffinity(0, sizeof(own), &own) == 0;
  }
  return false;
}

// Arguments: first rank, threads, world, backends, "staged" or "alias", bootstrap address ("-": an
// id from rank 0 for the peers), program, algorithm ("-": none).
int run_worker(const std::vector<std::string>& arguments) {
  // No process outlives the test.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(100);
  const auto first = static_cast<uint32_t>(std::stoul(arguments[0]));
  const auto threads = static_cast<uint32_t>(std::stoul(arguments[1]));
  const auto world = static_cast<uint32_t>(std::stoul(arguments[2]));
  const std::string& backends = arguments[3];
  const bool staged = arguments[4] == "staged";
  const std::string& rendezvous = arguments[5];
  const std::string& what = arguments[6];
  // For "agreement", only rank 0 proposes an algorithm.
  if (arguments[7] != "-" && (what != "agreement" || first == 0)) {
    setenv("KEEL_ALGORITHM", arguments[7].c_str(), 1);
  }
  if (what == "bound" && !bind_to_core(first)) return 5;
  if (what == "oversubscribed" && !bind_to_core(0)) return 5;
  setenv("KEEL_CPU_DEVICES", "2", 1);
  setenv("KEEL_SIM_DEVICES", backends == "sim" ? "2" : "1", 1);
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.default_timeout_ns = 60 * kSecond;
  init.backends = backends == "all" ? nullptr : backends.c_str();
  if (keel_init(&init) != KEEL_OK) {
    std::fprintf(stderr, "keel_init: %s\n", keel_last_error());
    return 2;
  }
  keel_unique_id id = {};
  if (rendezvous != "-") {
    setenv("KEEL_RANK", arguments[0].c_str(), 1);
    setenv("KEEL_LOCAL_RANK", arguments[0].c_str(), 1);
    setenv("KEEL_WORLD", arguments[2].c_str(), 1);
    setenv("KEEL_LOCAL_WORLD", arguments[2].c_str(), 1);
    setenv("KEEL_BOOTSTRAP", rendezvous.c_str(), 1);
  } else if (first == 0) {
    if (keel_unique_id_create(&id) != KEEL_OK) return 3;
    keel::testing::say(id.text);
  } else {
    const std::string text = keel::testing::hear();
    text.copy(id.text, sizeof(id.text) - 1);
  }
  std::vector<std::unique_ptr<Reference>> references;
  if (what == "cases" || what == "agreement") references = make_references(world, staged);
  const Program cases = [&](uint32_t rank, keel_device device, keel_comm comm,
                            keel_stream stream) -> std::string {
    const std::string explained = explain(comm);
    const std::string used = "\"algorithm\": \"" + arguments[7] + "\"";
    if (arguments[7] != "-" && explained.find(used) == std::string::npos) return explained;
    for (const auto& reference : references) {
      std::string problem = keel::testing::run_case(*reference, rank, device, comm, stream);
      if (!problem.empty()) return problem;
    }
    return "";
  };
  const Program interleaving = [&](uint32_t, keel_device device, keel_comm comm, keel_stream) {
    return keel::testing::run_interleaving(device, comm, /*seed=*/world, /*operations=*/60);
  };
  const keel_comm_options options = make_options(staged);
  // A communicator for each algorithm, since the choice is made at creation. For one rank per
  // process, since it writes the environment.
  const auto by_each_algorithm = [&](keel_comm comm, const auto& run) -> std::string {
    for (const keel::testing::AlgorithmCase& algorithm_case : keel::testing::algorithm_cases()) {
      setenv("KEEL_ALGORITHM", algorithm_case.algorithm, 1);
      keel_comm part = {};
      if (keel_comm_duplicate(comm, &options, &part) != KEEL_OK) return keel_last_error();
      std::string problem = run(algorithm_case, part);
      if (keel_comm_destroy(part) != KEEL_OK && problem.empty()) problem = keel_last_error();
      if (!problem.empty()) return std::string(algorithm_case.algorithm) + ": " + problem;
    }
    return "";
  };
  const Program product = [&](uint32_t, keel_device device, keel_comm comm, keel_stream) {
    return by_each_algorithm(
        comm, [&](const keel::testing::AlgorithmCase& algorithm_case, keel_comm part) {
          return keel::testing::run_product(algorithm_case, device, part);
        });
  };
  const Program rounding = [&](uint32_t rank, keel_device device, keel_comm comm,
                               keel_stream stream) {
    return by_each_algorithm(comm, [&](const keel::testing::AlgorithmCase&, keel_comm part) {
      return keel::testing::compare_rounded(rank, device, part, stream);
    });
  };
  // A small operation passes earlier large operations; rank 1 joins the last large operation only
  // after the small one has completed.
  const Program overtaking = [&](uint32_t rank, keel_device device, keel_comm comm,
                                 keel_stream stream) -> std::string {
    constexpr uint64_t kLarge = 4 << 20;
    constexpr uint64_t kSmall = 1000;
    keel_comm_options preferred = options;
    preferred.priority = KEEL_COMM_URGENT;
    keel_comm urgent = {};
    keel_stream other = {};
    void* large = nullptr;
    void* small = nullptr;
    const auto reduce_large = [&] {
      return keel_all_reduce(comm, large, large, kLarge, KEEL_INT32, KEEL_MAX, stream) == KEEL_OK;
    };
    bool is_done = keel_comm_duplicate(comm, &preferred, &urgent) == KEEL_OK &&
                   keel_stream_create(device, 0, &other) == KEEL_OK &&
                   keel_alloc(device, KEEL_MEMORY_DEVICE, kLarge * 4, &large) == KEEL_OK &&
                   keel_alloc(device, KEEL_MEMORY_DEVICE, kSmall * 4, &small) == KEEL_OK;
    for (int i = 0; i < 3; ++i) is_done = is_done && reduce_large();
    if (rank == 0) is_done = is_done && reduce_large();
    is_done =
        is_done &&
        keel_all_reduce(urgent, small, small, kSmall, KEEL_INT32, KEEL_MAX, other) == KEEL_OK &&
        keel_stream_synchronize(other, KEEL_TIMEOUT_DEFAULT) == KEEL_OK;
    std::string problem = is_done ? "" : keel_last_error();
    if (rank == 0 && problem.empty() && keel_stream_query(stream) != KEEL_NOT_READY) {
      problem = "the large ones were over first";
    }
    if (rank != 0) is_done = is_done && reduce_large();
    is_done = is_done && keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT) == KEEL_OK;
    if (!is_done && problem.empty()) problem = keel_last_error();
    if (!problem.empty()) return problem;
    is_done = keel_comm_destroy(urgent) == KEEL_OK && keel_stream_destroy(other) == KEEL_OK &&
              keel_free(device, large) == KEEL_OK && keel_free(device, small) == KEEL_OK;
    return is_done ? "" : keel_last_error();
  };
  // A core for each rank, though no process may use more than one core.
  const Program bound = [](uint32_t, keel_device, keel_comm comm, keel_stream) -> std::string {
    const std::string explained = explain(comm);
    const bool is_told = explained.find("\"cores\": \"dedicated\"") != std::string::npos &&
                         explained.find("\"waiting\": \"spinning\"") != std::string::npos;
    return is_told ? "" : explained;
  };
  // All ranks on one core: a spinning rank keeps the core from the awaited rank.
  const Program oversubscribed = [](uint32_t, keel_device, keel_comm comm,
                                    keel_stream) -> std::string {
    const std::string explained = explain(comm);
    return explained.find("\"waiting\": \"parking\"") != std::string::npos ? "" : explained;
  };
  const Program new_memory = [](uint32_t, keel_device device, keel_comm comm, keel_stream stream) {
    return sum_in_new_memory(device, comm, stream);
  };
  const std::map<std::string, Program> programs = {{"cases", cases},
                                                   {"agreement", cases},
                                                   {"interleaving", interleaving},
                                                   {"product", product},
                                                   {"rounding", rounding},
                                                   {"overtaking", overtaking},
                                                   {"bound", bound},
                                                   {"oversubscribed", oversubscribed},
                                                   {"new memory", new_memory}};
  const std::vector<keel_device> available = keel::testing::all_devices();
  std::vector<std::string> problems(threads);
  std::vector<std::thread> running;
  for (uint32_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      const uint32_t rank = first + i;
      const keel_device device = keel::testing::device_of(available, rank, world);
      problems[i] = run_rank(rank, device, programs.at(what), [&](keel_comm* out_comm) {
        return rendezvous != "-"
                   ? keel_comm_init_env(device, &options, out_comm)
                   : keel_comm_init_rank(device, &id, rank, world, &options, out_comm);
      });
    });
  }
  for (std::thread& thread : running) thread.join();
  int result = 0;
  for (const std::string& problem : problems) {
    if (problem.empty()) continue;
    std::fprintf(stderr, "%s\n", problem.c_str());
    result = 1;
  }
  if (keel_shutdown() != KEEL_OK) result = 4;
  return result;
}

// ---- the jobs -------------------------------------------------------------------

struct Job {
  uint32_t processes;
  uint32_t threads;  // per process, with one rank each
  std::string backends;
  bool staged;
  std::string what = "cases";
  std::string algorithm = "-";
};

void run_job(const Job& job) {
  const uint32_t world = job.processes * job.threads;
  const bool by_id = job.threads > 1;
  static int jobs = 0;
  const std::string rendezvous =
      by_id ? "-" : "processes-" + std::to_string(getpid()) + "-" + std::to_string(++jobs);
  std::vector<ChildProcess> children;
  for (uint32_t process = 0; process < job.processes; ++process) {
    children.emplace_back(
        "rank", std::vector<std::string>{std::to_string(process * job.threads),
                                         std::to_string(job.threads), std::to_string(world),
                                         job.backends, job.staged ? "staged" : "alias", rendezvous,
                                         job.what, job.algorithm});
  }
  if (by_id) {
    const std::string id = children[0].read_line();
    for (uint32_t process = 1; process < job.processes; ++process) children[process].write_line(id);
  }
  for (uint32_t process = 0; process < job.processes; ++process) {
    EXPECT_EQ(children[process].wait(), 0) << "process " << process;
  }
}

void PrintTo(const Job& job, std::ostream* out) {
  *out << job.processes << "x" << job.threads << "_"
       << (job.backends == "all" ? "mixed" : job.backends) << (job.staged ? "_staged" : "_alias")
       << (job.what == "interleaving" ? "_interleaved" : "")
       << (job.what == "product" ? "_product" : "") << (job.what == "rounding" ? "_rounding" : "")
       << (job.algorithm == "-" ? "" : "_" + job.algorithm)
       << (job.what == "agreement" ? "_of_rank_0" : "");
}

class Processes : public testing::TestWithParam<Job> {};

TEST_P(Processes, EveryRankHasWhatTheReferenceHas) {
  run_job(GetParam());
}

TEST(ProcessesOfALauncher, HaveACoreEachWhereTheyAreBoundToOne) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one core";
  run_job({2, 1, "cpu", false, "bound"});
}

TEST(Priority, ASmallOperationPassesLargeOnesOfProcesses) {
  run_job({2, 1, "cpu", false, "overtaking"});
  run_job({4, 1, "cpu", false, "overtaking"});
}

TEST(ProcessMemory, ThatIsGivenBackIsNotReadWhereItWas) {
  run_job({3, 1, "cpu", false, "new memory"});
  run_job({2, 2, "cpu", false, "new memory"});
}

TEST(ProcessesOfALauncher, ParkWhereTheyShareACore) {
  run_job({2, 1, "cpu", false, "oversubscribed"});
}

INSTANTIATE_TEST_SUITE_P(Processes, Processes,
                         testing::Values(Job{2, 1, "cpu", false}, Job{2, 1, "cpu", true},
                                         Job{3, 1, "cpu", false}, Job{4, 1, "cpu", true},
                                         Job{5, 1, "cpu", false}, Job{2, 1, "all", false},
                                         Job{3, 1, "all", true}, Job{4, 1, "all", false},
                                         Job{5, 1, "all", false}),
                         testing::PrintToStringParamName());
// A rank with its own order of additions has different bits.
INSTANTIATE_TEST_SUITE_P(Rounded, Processes,
                         testing::Values(Job{2, 1, "cpu", false, "rounding"},
                                         Job{3, 1, "cpu", true, "rounding"},
                                         Job{5, 1, "cpu", false, "rounding"},
                                         Job{4, 1, "all", false, "rounding"}),
                         testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Threads, Processes,
                         testing::Values(Job{1, 2, "cpu", false}, Job{1, 3, "all", false},
                                         Job{1, 4, "all", true}, Job{1, 5, "cpu", false}),
                         testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(ThreadsOfProcesses, Processes,
                         testing::Values(Job{2, 2, "cpu", false}, Job{2, 2, "all", false},
                                         Job{2, 2, "all", true}),
                         testing::PrintToStringParamName());
// Ranks of one process use the emulated chip's library; between processes Keel's own algorithms
// run.
INSTANTIATE_TEST_SUITE_P(Hierarchical, Processes,
                         testing::Values(Job{2, 2, "sim", false}, Job{3, 2, "sim", true},
                                         Job{2, 2, "sim", false, "interleaving"}),
                         testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Interleaved, Processes,
                         testing::Values(Job{4, 1, "cpu", false, "interleaving"},
                                         Job{2, 2, "all", false, "interleaving"}),
                         testing::PrintToStringParamName());

// The full product of operations, dtypes, reductions, sizes, places and algorithms, as in
// matrix_test for threads: one job for each number of ranks.
INSTANTIATE_TEST_SUITE_P(
    Products, Processes,
    testing::Values(Job{1, 1, "cpu", false, "product"}, Job{2, 1, "cpu", false, "product"},
                    Job{3, 1, "cpu", false, "product"}, Job{4, 1, "cpu", false, "product"},
                    Job{5, 1, "cpu", false, "product"}, Job{8, 1, "cpu", false, "product"}),
    testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Algorithms, Processes,
                         testing::Values(Job{5, 1, "cpu", false, "cases", "ring"},
                                         Job{3, 1, "all", false, "cases", "doubling"},
                                         Job{2, 2, "all", true, "cases", "halving"},
                                         Job{5, 1, "cpu", false, "cases", "binomial"},
                                         Job{4, 1, "all", false, "cases", "bruck"},
                                         Job{3, 1, "cpu", false, "agreement", "ring"}),
                         testing::PrintToStringParamName());

}  // namespace

const std::map<std::string, keel::testing::Worker>& keel::testing::workers() {
  static const std::map<std::string, Worker> workers = {{"rank", run_worker}};
  return workers;
}
