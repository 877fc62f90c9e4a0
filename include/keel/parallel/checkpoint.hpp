// SPDX-License-Identifier: Apache-2.0
// Checkpoints: sets of safetensors files, one a rank, written while the training goes on and read
// back by any other number of ranks.
//
//   CheckpointWriter writer("checkpoints", mesh.world(), device);
//   writer.save(step, pieces, {{"loader", loader.state().text()}}, stream);   // returns at once
//   ...
//   Checkpoint checkpoint = Checkpoint::open("checkpoints");
//   for (const TensorPiece& piece : pieces_of_another_mesh) checkpoint.load(piece, stream);
//
// A set is a folder, step-00000120-SET, with a file rank-00003-of-00008.safetensors for each rank
// and index.json. The file `latest` beside the folders names the set to open. A set is complete or
// absent: `latest` changes when all ranks' files are on the disk. docs/checkpoints.md has the
// format.
#ifndef KEEL_PARALLEL_CHECKPOINT_HPP_
#define KEEL_PARALLEL_CHECKPOINT_HPP_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <keel/keel.hpp>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace keel::parallel {
inline namespace v0 {

// A box of a tensor, dense and row-major on a device: what one rank holds of the tensor.
struct TensorPiece {
  std::string name;
  keel_dtype dtype = KEEL_FLOAT32;
  std::vector<int64_t> shape;  // of the whole tensor
  std::vector<int64_t> begin;  // first index on each axis; empty: 0
  std::vector<int64_t> size;   // indexes on each axis; empty: all
  void* data = nullptr;
};

using CheckpointMetadata = std::map<std::string, std::string>;

struct CheckpointOptions {
  int keep = 2;  // complete sets; older ones are removed after a save
  // A rank that waits longer for another rank's file fails, and the old set stays.
  std::chrono::seconds timeout{600};
  // For tests: called on the writer's thread before each phase: "snapshot" (the copies to the host
  // are enqueued), "shard", "index", "latest", "done".
  std::function<void(const char* phase)> observer;
};

// Writes one rank's part of checkpoints. Not thread-safe. A failure leaves the last complete set.
class CheckpointWriter {
 public:
  // Creates |root| if absent. |world|: duplicated; every rank constructs with the same |root|, on a
  // file system that all share. Waits for all ranks.
  CheckpointWriter(std::filesystem::path root, Communicator& world, Device device,
                   CheckpointOptions options = {});
  // Waits for the save in progress; swallows its failure.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Every rank calls with the same |step| and |metadata|; each element of a tensor belongs to one
  // piece of one rank. Enqueues copies of |pieces| to pinned host memory on |stream|: work enqueued
  // behind may change the tensors. A thread then writes; save() waits for the save before and
  // throws its failure. Throws Error(KEEL_INVALID_ARGUMENT) for a piece that is not inside its
  // tensor.
  void save(int64_t step, std::span<const TensorPiece> pieces, const CheckpointMetadata& metadata,
            Stream& stream);
  // Whether no save is in progress.
  bool is_done() const;
  // Waits until all ranks have finished the save in progress; throws its failure, with the rank
  // that could not write. Does nothing without a save.
  void wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A complete set, or a folder of Hugging Face. Immutable; threads may read concurrently.
class Checkpoint {
 public:
  struct Tensor {
    keel_dtype dtype = KEEL_FLOAT32;
    std::vector<int64_t> shape;
  };

  // Opens a set, the set that `latest` in |path| names, or a folder with model.safetensors or
  // model.safetensors.index.json. Throws Error: KEEL_NOT_FOUND without any of these;
  // KEEL_DATA_LOSS, naming the shard, where one is missing, truncated, damaged or of another set,
  // or, naming the tensor, where pieces overlap or leave out elements.
  static Checkpoint open(const std::filesystem::path& path);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::filesystem::path& folder() const;
  int64_t step() const;  // 0 for a folder of Hugging Face
  const CheckpointMetadata& metadata() const;
  const std::map<std::string, Tensor>& tensors() const;

  // Reads the box of |piece| into |bytes|, whatever boxes the ranks have written. Throws Error:
  // KEEL_NOT_FOUND for an unknown tensor; KEEL_INVALID_ARGUMENT for another shape or dtype, or a
  // wrong number of bytes; KEEL_DATA_LOSS for a failed read.
  void read(const TensorPiece& piece, std::span<std::byte> bytes) const;
  // Reads the box and copies it to |piece|.data, on |stream|'s device; waits.
  void load(const TensorPiece& piece, Stream& stream) const;

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Writes |checkpoint| in the layout of Hugging Face: whole tensors in files
// model-00001-of-00003.safetensors of |file_bytes| at most, or one tensor, and
// model.safetensors.index.json, last. |rename|: the name in the files; an empty one leaves the
// tensor out; NULL: names stay. Throws Error(KEEL_DATA_LOSS) for files that cannot be written.
void export_hugging_face(const Checkpoint& checkpoint, const std::filesystem::path& folder,
                         const std::function<std::string(const std::string& name)>& rename = {},
                         uint64_t file_bytes = uint64_t{5} << 30);

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_CHECKPOINT_HPP_
