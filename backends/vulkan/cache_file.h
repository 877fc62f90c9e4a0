// SPDX-License-Identifier: Apache-2.0
// A file of cached bytes under the user's cache folder.
#ifndef KEEL_BACKENDS_VULKAN_CACHE_FILE_H_
#define KEEL_BACKENDS_VULKAN_CACHE_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace keel::vulkan {

// Returns $XDG_CACHE_HOME/keel/NAME or ~/.cache/keel/NAME; empty if the user has neither folder.
std::string cache_file_path(const std::string& name);

// Returns the bytes of the file; empty if the file does not exist or cannot be read completely.
std::vector<uint8_t> read_cache_file(const std::string& path);

// Writes a temporary file beside |path| and renames it, so that a reader sees either the old or the
// new bytes. A failure keeps the old file and is not reported: a missing cache costs only time.
void write_cache_file(const std::string& path, const std::vector<uint8_t>& bytes);

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_CACHE_FILE_H_
