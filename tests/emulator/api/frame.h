// What the small kernels share: operands from GM to UB, and the result back.
#ifndef TESTS_EMULATOR_API_FRAME_H_
#define TESTS_EMULATOR_API_FRAME_H_

#include "kernel_operator.h"

namespace frame {

using namespace AscendC;

constexpr uint32_t kBlock = 32;

template <typename T>
uint32_t Whole(uint32_t count) {
  constexpr auto kElements = static_cast<uint32_t>(kBlock / sizeof(T));
  return (count + kElements - 1) / kElements * kElements;
}

// x and y have x_count elements, z z_count; all of it is rounded up to whole blocks of 32 bytes. body(dst, a, b, work)
// works on UB; dst holds zeros before.
template <typename Out, typename In, typename Body>
void Run(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t x_count, uint32_t z_count, const Body& body) {
  GlobalTensor<In> from_x, from_y;
  GlobalTensor<Out> to_z;
  from_x.SetGlobalBuffer(reinterpret_cast<__gm__ In*>(x), x_count);
  from_y.SetGlobalBuffer(reinterpret_cast<__gm__ In*>(y), x_count);
  to_z.SetGlobalBuffer(reinterpret_cast<__gm__ Out*>(z), z_count);
  const uint32_t in = Whole<In>(x_count), out = Whole<Out>(z_count);
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffers[4];
  pipe.InitBuffer(buffers[0], static_cast<uint32_t>(out * sizeof(Out)));
  pipe.InitBuffer(buffers[1], static_cast<uint32_t>(in * sizeof(In)));
  pipe.InitBuffer(buffers[2], static_cast<uint32_t>(in * sizeof(In)));
  pipe.InitBuffer(buffers[3], static_cast<uint32_t>(in * sizeof(In)) + 1024);
  LocalTensor<Out> dst = buffers[0].template Get<Out>();
  LocalTensor<In> a = buffers[1].template Get<In>(), b = buffers[2].template Get<In>(),
                  work = buffers[3].template Get<In>();
  DataCopy(a, from_x, in);
  DataCopy(b, from_y, in);
  Duplicate(dst.template ReinterpretCast<int16_t>(), int16_t(0), static_cast<int32_t>(out * sizeof(Out) / 2));
  SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
  WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
  PipeBarrier<PIPE_ALL>();
  body(dst, a, b, work);
  PipeBarrier<PIPE_ALL>();
  DataCopy(to_z, dst, out);
}

}  // namespace frame

#endif  // TESTS_EMULATOR_API_FRAME_H_
