// DataCopy of slices of a tensor of up to eight dimensions, between GM and UB, in software: a copy for each row that
// the slices select in the higher dimensions.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_COPY_SLICE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_COPY_SLICE_H_

#include "native/emulator/ascendc/common/copy.h"

namespace hajax::ascendc {

using AscendC::SliceInfo;

// One side of the copy.
template <typename T>
class Slices {
 public:
  HAJAX_API Slices(const char* side, const SliceInfo info[], const AscendC::ShapeInfo& shape, bool from_info,
                   int64_t dimensions)
      : side_(side), info_(info), dimensions_(dimensions) {
    for (int64_t i = 0; i < dimensions; ++i) {
      size_[i] = from_info ? info[i].shapeValue : shape.shape[i];
      expect_range(side, "endIndex, in its dimension and from startIndex on", info[i].endIndex, info[i].startIndex,
                   int64_t{size_[i]} - 1);
      if (i != 0) expect_range(side, "burstLen in dimensions above the first", info[i].burstLen, 1, 1);
    }
  }

  // Slices along dimension i, of one index in all dimensions but the first.
  HAJAX_API int64_t count(int64_t i) const {
    const SliceInfo& one = info_[i];
    const int64_t length = i == 0 ? one.burstLen * kBlock : 1;
    const int64_t span = int64_t{one.endIndex} - one.startIndex + 1 + one.stride;
    expect_range(side_, "burstLen", one.burstLen, 1, UINT16_MAX);
    if (span % (length + one.stride) != 0) {
      kernel_fault(Check::limit, Text() << side_ << ": endIndex - startIndex + 1: expected whole slices of " << length
                                        << " with gaps of " << int64_t{one.stride} << " between, got "
                                        << span - one.stride);
    }
    return span / (length + one.stride);
  }
  int64_t rows() const {
    int64_t product = 1;
    for (int64_t i = 1; i < dimensions_; ++i) product *= count(i);
    return product;
  }
  // First element of the row-th selected row; lower dimensions change first.
  int64_t start(int64_t row) const {
    int64_t at = info_[0].startIndex;
    int64_t size = 1;
    for (int64_t i = 1; i < dimensions_; ++i) {
      size *= size_[i - 1];
      const int64_t along = count(i);
      at += size * (info_[i].startIndex + row % along * (1 + int64_t{info_[i].stride}));
      row /= along;
    }
    return at;
  }
  int64_t gap_bytes() const { return info_[0].stride * static_cast<int64_t>(sizeof(T)); }
  int64_t length() const { return info_[0].burstLen; }

