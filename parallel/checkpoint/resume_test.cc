// SPDX-License-Identifier: Apache-2.0
// A training that stops on one mesh and goes on with another is the training that did not stop.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <keel/parallel/engine_checkpoint.hpp>
#include <mutex>
#include <string>
#include <vector>

#include "parallel/tests/ranks.h"

namespace keel::parallel::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFirstSteps = 2;
constexpr int64_t kAllSteps = 5;

struct MeshCase {
  const char* mesh;
  void (*adjust)(Settings&) = [](Settings&) {};
};

class ResumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    start_keel();
    std::string name = (fs::temp_directory_path() / "keel-resume-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  // Runs steps |first| to |last|, from a checkpoint unless |first| is 0; saves at the end. Returns
  // the losses.
  std::vector<double> run(const MeshCase& on, int64_t first, int64_t last) {
    std::vector<double> losses;
    const int64_t ranks = MeshShape::parse(on.mesh).size();
    const std::vector<std::string> failures =
        run_ranks(devices_of("cpu", ranks), on.mesh, [&](Mesh& mesh) {
          Settings settings = tiny_settings(Architecture::kGpt2);
          on.adjust(settings);
          Engine engine(mesh, settings);
          if (first > 0) load_checkpoint(engine, Checkpoint::open(root_));
          EXPECT_EQ(engine.steps(), first);
          for (int64_t step = first; step < last; ++step) {
            const Batch batch = batch_of(settings, step);
            const StepResult result = engine.step(batch.tokens, batch.labels, 3e-3);
            if (mesh.rank() == 0) losses.push_back(result.loss);
          }
          CheckpointWriter writer(root_, mesh.world(), mesh.device());
          writer.save(last, checkpoint_pieces(engine), {}, engine.stream());
          writer.wait();
        });
    for (const std::string& failure : failures) EXPECT_EQ(failure, "");
    return losses;
  }

  fs::path root_;
};

TEST_F(ResumeTest, OnAnyOtherMesh) {
  const std::vector<double> expected = run({"dp=1"}, 0, kAllSteps);
  const MeshCase meshes[] = {
      {"pp=2,tp=2"},
      {"dp=2", [](Settings& s) { s.sharding = 1; }},
      {"dp=2,tp=2", [](Settings& s) { s.sharding = 3; }},
      {"tp=3"},
      {"dp=1"},
  };
  // Each mesh saves, and the next goes on.
  const size_t count = std::size(meshes);
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> losses = run(meshes[i], 0, kFirstSteps);
    const std::vector<double> more = run(meshes[(i + 1) % count], kFirstSteps, kAllSteps);
    losses.insert(losses.end(), more.begin(), more.end());
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t step = 0; step < expected.size(); ++step) {
      EXPECT_NEAR(losses[step], expected[step], 1e-4)
          << meshes[i].mesh << " to " << meshes[(i + 1) % count].mesh << ", step " << step;
    }
  }
}

TEST_F(ResumeTest, AnotherModelIsNamed) {
  (void)run({"dp=1"}, 0, 1);
  const std::vector<std::string> failures =
      run_ranks(devices_of("cpu", 1), "dp=1", [&](Mesh& mesh) {
        Settings settings = tiny_settings(Architecture::kGpt2);
        settings.model.vocabulary += 8;
        Engine engine(mesh, settings);
        load_checkpoint(engine, Checkpoint::open(root_));
      });
  EXPECT_NE(failures[0].find("checkpoint: tensor"), std::string::npos) << failures[0];
}

}  // namespace
}  // namespace keel::parallel::testing
