// SPDX-License-Identifier: Apache-2.0
// Complete files, and damaged ones.
#include "tensorfile/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/testing/small_disk.h"

namespace keel::tensorfile {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest() {
    std::string pattern = (fs::temp_directory_path() / "safetensors_test.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ / "model.safetensors";
  }
  ~SafetensorsTest() override { fs::remove_all(folder_); }

  static TensorSource floats(std::string name, std::vector<int64_t> shape,
                             std::span<const float> values) {
    return {std::move(name), "F32", std::move(shape), std::as_bytes(values)};
  }
  // Two tensors and some metadata.
  void write_whole() const {
    const std::vector<float> matrix = {
        1, -2, 3.5F, 1e-40F, std::numeric_limits<float>::infinity(), -0.0F};
    const std::vector<float> scalar = {7};
    const std::vector<TensorSource> tensors = {floats("matrix", {2, 3}, matrix),
                                               floats("scalar", {}, scalar)};
    write_safetensors(path_, tensors, {{"step", "12"}});
  }
  std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  static std::string with_length(uint64_t length, const std::string& rest) {
    std::string text;
    for (int i = 0; i < 8; ++i) text.push_back(static_cast<char>(length >> (8 * i)));
    return text + rest;
  }
  // Writes a file of |header| and |data_bytes| of data.
  void put(const std::string& header, size_t data_bytes) const {
    put(with_length(header.size(), header + std::string(data_bytes, '\0')));
  }
  // Error of opening the file; empty if it opens.
  std::string refusal() const {
    try {
      const SafetensorsFile file(path_);
      return {};
    } catch (const FileError& error) {
      return error.what();
    }
  }
  void expect_refusal(const std::vector<std::string>& parts) const {
    const std::string text = refusal();
    EXPECT_NE(text.find(path_.string()), std::string::npos) << text;
    for (const std::string& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << "should say " << part << ", said " << text;
    }
  }
  size_t files_in_folder() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_, path_;
};

TEST_F(SafetensorsTest, GivesBackWhatWasWritten) {
  write_whole();
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata("step"), "12");
  EXPECT_EQ(file.tensors().size(), 2U);
  const std::vector<float> matrix = file.read_floats("matrix", std::vector<int64_t>{2, 3});
  ASSERT_EQ(matrix.size(), 6U);
  EXPECT_EQ(matrix[2], 3.5F);
  EXPECT_EQ(matrix[3], 1e-40F);
  EXPECT_TRUE(std::signbit(matrix[5]));
  EXPECT_EQ(file.read_floats("scalar", {}), std::vector<float>{7});
  EXPECT_EQ(files_in_folder(), 1U);
}

// The layout, read by hand.
TEST_F(SafetensorsTest, BeginsWithTheLengthOfTheHeader) {
  write_whole();
  const std::string bytes = content();
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) {
    length |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  EXPECT_EQ(length % 8, 0U);
  const auto header = ordered_json::parse(bytes.substr(8, length));
  EXPECT_EQ(header["matrix"]["dtype"], "F32");
  EXPECT_EQ(header["matrix"]["data_offsets"], (std::vector<uint64_t>{0, 24}));
  EXPECT_EQ(header["scalar"]["data_offsets"], (std::vector<uint64_t>{24, 28}));
  EXPECT_EQ(header["__metadata__"]["step"], "12");
  EXPECT_EQ(bytes.size(), 8 + length + 28);
}

TEST_F(SafetensorsTest, ReadsHalfPrecision) {
  const std::vector<uint16_t> brain = {0x3f80, 0xc000};  // 1, -2
  const std::vector<uint16_t> half = {0x3c00, 0xc000};
  const std::vector<TensorSource> tensors = {
      {"brain", "BF16", {2}, std::as_bytes(std::span(brain))},
      {"half", "F16", {2}, std::as_bytes(std::span(half))},
      {"whole", "I32", {1}, std::as_bytes(std::span(brain))}};
  write_safetensors(path_, tensors, {});
  const SafetensorsFile file(path_);
  const std::vector<int64_t> shape = {2};
  EXPECT_EQ(file.read_floats("brain", shape), (std::vector<float>{1, -2}));
  EXPECT_EQ(file.read_floats("half", shape), (std::vector<float>{1, -2}));
  EXPECT_THROW(file.read_floats("whole", std::vector<int64_t>{1}), FileError);
}

