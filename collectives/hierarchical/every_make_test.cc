// SPDX-License-Identifier: Apache-2.0
// One communicator over the CPU, a Vulkan device and emulated chips of each vendor: the vendors'
// libraries run inside their islands, and Keel's bridge between. In one process, and with a process
// for each rank.
#include <keel/shrink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/ipc/socket.h"
#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/bootstrap/testing/scripted_rank.h"
#include "collectives/bootstrap/testing/variable.h"
#include "collectives/testing/device_ranks.h"

namespace {

using namespace keel::testing;  // NOLINT: the fixture's

// A vendor whose libraries are here over the emulated chip.
struct Make {
  const char* plugin;
  const char* runtime;   // the file by which it is recognised
  const char* library;   // of collectives, as keel_comm_explain names it; NULL: none
  const char* settings;  // the variable that configures its chips
};
constexpr Make kMakes[] = {
    {"ascend", "libascendcl.so", "HCCL", "KEEL_EMULATED_ASCEND"},
    {"cuda", "libcuda.so.1", "NCCL", "KEEL_EMULATED_CUDA"},
    // RCCL's functions have the names of NCCL's, in one process.
    {"hip", "libamdhip64.so.5", "RCCL", "KEEL_EMULATED_HIP"},
    {"kunlun", "libxpurt.so", "BKCL", "KEEL_EMULATED_XRE"},
    {"level_zero", "libze_loader.so.1", nullptr, "KEEL_EMULATED_LEVEL_ZERO"},
};

std::string folder_of(const Make& make) {
  return std::string(KEEL_EMULATED_FOLDER) + "/" + make.plugin;
}

std::vector<Make> makes_here() {
  std::vector<Make> here;
  for (const Make& make : kMakes) {
    setenv(make.settings, "devices=2 memory_mib=64", 1);
    if (std::filesystem::exists(folder_of(make) + "/" + make.runtime) &&
        std::filesystem::exists(plugin_path(make.plugin))) {
      here.push_back(make);
    }
  }
  return here;
}

// ---- in one process --------------------------------------------------------------

class EveryMakeTest : public DeviceRanks {
 protected:
  // "cpu:0", "vulkan:0" if there is one, and two chips of each make.
  void SetUp() override {
    DeviceRanks::SetUp();
    all_.push_back(load("cpu").at(0));
    if (std::filesystem::exists(plugin_path("vulkan"))) {
      const std::vector<keel_device> vulkan = load("vulkan");
      if (!vulkan.empty()) all_.push_back(vulkan[0]);
    }
    for (const Make& make : makes_here()) {
      const std::vector<keel_device> chips =
          load(make.plugin, {{"library_folder", folder_of(make)}});
      ASSERT_EQ(chips.size(), 2u) << make.plugin;
      all_.insert(all_.end(), chips.begin(), chips.end());
    }
    ASSERT_GE(all_.size(), 3u);
  }

