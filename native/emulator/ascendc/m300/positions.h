// Where 310B keeps the positions that differ between chips. Its bias table and fixpipe are not emulated yet.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M300_POSITIONS_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M300_POSITIONS_H_

#include "native/emulator/ascendc/common/constants.h"

namespace hajax::ascendc {

inline constexpr AscendC::Hardware kC1 = AscendC::Hardware::L1;
inline constexpr AscendC::Hardware kC2 = AscendC::Hardware::BIAS;
inline constexpr AscendC::Hardware kCO2 = AscendC::Hardware::UB;
inline constexpr bool kAnyToCO2StaysAtSource = true;
inline constexpr bool kNd2NzThroughUb = false;
inline constexpr bool kHasFixPipe = true;

}  // namespace hajax::ascendc

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M300_POSITIONS_H_
