// SPDX-License-Identifier: Apache-2.0
#include "files/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace keel {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() {
    std::string name = (fs::temp_directory_path() / "keel_output_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = folder_ / "out";
    std::ofstream(victim_ = folder_ / "victim") << "precious";
  }
  ~OutputFileTest() override {
    EXPECT_EQ(content(victim_), "precious");
    fs::remove_all(folder_);
  }

  static std::string content(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Closes |output|; returns the errno of opening it, 0 for success.
  static int close_output(const OpenedOutput& output) {
    EXPECT_EQ(output.ok(), output.error == 0);
    EXPECT_EQ(output.ok(), output.reason.empty()) << output.reason;
    if (output.ok()) close(output.descriptor);
    return output.error;
  }
  static int open_own(const fs::path& path) {
    return close_output(open_output(AT_FDCWD, path.string(), 0640));
  }

  fs::path folder_, path_, victim_;
};

TEST_F(OutputFileTest, CreatesOrOpensFilesOfTheUser) {
  EXPECT_EQ(open_own(path_), 0);
  struct stat made = {};
  ASSERT_EQ(stat(path_.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0077 & ~0040U, 0U);
  std::ofstream(path_) << "old";
  EXPECT_EQ(open_own(path_), 0);
  EXPECT_EQ(content(path_), "old");
  EXPECT_EQ(open_own("/dev/null"), 0);
  EXPECT_EQ(open_own(folder_ / "none" / "out"), ENOENT);
  const int folder = open(folder_.c_str(), O_PATH | O_CLOEXEC);
  EXPECT_EQ(close_output(open_output(folder, "within", 0600)), 0);
  EXPECT_EQ(close_output(create_output(folder, "new", O_RDWR, 0600)), 0);
  EXPECT_EQ(close_output(create_output(folder, "new", O_RDWR, 0600)), EEXIST);
  close(folder);
  EXPECT_TRUE(fs::exists(folder_ / "within"));
}

TEST_F(OutputFileTest, FollowsNoLink) {
  fs::create_symlink(victim_, path_);
  EXPECT_EQ(open_own(path_), ELOOP);
  EXPECT_EQ(close_output(create_output(AT_FDCWD, path_.string(), O_WRONLY, 0600)), EEXIST);
  fs::remove(path_);
  fs::create_symlink(folder_ / "not_there", path_);
  EXPECT_EQ(open_own(path_), ELOOP);
  EXPECT_FALSE(fs::exists(folder_ / "not_there"));
  EXPECT_NE(open_output(AT_FDCWD, path_.string(), 0600).reason.find("symbolic link"),
            std::string::npos);
}

TEST_F(OutputFileTest, RefusesFilesThatAreAlsoSomethingElse) {
  fs::create_hard_link(victim_, path_);
  EXPECT_EQ(open_own(path_), EPERM);
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(open_own(folder_ / "pipe"), EINVAL) << "and without waiting for a reader";
  EXPECT_EQ(open_own(folder_), EISDIR);
}

TEST_F(OutputFileTest, RefusesFilesAndLinksOfOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  std::ofstream(path_) << "somebody's";
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(open_own(path_), EPERM);
  EXPECT_NE(open_output(AT_FDCWD, path_.string(), 0600).reason.find("12345"), std::string::npos);
  EXPECT_EQ(close_output(open_output_of_user(path_.string(), false)), 0) << "as the user wants";
  const fs::path link = folder_ / "link";
  fs::create_symlink(victim_, link);
  ASSERT_EQ(lchown(link.c_str(), 12345, 12345), 0);
  EXPECT_EQ(close_output(open_output_of_user(link.string(), true)), ELOOP);
}

TEST_F(OutputFileTest, UsersMayNameLinksAndDevices) {
  std::ofstream(path_) << "old";
  const fs::path link = folder_ / "link";
  fs::create_symlink(path_, link);
  EXPECT_EQ(close_output(open_output_of_user(link.string(), false)), 0);
  EXPECT_EQ(content(path_), "old");
  EXPECT_EQ(close_output(open_output_of_user(link.string(), true)), 0);
  EXPECT_EQ(content(path_), "");
  EXPECT_EQ(close_output(open_output_of_user("/dev/null", true)), 0);
  EXPECT_EQ(close_output(open_output_of_user((folder_ / "none" / "out").string(), true)), ENOENT);
}

}  // namespace
}  // namespace keel
