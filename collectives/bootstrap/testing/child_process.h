// SPDX-License-Identifier: Apache-2.0
// Multi-process tests: the test program starts itself again as a worker.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TESTING_CHILD_PROCESS_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TESTING_CHILD_PROCESS_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "base/ipc/process.h"

namespace keel::testing {

// A worker's body: takes the worker's arguments and returns the exit status. The test program
// defines workers(); child_process.cc defines main().
using Worker = int (*)(const std::vector<std::string>& arguments);
const std::map<std::string, Worker>& workers();

// One worker process. write_line() feeds its standard input, read_line() reads its standard output.
// The destructor kills a running worker and reaps it. Not thread-safe.
class ChildProcess {
 public:
  ChildProcess(const std::string& worker, const std::vector<std::string>& arguments);

  pid_t pid() const { return process_.pid(); }
  // Returns a line without its newline, or the text so far when the output ends or pauses for 60 s.
  std::string read_line();
  void write_line(const std::string& line);
  void kill();
  // Returns the exit status, 128 + signal, or -1 if the worker still runs after 60 s.
  int wait();

 private:
  Process process_;
};

// For workers: prints a line and flushes.
void say(const std::string& line);
// For workers: returns the next line of standard input.
std::string hear();

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TESTING_CHILD_PROCESS_H_
