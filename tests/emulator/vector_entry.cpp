// One entry for every vector instruction: a program of integers names instructions and their arguments, so that the
// property tests draw them without compiling anything anew.
#include <string.h>

#include "native/emulator/core/services.h"
#include "native/emulator/instructions/move.h"
#include "native/emulator/instructions/sync.h"
#include "native/emulator/instructions/vector.h"

namespace {

using hajax::emulator::Space;

// Words of one case: which instruction, counter mode, mask, scale register, UB offset of the compare mask (-1: none),
// then its arguments.
constexpr int kCaseWords = 48;
constexpr int kFirstArgument = 6;
constexpr int kResultWords = 4;
constexpr int kBlock = 32;

struct Arguments {
  const int64_t* word;

  template <typename T>
  T* ub(int i) const {
    return reinterpret_cast<T*>(hajax::emulator::space_base(Space::UB) + word[i]);
  }
  // The low bytes of a word, whatever T is.
  template <typename T>
  T bits(int i) const {
    T value;
    memcpy(static_cast<void*>(&value), word + i, sizeof value);
    return value;
  }
  ub_addr8_t addresses(int first, int which) const {
    uint64_t found[16];
    for (int i = 0; i < 16; ++i) found[i] = reinterpret_cast<uint64_t>(ub<uint8_t>(first + i));
    set_va_reg_sb(static_cast<ub_addr8_t>(which), found);
    set_va_reg_sb(static_cast<ub_addr8_t>(which + 1), found + 8);
    return static_cast<ub_addr8_t>(which);
  }
  // The config word of gather and scatter: UB offset, dst's and src's stride, repeat.
  uint64_t config(int i) const {
    const auto base = reinterpret_cast<uint64_t>(ub<uint8_t>(i)) & 0xffffffff;
    return base | static_cast<uint64_t>(word[i + 1]) << 32 | static_cast<uint64_t>(word[i + 2]) << 40 |
           static_cast<uint64_t>(word[i + 3]) << 56;
  }
};

struct Entry {
  const char* name;  // instruction function types
  void (*call)(const Arguments&);
};

#define BINARY(function, instruction, D, S)                                                                          \
  {#instruction " " #function " " #D " " #S, [](const Arguments& a) {                                                \
     function(a.ub<D>(0), a.ub<const S>(1), a.ub<const S>(2), a.word[3], a.word[4], a.word[5], a.word[6], a.word[7], \
              a.word[8], a.word[9]);                                                                                 \
   }},
#define UNARY(function, instruction, D, S)                                                          \
  {#instruction " " #function " " #D " " #S, [](const Arguments& a) {                               \
     function(a.ub<D>(0), a.ub<const S>(1), a.word[2], a.word[3], a.word[4], a.word[5], a.word[6]); \
   }},
#define SCALAR(function, instruction, D, S)                                                                       \
  {#instruction " " #function " " #D " " #S, [](const Arguments& a) {                                             \
     function(a.ub<D>(0), a.ub<const S>(1), a.bits<S>(2), a.word[3], a.word[4], a.word[5], a.word[6], a.word[7]); \
   }},
#define REDUCE(function, instruction, D, S)  \
  {#instruction " " #function " " #D " " #S, \
   [](const Arguments& a) { function(a.ub<D>(0), a.ub<const S>(1), a.word[2], a.word[3], a.word[4], a.word[5]); }},
#define EXTREME(function, instruction, D, S)                                                                   \
  {#instruction " " #function " " #D " " #S, [](const Arguments& a) {                                          \
     function(a.ub<D>(0), a.ub<const S>(1), a.word[2], a.word[3], a.word[4], a.word[5], 0, 0, a.word[6] != 0); \
   }},
#define COMPARE(suffix, T)                                                                                             \
  {"vcmp vcmp_" #suffix " " #T,                                                                                        \
   [](const Arguments& a) {                                                                                            \
     vcmp_##suffix(a.ub<const T>(1), a.ub<const T>(2), a.word[3], a.word[4], a.word[5], a.word[6], a.word[7],          \
                   a.word[8], a.word[9]);                                                                              \
     pipe_barrier(PIPE_V);                                                                                             \
     get_cmpmask(a.ub<uint8_t>(0));                                                                                    \
   }},                                                                                                                 \
      {"vcmpv vcmpv_" #suffix " " #T,                                                                                  \
       [](const Arguments& a) {                                                                                        \
         vcmpv_##suffix(a.ub<uint8_t>(0), a.ub<const T>(1), a.ub<const T>(2), a.word[3], a.word[4], a.word[5],         \
                        a.word[6], a.word[7], a.word[8], a.word[9]);                                                   \
       }},                                                                                                             \
      {"vcmpvs vcmpvs_" #suffix " " #T, [](const Arguments& a) {                                                       \
         vcmpvs_##suffix(a.ub<uint8_t>(0), a.ub<const T>(1), a.bits<T>(2), a.word[3], a.word[4], a.word[5], a.word[6], \
                         a.word[7]);                                                                                   \
       }},
