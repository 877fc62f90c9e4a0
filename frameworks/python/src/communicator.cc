// SPDX-License-Identifier: Apache-2.0
#include "communicator.h"

#include <keel/shrink.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "collective_call.h"
#include "device.h"
#include "runtime.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace keel_python {
namespace {

using Counts = std::vector<uint64_t>;

keel_comm_options options_of(std::optional<double> timeout, bool urgent) {
  keel_comm_options options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.timeout_ns = nanoseconds(timeout, 0);
  options.priority = urgent ? KEEL_COMM_URGENT : KEEL_COMM_NORMAL;
  return options;
}

std::string unique_id() {
  start();
  return keel::make_unique_id().text;
}

void join(Communicator* self, nb::handle on, uint32_t rank, uint32_t world, const std::string& text,
          std::optional<double> timeout, bool urgent) {
  const Device device = device_of(on);
  keel_unique_id id = {};
  if (text.size() >= sizeof(id.text)) {
    throw keel::Error(KEEL_INVALID_ARGUMENT, "the id is none of keel.unique_id()");
  }
  std::memcpy(id.text, text.c_str(), text.size());
  const keel_comm_options options = options_of(timeout, urgent);
  keel_comm comm;
  {
    const nb::gil_scoped_release released;
    keel::check(keel_comm_init_rank(device.get(), &id, rank, world, &options, &comm));
  }
  new (self) Communicator(device, comm);
}

std::vector<Communicator> all(const std::vector<nb::object>& given, std::optional<double> timeout) {
  const keel_comm_options options = options_of(timeout, /*urgent=*/false);
  std::vector<Device> devices;
  std::vector<keel_device> handles;
  for (const nb::object& each : given) {
    devices.push_back(device_of(each));
    handles.push_back(devices.back().get());
  }
  std::vector<keel_comm> comms(devices.size());
  {
    const nb::gil_scoped_release released;
    keel::check(keel_comm_init_all(handles.data(), static_cast<uint32_t>(handles.size()), &options,
                                   comms.data()));
  }
  std::vector<Communicator> ranks;
  for (size_t i = 0; i < comms.size(); ++i) ranks.emplace_back(devices[i], comms[i]);
  return ranks;
}

Communicator from_environment(nb::handle on, std::optional<double> timeout) {
  const Device device = device_of(on);
  const keel_comm_options options = options_of(timeout, /*urgent=*/false);
  keel_comm comm;
  {
    const nb::gil_scoped_release released;
    keel::check(keel_comm_init_env(device.get(), &options, &comm));
  }
  return {device, comm};
}

std::optional<Communicator> split(const Communicator& self, int32_t color, int32_t key,
                                  std::optional<double> timeout) {
  const keel_comm_options options = options_of(timeout, /*urgent=*/false);
  const keel_comm handle = self.get();
  keel_comm comm;
  {
    const nb::gil_scoped_release released;
    keel::check(keel_comm_split(handle, color, key, &options, &comm));
  }
  if (comm.id == 0) return std::nullopt;
  return Communicator(self.device(), comm);
}

Communicator duplicate(const Communicator& self, std::optional<double> timeout, bool urgent) {
  const keel_comm_options options = options_of(timeout, urgent);
  const keel_comm handle = self.get();
  keel_comm comm;
  {
    const nb::gil_scoped_release released;
    keel::check(keel_comm_duplicate(handle, &options, &comm));
  }
  return {self.device(), comm};
}

Communicator shrink(const Communicator& self, std::optional<double> timeout, double absent) {
  const keel_comm handle = self.get();
  const int64_t limit = nanoseconds(timeout);
  const int64_t absent_ns = nanoseconds(absent);
  keel_comm comm;
  {
    const nb::gil_scoped_release released;
    keel::check(keel_comm_shrink(handle, limit, absent_ns, nullptr, &comm));
  }
  return {self.device(), comm};
}

void all_reduce(const Communicator& self, const Stream& stream, const Buffer& send,
                const Buffer* receive, nb::handle reduction) {
  CollectiveCall call("all_reduce", self, stream);
  const keel_reduction by = reduction_of(call, reduction);
  const void* const from = call.take("send", send);
  void* const to = call.take("receive", receive == nullptr ? send : *receive);
  if (receive != nullptr) call.expect("receive", *receive, send.count());
  call.run([&] {
    return keel_all_reduce(call.comm(), from, to, send.count(), call.dtype(), by, call.stream());
  });
}

void reduce(const Communicator& self, const Stream& stream, const Buffer& send,
            const Buffer* receive, uint32_t root, nb::handle reduction) {
  CollectiveCall call("reduce", self, stream);
  const keel_reduction by = reduction_of(call, reduction);
  const void* const from = call.take("send", send);
  void* const to = call.take("receive", receive);
  if (receive != nullptr) call.expect("receive", *receive, send.count());
  call.run([&] {
    return keel_reduce(call.comm(), from, to, send.count(), call.dtype(), by, root, call.stream());
  });
}

void broadcast(const Communicator& self, const Stream& stream, const Buffer& buffer,
               uint32_t root) {
  CollectiveCall call("broadcast", self, stream);
  void* const data = call.take("buffer", buffer);
  call.run([&] {
    return keel_broadcast(call.comm(), data, data, buffer.count(), call.dtype(), root,
                          call.stream());
  });
}

// Refuses counts that are not one for each rank, and returns their sum.
uint64_t sum_of(CollectiveCall& call, const char* argument, const Counts& counts, uint32_t world) {
  if (counts.size() != world) {
    call.refuse(std::string(argument) + " has " + std::to_string(counts.size()) + " entries for " +
                std::to_string(world) + " ranks");
  }
  uint64_t sum = 0;
  for (const uint64_t count : counts) {
    if (__builtin_add_overflow(sum, count, &sum)) call.refuse("the counts are too large");
  }
  return sum;
}

void all_gather(const Communicator& self, const Stream& stream, const Buffer& send,
                const Buffer& receive, const std::optional<Counts>& counts) {
  CollectiveCall call("all_gather", self, stream);
  const void* const from = call.take("send", send);
  void* const to = call.take("receive", receive);
  const uint32_t world = self.world();
  if (counts) {
    call.expect("receive", receive, sum_of(call, "counts", *counts, world));
    call.expect("send", send, (*counts)[self.rank()]);
    call.run([&] {
      return keel_all_gather_v(call.comm(), from, to, counts->data(), nullptr, call.dtype(),
                               call.stream());
    });
    return;
  }
  call.expect("receive", receive, world * send.count());
  call.run([&] {
    return keel_all_gather(call.comm(), from, to, send.count(), call.dtype(), call.stream());
  });
}

void reduce_scatter(const Communicator& self, const Stream& stream, const Buffer& send,
                    const Buffer& receive, nb::handle reduction,
                    const std::optional<Counts>& counts) {
  CollectiveCall call("reduce_scatter", self, stream);
  const keel_reduction by = reduction_of(call, reduction);
  const void* const from = call.take("send", send);
  void* const to = call.take("receive", receive);
  const uint32_t world = self.world();
  if (counts) {
    call.expect("send", send, sum_of(call, "counts", *counts, world));
    call.expect("receive", receive, (*counts)[self.rank()]);
    call.run([&] {
      return keel_reduce_scatter_v(call.comm(), from, to, counts->data(), nullptr, call.dtype(), by,
                                   call.stream());
    });
    return;
  }
  call.expect("send", send, world * receive.count());
  call.run([&] {
    return keel_reduce_scatter(call.comm(), from, to, receive.count(), call.dtype(), by,
                               call.stream());
  });
}

void all_to_all(const Communicator& self, const Stream& stream, const Buffer& send,
                const Buffer& receive, const std::optional<Counts>& send_counts,
                const std::optional<Counts>& receive_counts) {
  CollectiveCall call("all_to_all", self, stream);
  const void* const from = call.take("send", send);
  void* const to = call.take("receive", receive);
  const uint32_t world = self.world();
  if (send_counts.has_value() != receive_counts.has_value()) {
    call.refuse("send_counts and receive_counts go together");
  }
  if (send_counts) {
    call.expect("send", send, sum_of(call, "send_counts", *send_counts, world));
    call.expect("receive", receive, sum_of(call, "receive_counts", *receive_counts, world));
    call.run([&] {
      return keel_all_to_all_v(call.comm(), from, send_counts->data(), nullptr, to,
                               receive_counts->data(), nullptr, call.dtype(), call.stream());
    });
    return;
  }
  call.expect("receive", receive, send.count());
  if (send.count() % world != 0) call.expect("send", send, send.count() / world * world);
  call.run([&] {
    return keel_all_to_all(call.comm(), from, to, send.count() / world, call.dtype(),
                           call.stream());
  });
}

void gather(const Communicator& self, const Stream& stream, const Buffer& send,
            const Buffer* receive, uint32_t root) {
  CollectiveCall call("gather", self, stream);
  const void* const from = call.take("send", send);
  void* const to = call.take("receive", receive);
  if (receive != nullptr) call.expect("receive", *receive, self.world() * send.count());
  call.run([&] {
    return keel_gather(call.comm(), from, to, send.count(), call.dtype(), root, call.stream());
  });
}

void scatter(const Communicator& self, const Stream& stream, const Buffer* send,
             const Buffer& receive, uint32_t root) {
  CollectiveCall call("scatter", self, stream);
  const void* const from = call.take("send", send);
  void* const to = call.take("receive", receive);
  if (send != nullptr) call.expect("send", *send, self.world() * receive.count());
  call.run([&] {
    return keel_scatter(call.comm(), from, to, receive.count(), call.dtype(), root, call.stream());
  });
}

void barrier(const Communicator& self, const Stream& stream) {
  CollectiveCall call("barrier", self, stream);
  call.run([&] { return keel_barrier(call.comm(), call.stream()); });
}

void send(const Communicator& self, const Stream& stream, const Buffer& buffer, uint32_t peer) {
  CollectiveCall call("send", self, stream);
  const void* const data = call.take("buffer", buffer);
  call.run([&] {
    return keel_send(call.comm(), data, buffer.count(), call.dtype(), peer, call.stream());
  });
}

void recv(const Communicator& self, const Stream& stream, const Buffer& buffer, uint32_t peer) {
  CollectiveCall call("recv", self, stream);
  void* const data = call.take("buffer", buffer);
  call.run([&] {
    return keel_recv(call.comm(), data, buffer.count(), call.dtype(), peer, call.stream());
  });
}

nb::object explain(const Communicator& self) {
  const std::string text = keel::api_detail::read_text(
      [&](char* out, uint64_t* size) { return keel_comm_explain(self.get(), out, size); });
  return nb::module_::import_("json").attr("loads")(text);
}

void finalize(const Communicator& self, std::optional<double> timeout) {
  const keel_comm comm = self.get();
  const int64_t limit = nanoseconds(timeout);
  const nb::gil_scoped_release released;
  keel::check(keel_comm_finalize(comm, limit));
}

// `with keel.group():`
struct Group {
  void enter() {
    start();
    keel::check(keel_group_start());
    InFlight::get().begin_group();
  }
  void leave() {
    keel_status status;
    std::string text;
    {
      const nb::gil_scoped_release released;
      status = keel_group_end();
      if (status != KEEL_OK) text = keel_last_error();
    }
    InFlight::get().end_group();
    if (status != KEEL_OK) throw keel::Error(status, text);
  }
};

}  // namespace