TEST_F(SafetensorsTest, NamesWhatIsMissing) {
  write_whole();
  const SafetensorsFile file(path_);
  const auto message = [&](const std::string& name, std::vector<int64_t> shape) -> std::string {
    try {
      file.read_floats(name, shape);
      return {};
    } catch (const FileError& error) {
      return error.what();
    }
  };
  EXPECT_NE(message("absent", {2}).find("tensor absent: is not in it"), std::string::npos);
  EXPECT_NE(message("matrix", {3, 2}).find("its shape is [2,3], the model's [3,2]"),
            std::string::npos);
  EXPECT_THROW(file.metadata("absent"), FileError);
}

TEST_F(SafetensorsTest, RefusesEveryTruncation) {
  write_whole();
  const std::string whole = content();
  for (size_t size = 0; size < whole.size(); ++size) {
    put(whole.substr(0, size));
    EXPECT_NE(refusal(), "") << size << " of " << whole.size() << " bytes";
  }
  put(whole.substr(0, whole.size() - 1));
  expect_refusal({"tensor scalar", "cut short"});
  put(whole + "x");
  expect_refusal({"1 bytes behind its last tensor"});
}

TEST_F(SafetensorsTest, RefusesHeadersThatLie) {
  const auto entry = [](const std::string& rest) { return "{\"x\":{" + rest + "}}"; };
  struct Case {
    std::string header;
    size_t data_bytes;
    std::vector<std::string> expected;
  };
  const std::vector<Case> cases = {
      {"[]", 0, {"its header: it is not a JSON object"}},
      {"7", 0, {"its header: it is not a JSON object"}},
      {"{", 0, {"its header: it ends too early, at line 1, column 2"}},
      {"", 0, {"its header: it is empty"}},
      {"{\"x\":3}", 0, {"tensor x", "no dtype"}},
      {entry(R"("dtype":4,"shape":[1],"data_offsets":[0,4])"), 4, {"tensor x", "no dtype"}},
      {entry(R"("dtype":"F32","data_offsets":[0,4])"), 4, {"tensor x", "no shape"}},
      {entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4, {"tensor x", "shape"}},
      {entry(R"("dtype":"F32","shape":[0.5],"data_offsets":[0,4])"), 4, {"tensor x", "shape"}},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), 4, {"tensor x", "data_offsets"}},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[-4,0])"), 4, {"tensor x"}},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4, {"ends before it begins"}},
      {entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4, {"tensor x", "F32[2]"}},
      {entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 4, {"tensor x", "cut short"}},
      // 2^62 * 4 elements of 4 bytes wrap to 0 in 64 bits.
      {entry(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"),
       0,
       {"tensor x", "are not those of"}},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), 8, {"tensor x", "gap"}},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8,
       {"tensor y", "overlaps"}},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4,
       {"its header: the key 'x' is there twice"}},
      {R"({"x":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, {"nests deeper"}},
      {entry(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,0])"),
       0,
       {"tensor x", "shape"}},
      {entry(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2, {"tensor x", "F4[3]"}},
      {entry(R"("dtype":"C64","shape":[2],"data_offsets":[0,8])"), 8, {"tensor x", "C64[2]"}},
      {entry(R"("dtype":"F32","shape":[0],"data_offsets":[18446744073709551615,0])"),
       0,
       {"tensor x", "data_offsets"}},
      {R"({"__metadata__":{"step":3}})", 0, {"metadata step", "not a string"}},
  };
  for (const Case& lie : cases) {
    put(lie.header, lie.data_bytes);
    expect_refusal(lie.expected);
  }
  put(with_length(uint64_t{1} << 62, "{}"));
  expect_refusal({"more than any has"});
  put(with_length(3, "{}"));
  expect_refusal({"header of 3 bytes is cut short"});
  put("1234567");
  expect_refusal({"too few"});
  fs::remove(path_);
  expect_refusal({"cannot be opened"});
}

