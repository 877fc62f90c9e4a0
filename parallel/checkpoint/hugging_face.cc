// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <keel/parallel/checkpoint.hpp>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "parallel/checkpoint/shard.h"
#include "tensorfile/replacement.h"
#include "tensorfile/safetensors.h"

namespace keel::parallel {
inline namespace v0 {
namespace {

struct Exported {
  std::string name;  // in the checkpoint
  std::string as;    // in the files
  uint64_t bytes;
};

std::string file_name(size_t number, size_t count) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", number + 1, count);
  return name.data();
}

void write_file(const Checkpoint& checkpoint, const std::filesystem::path& path,
                const std::vector<Exported>& tensors) {
  std::vector<std::vector<std::byte>> data;
  std::vector<tensorfile::TensorSource> sources;
  data.reserve(tensors.size());
  for (const Exported& exported : tensors) {
    const Checkpoint::Tensor& tensor = checkpoint.tensors().at(exported.name);
    data.emplace_back(exported.bytes);
    TensorPiece whole;
    whole.name = exported.name;
    whole.dtype = tensor.dtype;
    whole.shape = tensor.shape;
    checkpoint.read(whole, data.back());
    sources.push_back({exported.as, file_dtype(tensor.dtype), tensor.shape, data.back()});
  }
  // transformers wants to know whose tensors they are.
  tensorfile::write_safetensors(path, sources, {{"format", "pt"}});
}

}  // namespace

void export_hugging_face(const Checkpoint& checkpoint, const std::filesystem::path& folder,
                         const std::function<std::string(const std::string& name)>& rename,
                         uint64_t file_bytes) {
  std::vector<std::vector<Exported>> files;
  uint64_t used = 0;
  uint64_t total = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    uint64_t bytes = size_of(tensor.dtype);
    for (const int64_t axis : tensor.shape) bytes *= static_cast<uint64_t>(axis);
    std::string as = rename ? rename(name) : name;
    if (as.empty()) continue;
    if (files.empty() || used + bytes > file_bytes) {
      files.emplace_back();
      used = 0;
    }
    used += bytes;
    total += bytes;
    files.back().push_back({name, std::move(as), bytes});
  }
  nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}},
                                  {"weight_map", nlohmann::ordered_json::object()}};
  try {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    for (size_t number = 0; number < files.size(); ++number) {
      const std::string name = file_name(number, files.size());
      write_file(checkpoint, folder / name, files[number]);
      for (const Exported& exported : files[number]) index["weight_map"][exported.as] = name;
    }
    tensorfile::replace_file(folder / kHuggingFaceIndex, index.dump(2) + "\n");
  } catch (const tensorfile::FileError& error) {
    throw Error(KEEL_DATA_LOSS, std::string("export: ") + error.what());
  }
}

}  // namespace v0
}  // namespace keel::parallel
