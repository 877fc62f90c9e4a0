// SPDX-License-Identifier: Apache-2.0
#include "emulator/profile.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "emulator/testing/emulator_test.h"

namespace keel::emulator {
namespace {

using Json = nlohmann::json;

Json good() {
  return Json::parse(R"({
    "name": "chip", "source": "made up", "architecture": "a1", "memory_gib": 2,
    "memory_gb_per_s": 100, "launch_latency_us": 4,
    "copy_gb_per_s": {"host_to_device": 10, "device_to_host": 8, "peer": 5},
    "tflops": {"float32": 2, "float16": 16}
  })");
}

TEST(ProfileTest, GivesWhatIsInTheFile) {
  Profile profile;
  expect_ok(parse_profile(good().dump(), &profile));
  EXPECT_EQ(profile.name, "chip");
  EXPECT_EQ(profile.architecture, "a1");
  EXPECT_EQ(profile.memory_bytes, uint64_t{2} << 30);
  EXPECT_EQ(profile.memory_gb_per_s, 100);
  EXPECT_EQ(profile.device_to_host_gb_per_s, 8);
  EXPECT_EQ(profile.tflops_of("float16"), 16);
  EXPECT_EQ(profile.tflops_of("bfloat16"), 2) << "float32's";
  Json less = good();
  for (const char* key : {"source", "architecture", "memory_gib"}) less.erase(key);
  expect_ok(parse_profile(less.dump(), &profile));
  EXPECT_EQ(profile.memory_bytes, 0u);
}

TEST(ProfileTest, EveryBadMemberIsNamed) {
  const std::vector<std::string> numbers = {"/memory_gib",
                                            "/memory_gb_per_s",
                                            "/launch_latency_us",
                                            "/copy_gb_per_s/host_to_device",
                                            "/copy_gb_per_s/device_to_host",
                                            "/copy_gb_per_s/peer",
                                            "/tflops/float32",
                                            "/tflops/float16"};
  Profile profile;
  const auto refused = [&](const Json& json, const std::string& key) {
    profile.name = "untouched";
    expect_fails(Code::kInvalidArgument, "'" + key + "'", parse_profile(json.dump(), &profile));
    EXPECT_EQ(profile.name, "untouched");
  };
  for (const std::string& path : numbers) {
    std::string key = path.substr(1);
    std::replace(key.begin(), key.end(), '/', '.');
    for (const Json& value :
         {Json(0), Json(-1), Json(-0.0), Json(1e300), Json(1e8), Json(1e-30), Json("10"),
          Json(nullptr), Json(true), Json::array({1}), Json::object()}) {
      Json bad = good();
      bad[Json::json_pointer(path)] = value;
      refused(bad, key);
    }
  }
  for (const char* required :
       {"name", "memory_gb_per_s", "launch_latency_us", "copy_gb_per_s", "tflops"}) {
    Json bad = good();
    bad.erase(required);
    refused(bad, required);
    bad[required] = Json::array();
    refused(bad, required);
  }
  Json bad = good();
  bad["tflops"].erase("float32");
  refused(bad, "tflops.float32");
  bad = good();
  bad["tflops"]["float31"] = 1;
  refused(bad, "tflops.float31");
  bad = good();
  bad["copy_gb_per_s"]["sideways"] = 1;
  refused(bad, "copy_gb_per_s.sideways");
  bad = good();
  bad["memory_gb_per_sec"] = 1;
  refused(bad, "memory_gb_per_sec");
  for (const std::string& name : {std::string(), std::string(64, 'x')}) {
    bad = good();
    bad["name"] = name;
    refused(bad, "name");
  }
}

TEST(ProfileTest, TextThatIsNoProfile) {
  Profile profile;
  const std::string twice = R"({"name": "a", "name": "b"})";
  expect_fails(Code::kInvalidArgument, "'name' is there twice", parse_profile(twice, &profile));
  const std::pair<std::string, const char*> cases[] = {
      {"", "profile: it is empty"},
      {"{", "profile: it ends too early, at line 1"},
      {"[]", "profile: not a JSON object"},
      {"null", "profile: not a JSON object"},
      {"1e999", "profile: the number '1e999' is too large"},
      {"{\"name\": NaN}", "profile: it is not JSON at line 1"},
      {"\xff\xfe{}", "profile: it is not JSON"},
      {"\xef\xbb\xbf" + good().dump(), "profile: it begins with a byte-order mark"},
      {std::string(60'000, '['), "profile: it nests deeper"},
      {good().dump() + "x", "profile: more text is behind"},
      {good().dump() + std::string("\0", 1), "profile: it has a NUL byte"}};
  for (const auto& [text, expected] : cases) {
    expect_fails(Code::kInvalidArgument, expected, parse_profile(text, &profile));
  }
}

TEST(ProfileTest, Files) {
  Profile profile;
  const std::string folder = ::testing::TempDir();
  expect_fails(Code::kInvalidArgument, "/nowhere.json", read_profile("/nowhere.json", &profile));
  expect_fails(Code::kInvalidArgument, folder, read_profile(folder, &profile));
  const std::string file = folder + "keel_profile_test.json";
  std::ofstream(file) << good().dump();
  expect_ok(read_profile(file, &profile));
  std::ofstream(file) << good().dump() << std::string(100'000, ' ');
  expect_fails(Code::kInvalidArgument, "64 KiB", read_profile(file, &profile));
  std::filesystem::remove(file);
}

TEST(ProfileTest, TheExamplesAreProfilesAndSayWhereFrom) {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KEEL_PROFILES)) {
    Profile profile;
    expect_ok(read_profile(entry.path(), &profile));
    // No name may be taken for a chip that was measured.
    EXPECT_TRUE(profile.name.find("example") != std::string::npos ||
                profile.name.find("-like, 1/200") != std::string::npos)
        << entry.path();
    std::ifstream stream(entry.path());
    EXPECT_TRUE(Json::parse(stream).contains("source")) << entry.path();
    ++seen;
  }
  EXPECT_GE(seen, 2);
}

}  // namespace
}  // namespace keel::emulator
