// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <keel/error.hpp>
#include <keel/parallel/loader.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace keel::parallel {
namespace {

namespace fs = std::filesystem;

class LoaderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "keel-loader-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Tokens |first|, |first| + 1, ...
  fs::path write(const std::string& name, int64_t first, int64_t count,
                 TokenWidth width = TokenWidth::k16) {
    std::ofstream file(folder_ / name, std::ios::binary);
    for (int64_t i = 0; i < count; ++i) {
      for (int byte = 0; byte < static_cast<int>(width); ++byte) {
        file.put(static_cast<char>((first + i) >> (8 * byte)));
      }
    }
    return folder_ / name;
  }
  static std::string failure(const std::function<void()>& call, keel_status expected) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), expected) << error.what();
      return error.what();
    }
    return "none";
  }
  // First tokens of |steps| steps.
  static std::vector<int32_t> firsts(Loader& loader, int64_t context, int steps) {
    std::vector<int32_t> tokens;
    for (int step = 0; step < steps; ++step) {
      const Loader::Batch& batch = loader.next();
      for (size_t i = 0; i < batch.tokens.size(); i += static_cast<size_t>(context)) {
        tokens.push_back(batch.tokens[i]);
        for (size_t j = 0; j < static_cast<size_t>(context); ++j) {
          EXPECT_EQ(batch.tokens[i + j], batch.tokens[i] + static_cast<int32_t>(j));
          EXPECT_EQ(batch.labels[i + j], batch.tokens[i + j] + 1);
        }
      }
    }
    return tokens;
  }

  fs::path folder_;
};

TEST_F(LoaderTest, AnEpochHasEachSampleOnceAndNoneCrossesFiles) {
  // 10 and 6 samples of 4 tokens: 41 tokens, and 27 of which two are left over.
  const TokenFiles files({write("a", 0, 41), write("b", 1000, 27)}, TokenWidth::k16, 4);
  ASSERT_EQ(files.samples(), 16);
  Loader loader(files, {.seed = 3, .batch = 4, .first = 0, .count = 4, .threads = 3});
  const std::vector<int32_t> first_epoch = firsts(loader, 4, 4);
  const std::vector<int32_t> second_epoch = firsts(loader, 4, 4);
  std::set<int32_t> expected;
  for (int32_t i = 0; i < 10; ++i) expected.insert(4 * i);
  for (int32_t i = 0; i < 6; ++i) expected.insert(1000 + 4 * i);
  EXPECT_EQ(std::set<int32_t>(first_epoch.begin(), first_epoch.end()), expected);
  EXPECT_EQ(std::set<int32_t>(second_epoch.begin(), second_epoch.end()), expected);
  EXPECT_NE(first_epoch, second_epoch);
}

TEST_F(LoaderTest, RanksInAnyNumberSeeTheSameSteps) {
  const TokenFiles files({write("a", 0, 4001)}, TokenWidth::k16, 4);
  Loader whole(files, {.seed = 9, .batch = 12, .first = 0, .count = 12});
  // Uneven shares.
  Loader first(files, {.seed = 9, .batch = 12, .first = 0, .count = 7, .threads = 2});
  Loader second(files, {.seed = 9, .batch = 12, .first = 7, .count = 5, .ahead = 1});
  for (int step = 0; step < 30; ++step) {
    std::vector<int32_t> parts = firsts(first, 4, 1);
    const std::vector<int32_t> more = firsts(second, 4, 1);
    parts.insert(parts.end(), more.begin(), more.end());
    EXPECT_EQ(parts, firsts(whole, 4, 1)) << step;
  }
}

TEST_F(LoaderTest, ResumesInMidEpochWithAnotherNumberOfRanks) {
  const TokenFiles files({write("a", 0, 401)}, TokenWidth::k16, 4);
  Loader loader(files, {.seed = 5, .batch = 6, .first = 0, .count = 6, .ahead = 7});
  (void)firsts(loader, 4, 11);  // steps that are read ahead do not count
  const std::string saved = loader.state().text();
  EXPECT_EQ(loader.state().next_sample, 66);
  const std::vector<int32_t> expected = firsts(loader, 4, 20);

  const LoaderState state = LoaderState::parse(saved);
  Loader left(files, {.seed = 0, .batch = 6, .first = 0, .count = 3}, state);
  Loader right(files, {.seed = 0, .batch = 6, .first = 3, .count = 3}, state);
  std::vector<int32_t> found;
  for (int step = 0; step < 20; ++step) {
    for (Loader* part : {&left, &right}) {
      const std::vector<int32_t> tokens = firsts(*part, 4, 1);
      found.insert(found.end(), tokens.begin(), tokens.end());
    }
  }
  EXPECT_EQ(found, expected);
}

