// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <keel/parallel/checkpoint.hpp>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "base/ipc/process.h"
#include "parallel/checkpoint/box.h"
#include "parallel/checkpoint/shard.h"
#include "parallel/testing/thread_ranks.h"

namespace keel::parallel {
namespace {

namespace fs = std::filesystem;

class KeelEnvironment : public testing::Environment {
 public:
  void SetUp() override {
    setenv("KEEL_CPU_DEVICES", "4", 1);
    keel_init_options options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    options.backends = "cpu";
    options.default_timeout_ns = 60'000'000'000;
    runtime_ = std::make_unique<Runtime>(options);
  }
  void TearDown() override { runtime_.reset(); }

 private:
  std::unique_ptr<Runtime> runtime_;
};
const auto* const g_environment = testing::AddGlobalTestEnvironment(new KeelEnvironment);

// A tensor of the test's model: element i is |seed| + i.
struct Whole {
  std::string name;
  std::vector<int64_t> shape;
  float seed;

  std::vector<float> values() const {
    int64_t count = 1;
    for (const int64_t axis : shape) count *= axis;
    std::vector<float> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), seed);
    return all;
  }
  // The box's elements, row-major.
  std::vector<float> values(const Box& box) const {
    const Box own = {std::vector<int64_t>(shape.size(), 0), shape};
    std::vector<float> part(static_cast<size_t>(box.elements()));
    const std::vector<float> all = values();
    for_each_run(own, box, box, [&](int64_t from, int64_t to, int64_t count) {
      std::copy_n(all.begin() + from, count, part.begin() + to);
    });
    return part;
  }
};

const std::vector<Whole>& model() {
  static const std::vector<Whole>& all = *new std::vector<Whole>{{"rows", {8, 6}, 0},
                                                                 {"columns", {6, 8}, 1000},
                                                                 {"uneven", {5}, 2000},
                                                                 {"cube", {3, 4, 5}, 3000},
                                                                 {"one", {}, 4000}};
  return all;
}

// What rank |rank| of |world| holds: each tensor in intervals of one axis, uneven where it must be;
// a scalar on the last rank.
std::vector<std::pair<Whole, Box>> held(uint32_t rank, uint32_t world, float add = 0) {
  std::vector<std::pair<Whole, Box>> all;
  for (Whole whole : model()) {
    whole.seed += add;
    Box box = {std::vector<int64_t>(whole.shape.size(), 0), whole.shape};
    if (whole.shape.empty()) {
      if (rank + 1 == world) all.emplace_back(whole, box);
      continue;
    }
    const size_t axis = whole.name == "columns" || whole.name == "cube" ? 1 : 0;
    box.begin[axis] = whole.shape[axis] * rank / world;
    box.size[axis] = whole.shape[axis] * (rank + 1) / world - box.begin[axis];
    all.emplace_back(whole, box);
  }
  return all;
}

std::vector<Device> devices(uint32_t world) {
  std::vector<Device> all;
  for (uint32_t rank = 0; rank < world; ++rank) {
    all.push_back(Device::find("cpu:" + std::to_string(rank)));
  }
  return all;
}

// One rank's tensors on its device.
struct Memory {
  Memory(uint32_t rank, uint32_t world, Stream& stream, float add) {
    for (const auto& [whole, box] : held(rank, world, add)) {
      const std::vector<float> values = whole.values(box);
      TensorPiece piece;
      piece.name = whole.name;
      piece.shape = whole.shape;
      piece.begin = box.begin;
      piece.size = box.size;
      if (!values.empty()) {
        buffers.push_back(Buffer::of<float>(stream.device(), values.size()));
        stream.upload(buffers.back(), values);
        stream.synchronize();
        piece.data = buffers.back().data();
      }
      pieces.push_back(piece);
    }
  }
  std::vector<Buffer> buffers;
  std::vector<TensorPiece> pieces;
};

