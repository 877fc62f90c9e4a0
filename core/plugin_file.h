// SPDX-License-Identifier: Apache-2.0
// Opens a plugin file; only root and the user can have chosen the code that is loaded.
#ifndef KEEL_CORE_PLUGIN_FILE_H_
#define KEEL_CORE_PLUGIN_FILE_H_

#include <string>
#include <vector>

#include "core/status.h"

namespace keel {

// A plugin library that passed the checks and is loaded; never unloaded, since SDKs leave threads
// and exit handlers behind.
struct PluginFile {
  std::string path;  // resolved
  const keel_plugin* plugin = nullptr;
};

// Loads the plugin at |path| and queries its tables. Fails, with the reason, for
//  - a relative path; a file other than a regular file;
//  - a file or its folder with an owner other than root or the user, or writable by others
//    (a group other than root's and the process's own counts as others);
//  - contents whose SHA-256 is not |sha256| (64 hex digits; NULL: any);
//  - no keel_plugin_query_v0, another ABI major, a struct too small, a missing required table
//    or slot, an unknown required extension, an invalid plugin name.
// The folder is opened once, and the file is checked and loaded through that descriptor: a process
// able to replace the file meanwhile may write to the folder, and so runs as root or the user.
// Loading the same file twice returns the same tables.
//
// With |sha256|, root and the user may also replace or write to the file meanwhile: the loaded
// library is the copy with the checked digest (PinnedLibrary). The digest covers this one file, not
// the libraries needed by it. The same contents pinned twice in one folder return the same tables;
// loaded with and without a pin, they are two libraries.
Status load_plugin_file(const char* path, const char* sha256, const keel_host* host,
                        PluginFile* out_file);

// Lists the plugin files libkeel_*.so in |folder|, sorted; empty, with a failure, if the folder
// cannot be read.
Status list_plugin_files(const std::string& folder, std::vector<std::string>* out_paths);

// Returns the environment variable |name|; NULL if unset, or if the process gained privileges at
// start (AT_SECURE) and must not trust its environment.
const char* trusted_environment(const char* name);

}  // namespace keel

#endif  // KEEL_CORE_PLUGIN_FILE_H_
