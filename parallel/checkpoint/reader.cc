// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <keel/parallel/checkpoint.hpp>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/printable.h"
#include "base/strict_json.h"
#include "parallel/checkpoint/shard.h"
#include "tensorfile/safetensors.h"

namespace keel::parallel {
inline namespace v0 {
namespace {

namespace fs = std::filesystem;
using tensorfile::SafetensorsFile;

// Below this, a run is copied out of the piece, read as a whole: a read of its own takes longer.
constexpr uint64_t kShortRun = 4096;

[[noreturn]] void lose(const std::string& reason) {
  throw Error(KEEL_DATA_LOSS, "checkpoint " + keel::printable(reason));
}

}  // namespace

struct Checkpoint::State {
  struct Part {
    const SafetensorsFile* file;
    const SafetensorsFile::Entry* entry;
    Box box;
  };

  void open_set();
  void open_shard(uint32_t rank, const SetIndex& index);
  void open_hugging_face();
  void add(const StoredPiece& piece, const SafetensorsFile& file);
  void check_cover() const;
  const SafetensorsFile& open_file(const std::string& name, const std::string& shard);

  fs::path folder;
  int64_t step = 0;
  CheckpointMetadata metadata;
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::vector<Part>> parts;  // by tensor
  std::vector<std::unique_ptr<SafetensorsFile>> files;
};

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const fs::path& Checkpoint::folder() const {
  return state_->folder;
}
int64_t Checkpoint::step() const {
  return state_->step;
}
const CheckpointMetadata& Checkpoint::metadata() const {
  return state_->metadata;
}
const std::map<std::string, Checkpoint::Tensor>& Checkpoint::tensors() const {
  return state_->tensors;
}

Checkpoint Checkpoint::open(const fs::path& path) {
  auto state = std::make_unique<State>();
  state->folder = path;
  std::error_code error;
  if (fs::exists(path / kLatest, error)) {
    std::string name = read_text(path / kLatest);
    if (!name.empty() && name.back() == '\n') name.pop_back();
    if (!name.starts_with("step-") || name.find('/') != std::string::npos) {
      lose((path / kLatest).string() + ": names no set");
    }
    state->folder = path / name;
    if (!fs::exists(state->folder / kIndex, error)) {
      lose(state->folder.string() + ": is missing, or has no " + kIndex);
    }
  }
  if (fs::exists(state->folder / kIndex, error)) {
    state->open_set();
  } else if (fs::exists(state->folder / kHuggingFaceIndex, error) ||
             fs::exists(state->folder / kHuggingFaceFile, error)) {
    state->open_hugging_face();
  } else {
    throw Error(KEEL_NOT_FOUND, keel::printable(path.string()) +
                                    ": no checkpoint: none of latest, index.json, "
                                    "model.safetensors, model.safetensors.index.json");
  }
  state->check_cover();
  return Checkpoint(std::move(state));
}

const SafetensorsFile& Checkpoint::State::open_file(const std::string& name,
                                                    const std::string& shard) {
  std::error_code error;
  if (!fs::exists(folder / name, error)) lose(folder.string() + ": " + shard + " is missing");
  try {
    files.push_back(std::make_unique<SafetensorsFile>(folder / name));
  } catch (const tensorfile::FileError& failure) {
    lose(folder.string() + ": " + shard + " is damaged: " + failure.what());
  }
  return *files.back();
}

void Checkpoint::State::open_set() {
  SetIndex index;
  try {
    index = SetIndex::parse(read_text(folder / kIndex));
  } catch (const std::runtime_error& error) {
    lose((folder / kIndex).string() + ": " + error.what());
  }
  step = index.step;
  metadata = index.metadata;
  for (uint32_t rank = 0; rank < index.bytes.size(); ++rank) open_shard(rank, index);
}

void Checkpoint::State::open_shard(uint32_t rank, const SetIndex& index) {
  const auto world = static_cast<uint32_t>(index.bytes.size());
  const std::string name = shard_name(rank, world);
  const std::string shard =
      "shard " + std::to_string(rank) + " of " + std::to_string(world) + " (" + name + ")";
  std::error_code error;
  const uint64_t size = fs::file_size(folder / name, error);
  if (!error && size < index.bytes[rank]) {
    lose(folder.string() + ": " + shard + " is truncated: " + std::to_string(size) + " of " +
         std::to_string(index.bytes[rank]) + " bytes");
  }
  const SafetensorsFile& file = open_file(name, shard);
  const auto value = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string("none") : found->second;
  };
  if (value("keel.set") != index.set) {
    lose(folder.string() + ": " + shard + " is of the set " + value("keel.set") + ", not " +
         index.set);
  }
  if (value("keel.rank") != std::to_string(rank) || value("keel.world") != std::to_string(world)) {
    lose(folder.string() + ": " + shard + " was written by rank " + value("keel.rank") + " of " +
         value("keel.world"));
  }
  try {
    for (const StoredPiece& piece : parse_pieces(value(kPieces))) add(piece, file);
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& failure) {
    lose(folder.string() + ": " + shard + " is damaged: " + failure.what());
  }
}

void Checkpoint::State::open_hugging_face() {
  std::map<std::string, std::vector<std::string>> names;  // tensors, by file
  std::error_code error;
  if (!fs::exists(folder / kHuggingFaceIndex, error)) {
    const SafetensorsFile& file = open_file(kHuggingFaceFile, kHuggingFaceFile);
    for (const auto& [name, tensor] : file.tensors()) {
      add({name, name, tensor.shape, {std::vector<int64_t>(tensor.shape.size(), 0), tensor.shape}},
          file);
    }
    return;
  }
  nlohmann::json index;
  std::string why;
  if (!keel::parse_json(read_text(folder / kHuggingFaceIndex), &index, &why)) {
    lose((folder / kHuggingFaceIndex).string() + ": " + why);
  }
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    lose((folder / kHuggingFaceIndex).string() + ": no weight_map");
  }
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos) {
      lose((folder / kHuggingFaceIndex).string() + ": the file of " + name + " is no name");
    }
    names[file.get<std::string>()].push_back(name);
  }
  for (const auto& [name, of_file] : names) {
    const SafetensorsFile& file = open_file(name, "shard " + name);
    for (const std::string& tensor : of_file) {
      const auto* const entry = file.find(tensor);
      if (entry == nullptr) lose(folder.string() + ": shard " + name + " lacks " + tensor);
      const std::vector<int64_t>& shape = entry->second.shape;
      add({tensor, tensor, shape, {std::vector<int64_t>(shape.size(), 0), shape}}, file);
    }
  }
}

