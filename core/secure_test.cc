// SPDX-License-Identifier: Apache-2.0
// The environment has no effect on a process that gained privileges at its start. The probe is
// copied, made set-user-ID root, and started by a user other than root.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace keel::testing {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

class SecureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can make a program set-user-ID root";
    std::string name = "/tmp/keel-secure-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
    plain_ = folder_ / "plain";
    raised_ = folder_ / "raised";
    fs::copy_file(KEEL_SECURE_PROBE, plain_);
    fs::copy_file(KEEL_SECURE_PROBE, raised_);
    ASSERT_EQ(chmod(plain_.c_str(), 0755), 0);
    ASSERT_EQ(chmod(raised_.c_str(), 04755), 0);
    fs::create_directory(folder_ / "plugins");
    fs::copy_file(KEEL_FAKE_PLUGIN, folder_ / "plugins/libkeel_fake.so");
    ASSERT_EQ(chmod((folder_ / "plugins/libkeel_fake.so").c_str(), 0644), 0);
    fs::create_directory(folder_ / "libraries");
    std::ofstream(folder_ / "libraries/libcrypto.so.3") << "no library";
    if (run_raised({}).find("secure 1\n") != 0) {
      GTEST_SKIP() << "this system starts set-user-ID programs without privileges";
    }
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  std::string run_plain(const std::vector<std::string>& environment) {
    return run(plain_, 0, environment);
  }
  std::string run_raised(const std::vector<std::string>& environment) {
    return run(raised_, kNobody, environment);
  }

  fs::path folder_;

 private:
  // Returns the output of |program|, started by user |user| with |environment| only.
  static std::string run(const fs::path& program, uid_t user,
                         std::vector<std::string> environment) {
    std::vector<char*> variables;
    for (std::string& variable : environment) variables.push_back(variable.data());
    variables.push_back(nullptr);
    std::string path = program;
    char* arguments[] = {path.data(), nullptr};
    int ends[2];
    if (pipe(ends) != 0) return "no pipe";
    const pid_t child = fork();
    if (child == 0) {
      dup2(ends[1], STDOUT_FILENO);
      if (user == 0 || setresuid(user, user, user) == 0) {
        execve(path.c_str(), arguments, variables.data());
      }
      _exit(126);
    }
    close(ends[1]);
    std::string output;
    char block[4096];
    for (ssize_t got = 0; (got = read(ends[0], block, sizeof(block))) > 0;) {
      output.append(block, static_cast<size_t>(got));
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) output += "failed\n";
    return output;
  }

  fs::path plain_;
  fs::path raised_;
};

TEST_F(SecureTest, TheEnvironmentIsIgnored) {
  const std::string plain = run_plain({});
  const std::string raised = run_raised({});
  ASSERT_NE(raised.find("init KEEL_OK"), std::string::npos) << raised;
  ASSERT_NE(raised.find("backend cpu "), std::string::npos) << raised;
  std::vector<std::string> attacks = {
      "KEEL_PLUGIN_PATH=" + (folder_ / "plugins").string(),
      "KEEL_PLUGIN_PATH=/nonexistent",
      "KEEL_BACKENDS=none_such",
      "KEEL_TIMEOUT=soon",
      "KEEL_ALLOC=tight",
      "KEEL_CPU_DEVICES=3",
      "KEEL_CPU_DEVICES=many",
      "LD_LIBRARY_PATH=" + (folder_ / "libraries").string(),
  };
  if (plain.find("backend sim ") != std::string::npos) attacks.emplace_back("KEEL_SIM_DEVICES=7");
  if (plain.find("libkeel_vulkan.so 0 ") == std::string::npos &&
      plain.find("backend vulkan ") != std::string::npos) {
    attacks.emplace_back("KEEL_VULKAN_DEVICE=none such");
  }
  for (const std::string& attack : attacks) {
    EXPECT_NE(run_plain({attack}), plain) << attack << " does nothing even without privileges";
    EXPECT_EQ(run_raised({attack}), raised) << attack;
  }
  EXPECT_EQ(run_raised(attacks), raised) << "all at once";
}

// hwloc reads its variables itself, so topology is refused instead.
TEST_F(SecureTest, TopologyIsRefusedWhereItsLibraryWouldHeedTheEnvironment) {
  const std::string raised = run_raised({});
  if (raised.find("topology KEEL_OK") == std::string::npos) {
    GTEST_SKIP() << "topology is left out of this build: " << raised;
  }
  const std::string attack = "HWLOC_PLUGINS_PATH=" + (folder_ / "libraries").string();
  EXPECT_NE(run_plain({attack}).find("topology KEEL_OK"), std::string::npos);
  EXPECT_NE(run_raised({attack}).find("topology KEEL_PERMISSION_DENIED"), std::string::npos);
}

// A path of a file that the process would write with its privileges.
TEST_F(SecureTest, NoFileIsWrittenWhereTheEnvironmentSays) {
  const fs::path trace = folder_ / "trace.json";
  const std::string raised = run_raised({});
  EXPECT_EQ(run_raised({"KEEL_TRACE=" + trace.string(), "XDG_CACHE_HOME=" + folder_.string(),
                        "HOME=" + folder_.string()}),
            raised);
  EXPECT_FALSE(fs::exists(trace));
  EXPECT_FALSE(fs::exists(folder_ / "keel"));
  EXPECT_FALSE(fs::exists(folder_ / ".cache"));
}

}  // namespace
}  // namespace keel::testing