// Saves |steps| on |world| ranks; step s has values that are s larger. Returns the failures.
std::vector<std::string> save(const fs::path& root, uint32_t world, const std::vector<int>& steps,
                              const std::function<void(uint32_t, const char*)>& observe = {}) {
  return run_thread_ranks(
      devices(world), [&](uint32_t rank, Communicator& communicator, Device device) {
        Stream stream(device);
        CheckpointOptions options;
        if (observe) {
          options.observer = [&, rank](const char* phase) { observe(rank, phase); };
        }
        CheckpointWriter writer(root, communicator, device, options);
        for (const int step : steps) {
          const Memory memory(rank, world, stream, static_cast<float>(step));
          writer.save(step, memory.pieces, {{"loader", "at " + std::to_string(step)}}, stream);
          writer.wait();
        }
      });
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "keel-checkpoint-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void save_all(uint32_t world, const std::vector<int>& steps, const fs::path& root) {
    for (const std::string& failure : save(root, world, steps)) ASSERT_EQ(failure, "");
  }
  static std::string open_failure(const fs::path& path, keel_status expected = KEEL_DATA_LOSS) {
    try {
      Checkpoint::open(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), expected) << error.what();
      return error.what();
    }
    return "none";
  }
  // Every box of every rank of a mesh of |world| has the values of step |step|.
  static void expect_values(const Checkpoint& checkpoint, uint32_t world, int step) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      for (const auto& [whole, box] : held(rank, world, static_cast<float>(step))) {
        TensorPiece piece;
        piece.name = whole.name;
        piece.shape = whole.shape;
        piece.begin = box.begin;
        piece.size = box.size;
        std::vector<float> found(static_cast<size_t>(box.elements()));
        checkpoint.read(piece, std::as_writable_bytes(std::span(found)));
        EXPECT_EQ(found, whole.values(box)) << whole.name << box.text();
      }
    }
  }
  fs::path newest() const { return Checkpoint::open(root_).folder(); }

  fs::path root_;
};

TEST_F(CheckpointTest, IsReadByAnyNumberOfRanks) {
  save_all(4, {7}, root_);
  const Checkpoint checkpoint = Checkpoint::open(root_);
  EXPECT_EQ(checkpoint.step(), 7);
  EXPECT_EQ(checkpoint.metadata(), (CheckpointMetadata{{"loader", "at 7"}}));
  EXPECT_EQ(checkpoint.tensors().size(), model().size());
  for (uint32_t world = 1; world <= 6; ++world) expect_values(checkpoint, world, 7);
}

TEST_F(CheckpointTest, IsLoadedToADevice) {
  save_all(2, {3}, root_);
  const Checkpoint checkpoint = Checkpoint::open(root_);
  Stream stream(Device::find("cpu:1"));
  const Buffer buffer = Buffer::of<float>(stream.device(), 6 * 3);
  TensorPiece piece;
  piece.name = "columns";
  piece.shape = {6, 8};
  piece.begin = {0, 4};
  piece.size = {6, 3};
  piece.data = buffer.data();
  checkpoint.load(piece, stream);
  std::vector<float> found(18);
  stream.download(found, buffer);
  stream.synchronize();
  EXPECT_EQ(found, (Whole{"columns", {6, 8}, 1003}.values({{0, 4}, {6, 3}})));
}

TEST_F(CheckpointTest, TheLatestSetsStay) {
  save_all(2, {1, 2, 3, 4}, root_);
  expect_values(Checkpoint::open(root_), 2, 4);
  std::vector<int64_t> steps;
  for (const auto& entry : fs::directory_iterator(root_)) {
    if (entry.is_directory()) steps.push_back(Checkpoint::open(entry.path()).step());
  }
  std::sort(steps.begin(), steps.end());
  EXPECT_EQ(steps, (std::vector<int64_t>{3, 4}));
}

