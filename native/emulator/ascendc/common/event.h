// Flags and barriers between the pipes of one core: SetFlag, WaitFlag, PipeBarrier, TQueSync.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_EVENT_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_EVENT_H_

#include "native/emulator/ascendc/common/positions.h"
#include "native/emulator/instructions/sync.h"

namespace hajax::ascendc {

struct Pair {
  pipe_t from;
  pipe_t to;
};

constexpr Pair pipes_of(HardEvent event) {
  switch (event) {
    case HardEvent::MTE2_MTE1:
      return {PIPE_MTE2, PIPE_MTE1};
    case HardEvent::MTE1_MTE2:
      return {PIPE_MTE1, PIPE_MTE2};
    case HardEvent::MTE1_M:
      return {PIPE_MTE1, PIPE_M};
    case HardEvent::M_MTE1:
      return {PIPE_M, PIPE_MTE1};
    case HardEvent::MTE2_V:
      return {PIPE_MTE2, PIPE_V};
    case HardEvent::V_MTE2:
      return {PIPE_V, PIPE_MTE2};
    case HardEvent::MTE3_V:
      return {PIPE_MTE3, PIPE_V};
    case HardEvent::V_MTE3:
      return {PIPE_V, PIPE_MTE3};
    case HardEvent::M_V:
      return {PIPE_M, PIPE_V};
    case HardEvent::V_M:
      return {PIPE_V, PIPE_M};
    case HardEvent::V_V:
      return {PIPE_V, PIPE_V};
    case HardEvent::MTE3_MTE1:
      return {PIPE_MTE3, PIPE_MTE1};
    case HardEvent::MTE1_MTE3:
      return {PIPE_MTE1, PIPE_MTE3};
    case HardEvent::MTE1_V:
      return {PIPE_MTE1, PIPE_V};
    case HardEvent::MTE2_M:
      return {PIPE_MTE2, PIPE_M};
    case HardEvent::M_MTE2:
      return {PIPE_M, PIPE_MTE2};
    case HardEvent::V_MTE1:
      return {PIPE_V, PIPE_MTE1};
    case HardEvent::MTE3_MTE2:
      return {PIPE_MTE3, PIPE_MTE2};
    case HardEvent::MTE2_MTE3:
      return {PIPE_MTE2, PIPE_MTE3};
    case HardEvent::S_V:
      return {PIPE_S, PIPE_V};
    case HardEvent::V_S:
      return {PIPE_V, PIPE_S};
    case HardEvent::S_MTE2:
      return {PIPE_S, PIPE_MTE2};
    case HardEvent::MTE2_S:
      return {PIPE_MTE2, PIPE_S};
    case HardEvent::S_MTE3:
      return {PIPE_S, PIPE_MTE3};
    case HardEvent::MTE3_S:
      return {PIPE_MTE3, PIPE_S};
    case HardEvent::M_S:
      return {PIPE_M, PIPE_S};
    default:
      return {PIPE_FIX, PIPE_FIX};
  }
}

constexpr bool has_pipes(HardEvent event) { return event < HardEvent::MAX && pipes_of(event).from != PIPE_FIX; }

// Flags that the API sets for its own buffers: every id of a pair.
HAJAX_API void set_event(HardEvent event, int32_t id) {
  if (event == HardEvent::V_V) {
    pipe_barrier(PIPE_V);
  } else if (event != HardEvent::MAX) {
    set_flag(pipes_of(event).from, pipes_of(event).to, static_cast<event_t>(id));
  }
}
HAJAX_API void wait_event(HardEvent event, int32_t id) {
  if (event == HardEvent::V_V || event == HardEvent::MAX) return;
  wait_flag(pipes_of(event).from, pipes_of(event).to, static_cast<event_t>(id));
}

// Ids that a kernel may use by hand: on 310B the last two belong to the system.
inline constexpr int32_t kHandIds = __NPU_ARCH__ == 2002 ? 8 : 6;

HAJAX_API void expect_id(const char* api, int32_t id) { expect_range(api, "event id", id, 0, kHandIds - 1); }

}  // namespace hajax::ascendc

namespace AscendC {

template <HardEvent event>
HAJAX_API void SetFlag(int32_t eventID) {
  static_assert(hajax::ascendc::has_pipes(event),
                "AscendC::SetFlag: " HAJAX_CHIP
                ": there is no emulated fixpipe; results of the cube leave through M and V");
  static_assert(__NPU_ARCH__ == 2002 || event != HardEvent::V_V,
                "AscendC::SetFlag: V_V is not an event of " HAJAX_CHIP);
  hajax::ascendc::expect_id("SetFlag", eventID);
  hajax::ascendc::set_event(event, eventID);
}

template <HardEvent event>
HAJAX_API void WaitFlag(int32_t eventID) {
  static_assert(hajax::ascendc::has_pipes(event),
                "AscendC::WaitFlag: " HAJAX_CHIP
                ": there is no emulated fixpipe; results of the cube leave through M and V");
  static_assert(__NPU_ARCH__ == 2002 || event != HardEvent::V_V,
                "AscendC::WaitFlag: V_V is not an event of " HAJAX_CHIP);
  hajax::ascendc::expect_id("WaitFlag", eventID);
  hajax::ascendc::wait_event(event, eventID);
}

// On 310B the device drops barriers of V, which orders itself; the emulator asks for them all the same.
template <pipe_t pipe>
HAJAX_API void PipeBarrier() {
  static_assert(pipe <= PIPE_ALL, "AscendC::PipeBarrier: not a pipe of " HAJAX_CHIP);
  pipe_barrier(pipe);
}

template <pipe_t src, pipe_t dst>
class TQueSync {
  static_assert(src != dst, "AscendC::TQueSync: the two pipes must differ; PipeBarrier orders a single one");
  static_assert(src < PIPE_ALL && dst < PIPE_ALL, "AscendC::TQueSync: not a pipe of " HAJAX_CHIP);

 public:
  HAJAX_API void SetFlag(TEventID id) {
    hajax::ascendc::expect_id("TQueSync::SetFlag", id);
    set_flag(src, dst, static_cast<event_t>(id));
  }
  HAJAX_API void WaitFlag(TEventID id) {
    hajax::ascendc::expect_id("TQueSync::WaitFlag", id);
    wait_flag(src, dst, static_cast<event_t>(id));
  }
};

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_EVENT_H_