#define COMPARE_ALL(suffix, operation) COMPARE(suffix, half) COMPARE(suffix, float)
// The register mode twice: as the call without a mode, and with mode 0. Mode 2: the bits' address goes through UB.
#define SELECT(T, Bits)                                                                                              \
  {"vsel vsel_short " #T,                                                                                            \
   [](const Arguments& a) {                                                                                          \
     vsel(a.ub<T>(0), a.ub<const T>(1), a.ub<const T>(2), a.word[3], a.word[4], a.word[5], a.word[6], a.word[7],     \
          a.word[8], a.word[9]);                                                                                     \
   }},                                                                                                               \
      {"vsel vsel_register " #T,                                                                                     \
       [](const Arguments& a) {                                                                                      \
         vsel(a.ub<T>(0), a.ub<const T>(1), a.ub<const T>(2), a.word[3], a.word[4], a.word[5], a.word[6], a.word[7], \
              a.word[8], a.word[9], 0);                                                                              \
       }},                                                                                                           \
      {"vsel vsel_scalar " #T,                                                                                       \
       [](const Arguments& a) {                                                                                      \
         vsel(a.ub<T>(0), a.ub<const T>(1), a.ub<const Bits>(2), a.word[3], a.word[4], a.word[5], a.word[6],         \
              a.word[7], a.word[8], a.word[9], 1);                                                                   \
       }},                                                                                                           \
      {"vsel vsel_tensor " #T, [](const Arguments& a) {                                                              \
         const auto address = static_cast<uint32_t>(reinterpret_cast<uint64_t>(a.ub<uint8_t>(10)));                  \
         uint8_t* place = a.ub<uint8_t>(11);                                                                         \
         hajax::emulator::scalar_write(Space::UB, place, sizeof address);                                            \
         memcpy(place, &address, sizeof address);                                                                    \
         set_cmpmask(place);                                                                                         \
         pipe_barrier(PIPE_V);                                                                                       \
         vsel(a.ub<T>(0), a.ub<const T>(1), a.ub<const T>(2), a.word[3], a.word[4], a.word[5], a.word[6], a.word[7], \
              a.word[8], a.word[9], 2);                                                                              \
       }},
#define DUP(function, instruction, T) \
  {#instruction " " #function " " #T, \
   [](const Arguments& a) { function(a.ub<T>(0), a.bits<T>(1), a.word[2], a.word[3], 1, a.word[4], 0); }},
#define DEQUANTIZE(function, D)                                                                                \
  {"vconv " #function " " #D, [](const Arguments& a) {                                                         \
     function(a.ub<D>(0), a.ub<const int16_t>(1), a.word[2], a.word[3], a.word[4], a.word[5], a.word[6], 0, 0, \
              a.word[7] != 0);                                                                                 \
   }},
#define VECTOR_DEQUANTIZE(D)                                                                                           \
  {"vconv vconv_vdeqs162b8 " #D, [](const Arguments& a) {                                                              \
     set_deqscale(reinterpret_cast<uint64_t>(a.ub<uint8_t>(8)));                                                       \
     vconv_vdeqs162b8(a.ub<D>(0), a.ub<const int16_t>(1), a.word[2], a.word[3], a.word[4], a.word[5], a.word[6], 0, 0, \
                      a.word[7] != 0);                                                                                 \
   }},
#define MATRIX(T)           \
  {"v4dtrans v4dtrans " #T, \
   [](const Arguments& a) { v4dtrans(a.ub<T>(0), a.ub<const T>(1), a.word[2], a.word[3], a.word[4] != 0); }},
#define INDEXED(T)                                                                                                 \
  {"vgather vgather " #T, [](const Arguments& a) { vgather(a.ub<T>(0), a.ub<const uint32_t>(1), a.config(2)); }},  \
      {"vscatter vscatter " #T,                                                                                    \
       [](const Arguments& a) { vscatter(a.ub<const uint32_t>(0), a.ub<const T>(1), a.config(2)); }},              \
      {"vreduce vreduce " #T, [](const Arguments& a) {                                                             \
         vreduce(a.ub<T>(0), a.ub<const T>(1), a.ub<const T>(2), a.word[3], 1, a.word[4], a.word[5], 8, a.word[6], \
                 a.word[7]);                                                                                       \
       }},
