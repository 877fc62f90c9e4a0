// SPDX-License-Identifier: Apache-2.0
#include "base/strict_json.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/printable.h"

namespace keel {
namespace {

constexpr size_t kQuoted = 60;  // bytes of a file's text in a message
constexpr size_t kPlace = 200;  // bytes of a chain of keys in a message

std::string shortened(std::string_view text, size_t most) {
  return printable(text.substr(0, most)) + (text.size() > most ? "..." : "");
}

// "line 3, column 7" for the byte at |offset|.
std::string place_of(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t last_line = before.rfind('\n') + 1;  // 0 in the first line
  return "line " + std::to_string(line) + ", column " +
         std::to_string(before.size() - last_line + 1);
}

// Builds the value from the parser's events. nlohmann's own builder keeps the last of two members
// of one key; the builder with a callback looks at all members again behind each member, which took
// 7 s for two headers of 20,000 tensors.
template <typename Json>
class Builder {
 public:
  using Object = typename Json::object_t;

  // |take|: of parse_json_members, or null.
  Builder(std::string_view text, int deepest, const TakeJsonMember* take)
      : text_(text), deepest_(deepest), take_(take) {}

  const std::string& error() const { return error_; }
  Json& root() { return root_; }

  // ---- nlohmann's SAX interface

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(typename Json::number_integer_t value) { return put(value); }
  bool number_unsigned(typename Json::number_unsigned_t value) { return put(value); }
  bool number_float(typename Json::number_float_t value, const std::string& /*text*/) {
    return put(value);
  }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(typename Json::binary_t& /*value*/) { return false; }  // no such thing in a text

  bool start_object(size_t /*size*/) { return open(Json::value_t::object); }
  bool start_array(size_t /*size*/) { return open(Json::value_t::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    Level& level = open_.back();
    auto& object = level.value->template get_ref<Object&>();
    if (take_ != nullptr && open_.size() == 1) {
      taken_key_ = std::move(name);
      level.key = &taken_key_;
      level.member = &taken_;
    } else if constexpr (std::is_same_v<Json, nlohmann::json>) {
      const auto [at, is_new] = object.try_emplace(std::move(name), nullptr);
      if (!is_new) return refuse_twice(at->first);
      level.key = &at->first;
      level.member = &at->second;
    } else {
      if (!level.keys.insert(name).second) return refuse_twice(name);
      // Uses the vector beneath: the map's own emplace() searches all keys.
      auto& member =
          static_cast<typename Object::Container&>(object).emplace_back(std::move(name), nullptr);
      level.key = &member.first;
      level.member = &member.second;
    }
    return true;
  }

  bool parse_error(size_t read, const std::string& token, const typename Json::exception& error) {
    constexpr int kNumberTooLarge = 406;  // nlohmann's out_of_range
    // |read| counts the end of the text as a byte.
    const std::string at =
        " at " + place_of(text_, std::min(std::max<size_t>(read, 1) - 1, text_.size()));
    const std::string near = "'" + shortened(token, kQuoted) + "'";
    if (error.id == kNumberTooLarge) {
      error_ = "the number " + near + " is too large," + at;
    } else if (is_whole_) {
      error_ = "more text is behind the end of the JSON value," + at;
    } else if (text_.find_first_not_of(" \t\r\n") == std::string_view::npos) {
      error_ = "it is empty";
    } else if (read > text_.size()) {
      error_ = "it ends too early," + at;
    } else {
      error_ = "it is not JSON" + at + ", near " + near;
    }
    return false;
  }

 private:
  // An array or object that has not ended.
  struct Level {
    Json* value;
    Json* member = nullptr;                     // of an object: target of the next value
    const std::string* key = nullptr;           // key of |member|
    std::unordered_set<std::string> keys = {};  // of an ordered object
  };

  template <typename Value>
  Json* place(Value&& value) {
    if (open_.empty()) {
      root_ = Json(std::forward<Value>(value));
      return &root_;
    }
    Level& level = open_.back();
    if (level.value->is_array()) {
      auto& array = level.value->template get_ref<typename Json::array_t&>();
      return &array.emplace_back(std::forward<Value>(value));
    }
    *level.member = Json(std::forward<Value>(value));
    return level.member;
  }

  template <typename Value>
  bool put(Value&& value) {
    place(std::forward<Value>(value));
    return end_value();
  }

  bool open(typename Json::value_t type) {
    Json* const value = place(type);
    if (static_cast<int>(open_.size()) == deepest_) {
      return refuse("it nests deeper than " + std::to_string(deepest_) + " levels" + where());
    }
    open_.push_back({value});
    return true;
  }

  bool close() {
    open_.pop_back();
    return end_value();
  }

  bool end_value() {
    is_whole_ = open_.empty();
    if constexpr (std::is_same_v<Json, nlohmann::json>) {
      if (take_ == nullptr || open_.size() != 1 || !root_.is_object()) return true;
      const JsonMember taken = (*take_)(taken_key_, taken_);
      taken_ = nullptr;
      if (taken == JsonMember::kTwice) return refuse_twice(taken_key_);
      return taken == JsonMember::kTaken;
    }
    return true;
  }

  bool refuse_twice(const std::string& name) {
    open_.back().key = nullptr;
    return refuse("the key '" + shortened(name, kQuoted) + "' is there twice" + where());
  }

  bool refuse(std::string error) {
    error_ = std::move(error);
    return false;
  }

  // " in results[3].target": the open arrays and objects, by their keys.
  std::string where() const {
    std::string path;
    for (const Level& level : open_) {
      if (level.value->is_array()) {
        path += "[" + std::to_string(level.value->size() - 1) + "]";
      } else if (level.key != nullptr) {
        path += (path.empty() ? "" : ".") + *level.key;
      }
    }
    return path.empty() ? "" : " in " + shortened(path, kPlace);
  }

  const std::string_view text_;
  const int deepest_;
  const TakeJsonMember* const take_;
  Json root_;
  std::string taken_key_;  // member of the root under construction, when members go to |take_|
  Json taken_;
  std::vector<Level> open_;
  bool is_whole_ = false;
  std::string error_;
};

// Names bytes of |text| that nlohmann's parser skips, or takes for the text's end; empty if there
// are none.
std::string find_skipped(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) return "it begins with a byte-order mark";
  const size_t nul = text.find('\0');
  if (nul == std::string_view::npos) return {};
  return "it has a NUL byte, at " + place_of(text, nul);
}

}  // namespace

template <typename Json>
bool parse_json(std::string_view text, Json* out_json, std::string* out_error,
                int deepest) noexcept {
  *out_json = nullptr;
  try {
    *out_error = find_skipped(text);
    if (!out_error->empty()) return false;
    Builder<Json> builder(text, deepest, /*take=*/nullptr);
    if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
      *out_error = builder.error();
      return false;
    }
    *out_json = std::move(builder.root());
    return true;
  } catch (const std::exception&) {  // the Builder throws nothing else
    *out_error = "out of memory";    // short: needs no allocation
    return false;
  }
}

bool parse_json_members(std::string_view text, const TakeJsonMember& take, std::string* out_error,
                        int deepest) {
  *out_error = find_skipped(text);
  if (!out_error->empty()) return false;
  Builder<nlohmann::json> builder(text, deepest, &take);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    *out_error = builder.error();
    return false;
  }
  if (!builder.root().is_object()) *out_error = "it is not a JSON object";
  return out_error->empty();
}

template bool parse_json(std::string_view, nlohmann::json*, std::string*, int) noexcept;
template bool parse_json(std::string_view, nlohmann::ordered_json*, std::string*, int) noexcept;

}  // namespace keel
