// Where 310P keeps the positions that differ between chips: it has no bias table, and results of the cube leave through
// UB.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_POSITIONS_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_POSITIONS_H_

#include "native/emulator/ascendc/common/constants.h"

namespace hajax::ascendc {

inline constexpr AscendC::Hardware kC1 = AscendC::Hardware::UB;
inline constexpr AscendC::Hardware kC2 = AscendC::Hardware::L0C;
inline constexpr AscendC::Hardware kCO2 = AscendC::Hardware::UB;
// A queue from CO1 to CO2 has its buffers in L0C.
inline constexpr bool kAnyToCO2StaysAtSource = false;
// ND -> NZ goes through UB, so the queue behind it waits for MTE3.
inline constexpr bool kNd2NzThroughUb = true;
inline constexpr bool kHasFixPipe = false;

}  // namespace hajax::ascendc

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_POSITIONS_H_
