// SPDX-License-Identifier: Apache-2.0
// The extension keel._C: Keel's C++ interface as classes of Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <keel/keel.hpp>
#include <optional>
#include <string>

#include "buffer.h"
#include "communicator.h"
#include "device.h"
#include "operators.h"
#include "runtime.h"
#include "stream.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// Raises keel.Error(status, message).
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const keel::Error& error) {
    const std::string name = keel_status_name(error.status());
    std::string text = error.what();
    if (text.rfind(name + ": ", 0) == 0) text.erase(0, name.size() + 2);
    const nb::object type = nb::module_::import_("keel.errors").attr("Error");
    PyErr_SetObject(type.ptr(), nb::make_tuple(name, text).ptr());
  }
}

// Two wheels with libkeel may be installed; the first to be imported loads its own for both.
void check_version() {
  const uint32_t wanted = KEEL_VERSION_MAJOR << 16 | KEEL_VERSION_MINOR << 8 | KEEL_VERSION_PATCH;
  if (keel_version() == wanted) return;
  throw nb::import_error("keel: this process has loaded a libkeel of another version");
}

}  // namespace

NB_MODULE(_C, module) {
  check_version();
  nb::register_exception_translator(translate);
  keel_python::add_device(module);
  keel_python::add_buffer(module);
  keel_python::add_stream(module);
  keel_python::add_operators(module);
  keel_python::add_communicator(module);

  module.def(
      "init",
      [](std::optional<std::string> plugin_folder, std::optional<std::string> backends,
         std::optional<double> timeout, bool validate) {
        keel_python::init({plugin_folder, backends, timeout, validate});
      },
      nb::kw_only(), "plugin_folder"_a = nb::none(), "backends"_a = nb::none(),
      "timeout"_a = nb::none(), "validate"_a = false,
      "Initialises Keel other than by the defaults, before the first use. |backends|: "
      "\"cpu,vulkan\". "
      "|timeout|: seconds, of waits without one. |validate|: check every call and find races.");
  module.def(
      "shutdown", &keel_python::shutdown,
      "Ends Keel; every object is invalid then. Refused while arrays of other libraries share "
      "the memory of buffers. Called at the end of the process.");
  module.def("_at_exit", &keel_python::shutdown_at_exit);
  module.attr("version") = std::to_string(KEEL_VERSION_MAJOR) + "." +
                           std::to_string(KEEL_VERSION_MINOR) + "." +
                           std::to_string(KEEL_VERSION_PATCH);
}
