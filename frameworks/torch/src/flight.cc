// SPDX-License-Identifier: Apache-2.0
#include "flight.h"

#include <keel/keel.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

namespace keel_torch {

namespace {

// Reads JSON text once, from front to back, without a tree. Throws std::runtime_error where the
// text is none.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  // Calls each(key) for each member of an object; |each| reads or skips the value.
  template <typename Each>
  void object(const Each& each) {
    expect('{');
    for (bool is_first = true; !ends('}', is_first); is_first = false) {
      const std::string_view key = text();
      expect(':');
      each(key);
    }
  }

  // Calls each() for each element of an array; |each| reads or skips the element.
  template <typename Each>
  void array(const Each& each) {
    expect('[');
    for (bool is_first = true; !ends(']', is_first); is_first = false) each();
  }

  // A string as it stands in the text, escapes included.
  std::string_view text() {
    expect('"');
    const size_t begin = at_;
    while (next() != '"') {
      if (text_[at_ - 1] == '\\') next();
    }
    return text_.substr(begin, at_ - 1 - begin);
  }

  int64_t number() {
    const std::string_view word = this->word();
    int64_t value = 0;
    if (std::from_chars(word.data(), word.data() + word.size(), value).ec != std::errc()) fail();
    return value;
  }

  // A string, or "" for null.
  std::string_view text_or_null() {
    if (peek() == '"') return text();
    word();
    return {};
  }

  void skip() {
    switch (peek()) {
      case '{':
        return object([this](std::string_view) { skip(); });
      case '[':
        return array([this] { skip(); });
      case '"':
        text();
        return;
      default:
        word();
    }
  }

 private:
  [[noreturn]] static void fail() { throw std::runtime_error("no JSON"); }

  char next() {
    if (at_ == text_.size()) fail();
    return text_[at_++];
  }

  char peek() {
    at_ = text_.find_first_not_of(" \t\r\n", at_);
    if (at_ == std::string_view::npos) {
      at_ = text_.size();
      fail();
    }
    return text_[at_];
  }

  void expect(char character) {
    if (peek() != character) fail();
    ++at_;
  }

  // Whether |closing| follows, which is then read; otherwise reads the comma before the next one.
  bool ends(char closing, bool is_first) {
    if (peek() == closing) {
      ++at_;
      return true;
    }
    if (!is_first) expect(',');
    return false;
  }

  // A number, true, false or null.
  std::string_view word() {
    peek();
    const size_t end = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
    if (end == at_) fail();
    const std::string_view result = text_.substr(at_, end - at_);
    at_ = end;
    return result;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

struct Operation {
  uint64_t sequence = 0;
  std::string_view name;
  std::string_view state;
  std::string_view status;
  int64_t queued_ns = 0;
};

struct Rank {
  int64_t rank = -1;
  int64_t process = 0;
  std::vector<Operation> operations;
};

Operation read_operation(JsonReader& json) {
  Operation operation;
  json.object([&](std::string_view key) {
    if (key == "sequence") {
      operation.sequence = static_cast<uint64_t>(json.number());
    } else if (key == "operation") {
      operation.name = json.text();
    } else if (key == "state") {
      operation.state = json.text();
    } else if (key == "status") {
      operation.status = json.text_or_null();
    } else if (key == "queued_ns") {
      operation.queued_ns = json.number();
    } else {
      json.skip();
    }
  });
  return operation;
}

Rank read_rank(JsonReader& json) {
  Rank rank;
  json.object([&](std::string_view key) {
    if (key == "rank") {
      rank.rank = json.number();
    } else if (key == "pid") {
      rank.process = json.number();
    } else if (key == "operations") {
      json.array([&] { rank.operations.push_back(read_operation(json)); });
    } else {
      json.skip();
    }
  });
  return rank;
}

std::string describe(const Rank& rank) {
  const Operation* shown = nullptr;
  for (const Operation& operation : rank.operations) {
    shown = &operation;
    if (operation.state == "queued" || operation.state == "running") break;
  }
  if (shown == nullptr) return "no operation";
  return std::string(shown->name) + " #" + std::to_string(shown->sequence) + " " +
         std::string(shown->state);
}

// The text of keel_flight_read, or "".
std::string read_flights() {
  std::string text;
  uint64_t size = 0;
  keel_status status = keel_flight_read(nullptr, nullptr, &size);
  // Ranks that go on record more between two calls.
  for (int tries = 0; status == KEEL_OUT_OF_RANGE && tries < 4; ++tries) {
    size += size / 8;
    text.resize(size);
    status = keel_flight_read(nullptr, text.data(), &size);
  }
  if (status != KEEL_OK || size == 0) return {};
  text.resize(size - 1);  // without the terminator
  return text;
}

}  // namespace

std::string last_operations_in(std::string_view text, int64_t process, int rank,
                               uint64_t sequence) try {
  std::string found;
  int64_t found_ns = -1;
  const auto read_communicator = [&](JsonReader& json) {
    // A rank that died and was started again may have two records; the later one replaces it.
    std::map<int64_t, Rank> ranks;
    int64_t world = 0;
    json.object([&](std::string_view key) {
      if (key == "world") {
        world = json.number();
      } else if (key == "ranks") {
        json.array([&] {
          Rank each = read_rank(json);
          const int64_t number = each.rank;
          ranks.insert_or_assign(number, std::move(each));
        });
      } else {
        json.skip();
      }
    });
    const auto own = ranks.find(rank);
    if (own == ranks.end() || own->second.process != process) return;
    for (const Operation& operation : own->second.operations) {
      if (operation.sequence != sequence || operation.status != "KEEL_TIMED_OUT" ||
          operation.queued_ns < found_ns) {
        continue;
      }
      found_ns = operation.queued_ns;
      own->second.operations = {operation};
      found.clear();
      for (int64_t other = 0; other < world; ++other) {
        const auto record = ranks.find(other);
        found += (other == 0 ? "rank " : "; rank ") + std::to_string(other) + ": " +
                 (record == ranks.end() ? "no record on this host" : describe(record->second));
      }
      return;
    }
  };
  JsonReader json(text);
  json.object([&](std::string_view key) {
    if (key == "communicators") {
      json.array([&] { read_communicator(json); });
    } else {
      json.skip();
    }
  });
  return found;
} catch (const std::exception&) {
  return {};  // the operation's failure itself is what counts
}

std::string last_operations(int rank, uint64_t sequence) try {
  return last_operations_in(read_flights(), getpid(), rank, sequence);
} catch (const std::exception&) {
  return {};
}

}  // namespace keel_torch
