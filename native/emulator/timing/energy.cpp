#include "native/emulator/timing/energy.h"

namespace hajax::emulator {
namespace {

// What a byte costs at the end of a path that lies in the core; GM's end is counted by the clock, which knows of L2.
double end_picojoules(const hj_target& target, Space space) {
  switch (space) {
    case Space::L1:
      return target.pj_per_l1_byte;
    case Space::L0A:
    case Space::L0B:
    case Space::L0C:
      return target.pj_per_l0_byte;
    case Space::UB:
      return target.pj_per_ub_byte;
    case Space::GM:
      break;
  }
  return 0;
}

}  // namespace

double core_picojoules(const hj_target& target, const CoreCounts& counts) {
  double sum = target.pj_per_mac * static_cast<double>(counts.counts[static_cast<int>(Count::macs)]) +
               target.pj_per_vector_lane * static_cast<double>(counts.counts[static_cast<int>(Count::vector_lanes)]);
#define PATH(number, name, from, to, meaning)                                        \
  sum += (end_picojoules(target, Space::from) + end_picojoules(target, Space::to)) * \
         static_cast<double>(counts.path_bytes[number]);
#include "hajax/abi/paths.def"
#undef PATH
  return sum;
}

double memory_picojoules(const hj_target& target, int64_t l2_bytes, int64_t ddr_bytes) {
  return target.pj_per_l2_byte * static_cast<double>(l2_bytes) +
         target.pj_per_ddr_byte * static_cast<double>(ddr_bytes);
}

}  // namespace hajax::emulator
