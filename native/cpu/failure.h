// An error on its way to the C interface: a status of statuses.def and one line of text.
#ifndef HAJAX_NATIVE_CPU_FAILURE_H_
#define HAJAX_NATIVE_CPU_FAILURE_H_

#include <stdint.h>

#include <string>

#include "native/cpu/lists.h"

namespace hajax::cpu {

struct Failure {
  Status status = kStatus_ok;
  std::string text;
  bool failed() const { return status != kStatus_ok; }
};

// "plan: key_dim: expected a multiple of 8 in 8..256, got 12"
inline Failure wrong(Status status, const char* where, const std::string& field, const std::string& expected,
                     const std::string& got) {
  return {status, std::string(where) + ": " + field + ": expected " + expected + ", got " + got};
}

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_FAILURE_H_
