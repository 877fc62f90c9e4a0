// SPDX-License-Identifier: Apache-2.0
// Memory of the CUDA plugin in two processes: a worker allocates and exports memory, the test
// imports the memory. Each process has its own driver, over the emulated chip.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/testing/own_driver.h"
#include "backends/cuda/testing/queried_plugin.h"
#include "collectives/bootstrap/testing/child_process.h"

namespace {

using keel::testing::ChildProcess;
using keel::testing::hear;
using keel::testing::say;
using keel::testing::t_error;

constexpr uint64_t kBytes = 100'003;

keel_memory_export no_export() {
  return KEEL_STRUCT_INIT(keel_memory_export, KEEL_STRUCT_MEMORY_EXPORT);
}

// The plugin's two devices, with one stream each.
class Machine {
 public:
  explicit Machine(const std::string& folder) : plugin_(keel::testing::query_plugin()) {
    if (plugin_ == nullptr) return;
    const char* const key = "library_folder";
    const char* const value = folder.c_str();
    auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
    settings.count = 1;
    settings.keys = &key;
    settings.values = &value;
    if (plugin_->create_instance(&settings, &instance_) != KEEL_OK) return;
    for (uint32_t i = 0; i < 2; ++i) {
      if (plugin_->device->open(instance_, i, &devices_[i]) != KEEL_OK ||
          plugin_->stream->create(devices_[i], 0, &streams_[i]) != KEEL_OK) {
        return;
      }
    }
    is_open_ = true;
  }
  ~Machine() {
    for (uint32_t i = 0; i < 2; ++i) {
      if (streams_[i] != nullptr) plugin_->stream->destroy(streams_[i]);
      if (devices_[i] != nullptr) plugin_->device->close(devices_[i]);
    }
    if (instance_ != nullptr) plugin_->destroy_instance(instance_);
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  bool is_open() const { return is_open_; }
  const keel_plugin& plugin() const { return *plugin_; }
  const keel_memory_table& memory() const { return *plugin_->memory; }
  keel_plugin_device* device(int index) const { return devices_[index]; }
  keel_plugin_stream* stream(int index) const { return streams_[index]; }

  uint64_t capabilities() const {
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    EXPECT_EQ(plugin_->device->info(instance_, 0, &info), KEEL_OK) << t_error;
    return info.capabilities;
  }
  char* alloc(int device, uint64_t size) const {
    void* pointer = nullptr;
    EXPECT_EQ(
        memory().alloc(devices_[device], KEEL_MEMORY_DEVICE, size, KEEL_USAGE_EXPORT, &pointer),
        KEEL_OK)
        << t_error;
    return static_cast<char*>(pointer);
  }
  keel_status free(int device, void* pointer) const {
    return memory().free(devices_[device], KEEL_MEMORY_DEVICE, pointer);
  }
  keel_status settle(int device) const {
    keel_status status = KEEL_NOT_READY;
    while ((status = plugin_->stream->query(streams_[device])) == KEEL_NOT_READY) {
      std::this_thread::yield();
    }
    return status;
  }
  keel_status fill(int device, void* pointer, uint32_t word, uint64_t size) const {
    const keel_status status =
        plugin_->stream->fill(streams_[device], pointer, &word, sizeof(word), size);
    return status == KEEL_OK ? settle(device) : status;
  }
  keel_status write(int device, char* pointer, const std::string& text) const {
    const keel_status status = plugin_->stream->copy(streams_[device], KEEL_COPY_HOST_TO_DEVICE,
                                                     pointer, text.data(), text.size());
    return status == KEEL_OK ? settle(device) : status;
  }
  // Returns the memory's contents, or the failure as text.
  std::string read(int device, const char* pointer, uint64_t size) const {
    std::string text(size, '?');
    keel_status status = plugin_->stream->copy(streams_[device], KEEL_COPY_DEVICE_TO_HOST,
                                               text.data(), pointer, size);
    if (status == KEEL_OK) status = settle(device);
    return status == KEEL_OK ? text : "status " + std::to_string(status);
  }

 private:
  const keel_plugin* plugin_;
  keel_plugin_instance* instance_ = nullptr;
  std::array<keel_plugin_device*, 2> devices_ = {};
  std::array<keel_plugin_stream*, 2> streams_ = {};
  bool is_open_ = false;
};

std::string to_hex(const keel_memory_export& exported) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&exported);
  std::string text;
  for (size_t i = 0; i < sizeof(exported); ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", bytes[i]);
    text += digits;
  }
  return text;
}