// The step goes on: what it writes to the tensors is not in the set.
TEST_F(CheckpointTest, SaveReturnsBeforeTheFilesAreWritten) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  CheckpointOptions options;
  options.observer = [&](const char* phase) {
    if (std::string_view(phase) == "snapshot") released.wait();
  };
  const std::vector<std::string> failures =
      run_thread_ranks(devices(1), [&](uint32_t, Communicator& world, Device device) {
        Stream stream(device);
        CheckpointWriter writer(root_, world, device, options);
        Memory memory(0, 1, stream, 5);
        writer.save(5, memory.pieces, {}, stream);
        for (const Buffer& buffer : memory.buffers) stream.fill(buffer, -1.0F);
        stream.synchronize();
        EXPECT_FALSE(writer.is_done());
        EXPECT_FALSE(fs::exists(root_ / kLatest));
        release.set_value();
        writer.wait();
        EXPECT_TRUE(writer.is_done());
      });
  EXPECT_EQ(failures[0], "");
  expect_values(Checkpoint::open(root_), 1, 5);
}

TEST_F(CheckpointTest, AFailureOfOneRankIsEveryRanksAndKeepsTheOldSet) {
  save_all(3, {1}, root_);
  const std::vector<std::string> failures =
      save(root_, 3, {2}, [](uint32_t rank, const char* phase) {
        if (rank == 1 && std::string_view(phase) == "shard") {
          throw Error(KEEL_UNAVAILABLE, "the disk is full");
        }
      });
  EXPECT_NE(failures[1].find("the disk is full"), std::string::npos) << failures[1];
  for (const size_t rank : {0, 2}) {
    EXPECT_NE(failures[rank].find("rank 1 could not write its file"), std::string::npos)
        << failures[rank];
  }
  expect_values(Checkpoint::open(root_), 2, 1);
}

TEST_F(CheckpointTest, AFailedCommitIsEveryRanks) {
  save_all(2, {1}, root_);
  const std::vector<std::string> failures = save(root_, 2, {2}, [](uint32_t, const char* phase) {
    if (std::string_view(phase) == "latest") throw Error(KEEL_UNAVAILABLE, "no more names");
  });
  EXPECT_NE(failures[0].find("no more names"), std::string::npos) << failures[0];
  EXPECT_NE(failures[1].find("rank 0 could not complete the set"), std::string::npos)
      << failures[1];
  expect_values(Checkpoint::open(root_), 1, 1);
}

TEST_F(CheckpointTest, ABrokenSetIsNamed) {
  save_all(3, {1}, root_ / "a");
  save_all(3, {1}, root_ / "b");
  const fs::path folder = Checkpoint::open(root_ / "a").folder();
  const fs::path other = Checkpoint::open(root_ / "b").folder();
  const fs::path shard = folder / shard_name(1, 3);
  const fs::path kept = root_ / "kept";
  fs::rename(shard, kept);
  EXPECT_NE(open_failure(root_ / "a")
                .find("shard 1 of 3 (rank-00001-of-00003.safetensors) is "
                      "missing"),
            std::string::npos);

  fs::copy_file(other / shard_name(1, 3), shard);
  std::string text = open_failure(folder);
  EXPECT_NE(text.find("shard 1 of 3"), std::string::npos) << text;
  EXPECT_NE(text.find("is of the set"), std::string::npos) << text;

  fs::copy_file(kept, shard, fs::copy_options::overwrite_existing);
  fs::resize_file(shard, fs::file_size(shard) - 4);
  text = open_failure(folder);
  EXPECT_NE(text.find("shard 1 of 3 (rank-00001-of-00003.safetensors) is truncated"),
            std::string::npos)
      << text;

  fs::copy_file(kept, shard, fs::copy_options::overwrite_existing);
  std::fstream(shard, std::ios::in | std::ios::out).write("\xff\xff\xff\xff", 4);
  EXPECT_NE(open_failure(folder).find("is damaged"), std::string::npos);

  // A shard of the same set under another rank's name.
  fs::copy_file(folder / shard_name(2, 3), shard, fs::copy_options::overwrite_existing);
  text = open_failure(folder);
  EXPECT_NE(text.find("rank 2 of 3"), std::string::npos) << text;

  fs::copy_file(kept, shard, fs::copy_options::overwrite_existing);
  EXPECT_EQ(open_failure(folder), "none");
  fs::remove(folder / kIndex);
  EXPECT_NE(open_failure(root_ / "a").find("has no index.json"), std::string::npos);
}