void Checkpoint::State::add(const StoredPiece& piece, const SafetensorsFile& file) {
  const auto* const entry = file.find(piece.entry);
  if (entry == nullptr || entry->second.shape != piece.box.size) {
    lose(file.path().string() + ": has no piece " + piece.entry + " of " + piece.box.text());
  }
  const keel_dtype dtype = dtype_of_file(entry->second.dtype);
  if (dtype == KEEL_DTYPE_INVALID) return;  // such as BOOL, which no tensor of Keel's has
  const auto [known, is_new] = tensors.try_emplace(piece.tensor, Tensor{dtype, piece.shape});
  if (!is_new && (known->second.dtype != dtype || known->second.shape != piece.shape)) {
    lose(file.path().string() + ": another shape or dtype of " + piece.tensor +
         " than in the shards before");
  }
  parts[piece.tensor].push_back({&file, entry, piece.box});
}

void Checkpoint::State::check_cover() const {
  for (const auto& [name, tensor] : tensors) {
    const std::vector<Part>& pieces = parts.at(name);
    int64_t found = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      found += pieces[i].box.elements();
      for (size_t j = 0; j < i; ++j) {
        if (intersection(pieces[i].box, pieces[j].box).has_value()) {
          lose(folder.string() + ": pieces of tensor " + name + " overlap: " +
               pieces[j].box.text() + " in " + pieces[j].file->path().filename().string() + ", " +
               pieces[i].box.text() + " in " + pieces[i].file->path().filename().string());
        }
      }
    }
    const int64_t wanted =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
    if (found != wanted) {
      lose(folder.string() + ": tensor " + name + " has " + std::to_string(found) + " of " +
           std::to_string(wanted) + " elements");
    }
  }
}

void Checkpoint::read(const TensorPiece& piece, std::span<std::byte> bytes) const {
  const auto found = state_->tensors.find(piece.name);
  if (found == state_->tensors.end()) {
    throw Error(KEEL_NOT_FOUND, "checkpoint " + keel::printable(state_->folder.string()) +
                                    ": no tensor " + keel::printable(piece.name));
  }
  const Tensor& tensor = found->second;
  if (tensor.shape != piece.shape || tensor.dtype != piece.dtype) {
    throw Error(KEEL_INVALID_ARGUMENT,
                "checkpoint: tensor " + keel::printable(piece.name) + " is " +
                    file_dtype(tensor.dtype) + tensorfile::shape_text(tensor.shape) + ", not " +
                    file_dtype(piece.dtype) + tensorfile::shape_text(piece.shape));
  }
  const Box wanted = box_of(piece);
  const uint64_t element = size_of(piece.dtype);
  if (bytes.size() != static_cast<uint64_t>(wanted.elements()) * element) {
    throw Error(KEEL_INVALID_ARGUMENT, "checkpoint: " + std::to_string(bytes.size()) +
                                           " bytes for the box " + wanted.text() + " of " +
                                           keel::printable(piece.name));
  }
  try {
    for (const State::Part& part : state_->parts.at(piece.name)) {
      const std::optional<Box> common = intersection(part.box, wanted);
      if (!common.has_value()) continue;
      const auto run = static_cast<uint64_t>(run_length(part.box, wanted, *common)) * element;
      std::vector<std::byte> whole;
      if (run < kShortRun && common->elements() * element > run) {
        whole.resize(part.entry->second.size);
        part.file->read(*part.entry, 0, whole);
      }
      for_each_run(part.box, wanted, *common, [&](int64_t from, int64_t to, int64_t count) {
        const std::span<std::byte> target = bytes.subspan(static_cast<uint64_t>(to) * element,
                                                          static_cast<uint64_t>(count) * element);
        const uint64_t offset = static_cast<uint64_t>(from) * element;
        if (whole.empty()) {
          part.file->read(*part.entry, offset, target);
        } else {
          std::memcpy(target.data(), whole.data() + offset, target.size());
        }
      });
    }
  } catch (const tensorfile::FileError& error) {
    lose(error.what());
  }
}

void Checkpoint::load(const TensorPiece& piece, Stream& stream) const {
  const auto size = static_cast<uint64_t>(box_of(piece).elements()) * size_of(piece.dtype);
  std::vector<std::byte> bytes(size);
  read(piece, bytes);
  if (size == 0) return;
  stream.copy(stream.device(), piece.data, Device(), bytes.data(), size);
  stream.synchronize();
}

}  // namespace v0
}  // namespace keel::parallel
