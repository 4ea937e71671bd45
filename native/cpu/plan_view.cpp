#include "native/cpu/plan_view.h"

#include <cstring>

#include "native/cpu/isa.h"

#ifndef HAJAX_ABI_DIGEST
#error "CMake defines HAJAX_ABI_DIGEST, the SHA-256 of hajax/abi"
#endif

namespace hajax::cpu {
namespace {

static_assert(sizeof(hj_plan_header) == 56, "explicit padding only");
static_assert(sizeof(hj_cpu_plan) == 56 + 14 * 4 + 8, "explicit padding only");
static_assert(sizeof(HAJAX_ABI_DIGEST) == 2 * HJ_DIGEST_BYTES + 1, "SHA-256 in hexadecimal");

constexpr int32_t kMaxDim = 256;
constexpr int32_t kDimStep = 8;
constexpr int32_t kMaxHeads = 1 << 16;
constexpr int32_t kMaxWorkers = 4096;
constexpr int64_t kScratchStep = 64;

std::string hexadecimal(const uint8_t* bytes, int count) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

Failure bad(const std::string& field, const std::string& expected, const std::string& got) {
  return wrong(kStatus_bad_plan, "plan", field, expected, got);
}

Failure bad(const std::string& field, const std::string& expected, int64_t got) {
  return bad(field, expected, std::to_string(got));
}

bool between(int64_t n, int64_t low, int64_t high) { return n >= low && n <= high; }

Failure check_header(const hj_plan_header& header) {
  if (header.magic != HJ_PLAN_MAGIC) return bad("magic", std::to_string(HJ_PLAN_MAGIC), header.magic);
  if (header.total_bytes != sizeof(hj_cpu_plan))
    return bad("total_bytes", std::to_string(sizeof(hj_cpu_plan)), header.total_bytes);
  const std::string digest = hexadecimal(header.abi_digest, HJ_DIGEST_BYTES);
  if (digest != abi_digest()) return bad("abi_digest", std::string(abi_digest()) + " (this library's)", digest);
  if (header.backend != kBackend_cpu) return bad("backend", std::to_string(kBackend_cpu) + " (cpu)", header.backend);
  if (!between(header.decay, kDecay_none, kDecay_per_channel))
    return bad("decay", "a number of decays.def", header.decay);
  if (!between(header.delta, 0, 1)) return bad("delta", "0 or 1", header.delta);
  const int32_t strengths = header.delta != 0 ? 2 : 1;  // without the correction there is nothing to erase
  if (!between(header.strengths, 1, strengths)) {
    return bad("strengths", strengths == 2 ? "1 or 2" : "1 without delta", header.strengths);
  }
  return {};
}

Failure check_dim(const char* field, int32_t dim) {
  if (between(dim, kDimStep, kMaxDim) && dim % kDimStep == 0) return {};
  return bad(field, "a multiple of 8 in 8..256", dim);
}

Failure check_operator(const hj_cpu_plan& p) {
  if (dtype_bytes(p.input_dtype) == 0) return bad("input_dtype", "a number of dtypes.def", p.input_dtype);
  if (dtype_bytes(p.output_dtype) == 0) return bad("output_dtype", "a number of dtypes.def", p.output_dtype);
  if (!between(p.key_heads, 1, kMaxHeads)) return bad("key_heads", "1..65536", p.key_heads);
  if (!between(p.value_heads, 1, kMaxHeads) || p.value_heads % p.key_heads != 0) {
    return bad("value_heads", "a multiple of key_heads (" + std::to_string(p.key_heads) + ") up to 65536",
               p.value_heads);
  }
  if (Failure f = check_dim("key_dim", p.key_dim); f.failed()) return f;
  return check_dim("value_dim", p.value_dim);
}

Failure check_tiling(const hj_cpu_plan& p, const Kernels& kernels) {
  if (p.chunk != 16 && p.chunk != 32 && p.chunk != 64 && p.chunk != 128)
    return bad("chunk", "16, 32, 64 or 128", p.chunk);
  if (p.panel != kernels.panel) {
    return bad("panel", std::to_string(kernels.panel) + " (of ISA " + isa_name(p.isa) + ")", p.panel);
  }
  const int32_t per_key = p.value_heads / p.key_heads;
  const bool whole = p.group > per_key && p.group % per_key == 0 && p.value_heads % p.group == 0;
  if (!whole && (!between(p.group, 1, per_key) || per_key % p.group != 0)) {
    const std::string shared = std::to_string(per_key);
    return bad("group", "a divisor of " + shared + " value heads a key head, or all of some of the key heads", p.group);
  }
  const int32_t panels = (p.value_dim + p.panel - 1) / p.panel;
  if (!between(p.column_blocks, 1, panels)) {
    return bad("column_blocks", "1.." + std::to_string(panels) + " (the panels of a head)", p.column_blocks);
  }
  if (p.token_steps < 0) return bad("token_steps", "0 or more", p.token_steps);
  if (!between(p.workers, 1, kMaxWorkers)) return bad("workers", "1..4096", p.workers);
  return {};
}

Failure check_bf16_dot(const hj_cpu_plan& p, const Kernels& kernels, GramFunction* gram) {
  *gram = nullptr;
  if (p.bf16_dot == 0) return {};
  if (p.bf16_dot != 1) return bad("bf16_dot", "0 or 1", p.bf16_dot);
  if (p.header.decay == kDecay_per_channel) return bad("bf16_dot", "0 with a decay per channel", p.bf16_dot);
  if (kernels.matrix) return {};  // any type, in parts of bf16
  if (p.input_dtype != kDtype_bfloat16) return bad("bf16_dot", "0 unless input_dtype is bfloat16", p.bf16_dot);
  if (p.isa != kIsa_avx512) return bad("bf16_dot", std::string("0 with ISA ") + isa_name(p.isa), p.bf16_dot);
  *gram = bf16_gram();
  if (*gram == nullptr)
    return wrong(kStatus_unsupported, "plan", "bf16_dot", "0 (this CPU has no bf16 dot product)", "1");
  return {};
}

}  // namespace

const char* abi_digest() { return HAJAX_ABI_DIGEST; }

int64_t dtype_bytes(int32_t dtype) {
  switch (dtype) {
#define DTYPE(number, name, bytes) \
  case number:                     \
    return bytes;
#include "hajax/abi/dtypes.def"
#undef DTYPE
    default:
      return 0;
  }
}

Failure read_plan(const void* bytes, int64_t count, PlanView* view) {
  if (bytes == nullptr) return bad("bytes", "a pointer", "null");
  if (count != static_cast<int64_t>(sizeof(hj_cpu_plan)))
    return bad("size", std::to_string(sizeof(hj_cpu_plan)) + " bytes", count);
  std::memcpy(&view->plan, bytes, sizeof(hj_cpu_plan));  // the bytes may lie at any address
  const hj_cpu_plan& p = view->plan;
  if (Failure f = check_header(p.header); f.failed()) return f;
  if (Failure f = check_operator(p); f.failed()) return f;
  if (isa_name(p.isa) == nullptr) return bad("isa", "a number of isas.def", p.isa);
  if (!isa_runs(p.isa)) {
    return wrong(kStatus_unsupported, "plan", "isa", "one that this library has and this CPU runs", isa_name(p.isa));
  }
  view->kernels = built_kernels(p.isa);
  if (Failure f = check_tiling(p, *view->kernels); f.failed()) return f;
  if (Failure f = check_bf16_dot(p, *view->kernels, &view->gram); f.failed()) return f;
  view->layout = layout_of(p, view->kernels->matrix && p.bf16_dot != 0);
  view->needed_scratch_bytes = view->layout.floats * static_cast<int64_t>(sizeof(float));
  return {};
}

Failure check_scratch(const PlanView& view) {
  const int64_t given = view.plan.scratch_bytes;
  const int64_t needed = view.needed_scratch_bytes;
  constexpr int64_t kMost = INT64_MAX / kMaxWorkers;
  if (given >= needed && given <= kMost && given % kScratchStep == 0) return {};
  return bad("scratch_bytes", "a multiple of 64, at least " + std::to_string(needed), given);
}

}  // namespace hajax::cpu