TEST_F(CheckpointTest, MissingAndDoubleElementsAreNamed) {
  const auto save_boxes = [&](const fs::path& root, int64_t first, int64_t second) {
    run_thread_ranks(devices(2), [&](uint32_t rank, Communicator& world, Device device) {
      Stream stream(device);
      const Buffer buffer = Buffer::of<float>(device, 8);
      stream.fill(buffer, 1.0F);
      TensorPiece piece;
      piece.name = "bias";
      piece.shape = {8};
      piece.begin = {rank == 0 ? 0 : first};
      piece.size = {rank == 0 ? second : 8 - first};
      piece.data = buffer.data();
      CheckpointWriter writer(root, world, device);
      writer.save(1, std::span(&piece, 1), {}, stream);
      writer.wait();
    });
    return open_failure(root);
  };
  EXPECT_EQ(save_boxes(root_ / "good", 4, 4), "none");
  EXPECT_NE(save_boxes(root_ / "gap", 5, 4).find("tensor bias has 7 of 8 elements"),
            std::string::npos);
  EXPECT_NE(save_boxes(root_ / "overlap", 3, 4).find("pieces of tensor bias overlap: [0:4]"),
            std::string::npos);
}

TEST_F(CheckpointTest, WrongReadsAreNamed) {
  save_all(1, {1}, root_);
  const Checkpoint checkpoint = Checkpoint::open(root_);
  const auto failure = [&](const TensorPiece& piece, size_t bytes, keel_status expected) {
    std::vector<std::byte> data(bytes);
    try {
      checkpoint.read(piece, data);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), expected);
      return std::string(error.what());
    }
    return std::string("none");
  };
  TensorPiece piece;
  piece.name = "rows";
  piece.shape = {8, 6};
  EXPECT_EQ(failure(piece, 8 * 6 * 4, KEEL_OK), "none");
  EXPECT_NE(failure(piece, 8, KEEL_INVALID_ARGUMENT).find("8 bytes"), std::string::npos);
  piece.begin = {4, 0};
  piece.size = {5, 6};
  EXPECT_NE(failure(piece, 0, KEEL_INVALID_ARGUMENT).find("[4:9, 0:6] is not inside"),
            std::string::npos);
  piece = TensorPiece{};
  piece.name = "rows";
  piece.shape = {6, 8};
  EXPECT_NE(failure(piece, 0, KEEL_INVALID_ARGUMENT).find("F32[8,6], not F32[6,8]"),
            std::string::npos);
  piece.name = "head";
  EXPECT_NE(failure(piece, 0, KEEL_NOT_FOUND).find("no tensor head"), std::string::npos);
  EXPECT_NE(open_failure(root_ / "nowhere", KEEL_NOT_FOUND).find("no checkpoint"),
            std::string::npos);
}

TEST_F(CheckpointTest, HuggingFaceOutAndIn) {
  save_all(3, {2}, root_ / "set");
  const auto rename = [](const std::string& name) {
    return name == "one" ? std::string() : "model." + name;
  };
  const fs::path folder = root_ / "out";
  export_hugging_face(Checkpoint::open(root_ / "set"), folder, rename, /*file_bytes=*/400);
  EXPECT_FALSE(fs::exists(folder / kHuggingFaceFile));
  const Checkpoint read = Checkpoint::open(folder);
  EXPECT_EQ(read.tensors().size(), model().size() - 1);
  for (const Whole& whole : model()) {
    if (whole.name == "one") continue;
    TensorPiece piece;
    piece.name = "model." + whole.name;
    piece.shape = whole.shape;
    std::vector<float> found(whole.values().size());
    read.read(piece, std::as_writable_bytes(std::span(found)));
    Whole expected = whole;
    expected.seed += 2;
    EXPECT_EQ(found, expected.values());
  }
  // One file under the usual name is read too.
  fs::create_directory(root_ / "single");
  fs::copy_file(folder / "model-00001-of-00003.safetensors", root_ / "single" / kHuggingFaceFile);
  EXPECT_GE(Checkpoint::open(root_ / "single").tensors().size(), 1u);
  fs::remove(folder / "model-00002-of-00003.safetensors");
  EXPECT_NE(open_failure(folder).find("shard model-00002-of-00003.safetensors is missing"),
            std::string::npos);
}

