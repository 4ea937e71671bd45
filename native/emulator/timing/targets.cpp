#include "native/emulator/timing/targets.h"

#include <string.h>

#include "native/emulator/core/lists.h"

namespace hajax::emulator {
namespace {

enum class Status { documented, profiled, borrowed, assumed };

struct Chip {
  const char* name;
  hj_target target;
  bool costed[HJ_INSTRUCTIONS];
};

// Every instruction of the list has a COST row. Facts are compared, name by name, by tests/emulator/test_targets.py.
constexpr bool complete(const Chip& chip) {
  bool all = true;
#define INSTRUCTION(number, name, pipe, family) all = all && chip.costed[number];
#include "hajax/abi/instructions.def"
#undef INSTRUCTION
  return all;
}

#define FACT(field, value, status, unit, source)                                                  \
  static_assert(sizeof(unit) > 0 && sizeof(source) > 1, "a row says where its value comes from"); \
  (void)Status::status;                                                                           \
  chip.target.field = value;
#define COST(instruction, begin, slope, status, unit, source)                                     \
  static_assert(sizeof(unit) > 0 && sizeof(source) > 1, "a row says where its value comes from"); \
  (void)Status::status;                                                                           \
  chip.target.cost[static_cast<int>(Instruction::instruction)] = {begin, slope};                  \
  chip.costed[static_cast<int>(Instruction::instruction)] = true;

constexpr Chip ascend310p1() {
  Chip chip{"ascend310p1", {}, {}};
#include "hajax/targets/ascend310p1.def"
  return chip;
}

constexpr Chip ascend310p3() {
  Chip chip{"ascend310p3", {}, {}};
#include "hajax/targets/ascend310p3.def"
  return chip;
}

constexpr Chip ascend310b1() {
  Chip chip{"ascend310b1", {}, {}};
#include "hajax/targets/ascend310b1.def"
  return chip;
}

#undef FACT
#undef COST

constexpr Chip kChips[] = {ascend310b1(), ascend310p1(), ascend310p3()};
static_assert(complete(kChips[0]) && complete(kChips[1]) && complete(kChips[2]), "an instruction has no COST row");

}  // namespace

const hj_target* built_in_target(const char* name) {
  for (const Chip& chip : kChips) {
    if (strcmp(chip.name, name) == 0) return &chip.target;
  }
  return nullptr;
}

std::vector<const char*> target_names() {
  std::vector<const char*> names;
  for (const Chip& chip : kChips) names.push_back(chip.name);
  return names;
}

}  // namespace hajax::emulator