  std::vector<keel_device> all_;
};

TEST_F(EveryMakeTest, EveryCollectiveWithAnIslandOfEachMake) {
  make_ranks(all_);
  for (const Make& make : makes_here()) {
    if (make.library == nullptr) continue;
    const std::string text = explained();
    EXPECT_NE(text.find(std::string(R"("library": ")") + make.library), std::string::npos)
        << "no island of " << make.library << " in " << text;
  }
  for (uint32_t number = 0; number < kOperations; ++number) {
    for (const uint64_t count : {1, 20'001}) {
      run(scenario(static_cast<Operation>(number), KEEL_FLOAT32, count));
      if (HasFailure()) return;
    }
  }
}

TEST_F(EveryMakeTest, EveryDtypeAndReduction) {
  make_ranks(all_);
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
      Case made = scenario(Operation::kAllReduce, dtype, 4000 + dtype);
      made.reduction = reduction;
      run(made);
      if (HasFailure()) return;
    }
  }
}

// Any order of the ranks, and islands of one: each rank holds the same bits, whatever rounds.
TEST_F(EveryMakeTest, AnyInterleavingHoldsTheSameBits) {
  Random random(5);
  for (int round = 0; round < 4; ++round) {
    std::vector<keel_device> order = all_;
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
    }
    // A make loses one of its two chips, and is an island of one.
    if (round % 2 == 1) order.pop_back();
    make_ranks(order);
    expect_same_bits(30'011);
    run(scenario(Operation::kAllToAll, KEEL_INT32, 1000));
    if (HasFailure()) return;
  }
}

// The large sum cannot end before the urgent one, since one rank calls it afterwards. Each rank in
// turn, so that the large sum is under way in each island without one of its ranks.
TEST_F(EveryMakeTest, AnUrgentSumPassesALargeOne) {
  constexpr uint64_t kLarge = 200'000;
  constexpr uint64_t kUrgent = 6000;  // too large to travel in an operation descriptor
  make_ranks(all_);
  std::vector<keel_comm> urgent(world());
  std::vector<keel_stream> streams(world());
  std::vector<void*> memory(world());
  std::vector<void*> sums(world());
  keel_comm_options given = options();
  given.priority = KEEL_COMM_URGENT;
  ASSERT_KEEL_OK(keel_comm_init_all(devices_.data(), world(), &given, urgent.data()));
  for (uint32_t rank = 0; rank < world(); ++rank) {
    ASSERT_KEEL_OK(keel_stream_create(devices_[rank], 0, &streams[rank]));
    memory[rank] = alloc_filled(devices_[rank], std::vector<uint32_t>(kUrgent, rank));
    sums[rank] = alloc(devices_[rank], kUrgent * sizeof(uint32_t));
  }
  std::vector<uint32_t> others(world() - 1);
  std::iota(others.begin(), others.end(), 1);
  for (uint32_t late = 0; late < world(); ++late) {
    SCOPED_TRACE(late);
    enqueue(kLarge);
    enqueue(others, kLarge);
    for (uint32_t rank = 0; rank < world(); ++rank) {
      ASSERT_KEEL_OK(keel_all_reduce(urgent[rank], memory[rank], sums[rank], kUrgent, KEEL_INT32,
                                     KEEL_SUM, streams[rank]));
    }
    for (keel_stream stream : streams) {
      ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    }
    for (const uint32_t rank : others) {
      EXPECT_EQ(keel_stream_query(streams_[rank]), KEEL_NOT_READY) << "rank " << rank;
    }
    enqueue({late}, kLarge);
    for (keel_stream stream : streams_) {
      ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    }
    if (late < others.size()) others[late] = late;
  }
  for (uint32_t rank = 0; rank < world(); ++rank) {
    EXPECT_EQ(read(devices_[rank], sums[rank], kUrgent),
              std::vector<uint32_t>(kUrgent, world() * (world() - 1) / 2));
    auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    EXPECT_KEEL_OK(keel_comm_stats_get(urgent[rank], &stats));
    EXPECT_EQ(stats.native_operations, world()) << "rank " << rank;
    EXPECT_KEEL_OK(keel_free(devices_[rank], memory[rank]));
    EXPECT_KEEL_OK(keel_free(devices_[rank], sums[rank]));
    EXPECT_KEEL_OK(keel_comm_destroy(urgent[rank]));
    EXPECT_KEEL_OK(keel_stream_destroy(streams[rank]));
  }
}

// ---- a process for each rank -----------------------------------------------------

// Obeys the commands of the test with one rank.
class ProcessRank {
 public:
  ProcessRank(uint32_t rank, uint32_t world, keel_device device)
      : rank_(rank), world_(world), device_(device) {
    keel_stream_create(device_, 0, &stream_);
    keel_alloc(device_, KEEL_MEMORY_DEVICE, kCount * sizeof(float), &data_);
  }
  ~ProcessRank() {
    keel_stream_destroy(stream_);
    keel_free(device_, data_);
  }
  ProcessRank(const ProcessRank&) = delete;
  ProcessRank& operator=(const ProcessRank&) = delete;

  keel_status obey(const std::string& command) {
    if (command == "join") return keel_comm_init_env(device_, nullptr, &comm_);
    if (command == "everything") return run_everything();
    if (command == "dtypes") return run_dtypes();
    if (command == "bits") return say_bits();
    if (command == "all_reduce") {
      return keel_all_reduce(comm_, data_, data_, kCount, KEEL_FLOAT32, KEEL_MAX, stream_);
    }
    if (command == "synchronize") return keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT);
    if (command == "shrink") return shrink();
    if (command == "destroy") return keel_comm_destroy(comm_);
    return KEEL_INTERNAL;
  }

 private:
  static constexpr uint64_t kCount = 50'000;

  // Says the checks that fail, and whether a library took part in the sum.
  keel_status run_everything() {
    std::string problems;
    for (uint32_t number = 0; number < kOperations; ++number) {
      Case scenario;
      scenario.operation = static_cast<Operation>(number);
      scenario.world = world_;
      scenario.dtype = KEEL_FLOAT32;
      scenario.count = 6000 + number;
      scenario.seed = number;
      scenario.in_place = number % 2 == 0;
      const std::string problem =
          run_case(Reference(scenario, rank_), rank_, device_, comm_, stream_);
      if (!problem.empty()) problems += " " + problem;
    }
    auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    keel_comm_stats_get(comm_, &stats);
    say("problems:" + problems + (stats.native_operations != 0 ? " native" : ""));
    return KEEL_OK;
  }

  // Says the reductions that are wrong.
  keel_status run_dtypes() {
    std::string problems;
    for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
      for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
        Case scenario;
        scenario.operation = Operation::kAllReduce;
        scenario.world = world_;
        scenario.dtype = dtype;
        scenario.reduction = reduction;
        scenario.count = 4000 + dtype;
        const std::string problem =
            run_case(Reference(scenario, rank_), rank_, device_, comm_, stream_);
        if (!problem.empty()) problems += " " + scenario.describe() + ": " + problem;
      }
    }
    say("problems:" + problems);
    return KEEL_OK;
  }

  // Sums floats that round, and says the bits of all results, hashed.
  keel_status say_bits() {
    constexpr struct {
      keel_dtype dtype;
      uint32_t varied;  // bits of the significand
      uint32_t fixed;
    } kFloats[] = {{KEEL_FLOAT32, 0x007fffff, 0x3f800000},
                   {KEEL_FLOAT16, 0x03ff03ff, 0x3c003c00},
                   {KEEL_BFLOAT16, 0x007f007f, 0x3f803f80}};
    constexpr uint64_t kBytes = kCount * sizeof(uint32_t);
    std::string bits;
    for (const auto& [dtype, varied, fixed] : kFloats) {
      std::vector<uint32_t> words = pattern(kCount, rank_);
      for (uint32_t& word : words) word = (word & varied) | fixed;
      const uint64_t count = dtype == KEEL_FLOAT32 ? kCount : 2 * kCount;
      keel_status status = keel_copy(stream_, device_, data_, KEEL_HOST, words.data(), kBytes);
      if (status == KEEL_OK) {
        status = keel_all_reduce(comm_, data_, data_, count, dtype, KEEL_SUM, stream_);
      }
      if (status == KEEL_OK) {
        status = keel_copy(stream_, KEEL_HOST, words.data(), device_, data_, kBytes);
      }
      if (status == KEEL_OK) status = keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT);
      if (status != KEEL_OK) return status;
      const std::string_view bytes(reinterpret_cast<const char*>(words.data()), kBytes);
      bits += " " + std::to_string(std::hash<std::string_view>()(bytes));
    }
    say("bits:" + bits);
    return KEEL_OK;
  }

  // Goes on with the ranks that are left.
  keel_status shrink() {
    keel_comm left = {};
    keel_status status = keel_comm_shrink(comm_, KEEL_TIMEOUT_DEFAULT, 0, nullptr, &left);
    if (status == KEEL_OK) status = keel_comm_destroy(comm_);
    comm_ = left;
    if (status == KEEL_OK) status = keel_stream_recover(stream_, KEEL_TIMEOUT_DEFAULT);
    return status == KEEL_OK ? keel_comm_rank(comm_, &rank_, &world_) : status;
  }

  uint32_t rank_;
  uint32_t world_;
  const keel_device device_;
  keel_stream stream_ = {};
  keel_comm comm_ = {};
  void* data_ = nullptr;
};

