#include "core/api.h"

#include <cstring>

namespace keel {

Status return_text(const std::string& text, char* out_text, uint64_t* in_out_size) {
  KEEL_REQUIRE(in_out_size)
  const uint64_t room = *in_out_size;
  const uint64_t needed = text.size() + 1;
  if (room != 0) KEEL_REQUIRE(out_text)
  *in_out_size = needed;
  if (room < needed) {
    return failure(KEEL_OUT_OF_RANGE, "*in_out_size is {}, the text needs {}", room, needed);
  }
  std::memcpy(out_text, text.c_str(), needed);
  return {};
}

}  // namespace keel
