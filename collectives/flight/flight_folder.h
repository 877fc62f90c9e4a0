// SPDX-License-Identifier: Apache-2.0
// The folder of the flight recorders' files, which other processes of the user share.
#ifndef KEEL_COLLECTIVES_FLIGHT_FLIGHT_FOLDER_H_
#define KEEL_COLLECTIVES_FLIGHT_FLIGHT_FOLDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectives/bootstrap/file_descriptor.h"
#include "core/status.h"

namespace keel {

// $KEEL_FLIGHT_DIR, else /dev/shm/keel-<uid>.
std::string flight_folder();
// Creates it with mode 0700 where it is missing. KEEL_PERMISSION_DENIED for what is no real
// directory, belongs to somebody else or may be written by others: file names in it could
// then be links to anywhere.
Status open_flight_folder(const std::string& path, FileDescriptor* out_folder);

// The living hold a lock on their file, which ends with them however they end: process
// numbers are used again, and mean something else in every container.
// False where the file system has no locks.
bool lock_flight(int file);
// |pid|: whom to ask for where the file system has no locks.
bool is_flight_alive(int file, int32_t pid);

// "flight-<pid>-<n>"; false, and nothing written, for other names.
bool parse_flight_name(const std::string& name, int32_t* out_pid);
// Of all processes, or of |pid| alone if that is not 0; sorted. Names, without the folder.
std::vector<std::string> list_flights(int folder, int32_t pid = 0);

// Removes what was left by processes that died more than a day ago, and beyond the newest
// 256. A file's day begins when it is first seen dead.
void clean_flights(int folder);
// The same, unless this process did so in this folder less than a minute ago: each look is some
// 3 us a file, and 1,024 ranks that start at once would have a million looks.
void clean_flights_at_times(int folder, const std::string& path);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_FLIGHT_FLIGHT_FOLDER_H_
