// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <keel/parallel/checkpoint.hpp>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "base/printable.h"
#include "parallel/checkpoint/shard.h"
#include "tensorfile/replacement.h"
#include "tensorfile/safetensors.h"

namespace keel::parallel {
inline namespace v0 {
namespace {

namespace fs = std::filesystem;

// What a rank tells the others.
struct Report {
  uint64_t bytes = 0;  // of its file
  uint64_t set = 0;    // number of the set, chosen by rank 0
  uint32_t failed = 0;
  uint32_t unused = 0;
};

std::string hexadecimal(uint64_t number) {
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(number));
  return text.data();
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(KEEL_UNAVAILABLE, keel::printable(folder.string()) + ": " + error.message());
  }
}

uint64_t alignment(uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

}  // namespace

struct CheckpointWriter::State {
  State(fs::path given, Communicator& world, Device device, CheckpointOptions chosen)
      : root(std::move(given)),
        options(std::move(chosen)),
        lane(world.duplicate()),
        stream(device),
        rank(lane.rank()),
        ranks(lane.world()) {}

  // All ranks' reports, by rank; waits for all ranks.
  std::vector<Report> exchange(const Report& own);
  // Runs on the writer's thread.
  void run();
  void write_set();
  void write_shard(const fs::path& folder, const std::string& set);
  void commit(const std::string& set, const std::vector<Report>& reports);
  void remove_old(const std::string& newest);
  void observe(const char* phase) const {
    if (options.observer) options.observer(phase);
  }

  const fs::path root;
  const CheckpointOptions options;
  Communicator lane;  // for the writer's thread alone: a step's collectives never wait for it
  Stream stream;
  const uint32_t rank, ranks;
  uint64_t next_set = 0;  // rank 0's

  // The save in progress.
  int64_t step = 0;
  CheckpointMetadata metadata;
  std::vector<StoredPiece> pieces;
  std::vector<std::string> dtypes;
  std::vector<uint64_t> offsets, sizes;  // in |snapshot|
  Buffer snapshot;                       // pinned; kept for the next save
  Event copied;
  std::exception_ptr failure;
  std::atomic<bool> done{true};
  std::thread thread;
};

CheckpointWriter::CheckpointWriter(fs::path root, Communicator& world, Device device,
                                   CheckpointOptions options)
    : state_(std::make_unique<State>(std::move(root), world, device, std::move(options))) {
  make_folder(state_->root);
  state_->lane.set_timeout(state_->options.timeout);
  std::random_device random;
  state_->next_set = uint64_t{random()} << 32 | random();
}

CheckpointWriter::~CheckpointWriter() {
  if (state_->thread.joinable()) state_->thread.join();
}

bool CheckpointWriter::is_done() const {
  return state_->done.load();
}

void CheckpointWriter::wait() {
  if (state_->thread.joinable()) state_->thread.join();
  if (state_->failure != nullptr) std::rethrow_exception(std::exchange(state_->failure, nullptr));
}

void CheckpointWriter::save(int64_t step, std::span<const TensorPiece> pieces,
                            const CheckpointMetadata& metadata, Stream& stream) {
  wait();
  State& state = *state_;
  state.step = step;
  state.metadata = metadata;
  state.pieces.clear();
  state.dtypes.clear();
  state.offsets.clear();
  state.sizes.clear();
  uint64_t total = 0;
  for (const TensorPiece& piece : pieces) {
    Box box = box_of(piece);
    const uint64_t bytes = static_cast<uint64_t>(box.elements()) * size_of(piece.dtype);
    state.dtypes.emplace_back(file_dtype(piece.dtype));
    state.offsets.push_back(total);
    state.sizes.push_back(bytes);
    total += alignment(bytes);
    // A rank may hold several boxes of one tensor.
    const bool is_whole = box.size == piece.shape;
    const std::string entry = is_whole ? piece.name : piece.name + "@" + box.text();
    state.pieces.push_back({piece.name, entry, piece.shape, std::move(box)});
  }
  if (state.snapshot.size() < total) {
    state.snapshot = Buffer(stream.device(), KEEL_MEMORY_PINNED, total);
  }
  auto* const host = static_cast<std::byte*>(state.snapshot.data());
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (state.sizes[i] == 0) continue;
    stream.copy(Device(), host + state.offsets[i], stream.device(), pieces[i].data, state.sizes[i]);
  }
  state.copied.record(stream);
  state.done.store(false);
  state.thread = std::thread([&state] { state.run(); });
}

void CheckpointWriter::State::run() {
  try {
    write_set();
  } catch (...) {
    failure = std::current_exception();
  }
  done.store(true);
}

