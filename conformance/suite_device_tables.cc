// SPDX-License-Identifier: Apache-2.0
// Level core, on the plugin's own tables: instances and their settings, the device table.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <set>

#include "conformance/levels.h"
#include "conformance/table_calls.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kSmall = 40'007;  // bytes to copy through a working device

const keel_device_table& table_of(const Context& context) {
  return *device_of(context).plugin().device;
}

template <size_t Size>
std::string text_of(const char (&text)[Size]) {
  return {text, std::find(text, text + Size, '\0')};
}

// Formats all members of |info| in one line.
std::string told(const keel_device_info& info) {
  std::string text = fmt::format("{}; {}; {}; {};", text_of(info.name), text_of(info.architecture),
                                 text_of(info.pci_address), text_of(info.driver));
  for (const uint8_t each : info.uuid) text += fmt::format(" {:02x}", each);
  return text + fmt::format("; {} {} {:#x} {} {} {} {} {} {}", info.type, info.numa_node,
                            info.capabilities, info.memory_bytes, info.max_alloc_bytes,
                            info.alignment, info.compute_units, info.hardware_queues,
                            info.copy_alignment);
}

std::string info_text(const Context& context, keel_plugin_instance* instance, uint32_t ordinal,
                      Where where = Where::current()) {
  auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
  need(table_of(context).info(instance, ordinal, &info),
       fmt::format("device.info of device {}", ordinal), where);
  return observe_text(told(info), where);
}

// ---- instances ------------------------------------------------------------------------

// Instances are created and destroyed in any order, and each sees all devices.
void several_instances(const Context& context) {
  keel_plugin_instance* const open = device_of(context).instance();
  uint32_t devices = 0;
  need(table_of(context).count(open, &devices), "device.count");
  devices = observe(devices);
  const std::string first = info_text(context, open, 0);
  constexpr std::array<std::array<size_t, 4>, 3> kOrders = {
      {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}}};
  for (const auto& order : kOrders) {
    std::vector<TableInstance> instances;
    for (size_t i = 0; i < order.size(); ++i) instances.emplace_back(context);
    std::vector<size_t> alive(order.begin(), order.end());
    for (const size_t gone : order) {
      for (const size_t each : alive) {
        const uint32_t count = instances[each].count();
        check(count == devices,
              fmt::format("an instance counts {} devices, the first {}", count, devices));
        check(info_text(context, instances[each].get(), 0) == first,
              "device.info differs between instances");
      }
      instances[gone].end();
      std::erase(alive, gone);
    }
  }
  check(info_text(context, open, 0) == first, "device.info is not as before other instances");
}

// Device memory of one instance is separate from another instance's, and survives that instance.
void apart(const Context& context) {
  TableBlock mine(context, KEEL_MEMORY_DEVICE, kSmall);
  const std::vector<std::byte> first = random_bytes(context, 0, kSmall);
  const std::vector<std::byte> second = random_bytes(context, 1, kSmall);
  std::vector<std::byte> got(kSmall);
  const TableStream stream(context);
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, mine.at(0), first.data(), kSmall);
  const uint32_t ordinal = 0;
  {
    TableInstance gone(context);
    const TableInstance other(context);
    gone.count();
    other.count();
    const TableDevice device(context, other.get(), ordinal, kSmall);
    gone.end();
    device.write(second);
    stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), mine.at(0), kSmall);
    check_equal(got, first, "memory of one instance, after a copy by another");
    device.expect(second, "memory of another instance");
  }
  stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), mine.at(0), kSmall);
  check_equal(got, first, "memory of one instance, after another is gone");
  TableBlock more(context, KEEL_MEMORY_DEVICE, kMiB);
  mine.free();
  more.free();
}

void no_settings(const Context& context) {
  const keel_plugin& plugin = device_of(context).plugin();
  const auto taken = [&](const keel_instance_settings* settings, const char* what) {
    keel_plugin_instance* instance = nullptr;
    need(plugin.create_instance(settings, &instance), fmt::format("create_instance {}", what));
    if (instance != nullptr) plugin.destroy_instance(instance);
  };
  auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  taken(&settings, "with a count of 0 and no keys");
  const char* const none[] = {"not_to_be_read"};
  settings.keys = none;
  settings.values = none;
  taken(&settings, "with a count of 0 beside keys");
  struct {
    keel_instance_settings settings;
    std::byte newer[32];
  } longer = {};
  longer.settings.header = {sizeof(longer), KEEL_STRUCT_INSTANCE_SETTINGS, nullptr};
  std::fill(std::begin(longer.newer), std::end(longer.newer), kRedZone);
  taken(&longer.settings, "with settings of a newer version");
}