// Two readers would read two different files: the format's own reader, in Rust, refuses all of
// these.
TEST_F(SafetensorsTest, RefusesHeadersOfTwoContents) {
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::string b = R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]})";
  const std::string whole = "{" + a + "," + b + "}";
  put(whole, 8);
  ASSERT_EQ(refusal(), "");
  put(whole + "   ", 8);
  EXPECT_EQ(refusal(), "") << "the padding of the format";

  const struct {
    std::string header;
    std::string expected;
  } cases[] = {
      {"{" + a + "," + b + "," + a + "}", "the key 'a' is there twice"},
      {R"({"a":{"dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4]},)" + b + "}",
       "the key 'dtype' is there twice in a"},
      {R"({"a":{"dtype":"F32","shape":[2],"shape":[1],"data_offsets":[0,4]},)" + b + "}",
       "the key 'shape' is there twice in a"},
      // Another reader takes the first of both, and swaps two tensors.
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"data_offsets":[4,8]}})",
       "the key 'data_offsets' is there twice in a"},
      {R"({"__metadata__":{"k":"1"},"__metadata__":{"k":"2"},)" + a + "," + b + "}",
       "the key '__metadata__' is there twice"},
      {R"({"__metadata__":{"order":"a","order":"b"},)" + a + "," + b + "}",
       "the key 'order' is there twice in __metadata__"},
      {whole + std::string(3, '\0'), "it has a NUL byte, at line 1, column"},
      {whole + std::string("\0{}", 3), "it has a NUL byte, at line 1, column"},
      {whole + "{}", "more text is behind the end"},
      {whole + "x", "more text is behind the end"},
      {"\xef\xbb\xbf" + whole, "it begins with a byte-order mark"},
      {" " + whole, "begins with a blank"},
  };
  for (const auto& [header, expected] : cases) {
    put(header, 8);
    expect_refusal({"its header", expected});
  }
}

// The format has, or will have, more dtypes than Keel calculates with.
TEST_F(SafetensorsTest, TakesDtypesThatItDoesNotDecode) {
  const struct {
    const char* dtype;
    size_t bytes;  // bytes of four elements
  } dtypes[] = {{"F4", 2},          {"F6_E2M3", 3},     {"F6_E3M2", 3}, {"F8_E8M0", 4},
                {"F8_E4M3FNUZ", 4}, {"F8_E5M2FNUZ", 4}, {"C64", 32},    {"F128_OF_LATER", 5}};
  for (const auto& [dtype, bytes] : dtypes) {
    put(R"({"x":{"dtype":")" + std::string(dtype) + R"(","shape":[2,2],"data_offsets":[0,)" +
            std::to_string(bytes) + "]}}",
        bytes);
    ASSERT_EQ(refusal(), "");
    const SafetensorsFile file(path_);
    EXPECT_EQ(file.tensors().at("x").size, bytes);
    EXPECT_THROW(file.read_floats("x", std::vector<int64_t>{2, 2}), FileError) << dtype;
  }
}

TEST_F(SafetensorsTest, NullStandsForNoMetadata) {
  put(R"({"__metadata__":null,"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1);
  ASSERT_EQ(refusal(), "");
  EXPECT_TRUE(SafetensorsFile(path_).metadata().empty());
}

// Names that differ only in bytes that are not UTF-8 are one name in the file.
TEST_F(SafetensorsTest, WritesNoHeaderThatItRefuses) {
  const std::vector<float> one = {1};
  const auto written = [&](const std::string& a, const std::string& b) {
    const std::vector<TensorSource> tensors = {floats(a, {1}, one), floats(b, {1}, one)};
    write_safetensors(path_, tensors, {});
  };
  EXPECT_THROW(written("x", "x"), FileError);
  EXPECT_THROW(written("x\xff", "x\xfe"), FileError);
  EXPECT_THROW(written("x", "__metadata__"), FileError);
  EXPECT_EQ(files_in_folder(), 0U);
  written("x\xff", "\"\\\n\u00e4");
  const SafetensorsFile file(path_);
  EXPECT_TRUE(file.has("x\ufffd"));
  EXPECT_TRUE(file.has("\"\\\n\u00e4"));
}

// Takes minutes with a search through all tensors for each tensor.
TEST_F(SafetensorsTest, ManyTensorsTakeTimeInProportion) {
  constexpr int kCount = 50'000;
  std::vector<TensorSource> tensors;
  for (int i = 0; i < kCount; ++i) tensors.push_back(floats("t" + std::to_string(i), {0}, {}));
  write_safetensors(path_, tensors, {{"step", "1"}});
  EXPECT_EQ(SafetensorsFile(path_).tensors().size(), static_cast<size_t>(kCount));
}

