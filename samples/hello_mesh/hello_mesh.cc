// SPDX-License-Identifier: Apache-2.0
// Trains a small Llama on a mesh of devices, each a rank in a thread of this program; then saves
// the training and goes on from the files with one rank.
//
//   hello_mesh                                            two ranks on cpu:0
//   hello_mesh pp=2,tp=2 cpu:0 vulkan:0 cuda:0 cuda:1     ranks of three makes
#include <stdlib.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <keel/parallel.hpp>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace keel::parallel;

constexpr int64_t kSteps = 20;

Settings settings() {
  Settings settings;
  settings.model.architecture = Architecture::kLlama;
  settings.model.vocabulary = 32;
  settings.model.layers = 2;
  settings.model.width = 32;
  settings.model.mlp_width = 64;
  settings.model.context = 16;
  settings.batch = 8;
  return settings;
}

// Each token names its successor.
void fill_batch(int64_t step, std::vector<int32_t>& tokens, std::vector<int32_t>& labels) {
  const auto vocabulary = static_cast<int32_t>(settings().model.vocabulary);
  auto token = static_cast<int32_t>(step % vocabulary);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = token;
    token = (5 * token + 3) % vocabulary;
    labels[i] = token;
  }
}

// One rank: trains, and saves its part of a checkpoint. Every rank returns the last loss.
double train(Mesh& mesh, const std::filesystem::path& folder) {
  const std::string costs = Mesh::text(mesh.measure(), mesh.shape());
  if (mesh.rank() == 0) std::printf("%s", costs.c_str());
  Engine engine(mesh, settings());
  const auto size = static_cast<size_t>(settings().batch * settings().model.context);
  std::vector<int32_t> tokens(size), labels(size);
  double loss = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    fill_batch(step, tokens, labels);
    loss = engine.step(tokens, labels, /*rate=*/1e-2).loss;
    if (mesh.rank() == 0 && step % 5 == 0) {
      std::printf("step %2d: loss %.3f\n", static_cast<int>(step), loss);
    }
  }
  CheckpointWriter writer(folder, mesh.world(), mesh.device());
  writer.save(engine.steps(), checkpoint_pieces(engine), {}, engine.stream());
  writer.wait();
  fill_batch(kSteps, tokens, labels);
  return engine.evaluate(tokens, labels);
}

// The same model on one device, read from the files of all ranks.
double evaluate_saved(keel::Device device, const std::filesystem::path& folder) {
  Mesh mesh(keel::Communicator::join(device, keel::make_unique_id(), 0, 1), device,
            MeshShape::parse("dp=1"));
  Engine engine(mesh, settings());
  load_checkpoint(engine, Checkpoint::open(folder));
  const auto size = static_cast<size_t>(settings().batch * settings().model.context);
  std::vector<int32_t> tokens(size), labels(size);
  fill_batch(engine.steps(), tokens, labels);
  return engine.evaluate(tokens, labels);
}

int run(const std::string& axes, const std::vector<std::string>& names,
        const std::filesystem::path& folder) {
  const MeshShape shape = MeshShape::parse(axes);
  std::vector<keel::Device> devices;
  for (const std::string& name : names) devices.push_back(keel::Device::find(name));
  const keel_unique_id id = keel::make_unique_id();
  std::mutex mutex;
  double loss = 0;
  std::string failure;
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < devices.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      std::string reason;
      double own = 0;
      try {
        Mesh mesh(keel::Communicator::join(devices[rank], id, rank,
                                           static_cast<uint32_t>(devices.size())),
                  devices[rank], shape);
        try {
          own = train(mesh, folder);
        } catch (...) {
          mesh.abort();  // the other ranks stop waiting for this one
          throw;
        }
      } catch (const std::exception& error) {
        reason = error.what();
      }
      const std::lock_guard lock(mutex);
      if (failure.empty()) failure = reason;
      if (rank == 0) loss = own;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  if (!failure.empty()) {
    std::fprintf(stderr, "hello_mesh: %s\n", failure.c_str());
    return 1;
  }
  const double saved = evaluate_saved(devices[0], folder);
  std::printf("after %d steps: loss %.4f on the mesh, %.4f from its checkpoint on %s\n",
              static_cast<int>(kSteps), loss, saved, devices[0].name().c_str());
  const double difference = saved - loss;
  return loss < 2 && difference < 1e-3 && difference > -1e-3 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string axes = argc > 1 ? argv[1] : "dp=2";
  std::vector<std::string> names(argv + (argc > 2 ? 2 : argc), argv + argc);
  if (names.empty()) names = {"cpu:0", "cpu:0"};
  int result = 1;
  std::filesystem::path folder;
  try {
    std::string pattern = (std::filesystem::temp_directory_path() / "hello_mesh.XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder = pattern;
    const keel::Runtime runtime;
    result = run(axes, names, folder);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hello_mesh: %s\n", error.what());
  }
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
  return result;
}
