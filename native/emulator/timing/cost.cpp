#include "native/emulator/timing/cost.h"

namespace hajax::emulator {

bool reads_gm(Path path) {
  return path == Path::gm_to_l1 || path == Path::gm_to_ub || path == Path::gm_to_l0a || path == Path::gm_to_l0b ||
         path == Path::gm_to_s;
}

bool writes_gm(Path path) { return path == Path::ub_to_gm || path == Path::s_to_gm; }

bool uses_gm(Path path) { return reads_gm(path) || writes_gm(path); }

double path_rate(const hj_target& target, Path path, bool in_l2) {
  switch (path) {
    case Path::gm_to_l1:
    case Path::gm_to_ub:
    case Path::gm_to_l0a:
    case Path::gm_to_l0b:
    case Path::gm_to_s:
      return in_l2 ? target.gm_l2_read_rate * target.sustained_share : target.gm_ddr_read_rate;
    case Path::ub_to_gm:
    case Path::s_to_gm:
      return in_l2 ? target.gm_l2_write_rate * target.sustained_share : target.gm_ddr_write_rate;
    case Path::ub_to_l1:
      return target.ub_to_l1_rate * target.sustained_share;
    case Path::l1_to_ub:
      return target.l1_to_ub_rate * target.sustained_share;
    case Path::l1_to_l0a:
      return target.l1_to_l0a_rate;
    case Path::l1_to_l0b:
      return target.l1_to_l0b_rate;
    case Path::l0c_to_ub:
      return target.l0c_to_ub_rate;
    case Path::ub_to_l0c:
      return target.ub_to_l0c_rate;
    case Path::ub_to_ub:
      return target.ub_to_ub_rate;
    case Path::none:
      break;
  }
  return 0;
}

double instruction_cycles(const hj_target& target, Instruction instruction, int64_t units, int64_t bytes, Path path,
                          int64_t missed) {
  // The scalar unit waits for its own accesses; it moves a few bytes, so only the way counts.
  if (path == Path::gm_to_s || path == Path::s_to_gm) return target.scalar_gm_cycles;
  const hj_cost& cost = target.cost[static_cast<int>(instruction)];
  if (path == Path::none) return cost.start + cost.per_unit * static_cast<double>(units);
  double cycles = cost.start + static_cast<double>(bytes - missed) / path_rate(target, path, true);
  if (missed != 0) cycles += static_cast<double>(missed) / path_rate(target, path, false);
  return cycles;
}

double instruction_latency(const hj_target& target, Instruction instruction, Path path) {
  if (instruction == Instruction::mad) return target.cube_latency;
  switch (path) {
    case Path::gm_to_l1:
    case Path::gm_to_ub:
    case Path::gm_to_l0a:
    case Path::gm_to_l0b:
      return target.gm_read_latency;
    case Path::ub_to_gm:
      return target.gm_write_latency;
    case Path::ub_to_l1:
    case Path::l1_to_ub:
    case Path::l1_to_l0a:
    case Path::l1_to_l0b:
      return target.l1_latency;
    default:
      return 0;
  }
}

}  // namespace hajax::emulator