// Arguments: rank, world, rendezvous, the device's name, then variables ("NAME=VALUE") of this
// rank.
int run_worker(const std::vector<std::string>& arguments) {
  enter_job(arguments[0], arguments[1], arguments[2]);
  const std::string plugin = arguments[3].substr(0, arguments[3].find(':'));
  for (const Make& make : makes_here()) {
    std::string variable = make.plugin;
    std::transform(variable.begin(), variable.end(), variable.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    setenv(("KEEL_" + variable + "_LIBRARY_FOLDER").c_str(), folder_of(make).c_str(), 1);
  }
  for (size_t i = 4; i < arguments.size(); ++i) {
    const size_t equals = arguments[i].find('=');
    setenv(arguments[i].substr(0, equals).c_str(), arguments[i].substr(equals + 1).c_str(), 1);
  }
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.default_timeout_ns = 100 * kSecond;
  const std::string backends = plugin == "cpu" ? plugin : "cpu," + plugin;
  init.backends = backends.c_str();
  keel_device device = {};
  const bool is_ready =
      keel_init(&init) == KEEL_OK && keel_device_find(arguments[3].c_str(), &device) == KEEL_OK;
  say(is_ready ? "ready" : std::string("no device: ") + keel_last_error());
  if (!is_ready) return 1;
  {
    ProcessRank rank(static_cast<uint32_t>(std::stoul(arguments[0])),
                     static_cast<uint32_t>(std::stoul(arguments[1])), device);
    answer_commands([&](const std::string& command) { return rank.obey(command); });
  }
  return keel_shutdown() == KEEL_OK ? 0 : 2;
}

// Processes with one rank each, on the given devices, after the rendezvous.
class Job {
 public:
  // |variables|: of each rank, one or none.
  explicit Job(const std::vector<std::string>& devices,
               const std::vector<std::string>& variables = {}) {
    static int jobs = 0;
    const std::string rendezvous =
        "every-make-" + std::to_string(getpid()) + "-" + std::to_string(++jobs);
    for (size_t rank = 0; rank < devices.size(); ++rank) {
      std::vector<std::string> arguments = {std::to_string(rank), std::to_string(devices.size()),
                                            rendezvous, devices[rank]};
      if (rank < variables.size()) arguments.push_back(variables[rank]);
      ranks_.emplace_back("rank", arguments);
    }
    for (ChildProcess& each : ranks_) EXPECT_EQ(each.read_line(), "ready");
    expect_all("join", "KEEL_OK");
  }
  ChildProcess& operator[](size_t rank) { return ranks_[rank]; }
  size_t size() const { return ranks_.size(); }
  void tell(const std::string& command) {
    for (ChildProcess& each : ranks_) each.write_line(command);
  }
  void expect_all(const std::string& command, const std::string& answer) {
    tell(command);
    for (ChildProcess& each : ranks_) EXPECT_EQ(each.read_line(), answer) << command;
  }
  void end() {
    expect_all("destroy", "KEEL_OK");
    tell("");
    for (ChildProcess& each : ranks_) EXPECT_EQ(each.wait(), 0);
  }

 private:
  std::vector<ChildProcess> ranks_;
};

// The first chips of all makes, then the second ones: no island's ranks are neighbours.
std::vector<std::string> devices_of_all() {
  std::vector<std::string> devices = {"cpu:0"};
  for (const char* const ordinal : {":0", ":1"}) {
    for (const Make& make : makes_here()) devices.push_back(make.plugin + std::string(ordinal));
  }
  return devices;
}

TEST(EveryMakeProcessesTest, EveryCollective) {
  Job job(devices_of_all());
  job.tell("everything");
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const std::string said = job[rank].read_line();
    EXPECT_EQ(said, "problems: native") << "rank " << rank;
    EXPECT_EQ(job[rank].read_line(), "KEEL_OK");
  }
  job.end();
}

