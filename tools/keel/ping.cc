// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/ping.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <keel/keel.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/command.h"
#include "tools/keel/ping_judge.h"

namespace keel::cli {
namespace {

constexpr size_t kNameBytes = 64;
constexpr uint64_t kSmallBytes = 8;

struct PingOptions {
  uint32_t rounds = 200;
  uint64_t megabytes = 8;
  bool json = false;
};

std::string own_host() {
  const char* const given = std::getenv("KEEL_HOST_ID");
  if (given != nullptr && *given != '\0') return given;
  std::array<char, kNameBytes> name = {};
  (void)gethostname(name.data(), name.size() - 1);
  return name.data();
}

// One rank per host; the others wait in the barriers.
class Ping {
 public:
  explicit Ping(const PingOptions& options)
      : options_(options), device_(Device::find("cpu:0")), stream_(device_) {
    keel_comm comm = {};
    check(keel_comm_init_env(device_.get(), nullptr, &comm));
    comm_ = Comm(comm);
    check(keel_comm_rank(comm, &rank_, &world_));
    const uint64_t bytes = std::max<uint64_t>(options.megabytes << 20, kNameBytes * world_);
    memory_.emplace(device_, KEEL_MEMORY_DEVICE, bytes);
    find_hosts();
  }

  void run() {
    const size_t hosts = table_.hosts.size();
    table_.round_trip_us.assign(hosts * hosts, 0);
    table_.gb_per_s.assign(hosts * hosts, 0);
    for (size_t from = 0; from < hosts; ++from) {
      for (size_t to = from + 1; to < hosts; ++to) {
        if (rank_ == leaders_[from] || rank_ == leaders_[to]) measure(from, to);
        check(keel_barrier(comm_.get(), stream_.get()));
        wait();
      }
    }
    collect(&table_.round_trip_us);
    collect(&table_.gb_per_s);
    if (rank_ == 0) report();
  }

 private:
  using Comm = api_detail::UniqueHandle<keel_comm, keel_comm_destroy>;

  void wait() { check(keel_stream_synchronize(stream_.get(), KEEL_TIMEOUT_DEFAULT)); }

  // Gathers the names of the hosts; a host's first rank measures.
  void find_hosts() {
    std::vector<char> names(kNameBytes * world_);
    char* const place = names.data() + rank_ * kNameBytes;
    own_host().copy(place, kNameBytes - 1);
    auto* const memory = static_cast<char*>(memory_->data());
    check(keel_copy(stream_.get(), device_.get(), memory + rank_ * kNameBytes, KEEL_HOST, place,
                    kNameBytes));
    check(keel_all_gather(comm_.get(), memory + rank_ * kNameBytes, memory, kNameBytes, KEEL_UINT8,
                          stream_.get()));
    check(keel_copy(stream_.get(), KEEL_HOST, names.data(), device_.get(), memory, names.size()));
    wait();
    for (uint32_t rank = 0; rank < world_; ++rank) {
      const std::string name = names.data() + rank * kNameBytes;
      if (std::find(table_.hosts.begin(), table_.hosts.end(), name) != table_.hosts.end()) continue;
      table_.hosts.push_back(name);
      leaders_.push_back(rank);
    }
  }

  // Sends |bytes| to the peer and back; the host with |begins| sends first.
  void exchange(uint32_t peer, uint64_t bytes, bool begins) {
    const auto move = [&](bool sends) {
      check(sends
                ? keel_send(comm_.get(), memory_->data(), bytes, KEEL_UINT8, peer, stream_.get())
                : keel_recv(comm_.get(), memory_->data(), bytes, KEEL_UINT8, peer, stream_.get()));
    };
    move(begins);
    move(!begins);
    wait();
  }

  // Returns the median seconds of a round trip.
  double median_seconds(uint32_t peer, uint64_t bytes, bool begins, uint32_t rounds) {
    using Clock = std::chrono::steady_clock;
    std::vector<double> seconds;
    for (uint32_t round = 0; round < rounds; ++round) {
      const auto begin = Clock::now();
      exchange(peer, bytes, begins);
      seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
    return seconds[rounds / 2];
  }

  void measure(size_t from, size_t to) {
    const bool begins = rank_ == leaders_[from];
    const uint32_t peer = begins ? leaders_[to] : leaders_[from];
    constexpr uint32_t kLargeRounds = 5;
    exchange(peer, kSmallBytes, begins);  // connects
    const double small = median_seconds(peer, kSmallBytes, begins, options_.rounds);
    const uint64_t bytes = options_.megabytes << 20;
    exchange(peer, bytes, begins);
    const double large = median_seconds(peer, bytes, begins, kLargeRounds);
    if (!begins) return;
    for (const size_t index : {from * table_.hosts.size() + to, to * table_.hosts.size() + from}) {
      table_.round_trip_us[index] = small * 1e6;
      table_.gb_per_s[index] = 2 * static_cast<double>(bytes) / large / 1e9;
    }
  }

  // Each value is known to one rank; the others have 0.
  void collect(std::vector<double>* values) {
    const uint64_t bytes = values->size() * sizeof(double);
    const Buffer buffer(device_, KEEL_MEMORY_DEVICE, bytes);
    check(keel_copy(stream_.get(), device_.get(), buffer.data(), KEEL_HOST, values->data(), bytes));
    check(keel_all_reduce(comm_.get(), buffer.data(), buffer.data(), values->size(), KEEL_FLOAT64,
                          KEEL_MAX, stream_.get()));
    check(keel_copy(stream_.get(), KEEL_HOST, values->data(), device_.get(), buffer.data(), bytes));
    wait();
  }

  void report() const {
    if (options_.json) {
      Json pairs = Json::array();
      for (size_t from = 0; from < table_.hosts.size(); ++from) {
        for (size_t to = from + 1; to < table_.hosts.size(); ++to) {
          pairs.push_back({{"hosts", {table_.hosts[from], table_.hosts[to]}},
                           {"round_trip_us", table_.at(table_.round_trip_us, from, to)},
                           {"gb_per_s", table_.at(table_.gb_per_s, from, to)}});
        }
      }
      print_json(Json{{"pairs", pairs}, {"verdict", judge(table_)}});
      return;
    }
    print("round trip of 8 bytes, us\n" + write_table(table_, table_.round_trip_us));
    print(fmt::format("\nbandwidth of {} MiB one way, GB/s\n", options_.megabytes) +
          write_table(table_, table_.gb_per_s) + "\n" + judge(table_) + "\n");
  }

  const PingOptions& options_;
  Device device_;
  Stream stream_;
  Comm comm_;
  uint32_t rank_ = 0;
  uint32_t world_ = 1;
  std::optional<Buffer> memory_;
  PingTable table_;
  std::vector<uint32_t> leaders_;
};

}  // namespace

void add_ping_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ping", "Measure the links between the hosts of a job");
  command->footer(
      "Under a launcher, with a process or more per host:\n"
      "  keel run --hosts node1,node2,node3 -- keel ping\n"
      "  keel ping --size 64 --json");
  auto options = std::make_shared<PingOptions>();
  command->add_option("--rounds", options->rounds, "Round trips of 8 bytes")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  command->add_option("--size", options->megabytes, "Message for the bandwidth")
      ->type_name("MIB")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "Write JSON");
  command->callback([options] {
    const Session session({});
    Ping(*options).run();
  });
}

}  // namespace keel::cli