#define BROADCAST(T) \
  {"vbrcb vbrcb " #T, [](const Arguments& a) { vbrcb(a.ub<T>(0), a.ub<const T>(1), a.word[2], a.word[3], a.word[4]); }},
#define COUNT_UP(T) \
  {"vci vci " #T, [](const Arguments& a) { vci(a.ub<T>(0), a.bits<T>(1), a.word[2], a.word[3], a.word[4]); }},

const Entry kEntries[] = {
    HAJAX_VECTOR_BINARY(BINARY) HAJAX_VECTOR_TERNARY(BINARY) HAJAX_VECTOR_UNARY(UNARY) HAJAX_VECTOR_SCALAR(SCALAR)
        HAJAX_VECTOR_SCALAR_TERNARY(SCALAR) HAJAX_VECTOR_REDUCE(REDUCE) HAJAX_VECTOR_EXTREME(EXTREME)
            HAJAX_VECTOR_COMPARISONS(COMPARE_ALL) SELECT(half, uint16_t) SELECT(float, uint8_t) HAJAX_VECTOR_DUP(DUP)
                DEQUANTIZE(vconv_deqs162b8, int8_t) DEQUANTIZE(vconv_deqs162b8, uint8_t) VECTOR_DEQUANTIZE(int8_t)
                    VECTOR_DEQUANTIZE(uint8_t) MATRIX(uint8_t) MATRIX(uint16_t) MATRIX(uint32_t) INDEXED(uint16_t)
                        INDEXED(uint32_t) BROADCAST(uint16_t) BROADCAST(uint32_t) COUNT_UP(half) COUNT_UP(float)
                            COUNT_UP(int16_t) COUNT_UP(int32_t){
        "vtranspose vtranspose uint16_t",
        [](const Arguments& a) { vtranspose(a.ub<uint16_t>(0), a.ub<const uint16_t>(1)); }},
    {"vnchwconv scatter_vnchwconv_b8 uint8_t",
     [](const Arguments& a) {
       scatter_vnchwconv_b8(a.addresses(5, VA0), a.addresses(21, VA2), a.word[0], a.word[1], a.word[2], a.word[3] != 0,
                            a.word[4] != 0);
     }},
    {"vnchwconv scatter_vnchwconv_b16 uint16_t",
     [](const Arguments& a) {
       scatter_vnchwconv_b16(a.addresses(5, VA4), a.addresses(21, VA6), a.word[0], a.word[1], a.word[2]);
     }},
    {"vnchwconv scatter_vnchwconv_b32 uint32_t",
     [](const Arguments& a) {
       scatter_vnchwconv_b32(a.addresses(5, VA0), a.addresses(21, VA2), a.word[0], a.word[1], a.word[2]);
     }},
    {"set_cmpmask set_cmpmask", [](const Arguments& a) { set_cmpmask(a.ub<uint8_t>(0)); }},
    {"get_cmpmask get_cmpmask",
     [](const Arguments& a) {
       set_cmpmask(a.ub<uint8_t>(1));
       pipe_barrier(PIPE_V);
       get_cmpmask(a.ub<uint8_t>(0));
     }},
};

// The scalar unit stores one value at a time.
template <typename T>
void put(uint8_t* where, T value) {
  hajax::emulator::scalar_write(Space::GM, where, sizeof value);
  memcpy(where, &value, sizeof value);
}

void run_case(const int64_t* words, uint8_t* results) {
  set_deqscale(static_cast<uint64_t>(words[4]));
  set_vector_mask(~uint64_t{0}, ~uint64_t{0});
  const Arguments arguments{words + kFirstArgument};
  if (words[5] >= 0) {
    set_cmpmask(Arguments{words}.ub<uint8_t>(5));
    pipe_barrier(PIPE_V);
  }
  if (words[1] != 0) set_mask_count();
  set_vector_mask(static_cast<uint64_t>(words[2]), static_cast<uint64_t>(words[3]));
  kEntries[words[0]].call(arguments);
  set_mask_norm();
  pipe_barrier(PIPE_ALL);
  const int64_t left[kResultWords] = {get_acc_val(), get_max_min_cnt(), get_rsvd_cnt(), get_ctrl()};
  for (int i = 0; i < kResultWords; ++i) put(results + i * static_cast<int>(sizeof(int64_t)), left[i]);
}

}  // namespace

// The names of kEntries, one a line.
extern "C" __global__ __aicore__ void vector_names(uint8_t* text, uint64_t bytes) {
  uint64_t used = 0;
  for (const Entry& entry : kEntries) {
    for (const char* letter = entry.name;; ++letter) {
      if (used == bytes) hajax::emulator::kernel_fault(hajax::emulator::Check::launch, "no room for the names");
      put(text + used++, *letter == 0 ? '\n' : *letter);
      if (*letter == 0) break;
    }
  }
}

// For each case: its UB image comes in, one instruction runs, the image and the registers go out.
extern "C" __global__ __aicore__ void vector_entry(uint8_t* program, uint8_t* images, uint8_t* results, uint64_t cases,
                                                   uint64_t image_bytes) {
  uint8_t* ub = hajax::emulator::space_base(Space::UB);
  for (uint64_t i = 0; i < cases; ++i) {
    copy_gm_to_ubuf(ub, images + i * image_bytes, 0, 1, static_cast<int64_t>(image_bytes / kBlock), 0, 0);
    pipe_barrier(PIPE_ALL);
    int64_t words[kCaseWords];
    memcpy(words, program + i * sizeof words, sizeof words);
    run_case(words, results + i * kResultWords * sizeof(int64_t));
    copy_ubuf_to_gm(images + i * image_bytes, ub, 0, 1, static_cast<int64_t>(image_bytes / kBlock), 0, 0);
    pipe_barrier(PIPE_ALL);
  }
}