keel_memory_export from_hex(const std::string& text) {
  keel_memory_export exported = no_export();
  EXPECT_EQ(text.size(), 2 * sizeof(exported)) << text;
  if (text.size() != 2 * sizeof(exported)) return exported;
  auto* const bytes = reinterpret_cast<unsigned char*>(&exported);
  for (size_t i = 0; i < sizeof(exported); ++i) {
    bytes[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return exported;
}

// ---- the worker -------------------------------------------------------------------

// Owns |kBytes| on device 1, behind another allocation, and executes commands: "export OFFSET",
// "write OFFSET TEXT", "read OFFSET SIZE", "free"; an empty line ends the process.
int run_owner(const std::vector<std::string>&) {
  setenv("KEEL_EMULATED_CUDA", "devices=2 memory_mib=64", 1);
  const Machine machine(std::filesystem::path(KEEL_EMULATED_CUDA_FILE).parent_path());
  if (!machine.is_open()) return 1;
  machine.alloc(1, 1000);
  char* const memory = machine.alloc(1, kBytes);
  for (std::string line = hear(); !line.empty(); line = hear()) {
    std::istringstream words(line);
    std::string command;
    uint64_t offset = 0;
    words >> command >> offset;
    if (command == "export") {
      keel_memory_export exported = no_export();
      const keel_status status = machine.memory().export_memory(
          machine.device(1), memory + offset, 10, KEEL_EXPORT_OPAQUE, 0, &exported);
      say(status == KEEL_OK ? to_hex(exported) : t_error);
    } else if (command == "write") {
      std::string text;
      words >> text;
      say(std::to_string(machine.write(1, memory + offset, text)));
    } else if (command == "read") {
      uint64_t size = 0;
      words >> size;
      say(machine.read(1, memory + offset, size));
    } else {
      say(std::to_string(machine.free(1, memory)));
    }
  }
  return 0;
}

// ---- those who import -------------------------------------------------------------

class CudaIpcTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(machine_.is_open()) << t_error; }

  std::string tell(const std::string& command) {
    owner_.write_line(command);
    return owner_.read_line();
  }
  keel_memory_export exported_at(uint64_t offset) {
    return from_hex(tell("export " + std::to_string(offset)));
  }
  keel_status import(int device, const keel_memory_export& exported, char** out_pointer,
                     keel_plugin_import** out_import) const {
    void* pointer = nullptr;
    const keel_status status =
        machine_.memory().import_memory(machine_.device(device), &exported, &pointer, out_import);
    *out_pointer = static_cast<char*>(pointer);
    return status;
  }
  keel_status close(int device, keel_plugin_import* import) const {
    return machine_.memory().close_import(machine_.device(device), import);
  }

  const keel::testing::OwnDriver driver_{"devices=2 memory_mib=64"};
  const Machine machine_{driver_.folder()};
  ChildProcess owner_{"owner", {}};
};

TEST_F(CudaIpcTest, BothReachTheSameMemory) {
  EXPECT_NE(machine_.capabilities() & KEEL_CAPABILITY_EXPORT, 0u);
  ASSERT_EQ(tell("write 5000 here"), "0");
  const keel_memory_export exported = exported_at(5000);
  EXPECT_EQ(exported.kind, uint32_t{KEEL_EXPORT_OPAQUE});
  EXPECT_EQ(exported.fd, -1);
  EXPECT_EQ(exported.offset, 5000u);
  EXPECT_EQ(exported.object_size, kBytes);
  for (const int device : {0, 1}) {
    char* const own = machine_.alloc(device, 4096);
    char* pointer = nullptr;
    keel_plugin_import* imported = nullptr;
    ASSERT_EQ(import(device, exported, &pointer, &imported), KEEL_OK) << t_error;
    EXPECT_EQ(machine_.read(device, pointer, 4), "here");
    // Copies both ways between the import and memory of this process, and the whole import.
    EXPECT_EQ(machine_.fill(device, own, 0x61616161, 4096), KEEL_OK);
    EXPECT_EQ(machine_.plugin().stream->copy(machine_.stream(device), KEEL_COPY_DEVICE_TO_DEVICE,
                                             pointer + 4, own, 4),
              KEEL_OK);
    EXPECT_EQ(machine_.plugin().stream->copy(machine_.stream(device), KEEL_COPY_DEVICE_TO_DEVICE,
                                             own, pointer, 4),
              KEEL_OK);
    EXPECT_EQ(machine_.settle(device), KEEL_OK);
    EXPECT_EQ(machine_.read(device, own, 8), "hereaaaa");
    EXPECT_EQ(tell("read 5000 8"), "hereaaaa");
    EXPECT_EQ(machine_.write(device, pointer + kBytes - 5000 - 4, "tail"), KEEL_OK);
    EXPECT_EQ(tell("read " + std::to_string(kBytes - 4) + " 4"), "tail");
    EXPECT_EQ(close(device, imported), KEEL_OK) << t_error;
    EXPECT_EQ(machine_.free(device, own), KEEL_OK);
    ASSERT_EQ(tell("write 5000 here____"), "0");
  }
}

