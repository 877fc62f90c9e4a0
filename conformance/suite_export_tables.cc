// SPDX-License-Identifier: Apache-2.0
// Level memory, on the plugin's own tables: the contents of an export, ownership of its
// descriptors, and rejection of invalid exports. The case memory/export shows that another process
// can access the memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "conformance/table_calls.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;

constexpr std::array kExports = {std::pair{KEEL_EXPORT_MEMFD, "memfd"},
                                 std::pair{KEEL_EXPORT_DMABUF, "dma-buf"},
                                 std::pair{KEEL_EXPORT_OPAQUE, "opaque"}};

keel_memory_export unwritten_export() {
  keel_memory_export exported = {};
  exported.header = {sizeof(exported), KEEL_STRUCT_MEMORY_EXPORT, nullptr};
  exported.fd = -1;
  return exported;
}

void check_export_slots(const Context& context) {
  const keel_memory_table* const table = &memory_of(context);
  check(observe(KEEL_HAS(keel_memory_table, table, export_memory) &&
                KEEL_HAS(keel_memory_table, table, import_memory) &&
                KEEL_HAS(keel_memory_table, table, close_import)),
        "EXPORT is claimed without the slots that it needs");
}

// Exports |size| bytes at |pointer|; returns false if the device does not support |kind|.
bool export_of(const Context& context, void* pointer, uint64_t size, keel_export_kind kind,
               keel_memory_export* out_export, Where where = Where::current()) {
  *out_export = unwritten_export();
  const keel_status status =
      observe_status(memory_of(context).export_memory(device_of(context).get(), pointer, size, kind,
                                                      /*importer_pid=*/0, out_export),
                     where);
  const int32_t fd = out_export->fd;  // valid in this process only
  out_export->offset = observe(out_export->offset, where);
  out_export->object_size = observe(out_export->object_size, where);
  out_export->bytes_size = observe(out_export->bytes_size, where);
  const bool has_fd = observe(fd >= 0, where);
  if (status == KEEL_OK) {
    check(observe(out_export->kind, where) == kind, "memory.export_memory gives another kind",
          where);
    check(has_fd || kind == KEEL_EXPORT_OPAQUE, "memory.export_memory gives no descriptor", where);
    check(out_export->bytes_size <= sizeof(out_export->bytes),
          fmt::format("memory.export_memory: {} bytes of handle", out_export->bytes_size), where);
    check(out_export->offset <= out_export->object_size &&
              out_export->object_size - out_export->offset >= size,
          fmt::format("memory.export_memory: {} bytes at {} of {}", size, out_export->offset,
                      out_export->object_size),
          where);
    return true;
  }
  check(status == KEEL_UNSUPPORTED,
        fmt::format("memory.export_memory of a kind that is not offered: {}",
                    keel_status_name(status)),
        where);
  check(!has_fd, "memory.export_memory failed and gave a descriptor", where);
  return false;
}

void close_export(const keel_memory_export& exported) {
  if (!judging() && exported.fd >= 0) close(exported.fd);
}

// Exports whole blocks and parts, small and large; the caller closes the descriptors.
void exports(const Context& context) {
  check_export_slots(context);
  constexpr uint64_t kBytes = 150'011;
  const std::vector<std::byte> sent = Draws(context).bytes(kBytes);
  const TableBuffer small(context, 500, KEEL_MEMORY_DEVICE, KEEL_USAGE_EXPORT);
  const TableBuffer memory(context, kBytes, KEEL_MEMORY_DEVICE, KEEL_USAGE_EXPORT);
  const TableBuffer large(context, 5 * kMiB, KEEL_MEMORY_DEVICE, KEEL_USAGE_EXPORT);
  const TableStream stream(context);
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), sent.data(), kBytes);
  bool any = false;
  for (const auto& [kind, name] : kExports) {
    keel_memory_export whole;
    if (!export_of(context, memory.at(0), kBytes, kind, &whole)) continue;
    any = true;
    for (const uint64_t offset : {uint64_t{64}, uint64_t{4096}, uint64_t{5000}, kBytes - 1}) {
      keel_memory_export inner;
      check(export_of(context, memory.at(offset), kBytes - offset, kind, &inner),
            fmt::format("{}: a part is not exported", name));
      // Compare the offsets only if both exports refer to one object.
      check(inner.object_size != whole.object_size || inner.offset == whole.offset + offset,
            fmt::format("{}: byte {} is exported at {}, and byte 0 at {}", name, offset,
                        inner.offset, whole.offset));
      close_export(inner);
    }
    close_export(whole);
    for (const TableBuffer* each : {&small, &large}) {
      check(export_of(context, each->at(0), each->size(), kind, &whole),
            fmt::format("{}: {} bytes are not exported", name, each->size()));
      close_export(whole);
    }
    constexpr uint64_t kTimes = 40;
    const uint64_t descriptors = observe_entries("fd");
    for (uint64_t i = 0; i < kTimes; ++i) {
      export_of(context, memory.at(0), kBytes, kind, &whole);
      close_export(whole);
    }
    const uint64_t after = observe_entries("fd");
    check(after < descriptors + kTimes,
          fmt::format("{}: {} descriptors were open, and {} after {} exports whose own are closed",
                      name, descriptors, after, kTimes));
    stream.expect(memory.at(0), sent, fmt::format("{}: memory whose exports are closed", name));
  }
  check(any, "EXPORT is claimed, but memory of no kind is exported");
}

