// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TESTING_VARIABLE_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TESTING_VARIABLE_H_

#include <stdlib.h>

#include <string>

namespace keel::testing {

// Sets an environment variable for the life of the object, also for processes that start meanwhile.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TESTING_VARIABLE_H_
