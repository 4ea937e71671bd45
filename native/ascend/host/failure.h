// An error on its way to the C interface: a status of statuses.def and one line of text.
#ifndef HAJAX_NATIVE_ASCEND_HOST_FAILURE_H_
#define HAJAX_NATIVE_ASCEND_HOST_FAILURE_H_

#include <stdint.h>

#include <string>

#include "native/ascend/host/lists.h"

namespace hajax::ascend::host {

struct Failure {
  Status status = kStatus_ok;
  std::string text;
  bool failed() const { return status != kStatus_ok; }
};

// "plan: key_dim: expected a multiple of 16 in 16..1024, got 12"
inline Failure wrong(Status status, const std::string& where, const std::string& field, const std::string& expected,
                     const std::string& got) {
  return {status, where + ": " + field + ": expected " + expected + ", got " + got};
}

inline Failure bad_plan(const std::string& field, const std::string& expected, const std::string& got) {
  return wrong(kStatus_bad_plan, "plan", field, expected, got);
}
inline Failure bad_plan(const std::string& field, const std::string& expected, int64_t got) {
  return bad_plan(field, expected, std::to_string(got));
}

inline Failure bad_call(const std::string& field, const std::string& expected, const std::string& got) {
  return wrong(kStatus_bad_call, "call", field, expected, got);
}
inline Failure bad_call(const std::string& field, const std::string& expected, int64_t got) {
  return bad_call(field, expected, std::to_string(got));
}

inline std::string range_text(int64_t low, int64_t high) { return std::to_string(low) + ".." + std::to_string(high); }

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_FAILURE_H_