// A memfd export must be the memory itself.
void export_memfd(const Context& context) {
  check_export_slots(context);
  constexpr uint64_t kBytes = 40'009;
  constexpr uint64_t kOffset = 4'321;
  constexpr uint64_t kShared = kBytes - kOffset;
  Draws draws(context);
  const std::vector<std::byte> first = draws.bytes(kBytes);
  const std::vector<std::byte> second = draws.bytes(kShared);
  const TableBuffer before(context, 1000, KEEL_MEMORY_DEVICE, KEEL_USAGE_EXPORT);
  const TableBuffer memory(context, kBytes, KEEL_MEMORY_DEVICE, KEEL_USAGE_EXPORT);
  const TableStream stream(context);
  keel_memory_export exported;
  if (!export_of(context, memory.at(kOffset), kShared, KEEL_EXPORT_MEMFD, &exported)) {
    unsupported("memory is not exported as a memfd");
  }
  void* map = MAP_FAILED;
  if (!judging()) {
    map = mmap(nullptr, exported.object_size, PROT_READ | PROT_WRITE, MAP_SHARED, exported.fd, 0);
    close(exported.fd);
  }
  struct Mapping {
    void* map;
    uint64_t size;
    ~Mapping() {
      if (map != MAP_FAILED) munmap(map, size);
    }
  } const mapping{map, exported.object_size};
  check(observe(map != MAP_FAILED), "the memfd cannot be mapped");
  std::byte* const at =
      map == MAP_FAILED ? nullptr : static_cast<std::byte*>(map) + exported.offset;
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), first.data(), kBytes);
  compare(read_host(at, kShared), std::span(first).subspan(kOffset, kShared),
          "the memfd of a part of a block");
  write_host(at, second);
  stream.expect(memory.at(kOffset), second, "a block whose memfd was written to");
}

// Kinds that abi.h does not list, of an export that is otherwise valid.
void import_of_no_kind(const Context& context) {
  check_export_slots(context);
  const TableBuffer memory(context, kMiB, KEEL_MEMORY_DEVICE, KEEL_USAGE_EXPORT);
  for (const auto& [kind, name] : kExports) {
    keel_memory_export exported;
    if (!export_of(context, memory.at(0), kMiB, kind, &exported)) continue;
    for (const keel_export_kind unknown : {0U, 77U, UINT32_MAX}) {
      exported.kind = unknown;
      void* pointer = pointer_to(kUnwritten);
      auto* import = static_cast<keel_plugin_import*>(pointer_to(kUnwritten));
      const keel_status status = observe_status(
          memory_of(context).import_memory(device_of(context).get(), &exported, &pointer, &import));
      check(status != KEEL_OK,
            fmt::format("memory.import_memory takes a {} as an export of kind {}", name, unknown));
      check_unwritten(pointer, "memory.import_memory");
      check_unwritten(import, "memory.import_memory");
    }
    close_export(exported);
  }
}

// Invalid exports must be refused without consuming resources.
void import_refused(const Context& context) {
  check_export_slots(context);
  constexpr uint64_t kTimes = 16;
  const int null_fd = judging() ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
  const uint64_t descriptors = observe_entries("fd");
  for (uint64_t i = 0; i < kTimes; ++i) {
    keel_memory_export exported = unwritten_export();
    exported.kind = i % 2 == 0 ? keel_export_kind{KEEL_EXPORT_MEMFD} : keel_export_kind{77};
    exported.fd = null_fd;
    exported.object_size = kMiB;
    void* pointer = pointer_to(kUnwritten);
    auto* import = static_cast<keel_plugin_import*>(pointer_to(kUnwritten));
    check(observe_status(memory_of(context).import_memory(device_of(context).get(), &exported,
                                                          &pointer, &import)) != KEEL_OK,
          fmt::format("memory.import_memory takes {}",
                      i % 2 == 0 ? "/dev/null for a memfd" : "an export of kind 77"));
    check_unwritten(pointer, "memory.import_memory");
    check_unwritten(import, "memory.import_memory");
  }
  const uint64_t after = observe_entries("fd");
  if (null_fd >= 0) close(null_fd);
  check(after < descriptors + kTimes / 2,
        fmt::format("{} descriptors were open, and {} after imports that failed", descriptors,
                    after));
}

}  // namespace

void add_export_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body, uint64_t capabilities) {
    cases->push_back({"memory/tables/" + id, capabilities, false, std::move(body)});
  };
  add("export/parts", exports, KEEL_CAPABILITY_EXPORT);
  add("export/memfd", export_memfd, KEEL_CAPABILITY_EXPORT);
  add("export/no_kind", import_of_no_kind, KEEL_CAPABILITY_EXPORT);
  add("export/refused", import_refused, KEEL_CAPABILITY_EXPORT);
}

}  // namespace keel::conformance