std::vector<Report> CheckpointWriter::State::exchange(const Report& own) {
  std::vector<Report> all(ranks);
  const Device device = stream.device();
  const Buffer send(device, KEEL_MEMORY_DEVICE, sizeof(Report));
  const Buffer receive(device, KEEL_MEMORY_DEVICE, sizeof(Report) * ranks);
  stream.copy(device, send.data(), Device(), &own, sizeof(own));
  lane.all_gather(send.data(), receive.data(), sizeof(Report), KEEL_UINT8, stream);
  stream.copy(Device(), all.data(), device, receive.data(), receive.size());
  stream.synchronize(options.timeout);
  return all;
}

void CheckpointWriter::State::write_set() {
  Report own;
  own.set = next_set++;
  const std::string set = hexadecimal(exchange(own).front().set);
  const fs::path folder = root / folder_name(step, set);
  std::exception_ptr trouble;
  try {
    observe("snapshot");
    copied.wait(options.timeout);
    make_folder(folder);
    observe("shard");
    write_shard(folder, set);
    std::error_code error;
    own.bytes = fs::file_size(folder / shard_name(rank, ranks), error);
  } catch (...) {
    trouble = std::current_exception();
    own.failed = 1;
  }
  const std::vector<Report> reports = exchange(own);
  const auto failed = std::find_if(reports.begin(), reports.end(),
                                   [](const Report& report) { return report.failed != 0; });
  if (failed != reports.end()) {
    std::error_code ignored;
    if (rank == 0) fs::remove_all(folder, ignored);
    if (trouble != nullptr) std::rethrow_exception(trouble);
    throw Error(KEEL_UNAVAILABLE, "checkpoint of step " + std::to_string(step) + ": rank " +
                                      std::to_string(failed - reports.begin()) +
                                      " could not write its file");
  }
  Report committed;
  if (rank == 0) {
    try {
      commit(set, reports);
    } catch (...) {
      trouble = std::current_exception();
      committed.failed = 1;
    }
  }
  const bool has_failed = exchange(committed).front().failed != 0;
  if (trouble != nullptr) std::rethrow_exception(trouble);
  if (has_failed) {
    throw Error(KEEL_UNAVAILABLE, "checkpoint of step " + std::to_string(step) +
                                      ": rank 0 could not complete the set");
  }
  observe("done");
}

void CheckpointWriter::State::write_shard(const fs::path& folder, const std::string& set) {
  const auto* const host = static_cast<const std::byte*>(snapshot.data());
  std::vector<tensorfile::TensorSource> sources;
  for (size_t i = 0; i < pieces.size(); ++i) {
    sources.push_back({pieces[i].entry, dtypes[i], pieces[i].box.size,
                       std::span(host == nullptr ? nullptr : host + offsets[i], sizes[i])});
  }
  tensorfile::Metadata entries = {{"keel.set", set},
                                  {"keel.rank", std::to_string(rank)},
                                  {"keel.world", std::to_string(ranks)},
                                  {kPieces, pieces_text(pieces)}};
  try {
    tensorfile::write_safetensors(folder / shard_name(rank, ranks), sources, entries);
  } catch (const tensorfile::FileError& error) {
    throw Error(KEEL_UNAVAILABLE, "checkpoint, rank " + std::to_string(rank) + ": " + error.what());
  }
}

void CheckpointWriter::State::commit(const std::string& set, const std::vector<Report>& reports) {
  SetIndex index;
  index.set = set;
  index.step = step;
  index.metadata = metadata;
  for (const Report& report : reports) index.bytes.push_back(report.bytes);
  const std::string name = folder_name(step, set);
  try {
    observe("index");
    tensorfile::replace_file(root / name / kIndex, index.text());
    flush_folder(root / name);
    flush_folder(root);
    observe("latest");
    tensorfile::replace_file(root / kLatest, name + "\n");
    flush_folder(root);
  } catch (const tensorfile::FileError& error) {
    throw Error(KEEL_UNAVAILABLE, std::string("checkpoint: ") + error.what());
  }
  remove_old(name);
}

// Removes complete sets beyond the number to keep, oldest first, and what killed writers left.
void CheckpointWriter::State::remove_old(const std::string& newest) {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> complete;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code failed;
    if (!name.starts_with("step-") || !entry->is_directory(failed) || name == newest) continue;
    const auto written = fs::last_write_time(entry->path() / kIndex, failed);
    if (failed) {
      fs::remove_all(entry->path(), failed);
    } else {
      complete.emplace_back(written, entry->path());
    }
  }
  std::sort(complete.begin(), complete.end());
  const size_t kept = static_cast<size_t>(std::max(options.keep, 1)) - 1;
  for (size_t i = 0; i + kept < complete.size(); ++i) fs::remove_all(complete[i].second, error);
}

}  // namespace v0
}  // namespace keel::parallel
