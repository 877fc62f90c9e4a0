// SPDX-License-Identifier: Apache-2.0
// The Python module keel_torch._C.
#include <keel/keel.h>
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>

#include "allocator.h"
#include "device/register.h"
#include "process_group.h"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  namespace py = pybind11;
  using keel_torch::ProcessGroup;

  // PyTorch's own classes, which the signatures below refer to.
  py::module_::import("torch.distributed");

  py::class_<ProcessGroup, c10d::Backend, c10::intrusive_ptr<ProcessGroup>>(
      module, "ProcessGroup", "One rank's part of a process group over Keel's devices.")
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       std::chrono::milliseconds timeout) {
             return c10::make_intrusive<ProcessGroup>(store, rank, size, timeout);
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
           py::call_guard<py::gil_scoped_release>())
      .def("goes_through_cpu", &ProcessGroup::goes_through_cpu,
           "Whether keel tensors of this rank go through copies of the CPU, since some rank has "
           "tensors of the CPU.")
      .def(
          "perform_nocolor_split", [](ProcessGroup&, const py::object&) {}, py::arg("device"),
          "Does nothing. PyTorch calls it on ranks outside of a new group; those inside meet "
          "without them.");

  module.def("use_allocator", &keel_torch::use_allocator,
             "Takes the memory of later CPU tensors from Keel, so that other ranks read it in "
             "place.\nForked processes write to private copies of such tensors.");
  module.def("register_device", &keel_torch::device::register_device,
             "Registers the device 'keel'; called once, by the package.");
  keel_torch::device::bind(module);
  module.def("version", [] {
    const uint32_t version = keel_version();
    return std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 255) + "." +
           std::to_string(version & 255);
  });
}
