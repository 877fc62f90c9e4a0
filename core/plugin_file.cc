// SPDX-License-Identifier: Apache-2.0
#include "core/plugin_file.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/ipc/file_descriptor.h"
#include "core/pinned_library.h"
#include "core/validation/call_notes.h"

namespace keel {

namespace {

std::string errno_text(int error) {
  std::array<char, 128> buffer{};
  return strerror_r(error, buffer.data(), buffer.size());
}

// Only root and the user may write to the file of |fd|, and the group of the process: distributions
// with a group per user create group-writable files by default.
Status check_owner(int fd, const std::string& path) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) {
    return failure(KEEL_PERMISSION_DENIED, "plugin {}: {}", path, errno_text(errno));
  }
  if (info.st_uid != 0 && info.st_uid != geteuid()) {
    return failure(KEEL_PERMISSION_DENIED, "plugin {}: belongs to uid {}, neither root nor you",
                   path, info.st_uid);
  }
  if ((info.st_mode & S_IWOTH) != 0) {
    return failure(KEEL_PERMISSION_DENIED, "plugin {}: writable by others (mode {:o})", path,
                   info.st_mode & 07777);
  }
  if ((info.st_mode & S_IWGRP) != 0 && info.st_gid != 0 && info.st_gid != getegid()) {
    return failure(KEEL_PERMISSION_DENIED, "plugin {}: writable by group {} (mode {:o})", path,
                   info.st_gid, info.st_mode & 07777);
  }
  return {};
}

Status check_digest(const std::string& digest, const std::string& path, const char* wanted) {
  if (strcasecmp(digest.c_str(), wanted) == 0) return {};
  return failure(KEEL_PERMISSION_DENIED, "plugin {}: SHA-256 is {}, pinned to {}", path, digest,
                 wanted);
}

template <typename Table>
Status check_table(const char* name, const Table* table, uint32_t type, size_t minimum,
                   const std::string& path) {
  if (table == nullptr) {
    return failure(KEEL_INVALID_ARGUMENT, "plugin {}: the {} table is missing", path, name);
  }
  if (table->header.type != type) {
    return failure(KEEL_INVALID_ARGUMENT, "plugin {}: the {} table has struct type {}, not {}",
                   path, name, table->header.type, type);
  }
  if (table->header.size < minimum) {
    return failure(KEEL_INVALID_ARGUMENT, "plugin {}: the {} table has {} bytes, needs {}", path,
                   name, table->header.size, minimum);
  }
  for (auto* link = static_cast<const keel_header*>(table->header.next); link != nullptr;
       link = static_cast<const keel_header*>(link->next)) {
    if ((link->type & KEEL_STRUCT_REQUIRED) != 0) {
      return failure(KEEL_UNSUPPORTED, "plugin {}: the {} table requires unknown extension {}",
                     path, name, link->type & ~KEEL_STRUCT_REQUIRED);
    }
  }
  return {};
}