// |next| chains an extension that a plugin may skip, and one that it must understand.
void extensions(const Context& context) {
  constexpr uint32_t kUnknown = 0x3fff0001;
  const keel_plugin& plugin = device_of(context).plugin();
  keel_header optional = {sizeof(keel_header), kUnknown, nullptr};
  keel_plugin_instance* instance = nullptr;
  need(TableInstance::create(context, {}, &optional, &instance),
       "create_instance with an extension that may be skipped");
  if (instance != nullptr) plugin.destroy_instance(instance);
  const keel_header required = {sizeof(keel_header), kUnknown | KEEL_STRUCT_REQUIRED, nullptr};
  const keel_header behind = {sizeof(keel_header), kUnknown + 1, &optional};
  optional.next = &required;
  for (const keel_header* const chain :
       std::initializer_list<const keel_header*>{&required, &optional, &behind}) {
    auto* refused = static_cast<keel_plugin_instance*>(pointer_to(kUnwritten));
    check(observe_status(TableInstance::create(context, {}, chain, &refused)) != KEEL_OK,
          "create_instance takes a required extension that nobody knows");
    check_unwritten(refused, "create_instance");
  }
}

// The status and error text of a call on a new thread, without earlier texts.
struct Said {
  keel_status status = KEEL_OK;
  std::string text;
};
Said hear(const std::function<keel_status()>& call, Where where = Where::current()) {
  Said said;
  run_threads(1, [&](uint32_t) {
    said.status = call();
    said.text = PluginDevice::last_text();
  });
  said.status = observe_status(said.status, where);
  said.text = observe_text(said.text, where);
  return said;
}

void refuses(const Context& context, const std::vector<Setting>& settings,
             const std::vector<std::string>& unknown, Where where = Where::current()) {
  auto* instance = static_cast<keel_plugin_instance*>(pointer_to(kUnwritten));
  const Said said =
      hear([&] { return TableInstance::create(context, settings, nullptr, &instance); }, where);
  check(said.status == KEEL_INVALID_ARGUMENT,
        fmt::format("create_instance with an unknown setting: {}", keel_status_name(said.status)),
        where);
  check_unwritten(instance, "create_instance", where);
  check(
      std::any_of(unknown.begin(), unknown.end(),
                  [&](const std::string& key) { return said.text.find(key) != std::string::npos; }),
      "the refusal does not name the setting: " + said.text, where);
}

void unknown_settings(const Context& context) {
  const std::string one = "no_plugin_has_this_setting";
  const std::string two = "nor_this_one";
  refuses(context, {{one, "1"}}, {one});
  refuses(context, {{two, "1"}}, {two});
  refuses(context, {{one, ""}}, {one});
  refuses(context, {{one, "1"}, {two, "1"}}, {one, two});
  // Names that begin as a known name does, or differ from it by case.
  for (const char* const name :
       {"library_folder_of_nobody", "library_folder ", "library_folde", "Library_folder",
        "LIBRARY_FOLDER", "conformance1", "conformanc", "Conformance"}) {
    refuses(context, {{name, "/"}}, {name});
  }
  // After and before each setting that the plugin knows.
  for (const Setting& known :
       {Setting{"library_folder", "/keel_no_such_folder"}, Setting{"conformance", "1"}}) {
    auto* instance = static_cast<keel_plugin_instance*>(nullptr);
    if (observe_status(TableInstance::create(context, {known}, nullptr, &instance)) != KEEL_OK) {
      continue;
    }
    if (instance != nullptr) device_of(context).plugin().destroy_instance(instance);
    refuses(context, {known, {one, "1"}}, {one});
    refuses(context, {{two, "1"}, known}, {two});
  }
  const TableInstance after(context);
  check(after.count() != 0, "an instance that is made after a refusal has no devices");
}

