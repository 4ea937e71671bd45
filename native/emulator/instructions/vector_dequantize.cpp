// int16 to 8 bits with scale and offset. Documents: "CastDequant", "SetDeqScale" of the public API reference.
//
// A scale is a float of which the chip keeps 10 mantissa bits, an offset 9 bits with sign, both in one 64-bit word with
// a bit that says whether results are signed. value * scale + offset is computed exactly here and rounded once, to
// nearest even, then clamped; how wide the chip's intermediate is, the documents do not say.
#include "native/emulator/core/services.h"
#include "native/emulator/instructions/vector.h"
#include "native/emulator/instructions/vector_lanes.h"

namespace hajax::emulator {
namespace {

constexpr int kLanes = 128;
constexpr int kPerBlock = 16;
constexpr int kOffsetBit = 37;
constexpr int kOffsetBits = 9;
constexpr int kSignedBit = 46;
constexpr uint32_t kKeptMantissa = 0xffffe000;  // sign, exponent and 10 bits of mantissa
constexpr uint64_t kAddressMask = 0x3fff;       // of the register that names sixteen words in UB, in 32-byte blocks

struct Quantization {
  double scale;
  double offset;
  bool has_sign;
};

Quantization unpack(uint64_t word) {
  const auto field = static_cast<int64_t>(word >> kOffsetBit & ((1 << kOffsetBits) - 1));
  const int64_t offset = field - (field >> (kOffsetBits - 1) << kOffsetBits);
  return {static_cast<double>(float_of(static_cast<uint32_t>(word) & kKeptMantissa)), static_cast<double>(offset),
          (word >> kSignedBit & 1) != 0};
}

struct Arguments {
  Operand src;
  uint8_t* dst;                                 // of the half that is written
  int64_t dst_block_stride, dst_repeat_stride;  // in bytes
};

// words: sixteen, one for each element of a block.
template <typename D>
uint64_t run_dequantize(const Shape& shape, const Arguments& arguments, const uint64_t* words) {
  uint64_t clamped = 0;
  int16_t value[kLanes];
  for (int32_t r = 0; r < shape.repeats; ++r) {
    load(arguments.src, shape, r, value);
    const Lanes& lanes = shape.lanes_of(r);
    for (int i = 0; i < kLanes; ++i) {
      if (!lanes[i]) continue;
      const Quantization to = unpack(words[i % kPerBlock]);
      const double result = round_even(value[i] * to.scale + to.offset);
      clamped += is_finite(to.scale) && outside<D>(result) ? 1 : 0;
      const D element = narrow<D>(result);
      memcpy(
          arguments.dst + r * arguments.dst_repeat_stride + i / kPerBlock * arguments.dst_block_stride + i % kPerBlock,
          &element, 1);
    }
  }
  return clamped;
}

template <typename D>
void check_sign(VectorIssue& decoded, uint64_t word) {
  constexpr bool kSigned = std::is_same_v<D, int8_t>;
  if (unpack(word).has_sign != kSigned)
    decoded.fail(Check::limit, std::string("dst is ") + (kSigned ? "int8_t" : "uint8_t") +
                                   ": expected the sign bit of the scale's word to say so");
}

uint8_t* words_address(uint64_t config) {
  auto* pointer = reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(config));
  const int64_t offset = core().offset(Space::UB, pointer);
  if (offset >= 0 && offset < core().target().ub_bytes) return pointer;
  return core().base(Space::UB) + (config & kAddressMask) * kBlockBytes;
}

template <typename D>
void dequantize(const void* where, D* dst, const int16_t* src, int64_t repeat, const int64_t (&strides)[4],
                const int64_t (&reserved)[2], bool upper_half, bool vector_of_words) {
  VectorIssue decoded(Instruction::vconv, where, kLanes, repeat);
  for (const int64_t value : reserved) decoded.reserved("a reserved argument", value);
  decoded.limit("dst block stride", strides[0], kWordField);
  decoded.limit("dst repeat stride", strides[2], kByteField);
  const Operand from = operand("src", const_cast<int16_t*>(src), strides[1], strides[3]);
  decoded.read(from, kWordField, kByteField);
  const Arguments arguments{from, reinterpret_cast<uint8_t*>(dst) + (upper_half ? kPerBlock : 0),
                            strides[0] * kBlockBytes, strides[2] * kBlockBytes};
  Access to;
  to.operand = "dst";
  to.write = true;
  to.lane_bytes = 1;
  to.address = arguments.dst;
  to.bytes = kPerBlock;
  to.blocks = kLanes / kPerBlock;
  to.block_stride = arguments.dst_block_stride;
  to.repeats = decoded.shape().repeats;
  to.repeat_stride = arguments.dst_repeat_stride;
  to.alignment = kPerBlock;
  decoded.add(to);
  const uint64_t config = core().registers.deq_scale;
  const uint8_t* words = nullptr;
  if (vector_of_words) {
    words = words_address(config);
    Access read;
    read.operand = "the scales";
    read.address = words;
    read.bytes = kPerBlock * 8;
    decoded.add(read);
  } else {
    check_sign<D>(decoded, config);
  }
  core().issue(decoded.issue(), [=, shape = decoded.shape()] {
    uint64_t word[kPerBlock];
    if (words != nullptr) {
      memcpy(word, words, sizeof word);
    } else {
      std::fill_n(word, kPerBlock, config);
    }
    const uint64_t clamped = run_dequantize<D>(shape, arguments, word);
    if (clamped != 0) core().saturated(clamped, named(Instruction::vconv, where));
  });
}

}  // namespace
}  // namespace hajax::emulator

namespace sim = hajax::emulator;

#define HAJAX_DEFINE(function, D, vector_of_words)                                                              \
  void function(D* dst, const int16_t* src, int64_t repeat, int64_t dst_block_stride, int64_t src_block_stride, \
                int64_t dst_repeat_stride, int64_t src_repeat_stride, int64_t reserved0, int64_t reserved1,     \
                bool upper_half) {                                                                              \
    sim::dequantize(HAJAX_WHERE(), dst, src, repeat,                                                            \
                    {dst_block_stride, src_block_stride, dst_repeat_stride, src_repeat_stride},                 \
                    {reserved0, reserved1}, upper_half, vector_of_words);                                       \
  }
HAJAX_DEFINE(vconv_deqs162b8, int8_t, false)
HAJAX_DEFINE(vconv_deqs162b8, uint8_t, false)
HAJAX_DEFINE(vconv_vdeqs162b8, int8_t, true)
HAJAX_DEFINE(vconv_vdeqs162b8, uint8_t, true)
