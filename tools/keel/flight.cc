// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/flight.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <keel/keel.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <vector>

namespace keel::cli {
namespace {

struct FlightOptions {
  std::string where;
  bool json = false;
  uint32_t last = 20;
};

bool is_over(const Json& operation) {
  const Json& state = operation.at("state");
  return state == "done" || state == "failed";
}

// Returns the reduction, for operations that reduce.
std::string reduction_text(const Json& operation) {
  const std::string name = operation.at("operation");
  const bool reduces = name.starts_with("reduce") || name == "all_reduce";
  return reduces ? operation.at("reduction").get<std::string>() : "-";
}

std::string duration_text(const Json& us) {
  if (us.is_null()) return "-";
  const double value = us;
  if (value < 1e3) return fmt::format("{:.1f} us", value);
  if (value < 1e6) return fmt::format("{:.1f} ms", value / 1e3);
  if (value < 120e6) return fmt::format("{:.1f} s", value / 1e6);
  return fmt::format("{:.0f} min", value / 60e6);
}

// A rank's progress: its first unfinished operation, or the position after the last one.
struct Position {
  enum Stage { kNotCalled, kQueued, kRunning };
  uint64_t sequence = 0;
  Stage stage = kNotCalled;
  std::string operation;  // name; for kNotCalled the previous operation's

  auto order() const { return std::tuple(sequence, stage); }
};

Position position_of(const Json& rank) {
  const Json* first = nullptr;
  const Json* last = nullptr;
  const auto sequence = [](const Json& operation) {
    return operation.at("sequence").get<uint64_t>();
  };
  for (const Json& operation : rank.at("operations")) {
    if (is_over(operation)) {
      if (last == nullptr || sequence(operation) > sequence(*last)) last = &operation;
    } else if (first == nullptr || sequence(operation) < sequence(*first)) {
      first = &operation;
    }
  }
  if (first != nullptr) {
    return {sequence(*first),
            first->at("state") == "running" ? Position::kRunning : Position::kQueued,
            first->at("operation")};
  }
  if (last != nullptr) return {sequence(*last) + 1, Position::kNotCalled, last->at("operation")};
  return {};
}

// Returns "rank 3 is", "ranks 1, 2 are"; among several hosts "rank 3 (node2) is".
std::string ranks_text(const std::vector<std::string>& ranks, const char* one,
                       const char* several) {
  return fmt::format("rank{} {} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "),
                     ranks.size() == 1 ? one : several);
}

// |names|: of all ranks in |positions|.
std::string behind_text(const std::map<uint32_t, Position>& positions,
                        std::map<uint32_t, std::string>& names) {
  const auto less = [](const auto& a, const auto& b) {
    return a.second.order() < b.second.order();
  };
  if (positions.size() < 2) return {};
  const Position& lowest = std::min_element(positions.begin(), positions.end(), less)->second;
  std::vector<std::string> behind;
  const Position* next = nullptr;
  for (const auto& [rank, position] : positions) {
    if (position.order() == lowest.order()) {
      behind.push_back(names[rank]);
    } else if (next == nullptr || position.order() < next->order()) {
      next = &position;
    }
  }
  if (next == nullptr) return {};
  const std::string others =
      fmt::format("the other{}", behind.size() + 1 == positions.size()
                                     ? fmt::format(" is at #{}", next->sequence)
                                     : fmt::format("s are at #{} or later", next->sequence));
  if (lowest.stage == Position::kNotCalled && lowest.operation.empty()) {
    return fmt::format("{} nothing yet, {}", ranks_text(behind, "has called", "have called"),
                       others);
  }
  if (lowest.stage == Position::kNotCalled) {
    return fmt::format("{} nothing after {} #{}, {}",
                       ranks_text(behind, "has called", "have called"), lowest.operation,
                       lowest.sequence - 1, others);
  }
  if (lowest.sequence == next->sequence) {
    return fmt::format("{} not begun {} #{}, the others have", ranks_text(behind, "has", "have"),
                       lowest.operation, lowest.sequence);
  }
  return fmt::format("{} at {} #{}, {}", ranks_text(behind, "is", "are"), lowest.operation,
                     lowest.sequence, others);
}

void print_rank(const Json& rank, uint32_t last) {
  const Json& alive = rank.at("alive");
  print(fmt::format("\nrank {} on {}, process {} on host '{}'{}\n", rank.at("rank").get<uint32_t>(),
                    rank.at("device").get<std::string>(), rank.at("pid").get<int>(),
                    rank.at("host").get<std::string>(),
                    alive.is_null() ? ", whose process cannot be seen here"
                    : alive == true ? ""
                                    : ", which has ended"));
  std::vector<const Json*> shown;
  for (const Json& operation : rank.at("operations")) {
    if (!is_over(operation)) shown.push_back(&operation);
  }
  const Json& operations = rank.at("operations");
  for (auto each = operations.rbegin(); each != operations.rend(); ++each) {
    if (is_over(*each)) shown.push_back(&*each);
  }
  if (shown.empty()) return print("  no operation\n");
  if (shown.size() > last) shown.resize(last);
  print(fmt::format("  {:>10}  {:<14} {:>12}  {:<12} {:<10} {:>4}  {:<18} {:>10} {:>10} {:>10}\n",
                    "#", "operation", "count", "type", "redop", "root", "state", "age", "waited",
                    "took"));
  for (const Json* each : shown) {
    const std::string state =
        each->at("state") == "failed" ? each->at("status") : each->at("state");
    print(fmt::format("  {:>10}  {:<14} {:>12}  {:<12} {:<10} {:>4}  {:<18} {:>10} {:>10} {:>10}\n",
                      each->at("sequence").get<uint64_t>(),
                      each->at("operation").get<std::string>(), each->at("count").get<uint64_t>(),
                      each->at("dtype").get<std::string>(), reduction_text(*each),
                      each->at("root").get<uint32_t>(), state, duration_text(each->at("age_us")),
                      duration_text(each->at("wait_us")), duration_text(each->at("duration_us"))));
  }
  if (rank.at("unrecorded") != 0) {
    print(fmt::format("  {} operations were not written down: 1,024 were in flight\n",
                      rank.at("unrecorded").get<uint64_t>()));
  }
}

void run(const FlightOptions& options) {
  const std::string text = keel::flight(options.where.empty() ? nullptr : options.where.c_str());
  const Json all = json_of(text);
  if (options.json) return print_json(all);
  for (const Json& communicator : all.at("communicators")) {
    print(fmt::format("communicator {}, {} ranks\n", communicator.at("name").get<std::string>(),
                      communicator.at("world").get<uint32_t>()));
    print(flight_findings(communicator));
    for (const Json& rank : communicator.at("ranks")) print_rank(rank, options.last);
    print("\n");
  }
  for (const Json& each : all.at("unreadable")) {
    print(fmt::format("unreadable: {}\n", each.at("reason").get<std::string>()));
  }
}

}  // namespace

