// SPDX-License-Identifier: Apache-2.0
#include "conformance/kernel_folder.h"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/json_value.h"
#include "base/strict_json.h"
#include "conformance/text_file.h"

namespace keel::conformance {

namespace {

struct FormatName {
  keel_binary_format format;
  const char* name;
};
constexpr FormatName kFormats[] = {{KEEL_BINARY_SPIRV, "SPIRV"},
                                   {KEEL_BINARY_CUBIN, "CUBIN"},
                                   {KEEL_BINARY_HSACO, "HSACO"},
                                   {KEEL_BINARY_SHARED_OBJECT, "SHARED_OBJECT"},
                                   {KEEL_BINARY_VENDOR, "VENDOR"}};

// Limits for the arguments of the kernel values, including the pointer to its result.
constexpr uint64_t kMostArguments = 256;
constexpr uint64_t kMostArgumentBytes = 4096;

// Reads each file once and never frees the content, because KernelBinary borrows it.
class Files {
 public:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}

  std::span<const std::byte> read(const std::string& name) {
    const auto known = known_.find(name);
    if (known != known_.end()) return known->second;
    if (name.empty() || name.front() == '/') {
      throw JsonError(fmt::format("'{}' is no name of a file in the folder", name));
    }
    static auto& kept = *new std::deque<std::string>;
    if (!read_file(folder_ + "/" + name, &kept.emplace_back()) || kept.back().empty()) {
      throw JsonError(fmt::format("{}/{} cannot be read, or is empty", folder_, name));
    }
    return known_[name] = std::as_bytes(std::span(kept.back()));
  }

 private:
  const std::string folder_;
  std::map<std::string, std::span<const std::byte>> known_;
};

KernelBinary binary_of(const JsonValue& kernels, const char* key, Files& files) {
  const JsonValue kernel = kernels.at(key);
  return {files.read(kernel.at("file").text()), kernel.at("name").text()};
}

KernelSet set_of(const JsonValue& json, Files& files) {
  KernelSet set;
  const std::string format = json.at("format").text();
  const FormatName* found = nullptr;
  for (const FormatName& each : kFormats) {
    if (format == each.name) found = &each;
  }
  if (found == nullptr) {
    throw JsonError(fmt::format(
        "format '{}' is none of SPIRV, CUBIN, HSACO, SHARED_OBJECT and VENDOR", format));
  }
  set.format = found->format;
  const std::string flavour = json.has("flavour") ? json.at("flavour").text() : "";
  set.format_name = flavour.empty() ? format : format + " for " + flavour;
  set.knows_arguments = json.at("knows_arguments").boolean();
  set.knows_only_count = !set.knows_arguments && json.has("knows_argument_count") &&
                         json.at("knows_argument_count").boolean();
  const JsonValue kernels = json.at("kernels");
  set.axpy = binary_of(kernels, "axpy", files);
  set.number = binary_of(kernels, "number", files);
  set.twin = binary_of(kernels, "twin", files);
  set.values = binary_of(kernels, "values", files);
  set.places = binary_of(kernels, "places", files);
  for (const JsonValue& each : json.at("value_bytes").elements()) {
    set.value_bytes.push_back(each.count<uint32_t>());
    if (set.value_bytes.back() == 0) throw JsonError("value_bytes has a 0");
  }
  const uint64_t bytes = std::accumulate(set.value_bytes.begin(), set.value_bytes.end(),
                                         static_cast<uint64_t>(sizeof(void*)));
  if (set.value_bytes.empty() || set.value_bytes.size() >= kMostArguments ||
      bytes > kMostArgumentBytes) {
    throw JsonError(fmt::format(
        "value_bytes has {} arguments, which with a pointer are {} bytes: at least 1 and at most "
        "{}, of {} bytes, can be launched",
        set.value_bytes.size(), bytes, kMostArguments - 1, kMostArgumentBytes));
  }
  const auto limit = [&](const char* key) {
    return json.has(key) ? json.at(key).count<uint32_t>() : 0;
  };
  set.grid_blocks = limit("grid_blocks");
  set.block_threads = limit("block_threads");
  if (kernels.has("shared")) {
    set.shared = binary_of(kernels, "shared", files);
    set.shared_bytes = json.at("shared_bytes").count<uint32_t>();
    if (set.shared_bytes < 1024 || set.shared_bytes % 4 != 0) {
      throw JsonError(
          fmt::format("shared_bytes is {}, no multiple of 4 from 1024 on", set.shared_bytes));
    }
  }
  return set;
}

}  // namespace

bool read_kernel_folder(const std::string& folder, std::vector<KernelSet>* out_sets,
                        std::string* error) {
  const std::string path = folder + "/kernels.json";
  std::string text;
  if (!read_file(path, &text)) {
    *error = fmt::format("{} cannot be read", path);
    return false;
  }
  nlohmann::json json;
  std::string reason;
  if (!parse_json(text, &json, &reason)) {
    *error = fmt::format("{}: {}", path, reason);
    return false;
  }
  try {
    Files files(folder);
    std::vector<KernelSet> sets;
    for (const JsonValue& each : JsonValue(json).at("sets").elements()) {
      sets.push_back(set_of(each, files));
    }
    if (sets.empty()) throw JsonError("sets is empty");
    *out_sets = std::move(sets);
    return true;
  } catch (const JsonError& wrong) {
    *error = fmt::format("{}: {}", path, wrong.what());
    return false;
  }
}

}  // namespace keel::conformance
