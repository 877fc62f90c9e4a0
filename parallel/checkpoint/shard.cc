// SPDX-License-Identifier: Apache-2.0
#include "parallel/checkpoint/shard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/json_value.h"
#include "base/printable.h"
#include "base/strict_json.h"

namespace keel::parallel {
inline namespace v0 {
namespace {

using nlohmann::json;

struct DtypeRow {
  keel_dtype dtype;
  const char* name;
  uint64_t size;
};
constexpr std::array<DtypeRow, 14> kDtypes = {{{KEEL_INT8, "I8", 1},
                                               {KEEL_INT16, "I16", 2},
                                               {KEEL_INT32, "I32", 4},
                                               {KEEL_INT64, "I64", 8},
                                               {KEEL_UINT8, "U8", 1},
                                               {KEEL_UINT16, "U16", 2},
                                               {KEEL_UINT32, "U32", 4},
                                               {KEEL_UINT64, "U64", 8},
                                               {KEEL_FLOAT16, "F16", 2},
                                               {KEEL_BFLOAT16, "BF16", 2},
                                               {KEEL_FLOAT32, "F32", 4},
                                               {KEEL_FLOAT64, "F64", 8},
                                               {KEEL_FLOAT8_E4M3FN, "F8_E4M3", 1},
                                               {KEEL_FLOAT8_E5M2, "F8_E5M2", 1}}};

const DtypeRow& row_of(keel_dtype dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.dtype == dtype) return row;
  }
  throw Error(KEEL_INVALID_ARGUMENT,
              "checkpoint: dtype " + std::to_string(dtype) + " has no name in safetensors");
}

std::vector<int64_t> numbers(const JsonValue& value) {
  std::vector<int64_t> read;
  for (const JsonValue& element : value.elements()) read.push_back(element.count<int64_t>());
  return read;
}

json parse(const std::string& text) {
  json parsed;
  std::string error;
  if (!keel::parse_json(text, &parsed, &error)) throw std::runtime_error(error);
  return parsed;
}

}  // namespace

std::string folder_name(int64_t step, const std::string& set) {
  std::array<char, 48> name{};
  std::snprintf(name.data(), name.size(), "step-%08lld-", static_cast<long long>(step));
  return name.data() + set;
}

std::string shard_name(uint32_t rank, uint32_t world) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "rank-%05u-of-%05u.safetensors", rank, world);
  return name.data();
}

const char* file_dtype(keel_dtype dtype) {
  return row_of(dtype).name;
}

keel_dtype dtype_of_file(const std::string& name) {
  for (const DtypeRow& row : kDtypes) {
    if (name == row.name) return row.dtype;
  }
  return KEEL_DTYPE_INVALID;
}

uint64_t size_of(keel_dtype dtype) {
  return row_of(dtype).size;
}

Box box_of(const TensorPiece& piece) {
  Box box = {piece.begin, piece.size};
  if (box.begin.empty()) box.begin.assign(piece.shape.size(), 0);
  if (box.size.empty()) box.size = piece.shape;
  if (!box.is_inside(piece.shape)) {
    throw Error(KEEL_INVALID_ARGUMENT,
                "checkpoint: tensor " + piece.name + ": the box " + box.text() + " is not inside " +
                    Box{std::vector<int64_t>(piece.shape.size(), 0), piece.shape}.text());
  }
  return box;
}

std::string pieces_text(const std::vector<StoredPiece>& pieces) {
  json all = json::array();
  for (const StoredPiece& piece : pieces) {
    all.push_back({{"tensor", piece.tensor},
                   {"entry", piece.entry},
                   {"shape", piece.shape},
                   {"begin", piece.box.begin},
                   {"size", piece.box.size}});
  }
  return all.dump();
}

std::vector<StoredPiece> parse_pieces(const std::string& text) {
  const json parsed = parse(text);
  std::vector<StoredPiece> pieces;
  for (const JsonValue& value : JsonValue(parsed).elements()) {
    StoredPiece piece;
    piece.tensor = value.at("tensor").text();
    piece.entry = value.at("entry").text();
    piece.shape = numbers(value.at("shape"));
    piece.box = {numbers(value.at("begin")), numbers(value.at("size"))};
    if (!piece.box.is_inside(piece.shape)) {
      throw std::runtime_error("a piece of " + keel::printable(piece.tensor) +
                               " is not inside the tensor");
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::string SetIndex::text() const {
  const nlohmann::ordered_json whole = {
      {"format", "keel.checkpoint"}, {"version", 1}, {"set", set}, {"step", step}, {"bytes", bytes},
      {"metadata", metadata}};
  return whole.dump(1) + "\n";
}

SetIndex SetIndex::parse(const std::string& text) {
  const json parsed = parallel::parse(text);
  const JsonValue value(parsed);
  if (value.at("format").text() != "keel.checkpoint") {
    throw std::runtime_error("format is not keel.checkpoint");
  }
  if (value.at("version").integer() != 1) throw std::runtime_error("version is not 1");
  SetIndex index;
  index.set = value.at("set").text();
  index.step = value.at("step").integer();
  for (const JsonValue& bytes : value.at("bytes").elements()) {
    index.bytes.push_back(bytes.count<uint64_t>());
  }
  if (!parsed["metadata"].is_object()) throw std::runtime_error("metadata is no object");
  for (const auto& [key, entry] : parsed["metadata"].items()) {
    index.metadata[key] = JsonValue(entry).text();
  }
  return index;
}

std::string read_text(const std::filesystem::path& path) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  const std::string name = keel::printable(path.string());
  if (error) throw Error(KEEL_NOT_FOUND, name + ": " + error.message());
  if (size > uint64_t{64} << 20) throw Error(KEEL_DATA_LOSS, name + ": above 64 MiB");
  std::string text(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    throw Error(KEEL_DATA_LOSS, name + ": cannot be read");
  }
  return text;
}

void flush_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool is_flushed = descriptor >= 0 && fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  // Some file systems cannot flush a folder, and lose nothing by that.
  if (is_flushed || error == EINVAL || error == ENOTSUP) return;
  throw Error(KEEL_DATA_LOSS, keel::printable(folder.string()) + ": " + std::strerror(error));
}

}  // namespace v0
}  // namespace keel::parallel