std::string flight_findings(const Json& communicator) {
  std::map<uint32_t, Position> positions;
  std::map<uint32_t, std::string> names;
  std::vector<std::string> ended;
  std::set<std::string> hosts;
  for (const Json& rank : communicator.at("ranks")) hosts.insert(rank.at("host"));
  for (const Json& rank : communicator.at("ranks")) {
    const uint32_t number = rank.at("rank");
    positions[number] = position_of(rank);
    names[number] = hosts.size() < 2
                        ? fmt::format("{}", number)
                        : fmt::format("{} ({})", number, rank.at("host").get<std::string>());
    if (rank.at("alive") == false) ended.push_back(names[number]);
  }
  std::string text;
  const std::string behind = behind_text(positions, names);
  if (!behind.empty()) text += behind + '\n';
  if (!ended.empty()) {
    text += fmt::format("the process of {}\n", ranks_text(ended, "has ended", "has ended"));
  }
  const uint32_t world = communicator.at("world");
  // A single file allows no comparison with other ranks.
  if (positions.size() > 1 && positions.size() < world) {
    std::vector<uint32_t> missing;
    constexpr size_t kShown = 16;
    for (uint32_t rank = 0; rank < world && missing.size() < kShown; ++rank) {
      if (positions.count(rank) == 0) missing.push_back(rank);
    }
    const size_t unnamed = world - positions.size() - missing.size();
    text += fmt::format("no file of rank{} {}{}: on another host, or ended in good order\n",
                        missing.size() == 1 ? "" : "s", fmt::join(missing, ", "),
                        unnamed == 0 ? "" : fmt::format(" and {} more", unnamed));
  }
  return text;
}

void add_flight_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("flight", "Show the last operations of each rank of a job");
  command->footer(
      "Examples:\n"
      "  keel flight            every job of this user\n"
      "  keel flight 4711       the communicators of process 4711\n"
      "  keel flight gathered   files of several hosts, copied into one folder\n"
      "  keel flight --json | jq '.communicators[].ranks[].operations[-1]'");
  auto options = std::make_shared<FlightOptions>();
  command->add_option("where", options->where,
                      "A process number, a folder or a file; $KEEL_FLIGHT_DIR, else "
                      "/dev/shm/keel-<uid>, if none is given");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_option("--last", options->last, "Operations shown of each rank, 1 to 1024")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->callback([options] { run(*options); });
}

}  // namespace keel::cli