// An instance whose settings point nowhere must not affect other instances.
void settings_apart(const Context& context) {
  keel_plugin_instance* const open = device_of(context).instance();
  const std::string wanted = info_text(context, open, 0);
  uint32_t count = 0;
  need(table_of(context).count(open, &count), "device.count");
  count = observe(count);
  keel_plugin_instance* astray = nullptr;
  if (observe_status(TableInstance::create(context, {{"library_folder", "/keel_no_such_folder"}},
                                           nullptr, &astray)) != KEEL_OK) {
    unsupported("the plugin has no library_folder");
  }
  uint32_t found = 0;
  const Said said = hear([&] {
    const keel_status status = table_of(context).count(astray, &found);
    return status;
  });
  found = observe(found);
  const TableInstance third(context);
  if (astray != nullptr) device_of(context).plugin().destroy_instance(astray);
  check(said.status == KEEL_OK, "device.count where no library is: it is 0, and no failure");
  check(found != 0 || said.text.size() >= 6, "device.count gives 0 devices and does not say why");
  check(third.count() == count, "an instance without settings has another's");
  check(info_text(context, third.get(), 0) == wanted, "device.info of an instance has another's");
  check(info_text(context, open, 0) == wanted, "device.info has changed by another instance");
}

void instance_threads(const Context& context) {
  constexpr uint32_t kThreads = 4;
  const std::string wanted = info_text(context, device_of(context).instance(), 0);
  std::array<Said, kThreads> said;
  run_threads(kThreads, [&](uint32_t index) {
    for (int round = 0; round < 3 && said[index].status == KEEL_OK; ++round) {
      keel_plugin_instance* instance = nullptr;
      uint32_t count = 0;
      auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
      keel_status status = TableInstance::create(context, {}, nullptr, &instance);
      if (status == KEEL_OK) status = table_of(context).count(instance, &count);
      if (status == KEEL_OK) status = table_of(context).info(instance, 0, &info);
      if (instance != nullptr) device_of(context).plugin().destroy_instance(instance);
      said[index] = {status, told(info)};
    }
  });
  for (Said& each : said) {
    need(each.status, "an instance on a thread of its own");
    check(observe_text(each.text) == wanted, "device.info differs on another thread");
  }
}

// ---- info -----------------------------------------------------------------------------

void info_of_each(const Context& context) {
  const TableInstance instance(context);  // none of its devices is open
  const uint32_t count = instance.count();
  check(instance.count() == count, "device.count differs from one call to the next");
  std::set<std::pair<std::vector<uint8_t>, std::string>> identities;
  for (uint32_t ordinal = 0; ordinal < std::min(count, 16U); ++ordinal) {
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    need(table_of(context).info(instance.get(), ordinal, &info), "device.info");
    const auto ends = [](std::span<const char> text) {
      return std::find(text.begin(), text.end(), '\0') != text.end();
    };
    check(observe(ends(info.name) && ends(info.architecture) && ends(info.pci_address) &&
                  ends(info.driver)),
          fmt::format("device {}: a text is not 0-terminated", ordinal));
    const std::string name = observe_text(text_of(info.name));
    check(!name.empty(), fmt::format("device {} has no name", ordinal));
    info.type = observe(info.type);
    info.alignment = observe(info.alignment);
    info.capabilities = observe(info.capabilities);
    info.memory_bytes = observe(info.memory_bytes);
    info.max_alloc_bytes = observe(info.max_alloc_bytes);
    info.numa_node = observe(info.numa_node);
    check(info.type >= KEEL_DEVICE_CPU && info.type <= KEEL_DEVICE_OTHER,
          fmt::format("device {}: type {}", ordinal, info.type));
    check(std::has_single_bit(info.alignment) && info.alignment >= 64,
          fmt::format("device {}: alignment {}", ordinal, info.alignment));
    check((info.capabilities & ~known_capabilities()) == 0,
          fmt::format("device {}: capabilities {:#x}", ordinal, info.capabilities));
    check(info.numa_node >= -1, fmt::format("device {}: numa_node {}", ordinal, info.numa_node));
    std::vector<uint8_t> uuid;
    for (const uint8_t each : info.uuid) uuid.push_back(observe(each));
    const bool is_known =
        std::any_of(uuid.begin(), uuid.end(), [](uint8_t each) { return each != 0; });
    // Two drivers of one chip tell its uuid twice.
    const std::string driver = observe_text(text_of(info.driver));
    check(!is_known || identities.emplace(uuid, driver).second,
          fmt::format("device {} has the uuid of another device", ordinal));
    check(info.memory_bytes == 0 || info.max_alloc_bytes <= info.memory_bytes,
          fmt::format("device {}: max_alloc_bytes {} of {}", ordinal, info.max_alloc_bytes,
                      info.memory_bytes));
    check(
        info_text(context, instance.get(), ordinal) == info_text(context, instance.get(), ordinal),
        fmt::format("device {}: device.info differs from one call to the next", ordinal));
    check(info_text(context, device_of(context).instance(), ordinal) ==
              info_text(context, instance.get(), ordinal),
          fmt::format("device {}: device.info differs before open and after", ordinal));
  }
}

