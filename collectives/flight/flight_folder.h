// SPDX-License-Identifier: Apache-2.0
// The folder of the flight recorders' files, shared by all processes of the user.
#ifndef KEEL_COLLECTIVES_FLIGHT_FLIGHT_FOLDER_H_
#define KEEL_COLLECTIVES_FLIGHT_FLIGHT_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ipc/file_descriptor.h"
#include "core/status.h"

namespace keel {

// $KEEL_FLIGHT_DIR, else /dev/shm/keel-<uid>.
std::string flight_folder();
// Opens |path|, creating a missing folder with mode 0700. Returns KEEL_PERMISSION_DENIED if |path|
// is not a real directory, belongs to another user or is writable by group or others: a file name
// in the folder could then be a link to any file.
Status open_flight_folder(const std::string& path, FileDescriptor* out_folder);

// Locks the recorder's file for the life of this process. The kernel drops the lock however the
// process ends, whereas process ids are reused and differ between containers. Returns false if the
// file system has no locks.
bool lock_flight(int file);
// Whether a process holds the lock. Returns nullopt if the file system has no locks.
std::optional<bool> is_flight_locked(int file);
// Whether process |pid| of this pid namespace exists. Consulted only if the file system has no
// locks.
bool does_process_exist(int32_t pid);

// File name "flight-<host>-<pid>-<n>". The host keeps apart the files of several hosts and
// containers in one folder: in each container the first process may have pid 7.
struct FlightName {
  uint32_t host = 0;  // 8 hexadecimal digits
  int32_t pid = 0;
  uint32_t number = 0;

  // |host| of this process: a hash of the boot id, the pid namespace and host_name().
  static uint32_t this_host();
  // Returns nullopt for a name of another form.
  static std::optional<FlightName> parse(const std::string& name);
  std::string text() const;
};
// Sorted file names, without the folder, of all processes, or of |pid| alone if |pid| is not 0.
std::vector<std::string> list_flights(int folder, int32_t pid = 0);

// Removes files of processes that died more than a day ago, and files of dead processes beyond the
// newest 256. The day begins when a process first finds the file's owner dead: once no process
// holds the lock, or, of another machine's file, 30 days after the file was created.
void clean_flights(int folder);
// Calls clean_flights() unless this process cleaned the same folder less than a minute ago. A scan
// costs some 3 us per file, so 1,024 ranks that start at the same time would examine a million
// files.
void clean_flights_at_times(int folder, const std::string& path);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_FLIGHT_FLIGHT_FOLDER_H_
