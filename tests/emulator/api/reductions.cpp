// Reductions over tensors, repeats, blocks and pairs, chosen by number.
#include "frame.h"

using namespace AscendC;

namespace {

template <typename T>
struct Reduction {
  LocalTensor<T> dst, a, work;
  uint32_t count;

  void Run(uint32_t which) {
    constexpr int32_t kLanes = 256 / sizeof(T);
    const auto n = static_cast<int32_t>(count);
    const int32_t repeats = n / kLanes;
    uint64_t bits[2] = {FULL_MASK, sizeof(T) == 2 ? FULL_MASK : 0};
    switch (which) {
      case 0:
        return ReduceSum(dst, a, work, n);
      case 1:
        return ReduceMax(dst, a, work, n);
      case 2:
        return ReduceMin(dst, a, work, n);
      case 3:
        return ReduceMax(dst, a, work, n, true);
      case 4:
        return ReduceMin(dst, a, work, n, true);
      case 5:
        return ReduceSum(dst, a, work, kLanes, repeats, 8);
      case 6:
        return ReduceMax(dst, a, work, bits, repeats, 8, true);
      case 7:
        return WholeReduceSum(dst, a, kLanes, repeats, 1, 1, 8);
      case 8:
        return WholeReduceMax(dst, a, kLanes, repeats, 1, 1, 8);
      case 9:
        return WholeReduceMin(dst, a, bits, repeats, 1, 1, 8, ReduceOrder::ORDER_INDEX_VALUE);
      case 10:
        return BlockReduceSum(dst, a, repeats, kLanes, 1, 1, 8);
      case 11:
        return BlockReduceMax(dst, a, repeats, kLanes, 1, 1, 8);
      case 12:
        return BlockReduceMin(dst, a, repeats, bits, 1, 1, 8);
      case 13:
        return PairReduceSum(dst, a, repeats, kLanes, 1, 1, 8);
      case 14:
        return RepeatReduceSum(dst, a, repeats, kLanes, 0, 1, 1, 8);
      case 15:
        return ReduceRepeat<ReduceType::SUM>(dst, a, kLanes, repeats, 1, 1, 8);
      case 16: {  // of the last repeat alone, from the register
        WholeReduceMax(work, a, kLanes, repeats, 1, 1, 8);
        SetFlag<HardEvent::V_S>(EVENT_ID1);
        WaitFlag<HardEvent::V_S>(EVENT_ID1);
        T value = static_cast<T>(0.0f);
        GetReduceMaxMinCount<T>(value);
        return dst.SetValue(0, value);
      }
      default:
        ascendc_assert(false);
    }
  }
};

template <typename T>
void Start(GM_ADDR x, GM_ADDR z, uint32_t count, uint32_t results, uint32_t which) {
  frame::Run<T, T>(x, x, z, count, results,
                   [&](auto& dst, auto& a, auto&, auto& work) { Reduction<T>{dst, a, work, count}.Run(which); });
}

}  // namespace

extern "C" __global__ __aicore__ void reduce_half(GM_ADDR x, GM_ADDR z, uint32_t count, uint32_t results,
                                                  uint32_t which) {
  Start<half>(x, z, count, results, which);
}
extern "C" __global__ __aicore__ void reduce_float(GM_ADDR x, GM_ADDR z, uint32_t count, uint32_t results,
                                                   uint32_t which) {
  Start<float>(x, z, count, results, which);
}

// A work buffer that is too small.
extern "C" __global__ __aicore__ void reduce_small(GM_ADDR x, GM_ADDR z, uint32_t count, uint32_t size,
                                                   uint32_t index) {
  frame::Run<float, float>(x, x, z, count, 8, [&](auto& dst, auto& a, auto&, auto& work) {
    LocalTensor<float> part = work;
    part.SetSize(size);
    ReduceMax(dst, a, part, static_cast<int32_t>(count), index != 0);
  });
}
