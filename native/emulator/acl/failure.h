// How the runtime's own code reports that a call cannot be done: thrown inside, a return code and a text outside.
#ifndef HAJAX_NATIVE_EMULATOR_ACL_FAILURE_H_
#define HAJAX_NATIVE_EMULATOR_ACL_FAILURE_H_

#include <string>

#include "native/emulator/acl/include/acl/acl_base.h"

namespace hajax::emulator::acl {

struct Failure {
  aclError code;
  std::string text;
};

// "0x7f..." of a pointer or handle.
std::string hex(const void* pointer);

}  // namespace hajax::emulator::acl

#endif  // HAJAX_NATIVE_EMULATOR_ACL_FAILURE_H_
