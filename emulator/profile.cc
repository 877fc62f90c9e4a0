// SPDX-License-Identifier: Apache-2.0
#include "emulator/profile.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/strict_json.h"

namespace keel::emulator {
namespace {

using Json = nlohmann::json;

// Far above any chip, low enough that no duration overflows or underflows.
constexpr double kLargest = 1e7;
constexpr double kLargestMemoryGib = 256;
constexpr size_t kLargestFile = 64 << 10;

constexpr std::array<std::string_view, 14> kDtypes = {
    "int8",   "int16",   "int32",    "int64",   "uint8",   "uint16",      "uint32",
    "uint64", "float16", "bfloat16", "float32", "float64", "float8_e4m3", "float8_e5m2"};

Status bad(std::string_view key, std::string_view why) {
  return {Code::kInvalidArgument, fmt::format("profile: '{}' {}", key, why)};
}

// Reads the members of one object and records the keys read, to reject unknown keys.
class Reader {
 public:
  Reader(const Json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {}

  Status number(const char* key, double largest, bool required, double* out_value) {
    const Json* const value = member(key);
    if (value == nullptr) return required ? bad(prefix_ + key, "is missing") : Status();
    if (!value->is_number()) return bad(prefix_ + key, "is not a number");
    const double read = value->get<double>();
    if (!(read > 0)) return bad(prefix_ + key, "is not above 0");
    if (!(read >= 1e-6)) return bad(prefix_ + key, "is below 1e-06");
    if (!(read <= largest)) return bad(prefix_ + key, fmt::format("is above {}", largest));
    *out_value = read;
    return {};
  }

  Status string(const char* key, bool required, std::string* out_value) {
    const Json* const value = member(key);
    if (value == nullptr) return required ? bad(prefix_ + key, "is missing") : Status();
    if (!value->is_string()) return bad(prefix_ + key, "is not a string");
    *out_value = value->get<std::string>();
    if (out_value->empty() || out_value->size() > 63) {
      return bad(prefix_ + key, "is not of 1 to 63 characters");
    }
    return {};
  }

  Status object(const char* key, const Json** out_object) {
    *out_object = member(key);
    if (*out_object == nullptr) return bad(prefix_ + key, "is missing");
    return (*out_object)->is_object() ? Status() : bad(prefix_ + key, "is not an object");
  }

  void ignore(const char* key) { (void)member(key); }

  Status no_others() const {
    for (const auto& [key, value] : object_.items()) {
      if (known_.count(key) == 0) return bad(prefix_ + key, "is not known");
    }
    return {};
  }

 private:
  const Json* member(const char* key) {
    known_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  const Json& object_;
  const std::string prefix_;
  std::set<std::string, std::less<>> known_;
};

Status read_copies(const Json& object, Profile* profile) {
  Reader reader(object, "copy_gb_per_s.");
  const struct {
    const char* key;
    double* value;
  } rates[] = {{"host_to_device", &profile->host_to_device_gb_per_s},
               {"device_to_host", &profile->device_to_host_gb_per_s},
               {"peer", &profile->peer_gb_per_s}};
  for (const auto& [key, value] : rates) {
    Status status = reader.number(key, kLargest, /*required=*/true, value);
    if (!status.ok()) return status;
  }
  return reader.no_others();
}

Status read_tflops(const Json& object, Profile* profile) {
  Reader reader(object, "tflops.");
  for (const std::string_view dtype : kDtypes) {
    const std::string key(dtype);
    double value = 0;
    Status status = reader.number(key.c_str(), kLargest, /*required=*/key == "float32", &value);
    if (!status.ok()) return status;
    if (value != 0) profile->tflops[key] = value;
  }
  return reader.no_others();
}

}  // namespace

double Profile::tflops_of(std::string_view dtype) const {
  const auto found = tflops.find(dtype);
  return found == tflops.end() ? tflops.find("float32")->second : found->second;
}

Status parse_profile(std::string_view json, Profile* out_profile) {
  Json root;
  std::string error;
  if (!parse_json(json, &root, &error)) {
    return {Code::kInvalidArgument, fmt::format("profile: {}", error)};
  }
  if (!root.is_object()) return {Code::kInvalidArgument, "profile: not a JSON object"};
  Profile profile;
  Reader reader(root, "");
  double memory_gib = 0;
  const Json* copies = nullptr;
  const Json* tflops = nullptr;
  Status status;
  reader.ignore("source");  // for human readers
  if (status = reader.string("name", /*required=*/true, &profile.name); !status.ok()) {
    return status;
  }
  if (status = reader.string("architecture", /*required=*/false, &profile.architecture);
      !status.ok()) {
    return status;
  }
  if (status = reader.number("memory_gib", kLargestMemoryGib, /*required=*/false, &memory_gib);
      !status.ok()) {
    return status;
  }
  if (status =
          reader.number("memory_gb_per_s", kLargest, /*required=*/true, &profile.memory_gb_per_s);
      !status.ok()) {
    return status;
  }
  if (status =
          reader.number("launch_latency_us", 1e6, /*required=*/true, &profile.launch_latency_us);
      !status.ok()) {
    return status;
  }
  if (status = reader.object("copy_gb_per_s", &copies); !status.ok()) return status;
  if (status = read_copies(*copies, &profile); !status.ok()) return status;
  if (status = reader.object("tflops", &tflops); !status.ok()) return status;
  if (status = read_tflops(*tflops, &profile); !status.ok()) return status;
  if (status = reader.no_others(); !status.ok()) return status;
  profile.memory_bytes = static_cast<uint64_t>(std::ldexp(memory_gib, 30));
  *out_profile = std::move(profile);
  return {};
}

Status read_profile(const std::string& file, Profile* out_profile) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kLargestFile + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad() || (stream.fail() && !stream.eof())) {
    return {Code::kInvalidArgument, fmt::format("profile {}: cannot be read", file)};
  }
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > kLargestFile) {
    return {Code::kInvalidArgument, fmt::format("profile {}: above 64 KiB", file)};
  }
  Status status = parse_profile(text, out_profile);
  return status.ok() ? Status()
                     : Status(status.code(), fmt::format("{} ({})", status.text(), file));
}

}  // namespace keel::emulator