// Kills itself at KEEL_TEST_PHASE of a save to KEEL_TEST_ROOT; run by the next test.
TEST_F(CheckpointTest, DISABLED_KilledWriter) {
  fs::remove_all(root_);  // it needs none of its own, and is killed before TearDown()
  const char* const phase = std::getenv("KEEL_TEST_PHASE");
  const char* const root = std::getenv("KEEL_TEST_ROOT");
  ASSERT_TRUE(phase != nullptr && root != nullptr);
  save(root, 2, {2}, [&](uint32_t rank, const char* at) {
    if (rank == 0 && std::strcmp(phase, at) == 0) raise(SIGKILL);
  });
}

TEST_F(CheckpointTest, AKilledWriterLeavesTheOldSetOrTheNew) {
  for (const std::string phase : {"snapshot", "shard", "index", "latest", "done"}) {
    const fs::path root = root_ / phase;
    save_all(2, {1}, root);
    ProcessOptions options;
    options.command = {"/proc/self/exe", "--gtest_filter=CheckpointTest.DISABLED_KilledWriter",
                       "--gtest_also_run_disabled_tests"};
    options.environment = {"KEEL_TEST_PHASE=" + phase, "KEEL_TEST_ROOT=" + root.string()};
    Process writer;
    ASSERT_EQ(writer.start(options), 0);
    ASSERT_EQ(writer.wait().signal, SIGKILL) << phase;
    expect_values(Checkpoint::open(root), 3, phase == "done" ? 2 : 1);
    // The next save works, and removes what was left.
    save_all(2, {3}, root);
    expect_values(Checkpoint::open(root), 1, 3);
    const auto folders = std::count_if(fs::directory_iterator(root), fs::directory_iterator(),
                                       [](const auto& entry) { return entry.is_directory(); });
    EXPECT_LE(folders, 2);
  }
}

TEST(BoxTest, RunsCoverTheIntersectionOnce) {
  const Box from = {{0, 2, 1}, {3, 4, 5}};
  const Box to = {{1, 0, 0}, {4, 5, 7}};
  const std::optional<Box> common = intersection(from, to);
  ASSERT_TRUE(common.has_value());
  EXPECT_EQ(common->text(), "[1:3, 2:5, 1:6]");
  int64_t runs = 0;
  int64_t elements = 0;
  for_each_run(from, to, *common, [&](int64_t, int64_t, int64_t count) {
    ++runs;
    elements += count;
  });
  EXPECT_EQ(runs, 6);
  EXPECT_EQ(elements, common->elements());
  EXPECT_FALSE(intersection({{0}, {4}}, {{4}, {4}}).has_value());
}

TEST(BoxTest, ARangeIsTheBoxesInItsOrder) {
  const std::vector<std::vector<int64_t>> shapes = {{}, {7}, {3, 5}, {2, 3, 4}, {1, 1, 6}};
  for (const std::vector<int64_t>& shape : shapes) {
    const Box whole = {std::vector<int64_t>(shape.size(), 0), shape};
    for (int64_t begin = 0; begin <= whole.elements(); ++begin) {
      for (int64_t end = begin; end <= whole.elements(); ++end) {
        int64_t next = begin;
        for (const auto& [box, offset] : boxes_of_range(shape, begin, end)) {
          ASSERT_TRUE(box.is_inside(shape)) << box.text();
          EXPECT_EQ(offset, next - begin);
          // Each box is the elements that follow.
          for_each_run(whole, box, box, [&](int64_t from, int64_t, int64_t count) {
            EXPECT_EQ(from, next);
            next += count;
          });
        }
        EXPECT_EQ(next, end);
      }
    }
  }
}

TEST(BoxTest, WholeAxesMakeOneRun) {
  const Box box = {{0, 0}, {4, 6}};
  int runs = 0;
  for_each_run(box, box, box, [&](int64_t, int64_t, int64_t count) {
    ++runs;
    EXPECT_EQ(count, 24);
  });
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace keel::parallel
