// From a tensor's logical position to a memory, and from a queue's two ends to the pipes that its flags connect.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_POSITIONS_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_POSITIONS_H_

#include "native/emulator/ascendc/common/constants.h"
#if __NPU_ARCH__ == 2002
#include "native/emulator/ascendc/m200/positions.h"
#else
#include "native/emulator/ascendc/m300/positions.h"
#endif

namespace AscendC {

// Event flags of an ordered pair of pipes, from the first to the second.
enum class HardEvent : uint8_t {
  MTE2_MTE1,
  MTE1_MTE2,
  MTE1_M,
  M_MTE1,
  MTE2_V,
  V_MTE2,
  MTE3_V,
  V_MTE3,
  M_V,
  V_M,
  V_V,
  MTE3_MTE1,
  MTE1_MTE3,
  MTE1_V,
  MTE2_M,
  M_MTE2,
  V_MTE1,
  M_FIX,
  FIX_M,
  MTE3_MTE2,
  MTE2_MTE3,
  S_V,
  V_S,
  S_MTE2,
  MTE2_S,
  S_MTE3,
  MTE3_S,
  MTE2_FIX,
  FIX_MTE2,
  FIX_S,
  M_S,
  FIX_MTE3,
  MTE1_FIX,
  FIX_MTE1,
  FIX_FIX,
  MAX,
};

constexpr Hardware GetPhyType(TPosition position) {
  switch (position) {
    case TPosition::GM:
      return Hardware::GM;
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::SHM:
    case TPosition::TSCM:
      return Hardware::L1;
    case TPosition::A2:
      return Hardware::L0A;
    case TPosition::B2:
      return Hardware::L0B;
    case TPosition::CO1:
      return Hardware::L0C;
    case TPosition::C1:
      return hajax::ascendc::kC1;
    case TPosition::C2:
      return hajax::ascendc::kC2;
    case TPosition::CO2:
      return hajax::ascendc::kCO2;
    case TPosition::C2PIPE2GM:
    case TPosition::C2PIPE2LOCAL:
      return Hardware::FIXBUF;
    default:
      return Hardware::UB;
  }
}

// The position whose memory holds the buffers of a queue between two positions.
constexpr TPosition GetPosition(TPosition source, TPosition destination) {
  const bool stays =
      destination == TPosition::CO2 && (source == TPosition::CO1 || hajax::ascendc::kAnyToCO2StaysAtSource);
  return destination == TPosition::GM || stays ? source : destination;
}

constexpr Hardware GetBufferPos(TPosition source, TPosition destination) {
  return GetPhyType(GetPosition(source, destination));
}

// The two ends of a queue that is named by one position.
constexpr TPosition GetBufferLogicPos(TPosition position, bool is_source) {
  switch (position) {
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
    case TPosition::VECIN:
      return is_source ? TPosition::GM : position;
    case TPosition::A2:
      return is_source ? TPosition::A1 : position;
    case TPosition::B2:
      return is_source ? TPosition::B1 : position;
    case TPosition::C2:
      return is_source ? TPosition::C1 : position;
    case TPosition::CO1:
      return is_source ? position : TPosition::CO2;
    case TPosition::CO2:
    case TPosition::VECOUT:
      return is_source ? position : TPosition::GM;
    case TPosition::SPM:
      return is_source ? TPosition::VECOUT : TPosition::GM;
    default:
      return TPosition::MAX;
  }
}

}  // namespace AscendC