// Texts on which a parser would use up the stack or memory.
TEST_F(SafetensorsTest, RefusesHeadersThatNestWithoutEnd) {
  put(std::string(1'000'000, '['), 0);
  expect_refusal({"nests deeper"});
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"x\":";
  put(objects, 0);
  expect_refusal({"nests deeper"});
  // Brackets inside names do not nest.
  put(R"({"[[[[[\"{{{{{{":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  EXPECT_EQ(refusal(), "");
}

TEST_F(SafetensorsTest, ReadsPartsOfATensor) {
  write_whole();
  const SafetensorsFile file(path_);
  float value = 0;
  file.read("matrix", 2 * sizeof(float), std::as_writable_bytes(std::span(&value, 1)));
  EXPECT_EQ(value, 3.5F);
  std::vector<std::byte> more(5);
  EXPECT_THROW(file.read("matrix", 20, more), FileError);
  EXPECT_THROW(file.read("matrix", UINT64_MAX, more), FileError);
  EXPECT_THROW(file.read("absent", 0, more), FileError);
}

TEST_F(SafetensorsTest, TensorWithoutElementsTakesNoRoom) {
  const std::vector<float> one = {1};
  const std::vector<TensorSource> tensors = {floats("a", {0, 3}, {}), floats("b", {1}, one),
                                             floats("c", {0}, {})};
  write_safetensors(path_, tensors, {});
  const SafetensorsFile file(path_);
  EXPECT_TRUE(file.read_floats("a", std::vector<int64_t>{0, 3}).empty());
  EXPECT_EQ(file.read_floats("b", std::vector<int64_t>{1}), one);
}

TEST_F(SafetensorsTest, FullDiskLeavesTheOldFile) {
  constexpr int kCannotMount = 77;
  const pid_t child = fork();
  if (child == 0) {
    if (!mount_small_disk(folder_, "64k")) _exit(kCannotMount);
    write_whole();
    const std::string before = content();
    const std::vector<float> large(1 << 18, 2.0F);
    const std::vector<TensorSource> tensors = {floats("large", {1 << 18}, large)};
    try {
      write_safetensors(path_, tensors, {});
    } catch (const FileError& error) {
      const std::string reason = std::strerror(ENOSPC);
      if (std::string(error.what()).find("cannot be written: " + reason) == std::string::npos) {
        _exit(2);
      }
      _exit(content() != before ? 3 : files_in_folder() != 1 ? 4 : 0);
    }
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == kCannotMount) {
    GTEST_SKIP() << "this user cannot mount a small file system";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(SafetensorsTest, ALimitOfFilesLeavesTheOldFile) {
  write_whole();
  const std::string before = content();
  // Limits the bytes that a process may write to a file (EFBIG).
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1 << 16, 1 << 16};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::vector<float> large(1 << 18, 2.0F);
    const std::vector<TensorSource> tensors = {floats("large", {1 << 18}, large)};
    try {
      write_safetensors(path_, tensors, {});
    } catch (const FileError& error) {
      _exit(std::string(error.what()).find("cannot be written") != std::string::npos ? 0 : 2);
    }
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(content(), before);
  EXPECT_EQ(files_in_folder(), 1U) << "nothing is left of the attempt";
}

TEST_F(SafetensorsTest, KillLeavesAWholeFile) {
  constexpr int64_t kCount = 1 << 18;
  write_whole();
  for (int round = 0; round < 12; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (float value = 1;; ++value) {
        const std::vector<float> values(kCount, value);
        const std::vector<TensorSource> tensors = {floats("values", {kCount}, values)};
        write_safetensors(path_, tensors, {});
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + 7 * round));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const SafetensorsFile file(path_);  // throws for an incomplete file
    if (!file.has("values")) continue;  // killed before the first file was done
    const std::vector<float> values = file.read_floats("values", std::vector<int64_t>{kCount});
    EXPECT_EQ(std::count(values.begin(), values.end(), values[0]), kCount);
  }
}

TEST_F(SafetensorsTest, RefusesToWriteWhatIsWrong) {
  const std::vector<float> one = {1};
  EXPECT_THROW(write_safetensors(path_, std::vector<TensorSource>{floats("x", {2}, one)}, {}),
               FileError);
  EXPECT_THROW(
      write_safetensors(
          path_, std::vector<TensorSource>{floats("x", {1}, one), floats("x", {1}, one)}, {}),
      FileError);
  EXPECT_THROW(write_safetensors(folder_ / "no" / "such",
                                 std::vector<TensorSource>{floats("x", {1}, one)}, {}),
               FileError);
  EXPECT_EQ(files_in_folder(), 0U);
}

}  // namespace
}  // namespace keel::tensorfile
