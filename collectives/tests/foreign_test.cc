// SPDX-License-Identifier: Apache-2.0
// Buffers not allocated by Keel, between processes. The peers read such buffers in place once all
// ranks have found that the kernel permits it; before, or if not permitted, the peers read a staged
// copy. No rank tries while all buffers are Keel's own.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"

namespace {

using keel::testing::ChildProcess;
using keel::testing::hear;
using keel::testing::say;

constexpr uint32_t kWorld = 3;
constexpr uint64_t kCount = 70'001;
constexpr int kRounds = 4;
constexpr uint64_t kSumCount = 20'001;
constexpr int kSumRounds = 10;

// ---- the worker -----------------------------------------------------------------

uint32_t value(uint32_t rank, uint32_t peer, int round, uint64_t index) {
  return rank * 1'000'003 + peer * 10'007 + static_cast<uint32_t>(round) * 101 +
         static_cast<uint32_t>(index);
}

// Memory of the rank's buffers: the device's, or the process's own, each range registered, or all
// memory declared at once.
enum class Memory { kOfDevice, kRegistered, kDeclared };

class Rank {
 public:
  Rank(uint32_t rank, Memory memory) : rank_(rank), memory_(memory) {}

  // Returns the error, or an empty text.
  std::string run() {
    if (const std::string problem = open(); !problem.empty()) return problem;
    for (int round = 0; round < kRounds; ++round) {
      // A program that declares its memory allocates and frees it without telling Keel.
      if (memory_ == Memory::kDeclared && round > 0 && !renew()) return keel_last_error();
      for (keel_collective each : {KEEL_BROADCAST, KEEL_ALL_GATHER, KEEL_ALL_TO_ALL, KEEL_GATHER,
                                   KEEL_SCATTER, KEEL_ALL_REDUCE}) {
        const std::string problem = call(each, round);
        if (!problem.empty()) return std::to_string(each) + ": " + problem;
      }
    }
    return "";
  }
  // Runs all_reduce only, of a size for one_shot, in place in every second round. From round
  // |closed| on, remote processes may not read this process.
  std::string run_sums(int closed) {
    std::string problem = open();
    for (int round = 0; round < kSumRounds && problem.empty(); ++round) {
      if (round == closed) prctl(PR_SET_DUMPABLE, 0);
      problem = sum(round);
    }
    return problem;
  }
  uint64_t in_place() const {
    auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    return keel_comm_stats_get(comm_, &stats) == KEEL_OK ? stats.bytes_in_place : 0;
  }
  bool end() {
    return keel_comm_destroy(comm_) == KEEL_OK && keel_stream_destroy(stream_) == KEEL_OK &&
           give_back(&send_) && give_back(&receive_);
  }

 private:
  static constexpr uint64_t kBytes = kWorld * kCount * sizeof(uint32_t);