// Each rank holds the same bits, whatever rounds.
TEST(EveryMakeProcessesTest, EveryDtypeAndReduction) {
  Job job(devices_of_all());
  job.tell("dtypes");
  for (size_t rank = 0; rank < job.size(); ++rank) {
    EXPECT_EQ(job[rank].read_line(), "problems:") << "rank " << rank;
    EXPECT_EQ(job[rank].read_line(), "KEEL_OK");
  }
  job.tell("bits");
  const std::string first = job[0].read_line();
  EXPECT_SAYS("bits: ", first);
  EXPECT_EQ(job[0].read_line(), "KEEL_OK");
  for (size_t rank = 1; rank < job.size(); ++rank) {
    EXPECT_EQ(job[rank].read_line(), first) << "rank " << rank;
    EXPECT_EQ(job[rank].read_line(), "KEEL_OK");
  }
  job.end();
}

// Returns what the ranks say of every collective: "native" if a library took part.
std::vector<std::string> run_everything(Job& job) {
  std::vector<std::string> said;
  job.tell("everything");
  for (size_t rank = 0; rank < job.size(); ++rank) {
    said.push_back(job[rank].read_line());
    EXPECT_EQ(job[rank].read_line(), "KEEL_OK");
  }
  job.end();
  return said;
}

