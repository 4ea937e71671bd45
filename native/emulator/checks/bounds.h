// Checks that need no order: every byte lies in its memory, addresses are aligned, operands of a vector instruction are
// the same or disjoint. Each returns what is wrong, or "".
#ifndef HAJAX_NATIVE_EMULATOR_CHECKS_BOUNDS_H_
#define HAJAX_NATIVE_EMULATOR_CHECKS_BOUNDS_H_

#include <stdint.h>

#include <map>
#include <string>

#include "native/emulator/core/gm.h"
#include "native/emulator/core/issue.h"

namespace hajax::emulator {

std::string check_alignment(const Access& access, int64_t start);

// A core's own memory of `size` bytes.
std::string check_bounds(const Issue& what, const Access& access, int64_t start, int64_t size);

// Buffers by offset, with their bytes: an access that starts in one ends in it.
std::string check_buffer(const Issue& what, const Access& access, int64_t start,
                         const std::map<int64_t, int64_t>& buffers);

// GM: all bytes of an access lie in one live allocation; *block is the one looked at last.
std::string check_gm_bounds(const Issue& what, const Access& access, int64_t start, const Gm& gm, Gm::Block* block);

// Within a repeat, and from a repeat's destination to the source of a later one.
std::string check_overlap(const Issue& what);

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CHECKS_BOUNDS_H_
