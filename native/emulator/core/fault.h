// An error that a check found, as a type with fields; turned into text in one place (fault.cpp).
#ifndef HAJAX_NATIVE_EMULATOR_CORE_FAULT_H_
#define HAJAX_NATIVE_EMULATOR_CORE_FAULT_H_

#include <stdint.h>

#include <exception>
#include <string>

#include "native/emulator/core/lists.h"

namespace hajax::emulator {

// One instruction as a message names it.
struct Place {
  Instruction instruction = Instruction::scalar_load;
  Pipe pipe = Pipe::S;
  uint64_t number = 0;          // of its pipe, from 1; 0: none
  const void* where = nullptr;  // return address into the kernel's code
  uint32_t step = 0;            // number_step's, 0: none
  bool known = false;
};

struct Fault {
  Check check = Check::launch;
  std::string kernel;
  int core = -1;
  std::string step;  // what the kernel last named with hajax_sim_step, if anything
  Place at;
  Place other;       // the earlier of two accesses
  std::string text;  // what happened, with operand, space, address and sizes
};

// "race: kernel k, core 0, MTE3 instruction 4 (copy_ubuf_to_gm) at add.cpp:31: ... \n  hint: ..."
std::string describe(const Fault& fault);

// "0/12" of a number that number_step has made.
inline std::string step_text(uint32_t step) {
  constexpr uint32_t kBits = 16;
  return std::to_string(step >> kBits) + "/" + std::to_string((step & ((1U << kBits) - 1)) - 1);
}

// File and line of a return address, "" when the code has no debug information or no addr2line is there.
std::string source_line(const void* where);

class FaultError : public std::exception {
 public:
  explicit FaultError(Fault fault) : fault_(static_cast<Fault&&>(fault)) {}
  const char* what() const noexcept override { return fault_.text.c_str(); }
  const Fault& fault() const { return fault_; }

 private:
  Fault fault_;
};

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CORE_FAULT_H_