// Two versions of NCCL or RCCL form no communicator: their ranks are islands of one, which Keel's
// own path connects.
TEST(EveryMakeProcessesTest, AnotherVersionOfTheLibraryOnOneRankIsNotMixed) {
  const std::map<std::string, std::string> versioned = {{"cuda", "KEEL_EMULATED_NCCL"},
                                                        {"hip", "KEEL_EMULATED_RCCL"}};
  size_t tried = 0;
  for (const Make& make : makes_here()) {
    const auto found = versioned.find(make.plugin);
    if (found == versioned.end()) continue;
    const std::string plugin = make.plugin;
    const std::string older = found->second + "=version=21803";
    const std::string newer = found->second + "=version=22004";
    const std::vector<std::string> two = {plugin + ":0", plugin + ":1"};
    const std::string native = "problems: native";
    Job same(two, {newer, newer});
    EXPECT_EQ(run_everything(same), (std::vector<std::string>{native, native})) << plugin;
    Job mixed(two, {older, newer});
    EXPECT_EQ(run_everything(mixed), (std::vector<std::string>{"problems:", "problems:"}))
        << plugin;
    ++tried;
  }
  if (tried == 0) GTEST_SKIP() << "no library with a version is built here";
}

// A port of this machine that no process listens at.
std::string free_port() {
  using namespace keel;  // NOLINT: sockets, for this function
  SocketAddress address;
  FileDescriptor socket;
  SocketAddress bound;
  if (!SocketAddress::parse("127.0.0.1:0", &address) ||
      sockets::listen(address, SOCK_STREAM, &socket) != 0 ||
      sockets::own_address(socket.get(), &bound) != 0) {
    return "0";
  }
  return std::to_string(bound.port());
}

// Two hosts of two chips each, and one of a CPU, which ends first.
TEST(EveryMakeProcessesTest, LibrariesRunAgainAfterAShrinkAcrossHosts) {
  const std::vector<Make> here = makes_here();
  const bool has_cuda = std::any_of(here.begin(), here.end(), [](const Make& make) {
    return std::string(make.plugin) == "cuda";
  });
  if (!has_cuda) GTEST_SKIP() << "the cuda plugin and its emulated chip are not built here";
  const std::string native = "problems: native";
  const Variable server("KEEL_SERVER", "127.0.0.1:" + free_port());
  Job job(
      {"cuda:0", "cuda:1", "cuda:0", "cuda:1", "cpu:0"},
      {"KEEL_HOST_ID=a", "KEEL_HOST_ID=a", "KEEL_HOST_ID=b", "KEEL_HOST_ID=b", "KEEL_HOST_ID=c"});
  // Ends the last of |ranks| amid an all_reduce, and shrinks. Returns what the others say then.
  const auto shrink_without_last = [&](size_t ranks) {
    const size_t killed = ranks - 1;
    for (size_t rank = 0; rank < killed; ++rank) {
      job[rank].write_line("all_reduce");
      EXPECT_EQ(job[rank].read_line(), "KEEL_OK");
    }
    job[killed].kill();
    for (size_t rank = 0; rank < killed; ++rank) {
      job[rank].write_line("synchronize");
      EXPECT_SAYS("KEEL_RANK_FAILED", job[rank].read_line());
    }
    for (size_t rank = 0; rank < killed; ++rank) job[rank].write_line("shrink");
    for (size_t rank = 0; rank < killed; ++rank) EXPECT_EQ(job[rank].read_line(), "KEEL_OK");
    for (size_t rank = 0; rank < killed; ++rank) job[rank].write_line("everything");
    std::vector<std::string> said;
    for (size_t rank = 0; rank < killed; ++rank) {
      said.push_back(job[rank].read_line());
      EXPECT_EQ(job[rank].read_line(), "KEEL_OK");
    }
    return said;
  };
  EXPECT_EQ(shrink_without_last(5), (std::vector<std::string>{native, native, native, native}));
  // The second host has one chip left, the first host both.
  EXPECT_EQ(shrink_without_last(4), (std::vector<std::string>{native, native, "problems:"}));
}

TEST(EveryMakeProcessesTest, AKilledRankIsNamed) {
  const std::vector<std::string> devices = devices_of_all();
  Job job(devices);
  const size_t killed = job.size() - 1;
  for (size_t rank = 0; rank < killed; ++rank) {
    job[rank].write_line("all_reduce");
    EXPECT_EQ(job[rank].read_line(), "KEEL_OK");
  }
  job[killed].kill();
  for (size_t rank = 0; rank < killed; ++rank) {
    job[rank].write_line("synchronize");
    const std::string said = job[rank].read_line();
    EXPECT_SAYS("KEEL_RANK_FAILED", said);
    EXPECT_SAYS("rank " + std::to_string(killed) + " (" + devices[killed], said);
  }
}

}  // namespace

const std::map<std::string, keel::testing::Worker>& keel::testing::workers() {
  static const std::map<std::string, Worker> all = {{"rank", run_worker}};
  return all;
}