TEST_F(LoaderTest, WideTokens) {
  const TokenFiles files({write("a", 100'000, 9, TokenWidth::k32)}, TokenWidth::k32, 4);
  Loader loader(files, {.batch = 2, .count = 2});
  EXPECT_GE(firsts(loader, 4, 1)[0], 100'000);
}

TEST_F(LoaderTest, BadFilesAreNamed) {
  EXPECT_NE(failure([&] { TokenFiles({folder_ / "absent"}, TokenWidth::k16, 4); }, KEEL_NOT_FOUND)
                .find("absent"),
            std::string::npos);
  EXPECT_NE(
      failure([&] { TokenFiles({folder_}, TokenWidth::k16, 4); }, KEEL_NOT_FOUND).find("regular"),
      std::string::npos);
  const fs::path odd = write("odd", 0, 20);
  fs::resize_file(odd, 39);
  EXPECT_NE(failure([&] { TokenFiles({odd}, TokenWidth::k16, 4); }, KEEL_INVALID_ARGUMENT)
                .find("odd: its 39 bytes end inside a token"),
            std::string::npos);
  const fs::path little = write("little", 0, 4);
  EXPECT_NE(failure([&] { TokenFiles({little}, TokenWidth::k16, 4); }, KEEL_INVALID_ARGUMENT)
                .find("not one sample of 4 tokens"),
            std::string::npos);
  EXPECT_NE(failure([&] { TokenFiles({}, TokenWidth::k16, 4); }, KEEL_INVALID_ARGUMENT), "none");
}

TEST_F(LoaderTest, ATokenBeyondInt32ReachesTheCaller) {
  const TokenFiles files({write("a", int64_t{1} << 31, 9, TokenWidth::k32)}, TokenWidth::k32, 4);
  Loader loader(files, {.batch = 2, .count = 2});
  EXPECT_NE(failure([&] { loader.next(); }, KEEL_DATA_LOSS).find("2147483"), std::string::npos);
}

TEST_F(LoaderTest, RefusesSharesAndStates) {
  const TokenFiles files({write("a", 0, 401)}, TokenWidth::k16, 4);
  const TokenFiles others({write("b", 7, 401)}, TokenWidth::k16, 4);
  EXPECT_NE(
      failure([&] { Loader(files, {.batch = 4, .first = 2, .count = 3}); }, KEEL_INVALID_ARGUMENT)
          .find("samples 2 to 5 of a batch of 4"),
      std::string::npos);
  EXPECT_NE(failure([&] { Loader(files, {.threads = 0}); }, KEEL_INVALID_ARGUMENT), "none");
  Loader loader(files, {});
  EXPECT_NE(failure([&] { Loader(others, {}, loader.state()); }, KEEL_INVALID_ARGUMENT)
                .find("other token files"),
            std::string::npos);
  for (const char* text : {"", "seed=1", "seed=1 next_sample=-4 files=0000000000000000",
                           "seed=1 next_sample=4 files=0000000000000000 more"}) {
    EXPECT_NE(failure([&] { LoaderState::parse(text); }, KEEL_INVALID_ARGUMENT), "none") << text;
  }
}

TEST(ShuffledTest, IsAPermutationOfEverySize) {
  for (int64_t count = 1; count < 70; ++count) {
    std::set<int64_t> seen;
    for (int64_t place = 0; place < count; ++place) {
      const int64_t value = shuffled(11, 2, place, count);
      EXPECT_TRUE(value >= 0 && value < count);
      seen.insert(value);
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), count);
  }
}

TEST(ShuffledTest, NeighboursPart) {
  // Of 1000 places, as many keep their successor as in a random order: about one.
  int kept = 0;
  for (int64_t place = 0; place + 1 < 1000; ++place) {
    kept += shuffled(1, 0, place + 1, 1000) == shuffled(1, 0, place, 1000) + 1 ? 1 : 0;
  }
  EXPECT_LT(kept, 10);
}

}  // namespace
}  // namespace keel::parallel
