// Products of operands in bf16 parts on matrix tiles, two by two tiles of 16 x 16 sums at a time.
#ifndef HAJAX_NATIVE_CPU_KERNELS_MATRIX_H_
#define HAJAX_NATIVE_CPU_KERNELS_MATRIX_H_

#include "native/cpu/kernels/parts.h"
#include "native/cpu/problem.h"

namespace hajax::cpu {
namespace {

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileDepth = 32;            // bf16 elements of a tile's row
constexpr int64_t kPairRows = 2 * kTileRows;  // rows of two tiles, and columns
static_assert(kPairRows == kMatrixStep && kTileDepth == kMatrixStep);

// The tiles of an ISA without any.
struct NoTiles {
  static constexpr bool kThere = false;
};

// A left operand: parts of rows of bf16, in blocks of two tiles above one another. Blocks lie in the order in which
// products read them, as the prefetchers of the caches follow nothing else. `pitch` and `stride` count elements.
struct Left {
  uint16_t* at;
  int64_t pitch;   // depth: elements of a row
  int64_t stride;  // from part to part
  int64_t parts;
};

// A right operand: parts of rows of pairs.
struct Right {
  uint32_t* at;
  int64_t pitch;
  int64_t stride;
  int64_t parts;
};

// Element (row, depth) of the first part; those of a row that share a block follow it.
HJ_INLINE uint16_t* element(const Left& a, int64_t row, int64_t depth) {
  const int64_t block = row / kPairRows * a.pitch + depth / kTileDepth * kTileDepth;
  return a.at + block * kPairRows + row % kPairRows * kTileDepth + depth % kTileDepth;
}
// Without the rows, or the depth, before: whole tiles.
HJ_INLINE Left from_row(const Left& a, int64_t row) { return {element(a, row, 0), a.pitch, a.stride, a.parts}; }
HJ_INLINE Left from_depth(const Left& a, int64_t depth) {
  return {a.at + depth * kPairRows, a.pitch, a.stride, a.parts};
}
HJ_INLINE Right from_depth(const Right& b, int64_t depth) {
  return {b.at + depth / 2 * b.pitch, b.pitch, b.stride, b.parts};
}
HJ_INLINE Right from_column(const Right& b, int64_t column) { return {b.at + column, b.pitch, b.stride, b.parts}; }

// The sums: tiles 0 and 1 beside each other, 2 and 3 below them.
template <class M>
HJ_INLINE void clear_sums() {
  M::template zero<0>();
  M::template zero<1>();
  M::template zero<2>();
  M::template zero<3>();
}

template <class M>
HJ_INLINE void load_sums(const float* from, int64_t pitch) {
  const int64_t bytes = pitch * static_cast<int64_t>(sizeof(float));
  M::template load<0>(from, bytes);
  M::template load<1>(from + kTileRows, bytes);
  M::template load<2>(from + kTileRows * pitch, bytes);
  M::template load<3>(from + kTileRows * pitch + kTileRows, bytes);
}

template <class M>
HJ_INLINE void store_sums(float* to, int64_t pitch) {
  const int64_t bytes = pitch * static_cast<int64_t>(sizeof(float));
  M::template store<0>(to, bytes);
  M::template store<1>(to + kTileRows, bytes);
  M::template store<2>(to + kTileRows * pitch, bytes);
  M::template store<3>(to + kTileRows * pitch + kTileRows, bytes);
}

// Elementwise work, body(0) to body(count - 1), that is woven between the instructions of a product. Tiles and vectors
// are units of their own, but a CPU looks only some hundred instructions ahead: work in one piece behind a product
// would wait for most of it, and the tiles then for the work.
template <class Body>
struct Beside {
  int64_t count;
  Body body;
};

template <class Body>
HJ_INLINE Beside<Body> beside(int64_t count, const Body& body) {
  return {count, body};
}
HJ_INLINE auto beside_nothing() {
  return beside(0, [](int64_t) HJ_INLINE_LAMBDA {});
}

template <class A, class B>
HJ_INLINE auto followed_by(const Beside<A>& first, const Beside<B>& second) {
  return beside(first.count + second.count, [=](int64_t i) HJ_INLINE_LAMBDA {
    if (i < first.count) {
      first.body(i);
    } else {
      second.body(i - first.count);
    }
  });
}

// The slices of part `i` of `parts`.
template <class Body>
HJ_INLINE auto share_of(const Beside<Body>& work, int64_t i, int64_t parts) {
  const int64_t first = i * work.count / parts, end = (i + 1) * work.count / parts;
  return beside(end - first, [=](int64_t slice) HJ_INLINE_LAMBDA { work.body(first + slice); });
}

// Without a product, while the tiles only stay awake: `rest` slices take them some 100 ns.
template <class M, class Body>
HJ_INLINE void run(const Beside<Body>& work, int64_t rest) {
  for (int64_t i = 0; i < work.count; ++i) {
    work.body(i);
    if (i % rest == 0) M::stay_awake();
  }
}

// sums += A B over `depth`, a multiple of kTileDepth. Of the products of parts those count whose numbers, from 0 on,
// add up to less than `precision`: for a float's precision, 3, they are six of 3 x 3 and three of 1 x 3. Returns
// products of tiles.
template <class M, class Body>
HJ_INLINE int64_t add_product(const Left& a, const Right& b, int64_t depth, int64_t precision,
                              const Beside<Body>& work) {
  constexpr int64_t a_bytes = kTileDepth * static_cast<int64_t>(sizeof(uint16_t));
  const int64_t b_bytes = b.pitch * static_cast<int64_t>(sizeof(uint32_t));
  const int64_t left_parts = a.parts < precision ? a.parts : precision;
  const auto right_parts = [&](int64_t i)
                               HJ_INLINE_LAMBDA { return b.parts < precision - i ? b.parts : precision - i; };
  int64_t steps = 0;
  for (int64_t i = 0; i < left_parts; ++i) steps += right_parts(i);
  steps *= depth / kTileDepth;
  int64_t due = 0, done = 0;  // slices, the first in units of 1 / steps
  for (int64_t k = 0; k < depth; k += kTileDepth) {
    for (int64_t i = 0; i < left_parts; ++i) {
      const uint16_t* left = a.at + i * a.stride + k * kPairRows;
      M::template stream<4>(left, a_bytes);
      M::template stream<5>(left + kTileRows * kTileDepth, a_bytes);
      const int64_t end = right_parts(i);
      for (int64_t j = 0; j < end; ++j) {
        const uint32_t* right = b.at + j * b.stride + k / 2 * b.pitch;
        M::template load<6>(right, b_bytes);
        M::template load<7>(right + kTileRows, b_bytes);
        M::template multiply<0, 4, 6>();
        M::template multiply<1, 4, 7>();
        M::template multiply<2, 5, 6>();
        M::template multiply<3, 5, 7>();
        for (due += work.count; due >= steps; due -= steps) work.body(done++);
      }
    }
  }
  return 4 * steps;
}

// to = A B of 32 rows.
template <class M, class Body>
HJ_INLINE int64_t multiply(const Left& a, const Right& b, int64_t depth, int64_t precision, float* to, int64_t pitch,
                           const Beside<Body>& work) {
  clear_sums<M>();
  const int64_t products = add_product<M>(a, b, depth, precision, work);
  store_sums<M>(to, pitch);
  return products;
}

// to += A B.
template <class M, class Body>
HJ_INLINE int64_t multiply_onto(const Left& a, const Right& b, int64_t depth, int64_t precision, float* to,
                                int64_t pitch, const Beside<Body>& work) {
  load_sums<M>(to, pitch);
  const int64_t products = add_product<M>(a, b, depth, precision, work);
  store_sums<M>(to, pitch);
  return products;
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_MATRIX_H_
