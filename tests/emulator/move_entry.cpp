// A kernel that reads its program from GM: one instruction a row of 16 words, the opcode first, then operands as
// offsets and plain numbers. Memories are filled from images before and copied to images after it. Opcodes are those of
// CASE below, which the tests read from this file.
#include <stdint.h>
#include <string.h>

#include "native/emulator/core/services.h"
#include "native/emulator/instructions/cube.h"
#include "native/emulator/instructions/move.h"
#include "native/emulator/instructions/scalar.h"
#include "native/emulator/instructions/sync.h"
#include "native/emulator/instructions/vector.h"

namespace {

using hajax::emulator::Space;

constexpr int64_t kWords = 16;
constexpr int64_t kChunk = 512;
constexpr int64_t kBlock = 32;
constexpr Space kSpaces[] = {Space::L1, Space::L0A, Space::L0B, Space::L0C, Space::UB};

struct Operands {
  const int64_t* words;
  uint8_t* gm_base;

  template <typename T = uint8_t>
  T* in(Space space, int index) const {
    return reinterpret_cast<T*>(hajax::emulator::space_base(space) + words[index]);
  }
  template <typename T = uint8_t>
  T* gm(int index) const {
    return reinterpret_cast<T*>(gm_base + words[index]);
  }
  template <typename T = uint8_t>
  T* l1(int index) const {
    return in<T>(Space::L1, index);
  }
  template <typename T = uint8_t>
  T* l0a(int index) const {
    return in<T>(Space::L0A, index);
  }
  template <typename T = uint8_t>
  T* l0b(int index) const {
    return in<T>(Space::L0B, index);
  }
  template <typename T = uint8_t>
  T* l0c(int index) const {
    return in<T>(Space::L0C, index);
  }
  template <typename T = uint8_t>
  T* ub(int index) const {
    return in<T>(Space::UB, index);
  }
};

// Marks an image's bytes, a multiple of 32 of them, as written.
void mark(Space space, uint8_t* base, int64_t bytes) {
  for (int64_t at = 0; at < bytes;) {
    const bool aligned = reinterpret_cast<uintptr_t>(base + at) % kChunk == 0;
    const int64_t some = aligned && bytes - at >= kChunk ? kChunk : kBlock;
    hajax::emulator::scalar_write(space, base + at, some);
    at += some;
  }
}

void run_row(const int64_t* row, uint8_t* gm_base) {
  const int64_t* w = row + 1;
  const Operands at = {w, gm_base};
  const auto pipe = [&](int index) { return static_cast<pipe_t>(w[index]); };
  const auto event = [&](int index) { return static_cast<int32_t>(w[index]); };
  const auto order = [&](int index) { return w[index] == 0 ? inc : dec; };
  const auto mode = [&](int index) { return static_cast<ConvRelu_t>(w[index]); };
  const auto value = [&](int index) { return half::from_bits(static_cast<uint16_t>(w[index])); };
  const auto word = [&](int index) { return static_cast<uint32_t>(w[index]); };

#define CASE(opcode, name, ...) \
  case opcode:                  \
    __VA_ARGS__;                \
    break;
#define COPY 0, w[2], w[3], w[4], w[5]
#define LOAD(kind, T, to, from) load_##kind(at.to<T>(0), at.from<T>(1), w[2], w[3], w[4], w[5], 0, order(6))
#define LOAD_L1(kind, T, to) \
  load_cbuf_to_##kind(at.to<T>(0), at.l1<T>(1), w[2], w[3], w[4], w[5], 0, w[6] != 0, order(7))
#define LOAD_310B(kind, T, to) \
  load_cbuf_to_##kind(at.to<T>(0), at.l1<T>(1), w[2], w[3], w[4], w[5], w[6] != 0, order(7))
#define RESULT(D, S) (at.ub<D>(0), at.l0c<S>(1), COPY, mode(6))
#define PRESET(D, S) (at.l0c<D>(0), at.ub<S>(1), COPY, mode(6))
#define MAD(C, A, B) mad(at.l0c<C>(0), at.l0a<A>(1), at.l0b<B>(2), w[3], w[4], w[5], w[6] != 0)
#define MAD_310B(C, A, B) \
  mad(at.l0c<C>(0), at.l0a<A>(1), at.l0b<B>(2), w[3], w[4], w[5], w[7], w[8] != 0, w[9] != 0, w[6] != 0)
  switch (row[0]) {
    CASE(0, pipe_barrier, pipe_barrier(pipe(0)))
    CASE(1, set_flag, set_flag(pipe(0), pipe(1), event(2)))
    CASE(2, wait_flag, wait_flag(pipe(0), pipe(1), event(2)))
    CASE(3, dcci, dcci(at.gm(0), static_cast<uint64_t>(w[1])))
    CASE(4, set_atomic_none, set_atomic_none())
    CASE(5, set_atomic_f32, set_atomic_add(); set_atomic_f32())
    CASE(6, set_atomic_f16, set_atomic_add(); set_atomic_f16())
    CASE(7, set_atomic_s16, set_atomic_add(); set_atomic_s16())
    CASE(8, set_atomic_s32, set_atomic_add(); set_atomic_s32())
    CASE(9, set_deqscale, set_deqscale(static_cast<uint64_t>(w[0])))
    CASE(10, copy_gm_to_cbuf, copy_gm_to_cbuf(at.l1(0), at.gm(1), COPY, static_cast<pad_t>(w[6])))
    CASE(11, copy_gm_to_ubuf, copy_gm_to_ubuf(at.ub(0), at.gm(1), COPY))
    CASE(12, copy_ubuf_to_gm, copy_ubuf_to_gm(at.gm(0), at.ub(1), COPY))
    CASE(13, copy_ubuf_to_cbuf, copy_ubuf_to_cbuf(at.l1(0), at.ub(1), COPY))
    CASE(14, copy_cbuf_to_ubuf, copy_cbuf_to_ubuf(at.ub(0), at.l1(1), COPY))
    CASE(15, copy_ubuf_to_ubuf, copy_ubuf_to_ubuf(at.ub(0), at.ub(1), COPY))
    CASE(20, load_gm_to_cbuf, LOAD(gm_to_cbuf, half, l1, gm))
    CASE(21, load_gm_to_ca, LOAD(gm_to_ca, uint8_t, l0a, gm))
    CASE(22, load_gm_to_cb, LOAD(gm_to_cb, half, l0b, gm))
    CASE(23, load_cbuf_to_ca, LOAD_L1(ca, half, l0a))
    CASE(24, load_cbuf_to_cb, LOAD_L1(cb, half, l0b))
    CASE(25, load_cbuf_to_ca_s8, LOAD_L1(ca, int8_t, l0a))
    CASE(26, load_cbuf_to_cb_u8, LOAD_L1(cb, uint8_t, l0b))
    CASE(27, load_cbuf_to_ca_f32, LOAD_310B(ca, float, l0a))
    CASE(28, load_cbuf_to_cb_f32, LOAD_310B(cb, float, l0b))
    CASE(30, create_cbuf_matrix, create_cbuf_matrix(at.l1(0), w[1], value(2)))
    CASE(31, create_ca_matrix, create_ca_matrix(at.l0a(0), w[1], value(2)))
    CASE(32, create_cb_matrix, create_cb_matrix(at.l0b(0), w[1], value(2)))
    CASE(33, create_cbuf_matrix_b32, create_cbuf_matrix(at.l1(0), w[1], word(2)))
    CASE(34, create_ca_matrix_b32, create_ca_matrix(at.l0a(0), w[1], word(2)))
    CASE(35, create_cb_matrix_b32, create_cb_matrix(at.l0b(0), w[1], word(2)))
    CASE(40, copy_matrix_cc_to_ubuf_f16_f16, copy_matrix_cc_to_ubuf RESULT(half, half))
    CASE(41, copy_matrix_cc_to_ubuf_f32_f32, copy_matrix_cc_to_ubuf RESULT(float, float))
    CASE(42, copy_matrix_cc_to_ubuf_s32_s32, copy_matrix_cc_to_ubuf RESULT(int32_t, int32_t))
    CASE(43, copy_matrix_cc_to_ubuf_u32_u32, copy_matrix_cc_to_ubuf RESULT(uint32_t, uint32_t))
    CASE(44, copy_matrix_cc_to_ubuf_f16_f32, copy_matrix_cc_to_ubuf RESULT(half, float))
    CASE(45, copy_matrix_cc_to_ubuf_f16_s32, copy_matrix_cc_to_ubuf RESULT(half, int32_t))
    CASE(46, copy_matrix_cc_to_ubuf_s8_s32, copy_matrix_cc_to_ubuf RESULT(int8_t, int32_t))
    CASE(47, copy_matrix_cc_to_ubuf_u8_s32, copy_matrix_cc_to_ubuf RESULT(uint8_t, int32_t))
    CASE(48, copy_matrix_cc_to_ubuf_s16_s32, copy_matrix_cc_to_ubuf RESULT(int16_t, int32_t))
    CASE(50, copy_vector_cc_to_ubuf_f16_f16, copy_vector_cc_to_ubuf RESULT(half, half))
    CASE(51, copy_vector_cc_to_ubuf_f32_f32, copy_vector_cc_to_ubuf RESULT(float, float))
    CASE(52, copy_vector_cc_to_ubuf_s32_s32, copy_vector_cc_to_ubuf RESULT(int32_t, int32_t))
    CASE(53, copy_vector_cc_to_ubuf_u32_u32, copy_vector_cc_to_ubuf RESULT(uint32_t, uint32_t))
    CASE(54, copy_vector_cc_to_ubuf_f16_f32, copy_vector_cc_to_ubuf RESULT(half, float))
    CASE(55, copy_vector_cc_to_ubuf_f16_s32, copy_vector_cc_to_ubuf RESULT(half, int32_t))
    CASE(60, copy_matrix_ubuf_to_cc_f16_f16, copy_matrix_ubuf_to_cc PRESET(half, half))
    CASE(61, copy_matrix_ubuf_to_cc_f32_f32, copy_matrix_ubuf_to_cc PRESET(float, float))
    CASE(62, copy_matrix_ubuf_to_cc_s32_s32, copy_matrix_ubuf_to_cc PRESET(int32_t, int32_t))
    CASE(63, copy_matrix_ubuf_to_cc_u32_u32, copy_matrix_ubuf_to_cc PRESET(uint32_t, uint32_t))
    CASE(64, copy_matrix_ubuf_to_cc_f32_f16, copy_matrix_ubuf_to_cc PRESET(float, half))
    CASE(70, copy_vector_ubuf_to_cc_f16_f16, copy_vector_ubuf_to_cc PRESET(half, half))
    CASE(71, copy_vector_ubuf_to_cc_f32_f32, copy_vector_ubuf_to_cc PRESET(float, float))
    CASE(72, copy_vector_ubuf_to_cc_s32_s32, copy_vector_ubuf_to_cc PRESET(int32_t, int32_t))
    CASE(73, copy_vector_ubuf_to_cc_u32_u32, copy_vector_ubuf_to_cc PRESET(uint32_t, uint32_t))
    CASE(74, copy_vector_ubuf_to_cc_f32_f16, copy_vector_ubuf_to_cc PRESET(float, half))
    CASE(80, broadcast_ub_to_cc_f16, broadcast_ub_to_cc(at.l0c<half>(0), at.ub<half>(1), w[2], w[3], w[4], w[5]))
    CASE(81, broadcast_ub_to_cc_f32, broadcast_ub_to_cc(at.l0c<float>(0), at.ub<float>(1), w[2], w[3], w[4], w[5]))
    CASE(82, broadcast_ub_to_cc_s32, broadcast_ub_to_cc(at.l0c<int32_t>(0), at.ub<int32_t>(1), w[2], w[3], w[4], w[5]))
    CASE(90, mad_f32_f16, MAD(float, half, half))
    CASE(91, mad_f16_f16, MAD(half, half, half))
    CASE(92, mad_s32_s8, MAD(int32_t, int8_t, int8_t))
    CASE(93, mad_s32_u8_s8, MAD(int32_t, uint8_t, int8_t))
    CASE(94, mad_s32_u8, MAD(int32_t, uint8_t, uint8_t))
    CASE(95, mad_310b_f32_f16, MAD_310B(float, half, half))
    CASE(96, mad_310b_f32, MAD_310B(float, float, float))
    CASE(97, mad_310b_s32_s8, MAD_310B(int32_t, int8_t, int8_t))
    CASE(110, set_fmatrix, set_fmatrix(static_cast<uint64_t>(w[0])))
    CASE(111, set_padding, set_padding(static_cast<uint64_t>(w[0])))
    CASE(112, set_l1_3d_size, set_l1_3d_size(static_cast<uint64_t>(w[0])))
    CASE(113, trap, trap())
    default:
      hajax::emulator::kernel_fault(hajax::emulator::Check::launch, "no such opcode");
  }
}

float float_of(int64_t bits) {
  const auto low = static_cast<uint32_t>(bits);
  float value;
  memcpy(&value, &low, sizeof value);
  return value;
}

}  // namespace

