// SPDX-License-Identifier: Apache-2.0
#include "bench/parallel_job.h"

#include <barrier>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace keel::bench {

using Clock = std::chrono::steady_clock;

std::vector<Device> load_chips(const std::map<std::string, std::string>& settings) {
  std::string path;
  for (const keel_backend_info& backend : backends()) {
    if (std::string_view(backend.name) == "sim") path = backend.path;
  }
  if (path.empty()) throw Error(KEEL_NOT_FOUND, "the emulated chip's plugin is not loaded");
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : settings) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  keel_instance_settings instance =
      KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  instance.count = static_cast<uint32_t>(keys.size());
  instance.keys = keys.data();
  instance.values = values.data();
  uint32_t index = 0;
  check(keel_plugin_load(path.c_str(), &instance, nullptr, &index));
  const keel_backend_info backend = backends().at(index);
  std::vector<Device> devices;
  for (uint32_t i = 0; i < backend.device_count; ++i) {
    devices.push_back(Device::find(std::string(backend.name) + ":" + std::to_string(i)));
  }
  return devices;
}

struct ParallelJob::Rank {
  Device device;
  uint32_t number = 0;
  std::thread thread;
};

struct ParallelJob::Shared {
  explicit Shared(std::ptrdiff_t ranks) : start(ranks + 1), end(ranks + 1) {}

  keel_unique_id id = make_unique_id();
  std::vector<Rank> ranks;
  std::barrier<> start, end;  // of a command
  Command command = Command::kStep;
  std::vector<parallel::CheckpointWriter*> writers;
  std::mutex mutex;
  std::exception_ptr failure;
};

ParallelJob::ParallelJob(std::vector<Device> devices, std::string mesh, parallel::Settings settings,
                         std::string schedule, std::filesystem::path folder)
    : mesh_(std::move(mesh)),
      settings_(std::move(settings)),
      schedule_(std::move(schedule)),
      folder_(std::move(folder)),
      shared_(std::make_unique<Shared>(static_cast<std::ptrdiff_t>(devices.size()))) {
  settings_.check_gradients = false;
  shared_->writers.resize(devices.size());
  shared_->ranks.resize(devices.size());
  for (size_t i = 0; i < devices.size(); ++i) {
    Rank& rank = shared_->ranks[i];
    rank.device = devices[i];
    rank.number = static_cast<uint32_t>(i);
    rank.thread = std::thread([this, &rank] { run_rank(rank); });
  }
  shared_->end.arrive_and_wait();
  if (!shared_->failure) return;
  const std::exception_ptr failure = shared_->failure;
  shared_->command = Command::kStop;
  shared_->start.arrive_and_wait();
  for (Rank& rank : shared_->ranks) rank.thread.join();
  shared_->ranks.clear();
  std::rethrow_exception(failure);
}

ParallelJob::~ParallelJob() {
  if (shared_->ranks.empty()) return;
  shared_->command = Command::kStop;
  shared_->start.arrive_and_wait();
  for (Rank& rank : shared_->ranks) rank.thread.join();
}

void ParallelJob::run_rank(Rank& rank) {
  const auto size = static_cast<size_t>(tokens());
  const std::vector<int32_t> batch(size, 1);
  std::optional<parallel::Mesh> mesh;
  std::optional<parallel::Engine> engine;
  std::optional<parallel::CheckpointWriter> writer;
  const auto attempt = [&](const auto& action) {
    try {
      action();
    } catch (...) {
      if (mesh) mesh->abort();
      const std::lock_guard lock(shared_->mutex);
      if (!shared_->failure) shared_->failure = std::current_exception();
    }
  };
  attempt([&] {
    mesh.emplace(Communicator::join(rank.device, shared_->id, rank.number,
                                    static_cast<uint32_t>(shared_->ranks.size())),
                 rank.device, parallel::MeshShape::parse(mesh_));
    engine.emplace(*mesh, settings_,
                   schedule_.empty() ? nullptr : parallel::pipelined(schedule_, *mesh, settings_));
    if (folder_.empty()) return;
    writer.emplace(folder_, mesh->world(), rank.device);
    shared_->writers[rank.number] = &*writer;
  });
  shared_->end.arrive_and_wait();
  while (true) {
    shared_->start.arrive_and_wait();
    const Command command = shared_->command;
    if (command == Command::kStop) return;
    attempt([&] {
      if (!engine) return;
      if (command == Command::kSave) {
        writer->save(engine->steps(), checkpoint_pieces(*engine), {}, engine->stream());
      }
      if (command == Command::kWait) {
        writer->wait();
        return;
      }
      try {
        engine->step(batch, batch, /*rate=*/1e-4);
      } catch (const Error& error) {
        if (error.status() != KEEL_DATA_LOSS) throw;
      }
    });
    shared_->end.arrive_and_wait();
  }
}

double ParallelJob::command(Command command) {
  shared_->command = command;
  const Clock::time_point begin = Clock::now();
  shared_->start.arrive_and_wait();
  shared_->end.arrive_and_wait();
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  if (shared_->failure) std::rethrow_exception(shared_->failure);
  return seconds.count();
}

double ParallelJob::step() {
  return command(Command::kStep);
}

double ParallelJob::step_behind_save() {
  return command(Command::kSave);
}

bool ParallelJob::is_saving() const {
  for (const parallel::CheckpointWriter* writer : shared_->writers) {
    if (writer != nullptr && !writer->is_done()) return true;
  }
  return false;
}

void ParallelJob::wait_for_save() {
  command(Command::kWait);
}

}  // namespace keel::bench
