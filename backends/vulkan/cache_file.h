// SPDX-License-Identifier: Apache-2.0
// A file of cached bytes under the user's cache folder.
#ifndef KEEL_BACKENDS_VULKAN_CACHE_FILE_H_
#define KEEL_BACKENDS_VULKAN_CACHE_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace keel::vulkan {

// $XDG_CACHE_HOME/keel/NAME or ~/.cache/keel/NAME; empty where the user has neither.
std::string cache_file_path(const std::string& name);

// The bytes of the file; empty when it is not there or cannot be read whole.
std::vector<uint8_t> read_cache_file(const std::string& path);

// Writes a temporary file beside |path| and renames it, so that a reader sees the
// old bytes or the new ones. A failure leaves the old file and is no error: the
// cache is only a cache.
void write_cache_file(const std::string& path, const std::vector<uint8_t>& bytes);

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_CACHE_FILE_H_
