// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <keel/cpu_limit.hpp>
#include <string>

namespace keel::testing {
namespace {

namespace fs = std::filesystem;

// Temporary folders laid out like /proc and /sys/fs/cgroup.
class CpuLimitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "keel_cpu_limit_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  // Mount entry of a cgroup v2 hierarchy at |point| below the folder, showing the hierarchy from
  // |root| down.
  std::string second(const std::string& point, const std::string& root = "/") const {
    return "41 31 0:38 " + root + " " + path(point) + " rw,nosuid - cgroup2 cgroup2 rw\n";
  }
  std::string first(const std::string& point, const std::string& options,
                    const std::string& root = "/") const {
    return "32 31 0:29 " + root + " " + path(point) + " rw shared:9 - cgroup cgroup " + options +
           "\n";
  }
  std::string path(const std::string& below) const { return (folder_ / below).string(); }
  CpuLimit read(const std::string& groups, const std::string& mounts) const {
    write("proc/cgroup", groups);
    write("proc/mountinfo", "24 30 0:22 / /proc rw - proc proc rw\n" + mounts);
    return CpuLimit::read(path("proc/cgroup"), path("proc/mountinfo"));
  }
  // Writes a cgroup v1 limit in folder |group|.
  void limit(const std::string& group, const std::string& quota, const std::string& period) const {
    write(group + "/cpu.cfs_quota_us", quota + "\n");
    write(group + "/cpu.cfs_period_us", period + "\n");
  }

  fs::path folder_;
};

TEST_F(CpuLimitTest, SecondVersionHeedsGroupsAbove) {
  write("v2/pod/cpu.max", "max 100000\n");
  write("v2/pod/box/cpu.max", "max 100000\n");
  const std::string groups = "0::/pod/box\n";
  EXPECT_FALSE(read(groups, second("v2")).is_limited());
  EXPECT_EQ(read(groups, second("v2")).whole_cores(64), 64u);

  write("v2/pod/box/cpu.max", "300000 100000\n");
  EXPECT_EQ(read(groups, second("v2")).cores(), 3);
  EXPECT_EQ(read(groups, second("v2")).group(), path("v2/pod/box"));
  // The smallest limit applies, at whatever level.
  write("v2/pod/cpu.max", "150000 100000\n");
  EXPECT_EQ(read(groups, second("v2")).cores(), 1.5);
  EXPECT_EQ(read(groups, second("v2")).group(), path("v2/pod"));
  // A container sees its own group as the root.
  write("v2/cpu.max", "50000 100000\n");
  EXPECT_EQ(read("0::/\n", second("v2")).cores(), 0.5);
}

TEST_F(CpuLimitTest, FirstVersionHeedsGroupsAbove) {
  limit("cpu", "-1", "100000");
  limit("cpu/pod", "-1", "100000");
  limit("cpu/pod/box", "-1", "100000");
  const std::string groups = "5:cpuset:/elsewhere\n4:cpu,cpuacct:/pod/box\n1:name=systemd:/\n";
  const std::string mounts = first("cpu", "rw,cpu,cpuacct") + first("cpuset", "rw,cpuset");
  EXPECT_FALSE(read(groups, mounts).is_limited());
  limit("cpu/pod/box", "400000", "100000");
  EXPECT_EQ(read(groups, mounts).cores(), 4);
  limit("cpu/pod", "50000", "20000");
  EXPECT_EQ(read(groups, mounts).cores(), 2.5);
  // Neither the group nor the mount of another controller applies.
  limit("cpuset/elsewhere", "100000", "100000");
  EXPECT_EQ(read(groups, mounts).cores(), 2.5);
}

TEST_F(CpuLimitTest, MountsOfAPartOfTheHierarchyAreFollowed) {
  limit("cpu", "200000", "100000");
  limit("cpu/inner", "100000", "100000");
  const std::string mounts = first("cpu", "rw,cpu", "/docker/4f");
  EXPECT_EQ(read("1:cpu:/docker/4f\n", mounts).cores(), 2);
  EXPECT_EQ(read("1:cpu:/docker/4f/inner\n", mounts).cores(), 1);
  // For a path outside the mount, the mount's root applies.
  EXPECT_EQ(read("1:cpu:/docker/4f2/inner\n", mounts).cores(), 2);
  EXPECT_EQ(read("1:cpu:/../other\n", first("cpu", "rw,cpu")).cores(), 2);
}

TEST_F(CpuLimitTest, HybridHierarchiesAndOddNames) {
  // cgroup v2 mounted beside v1, which has the controller.
  limit("cpu/a:b", "300000", "100000");
  fs::create_directories(folder_ / "unified/a:b");
  EXPECT_EQ(read("1:cpu:/a:b\n0::/a:b\n", first("cpu", "rw,cpu") + second("unified")).cores(), 3);
  write("with space/cpu.max", "200000 100000\n");
  EXPECT_EQ(read("0::/\n", second("with\\040space")).cores(), 2);
}

TEST_F(CpuLimitTest, WhatIsNoLimitIsNone) {
  EXPECT_FALSE(CpuLimit::read(path("nothing"), path("nothing")).is_limited());
  EXPECT_FALSE(read("0::/\n", "").is_limited()) << "not mounted";
  EXPECT_FALSE(read("nonsense\n0:\n", second("v2")).is_limited());
  for (const char* text : {"", "max", "max 100000", "100000", "0 100000", "100000 0", "x y"}) {
    write("v2/cpu.max", text);
    EXPECT_FALSE(read("0::/\n", second("v2")).is_limited()) << text;
  }
  limit("cpu", "100000", "");
  EXPECT_FALSE(read("1:cpu:/\n", first("cpu", "rw,cpu")).is_limited());
}

TEST_F(CpuLimitTest, WholeCoresAreAtLeastOne) {
  const auto whole = [&](const char* text, uint32_t cores) {
    write("v2/cpu.max", text);
    return read("0::/\n", second("v2")).whole_cores(cores);
  };
  EXPECT_EQ(whole("1000 100000", 8), 1u);
  EXPECT_EQ(whole("250000 100000", 8), 2u);
  EXPECT_EQ(whole("800000 100000", 8), 8u);
  EXPECT_EQ(whole("99999999999999 1000", 8), 8u);
}

TEST_F(CpuLimitTest, ThisProcessCanBeAsked) {
  EXPECT_GT(CpuLimit::of().cores(), 0);
  EXPECT_EQ(CpuLimit::of().cores(), CpuLimit::of(getpid()).cores());
}

}  // namespace
}  // namespace keel::testing
