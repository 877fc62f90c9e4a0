// SPDX-License-Identifier: Apache-2.0
// Opening a plugin file so that nobody but root and the user can have chosen what
// is loaded.
#ifndef KEEL_CORE_PLUGIN_FILE_H_
#define KEEL_CORE_PLUGIN_FILE_H_

#include <string>
#include <vector>

#include "core/status.h"

namespace keel {

// A plugin library that passed the checks and is loaded; never unloaded, since SDKs
// leave threads and exit handlers behind.
struct PluginFile {
  std::string path;  // resolved
  const keel_plugin* plugin = nullptr;
};

// Loads the plugin at |path| and asks it for its tables. Refused, with the reason:
//  - a relative path; a file that is not regular;
//  - a file, or a folder that holds it, that does not belong to root or the user,
//    or that others may write (a group other than the user's own counts as others);
//  - contents that differ from |sha256| (64 hex digits; NULL: any);
//  - no keel_plugin_query_v0, another ABI major, a struct too small, a required
//    table or slot missing, an unknown required extension, a name that is none.
// The folder is opened once, and the file checked and loaded through that descriptor: whoever
// could put another file in its place meanwhile may write to the folder, and is root or the
// user. The same file loaded twice gives the same tables.
// With |sha256| the file may be replaced or written to meanwhile by those, too: what is loaded is
// the copy whose digest was checked (PinnedLibrary). The digest covers this one file, not the
// libraries that it needs. The same contents pinned twice in one folder give the same tables;
// loaded with a pin and without, they are two libraries.
Status load_plugin_file(const char* path, const char* sha256, const keel_host* host,
                        PluginFile* out_file);

// The plugin files libkeel_*.so in |folder|, sorted; empty with a failure where it
// cannot be read.
Status list_plugin_files(const std::string& folder, std::vector<std::string>* out_paths);

// The environment variable |name|; NULL when it is not set, or when the process
// gained privileges by its start (AT_SECURE) and must not trust it.
const char* trusted_environment(const char* name);

}  // namespace keel

#endif  // KEEL_CORE_PLUGIN_FILE_H_