// Copies between the devices, only one of which has imported the memory.
TEST_F(CudaIpcTest, PeersReachIt) {
  char* pointer = nullptr;
  keel_plugin_import* imported = nullptr;
  ASSERT_EQ(import(0, exported_at(0), &pointer, &imported), KEEL_OK) << t_error;
  char* const own = machine_.alloc(1, 64);
  ASSERT_EQ(machine_.write(1, own, "peer"), KEEL_OK);
  EXPECT_EQ(machine_.plugin().stream->copy_peer(machine_.stream(1), machine_.device(0), pointer,
                                                machine_.device(1), own, 4),
            KEEL_OK)
      << t_error;
  EXPECT_EQ(machine_.settle(1), KEEL_OK);
  EXPECT_EQ(tell("read 0 4"), "peer");
  EXPECT_EQ(close(0, imported), KEEL_OK);
  EXPECT_EQ(machine_.free(1, own), KEEL_OK);
}

TEST_F(CudaIpcTest, ImportsOfOneAllocationAreOneMapping) {
  char* first = nullptr;
  char* second = nullptr;
  keel_plugin_import* imports[2] = {};
  ASSERT_EQ(import(0, exported_at(0), &first, &imports[0]), KEEL_OK) << t_error;
  ASSERT_EQ(import(0, exported_at(777), &second, &imports[1]), KEEL_OK) << t_error;
  EXPECT_EQ(second, first + 777);
  // This process can neither free nor export another process's memory.
  EXPECT_EQ(machine_.free(0, first), KEEL_INVALID_ARGUMENT);
  keel_memory_export again = no_export();
  EXPECT_EQ(
      machine_.memory().export_memory(machine_.device(0), first, 10, KEEL_EXPORT_OPAQUE, 0, &again),
      KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(close(0, imports[0]), KEEL_OK) << t_error;
  EXPECT_EQ(machine_.write(0, second, "left"), KEEL_OK) << t_error;
  EXPECT_EQ(tell("read 777 4"), "left");
  EXPECT_EQ(close(0, imports[1]), KEEL_OK) << t_error;
  EXPECT_EQ(machine_.write(0, second, "gone"), KEEL_DEVICE_LOST);
  EXPECT_EQ(tell("read 777 4"), "left");
}

TEST_F(CudaIpcTest, ItEndsWhereItEndsThere) {
  char* pointer = nullptr;
  keel_plugin_import* imported = nullptr;
  ASSERT_EQ(import(0, exported_at(0), &pointer, &imported), KEEL_OK) << t_error;
  EXPECT_EQ(machine_.write(0, pointer + kBytes - 4, "last"), KEEL_OK) << t_error;
  EXPECT_EQ(machine_.write(0, pointer + kBytes - 4, "over!"), KEEL_DEVICE_LOST);
  EXPECT_NE(t_error.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << t_error;
  EXPECT_EQ(tell("read " + std::to_string(kBytes - 4) + " 4"), "last");
  EXPECT_EQ(close(0, imported), KEEL_OK) << t_error;
}

TEST_F(CudaIpcTest, AccessesOfKernelsAreChecked) {
  std::ifstream file(KEEL_TEST_KERNELS, std::ios::binary);
  const std::string image((std::istreambuf_iterator<char>(file)), {});
  const keel_kernel_table& kernels = *machine_.plugin().kernel;
  keel_plugin_module* module = nullptr;
  keel_plugin_kernel* kernel = nullptr;
  ASSERT_EQ(
      kernels.load(machine_.device(0), KEEL_BINARY_CUBIN, image.data(), image.size(), &module),
      KEEL_OK)
      << t_error;
  ASSERT_EQ(kernels.find(module, "number", &kernel), KEEL_OK) << t_error;
  char* pointer = nullptr;
  keel_plugin_import* imported = nullptr;
  ASSERT_EQ(import(0, exported_at(0), &pointer, &imported), KEEL_OK) << t_error;
  ASSERT_EQ(machine_.fill(0, pointer + 4096, 0, 8), KEEL_OK) << t_error;
  const auto launch = [&](const char* at) {
    const uint32_t first = 0x64636261;
    const void* const arguments[] = {&at, &first};
    const uint32_t sizes[] = {sizeof(at), sizeof(first)};
    const keel_launch call = {
        {sizeof(call), KEEL_STRUCT_LAUNCH, nullptr}, {1, 1, 1}, {2, 1, 1}, 0, 2, arguments, sizes};
    const keel_status status = kernels.launch(machine_.stream(0), kernel, &call);
    return status == KEEL_OK ? machine_.settle(0) : status;
  };
  EXPECT_EQ(launch(pointer + 4096), KEEL_OK) << t_error;
  EXPECT_EQ(tell("read 4096 8"), "abcdbbcd");
  EXPECT_EQ(launch(pointer + kBytes), KEEL_DEVICE_LOST);
  EXPECT_NE(t_error.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << t_error;
  // A lost device has no imports left, and the owner is not affected.
  EXPECT_EQ(close(0, imported), KEEL_OK) << t_error;
  kernels.unload(module);
  EXPECT_EQ(tell("read 4096 8"), "abcdbbcd");
  EXPECT_EQ(import(1, exported_at(0), &pointer, &imported), KEEL_OK) << t_error;
  EXPECT_EQ(machine_.read(1, pointer + 4096, 8), "abcdbbcd");
  EXPECT_EQ(close(1, imported), KEEL_OK) << t_error;
}

TEST_F(CudaIpcTest, TheOwnerDies) {
  ASSERT_EQ(tell("write 0 before"), "0");
  const keel_memory_export exported = exported_at(0);
  char* pointer = nullptr;
  keel_plugin_import* imported = nullptr;
  ASSERT_EQ(import(0, exported, &pointer, &imported), KEEL_OK) << t_error;
  owner_.kill();
  EXPECT_EQ(owner_.wait(), 128 + 9);
  EXPECT_EQ(machine_.read(0, pointer, 6), "before");
  EXPECT_EQ(machine_.write(0, pointer, "behind"), KEEL_OK) << t_error;
  EXPECT_EQ(machine_.read(0, pointer, 6), "behind");
  // A device that has not opened the memory can no longer import it.
  char* other = nullptr;
  keel_plugin_import* late = nullptr;
  EXPECT_EQ(import(1, exported, &other, &late), KEEL_UNAVAILABLE);
  EXPECT_NE(t_error.find("CUDA_ERROR_MAP_FAILED"), std::string::npos) << t_error;
  EXPECT_EQ(close(0, imported), KEEL_OK) << t_error;
}

// The contents are then undefined, but nothing else is affected.
TEST_F(CudaIpcTest, TheOwnerFreesIt) {
  char* pointer = nullptr;
  keel_plugin_import* imported = nullptr;
  ASSERT_EQ(import(0, exported_at(0), &pointer, &imported), KEEL_OK) << t_error;
  EXPECT_EQ(tell("free"), "0");
  EXPECT_EQ(machine_.fill(0, pointer, 1, kBytes / 4 * 4), KEEL_OK) << t_error;
  EXPECT_EQ(close(0, imported), KEEL_OK) << t_error;
  owner_.write_line("");
  EXPECT_EQ(owner_.wait(), 0);
}

TEST_F(CudaIpcTest, ExportsThatLie) {
  const keel_memory_export exported = exported_at(100);
  const auto expect_refused = [&](keel_status wanted, const std::string& member, auto change) {
    keel_memory_export lie = exported;
    change(lie);
    char* pointer = nullptr;
    keel_plugin_import* imported = nullptr;
    EXPECT_EQ(import(0, lie, &pointer, &imported), wanted) << member;
    EXPECT_NE(t_error.find(member), std::string::npos) << t_error;
  };
  using Export = keel_memory_export;
  expect_refused(KEEL_INVALID_ARGUMENT, "header.size", [](Export& lie) { lie.header.size = 48; });
  expect_refused(KEEL_INVALID_ARGUMENT, "bytes_size", [](Export& lie) { lie.bytes_size = 0; });
  expect_refused(KEEL_INVALID_ARGUMENT, "bytes_size", [](Export& lie) { --lie.bytes_size; });
  expect_refused(KEEL_INVALID_ARGUMENT, "bytes_size", [](Export& lie) { lie.bytes_size = 1000; });
  expect_refused(KEEL_INVALID_ARGUMENT, "object_size", [](Export& lie) { ++lie.object_size; });
  expect_refused(KEEL_INVALID_ARGUMENT, "object_size", [](Export& lie) { lie.object_size = 0; });
  expect_refused(KEEL_INVALID_ARGUMENT, "offset", [](Export& lie) { lie.offset = kBytes; });
  expect_refused(KEEL_INVALID_ARGUMENT, "offset", [](Export& lie) { lie.offset = UINT64_MAX; });
  expect_refused(KEEL_INVALID_ARGUMENT, "bytes", [](Export& lie) { lie.bytes[0] ^= 1; });
  expect_refused(KEEL_UNSUPPORTED, "kind", [](Export& lie) { lie.kind = KEEL_EXPORT_MEMFD; });
  // The device still works.
  char* pointer = nullptr;
  keel_plugin_import* imported = nullptr;
  EXPECT_EQ(import(0, exported, &pointer, &imported), KEEL_OK) << t_error;
  EXPECT_EQ(close(0, imported), KEEL_OK);
}

TEST_F(CudaIpcTest, WhatCannotBeExported) {
  const keel_memory_table& memory = machine_.memory();
  char* const own = machine_.alloc(0, 5000);
  keel_memory_export exported = no_export();
  const auto export_of = [&](void* pointer, uint64_t size, keel_export_kind kind) {
    return memory.export_memory(machine_.device(0), pointer, size, kind, 0, &exported);
  };
  EXPECT_EQ(export_of(own, 5000, KEEL_EXPORT_MEMFD), KEEL_UNSUPPORTED);
  EXPECT_EQ(export_of(own, 5000, KEEL_EXPORT_DMABUF), KEEL_UNSUPPORTED);
  EXPECT_EQ(export_of(own + 1, 5000, KEEL_EXPORT_OPAQUE), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(export_of(&exported, 1, KEEL_EXPORT_OPAQUE), KEEL_INVALID_ARGUMENT);
  void* pinned = nullptr;
  ASSERT_EQ(memory.alloc(machine_.device(0), KEEL_MEMORY_PINNED, 4096, 0, &pinned), KEEL_OK);
  EXPECT_EQ(export_of(pinned, 4096, KEEL_EXPORT_OPAQUE), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(memory.free(machine_.device(0), KEEL_MEMORY_PINNED, pinned), KEEL_OK);
  // Exportable memory cannot be imported by its own process.
  ASSERT_EQ(export_of(own, 5000, KEEL_EXPORT_OPAQUE), KEEL_OK) << t_error;
  char* pointer = nullptr;
  keel_plugin_import* imported = nullptr;
  EXPECT_EQ(import(1, exported, &pointer, &imported), KEEL_FAILED_PRECONDITION);
  EXPECT_NE(t_error.find("this process"), std::string::npos) << t_error;
  EXPECT_EQ(machine_.free(0, own), KEEL_OK);
}

TEST(CudaIpcMissingTest, ADriverWithoutIt) {
  const keel::testing::OwnDriver driver("devices=2 memory_mib=64 missing=cuIpcOpenMemHandle");
  const Machine machine(driver.folder());
  ASSERT_TRUE(machine.is_open()) << t_error;
  EXPECT_EQ(machine.capabilities() & KEEL_CAPABILITY_EXPORT, 0u);
  char* const own = machine.alloc(0, 64);
  keel_memory_export exported = no_export();
  EXPECT_EQ(
      machine.memory().export_memory(machine.device(0), own, 64, KEEL_EXPORT_OPAQUE, 0, &exported),
      KEEL_UNSUPPORTED);
  EXPECT_EQ(machine.free(0, own), KEEL_OK);
}

}  // namespace

const std::map<std::string, keel::testing::Worker>& keel::testing::workers() {
  static const std::map<std::string, Worker> all = {{"owner", run_owner}};
  return all;
}
