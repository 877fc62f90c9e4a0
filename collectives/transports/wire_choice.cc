// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/wire_choice.h"

#include "collectives/transports/ucx/ucx_library.h"
#include "core/plugin_file.h"

namespace keel {

Status chosen_wire(std::string* out_wire) {
  const char* const chosen = trusted_environment("KEEL_WIRE");
  const std::string_view name = chosen == nullptr || *chosen == '\0' ? "tcp" : chosen;
  if (name == "tcp") {
    *out_wire = name;
    return {};
  }
  if (name != "ucx") {
    return failure(KEEL_INVALID_ARGUMENT, "KEEL_WIRE is '{}': it must be tcp or ucx", name);
  }
  const UcxLibrary* library = nullptr;
  const Status opened = UcxLibrary::get(&library);
  if (!opened.ok()) {
    return failure(opened.code(), "KEEL_WIRE=ucx: {} (Debian package libucx0)", opened.text());
  }
  *out_wire = "ucx " + library->version();
  return {};
}

}  // namespace keel
