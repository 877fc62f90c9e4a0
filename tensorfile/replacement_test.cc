// SPDX-License-Identifier: Apache-2.0
// Replacement of files as a whole, and leftovers of interrupted replacements.
#include "tensorfile/replacement.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace keel::tensorfile {
namespace {

namespace fs = std::filesystem;

class ReplacementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "keel_replacement_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = folder_ / "weights";
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string content(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  fs::path partial(const std::string& of) const { return folder_ / ("weights.partial." + of); }
  static void touch(const fs::path& path) { std::ofstream(path) << "half"; }

  // A process that begins to replace path_ by "child" and finishes once the test lets it.
  struct Child {
    pid_t pid;
    int go_on;  // closed to let the process go on
  };
  Child begin() {
    int begun[2], go_on[2];
    EXPECT_EQ(pipe(begun), 0);
    EXPECT_EQ(pipe(go_on), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      close(go_on[1]);
      char byte = 0;
      try {
        Replacement file(path_);
        if (write(begun[1], &byte, 1) != 1 || read(go_on[0], &byte, 1) != 0) _exit(2);
        file.write(std::as_bytes(std::span(std::string_view("child"))));
        file.finish();
      } catch (const FileError&) {
        _exit(1);
      }
      _exit(0);
    }
    close(begun[1]);
    close(go_on[0]);
    char byte = 0;
    EXPECT_EQ(read(begun[0], &byte, 1), 1);
    close(begun[0]);
    return {pid, go_on[1]};
  }
  static int end_of(const Child& child) {
    close(child.go_on);
    int status = -1;
    EXPECT_EQ(waitpid(child.pid, &status, 0), child.pid);
    return status;
  }

  fs::path folder_, path_;
};

TEST_F(ReplacementTest, IsWholeOrNotThere) {
  replace_file(path_, "old");
  {
    Replacement file(path_);
    file.write(std::as_bytes(std::span(std::string_view("new"))));
    EXPECT_EQ(content(path_), "old");
  }
  EXPECT_EQ(content(path_), "old");
  replace_file(path_, "new");
  EXPECT_EQ(content(path_), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(ReplacementTest, RemovesWhatAKilledProcessHasLeft) {
  const Child child = begin();
  EXPECT_TRUE(fs::exists(partial(std::to_string(child.pid))));
  EXPECT_EQ(kill(child.pid, SIGKILL), 0);
  EXPECT_TRUE(WIFSIGNALED(end_of(child)));
  EXPECT_TRUE(fs::exists(partial(std::to_string(child.pid))));
  replace_file(path_, "next");
  EXPECT_FALSE(fs::exists(partial(std::to_string(child.pid))));
  EXPECT_EQ(content(path_), "next");
}

TEST_F(ReplacementTest, LeavesWhatALivingProcessWrites) {
  const Child child = begin();
  replace_file(path_, "next");
  EXPECT_TRUE(fs::exists(partial(std::to_string(child.pid))));
  EXPECT_EQ(content(path_), "next");
  EXPECT_EQ(end_of(child), 0);
  EXPECT_EQ(content(path_), "child");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

// Two replacements of one process use one name: the second waits until the first is done.
TEST_F(ReplacementTest, ThreadsTakeTurns) {
  const std::string texts[] = {std::string(1 << 20, 'a'), std::string(1 << 19, 'b')};
  for (int round = 0; round < 20; ++round) {
    std::thread other([&] { replace_file(path_, texts[1]); });
    replace_file(path_, texts[0]);
    other.join();
    const std::string got = content(path_);
    EXPECT_TRUE(got == texts[0] || got == texts[1]) << got.size();
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(ReplacementTest, LeavesFilesOfOtherNames) {
  const fs::path others[] = {partial("1a"), partial(""), folder_ / "weights.partial",
                             folder_ / "other.partial.1"};
  for (const fs::path& other : others) touch(other);
  touch(partial("1"));
  replace_file(path_, "next");
  EXPECT_FALSE(fs::exists(partial("1")));
  for (const fs::path& other : others) EXPECT_TRUE(fs::exists(other)) << other;
}

// Any user can foresee the name of the second file in /tmp.
TEST_F(ReplacementTest, LeavesWhatALinkInItsWayLeadsTo) {
  const fs::path victim = folder_ / "victim";
  std::ofstream(victim) << "precious";
  const fs::path own = partial(std::to_string(getpid()));
  for (const bool is_symbolic : {true, false}) {
    if (is_symbolic) {
      fs::create_symlink(victim, own);
    } else {
      fs::create_hard_link(victim, own);
    }
    // An unlocked hard link counts as a leftover: only its name is removed.
    if (is_symbolic) {
      EXPECT_THROW(replace_file(path_, "new"), FileError);
      EXPECT_FALSE(fs::exists(path_));
    } else {
      replace_file(path_, "new");
      EXPECT_EQ(content(path_), "new");
    }
    EXPECT_EQ(content(victim), "precious");
    fs::remove(own);
  }
}

TEST_F(ReplacementTest, CheckingAPathChangesNothingThere) {
  check_put_file(path_);
  EXPECT_FALSE(fs::exists(path_));
  std::ofstream(path_) << "old";
  check_put_file(path_);
  const fs::path link = folder_ / "link";
  fs::create_symlink(path_, link);
  check_put_file(link);
  EXPECT_EQ(content(path_), "old");
  check_put_file("/dev/full");
  EXPECT_THROW(check_put_file(folder_), FileError);
  EXPECT_THROW(check_put_file(folder_ / "none" / "file"), FileError);
}

// Replacing /dev/stdout would turn it into a regular file.
TEST_F(ReplacementTest, WritesToWhatIsNoFile) {
  put_file(path_, "old");
  EXPECT_TRUE(is_replaceable(path_));
  const fs::path link = folder_ / "link";
  fs::create_symlink(path_, link);
  EXPECT_FALSE(is_replaceable(link));
  put_file(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(content(path_), "new");
  EXPECT_FALSE(is_replaceable("/dev/full"));
  EXPECT_THROW(put_file("/dev/full", "new"), FileError);
  EXPECT_THROW(put_file(folder_ / "none" / "file", "new"), FileError);
}

}  // namespace
}  // namespace keel::tensorfile