// A caller of another version: the plugin must not write behind the caller's struct.
void info_sizes(const Context& context) {
  constexpr size_t kRoom = sizeof(keel_device_info) + 64;
  std::vector<std::byte> whole;
  for (const size_t size :
       {sizeof(keel_device_info), sizeof(keel_device_info) + 32,
        offsetof(keel_device_info, copy_alignment), offsetof(keel_device_info, max_alloc_bytes),
        offsetof(keel_device_info, type)}) {
    std::vector<std::byte> room(kRoom, kRedZone);
    std::fill_n(room.begin(), std::min(size, sizeof(keel_device_info)), std::byte{0});
    const keel_header header = {static_cast<uint32_t>(size), KEEL_STRUCT_DEVICE_INFO, nullptr};
    std::memcpy(room.data(), &header, sizeof(header));
    alignas(keel_device_info) std::array<std::byte, kRoom> aligned;
    std::copy(room.begin(), room.end(), aligned.begin());
    need(table_of(context).info(device_of(context).instance(), 0,
                                reinterpret_cast<keel_device_info*>(aligned.data())),
         fmt::format("device.info of {} bytes", size));
    observe_bytes(aligned);
    keel_header after;
    std::memcpy(&after, aligned.data(), sizeof(after));
    check(after.size == header.size && after.type == header.type && after.next == nullptr,
          "device.info has written to the header");
    const std::span<const std::byte> got(aligned);
    const size_t told_bytes = std::min(size, sizeof(keel_device_info));
    const std::vector<std::byte> red(kRoom - told_bytes, kRedZone);
    compare(got.subspan(told_bytes), red, fmt::format("behind a keel_device_info of {}", size));
    const auto members = got.subspan(sizeof(header), told_bytes - sizeof(header));
    if (whole.empty()) whole.assign(members.begin(), members.end());
    compare(members, std::span(whole).first(members.size()),
            fmt::format("in a keel_device_info of {}", size));
  }
}

// Ordinals beyond the last device.
void no_such_device(const Context& context) {
  const TableInstance instance(context);
  const uint32_t count = instance.count();
  for (const uint32_t ordinal : {count, count + 1, 1000U, 0x80000000U, UINT32_MAX}) {
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    std::memset(reinterpret_cast<std::byte*>(&info) + sizeof(info.header), 0xb7,
                sizeof(info) - sizeof(info.header));
    const std::vector<std::byte> before(std::as_bytes(std::span(&info, 1)).begin(),
                                        std::as_bytes(std::span(&info, 1)).end());
    need_be(KEEL_NOT_FOUND, table_of(context).info(instance.get(), ordinal, &info),
            fmt::format("device.info of device {} of {}", ordinal, count));
    check_equal(std::as_bytes(std::span(&info, 1)), before, "after a device.info that failed");
    auto* device = static_cast<keel_plugin_device*>(pointer_to(kUnwritten));
    check(observe_status(table_of(context).open(instance.get(), ordinal, &device)) != KEEL_OK,
          fmt::format("device.open of device {} of {}", ordinal, count));
    check_unwritten(device, "device.open");
  }
  info_text(context, instance.get(), 0);
}

