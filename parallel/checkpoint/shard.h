// SPDX-License-Identifier: Apache-2.0
// Names and contents of the files of a checkpoint.
#ifndef KEEL_PARALLEL_CHECKPOINT_SHARD_H_
#define KEEL_PARALLEL_CHECKPOINT_SHARD_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <keel/parallel/checkpoint.hpp>
#include <string>
#include <vector>

#include "parallel/checkpoint/box.h"

namespace keel::parallel {
inline namespace v0 {

inline constexpr const char* kLatest = "latest";
inline constexpr const char* kIndex = "index.json";
inline constexpr const char* kHuggingFaceIndex = "model.safetensors.index.json";
inline constexpr const char* kHuggingFaceFile = "model.safetensors";
// Key of a shard's pieces in the file's metadata.
inline constexpr const char* kPieces = "keel.pieces";

std::string folder_name(int64_t step, const std::string& set);  // "step-00000120-SET"
std::string shard_name(uint32_t rank, uint32_t world);          // "rank-00003-of-00008.safetensors"

// "F32"; throws Error(KEEL_INVALID_ARGUMENT) for a dtype that the format lacks.
const char* file_dtype(keel_dtype dtype);
// KEEL_DTYPE_INVALID for a name that Keel does not know.
keel_dtype dtype_of_file(const std::string& name);
uint64_t size_of(keel_dtype dtype);  // bytes of an element

// The box of |piece|; throws Error(KEEL_INVALID_ARGUMENT) for a box that is not inside the tensor.
Box box_of(const TensorPiece& piece);

// A piece of a tensor in a file.
struct StoredPiece {
  std::string tensor;
  std::string entry;  // its name in the file
  std::vector<int64_t> shape;
  Box box;
};
// The metadata text that describes the pieces of a shard, and back. parse_pieces throws a
// runtime_error that says what is wrong.
std::string pieces_text(const std::vector<StoredPiece>& pieces);
std::vector<StoredPiece> parse_pieces(const std::string& text);

struct SetIndex {
  std::string set;
  int64_t step = 0;
  CheckpointMetadata metadata;
  std::vector<uint64_t> bytes;  // of each rank's file

  std::string text() const;
  // Throws a runtime_error that says what is wrong.
  static SetIndex parse(const std::string& text);
};

// Reads a small file. Throws Error: KEEL_NOT_FOUND if absent, KEEL_DATA_LOSS above 64 MiB or on a
// failed read.
std::string read_text(const std::filesystem::path& path);
// Flushes a folder's entries to the disk. Throws Error(KEEL_DATA_LOSS).
void flush_folder(const std::filesystem::path& folder);

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_CHECKPOINT_SHARD_H_