#define KEEL_REQUIRE_SLOT(table_name, table, slot)                                        \
  if ((table)->slot == nullptr) {                                                         \
    return failure(KEEL_INVALID_ARGUMENT, "plugin {}: required slot {}.{} is NULL", path, \
                   table_name, #slot);                                                    \
  }

bool is_plugin_name(const char* name) {
  if (name == nullptr || name[0] < 'a' || name[0] > 'z' || std::strlen(name) >= 32) return false;
  return std::all_of(name, name + std::strlen(name), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Status check_plugin(const keel_plugin* plugin, const std::string& path) {
  // The smallest sizes: up to and including the last required slot.
  constexpr size_t kPlugin = offsetof(keel_plugin, ccl) + sizeof(void*);
  constexpr size_t kDevice = offsetof(keel_device_table, close) + sizeof(void*);
  constexpr size_t kMemory = offsetof(keel_memory_table, free) + sizeof(void*);
  constexpr size_t kStream = offsetof(keel_stream_table, stream_wait_event) + sizeof(void*);
  KEEL_RETURN_IF_ERROR(check_table("plugin", plugin, KEEL_STRUCT_PLUGIN, kPlugin, path));
  if (plugin->abi_major != KEEL_ABI_MAJOR) {
    return failure(KEEL_UNSUPPORTED, "plugin {}: ABI major {}, this Keel has {}", path,
                   plugin->abi_major, KEEL_ABI_MAJOR);
  }
  if (!is_plugin_name(plugin->name)) {
    return failure(KEEL_INVALID_ARGUMENT, "plugin {}: name '{}' is not [a-z][a-z0-9_]*", path,
                   plugin->name == nullptr ? "NULL" : plugin->name);
  }
  KEEL_REQUIRE_SLOT("plugin", plugin, create_instance)
  KEEL_REQUIRE_SLOT("plugin", plugin, destroy_instance)
  KEEL_RETURN_IF_ERROR(
      check_table("device", plugin->device, KEEL_STRUCT_DEVICE_TABLE, kDevice, path));
  KEEL_REQUIRE_SLOT("device", plugin->device, count)
  KEEL_REQUIRE_SLOT("device", plugin->device, info)
  KEEL_REQUIRE_SLOT("device", plugin->device, open)
  KEEL_REQUIRE_SLOT("device", plugin->device, close)
  if (plugin->memory != nullptr || plugin->stream != nullptr) {
    KEEL_RETURN_IF_ERROR(
        check_table("memory", plugin->memory, KEEL_STRUCT_MEMORY_TABLE, kMemory, path));
    KEEL_REQUIRE_SLOT("memory", plugin->memory, alloc)
    KEEL_REQUIRE_SLOT("memory", plugin->memory, free)
    KEEL_RETURN_IF_ERROR(
        check_table("stream", plugin->stream, KEEL_STRUCT_STREAM_TABLE, kStream, path));
    KEEL_REQUIRE_SLOT("stream", plugin->stream, create)
    KEEL_REQUIRE_SLOT("stream", plugin->stream, destroy)
    KEEL_REQUIRE_SLOT("stream", plugin->stream, copy)
    KEEL_REQUIRE_SLOT("stream", plugin->stream, event_create)
    KEEL_REQUIRE_SLOT("stream", plugin->stream, event_destroy)
    KEEL_REQUIRE_SLOT("stream", plugin->stream, event_record)
    KEEL_REQUIRE_SLOT("stream", plugin->stream, event_query)
    KEEL_REQUIRE_SLOT("stream", plugin->stream, stream_wait_event)
  }
  if (plugin->kernel != nullptr) {
    KEEL_RETURN_IF_ERROR(check_table("kernel", plugin->kernel, KEEL_STRUCT_KERNEL_TABLE,
                                     sizeof(keel_kernel_table), path));
    KEEL_REQUIRE_SLOT("kernel", plugin->kernel, load)
    KEEL_REQUIRE_SLOT("kernel", plugin->kernel, unload)
    KEEL_REQUIRE_SLOT("kernel", plugin->kernel, find)
    KEEL_REQUIRE_SLOT("kernel", plugin->kernel, launch)
  }
  if (plugin->op != nullptr) {
    KEEL_RETURN_IF_ERROR(
        check_table("op", plugin->op, KEEL_STRUCT_OP_TABLE, sizeof(keel_op_table), path));
    KEEL_REQUIRE_SLOT("op", plugin->op, query)
    KEEL_REQUIRE_SLOT("op", plugin->op, run)
  }
  return {};
}

Status open_by_name(const std::string& name, const std::string& path, void** out_library,
                    bool* out_uses_origin) {
  *out_library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  *out_uses_origin = *out_library != nullptr;
  if (*out_library != nullptr) return {};
  const char* why = dlerror();
  return failure(KEEL_UNAVAILABLE, "plugin {}: {}", path, why == nullptr ? "dlopen failed" : why);
}

// Queries the loaded |library| for the plugin's tables and checks them.
Status query_plugin(void* library, const keel_host* host, const std::string& path,
                    const keel_plugin** out_plugin) {
  void* symbol = dlsym(library, KEEL_PLUGIN_QUERY_SYMBOL);
  if (symbol == nullptr) {
    return failure(KEEL_INVALID_ARGUMENT, "plugin {}: exports no {}", path,
                   KEEL_PLUGIN_QUERY_SYMBOL);
  }
  keel_plugin_query_fn query = nullptr;
  std::memcpy(&query, &symbol, sizeof(query));
  const keel_plugin* plugin = nullptr;
  keel_status code = KEEL_OK;
  {
    const validation::CallNote note(KEEL_PLUGIN_QUERY_SYMBOL);
    code = query(host, &plugin);
  }
  if (code != KEEL_OK) {
    return failure(code, "plugin {}: query failed with {}: {}", path, status_name(code),
                   take_plugin_text());
  }
  KEEL_RETURN_IF_ERROR(check_plugin(plugin, path));
  *out_plugin = plugin;
  return {};
}

}  // namespace

const char* trusted_environment(const char* name) {
  return secure_getenv(name);
}

Status load_plugin_file(const char* path, const char* sha256, const keel_host* host,
                        PluginFile* out_file) {
  if (path == nullptr) return failure(KEEL_INVALID_ARGUMENT, "path is NULL");
  if (path[0] != '/') {
    return failure(KEEL_INVALID_ARGUMENT, "plugin {}: the path must be absolute", path);
  }
  if (sha256 != nullptr && std::strlen(sha256) != 64) {
    return failure(KEEL_INVALID_ARGUMENT, "sha256 has {} characters, needs 64",
                   std::strlen(sha256));
  }
  std::unique_ptr<char, decltype(&std::free)> resolved(realpath(path, nullptr), std::free);
  if (!resolved) {
    const keel_status code = errno == ENOENT ? KEEL_NOT_FOUND : KEEL_PERMISSION_DENIED;
    return failure(code, "plugin {}: {}", path, errno_text(errno));
  }
  const std::string file = resolved.get();
  const size_t slash = file.rfind('/');
  const std::string folder = slash == 0 ? "/" : file.substr(0, slash);

  FileDescriptor folder_fd(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder_fd.get() < 0) {
    return failure(KEEL_PERMISSION_DENIED, "plugin {}: {}", folder, errno_text(errno));
  }
  KEEL_RETURN_IF_ERROR(check_owner(folder_fd.get(), folder));
  FileDescriptor file_fd(openat(folder_fd.get(), file.c_str() + slash + 1,
                                O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file_fd.get() < 0) {
    return failure(KEEL_PERMISSION_DENIED, "plugin {}: {}", file, errno_text(errno));
  }
  struct stat info = {};
  if (fstat(file_fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return failure(KEEL_INVALID_ARGUMENT, "plugin {}: not a regular file", file);
  }
  KEEL_RETURN_IF_ERROR(check_owner(file_fd.get(), file));
  struct stat folder_info = {};
  if (fstat(folder_fd.get(), &folder_info) != 0) {
    return failure(KEEL_PERMISSION_DENIED, "plugin {}: {}", folder, errno_text(errno));
  }
  PinnedLibrary pinned;
  std::string digest;
  if (sha256 != nullptr) {
    KEEL_RETURN_IF_ERROR(pinned.read(file_fd.get(), file));
    KEEL_RETURN_IF_ERROR(pinned.sha256(&digest));
    KEEL_RETURN_IF_ERROR(check_digest(digest, file, sha256));
  }

  struct Library {
    void* handle = nullptr;
    const keel_plugin* plugin = nullptr;  // set once the tables passed the checks
  };
  struct Loaded {
    std::mutex mutex;
    // By inode; while a file is loaded, its inode is not reused.
    std::map<std::pair<dev_t, ino_t>, Library> files;
    // By digest and by folder, since the folder may hold needed libraries.
    std::map<std::tuple<dev_t, ino_t, std::string>, Library> pinned;
  };
  static auto& loaded = *new Loaded;
  std::lock_guard lock(loaded.mutex);
  Library& library = sha256 == nullptr
                         ? loaded.files[{info.st_dev, info.st_ino}]
                         : loaded.pinned[{folder_info.st_dev, folder_info.st_ino, digest}];
  if (library.handle == nullptr) {
    // Through the folder's descriptor and not the file's, so that $ORIGIN in the plugin's search
    // path is its folder. The dynamic loader remembers every library by the name passed to dlopen,
    // so the descriptor stays open for good: its number must never name another folder. A debugger
    // finds no symbols by such a name; KEEL_PLUGINS_BY_PATH=1 selects the real path for debugging.
    const char* const by_path = trusted_environment("KEEL_PLUGINS_BY_PATH");
    const std::string origin = by_path != nullptr && std::strcmp(by_path, "1") == 0
                                   ? folder
                                   : fmt::format("/proc/self/fd/{}", folder_fd.get());
    bool uses_origin = false;
    const Status opened = sha256 == nullptr ? open_by_name(origin + file.substr(slash), file,
                                                           &library.handle, &uses_origin)
                                            : pinned.open(origin, &library.handle, &uses_origin);
    if (uses_origin) (void)folder_fd.release();
    KEEL_RETURN_IF_ERROR(opened);
  }
  if (library.plugin == nullptr) {
    KEEL_RETURN_IF_ERROR(query_plugin(library.handle, host, file, &library.plugin));
  }
  *out_file = {file, library.plugin};
  return {};
}

Status list_plugin_files(const std::string& folder, std::vector<std::string>* out_paths) {
  out_paths->clear();
  if (folder.empty() || folder[0] != '/') {
    return failure(KEEL_INVALID_ARGUMENT, "plugin folder '{}': the path must be absolute", folder);
  }
  const auto close_folder = [](DIR* open_folder) { closedir(open_folder); };
  const std::unique_ptr<DIR, decltype(close_folder)> listing(opendir(folder.c_str()));
  if (!listing) return failure(KEEL_NOT_FOUND, "plugin folder {}: {}", folder, errno_text(errno));
  while (const dirent* entry = readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name.starts_with("libkeel_") && name.ends_with(".so")) {
      out_paths->push_back(fmt::format("{}/{}", folder, name));
    }
  }
  std::sort(out_paths->begin(), out_paths->end());
  return {};
}

}  // namespace keel
