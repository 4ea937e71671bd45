// Fields of the structs in the frame: how they get there and how the scalar unit reads them.
#ifndef HAJAX_NATIVE_ASCEND_FIELDS_H_
#define HAJAX_NATIVE_ASCEND_FIELDS_H_

#include "native/ascend/moves.h"

namespace hajax::ascend {

template <typename T>
__aicore__ inline T Field(uint32_t at) {
  return InUb<T>(at / kBlock * kBlock).GetValue(at % kBlock / static_cast<uint32_t>(sizeof(T)));
}

// The field `name` of the struct `type` that lies at `base`.
#define HAJAX_FIELD(base, type, name) \
  ::hajax::ascend::Field<decltype(type::name)>((base) + static_cast<uint32_t>(__builtin_offsetof(type, name)))

__aicore__ inline uint32_t Unsigned(int32_t value) { return static_cast<uint32_t>(value); }

__aicore__ inline void Fetch(uint32_t to, GM_ADDR from, uint32_t bytes) {
  DataCopy(InUb<half>(to), InGm(from), Runs(1, bytes / kBlock, 0, 0));
}

// The scalar unit reads what MTE2 has brought, or lets it overwrite what has been read.
__aicore__ inline void AwaitFrame() {
  AscendC::SetFlag<HardEvent::MTE2_S>(EVENT_ID0);
  AscendC::WaitFlag<HardEvent::MTE2_S>(EVENT_ID0);
}
__aicore__ inline void ReleaseFrame() {
  AscendC::SetFlag<HardEvent::S_MTE2>(EVENT_ID0);
  AscendC::WaitFlag<HardEvent::S_MTE2>(EVENT_ID0);
}

}  // namespace hajax::ascend

#endif  // HAJAX_NATIVE_ASCEND_FIELDS_H_