namespace hajax::ascendc {

using AscendC::HardEvent;
using AscendC::Hardware;
using AscendC::TPosition;

constexpr bool has_memory(Hardware hardware) { return hardware <= Hardware::L0C; }

constexpr Space space_of(Hardware hardware) {
  switch (hardware) {
    case Hardware::UB:
      return Space::UB;
    case Hardware::L1:
      return Space::L1;
    case Hardware::L0A:
      return Space::L0A;
    case Hardware::L0B:
      return Space::L0B;
    case Hardware::L0C:
      return Space::L0C;
    default:
      return Space::GM;
  }
}
constexpr Space space_of(TPosition position) { return space_of(AscendC::GetPhyType(position)); }

constexpr const char* name_of(TPosition position) {
  constexpr const char* kNames[] = {"GM",  "A1",    "A2",     "B1",      "B2",  "C1",   "C2",        "CO1",
                                    "CO2", "VECIN", "VECOUT", "VECCALC", "SPM", "TSCM", "C2PIPE2GM", "C2PIPE2LOCAL"};
  return position < TPosition::MAX ? kNames[static_cast<int>(position)] : "no position";
}

constexpr const char* name_of(Hardware hardware) {
  constexpr const char* kNames[] = {"GM", "UB", "L1", "L0A", "L0B", "L0C", "BIAS", "FIXBUF"};
  return hardware < Hardware::MAX ? kNames[static_cast<int>(hardware)] : "no memory";
}

constexpr const char* name_of(HardEvent event) {
  constexpr const char* kNames[] = {
      "MTE2_MTE1", "MTE1_MTE2", "MTE1_M",    "M_MTE1",    "MTE2_V",   "V_MTE2",   "MTE3_V",   "V_MTE3", "M_V",
      "V_M",       "V_V",       "MTE3_MTE1", "MTE1_MTE3", "MTE1_V",   "MTE2_M",   "M_MTE2",   "V_MTE1", "M_FIX",
      "FIX_M",     "MTE3_MTE2", "MTE2_MTE3", "S_V",       "V_S",      "S_MTE2",   "MTE2_S",   "S_MTE3", "MTE3_S",
      "MTE2_FIX",  "FIX_MTE2",  "FIX_S",     "M_S",       "FIX_MTE3", "MTE1_FIX", "FIX_MTE1", "FIX_FIX"};
  return event < HardEvent::MAX ? kNames[static_cast<int>(event)] : "no event";
}

// The event that a queue's EnQue sets (forward) or its FreeTensor sets (backward); MAX when the ends have none.
constexpr HardEvent queue_event(Hardware source, Hardware destination, bool forward, bool nd2nz) {
  const auto pick = [forward](HardEvent filled, HardEvent freed) { return forward ? filled : freed; };
  if (source == Hardware::GM) {
    if (destination == Hardware::UB) return pick(HardEvent::MTE2_V, HardEvent::V_MTE2);
    if (destination == Hardware::L1) {
      return nd2nz && kNd2NzThroughUb ? pick(HardEvent::MTE3_MTE1, HardEvent::MTE1_MTE3)
                                      : pick(HardEvent::MTE2_MTE1, HardEvent::MTE1_MTE2);
    }
    if (destination == Hardware::L0A || destination == Hardware::L0B) return pick(HardEvent::MTE2_M, HardEvent::M_MTE2);
  } else if (source == Hardware::UB) {
    if (destination == Hardware::GM) return pick(HardEvent::V_MTE3, HardEvent::MTE3_V);
    if (destination == Hardware::L1) return pick(HardEvent::MTE3_MTE1, HardEvent::MTE1_MTE3);
    if (destination == Hardware::L0C) return pick(HardEvent::V_V, HardEvent::MAX);
    if (destination == Hardware::UB) return pick(HardEvent::MTE2_MTE3, HardEvent::MTE3_MTE2);
  } else if (source == Hardware::L1) {
    if (destination == Hardware::UB) return pick(HardEvent::MTE1_V, HardEvent::V_MTE1);
    if (destination == Hardware::L0A || destination == Hardware::L0B) return pick(HardEvent::MTE1_M, HardEvent::M_MTE1);
  } else if (source == Hardware::L0A || source == Hardware::L0B) {
    if (destination == Hardware::L0C) return pick(HardEvent::M_V, HardEvent::V_M);
  } else if (source == Hardware::L0C) {
    if (kHasFixPipe) return pick(HardEvent::M_FIX, HardEvent::FIX_M);
    if (destination == Hardware::UB) return pick(HardEvent::M_V, HardEvent::V_M);
  }
  return HardEvent::MAX;
}

}  // namespace hajax::ascendc

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_POSITIONS_H_