// windows: how many bytes of L1, L0A, L0B, L0C and UB have an image; the others are never written. Images follow one
// another.
extern "C" __global__ __aicore__ void program(__gm__ int64_t* rows, int64_t count, __gm__ int64_t* windows,
                                              __gm__ uint8_t* before, __gm__ uint8_t* after, __gm__ uint8_t* gm_base) {
  for (int i = 0; i < 5; ++i) {
    uint8_t* base = hajax::emulator::space_base(kSpaces[i]);
    mark(kSpaces[i], base, windows[i]);
    memcpy(base, before, static_cast<size_t>(windows[i]));
    before += windows[i];
  }
  for (int64_t i = 0; i < count; ++i) run_row(rows + i * kWords, gm_base);
  pipe_barrier(PIPE_ALL);
  for (int i = 0; i < 5; ++i) {
    memcpy(after, hajax::emulator::space_base(kSpaces[i]), static_cast<size_t>(windows[i]));
    mark(Space::GM, after, windows[i]);
    after += windows[i];
  }
}

// One scalar function on every value: results[i] = function(values[i]).
extern "C" __global__ __aicore__ void scalars(int64_t function, __gm__ int64_t* values, int64_t count,
                                              __gm__ int64_t* results) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t x = values[i];
    const auto bits = static_cast<uint64_t>(x);
    int64_t y = 0;
    switch (function) {
      case 0:
        y = sff0(bits);
        break;
      case 1:
        y = sff1(bits);
        break;
      case 2:
        y = bcnt0(bits);
        break;
      case 3:
        y = bcnt1(bits);
        break;
      case 4:
        y = clz(bits);
        break;
      case 5:
        y = sflbits(x);
        break;
      case 6:
        y = static_cast<int64_t>(sbitset0(bits, 5));
        break;
      case 7:
        y = static_cast<int64_t>(sbitset1(bits, 5));
        break;
      case 8:
        y = conv_f322f16o(float_of(x)).bits();
        break;
      case 9:
        y = conv_f322s32a(float_of(x));
        break;
      case 10:
        y = conv_f322s32c(float_of(x));
        break;
      case 11:
        y = conv_f322s32f(float_of(x));
        break;
      case 12:
        y = conv_f322s32r(float_of(x));
        break;
      default:
        hajax::emulator::kernel_fault(hajax::emulator::Check::launch, "no such function");
    }
    hajax::emulator::scalar_write(Space::GM, results + i, sizeof y);
    results[i] = y;
  }
}

// results[index of the core] = how many there are.
extern "C" __global__ __aicore__ void cores(__gm__ int64_t* results) {
  int64_t* mine = results + get_block_idx();
  hajax::emulator::scalar_write(Space::GM, mine, sizeof *mine);
  *mine = get_block_num();
}

// Every core adds its share of `terms` to the same sums, `rounds` times with a SyncAll between.
extern "C" __global__ __aicore__ void add_up(__gm__ uint8_t* terms, __gm__ uint8_t* sums, int64_t bytes,
                                             int64_t rounds) {
  uint8_t* ub = hajax::emulator::space_base(Space::UB);
  copy_gm_to_ubuf(ub, terms + get_block_idx() * bytes, 0, 1, bytes / kBlock, 0, 0);
  set_flag(PIPE_MTE2, PIPE_MTE3, 0);
  wait_flag(PIPE_MTE2, PIPE_MTE3, 0);
  set_atomic_f32();
  for (int64_t round = 0; round < rounds; ++round) {
    if (round > 0) hajax::emulator::sync_all();
    copy_ubuf_to_gm(sums, ub, 0, 1, bytes / kBlock, 0, 0);
  }
  set_atomic_none();
}
