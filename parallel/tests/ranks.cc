// SPDX-License-Identifier: Apache-2.0
#include "parallel/tests/ranks.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "parallel/layout.h"

namespace keel::parallel::testing {

namespace {

// The default schedule, with a look at each step before.
class WatchedSchedule : public FillDrainSchedule {
 public:
  void run(Run& run) override {
    if (before) before(*engine, run);
    FillDrainSchedule::run(run);
  }
  Engine* engine = nullptr;
  std::function<void(Engine&, Run&)> before;
};

// One step, on the whole batch or on this rank's share alone.
StepResult run_step(Engine& engine, const Batch& batch, bool by_share) {
  constexpr double kRate = 3e-3;
  if (!by_share) return engine.step(batch.tokens, batch.labels, kRate);
  const Engine::Share share = engine.share();
  const auto context = static_cast<size_t>(engine.settings().model.context);
  const size_t first = static_cast<size_t>(share.first) * context;
  const size_t count = static_cast<size_t>(share.count) * context;
  return engine.step_share(std::span(batch.tokens).subspan(first, count),
                           std::span(batch.labels).subspan(first, count), kRate);
}

void offer_emulated_cuda() {
  const char* const programs = std::getenv("KEEL_TEST_BIN");
  if (kSanitized || programs == nullptr) return;
  const std::string folder = std::string(programs) + "/../lib/keel/emulated/cuda";
  if (!std::filesystem::exists(folder)) return;
  setenv("KEEL_CUDA_LIBRARY_FOLDER", folder.c_str(), /*overwrite=*/0);
  setenv("KEEL_EMULATED_CUDA", "devices=4", 0);
}

}  // namespace

void start_keel() {
  static const Runtime* const runtime = [] {
    setenv("KEEL_CPU_DEVICES", "8", /*overwrite=*/0);
    setenv("KEEL_CPU_CORES", "1", 0);
    setenv("KEEL_SIM_DEVICES", "8", 0);
    setenv("KEEL_SIM_SETTINGS", "memory_mib=96", 0);
    offer_emulated_cuda();
    return new Runtime();  // lives until the process ends
  }();
  (void)runtime;
}

std::vector<Device> devices_of(const std::string& backends, int64_t count) {
  std::vector<std::string> names(1);
  for (const char c : backends) {
    if (c == '+') {
      names.emplace_back();
    } else {
      names.back() += c;
    }
  }
  const auto makes = static_cast<int64_t>(names.size());
  std::vector<Device> devices;
  for (int64_t i = 0; i < count; ++i) {
    const std::string& name = names[static_cast<size_t>(i % makes)];
    devices.push_back(
        Device::find(name + ":" + (name == "vulkan" ? "0" : std::to_string(i / makes))));
  }
  return devices;
}

std::vector<std::string> run_ranks(const std::vector<Device>& devices, const std::string& mesh,
                                   const std::function<void(Mesh&)>& body) {
  const keel_unique_id id = make_unique_id();
  std::vector<std::string> failures(devices.size());
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable all_done;
  size_t done = 0;
  const auto finish = [&](bool wait) {
    std::unique_lock lock(mutex);
    if (++done == devices.size()) all_done.notify_all();
    return !wait || all_done.wait_for(lock, std::chrono::seconds(20),
                                      [&] { return done == devices.size(); });
  };
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Communicator world = Communicator::join(devices[rank], id, static_cast<uint32_t>(rank),
                                                static_cast<uint32_t>(devices.size()));
        Mesh own(std::move(world), devices[rank], MeshShape::parse(mesh));
        try {
          body(own);
          finish(/*wait=*/false);
        } catch (...) {
          // Failures of all ranks alike are each rank's own; another rank may wait for this one.
          if (finish(/*wait=*/true)) throw;
          own.abort();
          throw;
        }
      } catch (const std::exception& error) {
        failures[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failures;
}

ModelShape tiny_model(Architecture architecture) {
  ModelShape model;
  model.architecture = architecture;
  model.vocabulary = 37;  // no multiple of a number of ranks
  model.layers = 4;
  model.width = 32;
  model.heads = 8;
  model.kv_heads = model.is_llama() ? 4 : 8;
  model.mlp_width = 48;
  model.context = 8;
  return model;
}

Settings tiny_settings(Architecture architecture) {
  Settings settings;
  settings.model = tiny_model(architecture);
  settings.batch = 8;
  settings.optimizer.clip = 0;  // the gradients stay as they were summed
  return settings;
}

Batch batch_of(const Settings& settings, int64_t step) {
  Batch batch;
  uint64_t state = 0x9e3779b97f4a7c15 * static_cast<uint64_t>(step + 1);
  for (int64_t i = 0; i < settings.batch * settings.model.context; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const auto token =
        static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(settings.model.vocabulary));
    batch.tokens.push_back(token);
    // Learnable: a function of the token.
    const auto label = static_cast<int32_t>((3 * token + 1) % settings.model.vocabulary);
    batch.labels.push_back(i % 13 == 5 ? -1 : label);
  }
  return batch;
}

Training train(const Settings& settings, const Options& options) {
  start_keel();
  Training training;
  const MeshShape shape = MeshShape::parse(options.mesh);
  const std::vector<Device> devices = devices_of(options.backends, shape.size());
  training.traffic.resize(devices.size());
  training.in_use.resize(devices.size());
  training.peak.resize(devices.size());
  training.calls.resize(devices.size());
  training.operations.resize(devices.size());
  training.on_axis.resize(devices.size());
  std::mutex mutex;
  training.failures = run_ranks(devices, options.mesh, [&](Mesh& mesh) {
    Settings own = settings;
    if (options.adjust) options.adjust(own, mesh.rank());
    const auto schedule = std::make_shared<WatchedSchedule>();
    Engine engine(mesh, own, options.schedule ? options.schedule() : schedule);
    schedule->engine = &engine;
    schedule->before = options.before_run;
    if (options.prepare) options.prepare(engine);
    const auto collect = [&](const Tensors& shards, Tensors& whole) {
      const std::lock_guard lock(mutex);
      for (Stage* stage : engine.stages()) {
        for (const Parameter& parameter : stage->parameters()) {
          std::vector<float>& target = whole[parameter.name];
          target.resize(static_cast<size_t>(parameter.full_size()));
          put_shard(parameter, shards.at(parameter.name), target);
        }
      }
    };
    const auto rank = static_cast<size_t>(mesh.rank());
    for (int64_t step = 0; step < options.steps; ++step) {
      if (options.before_step) options.before_step(engine, step);
      const Batch batch = batch_of(own, step);
      const std::vector<std::string> axes = {"dp", "tp", "pp", "tied"};
      // Downloads use the axes too, beside the counters.
      std::map<std::string, Traffic> before;
      std::map<std::string, uint64_t> operations;
      for (const std::string& axis : axes) {
        before[axis] = engine.traffic(axis);
        operations[axis] = engine.operations(axis);
      }
      engine.reset_peak();
      training.in_use[rank] = engine.bytes_in_use();
      const StepResult result = run_step(engine, batch, options.by_share);
      // libkeel counts what has ended. Ranks of other makes may share a device, whose streams wait
      // for this rank's next step then.
      if (options.backends == "cpu") mesh.device().synchronize();
      training.peak[rank] = engine.peak_bytes();
      for (const std::string& axis : axes) {
        Traffic& used = training.traffic[rank][axis];
        const Traffic& now = engine.traffic(axis);
        used.all_reduce = now.all_reduce - before[axis].all_reduce;
        used.all_gather = now.all_gather - before[axis].all_gather;
        used.reduce_scatter = now.reduce_scatter - before[axis].reduce_scatter;
        used.point_to_point = now.point_to_point - before[axis].point_to_point;
        Operations& sum = training.on_axis[rank][axis];
        sum.engine += now.calls - before[axis].calls;
        sum.libkeel += engine.operations(axis) - operations[axis];
      }
      if (rank == 0) {
        training.losses.push_back(result.loss);
        training.norms.push_back(result.gradient_norm);
      }
      if (step == 0) collect(engine.download_gradients(), training.gradients);
    }
    collect(engine.download_values(), training.values);
    if (mesh.size_of("tp") > 1) {
      training.calls[rank] = engine.traffic("tp").calls;
      training.operations[rank] = mesh.axis("tp").stats().operations;
    }
  });
  return training;
}

double deviation(const Tensors& got, const Tensors& expected, std::string* out_name) {
  double worst = got.size() == expected.size() ? 0 : 1e9;
  // The other tensors' size bounds rounding in a tensor whose gradient is 0 otherwise, such as a
  // key's bias.
  double largest = 0;
  for (const auto& [name, values] : expected) {
    for (const float value : values) largest = std::max(largest, std::fabs(double{value}));
  }
  for (const auto& [name, want] : expected) {
    const auto found = got.find(name);
    if (found == got.end() || found->second.size() != want.size()) {
      *out_name = name;
      return 1e9;
    }
    double scale = 1e-4 * largest, error = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double difference = std::fabs(double{found->second[i]} - double{want[i]});
      error = difference <= error ? error : difference;  // keeps NaN
      if (std::isnan(difference)) error = 1e9;
      scale = std::max(scale, std::fabs(double{want[i]}));
    }
    if (error / scale > worst) {
      worst = error / scale;
      *out_name = name;
    }
  }
  return worst;
}

bool same_bits(const Tensors& a, const Tensors& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const auto& entry) {
           const auto found = b.find(entry.first);
           return found != b.end() && found->second.size() == entry.second.size() &&
                  std::memcmp(found->second.data(), entry.second.data(),
                              entry.second.size() * sizeof(float)) == 0;
         });
}

}  // namespace keel::parallel::testing
