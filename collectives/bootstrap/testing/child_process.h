// SPDX-License-Identifier: Apache-2.0
// Tests of several processes: the test program, started once more as a worker.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TESTING_CHILD_PROCESS_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TESTING_CHILD_PROCESS_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "collectives/bootstrap/file_descriptor.h"

namespace keel::testing {

// What a worker does with its arguments; the result is its exit status. The test program
// defines workers(), and child_process.cc has its main.
using Worker = int (*)(const std::vector<std::string>& arguments);
const std::map<std::string, Worker>& workers();

// One worker. It reads what is written to it as its standard input, and what it prints is
// read here. Killed, if it still runs, and reaped at the end. Not thread-safe.
class ChildProcess {
 public:
  ChildProcess(const std::string& worker, const std::vector<std::string>& arguments);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Without its end; what there is, if it ends or says nothing for 60 s.
  std::string read_line();
  void write_line(const std::string& line);
  void kill();
  // Exit status, 128 + signal, or -1 if it runs on for 60 s.
  int wait();

 private:
  pid_t pid_ = -1;
  FileDescriptor input_;
  FileDescriptor output_;
};

// For workers: prints a line at once.
void say(const std::string& line);
// For workers: the next line of standard input.
std::string hear();

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TESTING_CHILD_PROCESS_H_