void add_communicator(nb::module_& module) {
  module.def("unique_id", &unique_id,
             "The address of a new communicator: one rank creates it and passes the text to the "
             "others by any means. The calling process serves the rendezvous.");

  nb::class_<Communicator>(
      module, "Communicator",
      "One rank of a communicator over devices of any make, in threads or processes.\n\nEach rank "
      "calls the same collectives in the same order; a call enqueues on a stream of the rank's "
      "device and is done when the stream is. Buffers are dense and of one dtype. A call that is "
      "refused counts: the other ranks get KEEL_RANK_FAILED. |reduction|: \"sum\", \"prod\", "
      "\"min\", \"max\", \"avg\", \"band\", \"bor\", \"bxor\", or a number of premul_sum().")
      .def("__init__", &join, "device"_a, "rank"_a, "world"_a, "id"_a, nb::kw_only(),
           "timeout"_a = nb::none(), "urgent"_a = false,
           nb::sig("def __init__(self, device: Device | str, rank: int, world: int, id: str, *, "
                   "timeout: float | None = None, urgent: bool = False) -> None"),
           "Joins as rank |rank| of |world| and waits for the others. |timeout|: seconds, of this "
           "and of each operation.")
      .def_static("all", &all, "devices"_a, nb::kw_only(), "timeout"_a = nb::none(),
                  "All ranks in this process, one for each of |devices|",
                  nb::sig("def all(devices: collections.abc.Sequence[Device | str], *, timeout: "
                          "float | None = None) -> list[Communicator]"))
      .def_static("from_environment", &from_environment, "device"_a, nb::kw_only(),
                  "timeout"_a = nb::none(),
                  "Joins the other processes of the job by the launcher's environment: keel run, "
                  "torchrun, mpirun, srun",
                  nb::sig("def from_environment(device: Device | str, *, timeout: float | None = "
                          "None) -> Communicator"))
      .def("split", &split, "color"_a, "key"_a = 0, nb::kw_only(), "timeout"_a = nb::none(),
           "The communicator of the ranks of |color|, ordered by |key|; None for color -1. Waits "
           "for all ranks.")
      .def("duplicate", &duplicate, nb::kw_only(), "timeout"_a = nb::none(), "urgent"_a = false,
           "Another communicator of the same ranks; operations of an urgent one overtake")
      .def("shrink", &shrink, "timeout"_a = nb::none(), "absent"_a = 0.0,
           "The communicator of the ranks that are left after a failure. Each of them calls.")
      .def_prop_ro("device", &Communicator::device)
      .def_prop_ro("rank", &Communicator::rank)
      .def_prop_ro("world", &Communicator::world)
      .def_prop_ro("closed", &Communicator::is_closed)
      .def("all_reduce", &all_reduce, "stream"_a, "send"_a, "receive"_a.none() = nb::none(),
           "reduction"_a = "sum", "|receive|: none for in place",
           nb::sig("def all_reduce(self, stream: Stream, send: Buffer, receive: Buffer | None = "
                   "None, reduction: str | int = 'sum') -> None"))
      .def("reduce", &reduce, "stream"_a, "send"_a, "receive"_a.none(), "root"_a,
           "reduction"_a = "sum", "|receive|: on the root only",
           nb::sig("def reduce(self, stream: Stream, send: Buffer, receive: Buffer | None, root: "
                   "int, reduction: str | int = 'sum') -> None"))
      .def("broadcast", &broadcast, "stream"_a, "buffer"_a, "root"_a)
      .def("all_gather", &all_gather, "stream"_a, "send"_a, "receive"_a, nb::kw_only(),
           "counts"_a = nb::none(),
           "|counts|: elements of each rank, the same list on all; none: as many as |send|")
      .def(
          "reduce_scatter", &reduce_scatter, "stream"_a, "send"_a, "receive"_a,
          "reduction"_a = "sum", nb::kw_only(), "counts"_a = nb::none(), "|counts|: as above",
          nb::sig("def reduce_scatter(self, stream: Stream, send: Buffer, receive: Buffer, "
                  "reduction: str | int = 'sum', *, counts: collections.abc.Sequence[int] | None = "
                  "None) -> None"))
      .def("all_to_all", &all_to_all, "stream"_a, "send"_a, "receive"_a, nb::kw_only(),
           "send_counts"_a = nb::none(), "receive_counts"_a = nb::none(),
           "|send_counts|, |receive_counts|: elements for and from each rank; none: equal parts")
      .def("gather", &gather, "stream"_a, "send"_a, "receive"_a.none(), "root"_a,
           "|receive|: on the root only")
      .def("scatter", &scatter, "stream"_a, "send"_a.none(), "receive"_a, "root"_a,
           "|send|: on the root only")
      .def("barrier", &barrier, "stream"_a)
      .def("send", &send, "stream"_a, "buffer"_a, "peer"_a)
      .def("recv", &recv, "stream"_a, "buffer"_a, "peer"_a)
      .def(
          "premul_sum",
          [](const Communicator& self, double factor) {
            keel_reduction reduction = 0;
            keel::check(keel_premul_sum_create(self.get(), factor, &reduction));
            return reduction;
          },
          "factor"_a,
          "A reduction: the sum of each rank's data times the rank's |factor|. A communicator has "
          "up "
          "to 65,536 at a time")
      .def(
          "destroy_premul_sum",
          [](const Communicator& self, keel_reduction reduction) {
            keel::check(keel_premul_sum_destroy(self.get(), reduction));
          },
          "reduction"_a, "Ends a reduction of premul_sum; operations called before still use it")
      .def(
          "set_timeout",
          [](const Communicator& self, std::optional<double> timeout) {
            keel::check(keel_comm_timeout_set(self.get(), nanoseconds(timeout, 0)));
          },
          "timeout"_a.none(), "Deadline in seconds of each operation from the next on")
      .def("finalize", &finalize, "timeout"_a = nb::none(),
           "Waits for all operations that this rank has called")
      .def(
          "abort",
          [](const Communicator& self) {
            const keel_comm comm = self.get();
            const nb::gil_scoped_release released;
            keel::check(keel_comm_abort(comm));
          },
          "Fails all operations in flight and later ones, on all ranks")
      .def(
          "check", [](const Communicator& self) { keel::check(keel_comm_async_error(self.get())); },
          "Raises the failure of the communicator, if it has failed")
      .def("explain", &explain, "The path of each rank, the algorithms and the sizes in use",
           nb::sig("def explain(self) -> dict[str, typing.Any]"))
      .def("close", &Communicator::close, "Waits for this rank's operations, then leaves")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> Communicator"))
      .def(
          "__exit__",
          [](Communicator& self, nb::handle type, nb::handle, nb::handle) {
            if (type.is_none()) return self.close();
            try {
              self.close();
            } catch (const keel::Error&) {  // the exception of the block matters more
            }
          },
          "type"_a.none(), "value"_a.none(), "traceback"_a.none());

  nb::class_<Group>(module, "group",
                    "`with keel.group():` enqueues together, at its end, what this thread calls "
                    "inside: sends and receives then proceed in any order. No waits inside.")
      .def(nb::init<>())
      .def("__enter__", &Group::enter)
      .def(
          "__exit__", [](Group& group, nb::handle, nb::handle, nb::handle) { group.leave(); },
          "type"_a.none(), "value"_a.none(), "traceback"_a.none());
}

}  // namespace keel_python
