// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/options.h"

#include <unistd.h>

#include <charconv>
#include <stdexcept>
#include <string_view>

namespace keel::bench::peers {

namespace {

template <typename Number>
Number read_number(std::string_view text, std::string_view option) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number <= 0) {
    throw std::invalid_argument(std::string(option) + ": '" + std::string(text) +
                                "' is no positive number");
  }
  return number;
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t comma = list.find(',');
    parts.push_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    list.remove_prefix(comma + 1);
  }
}

std::vector<Operation> read_operations(std::string_view list) {
  std::vector<Operation> operations;
  for (const std::string_view name : split(list)) {
    const std::optional<Operation> operation = find_operation(name);
    if (!operation) throw std::invalid_argument("no operation '" + std::string(name) + "'");
    operations.push_back(*operation);
  }
  return operations;
}

Mode read_mode(std::string_view name) {
  if (name == "processes") return Mode::kProcesses;
  if (name == "threads") return Mode::kThreads;
  if (name == "launched") return Mode::kLaunched;
  throw std::invalid_argument("no mode '" + std::string(name) + "'");
}

// Returns whether |text| is |second|; throws unless it is one of the two words.
bool read_choice(std::string_view text, std::string_view first, std::string_view second) {
  if (text != first && text != second) {
    throw std::invalid_argument("'" + std::string(text) + "' is neither " + std::string(first) +
                                " nor " + std::string(second));
  }
  return text == second;
}

}  // namespace

Options read_options(int argc, const char* const* argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    if (i + 1 == argc) throw std::invalid_argument(std::string(option) + " lacks its value");
    const std::string_view value = argv[i + 1];
    if (option == "--ops") {
      options.operations = read_operations(value);
    } else if (option == "--bytes") {
      options.bytes.clear();
      for (const std::string_view size : split(value)) {
        options.bytes.push_back(read_number<uint64_t>(size, option));
      }
    } else if (option == "--seconds") {
      options.seconds = read_number<double>(value, option);
    } else if (option == "--times") {
      options.times = read_number<uint64_t>(value, option);
    } else if (option == "--warmup") {
      options.warmup = read_number<uint32_t>(value, option);
    } else if (option == "--deadline") {
      options.deadline = read_number<uint32_t>(value, option);
    } else if (option == "--ranks") {
      options.ranks = read_number<uint32_t>(value, option);
    } else if (option == "--mode") {
      options.mode = read_mode(value);
    } else if (option == "--buffers") {
      options.foreign = read_choice(value, "own", "foreign");
    } else if (option == "--interface") {
      options.interface = value;
    } else if (option == "--meet") {
      options.meet = value;
    } else {
      throw std::invalid_argument("no option '" + std::string(option) + "'");
    }
  }
  return options;
}

void arm_deadline(const Options& options) {
  alarm(options.deadline);
}

}  // namespace keel::bench::peers
