// SPDX-License-Identifier: Apache-2.0
// Tests `keel run --hosts` with hosts that KEEL_HOST_ID tells apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tools/host_launch.h"
#include "tools/testing/keel_command.h"

namespace keel::cli {
namespace {

using testing::contains;
using testing::keel;
using testing::lines;
using testing::Result;

std::vector<std::string> run_on_hosts(const std::string& hosts,
                                      const std::vector<std::string>& command) {
  std::vector<std::string> arguments = {
      "run",      "--hosts",   hosts, "--launch", "env KEEL_HOST_ID={host} {command}",
      "--server", "127.0.0.1", "--"};
  arguments.insert(arguments.end(), command.begin(), command.end());
  return arguments;
}

TEST(HostLaunchTest, HostsAreReadWithTheirProcesses) {
  const auto hosts = parse_hosts("a:2,b,[fe80::1]:3");
  ASSERT_EQ(hosts.size(), 3u);
  EXPECT_EQ(hosts[0].name, "a");
  EXPECT_EQ(hosts[0].processes, 2u);
  EXPECT_EQ(hosts[1].processes, 1u);
  EXPECT_EQ(hosts[2].name, "[fe80::1]");
  EXPECT_EQ(hosts[2].processes, 3u);
  for (const char* text : {"", "a:", "a:0", "a:x", ":2", "a,,b", "a:5000"}) {
    EXPECT_ANY_THROW(parse_hosts(text)) << text;
  }
}

TEST(HostLaunchTest, ServerHasAPort) {
  const auto hosts = parse_hosts("a:2,b");
  EXPECT_EQ(server_address("", hosts).rfind("a:", 0), 0u);
  EXPECT_EQ(server_address("[::1]", hosts).rfind("[::1]:", 0), 0u);
  EXPECT_EQ(server_address("[::1]:5", hosts), "[::1]:5");
  EXPECT_EQ(server_address("10.0.0.1:5", hosts), "10.0.0.1:5");
}

TEST(HostLaunchTest, ShellWordHoldsAnyText) {
  HostLaunch launch;
  launch.hosts = parse_hosts("a");
  launch.launch = "sh -c {shell}";
  const auto words = launch_command(launch, 0, "job", {"echo", "it's $HOME \"x\""});
  ASSERT_EQ(words.size(), 3u);
  EXPECT_TRUE(contains(words[2], "'it'\\''s $HOME \"x\"'")) << words[2];
  EXPECT_TRUE(contains(words[2], "'KEEL_RANK=0'")) << words[2];
}

TEST(HostLaunchTest, SettingsOfTheWireArePassedOn) {
  setenv("KEEL_WIRE", "tcp", 1);
  setenv("UCX_NET_DEVICES", "mlx5_0:1", 1);
  setenv("KEEL_SECRET_FILE", "/nowhere", 1);
  HostLaunch launch;
  launch.hosts = parse_hosts("a");
  launch.launch = "sh -c {shell}";
  const auto words = launch_command(launch, 0, "job", {"true"});
  unsetenv("KEEL_SECRET_FILE");
  unsetenv("UCX_NET_DEVICES");
  unsetenv("KEEL_WIRE");
  ASSERT_EQ(words.size(), 3u);
  EXPECT_TRUE(contains(words[2], "'KEEL_WIRE=tcp'")) << words[2];
  EXPECT_TRUE(contains(words[2], "'UCX_NET_DEVICES=mlx5_0:1'")) << words[2];
  EXPECT_FALSE(contains(words[2], "KEEL_SECRET_FILE")) << words[2];
}

TEST(RunHostsTest, EachProcessFindsItsPlaceAndTheSecret) {
  const std::string script =
      "read -r secret; "
      "echo $KEEL_RANK $KEEL_WORLD $KEEL_LOCAL_RANK $KEEL_LOCAL_WORLD $KEEL_HOST_ID ${#secret}";
  const Result result = keel(run_on_hosts("a:2,b:1", {"sh", "-c", script}));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  std::vector<std::string> all = lines(result.out);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<std::string>{"0 3 0 2 a 32", "1 3 1 2 a 32", "2 3 0 1 b 32"}));
}

TEST(RunHostsTest, PerfRunsAcrossHosts) {
  const std::string program = std::string(std::getenv("KEEL_TEST_BIN")) + "/keel";
  const Result result = keel(run_on_hosts(
      "a:2,b:2", {program, "perf", "all_reduce", "-b", "64K", "-e", "64K", "--explain"}));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.error;
  EXPECT_TRUE(contains(result.out, "\"path\": \"hosts\"")) << result.out;
  EXPECT_TRUE(contains(result.out, "\"lanes\": 2")) << result.out;
}

TEST(RunHostsTest, PingMeasuresEachPairOfHosts) {
  const std::string program = std::string(std::getenv("KEEL_TEST_BIN")) + "/keel";
  const Result result = keel(
      run_on_hosts("a:2,b:1,c:1", {program, "ping", "--rounds", "5", "--size", "1", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.error;
  for (const char* part : {"\"verdict\"", "\"round_trip_us\"", "\"a\"", "\"b\"", "\"c\""}) {
    EXPECT_TRUE(contains(result.out, part)) << result.out;
  }
}

TEST(RunHostsTest, OptionsAreChecked) {
  EXPECT_NE(keel({"run", "--hosts", "a:0", "--", "true"}).exit_code, 0);
  EXPECT_NE(keel({"run", "--hosts", "a", "-n", "2", "--", "true"}).exit_code, 0);
  EXPECT_NE(keel({"run", "--", "true"}).exit_code, 0);
}

}  // namespace
}  // namespace keel::cli