 private:
  static constexpr int64_t kBlock = AscendC::ONE_BLK_SIZE / static_cast<int64_t>(sizeof(T));
  const char* side_;
  const SliceInfo* info_;
  int64_t dimensions_;
  uint32_t size_[AscendC::K_MAX_SHAPE_DIM] = {};
};

// copy(dst element, src element, runs, length, src gap, dst gap) for each copy. GM's gaps may be no whole blocks.
template <typename T, typename Copy>
HAJAX_API void copy_slices(const Slices<T>& dst, const Slices<T>& src, bool gm_is_src, const Copy& copy) {
  constexpr const char* kCall = "DataCopy with SliceInfo";
  const int64_t runs = src.count(0);
  expect_range(kCall, "slices of dst in the first dimension, as many as of src", dst.count(0), runs, runs);
  expect_range(kCall, "rows of dst, as many as of src", dst.rows(), src.rows(), src.rows());
  expect_range(kCall, "burstLen of dst, as that of src", dst.length(), src.length(), src.length());
  const Slices<T>& gm = gm_is_src ? src : dst;
  const Slices<T>& ub = gm_is_src ? dst : src;
  expect_multiple(kCall, "stride in UB in bytes", ub.gap_bytes(), AscendC::ONE_BLK_SIZE, "Keep whole blocks in UB");
  const bool whole_blocks = gm.gap_bytes() % AscendC::ONE_BLK_SIZE == 0;
  if (!whole_blocks && (runs > 2 || ub.gap_bytes() != 0)) {
    kernel_fault(
        Check::unsupported,
        Text() << kCall << ": a stride in GM of " << gm.gap_bytes()
               << " bytes: expected whole blocks of 32 bytes, or at most two slices that follow each other in UB "
                  "(the device's own loop places others wrongly), got "
               << runs << " slices");
  }
  const int64_t src_gap = src.gap_bytes() / AscendC::ONE_BLK_SIZE;
  const int64_t dst_gap = dst.gap_bytes() / AscendC::ONE_BLK_SIZE;
  const int64_t run = src.length() * (AscendC::ONE_BLK_SIZE / static_cast<int64_t>(sizeof(T)));
  const int64_t gm_step = run + gm.gap_bytes() / static_cast<int64_t>(sizeof(T));
  for (int64_t row = 0; row < src.rows(); ++row) {
    if (whole_blocks) {
      copy(dst.start(row), src.start(row), runs, src.length(), src_gap, dst_gap);
      continue;
    }
    for (int64_t i = 0; i < runs; ++i) {
      copy(dst.start(row) + i * (gm_is_src ? run : gm_step), src.start(row) + i * (gm_is_src ? gm_step : run),
           int64_t{1}, src.length(), int64_t{0}, int64_t{0});
    }
  }
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T>
HAJAX_API void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const SliceInfo dstSliceInfo[],
                        const SliceInfo srcSliceInfo[], uint32_t dimValue = 1) {
  hajax::ascendc::expect_range("DataCopy with SliceInfo", "dimValue", dimValue, 1, K_MAX_SHAPE_DIM);
  if (hajax::ascendc::hardware_of(dst) != Hardware::UB) {
    hajax::ascendc::no_path(Hardware::GM, hajax::ascendc::hardware_of(dst), " for slices: go through UB");
  }
  const bool shaped = srcSliceInfo[0].shapeValue != 0;
  const hajax::ascendc::Slices<T> to("dstSliceInfo", dstSliceInfo, dst.GetShapeInfo(), shaped, dimValue);
  const hajax::ascendc::Slices<T> from("srcSliceInfo", srcSliceInfo, src.GetShapeInfo(), shaped, dimValue);
  T* dst_base = hajax::ascendc::pointer(dst);
  const T* src_base = hajax::ascendc::pointer(src);
  hajax::ascendc::copy_slices(to, from, true, [=](int64_t at, int64_t src_at, auto... p) {
    copy_gm_to_ubuf(dst_base + at, src_base + src_at, 0, p...);
  });
}

template <typename T>
HAJAX_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const SliceInfo dstSliceInfo[],
                        const SliceInfo srcSliceInfo[], uint32_t dimValue = 1) {
  hajax::ascendc::expect_range("DataCopy with SliceInfo", "dimValue", dimValue, 1, K_MAX_SHAPE_DIM);
  if (hajax::ascendc::hardware_of(src) != Hardware::UB) {
    hajax::ascendc::no_path(hajax::ascendc::hardware_of(src), Hardware::GM, " for slices: go through UB");
  }
  const bool shaped = srcSliceInfo[0].shapeValue != 0;
  const hajax::ascendc::Slices<T> to("dstSliceInfo", dstSliceInfo, dst.GetShapeInfo(), shaped, dimValue);
  const hajax::ascendc::Slices<T> from("srcSliceInfo", srcSliceInfo, src.GetShapeInfo(), shaped, dimValue);
  T* dst_base = hajax::ascendc::pointer(dst);
  const T* src_base = hajax::ascendc::pointer(src);
  hajax::ascendc::copy_slices(to, from, false, [=](int64_t at, int64_t src_at, auto... p) {
    copy_ubuf_to_gm(dst_base + at, src_base + src_at, 0, p...);
  });
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_COPY_SLICE_H_