// ---- open devices ---------------------------------------------------------------------

// Closing a device must release all of its process resources.
void reopen(const Context& context) {
  constexpr uint64_t kTimes = 6;
  const TableInstance instance(context);
  instance.count();
  const std::vector<std::byte> sent = random_bytes(context, 0, kSmall);
  const auto use = [&] {
    const TableDevice device(context, instance.get(), 0, kSmall);
    device.write(sent);
    device.expect(sent, "a device that was opened again");
  };
  use();
  const uint64_t descriptors = observe_entries("fd");
  const uint64_t threads = observe_entries("task");
  for (uint64_t i = 0; i < kTimes; ++i) use();
  const uint64_t descriptors_after = observe_entries("fd");
  const uint64_t threads_after = observe_entries("task");
  check(descriptors_after < descriptors + kTimes,
        fmt::format("{} descriptors, and {} after {} times open and close", descriptors,
                    descriptors_after, kTimes));
  check(threads_after < threads + kTimes,
        fmt::format("{} threads, and {} after {} times open and close", threads, threads_after,
                    kTimes));
}

void health(const Context& context) {
  if (!observe(KEEL_HAS(keel_device_table, &table_of(context), health))) {
    unsupported("there is no device.health");
  }
  for (int round = 0; round < 2; ++round) {
    auto health = KEEL_STRUCT_INIT(keel_device_health, KEEL_STRUCT_DEVICE_HEALTH);
    std::memset(health.text, 'x', sizeof(health.text));
    const keel_status status =
        observe_status(table_of(context).health(device_of(context).get(), &health));
    if (status == KEEL_UNSUPPORTED) unsupported("device.health: KEEL_UNSUPPORTED");
    need(status, "device.health");
    const bool ends = observe(std::find(health.text, health.text + sizeof(health.text), '\0') !=
                              health.text + sizeof(health.text));
    check(ends, "the text of device.health is not 0-terminated");
    const std::string text = observe_text(text_of(health.text));
    const uint32_t ok = observe(health.ok);
    const uint32_t throttled = observe(health.throttled);
    check(ok <= 1 && throttled <= 1,
          fmt::format("device.health: ok {}, throttled {}", ok, throttled));
    check(ok == 1 || !text.empty(), "device.health: not to be used, and no text that says why");
  }
}

void native_handle(const Context& context) {
  if (!observe(KEEL_HAS(keel_device_table, &table_of(context), native_handle))) {
    unsupported("there is no device.native_handle");
  }
  const auto handle = [&] {
    void* pointer = nullptr;
    const keel_status status = observe_status(
        table_of(context).native_handle(device_of(context).get(), /*which=*/0, &pointer));
    if (status == KEEL_UNSUPPORTED) unsupported("the device has no main native handle");
    need(status, "device.native_handle of the main one");
    return observe(address_of(pointer));
  };
  const uint64_t first = handle();
  check(first != 0, "device.native_handle gives NULL");
  {
    const TableBuffer memory(context, kMiB);
    const TableStream stream(context);
    check(handle() == first, "device.native_handle differs from one call to the next");
  }
  check(handle() == first, "device.native_handle differs from one call to the next");
  for (const uint32_t which : {0x4000U, UINT32_MAX}) {
    void* pointer = pointer_to(kUnwritten);
    const keel_status status =
        observe_status(table_of(context).native_handle(device_of(context).get(), which, &pointer));
    if (status != KEEL_OK) check_unwritten(pointer, "device.native_handle");
  }
}

}  // namespace

void add_device_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body, uint64_t capabilities = 0) {
    cases->push_back({"core/tables/" + id, capabilities, false, std::move(body)});
  };
  add("instance/several", several_instances);
  add("instance/apart", apart);
  add("instance/no_settings", no_settings);
  add("instance/extensions", extensions);
  add("instance/unknown_settings", unknown_settings);
  add("instance/settings_apart", settings_apart);
  add("instance/threads", instance_threads);
  add("device/info", info_of_each);
  add("device/info_sizes", info_sizes);
  add("device/no_such", no_such_device);
  add("device/reopen", reopen);
  add("device/health", health);
  add("device/native_handle", native_handle);
}

}  // namespace keel::conformance
