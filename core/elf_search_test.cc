// SPDX-License-Identifier: Apache-2.0
#include "core/elf_search.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace keel {
namespace {

namespace fs = std::filesystem;

std::string own_file() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

ElfSearch search_of(std::string_view file) {
  return read_elf_search(std::as_bytes(std::span(file)));
}

TEST(ElfSearchTest, ReadsWhatThisProgramNeeds) {
  const ElfSearch search = search_of(own_file());
  EXPECT_NE(std::find(search.needed.begin(), search.needed.end(), "libc.so.6"),
            search.needed.end());
}

TEST(ElfSearchTest, PassesOverWhatIsNoElfFileOrBreaksOff) {
  EXPECT_TRUE(search_of("").needed.empty());
  EXPECT_TRUE(search_of(std::string(4096, 'x')).needed.empty());
  std::string file = own_file();
  for (const size_t size : {1, 16, 63, 64, 100, 500, 1000, 5000, 50'000}) {
    const std::string begin = file.substr(0, size);
    EXPECT_LE(search_of(begin).needed.size(), 64u) << size;
  }
  // Damage the headers one byte at a time.
  for (size_t at = 16; at < 1000; ++at) {
    std::string damaged = file.substr(0, 1 << 16);
    damaged[at] = static_cast<char>(0xff);
    search_of(damaged);
  }
}

class FindBesideTest : public ::testing::Test {
 protected:
  FindBesideTest() {
    std::string name = (fs::temp_directory_path() / "keel_beside_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    for (const char* folder : {"origin", "lib", "other"}) {
      fs::create_directory(folder_ / folder);
      std::ofstream(folder_ / folder / (std::string("in_") + folder)) << "x";
      std::ofstream(folder_ / folder / "everywhere") << "x";
    }
  }
  ~FindBesideTest() override { fs::remove_all(folder_); }

  std::string find(const std::string& name, const std::string& library_path = "") const {
    return find_beside(search_, name, folder_ / "origin", library_path.c_str());
  }

  fs::path folder_;
  ElfSearch search_ = {{}, {"$ORIGIN", "${ORIGIN}/../lib"}, true};
};

TEST_F(FindBesideTest, ReplacesTheOrigin) {
  EXPECT_EQ(find("in_origin"), folder_ / "origin/in_origin");
  EXPECT_EQ(find("in_lib"), folder_ / "origin/../lib/in_lib");
  EXPECT_EQ(find("everywhere"), folder_ / "origin/everywhere");
  EXPECT_EQ(find("in_other"), "");
  EXPECT_EQ(find("../lib/in_lib"), "") << "a path is no name";
}

TEST_F(FindBesideTest, LeavesToTheLoaderWhatItFindsBefore) {
  search_.folders.insert(search_.folders.begin(), folder_ / "other");
  EXPECT_EQ(find("everywhere"), "");
  EXPECT_EQ(find("in_origin"), folder_ / "origin/in_origin");
  search_.folders.erase(search_.folders.begin());
  const std::string other = folder_ / "other";
  EXPECT_EQ(find("everywhere", "/none:" + other), "");
  search_.is_runpath = false;  // the loader searches DT_RPATH before LD_LIBRARY_PATH
  EXPECT_EQ(find("everywhere", other), folder_ / "origin/everywhere");
}

}  // namespace
}  // namespace keel