  std::string open() {
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.timeout_ns = 60'000'000'000;
    const bool is_up = keel_device_get(0, &device_) == KEEL_OK &&
                       keel_stream_create(device_, 0, &stream_) == KEEL_OK &&
                       keel_comm_init_env(device_, &options, &comm_) == KEEL_OK && make(&send_) &&
                       make(&receive_);
    return is_up ? "" : keel_last_error();
  }
  std::string sum(int round) {
    uint32_t* const result = round % 2 == 0 ? receive_ : send_;
    std::fill_n(receive_, kSumCount, 0);
    for (uint64_t i = 0; i < kSumCount; ++i) send_[i] = value(rank_, 0, round, i);
    if (keel_all_reduce(comm_, send_, result, kSumCount, KEEL_UINT32, KEEL_SUM, stream_) !=
            KEEL_OK ||
        keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) {
      return keel_last_error();
    }
    for (uint64_t i = 0; i < kSumCount; ++i) {
      if (result[i] == wanted(KEEL_ALL_REDUCE, 0, round, 0, i)) continue;
      return "element " + std::to_string(i) + " is wrong in round " + std::to_string(round);
    }
    return "";
  }
  static void* map() {
    return mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  bool make(uint32_t** out) {
    void* memory = nullptr;
    keel_status made = KEEL_OK;
    switch (memory_) {
      case Memory::kOfDevice:
        made = keel_alloc(device_, KEEL_MEMORY_DEVICE, kBytes, &memory);
        break;
      case Memory::kRegistered:
        memory = map();
        made = keel_host_register(device_, memory, kBytes);
        break;
      case Memory::kDeclared:
        memory = map();
        made = keel_host_register(device_, nullptr, KEEL_ALL_MEMORY);  // counted
        break;
    }
    *out = static_cast<uint32_t*>(memory);
    return made == KEEL_OK;
  }
  bool give_back(uint32_t** memory) {
    uint32_t* const given = std::exchange(*memory, nullptr);
    if (memory_ == Memory::kOfDevice) return keel_free(device_, given) == KEEL_OK;
    const bool is_declared = memory_ == Memory::kDeclared;
    const bool is_over = keel_host_unregister(device_, is_declared ? nullptr : given) == KEEL_OK;
    return munmap(given, kBytes) == 0 && is_over;
  }
  bool renew() {
    return give_back(&send_) && make(&send_) && give_back(&receive_) && make(&receive_);
  }
  std::string call(keel_collective collective, int round) {
    for (uint32_t peer = 0; peer < kWorld; ++peer) {
      for (uint64_t i = 0; i < kCount; ++i) {
        send_[peer * kCount + i] = value(rank_, peer, round, i);
      }
    }
    std::fill(receive_, receive_ + kWorld * kCount, 0);
    const auto root = static_cast<uint32_t>(round) % kWorld;
    if (enqueue(collective, root) != KEEL_OK) return keel_last_error();
    if (keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) return keel_last_error();
    for (uint32_t part = 0; part < kWorld; ++part) {
      for (uint64_t i = 0; i < kCount; ++i) {
        const uint32_t got = receive_[part * kCount + i];
        if (got == wanted(collective, root, round, part, i)) continue;
        return "element " + std::to_string(i) + " of part " + std::to_string(part) + " is " +
               std::to_string(got);
      }
    }
    return "";
  }
  keel_status enqueue(keel_collective collective, uint32_t root) {
    const void* const send = send_;
    void* const receive = receive_;
    constexpr keel_dtype kType = KEEL_UINT32;
    switch (collective) {
      case KEEL_BROADCAST:
        return keel_broadcast(comm_, send, receive, kCount, kType, root, stream_);
      case KEEL_ALL_GATHER:
        return keel_all_gather(comm_, send, receive, kCount, kType, stream_);
      case KEEL_ALL_TO_ALL:
        return keel_all_to_all(comm_, send, receive, kCount, kType, stream_);
      case KEEL_GATHER:
        return keel_gather(comm_, send, receive, kCount, kType, root, stream_);
      case KEEL_SCATTER:
        return keel_scatter(comm_, send, receive, kCount, kType, root, stream_);
      default:
        return keel_all_reduce(comm_, send, receive, kCount, kType, KEEL_SUM, stream_);
    }
  }
  // Expected contents of part |part| of the receive buffer.
  uint32_t wanted(keel_collective collective, uint32_t root, int round, uint32_t part,
                  uint64_t i) const {
    switch (collective) {
      case KEEL_BROADCAST:
        return part == 0 ? value(root, 0, round, i) : 0;
      case KEEL_ALL_GATHER:
        return value(part, 0, round, i);
      case KEEL_ALL_TO_ALL:
        return value(part, rank_, round, i);
      case KEEL_GATHER:
        return rank_ == root ? value(part, 0, round, i) : 0;
      case KEEL_SCATTER:
        return part == 0 ? value(root, rank_, round, i) : 0;
      default:
        return part != 0 ? 0
                         : value(0, 0, round, i) + value(1, 0, round, i) + value(2, 0, round, i);
    }
  }

  const uint32_t rank_;
  const Memory memory_;
  uint32_t* send_ = nullptr;  // on the CPU
  uint32_t* receive_ = nullptr;
  keel_device device_ = {};
  keel_stream stream_ = {};
  keel_comm comm_ = {};
};

// Sends the address of a word of this process, and receives a sibling's: returns whether the
// sibling's word is readable.
bool may_read_siblings() {
  static const uint64_t word = 0x6b65656c;
  say(std::to_string(getpid()) + " " + std::to_string(reinterpret_cast<uintptr_t>(&word)));
  const std::string other = hear();
  const size_t space = other.find(' ');
  uint64_t got = 0;
  const iovec local = {&got, sizeof(got)};
  const iovec remote = {reinterpret_cast<void*>(std::stoull(other.substr(space))), sizeof(got)};
  return process_vm_readv(std::stoi(other), &local, 1, &remote, 1, 0) == sizeof(got) && got == word;
}

// The kernel kills this process if this thread, or a thread started from now on, reads a remote
// process.
void forbid_attach() {
  static sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// Arguments: rank, bootstrap address, KEEL_ATTACH, owner of the buffers, KEEL_COLLECTIVE_TABLE.
int run_worker(const std::vector<std::string>& arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // where only parents may read their children
  alarm(100);
  for (const char* name : {"KEEL_RANK", "KEEL_LOCAL_RANK"}) setenv(name, arguments[0].c_str(), 1);
  for (const char* name : {"KEEL_WORLD", "KEEL_LOCAL_WORLD"}) {
    setenv(name, std::to_string(kWorld).c_str(), 1);
  }
  setenv("KEEL_BOOTSTRAP", arguments[1].c_str(), 1);
  setenv("KEEL_ATTACH", arguments[2].c_str(), 1);
  setenv("KEEL_COLLECTIVE_TABLE", arguments[4].c_str(), 1);
  const std::string& buffers = arguments[3];
  const bool sums = buffers == "sums" || buffers == "mixed sums";
  Memory memory = buffers == "declared" ? Memory::kDeclared : Memory::kRegistered;
  if (buffers == "own" || (buffers == "mixed sums" && arguments[0] == "0")) {
    memory = Memory::kOfDevice;
  }
  const bool may_attach = may_read_siblings();
  if (buffers == "own" || buffers == "untried") forbid_attach();
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.backends = "cpu";
  if (keel_init(&init) != KEEL_OK) return 2;
  int result = 0;
  {
    Rank rank(static_cast<uint32_t>(std::stoul(arguments[0])), memory);
    const int closed = buffers == "mixed sums" && arguments[0] == "1" ? kSumRounds - 3 : kSumRounds;
    std::string problem = sums ? rank.run_sums(closed) : rank.run();
    const std::string in_place = std::to_string(rank.in_place());
    if (problem.empty() && !rank.end()) problem = keel_last_error();
    if (!problem.empty()) result = 1;
    say(!problem.empty() ? problem : may_attach ? in_place : "may not");
  }
  return keel_shutdown() == KEEL_OK ? result : 3;
}

// ---- the tests ------------------------------------------------------------------

// Returns the final output of rank 0; the peers only report the end. |attach|: per rank; |table|:
// rank 0's, for all ranks. |buffers|: "foreign", registered one by one; "declared", foreign buffers
// in memory that is declared as a whole; "own" or "untried", the device's and foreign
// buffers, where reading a remote process is deadly; "sums", foreign buffers of all_reduce only;
// "mixed sums", where rank 0's buffers are the device's, and rank 1 closes itself at the end.
std::string run_ranks(const std::vector<std::string>& attach, const std::string& buffers,
                      const std::string& table = "builtin") {
  static int runs = 0;
  const std::string rendezvous =
      "foreign-" + std::to_string(getpid()) + "-" + std::to_string(++runs);
  std::vector<ChildProcess> ranks;
  std::vector<std::string> places;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    ranks.emplace_back(
        "rank", std::vector<std::string>{std::to_string(rank), rendezvous, attach[rank], buffers,
                                         rank == 0 ? table : "builtin"});
    places.push_back(ranks.back().read_line());
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    ranks[rank].write_line(places[(rank + 1) % kWorld]);
  }
  std::string first;
  for (ChildProcess& rank : ranks) {
    const std::string said = rank.read_line();
    EXPECT_EQ(rank.wait(), 0) << said;
    if (first.empty()) first = said;
  }
  return first;
}

TEST(Foreign, IsReadWhereItIsOrStagedAndAlwaysRight) {
  const std::string attached = run_ranks({"1", "1", "1"}, "foreign");
  const std::string staged = run_ranks({"0", "0", "0"}, "foreign");
  if (attached == "may not") GTEST_SKIP() << "processes here may not read each other";
  // In each round rank 0 receives two remote parts by all_gather and two by all_to_all, one by
  // broadcast and by scatter where a peer is the root (rounds 1 and 2), two by gather where rank 0
  // is the root (0 and 3). The first three operations of all are still staged.
  constexpr uint64_t kParts = (kRounds - 1) * 4 + 2 * 2 + 2 * 2;
  EXPECT_GE(std::stoull(attached), std::stoull(staged) + kParts * kCount * sizeof(uint32_t));
}

TEST(Foreign, IsStagedWhereOneRankDoesNotWantToBeRead) {
  EXPECT_EQ(run_ranks({"1", "0", "1"}, "foreign"), run_ranks({"0", "0", "0"}, "foreign"));
}

// The ranks read as many bytes as of registered memory, in place and staged.
TEST(Foreign, DeclaredMemoryIsReadAsRegisteredMemoryIs) {
  const std::vector<std::string> all = {"1", "1", "1"};
  EXPECT_EQ(run_ranks({"0", "0", "0"}, "declared"), run_ranks({"0", "0", "0"}, "foreign"));
  EXPECT_EQ(run_ranks({"1", "0", "1"}, "declared"), run_ranks({"1", "0", "1"}, "foreign"));
  EXPECT_EQ(run_ranks(all, "declared"), run_ranks(all, "foreign"));
}

TEST(Foreign, NobodyTriesToReadOthersWhileBuffersAreKeels) {
  run_ranks({"1", "1", "1"}, "own");
}

// A file with |rules|, deleted by the destructor.
class TableFile {
 public:
  explicit TableFile(const std::string& rules)
      : path_(testing::TempDir() + "keel-foreign-" + std::to_string(getpid()) + ".table") {
    std::ofstream(path_, std::ios::binary) << "keel-collectives 1\n" << rules;
  }
  ~TableFile() { std::remove(path_.c_str()); }
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST(Foreign, IsStagedWhereTheTableOfRankZeroSaysSo) {
  const std::vector<std::string> attach = {"1", "1", "1"};
  const std::string attached = run_ranks(attach, "foreign");
  if (attached == "may not") GTEST_SKIP() << "processes here may not read each other";
  constexpr uint64_t kPartBytes = kCount * sizeof(uint32_t);
  const auto with = [&](const std::string& rules) {
    return run_ranks(attach, "foreign", TableFile(rules).path());
  };
  // The own part is read in place in each round but the first.
  const std::string staged = with("all_gather 256K- * foreign * staging\n");
  EXPECT_GE(std::stoull(attached), std::stoull(staged) + (kRounds - 1) * kPartBytes);
  EXPECT_EQ(with("all_gather 0-256K * foreign * staging\n"), attached) << "of other sizes";
  EXPECT_EQ(with("all_gather * * foreign * staging\nall_gather 256K- * foreign * attach\n"),
            attached);
}

TEST(Foreign, NobodyTriesToReadOthersWhereTheTableStagesAll) {
  const TableFile table(
      "broadcast * * foreign * staging\nall_gather * * foreign * staging\n"
      "all_to_all * * foreign * staging\ngather * * foreign * staging\n"
      "scatter * * foreign * staging\n");
  run_ranks({"1", "1", "1"}, "untried", table.path());
}

TEST(Foreign, SumsAreOfCopiesWhereTheTableSaysSo) {
  const std::string one_shot = "all_reduce * * * * one_shot\n";
  const TableFile table(one_shot + "all_reduce * * foreign * attach\n");
  const std::string attached = run_ranks({"1", "1", "1"}, "sums", table.path());
  if (attached == "may not") GTEST_SKIP() << "processes here may not read each other";
  // The first four operations are still staged.
  EXPECT_GE(std::stoull(attached), (kSumRounds - 4) * 2 * kSumCount * sizeof(uint32_t));
  run_ranks({"1", "1", "1"}, "mixed sums", table.path());
  EXPECT_EQ(run_ranks({"1", "1", "0"}, "sums", table.path()), "0");
}

TEST(Foreign, NoTableAttachesWhatTheEnvironmentForbids) {
  const TableFile table("all_gather * * foreign * attach\nbroadcast * * foreign * attach\n");
  EXPECT_EQ(run_ranks({"0", "0", "0"}, "foreign", table.path()),
            run_ranks({"0", "0", "0"}, "foreign"));
}

}  // namespace

const std::map<std::string, keel::testing::Worker>& keel::testing::workers() {
  static const std::map<std::string, Worker> workers = {{"rank", run_worker}};
  return workers;
}
