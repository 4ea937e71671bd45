// Two cores on the same bytes of GM: both writing, or one reading what the other writes, with no SyncAll between.
// Looked for after all cores have run, from what they recorded, so that the finding does not depend on how their
// threads interleaved.
#ifndef HAJAX_NATIVE_EMULATOR_CHECKS_GM_OVERLAP_H_
#define HAJAX_NATIVE_EMULATOR_CHECKS_GM_OVERLAP_H_

#include <optional>
#include <string>
#include <vector>

#include "native/emulator/core/event.h"
#include "native/emulator/core/fault.h"
#include "native/emulator/core/gm.h"

namespace hajax::emulator {

std::optional<Fault> check_gm_overlap(const std::string& kernel, const std::vector<CoreRecord>& records, const Gm& gm);

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CHECKS_GM_OVERLAP_H_
